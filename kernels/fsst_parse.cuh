// A thread parses a piece of a sample, for what its codes come to.
#pragma once

#include "encode_arguments.cuh"
#include "lanepack/fsst_encode.cuh"

namespace lanepack {

// Calls `take` with each match and the byte that it begins with. Words of 4 bytes that
// hold some of the piece's are read as a whole, none behind them.
template <class Take>
LANEPACK_DEVICE void parse_piece(const EncoderTable& table, const u8* values, const FsstPiece& piece, Take take) {
    const u32* const words = reinterpret_cast<const u32*>(values);
    const u32 eights = table.eights;
    const u64 end = piece.from + piece.length;
    const u64 last = (end - 1) / 4;
    for (u64 at = piece.from; at < end;) {
        const u64 word = at / 4;
        const u32 first = words[word];
        const u32 second = words[min(word + 1, last)];
        const u32 third = words[min(word + 2, last)];
        const u32 shift = static_cast<u32>(at % 4) * 8;
        const u32 low = __funnelshift_r(first, second, shift);
        const u32 high = __funnelshift_r(second, third, shift);
        const Match match = table.match(low, high, static_cast<u32>(end - at), eights);
        take(match, low & 0xff);
        at += match.length;
    }
}

}  // namespace lanepack
