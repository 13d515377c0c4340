// FastLanes order and bit-packing on the device: one lane as an iterator, and 16
// bytes of neighbouring lanes at once.
//
//   packed   word 0 of all lanes | word 1 | ... | word W-1       lines of 128 bytes, W of them
//   values   index(row, lane); a row of all lanes is 128 bytes of the output, for every T
//
// Packed words and values lie alike: 16 bytes of a line are the neighbouring
// lanes whose values are 16 bytes of a row (a *piece*), and are shifted alike.
// Widths and shifts are run-time values: one short loop for all widths, and
// nothing for the instruction cache to thrash on.
#pragma once

#include "node.cuh"

namespace lanepack {

// Rows of a lane, which are the bits of a value; lanes of a vector.
template <class T>
constexpr u32 ROWS = sizeof(T) * 8;
template <class T>
constexpr u32 LANES = VECTOR / ROWS<T>;

// The order of groups of eight rows, in units of 16 values: three bits reversed,
// hence its own inverse.
LANEPACK_DEVICE u32 group_order(u32 group) {
    return 0x73516240u >> 4 * group & 7;
}

// The position in the vector of the value in `row` of `lane`.
LANEPACK_DEVICE u32 index(u32 row, u32 lane) {
    return group_order(row / 8) * 16 + row % 8 * 128 + lane;
}

// The row of the value at a position; its lane is position % LANES<T>.
template <class T>
LANEPACK_DEVICE u32 row_at(u32 position) {
    const u32 of_row = position % 128 / LANES<T> * LANES<T>;
    return group_order(of_row / 16) * 8 + position / 128;
}

LANEPACK_DEVICE u32 vectors_of(const Node& node) {
    return (node.rows + VECTOR - 1) / VECTOR;
}

// Where a vector's packed words lie, and their width.
template <class T>
struct Packed {
    const T* words;
    u32 width;
};

template <class T>
LANEPACK_DEVICE Packed<T> packed_at(const Node& node, u32 place) {
    const u8* packed = node.buffer[0] + static_cast<u64>(place & 0xffffff) * PACKED_UNIT;
    return {reinterpret_cast<const T*>(packed), place >> 24};
}

// The lowest `width` bits.
template <class T>
LANEPACK_DEVICE T low_bits(u32 width) {
    if constexpr (sizeof(T) <= 4) {
        // Shifted by at most 32 bits.
        return static_cast<T>(~__funnelshift_lc(0, FULL, width));
    } else {
        return static_cast<T>(width == 0 ? 0 : ~u64{0} >> (64 - width));
    }
}

// The bits from `shift` on of the double word high:low, shift < ROWS<T>.
template <class T>
LANEPACK_DEVICE T funnel(T low, T high, u32 shift) {
    if constexpr (sizeof(T) == 8) {
        return low >> shift | high << 1 << (63 - shift);
    } else if constexpr (sizeof(T) == 4) {
        return __funnelshift_r(low, high, shift);
    } else {
        return static_cast<T>((low | static_cast<u32>(high) << ROWS<T>) >> shift);
    }
}

// The packed values of one lane, in rows 0, 1, 2, ...: two loads, a funnel shift
// and a conditional advance for each, no branch. Reads the vector's own words
// only, and at width 0 `instead`, which may be any readable word.
template <class T>
struct PackedLane {
    const T* word;
    u32 shift;
    u32 width;
    u32 step;
    T mask;

    PackedLane() = default;
    LANEPACK_DEVICE PackedLane(Packed<T> packed, u32 lane, const T* instead)
        : word(packed.width == 0 ? instead : packed.words + lane),
          shift(0),
          width(packed.width),
          step(LANES<T>),
          mask(low_bits<T>(packed.width)) {}

    LANEPACK_DEVICE T next() {
        const T low = word[0];
        const u32 end = shift + width;
        const T high = word[end > ROWS<T> ? step : 0];
        const T value = static_cast<T>(funnel(low, high, shift) & mask);
        word += end >= ROWS<T> ? step : 0;
        shift = end % ROWS<T>;
        return value;
    }
};

// Values of a piece.
template <class T>
constexpr u32 PIECE = 16 / sizeof(T);

LANEPACK_DEVICE u64 join(u32 low, u32 high) {
    return static_cast<u64>(high) << 32 | low;
}

// A piece of values.
template <class T>
LANEPACK_DEVICE uint4 piece_of(const T* values) {
    if constexpr (sizeof(T) == 8) {
        return uint4{static_cast<u32>(values[0]), static_cast<u32>(values[0] >> 32),
                     static_cast<u32>(values[1]), static_cast<u32>(values[1] >> 32)};
    } else {
        u32 words[4] = {0, 0, 0, 0};
#pragma unroll
        for (u32 i = 0; i < PIECE<T>; i++) {
            words[i * sizeof(T) / 4] |= static_cast<u32>(values[i]) << i * ROWS<T> % 32;
        }
        return uint4{words[0], words[1], words[2], words[3]};
    }
}

// `value` in every T of a word of 32 bits.
template <class T>
LANEPACK_DEVICE u32 repeat(u32 value) {
    return sizeof(T) == 1 ? value * 0x01010101u : sizeof(T) == 2 ? value * 0x00010001u : value;
}

// Packed values of a piece: from bit `shift` on of the words high:low, `width` bits.
template <class T>
LANEPACK_DEVICE uint4 unpack_piece(uint4 low, uint4 high, u32 shift, T mask) {
    if constexpr (sizeof(T) == 8) {
        const u64 x = funnel(join(low.x, low.y), join(high.x, high.y), shift) & mask;
        const u64 y = funnel(join(low.z, low.w), join(high.z, high.w), shift) & mask;
        return uint4{static_cast<u32>(x), static_cast<u32>(x >> 32), static_cast<u32>(y),
                     static_cast<u32>(y >> 32)};
    } else if constexpr (sizeof(T) == 4) {
        return uint4{funnel(low.x, high.x, shift) & mask, funnel(low.y, high.y, shift) & mask,
                     funnel(low.z, high.z, shift) & mask, funnel(low.w, high.w, shift) & mask};
    } else {
        // Two or four lanes in each word of 32 bits: shift them together, drop
        // what came over from the neighbour.
        const u32 from_low = repeat<T>(mask & (T(~0u) >> shift));
        const u32 from_high = repeat<T>(mask & ~(T(~0u) >> shift));
        const u32 up = ROWS<T> - shift;
        return uint4{(low.x >> shift & from_low) | (high.x << up & from_high),
                     (low.y >> shift & from_low) | (high.y << up & from_high),
                     (low.z >> shift & from_low) | (high.z << up & from_high),
                     (low.w >> shift & from_low) | (high.w << up & from_high)};
    }
}

}  // namespace lanepack
