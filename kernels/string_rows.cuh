// Strings that rows name, to memory: of dictionaries, and those that front coding has taken
// apart.
//
//   where each row goes, and its bytes -> 16 bytes of the output a thread
//
// A block writes the rows of a vector. The bytes of neighbouring rows are neighbours, so the
// threads share the output and not the rows: each finds the row that its 16 bytes begin in by
// bisection, and takes what it needs from that string and those behind it.
//
// `Rows` has `places`, and gives bytes of a row: `bytes_of(row, inside, count)`, those from
// number `inside` on, of which at most `count` (8) are wanted; it makes `count` less where
// fewer lie side by side.
#pragma once

#include "lanepack/strings.cuh"

namespace lanepack {

// Up to eight bytes from `address` on, the first the lowest, zeros behind them; reads aligned
// words that have one of them.
LANEPACK_DEVICE u64 eight_bytes_at(const u8* address, u32 count) {
    const u32 shift = static_cast<u32>(reinterpret_cast<u64>(address) % 8);
    const u64* words = reinterpret_cast<const u64*>(address - shift);
    const u64 low = __ldg(words);
    const u64 high = shift + count > 8 ? __ldg(words + 1) : 0;
    return funnel(low, high, shift * 8) & low_bits<u64>(count * 8);
}

// Where the bytes of a vector's rows go, from the vector's first on, and the end.
struct RowPlaces {
    u32 at[VECTOR + 1];

    // The last row that begins at `byte` or before.
    LANEPACK_DEVICE u32 row_at(u32 byte, u32 rows) const {
        u32 first = 0;
        for (u32 end = rows - 1; first < end;) {
            const u32 middle = (first + end + 1) / 2;
            if (at[middle] <= byte) {
                first = middle;
            } else {
                end = middle - 1;
            }
        }
        return first;
    }
};

// The bytes of the output from `begin` to `end`, 16 at most.
template <class Rows>
LANEPACK_DEVICE uint4 piece_of_rows(const Rows& strings, u32 begin, u32 end, u32 rows) {
    const u32* const places = strings.places.at;
    u64 low = 0;
    u64 high = 0;
    u32 row = strings.places.row_at(begin, rows);
#pragma unroll 1
    for (u32 byte = begin; byte < end;) {
        u32 count = min(min(places[row + 1], end) - byte, 8u);
        const u64 word = strings.bytes_of(row, byte - places[row], count);
        const u32 at = byte - begin;
        if (at < 8) {
            low |= word << at * 8;
            if (at > 0) high |= word >> (8 - at) * 8;
        } else {
            high |= word << (at - 8) * 8;
        }
        byte += count;
        while (byte < end && byte >= places[row + 1]) row++;
    }
    return uint4{static_cast<u32>(low), static_cast<u32>(low >> 32), static_cast<u32>(high),
                 static_cast<u32>(high >> 32)};
}

// Writes the rows, whose bytes go to `out`, by a block; whether one is above 127.
template <u32 THREADS, class Rows>
LANEPACK_DEVICE bool write_rows(const Rows& strings, u32 rows, u8* out) {
    const u32 total = strings.places.at[rows];
    const u32 past = static_cast<u32>(reinterpret_cast<u64>(out) % 16);
    u32 seen = 0;
#pragma unroll 1
    for (u32 unit = threadIdx.x * 16; unit < total + past; unit += THREADS * 16) {
        const u32 begin = unit < past ? 0 : unit - past;
        const u32 end = min(unit + 16 - past, total);
        const uint4 piece = piece_of_rows(strings, begin, end, rows);
        seen |= piece.x | piece.y | piece.z | piece.w;
        if (end - begin == 16) {
            __stcs(reinterpret_cast<uint4*>(out + begin), piece);
        } else {
            const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
            for (u32 i = 0; i < end - begin; i++) out[begin + i] = static_cast<u8>(words[i / 4] >> i % 4 * 8);
        }
    }
    return (seen & HIGH_BITS) != 0;
}

}  // namespace lanepack
