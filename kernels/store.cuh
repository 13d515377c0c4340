// Where decoded values of 8 to 64 bits go.
#pragma once

#include "lanepack/lanes.cuh"
#include "launch.cuh"

namespace lanepack {

// Where a piece goes: 16 bytes at once; if the output lies across multiples of 16
// bytes, shifted by way of the neighbouring thread; at the node's end by value.
template <class T>
struct StoreWords {
    T* out;
    u32 rows;
    // Bytes of `out` past a multiple of 16.
    u32 past;

    LANEPACK_DEVICE StoreWords(u8* to, const Node& node) {
        out = reinterpret_cast<T*>(to) + node.at;
        rows = node.rows;
        past = static_cast<u32>(reinterpret_cast<u64>(out) % 16);
    }

    // Whether all pieces of the unit that begins at `row` can be stored whole.
    LANEPACK_DEVICE bool is_whole(u32 row) const {
        return past == 0 && row + UNIT_BYTES / static_cast<u32>(sizeof(T)) <= rows;
    }

    LANEPACK_DEVICE void whole(u32 row, uint4 piece) const {
        __stcs(reinterpret_cast<uint4*>(out + row), piece);
    }

    // All threads of a warp together, with pieces that follow each other.
    LANEPACK_DEVICE void operator()(u32 row, uint4 piece) const {
        const u32 lane = threadIdx.x % WARP;
        if (row + (WARP - lane) * PIECE<T> > rows) {
            values(row, piece, 0, PIECE<T>);
        } else if (past == 0) {
            whole(row, piece);
        } else {
            const uint4 before{__shfl_up_sync(FULL, piece.x, 1), __shfl_up_sync(FULL, piece.y, 1),
                               __shfl_up_sync(FULL, piece.z, 1), __shfl_up_sync(FULL, piece.w, 1)};
            const u32 own = (16 - past) / static_cast<u32>(sizeof(T));
            if (lane == 0) {
                values(row, piece, 0, own);
            } else {
                u8* to = reinterpret_cast<u8*>(out + row) - past;
                __stcs(reinterpret_cast<uint4*>(to), bytes_from(before, piece, 16 - past));
                if (lane == WARP - 1) values(row, piece, own, PIECE<T>);
            }
        }
    }

    // Values begin..end of a piece.
    LANEPACK_DEVICE void values(u32 row, uint4 piece, u32 begin, u32 end) const {
        const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
        for (u32 i = 0; i < PIECE<T>; i++) {
            if (i < begin || i >= end) continue;
            if constexpr (sizeof(T) == 8) {
                value(row + i, join(words[2 * i], words[2 * i + 1]));
            } else {
                value(row + i, static_cast<T>(words[i * sizeof(T) / 4] >> i * ROWS<T> % 32));
            }
        }
    }

    LANEPACK_DEVICE void value(u32 row, T value) const {
        if (row < rows) out[row] = value;
    }
};

}  // namespace lanepack
