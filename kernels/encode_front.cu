// Front coding: how many bytes each string shares with the row before, and the rest of it; as
// src/encoding/front.rs. Null rows are empty strings.
//
//   front_sample     a block a chunk: prefixes of the sampled vectors, and what they save
//   front_prefixes   prefixes of all rows of some chunks, a thread a row
//   front_places     a block a chunk: where suffixes begin among its own, their bytes, and whether
//                    all are equal
//   front_copy       suffixes and their offsets, behind those of the chunks before
//
// Prefixes are words as others from there on, and suffixes strings as others: a column of as many
// rows for each chunk, those behind its last row empty.
#include "encode_rows.cuh"
#include "texts.cuh"

namespace lanepack {

// A chunk of a column of strings.
struct FrontChunk {
    u32 number;
    u32 rows;
};

// What the sampled vectors of a chunk come to: bytes that prefixes save, of so many.
struct FrontSample {
    u32 saved;
    u32 bytes;
};

// The suffixes of a chunk: their bytes, and whether all are equal.
struct FrontSuffixes {
    u64 bytes;
    u32 is_single;
    u32 zero;
};

// front_sample_*, front_prefixes_*, front_places_*, front_copy_*: `view` needs values, offsets, valid, first_bit and chunk_rows.
struct FrontArguments {
    StringsView view;
    const FrontChunk* chunks;
    // front_sample: `sampled_vectors` vectors for each chunk. Else for each row of the column.
    u32* prefixes;
    // One for each chunk.
    FrontSample* samples;
    FrontSuffixes* suffixes;
    // `suffix_rows` for each chunk: where its suffixes begin among its own.
    u32* starts;
    // The same among all, and one more.
    u64* offsets;
    // For each chunk the bytes of the suffixes of those before.
    const u64* before;
    // All suffixes.
    u8* values;
    u32 blocks_per_chunk;
    u32 suffix_rows;
    u32 sampled_vectors;
    // front_sample: bytes of a row on average, more than which are not front-coded.
    u32 most_bytes;
};

// A chunk, of which rows are counted from its first.
template <class Offset>
struct SplitRows {
    StringReader<Offset> reader;
    const FrontChunk chunk;
    const u32 first;

    LANEPACK_DEVICE SplitRows(const FrontArguments& args, u32 number)
        : reader{args.view}, chunk(args.chunks[number]), first(chunk.number * args.view.chunk_rows) {}

    LANEPACK_DEVICE Text text(u32 row) const { return text_or_empty(reader, first + row); }

    // How many bytes a row shares with the one before, `most` at most.
    LANEPACK_DEVICE u32 prefix(u32 row, const Text& own, u32 most) const {
        return row % FRONT_BLOCK == 0 ? 0 : common_bytes(text(row - 1), own, most);
    }
};

template <class Offset>
LANEPACK_DEVICE void front_sample(const FrontArguments& args) {
    LANEPACK_SHARED(u32[2 * SAMPLED_VECTORS], sums);
    const SplitRows<Offset> rows(args, blockIdx.x);
    const u32 vectors = vectors_of(rows.chunk.rows);
    const u32 taken = min(vectors, SAMPLED_VECTORS);
    const u32 warp = warp_in_block();
    u32* const out = args.prefixes + (u64{blockIdx.x} * args.sampled_vectors + warp) * VECTOR;
    // Values that are longer alone are too many bytes.
    const u32 most = static_cast<u32>(min(u64{rows.chunk.rows} * args.most_bytes, u64{FULL}));
    u32 found[2] = {0, 0};
    if (warp < taken) {
        const u32 begin = warp * vectors / taken * VECTOR;
        const u32 count = min(VECTOR, rows.chunk.rows - begin);
        for (u32 i = threadIdx.x % WARP; i < count; i += WARP) {
            const Text text = rows.text(begin + i);
            const u32 prefix = rows.prefix(begin + i, text, most);
            out[i] = prefix;
            found[0] += prefix;
            found[1] += text.length;
        }
    }
    u32 all[2];
    block_sums_before(found, sums, all);
    if (threadIdx.x == 0) args.samples[blockIdx.x] = FrontSample{all[0], all[1]};
}

LANEPACK_KERNEL(front_sample_32, SAMPLE_THREADS, 2, FrontArguments) { front_sample<u32>(args); }
LANEPACK_KERNEL(front_sample_64, SAMPLE_THREADS, 2, FrontArguments) { front_sample<u64>(args); }

template <class Offset>
LANEPACK_DEVICE void front_prefixes(const FrontArguments& args) {
    const SplitRows<Offset> rows(args, blockIdx.x / args.blocks_per_chunk);
    const u32 row = blockIdx.x % args.blocks_per_chunk * SPLIT_THREADS + threadIdx.x;
    if (row >= rows.chunk.rows) return;
    args.prefixes[rows.first + row] = rows.prefix(row, rows.text(row), FULL);
}

LANEPACK_KERNEL(front_prefixes_32, SPLIT_THREADS, 4, FrontArguments) { front_prefixes<u32>(args); }
LANEPACK_KERNEL(front_prefixes_64, SPLIT_THREADS, 4, FrontArguments) { front_prefixes<u64>(args); }

template <class Offset>
LANEPACK_DEVICE void front_places(const FrontArguments& args) {
    LANEPACK_SHARED(u32[2 * SPLIT_PLACES_THREADS / WARP], sums);
    const SplitRows<Offset> rows(args, blockIdx.x);
    u32* const starts = args.starts + u64{blockIdx.x} * args.suffix_rows;
    // The suffix of the first row, which is all of it.
    const Text suffix = rows.text(0);
    u32 before = 0;
    bool differ = false;
    for (u32 first = 0; first < rows.chunk.rows; first += SPLIT_PLACES_THREADS) {
        const u32 row = first + threadIdx.x;
        // Bytes, and whether they are others.
        u32 own[2] = {0, 0};
        if (row < rows.chunk.rows) {
            const Text text = rows.text(row);
            const u32 prefix = args.prefixes[rows.first + row];
            const Text rest{text.bytes + prefix, 0, text.length - prefix, text.row};
            own[0] = rest.length;
            if (!differ) {
                const bool equal =
                    rest.length == suffix.length && common_bytes(rest, suffix, rest.length) == rest.length;
                own[1] = equal ? 0 : 1;
            }
        }
        u32 all[2];
        block_sums_before(own, sums, all);
        if (row < rows.chunk.rows) starts[row] = before + own[0];
        before += all[0];
        differ |= all[1] != 0;
        __syncthreads();
    }
    if (threadIdx.x == 0) args.suffixes[blockIdx.x] = FrontSuffixes{before, differ ? 0u : 1u, 0};
}

LANEPACK_KERNEL(front_places_32, SPLIT_PLACES_THREADS, 1, FrontArguments) { front_places<u32>(args); }
LANEPACK_KERNEL(front_places_64, SPLIT_PLACES_THREADS, 1, FrontArguments) { front_places<u64>(args); }

template <class Offset>
LANEPACK_DEVICE void front_copy(const FrontArguments& args) {
    const u32 number = blockIdx.x / args.blocks_per_chunk;
    const SplitRows<Offset> rows(args, number);
    const u64 before = args.before[number];
    const u64 end = before + args.suffixes[number].bytes;
    const u32* const starts = args.starts + u64{number} * args.suffix_rows;
    u64* const offsets = args.offsets + u64{number} * args.suffix_rows;
    const u32 thread = blockIdx.x % args.blocks_per_chunk * SPLIT_THREADS + threadIdx.x;
    const u32 threads = args.blocks_per_chunk * SPLIT_THREADS;
    for (u32 row = thread / COPIERS; row < rows.chunk.rows; row += threads / COPIERS) {
        const u64 begin = before + starts[row];
        const u64 behind = row + 1 < rows.chunk.rows ? before + starts[row + 1] : end;
        const u32 length = static_cast<u32>(behind - begin);
        const u32 prefix = args.prefixes[rows.first + row];
        const u8* const from = args.view.values + rows.reader.from(rows.first + row) + prefix;
        if (thread % COPIERS == 0) offsets[row] = begin;
        for (u32 at = thread % COPIERS; at < length; at += COPIERS) args.values[begin + at] = __ldg(from + at);
    }
    // Behind the last row, and behind the last chunk.
    const u32 all = args.suffix_rows + (number + 1 == gridDim.x / args.blocks_per_chunk ? 1 : 0);
    for (u32 row = rows.chunk.rows + thread; row < all; row += threads) offsets[row] = end;
}

LANEPACK_KERNEL(front_copy_32, SPLIT_THREADS, 4, FrontArguments) { front_copy<u32>(args); }
LANEPACK_KERNEL(front_copy_64, SPLIT_THREADS, 4, FrontArguments) { front_copy<u64>(args); }

}  // namespace lanepack
