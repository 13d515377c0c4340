// Values of 8 to 64 bits to memory: ffor, alp, plain, constant.
//
// ffor and alp: a block writes 8 KB (unit.cuh). plain and constant: a thread
// writes 16 bytes, COPY_BYTES / COPY_THREADS / 16 times.
//
// Chunks may begin anywhere in the output. Where that is no multiple of 16 bytes,
// neighbouring threads shift their pieces by a shuffle: 83 % of a copy for words of
// 32 and 64 bits, 70 for 16, 44 for 8; stored value by value it was 42, 17 and 7.
// plain: 96 to 100 %, 93 to 99 shifted; constant 4,590 GB/s written, as a memset.
// 20 (8 and 16 bits) or 22 (alp) blocks on a multiprocessor keep registers at 48 and
// 40; with 16, ffor of 8 bits is 2 to 5 % slower, with 14 alp of 64 bits 2 to 4 %.
#include "arguments.cuh"
#include "unit.cuh"

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

template <class T>
LANEPACK_DEVICE void ffor(const WordsArguments& args) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    decode_ffor_unit<T>(node, part.part, {args.nodes, args.blocks_per_node}, StoreWords<T>(args.out, node));
}

template <class T>
LANEPACK_DEVICE void alp(const WordsArguments& args) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    decode_alp_unit<T>(node, part.part, {args.nodes, args.blocks_per_node}, StoreWords<T>(args.out, node));
}

LANEPACK_KERNEL(ffor_8, UNIT_THREADS, 20, WordsArguments) { ffor<u8>(args); }
LANEPACK_KERNEL(ffor_16, UNIT_THREADS, 20, WordsArguments) { ffor<u16>(args); }
LANEPACK_KERNEL(ffor_32, UNIT_THREADS, 16, WordsArguments) { ffor<u32>(args); }
LANEPACK_KERNEL(ffor_64, UNIT_THREADS, 16, WordsArguments) { ffor<u64>(args); }
LANEPACK_KERNEL(alp_32, UNIT_THREADS, 22, WordsArguments) { alp<u32>(args); }
LANEPACK_KERNEL(alp_64, UNIT_THREADS, 22, WordsArguments) { alp<u64>(args); }

// The units of 16 bytes at multiples of 16 that a node's bytes lie in: the first
// may begin before the node, the last end behind it.
struct Span {
    u8* out;
    u32 bytes;
    // Bytes of the first unit that lie before the node.
    u32 before;

    LANEPACK_DEVICE Span(u8* to, const Node& node, u32 width) {
        out = to + node.at * width;
        bytes = node.rows * width;
        before = static_cast<u32>(reinterpret_cast<u64>(out) % 16);
    }
};

// Calls `whole(byte)` for every unit of this block that lies in the node, `byte`
// counting from the node's start, and `part(begin, end)` for those cut at its ends.
template <class Whole, class Cut>
LANEPACK_DEVICE void for_each_unit(const Span& span, u32 part, const Whole& whole, const Cut& cut) {
#pragma unroll
    for (u32 i = 0; i < COPY_BYTES / COPY_THREADS / 16; i++) {
        const u32 unit = part * COPY_BYTES + (i * COPY_THREADS + threadIdx.x) * 16;
        const u32 begin = unit < span.before ? 0 : unit - span.before;
        const u32 end = unit + 16 - span.before < span.bytes ? unit + 16 - span.before : span.bytes;
        if (begin >= end) continue;
        if (end - begin == 16) {
            whole(begin);
        } else {
            cut(begin, end);
        }
    }
}

template <class T>
LANEPACK_DEVICE void plain(const WordsArguments& args) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const Span span(args.out, node, sizeof(T));
    const uint4* pieces = reinterpret_cast<const uint4*>(node.buffer[0]);
    for_each_unit(
        span, part.part,
        [&](u32 byte) {
            // Buffers are padded to 64 bytes, so pieces can be read whole.
            const u32 at = byte % 16;
            uint4 piece = __ldcs(pieces + byte / 16);
            if (at != 0) piece = bytes_from(piece, __ldcs(pieces + byte / 16 + 1), at);
            __stcs(reinterpret_cast<uint4*>(span.out + byte), piece);
        },
        [&](u32 begin, u32 end) {
            for (u32 byte = begin; byte < end; byte += sizeof(T)) {
                *reinterpret_cast<T*>(span.out + byte) =
                    *reinterpret_cast<const T*>(node.buffer[0] + byte);
            }
        });
}

template <class T>
LANEPACK_DEVICE void constant(const WordsArguments& args) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const Span span(args.out, node, sizeof(T));
    const T value = static_cast<T>(node.parameter);
    const u32 low = repeat<T>(static_cast<u32>(value));
    const u32 high = sizeof(T) == 8 ? static_cast<u32>(node.parameter >> 32) : low;
    for_each_unit(
        span, part.part,
        [&](u32 byte) {
            __stcs(reinterpret_cast<uint4*>(span.out + byte), uint4{low, high, low, high});
        },
        [&](u32 begin, u32 end) {
            for (u32 byte = begin; byte < end; byte += sizeof(T)) {
                *reinterpret_cast<T*>(span.out + byte) = value;
            }
        });
}

LANEPACK_KERNEL(plain_8, COPY_THREADS, 1, WordsArguments) { plain<u8>(args); }
LANEPACK_KERNEL(plain_16, COPY_THREADS, 1, WordsArguments) { plain<u16>(args); }
LANEPACK_KERNEL(plain_32, COPY_THREADS, 1, WordsArguments) { plain<u32>(args); }
LANEPACK_KERNEL(plain_64, COPY_THREADS, 1, WordsArguments) { plain<u64>(args); }
LANEPACK_KERNEL(constant_8, COPY_THREADS, 1, WordsArguments) { constant<u8>(args); }
LANEPACK_KERNEL(constant_16, COPY_THREADS, 1, WordsArguments) { constant<u16>(args); }
LANEPACK_KERNEL(constant_32, COPY_THREADS, 1, WordsArguments) { constant<u32>(args); }
LANEPACK_KERNEL(constant_64, COPY_THREADS, 1, WordsArguments) { constant<u64>(args); }

}  // namespace lanepack
