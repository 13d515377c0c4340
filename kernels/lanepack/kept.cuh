// The rows of a vector that a bitmap keeps, and their places one behind the other.
//
//   bitmap    0 1 1 0 0 1 ...      thread s has the word of positions step_position(s) to + 31
//   place       0 1     2          in the order of rows
//
// Values are taken by steps, in which threads have neighbouring rows: what they load lies
// side by side, and so does what they write, with nothing between. Steps of which no row is
// kept are passed over. All threads of a warp call these together.
#pragma once

#include "steps.cuh"

namespace lanepack {

struct KeptRows {
    u32 word;
    // Kept rows of the vector before those of the word, and of the whole vector.
    u32 before;
    u32 count;

    LANEPACK_DEVICE explicit KeptRows(const VectorBits& bits) {
        word = bits.read();
        before = before_in_rows(static_cast<u32>(__popc(word)), count);
    }

    // Calls `visit(step, position, place)` for each kept row, in the thread that has it at its step.
    template <class Visit>
    LANEPACK_DEVICE void each(const Visit& visit) const {
        const u32 thread = threadIdx.x % WARP;
#pragma unroll 1
        for (u32 steps = __ballot_sync(FULL, word != 0); steps != 0; steps &= steps - 1) {
            const u32 step = static_cast<u32>(__ffs(static_cast<int>(steps))) - 1;
            const u32 bits = __shfl_sync(FULL, word, step);
            const u32 first = __shfl_sync(FULL, before, step);
            if ((bits >> thread & 1) == 0) continue;
            visit(step, step_position(step) + thread, first + static_cast<u32>(__popc(bits & ((1u << thread) - 1))));
        }
    }

    // Whether the row at a position is kept, and its place. Positions of threads may differ.
    LANEPACK_DEVICE bool find(u32 position, u32& place) const {
        const u32 step = step_at(position);
        const u32 bits = __shfl_sync(FULL, word, step);
        const u32 below = bits & ((1u << position % WARP) - 1);
        place = __shfl_sync(FULL, before, step) + static_cast<u32>(__popc(below));
        return (bits >> position % WARP & 1) != 0;
    }
};

// The bits of `values` where `mask` has one, side by side from bit 0 on.
LANEPACK_DEVICE u32 compress_bits(u32 values, u32 mask) {
    if (mask == FULL) return values;
    u32 bits = 0;
#pragma unroll 1
    for (u32 to = 1; mask != 0; to += to) {
        if ((values & mask & (0 - mask)) != 0) bits |= to;
        mask &= mask - 1;
    }
    return bits;
}

// Appends those bits of a vector, by step, whose rows are kept to a bitmap that begins as zeros;
// `place` is that of the vector's first kept row.
LANEPACK_DEVICE void put_kept_bits(u32* out, u32 word, const KeptRows& kept, u64 place) {
    const u32 bits = compress_bits(word & kept.word, kept.word);
    if (bits == 0) return;
    const u64 at = place + kept.before;
    const u32 shift = static_cast<u32>(at % 32);
    atomicOr(out + at / 32, bits << shift);
    const u32 high = shift > 0 ? bits >> (32 - shift) : 0;
    if (high != 0) atomicOr(out + at / 32 + 1, high);
}

}  // namespace lanepack
