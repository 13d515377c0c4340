// Strings of a vector as they are stored: codes, or of plain nodes bytes; their lengths,
// and where each begins.
//
//   codes     | string 0 | string 1 | ... | string 1023 |    from stored_start(vector) on
//   thread s    has the 32 strings of step s, one behind the other: positions
//               step_position(s) to + 31, the bits of a word of the vector's bitmap
//   lengths     of a step's 32 strings lie side by side, packed in lanes
//
// A thread that takes neighbouring strings needs to know where the first of them begins
// and then reads on: no string's place is kept. But the lengths of its strings are packed
// in 32 lanes, so the warp unpacks them, a step at a time, and leaves them in shared
// memory as bytes; those of 255 or more, which few columns have, are unpacked again when
// they are asked for. Lengths are not trusted: their sum is compared with where the next
// vector begins before any code is read.
//
// A *word of rows* is a thread's verdict on its 32 strings, bit i for the i-th; `by_step`
// of a selection and the other way round.
#pragma once

#include "patches.cuh"
#include "pfor.cuh"
#include "steps.cuh"

namespace lanepack {

// Bytes of all values of a node of strings.
LANEPACK_DEVICE u64 value_bytes(const Node& strings) {
    if (strings.encoding == FSST) return strings.parameter;
    return strings.encoding == CONSTANT ? strings.size * strings.rows : strings.size;
}

// Number `which` of where a vector begins (docs/FORMAT.md, starts), not of constants.
LANEPACK_DEVICE u64 start_of(const Node& strings, u32 vector, u32 which) {
    const u8* starts = strings.buffer[strings.encoding == FSST ? 2 : 1];
    const bool is_wide = (strings.size | value_bytes(strings)) >> 32 != 0;
    if (is_wide) return __ldg(reinterpret_cast<const u64*>(starts) + vector * 2 + which);
    return __ldg(reinterpret_cast<const u32*>(starts) + vector * 2 + which);
}

// Where the strings of a vector begin in what is stored, not of constants, or behind the
// last vector the end.
LANEPACK_DEVICE u64 stored_start(const Node& strings, u32 vector) {
    return vector < vectors_of(strings) ? start_of(strings, vector, 0) : strings.size;
}

// Where they begin in the values.
LANEPACK_DEVICE u64 value_start(const Node& strings, u32 vector) {
    if (vector >= vectors_of(strings)) return value_bytes(strings);
    return strings.encoding == CONSTANT ? strings.size * vector * VECTOR : start_of(strings, vector, 1);
}

// What is stored of a node of strings.
LANEPACK_DEVICE const u8* stored_bytes(const Node& strings) {
    return strings.buffer[strings.encoding == FSST ? 1 : 0];
}

// The encodings of lengths.
constexpr u32 LENGTH_ENCODINGS = WORD_ENCODINGS | 1u << PFOR;

// The lengths of a vector that are exceptions: none but of pfor.
LANEPACK_DEVICE Exceptions<u32> exceptional_lengths(const Node& lengths, u32 vector) {
    return {lengths.buffer[2], lengths.encoding == PFOR ? pfor_locator<u32>(lengths, vector) : 0};
}

// The slot of string `i` of thread `step`: i is the lane, the step is the row.
LANEPACK_DEVICE u32 slot_of_length(u32 step, u32 i) { return i * WARP + step; }

// The stored lengths of a vector's strings: shared memory of a warp, which may serve one
// column after the other.
struct StoredLengths {
    // What a byte that stands for a longer string holds.
    static constexpr u32 LONG = 255;
    // Bytes of a thread, such that 32 threads that each read theirs read 32 banks.
    static constexpr u32 STRIDE = WARP + 4;

    union {
        u32 words[WARP * STRIDE / 4];
        // While lengths are looked at that have not been taken.
        Patches patches;
    };

    LANEPACK_DEVICE u8* bytes() { return reinterpret_cast<u8*>(words); }

    // Takes the lengths of a vector; gives the sum of those of the thread's strings. All
    // threads of a warp.
    LANEPACK_DEVICE u64 load(const Node& lengths, u32 vector) {
        const u32 rows = min(lengths.rows - vector * VECTOR, VECTOR);
        const Exceptions<u32> exceptions = exceptional_lengths(lengths, vector);
        // Others may still read the lengths before these.
        __syncwarp();
        u64 above = take<false>(lengths, vector, rows, 0);
        if (exceptions.count > 0) {
            if (__any_sync(FULL, above != 0)) {
                // Once more, as what is packed in slots of exceptions may be long.
                const u32 exceptional = exceptional_steps(exceptions, patches);
                __syncwarp();
                above = take<true>(lengths, vector, rows, exceptional);
            }
            above += patch(exceptions, rows);
        }
        return above + sum();
    }

    // The length of the thread's string `i` of the vector that was loaded.
    LANEPACK_DEVICE u32 of(const Node& lengths, u32 vector, u32 i) {
        const u32 length = bytes()[threadIdx.x % WARP * STRIDE + i];
        return length < LONG ? length : unpacked(lengths, vector, i);
    }

private:
    // Takes lengths but for those of `exceptional` steps; gives how much longer than `LONG` those of the
    // thread's strings are.
    template <bool HAS_EXCEPTIONS>
    LANEPACK_DEVICE u64 take(const Node& lengths, u32 vector, u32 rows, u32 exceptional) {
        const u32 thread = threadIdx.x % WARP;
        const bool is_plain = lengths.encoding == PLAIN;
        const bool is_packed = lengths.encoding == FFOR || lengths.encoding == PFOR;
        const u32* words_of = reinterpret_cast<const u32*>(lengths.buffer[is_packed ? 1 : 0]);
        u32 base = static_cast<u32>(lengths.parameter);
        PackedLane<u32> packed(Packed<u32>{nullptr, 0}, thread, words_of);
        if (is_packed) {
            const FforVector<u32> parameters(lengths, vector);
            packed = PackedLane<u32>(parameters.packed, thread, words_of);
            base = parameters.base;
        }
        u64 above = 0;
#pragma unroll 4
        for (u32 step = 0; step < WARP; step++) {
            const u32 position = step_position(step) + thread;
            u32 length = is_packed ? base + packed.next() : base;
            if (is_plain && position < rows) length = __ldg(words_of + vector * VECTOR + position);
            if (position >= rows) length = 0;
            if (HAS_EXCEPTIONS && (exceptional >> step & 1) != 0) length = 0;
            bytes()[step * STRIDE + thread] = static_cast<u8>(min(length, LONG));
            if (__any_sync(FULL, length > LONG)) {
                const u64 all = sum_of_warp(length > LONG ? length - LONG : 0);
                if (step == thread) above = all;
            }
        }
        __syncwarp();
        return above;
    }

    // The sum of the bytes of the thread's strings.
    LANEPACK_DEVICE u64 sum() const {
        u32 pairs = 0;
#pragma unroll
        for (u32 i = 0; i < WARP / 4; i++) {
            const u32 four = words[threadIdx.x % WARP * (STRIDE / 4) + i];
            pairs += (four & 0x00ff00ff) + (four >> 8 & 0x00ff00ff);
        }
        return (pairs & 0xffff) + (pairs >> 16);
    }

    // Puts lengths that are exceptions to their places; gives how much longer than `LONG` those of the
    // thread's strings are.
    LANEPACK_DEVICE u64 patch(const Exceptions<u32>& exceptions, u32 rows) {
        const u32 thread = threadIdx.x % WARP;
        u64 above = 0;
#pragma unroll 1
        for (u32 first = 0; first < exceptions.count; first += WARP) {
            const u32 number = first + thread;
            u32 step = 0;
            u32 over = 0;
            if (number < exceptions.count) {
                const u32 slot = __ldg(exceptions.slots + number);
                const u32 length = __ldg(exceptions.values + number);
                const u32 i = slot / WARP;
                step = slot % WARP;
                if (step_position(step) + i < rows) {
                    bytes()[step * STRIDE + i] = static_cast<u8>(min(length, LONG));
                    over = length > LONG ? length - LONG : 0;
                }
            }
#pragma unroll 1
            for (u32 left = __ballot_sync(FULL, over != 0); left != 0; left &= left - 1) {
                const u32 from = static_cast<u32>(__ffs(static_cast<int>(left))) - 1;
                const u32 its_step = __shfl_sync(FULL, step, from);
                const u32 its_over = __shfl_sync(FULL, over, from);
                if (its_step == thread) above += its_over;
            }
        }
        __syncwarp();
        return above;
    }

    LANEPACK_DEVICE static u64 sum_of_warp(u32 own) {
        return __shfl_sync(FULL, sum_upto(static_cast<u64>(own)), WARP - 1);
    }

    // One length by itself.
    LANEPACK_DEVICE static u32 unpacked(const Node& lengths, u32 vector, u32 i) {
        const u32 step = threadIdx.x % WARP;
        if (lengths.encoding == CONSTANT) return static_cast<u32>(lengths.parameter);
        if (lengths.encoding == PLAIN) {
            const u32* plain = reinterpret_cast<const u32*>(lengths.buffer[0]);
            return __ldg(plain + vector * VECTOR + step_position(step) + i);
        }
        u32 length;
        if (exceptional_lengths(lengths, vector).find(slot_of_length(step, i), length)) return length;
        const FforVector<u32> parameters(lengths, vector);
        const u32 width = parameters.packed.width;
        if (width == 0) return parameters.base;
        const u32 bit = step * width;
        const u32* word = parameters.packed.words + bit / 32 * LANES<u32> + i;
        const u32 low = __ldg(word);
        const u32 high = bit % 32 + width > 32 ? __ldg(word + LANES<u32>) : 0;
        return parameters.base + (__funnelshift_r(low, high, bit % 32) & low_bits<u32>(width));
    }
};

// Loads a vector's lengths and finds where the thread's strings begin in what is stored.
// False if the lengths do not add up to what the starts say. All threads of a warp.
LANEPACK_DEVICE bool find_strings(const Node& strings, const Node& lengths, u32 vector, StoredLengths& shared,
                                  u64& begin) {
    u64 whole;
    const u64 before = before_in_rows(shared.load(lengths, vector), whole);
    const u64 start = stored_start(strings, vector);
    begin = start + before;
    return whole == stored_start(strings, vector + 1) - start;
}

// Up to four bytes from `address` on, the first the lowest, zeros behind them; reads
// aligned words that have one of them.
LANEPACK_DEVICE u32 bytes_at(const u8* address, u32 count) {
    count = min(count, 4u);
    const u32 shift = static_cast<u32>(reinterpret_cast<u64>(address) % 4);
    const u32* words = reinterpret_cast<const u32*>(address - shift);
    const u32 low = __ldg(words);
    const u32 high = shift + count > 4 ? __ldg(words + 1) : 0;
    return __funnelshift_r(low, high, shift * 8) & low_bits<u32>(count * 8);
}

}  // namespace lanepack
