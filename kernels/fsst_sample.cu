// Samples of strings: what FSST's symbol tables are trained on, and what a table would
// make of a chunk, as src/encoding/fsst/sample.rs picks it.
//
//   fsst_numbers     what stands before every vector in its group
//   fsst_pick_*      the pieces to train on
//   fsst_estimate_*  code bytes of a chunk's pieces, without the codes
//
// Which piece is the next pick follows from the number of pieces and bytes alone, so a
// warp finds it by itself: its vector by 32 probes at a time among the numbers before
// vectors, then 32 rows of it, then the row. Nothing is copied; pieces are
// parsed where they lie.
//
#include "encode_arguments.cuh"
#include "fsst_parse.cuh"
#include "launch.cuh"

namespace lanepack {

// Two sums over the threads before, by a block; `total` is that of all.
LANEPACK_DEVICE FsstBefore sums_before(FsstBefore own, FsstBefore& total) {
    constexpr u32 WARPS = FSST_SCAN_THREADS / WARP;
    LANEPACK_SHARED(FsstBefore[WARPS], sums);
    const u32 lane = threadIdx.x % WARP;
    const FsstBefore upto = {sum_upto(own.bytes), sum_upto(own.pieces)};
    __syncthreads();
    if (lane == WARP - 1) sums[threadIdx.x / WARP] = upto;
    __syncthreads();
    FsstBefore before = {0, 0};
    total = {0, 0};
#pragma unroll 4
    for (u32 warp = 0; warp < WARPS; ++warp) {
        if (warp == threadIdx.x / WARP) before = total;
        total = {total.bytes + sums[warp].bytes, total.pieces + sums[warp].pieces};
    }
    return {before.bytes + upto.bytes - own.bytes, before.pieces + upto.pieces - own.pieces};
}

LANEPACK_KERNEL(fsst_numbers, FSST_SCAN_THREADS, 1, FsstSampling) {
    const FsstRange range = args.ranges[blockIdx.x];
    const u32 first = range.first_vector;
    const u32 end = range.end_vector;
    FsstBefore* const out = args.before + range.group;
    // A few vectors of a thread follow one another.
    constexpr u32 EACH = 4;
    FsstBefore sum = {0, 0};
    for (u32 base = first; base < end; base += EACH * FSST_SCAN_THREADS) {
        FsstBefore own[EACH];
        FsstBefore all = {0, 0};
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            const u32 vector = base + threadIdx.x * EACH + i;
            FsstVector found = {0, 0, 0};
            if (vector < end) found = args.view.vectors[vector];
            own[i] = all;
            all = {all.bytes + found.bytes, all.pieces + found.pieces};
        }
        FsstBefore total;
        const FsstBefore before = sums_before(all, total);
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            const u32 vector = base + threadIdx.x * EACH + i;
            if (vector >= end) break;
            out[vector] = {sum.bytes + before.bytes + own[i].bytes, sum.pieces + before.pieces + own[i].pieces};
        }
        sum = {sum.bytes + total.bytes, sum.pieces + total.pieces};
    }
    if (threadIdx.x == 0) out[end] = sum;
}

// The lane that has number `left` of what the lanes of a warp have so many of each; `left`
// is then counted from its first.
LANEPACK_DEVICE u32 holder(u32 own, u32& left) {
    const u32 upto = sum_upto(own);
    const u32 found = static_cast<u32>(__popc(__ballot_sync(FULL, upto <= left)));
    left -= __shfl_sync(FULL, upto - own, found);
    return found;
}

// The picks from a range.
template <class Offset>
struct Picks {
    const FsstSampling& args;
    const FsstRange range;
    // By vector.
    const FsstBefore* const before;
    u64 first;
    u64 pieces;
    u32 count;

    LANEPACK_DEVICE Picks(const FsstSampling& args_, u32 index)
        : args(args_), range(args_.ranges[index]), before(args_.before + range.group) {
        const FsstBefore begin = before[range.first_vector];
        const FsstBefore end = before[range.end_vector];
        const u64 bytes = end.bytes - begin.bytes;
        first = begin.pieces;
        pieces = end.pieces - begin.pieces;
        // As `pays`, and `picks`, of the host say.
        u64 picks = 0;
        if (bytes > range.rows + u64{range.rows} / 2) {
            const u64 budget = min(max(bytes / SAMPLE_SHARE, u64{args.least}), u64{args.most});
            picks = bytes <= budget ? pieces : max(pieces * budget / bytes, u64{1});
            if (args.most == 0) picks = pieces;
        }
        count = static_cast<u32>(min(picks, u64{args.capacity}));
    }

    // The number of a pick, as `picked_number` of the host.
    LANEPACK_DEVICE u64 number(u32 index) const {
        const u64 from = index * pieces / count;
        const u64 until = (index + u64{1}) * pieces / count;
        const u64 mixed = (index + u64{1}) * 0x9E3779B97F4A7C15;
        const u64 hash = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93 >> 32;
        return first + from + (hash * (until - from) >> 32);
    }

    // A pick, found by all lanes of a warp.
    LANEPACK_DEVICE FsstPiece find(u32 index) const {
        const u32 lane = threadIdx.x % WARP;
        const u64 wanted = number(index);
        u32 vector = range.first_vector;
        for (u32 end = range.end_vector; end - vector > 1;) {
            const u32 step = (end - vector + WARP - 1) / WARP;
            const u32 probe = vector + lane * step;
            const bool upto = probe < end && before[probe].pieces <= wanted;
            const u32 count_upto = static_cast<u32>(__popc(__ballot_sync(FULL, upto)));
            vector += (count_upto - 1) * step;
            end = min(vector + step, end);
        }
        u32 left = static_cast<u32>(wanted - before[vector].pieces);
        // Of 32 times 32 rows those that have the piece, then the row.
        const u32 rows = vector * VECTOR + holder(args.view.row_pieces[vector * u64{WARP} + lane], left) * WARP;
        const u32 row_length = args.view.value_lengths[rows + lane];
        const u32 at = holder(pieces_of(row_length), left);
        const u32 length = __shfl_sync(FULL, row_length, at);
        const u32 row = rows + at;
        const u32 skipped = left * SAMPLE_PIECE;
        return {static_cast<u64>(offset_of<Offset>(args.view, row)) + skipped, min(length - skipped, SAMPLE_PIECE), 0};
    }
};

template <class Offset>
LANEPACK_DEVICE void pick(const FsstSampling& args) {
    const u32 index = blockIdx.x / args.blocks_per_range;
    const u32 part = blockIdx.x % args.blocks_per_range;
    const Picks<Offset> picks(args, index);
    FsstPiece* const out = args.pieces + u64{index} * args.capacity;
    const u32 warps = args.blocks_per_range * (FSST_SAMPLE_THREADS / WARP);
    u32 number = part * (FSST_SAMPLE_THREADS / WARP) + warp_in_block();
    for (; number < picks.count; number += warps) {
        const FsstPiece found = picks.find(number);
        if (threadIdx.x % WARP == 0) out[number] = found;
    }
    if (part == 0 && threadIdx.x == 0) args.trained[picks.range.table].pieces = picks.count;
}

LANEPACK_KERNEL(fsst_pick_32, FSST_SAMPLE_THREADS, 1, FsstSampling) { pick<u32>(args); }

LANEPACK_KERNEL(fsst_pick_64, FSST_SAMPLE_THREADS, 1, FsstSampling) { pick<u64>(args); }

// Warps find 32 pieces, one after the other, and parse them, one a lane.
template <class Offset>
LANEPACK_DEVICE void estimate(const FsstSampling& args) {
    LANEPACK_SHARED(EncoderTable, table);
    const u32 index = blockIdx.x / args.blocks_per_range;
    const u32 part = blockIdx.x % args.blocks_per_range;
    const Picks<Offset> picks(args, index);
    const FsstTrained& trained = args.trained[picks.range.table];
    if (trained.pieces == 0 || picks.count == 0) return;
    table.load(trained.table);
    const u32 lane = threadIdx.x % WARP;
    const u32 warps = args.blocks_per_range * (FSST_SAMPLE_THREADS / WARP);
    const u32 warp = part * (FSST_SAMPLE_THREADS / WARP) + warp_in_block();
    // A warp's picks follow one another, as do their places in memory.
    const u32 share = (picks.count + warps - 1) / warps;
    const u32 end = min((warp + 1) * share, picks.count);
    u64 bytes = 0;
    u64 codes = 0;
    u32 pieces = 0;
    u32 least = FULL;
    u32 most = 0;
    for (u32 base = warp * share; base < end; base += WARP) {
        FsstPiece own = {0, 0, 0};
        for (u32 i = 0; i < min(end - base, WARP); ++i) {
            const FsstPiece found = picks.find(base + i);
            if (i == lane) own = found;
        }
        if (own.length == 0) continue;
        u32 length = 0;
        parse_piece(table, args.view.values, own, [&](const Match& match, u32) { length += match.bytes; });
        bytes += own.length;
        codes += length;
        ++pieces;
        least = min(least, length);
        most = max(most, length);
    }
    if (pieces == 0) return;
    FsstSample& sample = args.samples[index];
    atomicAdd(&sample.bytes, bytes);
    atomicAdd(&sample.codes, codes);
    atomicAdd(&sample.pieces, pieces);
    atomicMax(&sample.least_inverted, ~least);
    atomicMax(&sample.most, most);
}

LANEPACK_KERNEL(fsst_estimate_32, FSST_SAMPLE_THREADS, 1, FsstSampling) { estimate<u32>(args); }

LANEPACK_KERNEL(fsst_estimate_64, FSST_SAMPLE_THREADS, 1, FsstSampling) { estimate<u64>(args); }

}  // namespace lanepack
