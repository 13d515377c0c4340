// A vector taken by a warp in 32 *steps*: at step s its threads have 32 neighbouring
// values, in every type.
//
//   step s, thread t   has the value at position step_position(s) + t
//
//   64 bits   thread 16 h + l has rows 32 h to 32 h + 31 of lane l
//   32 bits   thread l has the rows of lane l
//   16 bits   thread t has the rows of lanes t and t + 32
//    8 bits   thread t has the rows of lanes t, t + 64, t + 32 and t + 96
//
// A *selection* is a word for each thread: bit s says whether its value of step s is
// selected. Selections of columns of different types go together bit by bit; five
// shuffles make a bitmap of one.
#pragma once

#include "lanes.cuh"

namespace lanepack {

// What becomes of the bits that a bitmap holds already.
constexpr u32 COMBINE_SET = 0;
constexpr u32 COMBINE_AND = 1;
constexpr u32 COMBINE_OR = 2;

// Where the values of a step begin, in the vector.
LANEPACK_DEVICE u32 step_position(u32 step) {
    return group_order(step / 8) * 16 + step % 8 * 128;
}

// The word of a vector's bitmap that has the values of a step: step_position(step) / 32.
LANEPACK_DEVICE u32 step_word(u32 step) {
    return step % 8 * 4 | step / 8 % 2 * 2 | step / 16;
}

// The step that a position belongs to; its thread is position % WARP.
LANEPACK_DEVICE u32 step_at(u32 position) {
    // Of four groups the order is its own inverse, but for its unit.
    return group_order(position / 32 % 4) * 4 + position / 128;
}

// The thread and step of a value by its row and lane.
template <class T>
LANEPACK_DEVICE void thread_and_step(u32 row, u32 lane, u32& thread, u32& step) {
    if constexpr (sizeof(T) >= 4) {
        // A thread has one lane or half of one.
        thread = row / WARP * LANES<T> + lane;
        step = row % WARP;
    } else {
        const u32 position = index(row, lane);
        thread = position % WARP;
        step = step_at(position);
    }
}

// The bits of a word whose positions, from `position` on, lie before `end`.
LANEPACK_DEVICE u32 bits_before(u32 position, u32 end) {
    if (end <= position) return 0;
    return end - position >= 32 ? FULL : FULL >> (32 - (end - position));
}

// The selection of the first `rows` values.
LANEPACK_DEVICE u32 steps_within(u32 rows) {
    if (rows >= VECTOR) return FULL;
    u32 steps = 0;
#pragma unroll
    for (u32 group = 0; group < 4; group++) {
        // The steps of a group lie 128 positions apart.
        const u32 first = step_position(group * 8) + threadIdx.x % WARP;
        const u32 count = first < rows ? (rows - first + 127) / 128 : 0;
        steps |= ((1u << count) - 1) << group * 8;
    }
    return steps;
}

// A selection by steps: thread s gets the bits of step s, thread t's as bit t, which are
// the bits of positions step_position(s) to + 31. Its own inverse (32 x 32 bits transposed).
LANEPACK_DEVICE u32 by_step(u32 selection) {
    const u32 thread = threadIdx.x % WARP;
    // Halves and bytes change places by a permutation.
    selection = __byte_perm(selection, __shfl_xor_sync(FULL, selection, 16), (thread & 16) != 0 ? 0x3276 : 0x5410);
    selection = __byte_perm(selection, __shfl_xor_sync(FULL, selection, 8), (thread & 8) != 0 ? 0x3715 : 0x6240);
    u32 mask = 0x0f0f0f0f;
#pragma unroll
    for (u32 distance = 4; distance > 0; distance /= 2, mask ^= mask << distance) {
        const u32 other = __shfl_xor_sync(FULL, selection, distance);
        // Rotated, so that one instruction shifts to either side.
        const bool is_upper = (thread & distance) != 0;
        const u32 moved = __funnelshift_l(other, other, is_upper ? 32 - distance : distance);
        const u32 own = is_upper ? ~mask : mask;
        selection = (selection & own) | (moved & ~own);
    }
    return selection;
}

// The steps of a selection that `test(step)` holds for, of which there are many: without a branch for each,
// so that values of several are on their way at a time. Steps that are left out become one that is not.
template <class Test>
LANEPACK_DEVICE u32 select_many_steps(u32 selection, const Test& test) {
    if (selection == 0) return 0;
    const u32 first = static_cast<u32>(__ffs(static_cast<int>(selection))) - 1;
    u32 kept = 0;
#pragma unroll 4
    for (u32 step = 0; step < 32; step++) {
        kept |= static_cast<u32>(test((selection >> step & 1) != 0 ? step : first)) << step;
    }
    return kept & selection;
}

// What comes before the 32 rows of a thread (positions step_position(thread) to + 31) in
// the order of rows, given what each thread has; and the whole. All threads of a warp.
template <class T>
LANEPACK_DEVICE T before_in_rows(T own, T& whole) {
    const u32 thread = threadIdx.x % WARP;
    const T of_word = __shfl_sync(FULL, own, step_at(thread * WARP));
    const T upto = sum_upto(of_word);
    whole = __shfl_sync(FULL, upto, WARP - 1);
    return __shfl_sync(FULL, static_cast<T>(upto - of_word), step_word(thread));
}

// The word of a bitmap node (bits or a constant for all) that holds bit `word` * 32:
// of its last word, bits past the end hold anything.
LANEPACK_DEVICE u32 bits_word(const Node& node, u32 word) {
    if (node.encoding == CONSTANT) return node.parameter != 0 ? FULL : 0;
    // Buffers are padded to 64 bytes, so the last word can be read whole.
    return word < (node.rows + 31) / 32 ? __ldg(reinterpret_cast<const u32*>(node.buffer[0]) + word) : 0;
}

// The packed values of a thread in the order of steps, of a width that is not 0: code for
// all widths, with two loads a value. For what `select_packed.cuh` does not answer.
template <class T>
struct StepPacked {
    Packed<T> packed;
    PackedLane<T> lane;
    u32 step;

    LANEPACK_DEVICE explicit StepPacked(Packed<T> of) : packed(of), step(0) {}

    LANEPACK_DEVICE T next() {
        const u32 thread = threadIdx.x % WARP;
        if (step % ROWS<T> == 0) {
            lane = PackedLane<T>(packed, (step_position(step) + thread) % LANES<T>, packed.words);
            if constexpr (sizeof(T) == 8) {
                // Half of the threads begin in the middle of their lane.
                const u32 bit = thread / LANES<T> * WARP * packed.width;
                lane.word += bit / ROWS<T> * LANES<T>;
                lane.shift = bit % ROWS<T>;
            }
        }
        step++;
        return lane.next();
    }
};

// The bits of a vector's rows in a bitmap, where they may begin at any bit. Thread s has
// the word of positions step_position(s) to + 31 (of `by_step`).
//
// Words that belong to other vectors as well are changed by atomics, and only in the
// vector's own bits: what they held is nobody's concern, nor who comes first.
struct VectorBits {
    // The word of the first row, and its bit there.
    u32* words;
    u32 shift;
    u32 rows;
    // The same, with the bits behind the last row of all, to the end of its word.
    u32 written;

    // The `rows` rows from `first` on of a bitmap of `all` rows.
    LANEPACK_DEVICE VectorBits(u32* bitmap, u64 first, u32 of_rows, u64 all) {
        words = bitmap + first / 32;
        shift = static_cast<u32>(first % 32);
        rows = of_rows;
        const u32 rest = first + rows == all ? (32 - (shift + rows) % 32) % 32 : 0;
        written = rows + rest;
    }

    // What the bitmap holds; the bits of other rows are zero.
    LANEPACK_DEVICE u32 read() const {
        const u32 position = step_position(threadIdx.x % WARP);
        // Not by way of the first-level cache: other blocks change words at the edges.
        const u32 low = position < shift + rows ? __ldcg(words + position / 32) : 0;
        const bool is_split = shift > 0 && position + 32 < shift + rows;
        const u32 high = is_split ? __ldcg(words + position / 32 + 1) : 0;
        return __funnelshift_r(low, high, shift) & bits_before(position, rows);
    }

    // Writes the vector's bits; those past its rows must be zero. All threads of a warp.
    LANEPACK_DEVICE void write(u32 word) const {
        const u32 position = step_position(threadIdx.x % WARP);
        const u32 end = shift + written;
        u32 low = word;
        u32 inside = bits_before(position, end);
        if (shift > 0) {
            const u32 before = __shfl_sync(FULL, word, step_at((position - 32) % VECTOR));
            low = position == 0 ? word << shift : __funnelshift_l(before, word, shift);
            if (position == 0) inside &= FULL << shift;
        }
        put(position, low, inside);
        // What the last word has too much.
        if (shift > 0 && position == VECTOR - 32) put(VECTOR, word >> (32 - shift), bits_before(VECTOR, end));
    }

    LANEPACK_DEVICE void put(u32 position, u32 word, u32 inside) const {
        u32* to = words + position / 32;
        if (inside == FULL) {
            *to = word;
        } else if (inside != 0) {
            atomicAnd(to, word | ~inside);
            atomicOr(to, word & inside);
        }
    }
};

}  // namespace lanepack
