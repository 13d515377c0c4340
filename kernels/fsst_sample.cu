// Samples of strings: what FSST's symbol tables are trained on, and what a table
// would make of a chunk, as src/encoding/fsst/sample.rs picks it.
//
//   fsst_numbers       the number of the first segment of every vector of a group
//   fsst_pick_count_*  segments and bytes picked of every vector
//   fsst_pick_places   of those, what lies before each vector in its group
//   fsst_pick_*        the picked segments, in order, and their bytes
//   fsst_estimate_*    code bytes of picked segments, without the codes
//
// A segment is picked by its number in the group alone, so a block looks at the
// numbers of a vector, 256 at a time, and only then for the values that they are in.
// A group of which nothing would be picked has its first segment picked.
//
// Before: fsst_lengths_*, of the window of the same rows. To estimate, twice:
// with first_only 0, then 1.
#include "encode_arguments.cuh"
#include "lanepack/fsst_encode.cuh"
#include "launch.cuh"

namespace lanepack {

// A segment is picked if its hash is below this; all are if that is 2^32 or more.
LANEPACK_DEVICE u64 threshold_of(const FsstSampling& args, u64 bytes) {
    return bytes == 0 ? 0 : (static_cast<u64>(args.budget) << 32) / bytes;
}

// `number` counts from 1.
LANEPACK_DEVICE u64 hash_of(u64 number) {
    const u64 hash = number * 0x9E3779B97F4A7C15;
    return (hash ^ hash >> 32) * 0xD6E8FEB86659FD93 >> 32;
}

// The sum over the threads before, by a block of `THREADS`; `total` is that of all.
template <u32 THREADS>
LANEPACK_DEVICE u64 sum_before(u64 own, u64& total) {
    LANEPACK_SHARED(u64[THREADS / WARP], sums);
    const u32 lane = threadIdx.x % WARP;
    u64 upto = own;
    for (u32 step = 1; step < WARP; step *= 2) {
        const u64 other = __shfl_up_sync(FULL, upto, step);
        if (lane >= step) upto += other;
    }
    __syncthreads();
    if (lane == WARP - 1) sums[threadIdx.x / WARP] = upto;
    __syncthreads();
    u64 before = 0;
    total = 0;
#pragma unroll 4
    for (u32 warp = 0; warp < THREADS / WARP; ++warp) {
        if (warp == threadIdx.x / WARP) before = total;
        total += sums[warp];
    }
    return before + upto - own;
}

LANEPACK_KERNEL(fsst_numbers, FSST_SCAN_THREADS, 1, FsstSampling) {
    const u32 first = blockIdx.x * args.group_vectors;
    const u32 end = min(first + args.group_vectors, vectors_of(args.window.rows));
    u64 segments = 0;
    u64 bytes = 0;
    for (u32 base = first; base < end; base += FSST_SCAN_THREADS) {
        const u32 vector = base + threadIdx.x;
        const FsstVector found = vector < end ? args.window.vectors[vector] : FsstVector{0, 0, 0};
        u64 total;
        const u64 before = sum_before<FSST_SCAN_THREADS>(found.segments, total);
        if (vector < end) args.numbers[vector] = segments + before;
        segments += total;
        sum_before<FSST_SCAN_THREADS>(found.bytes, total);
        bytes += total;
    }
    if (threadIdx.x == 0) args.samples[blockIdx.x] = {bytes, segments, 0, 0, 0, FULL, 0, 0};
}

// The picked segments of a block's vector.
template <class Offset>
struct Picks {
    const FsstSampling& args;
    // For each row, segments of the vector before it; one more at the end.
    u32* const before;
    u64 first_number;
    u64 threshold;
    u32 first_row;
    u32 rows;
    u32 segments;

    // Of a vector, by all threads of a block, with VECTOR + 1 words of shared memory that
    // nobody uses any more. Ends with a barrier.
    LANEPACK_DEVICE Picks(const FsstSampling& args_, u32* before_, u32 vector)
        : args(args_), before(before_) {
        constexpr u32 EACH = VECTOR / FSST_VECTOR_THREADS;
        first_number = args.numbers[vector];
        threshold = threshold_of(args, args.samples[vector / args.group_vectors].bytes);
        first_row = vector * VECTOR;
        rows = min(args.window.rows - first_row, VECTOR);
        segments = args.window.vectors[vector].segments;
        u32 counts[EACH];
        u32 sum = 0;
        for (u32 i = 0; i < EACH; ++i) {
            const u32 row = threadIdx.x * EACH + i;
            const u32 length = row < rows ? args.window.value_lengths[first_row + row] : 0;
            counts[i] = length / SEGMENT + (length % SEGMENT != 0);
            sum += counts[i];
        }
        u64 total;
        u32 at = static_cast<u32>(sum_before<FSST_VECTOR_THREADS>(sum, total));
        for (u32 i = 0; i < EACH; ++i) {
            before[threadIdx.x * EACH + i] = at;
            at += counts[i];
        }
        if (threadIdx.x == 0) before[VECTOR] = static_cast<u32>(total);
        __syncthreads();
    }

    // Whether segment `index` of the vector is picked.
    LANEPACK_DEVICE bool picked(u32 index) const {
        return index < segments && hash_of(first_number + index + 1) < threshold;
    }

    // Its first byte in `values` and its length.
    LANEPACK_DEVICE u64 find(u32 index, u32& length) const {
        u32 row = 0;
        for (u32 count = VECTOR; count > 1;) {
            const u32 half = count / 2;
            if (before[row + half] <= index) row += half;
            count -= half;
        }
        const u32 skipped = (index - before[row]) * SEGMENT;
        length = min(args.window.value_lengths[first_row + row] - skipped, SEGMENT);
        return offset_of<Offset>(args.window, first_row + row) + skipped;
    }
};

template <class Offset>
LANEPACK_DEVICE void count_picks(const FsstSampling& args) {
    LANEPACK_SHARED(u32[VECTOR + 1], before);
    const Picks<Offset> picks(args, before, blockIdx.x);
    u32 count = 0;
    u32 bytes = 0;
    for (u32 index = threadIdx.x; index < picks.segments; index += FSST_VECTOR_THREADS) {
        if (!picks.picked(index)) continue;
        u32 length;
        picks.find(index, length);
        ++count;
        bytes += length;
    }
    u64 counts;
    sum_before<FSST_VECTOR_THREADS>(count, counts);
    u64 all_bytes;
    sum_before<FSST_VECTOR_THREADS>(bytes, all_bytes);
    if (threadIdx.x == 0) args.picks[blockIdx.x] = make_uint2(static_cast<u32>(counts), static_cast<u32>(all_bytes));
}

LANEPACK_KERNEL(fsst_pick_count_32, FSST_VECTOR_THREADS, 1, FsstSampling) { count_picks<u32>(args); }

LANEPACK_KERNEL(fsst_pick_count_64, FSST_VECTOR_THREADS, 1, FsstSampling) { count_picks<u64>(args); }

LANEPACK_KERNEL(fsst_pick_places, FSST_SCAN_THREADS, 1, FsstSampling) {
    const u32 first = blockIdx.x * args.group_vectors;
    const u32 end = min(first + args.group_vectors, vectors_of(args.window.rows));
    u64 count = 0;
    u64 bytes = 0;
    for (u32 base = first; base < end; base += FSST_SCAN_THREADS) {
        const u32 vector = base + threadIdx.x;
        const uint2 found = vector < end ? args.picks[vector] : make_uint2(0, 0);
        u64 counts;
        u64 all_bytes;
        const u64 counts_before = sum_before<FSST_SCAN_THREADS>(found.x, counts);
        const u64 bytes_before = sum_before<FSST_SCAN_THREADS>(found.y, all_bytes);
        // Beyond any capacity all are alike.
        if (vector < end) {
            args.picks[vector] = make_uint2(static_cast<u32>(min(count + counts_before, u64{1} << 31)),
                                            static_cast<u32>(min(bytes + bytes_before, u64{1} << 31)));
        }
        count += counts;
        bytes += all_bytes;
    }
    if (threadIdx.x == 0) {
        FsstSample& sample = args.samples[blockIdx.x];
        const bool first_only = count == 0 && sample.segments != 0;
        sample.picked = first_only ? 1 : static_cast<u32>(min(count, u64{FULL}));
        // If it is the first segment, fsst_pick finds its bytes.
        sample.picked_bytes = bytes;
        sample.first_only = first_only ? 1 : 0;
    }
}

template <class Offset>
LANEPACK_DEVICE void pick(const FsstSampling& args) {
    LANEPACK_SHARED(u32[VECTOR + 1], before);
    const Picks<Offset> picks(args, before, blockIdx.x);
    const u32 group = blockIdx.x / args.group_vectors;
    FsstSample& sample = args.samples[group];
    const bool first_only = sample.first_only != 0;
    u32 count = args.picks[blockIdx.x].x;
    u32 bytes = args.picks[blockIdx.x].y;
    for (u32 base = 0; base < picks.segments; base += FSST_VECTOR_THREADS) {
        const u32 index = base + threadIdx.x;
        const bool mine = first_only ? picks.first_number + index == 0 : picks.picked(index);
        if (__syncthreads_count(mine) == 0) continue;
        u32 length = 0;
        u64 from = 0;
        if (mine) from = picks.find(index, length);
        u64 counts;
        u64 all_bytes;
        const u32 place = count + static_cast<u32>(sum_before<FSST_VECTOR_THREADS>(mine, counts));
        const u32 at = bytes + static_cast<u32>(sum_before<FSST_VECTOR_THREADS>(length, all_bytes));
        if (mine && place < args.segment_capacity && at + length <= args.capacity) {
            args.segments[static_cast<u64>(group) * args.segment_capacity + place] = {from, at, length};
            u8* const out = args.bytes + static_cast<u64>(group) * args.capacity + at;
            for (u32 i = 0; i < length; ++i) out[i] = args.window.values[from + i];
            if (first_only) sample.picked_bytes = length;
        }
        count += static_cast<u32>(counts);
        bytes += static_cast<u32>(all_bytes);
    }
}

LANEPACK_KERNEL(fsst_pick_32, FSST_VECTOR_THREADS, 1, FsstSampling) { pick<u32>(args); }

LANEPACK_KERNEL(fsst_pick_64, FSST_VECTOR_THREADS, 1, FsstSampling) { pick<u64>(args); }

// Code bytes of a segment.
LANEPACK_DEVICE u32 encoded_length(const EncoderTable& table, const u8* values, u64 from, u32 length) {
    const u32* const words = reinterpret_cast<const u32*>(values);
    const u64 end = from + length;
    const u64 last = (end - 1) / 4;
    u32 codes = 0;
    for (u64 at = from; at < end;) {
        const u64 word = at / 4;
        const u32 first = words[word];
        const u32 second = words[min(word + 1, last)];
        const u32 third = words[min(word + 2, last)];
        const u32 shift = static_cast<u32>(at % 4) * 8;
        const Match match = table.match(__funnelshift_r(first, second, shift), __funnelshift_r(second, third, shift),
                                        static_cast<u32>(end - at), table.eights);
        at += match.length;
        codes += match.bytes;
    }
    return codes;
}

// A block takes a few vectors with one table, which takes longer to expand than a few
// segments to parse.
template <class Offset>
LANEPACK_DEVICE void estimate(const FsstSampling& args) {
    LANEPACK_SHARED(u32[VECTOR + 1], before);
    LANEPACK_SHARED(EncoderTable, table);
    const u32 vectors = vectors_of(args.window.rows);
    bool is_loaded = false;
    for (u32 i = 0; i < FSST_ESTIMATE_VECTORS; i++) {
        const u32 vector = blockIdx.x * FSST_ESTIMATE_VECTORS + i;
        // Vectors without segments first: whether others are looked at may depend on what
        // blocks write that have segments, and all threads must agree.
        if (vector >= vectors || args.window.vectors[vector].segments == 0) continue;
        FsstSample& sample = args.samples[vector / args.group_vectors];
        if (args.first_only != 0 && (sample.picked != 0 || args.numbers[vector] != 0)) continue;
        __syncthreads();
        if (!is_loaded) table.load(args.window.table);
        is_loaded = true;
        const Picks<Offset> picks(args, before, vector);
        for (u32 index = threadIdx.x; index < picks.segments; index += FSST_VECTOR_THREADS) {
            const bool mine = args.first_only != 0 ? picks.first_number + index == 0 : picks.picked(index);
            if (!mine) continue;
            u32 length;
            const u64 from = picks.find(index, length);
            const u32 codes = encoded_length(table, args.window.values, from, length);
            atomicAdd(&sample.picked, 1u);
            atomicAdd(&sample.picked_bytes, u64{length});
            atomicAdd(&sample.picked_codes, u64{codes});
            atomicMin(&sample.least, codes);
            atomicMax(&sample.most, codes);
        }
    }
}

LANEPACK_KERNEL(fsst_estimate_32, FSST_VECTOR_THREADS, 1, FsstSampling) { estimate<u32>(args); }

LANEPACK_KERNEL(fsst_estimate_64, FSST_VECTOR_THREADS, 1, FsstSampling) { estimate<u64>(args); }

}  // namespace lanepack
