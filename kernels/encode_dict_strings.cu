// Dictionaries of strings: the distinct values of chunks in ascending order, and the code of every
// row; the same as src/encoding/dict/distinct.rs. Null rows are empty strings.
//
//   sample_strings           a block a chunk: what a sample of its vectors promises
//   distinct_strings_find    a warp a vector: every value into its chunk's hash table, as the high
//                            half of its hash and its row; bytes are compared where halves are
//                            equal
//   distinct_strings_sort    a block a table: rows of distinct values, sorted; codes into the
//                            table, lengths for the host
//   distinct_strings_copy    a warp a distinct value: its bytes, for the host
//   distinct_strings_codes   a warp a vector: the code of every row
//
// Codes are words as others from there on. Distinct values are few: the host encodes them, with
// whatever codec it plans for them.
#include "encode_rows.cuh"
#include "texts.cuh"

namespace lanepack {

// sample_strings_*.
struct SampleStringsArguments {
    FsstWindow window;
    SampledRows* chunks;
};
static_assert(sizeof(SampleStringsArguments) == 184, "mirrored");

// distinct_strings_*.
struct DistinctStringsArguments {
    FsstWindow window;
    const DistinctTable* tables;
    // For each table: distinct values, more than `most` if there are too many.
    u32* counts;
    // For each row of the column its code.
    u32* codes;
    // For each distinct value of all tables its length, and where its bytes go.
    u32* lengths;
    const u64* places;
    u8* bytes;
    u64 seed;
    u32 blocks_per_table;
    u32 zero;
};
static_assert(sizeof(DistinctStringsArguments) == 240, "mirrored");

// A hash of a value, the same everywhere; as `hash_of` of src/encoding/dict/distinct.rs.
LANEPACK_DEVICE u64 hash_of(const Text& text) {
    const u32 length = min(text.length, HASHED);
    u64 hash = text.length;
    for (u32 i = 0; i < length; i += 8) {
        hash = folded((hash ^ leading_bytes(text.bytes + i, length - i)) * MULTIPLIER);
    }
    return hash;
}

// A hash of which nobody who does not know the seed can make two values share one: both halves of
// products with a secret number, as those of wyhash and its kind.
LANEPACK_DEVICE u64 secret_hash_of(const Text& text, u64 seed) {
    const u32 length = min(text.length, HASHED);
    const u64 factor = seed | 1;
    u64 hash = (text.length ^ seed) * MULTIPLIER;
    for (u32 i = 0; i < length; i += 8) {
        const u64 word = hash ^ leading_bytes(text.bytes + i, length - i);
        hash = (word * factor ^ __umul64hi(word, factor)) + seed;
    }
    return folded(hash * MULTIPLIER);
}

// Rows of a chunk.
struct ChunkRows {
    u32 first;
    u32 count;

    LANEPACK_DEVICE ChunkRows(const FsstWindow& window, u32 chunk)
        : first(chunk * window.chunk_rows), count(min(window.rows - first, window.chunk_rows)) {}
};

template <class Offset>
LANEPACK_DEVICE void sample_strings(const SampleStringsArguments& args) {
    LANEPACK_SHARED(u32[Counters::ALL_WORDS], bitmaps);
    LANEPACK_SHARED(u32[3 * Counters::WARPS], sums);
    const Counters counters(&bitmaps[0]);
    const StringReader<Offset> reader{args.window};
    const ChunkRows rows(args.window, blockIdx.x);
    const u32 vectors = (rows.count + VECTOR - 1) / VECTOR;
    const u32 taken = min(vectors, SAMPLED_VECTORS);
    const u32 warp = warp_in_block();
    u32 values = 0;
    if (warp < taken) {
        const u32 first = warp * vectors / taken * VECTOR;
        const u32 end = min(first + VECTOR, rows.count);
        for (u32 row = first + threadIdx.x % WARP; row < end; row += WARP) {
            counters.count(hash_of(text_or_empty(reader, rows.first + row)));
            values++;
        }
    }
    __syncthreads();
    const uint2 counted = counters.counted();
    u32 found[3] = {values, counted.x, counted.y};
    u32 all[3];
    block_sums_before(found, sums, all);
    if (threadIdx.x == 0) args.chunks[blockIdx.x] = SampledRows{all[0], all[1], all[2], 0, 0, 0};
}

LANEPACK_KERNEL(sample_strings_32, SAMPLE_THREADS, 2, SampleStringsArguments) { sample_strings<u32>(args); }
LANEPACK_KERNEL(sample_strings_64, SAMPLE_THREADS, 2, SampleStringsArguments) { sample_strings<u64>(args); }

// A table of strings, of rows of a chunk.
template <class Offset>
struct TextTable {
    static constexpr u64 ROW = (u64{1} << 32) - 1;
    const DistinctTable table;
    const u64 seed;
    StringReader<Offset> reader;
    ChunkRows rows;

    LANEPACK_DEVICE TextTable(const DistinctStringsArguments& args, u32 number)
        : table(args.tables[number]), seed(args.seed), reader{args.window}, rows(args.window, table.chunk) {}

    LANEPACK_DEVICE Text text(u64 row) const {
        return text_or_empty(reader, rows.first + static_cast<u32>(row));
    }

    // Whether a key is that of a value.
    LANEPACK_DEVICE bool is_of(u64 key, u64 hash, const Text& value) const {
        if (key >> 32 != hash >> 32) return false;
        const Text other = text(key & ROW);
        return other.length == value.length && compare(other, value) == 0;
    }

    LANEPACK_DEVICE void insert(u32 row, u32* count) const {
        const Text value = text(row);
        const u64 hash = secret_hash_of(value, seed);
        const u64 key = (hash & ~ROW) | row;
        u32 slot = table.slot_of(hash);
        // A table that is full ends the search, too.
        for (u32 i = 0; i < table.slots(); i++) {
            const u64 now = table.claim(slot, table.seen(slot), key, count);
            if (now == DistinctTable::NONE) return table.add(row, count);
            if (now == key || is_of(now, hash, value)) return;
            slot = table.after(slot);
        }
    }

    // The slot of a row whose value is there.
    LANEPACK_DEVICE u32 find(u32 row) const {
        const Text value = text(row);
        const u64 hash = secret_hash_of(value, seed);
        u32 slot = table.slot_of(hash);
        for (u32 i = 0; i < table.slots() && !is_of(__ldg(table.keys + slot), hash, value); i++) {
            slot = table.after(slot);
        }
        return slot;
    }

    // Calls `visit(row)` for the rows of this thread in its warp's vector.
    template <class Visit>
    LANEPACK_DEVICE void each_row(u32 block, const Visit& visit) const {
        const u32 first = (block * (DISTINCT_THREADS / WARP) + warp_in_block()) * VECTOR;
        const u32 end = min(first + VECTOR, rows.count);
        for (u32 row = first + threadIdx.x % WARP; row < end; row += WARP) visit(row);
    }
};

template <class Offset>
LANEPACK_DEVICE void distinct_strings_find(const DistinctStringsArguments& args) {
    const u32 number = blockIdx.x / args.blocks_per_table;
    const TextTable<Offset> table(args, number);
    u32* count = args.counts + number;
    table.each_row(blockIdx.x % args.blocks_per_table, [&](u32 row) { table.insert(row, count); });
}

LANEPACK_KERNEL(distinct_strings_find_32, DISTINCT_THREADS, 4, DistinctStringsArguments) {
    distinct_strings_find<u32>(args);
}
LANEPACK_KERNEL(distinct_strings_find_64, DISTINCT_THREADS, 4, DistinctStringsArguments) {
    distinct_strings_find<u64>(args);
}

template <class Offset>
LANEPACK_DEVICE void distinct_strings_sort(const DistinctStringsArguments& args) {
    const TextTable<Offset> table(args, blockIdx.x);
    const u32 count = args.counts[blockIdx.x];
    sort_found(table.table, count, [&](u64 row) { return table.text(row); },
               [](const Text& one, const Text& other) { return compare(one, other) < 0; });
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += DISTINCT_SORT_THREADS) {
        const u32 row = static_cast<u32>(table.table.found[i]);
        table.table.codes[table.find(row)] = i;
        args.lengths[table.table.first + i] = table.text(row).length;
    }
}

LANEPACK_KERNEL(distinct_strings_sort_32, DISTINCT_SORT_THREADS, 1, DistinctStringsArguments) {
    distinct_strings_sort<u32>(args);
}
LANEPACK_KERNEL(distinct_strings_sort_64, DISTINCT_SORT_THREADS, 1, DistinctStringsArguments) {
    distinct_strings_sort<u64>(args);
}

template <class Offset>
LANEPACK_DEVICE void distinct_strings_copy(const DistinctStringsArguments& args) {
    const TextTable<Offset> table(args, blockIdx.x / args.blocks_per_table);
    const u32 count = args.counts[blockIdx.x / args.blocks_per_table];
    const u32 warp = blockIdx.x % args.blocks_per_table * (DISTINCT_THREADS / WARP) + warp_in_block();
    for (u32 i = warp; i < count; i += args.blocks_per_table * (DISTINCT_THREADS / WARP)) {
        const Text value = table.text(table.table.found[i]);
        u8* to = args.bytes + args.places[table.table.first + i];
        for (u32 at = threadIdx.x % WARP; at < value.length; at += WARP) to[at] = __ldg(value.bytes + at);
    }
}

LANEPACK_KERNEL(distinct_strings_copy_32, DISTINCT_THREADS, 4, DistinctStringsArguments) {
    distinct_strings_copy<u32>(args);
}
LANEPACK_KERNEL(distinct_strings_copy_64, DISTINCT_THREADS, 4, DistinctStringsArguments) {
    distinct_strings_copy<u64>(args);
}

template <class Offset>
LANEPACK_DEVICE void distinct_strings_codes(const DistinctStringsArguments& args) {
    const TextTable<Offset> table(args, blockIdx.x / args.blocks_per_table);
    u32* codes = args.codes + table.rows.first;
    table.each_row(blockIdx.x % args.blocks_per_table,
                   [&](u32 row) { codes[row] = __ldg(table.table.codes + table.find(row)); });
}

LANEPACK_KERNEL(distinct_strings_codes_32, DISTINCT_THREADS, 4, DistinctStringsArguments) {
    distinct_strings_codes<u32>(args);
}
LANEPACK_KERNEL(distinct_strings_codes_64, DISTINCT_THREADS, 4, DistinctStringsArguments) {
    distinct_strings_codes<u64>(args);
}

}  // namespace lanepack
