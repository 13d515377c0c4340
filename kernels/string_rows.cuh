// Strings that rows name, to memory: of dictionaries, and those that front coding has taken
// apart.
//
//   where each row goes, and its bytes -> 16 bytes of the output a thread
//
// A block writes the rows of a vector. The bytes of neighbouring rows are neighbours, so the
// threads share the output and not the rows: each takes 16 bytes, from the row that they begin
// in and those behind it. Which row that is, each row has noted for the pieces that begin in
// it, and is found by bisection where rows are long.
//
// `Rows` has `places`, and gives bytes of a row: `bytes_of(row, inside, count)`, those from
// number `inside` on, of which at most `count` (16) are wanted; it makes `count` less where
// fewer lie side by side.
#pragma once

#include "lanepack/strings.cuh"

namespace lanepack {

// 16 bytes, the first the lowest.
struct Bytes16 {
    u64 low;
    u64 high;

    // Bytes as many places further up; those that leave it are lost.
    LANEPACK_DEVICE Bytes16 up(u32 bytes) const {
        const u32 bits = bytes % 8 * 8;
        const u64 over = bits == 0 ? 0 : low >> (64 - bits);
        const u64 shifted = low << bits;
        return bytes < 8 ? Bytes16{shifted, high << bits | over} : Bytes16{0, shifted};
    }
    LANEPACK_DEVICE void add(const Bytes16& other) {
        low |= other.low;
        high |= other.high;
    }
};

// Up to 16 bytes from `address` on, zeros behind them; reads aligned words that have one of
// them.
LANEPACK_DEVICE Bytes16 bytes16_at(const u8* address, u32 count) {
    const u32 shift = static_cast<u32>(reinterpret_cast<u64>(address) % 8);
    const u64* words = reinterpret_cast<const u64*>(address - shift);
    const u64 first = __ldg(words);
    const u64 second = shift + count > 8 ? __ldg(words + 1) : 0;
    const u64 third = shift + count > 16 ? __ldg(words + 2) : 0;
    const u64 low = funnel(first, second, shift * 8);
    const u64 high = funnel(second, third, shift * 8);
    if (count <= 8) return Bytes16{low & low_bits<u64>(count * 8), 0};
    return Bytes16{low, high & low_bits<u64>((count - 8) * 8)};
}

// Where the bytes of a vector's rows go, from the vector's first on, and the end. They are
// written in pieces between multiples of 16 of addresses.
struct RowPlaces {
    // Of so many pieces it is noted which row they begin in.
    static constexpr u32 PIECES = 4096;

    u32 at[VECTOR + 1];
    u16 rows[PIECES];

    // Notes where a row is. `past` is how far its vector begins behind a multiple of 16.
    LANEPACK_DEVICE void note(u32 row, u32 begin, u32 end, u32 past) {
        at[row] = begin;
        const u32 first = begin == 0 ? 0 : (begin + past + 15) / 16;
        const u32 behind = begin == end ? 0 : min((end + past + 15) / 16, PIECES);
        for (u32 piece = first; piece < behind; piece++) rows[piece] = static_cast<u16>(row);
    }

    // The row that a piece begins in.
    LANEPACK_DEVICE u32 row_of(u32 piece, u32 byte, u32 count) const {
        if (piece < PIECES) return rows[piece];
        u32 first = 0;
        for (u32 end = count - 1; first < end;) {
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

// The bytes of the output from `begin` to `end`, 16 at most, of which the first is one of `row`.
template <class Rows>
LANEPACK_DEVICE Bytes16 piece_of_rows(const Rows& strings, u32 begin, u32 end, u32 row) {
    const u32* const places = strings.places.at;
    Bytes16 piece{0, 0};
#pragma unroll 1
    for (u32 byte = begin; byte < end;) {
        u32 count = min(places[row + 1], end) - byte;
        piece.add(strings.bytes_of(row, byte - places[row], count).up(byte - begin));
        byte += count;
        while (byte < end && byte >= places[row + 1]) row++;
    }
    return piece;
}

// Writes the rows, whose bytes go to `out`, by a block; whether one is above 127.
template <u32 THREADS, class Rows>
LANEPACK_DEVICE bool write_rows(const Rows& strings, u32 rows, u8* out) {
    const u32 total = strings.places.at[rows];
    const u32 past = static_cast<u32>(reinterpret_cast<u64>(out) % 16);
    const u32 pieces = total == 0 ? 0 : (total + past + 15) / 16;
    u64 seen = 0;
#pragma unroll 1
    for (u32 piece = threadIdx.x; piece < pieces; piece += THREADS) {
        const u32 begin = piece == 0 ? 0 : piece * 16 - past;
        const u32 end = min(piece * 16 + 16 - past, total);
        const Bytes16 bytes = piece_of_rows(strings, begin, end, strings.places.row_of(piece, begin, rows));
        seen |= bytes.low | bytes.high;
        if (end - begin == 16) {
            const auto half = [](u64 word, u32 shift) { return static_cast<u32>(word >> shift); };
            __stcs(reinterpret_cast<uint4*>(out + begin),
                   uint4{half(bytes.low, 0), half(bytes.low, 32), half(bytes.high, 0), half(bytes.high, 32)});
        } else {
            for (u32 i = 0; i < end - begin; i++) {
                out[begin + i] = static_cast<u8>((i < 8 ? bytes.low : bytes.high) >> i % 8 * 8);
            }
        }
    }
    return (seen & (u64{HIGH_BITS} << 32 | HIGH_BITS)) != 0;
}

}  // namespace lanepack
