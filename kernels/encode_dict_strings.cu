// Dictionaries of strings: the distinct values of chunks in ascending order, and the code of every
// row; the same as src/encoding/dict/distinct.rs. Null rows are empty strings.
//
//   sample_strings           a block a chunk: what a sample of its vectors promises
//   distinct_strings_find    every value into its chunk's hash table, as the high half of its hash
//                            and its row, and the slot of every row; bytes are compared where
//                            halves are equal
//   distinct_strings_common  a block a table: how many bytes all that was found begins with
//   distinct_strings_sort    what was found, sorted in tiles by eight bytes behind these, and by
//                            the strings where they are equal
//   distinct_strings_merge   runs of these tiles, merged
//   distinct_strings_places  a block a table: codes into the table, where distinct values begin
//                            among its own, and their bytes for the host
//   distinct_strings_copy    the bytes of distinct values, and their offsets behind those of the
//                            tables before
//
// Codes of rows are words as others from there on (distinct_codes), and distinct values strings as
// others: a column of as many rows for each table, those behind its last value empty.
#include "distinct.cuh"
#include "texts.cuh"

namespace lanepack {

// sample_strings_*.
struct SampleStringsArguments {
    StringsView view;
    SampledRows* chunks;
};

// distinct_strings_*.
struct DistinctStringsArguments {
    StringsView view;
    const DistinctTable* tables;
    // For each table: distinct values, more than `most` if there are too many; and how many bytes
    // all of them begin with.
    u32* counts;
    u32* common;
    // For each row of the column the slot of its value.
    u32* slots;
    // `value_rows` for each table, and one more: where distinct values begin.
    u64* offsets;
    // For each table the bytes of its distinct values, and of those of the tables before.
    u64* totals;
    const u64* before;
    // The distinct values of all tables.
    u8* values;
    u64 seed;
    u32 blocks_per_table;
    u32 value_rows;
    // Keys of the runs that are merged, and whether they go to `spare`.
    u32 run;
    u32 to_spare;
};

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
// products with a secret number, as those of wyhash and its kind. Of all bytes: values that differ in
// the last one only must not share a hash either.
LANEPACK_DEVICE u64 secret_hash_of(const Text& text, u64 seed) {
    const u64 factor = seed | 1;
    u64 hash = (text.length ^ seed) * MULTIPLIER;
    u64 next = text.prefix;
    for (u32 i = 0; i < text.length; i += 8) {
        const u64 word = hash ^ next;
        hash = (word * factor ^ __umul64hi(word, factor)) + seed;
        if (i + 8 < text.length) next = leading_bytes(text.bytes + i + 8, text.length - i - 8);
    }
    return folded(hash * MULTIPLIER);
}

// Rows of a chunk.
struct ChunkRows {
    u32 first;
    u32 count;

    LANEPACK_DEVICE ChunkRows(const StringsView& view, u32 chunk)
        : first(chunk * view.chunk_rows),
          count(view.leaf_rows != nullptr ? view.leaf_rows[chunk] : min(view.rows - first, view.chunk_rows)) {}
};

template <class Offset>
LANEPACK_DEVICE void sample_strings(const SampleStringsArguments& args) {
    LANEPACK_SHARED(u32[Counters::ALL_WORDS], bitmaps);
    LANEPACK_SHARED(u32[3 * Counters::WARPS], sums);
    const Counters counters(&bitmaps[0]);
    const StringReader<Offset> reader{args.view};
    const ChunkRows rows(args.view, blockIdx.x);
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

// A distinct value that is being sorted: eight of its bytes as a number, then where it begins among
// those of its table; its row in the chunk, and its slot.
// Shared with the host.
struct TextKey {
    u64 bytes;
    u32 row;
    u32 slot;
};

// A table of strings, of rows of a chunk.
template <class Offset>
struct TextTable {
    static constexpr u64 ROW = (u64{1} << 32) - 1;
    const DistinctTable table;
    StringReader<Offset> reader;
    ChunkRows rows;

    LANEPACK_DEVICE TextTable(const DistinctStringsArguments& args, u32 number)
        : table(args.tables[number]), reader{args.view}, rows(args.view, table.chunk) {}

    LANEPACK_DEVICE Text text(u32 row) const { return text_or_empty(reader, rows.first + row); }

    // What was found as number `i`, to be sorted: the eight bytes behind `common`.
    LANEPACK_DEVICE TextKey key(u32 i, u32 common) const {
        const u64 found = table.found[i];
        const u32 row = static_cast<u32>(found);
        const Text value = text(row);
        const u64 bytes = value.length > common ? number_at(value.bytes + common, value.length - common) : 0;
        return {bytes, row, static_cast<u32>(found >> 32)};
    }

    LANEPACK_DEVICE bool is_less(const TextKey& one, const TextKey& other) const {
        if (one.bytes != other.bytes) return one.bytes < other.bytes;
        return compare(text(one.row), text(other.row)) < 0;
    }
};

// Rows of a thread that are looked up at a time.
constexpr u32 TEXTS_EACH = 4;

// Older architectures would spill with more.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr u32 FIND_BLOCKS = 2;
#else
constexpr u32 FIND_BLOCKS = 3;
#endif

template <class Offset>
LANEPACK_DEVICE void distinct_strings_find(const DistinctStringsArguments& args) {
    const u32 number = blockIdx.x / args.blocks_per_table;
    const TextTable<Offset> table(args, number);
    u32* const count = args.counts + number;
    const u32 first = (blockIdx.x % args.blocks_per_table * (DISTINCT_THREADS / WARP) + warp_in_block()) * VECTOR;
    if (first >= table.rows.count || has_too_many(table.table, count)) return;
    const u32 end = min(first + VECTOR, table.rows.count);
#pragma unroll 1
    for (u32 begin = first; begin < end; begin += TEXTS_EACH * WARP) {
        const u32 own = begin + threadIdx.x % WARP;
        Text texts[TEXTS_EACH];
        Insertions<TEXTS_EACH> rows;
        rows.pending = 0;
#pragma unroll
        for (u32 k = 0; k < TEXTS_EACH; k++) {
            const u32 row = own + k * WARP;
            if (row < end) rows.pending |= 1u << k;
            texts[k] = table.text(min(row, end - 1));
        }
#pragma unroll
        for (u32 k = 0; k < TEXTS_EACH; k++) {
            const u64 hash = secret_hash_of(texts[k], args.seed);
            rows.keys[k] = (hash & ~table.ROW) | (own + k * WARP);
            rows.slots[k] = table.table.slot_of(hash);
            rows.seen[k] = table.table.seen(rows.slots[k]);
        }
        const bool fits = rows.run(
            table.table, count,
            [&](u32 k, u64 other) {
                if (other >> 32 != rows.keys[k] >> 32) return false;
                const Text text = table.text(static_cast<u32>(other));
                return text.length == texts[k].length && compare(text, texts[k]) == 0;
            },
            [&](u32 k) { return u64{rows.slots[k]} << 32 | (own + k * WARP); });
        if (!fits) return;
#pragma unroll
        for (u32 k = 0; k < TEXTS_EACH; k++) {
            const u32 row = own + k * WARP;
            if (row < end) args.slots[table.rows.first + row] = rows.slots[k];
        }
    }
}

LANEPACK_KERNEL(distinct_strings_find_32, DISTINCT_THREADS, FIND_BLOCKS, DistinctStringsArguments) {
    distinct_strings_find<u32>(args);
}
LANEPACK_KERNEL(distinct_strings_find_64, DISTINCT_THREADS, FIND_BLOCKS, DistinctStringsArguments) {
    distinct_strings_find<u64>(args);
}

template <class Offset>
LANEPACK_DEVICE void distinct_strings_common(const DistinctStringsArguments& args) {
    LANEPACK_SHARED(u32[DISTINCT_SORT_THREADS / WARP], all);
    const TextTable<Offset> table(args, blockIdx.x);
    const u32 count = args.counts[blockIdx.x];
    const Text first = table.text(static_cast<u32>(table.table.found[0]));
    u32 common = first.length;
    for (u32 i = threadIdx.x; i < count && common > 0; i += DISTINCT_SORT_THREADS) {
        common = common_bytes(table.text(static_cast<u32>(table.table.found[i])), first, common);
    }
    common = warp_min(common);
    if (threadIdx.x % WARP == 0) all[threadIdx.x / WARP] = common;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (u32 i = 0; i < DISTINCT_SORT_THREADS / WARP; i++) common = min(common, all[i]);
    args.common[blockIdx.x] = common;
}

LANEPACK_KERNEL(distinct_strings_common_32, DISTINCT_SORT_THREADS, 1, DistinctStringsArguments) {
    distinct_strings_common<u32>(args);
}
LANEPACK_KERNEL(distinct_strings_common_64, DISTINCT_SORT_THREADS, 1, DistinctStringsArguments) {
    distinct_strings_common<u64>(args);
}

template <class Offset>
LANEPACK_DEVICE void distinct_strings_sort(const DistinctStringsArguments& args) {
    const u32 number = blockIdx.x / args.blocks_per_table;
    const TextTable<Offset> table(args, number);
    const u32 count = args.counts[number];
    const u32 first = blockIdx.x % args.blocks_per_table * SORT_TILE<TextKey>;
    if (first >= count) return;
    const u32 common = args.common[number];
    u8* const out = args.to_spare != 0 ? table.table.spare : table.table.sorted;
    sort_tile<TextKey>(
        min(count - first, SORT_TILE<TextKey>), [&](u32 i) { return table.key(first + i, common); },
        [&](const TextKey& one, const TextKey& other) { return table.is_less(one, other); },
        reinterpret_cast<TextKey*>(out) + first);
}

LANEPACK_KERNEL(distinct_strings_sort_32, DISTINCT_SORT_THREADS, 2, DistinctStringsArguments) {
    distinct_strings_sort<u32>(args);
}
LANEPACK_KERNEL(distinct_strings_sort_64, DISTINCT_SORT_THREADS, 2, DistinctStringsArguments) {
    distinct_strings_sort<u64>(args);
}

template <class Offset>
LANEPACK_DEVICE void distinct_strings_merge(const DistinctStringsArguments& args) {
    const u32 number = blockIdx.x / args.blocks_per_table;
    const TextTable<Offset> table(args, number);
    const u32 count = args.counts[number];
    const u32 tile = blockIdx.x % args.blocks_per_table;
    if (tile * SORT_TILE<TextKey> >= count) return;
    TextKey* const sorted = reinterpret_cast<TextKey*>(table.table.sorted);
    TextKey* const spare = reinterpret_cast<TextKey*>(table.table.spare);
    const bool to_spare = args.to_spare != 0;
    merge_tile(
        to_spare ? sorted : spare, count, tile, args.run,
        [&](const TextKey& one, const TextKey& other) { return table.is_less(one, other); },
        to_spare ? spare : sorted);
}

LANEPACK_KERNEL(distinct_strings_merge_32, DISTINCT_SORT_THREADS, 2, DistinctStringsArguments) {
    distinct_strings_merge<u32>(args);
}
LANEPACK_KERNEL(distinct_strings_merge_64, DISTINCT_SORT_THREADS, 2, DistinctStringsArguments) {
    distinct_strings_merge<u64>(args);
}

template <class Offset>
LANEPACK_DEVICE void distinct_strings_places(const DistinctStringsArguments& args) {
    LANEPACK_SHARED(u32[DISTINCT_SORT_THREADS / WARP], sums);
    const TextTable<Offset> table(args, blockIdx.x);
    const u32 count = args.counts[blockIdx.x];
    TextKey* const sorted = reinterpret_cast<TextKey*>(table.table.sorted);
    u64 before = 0;
    for (u32 first = 0; first < count; first += DISTINCT_SORT_THREADS) {
        const u32 i = first + threadIdx.x;
        u32 begin[1] = {0};
        if (i < count) {
            const TextKey key = sorted[i];
            table.table.codes[key.slot] = i;
            const u32 row = table.rows.first + key.row;
            if (table.reader.is_valid(row)) begin[0] = table.reader.length(row);
        }
        u32 total[1];
        block_sums_before(begin, sums, total);
        if (i < count) sorted[i].bytes = before + begin[0];
        before += total[0];
        __syncthreads();
    }
    if (threadIdx.x == 0) args.totals[blockIdx.x] = before;
}

LANEPACK_KERNEL(distinct_strings_places_32, DISTINCT_SORT_THREADS, 1, DistinctStringsArguments) {
    distinct_strings_places<u32>(args);
}
LANEPACK_KERNEL(distinct_strings_places_64, DISTINCT_SORT_THREADS, 1, DistinctStringsArguments) {
    distinct_strings_places<u64>(args);
}

template <class Offset>
LANEPACK_DEVICE void distinct_strings_copy(const DistinctStringsArguments& args) {
    const u32 number = blockIdx.x / args.blocks_per_table;
    const TextTable<Offset> table(args, number);
    const u32 count = args.counts[number];
    const TextKey* const sorted = reinterpret_cast<const TextKey*>(table.table.sorted);
    const u64 before = args.before[number];
    u64* const offsets = args.offsets + static_cast<u64>(number) * args.value_rows;
    const u32 thread = blockIdx.x % args.blocks_per_table * DISTINCT_THREADS + threadIdx.x;
    const u32 threads = args.blocks_per_table * DISTINCT_THREADS;
    for (u32 i = thread / COPIERS; i < count; i += threads / COPIERS) {
        const TextKey key = sorted[i];
        const u32 row = table.rows.first + key.row;
        const u32 length = table.reader.is_valid(row) ? table.reader.length(row) : 0;
        const u8* const from = args.view.values + table.reader.from(row);
        const u64 begin = before + key.bytes;
        u8* const to = args.values + begin;
        if (thread % COPIERS == 0) offsets[i] = begin;
        for (u32 at = thread % COPIERS; at < length; at += COPIERS) to[at] = __ldg(from + at);
    }
    // Behind the last value, and behind the last table.
    const u32 rows = args.value_rows + (number + 1 == gridDim.x / args.blocks_per_table ? 1 : 0);
    for (u32 i = count + thread; i < rows; i += threads) offsets[i] = before + args.totals[number];
}

LANEPACK_KERNEL(distinct_strings_copy_32, DISTINCT_THREADS, 4, DistinctStringsArguments) {
    distinct_strings_copy<u32>(args);
}
LANEPACK_KERNEL(distinct_strings_copy_64, DISTINCT_THREADS, 4, DistinctStringsArguments) {
    distinct_strings_copy<u64>(args);
}

}  // namespace lanepack
