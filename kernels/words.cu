// Values of 8 to 64 bits to memory: ffor, alp, pfor, alp_rd, plain, constant.
//
// ffor, alp, pfor and alp_rd: a block writes 8 KB (unit.cuh). plain and constant: a thread
// writes 16 bytes, COPY_BYTES / COPY_THREADS / 16 times.
//
// Chunks may begin anywhere in the output. Where that is no multiple of 16 bytes,
// neighbouring threads shift their pieces by a shuffle: 83 % of a copy for words of
// 32 and 64 bits, 70 for 16, 44 for 8; stored value by value it was 42, 17 and 7.
// plain: 96 to 100 %, 93 to 99 shifted; constant 4,590 GB/s written, as a memset.
// 20 (8 and 16 bits) or 22 (alp) blocks on a multiprocessor keep registers at 48 and
// 40; with 16, ffor of 8 bits is 2 to 5 % slower, with 14 alp of 64 bits 2 to 4 %.
#include "arguments.cuh"
#include "store.cuh"
#include "unit.cuh"

namespace lanepack {

template <class T>
LANEPACK_DEVICE void ffor(const WordsArguments& args) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    decode_ffor_unit<T>(node, part.part, {args.nodes, args.blocks_per_node}, StoreWords<T>(args.out, node));
}

template <class T, class Vector>
LANEPACK_DEVICE void patched(const WordsArguments& args) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    decode_patched_unit<T, Vector>(node, part.part, {args.nodes, args.blocks_per_node},
                                   StoreWords<T>(args.out, node));
}

LANEPACK_KERNEL(ffor_8, UNIT_THREADS, 20, WordsArguments) { ffor<u8>(args); }
LANEPACK_KERNEL(ffor_16, UNIT_THREADS, 20, WordsArguments) { ffor<u16>(args); }
LANEPACK_KERNEL(ffor_32, UNIT_THREADS, 16, WordsArguments) { ffor<u32>(args); }
LANEPACK_KERNEL(ffor_64, UNIT_THREADS, 16, WordsArguments) { ffor<u64>(args); }
// With 22 the compiler spills on the oldest architecture.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr u32 ALP_BLOCKS = 20;
#else
constexpr u32 ALP_BLOCKS = 22;
#endif

LANEPACK_KERNEL(alp_32, UNIT_THREADS, 22, WordsArguments) { patched<u32, AlpVector<u32>>(args); }
LANEPACK_KERNEL(alp_64, UNIT_THREADS, ALP_BLOCKS, WordsArguments) { patched<u64, AlpVector<u64>>(args); }
LANEPACK_KERNEL(alp_rd_32, UNIT_THREADS, 18, WordsArguments) { patched<u32, AlpRdVector<u32>>(args); }
LANEPACK_KERNEL(alp_rd_64, UNIT_THREADS, 18, WordsArguments) { patched<u64, AlpRdVector<u64>>(args); }

// Units of 8- and 16-bit values have more vectors than `decode_patched_unit` knows: their
// exceptions are written over what is packed in their slots.
template <class T>
LANEPACK_DEVICE void pfor_small(const WordsArguments& args) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const StoreWords<T> store(args.out, node);
    decode_ffor_unit<T, PforVector<T>>(node, part.part, {args.nodes, args.blocks_per_node}, store);
    __syncthreads();
    const u32 first = part.part * UNIT_VECTORS<T>;
    const u32 end = min(first + UNIT_VECTORS<T>, vectors_of(node));
    for (u32 vector = first + warp_in_block(); vector < end; vector += UNIT_THREADS / WARP) {
        const Exceptions<T> exceptions(node.buffer[2], pfor_locator<T>(node, vector));
        exceptions.for_each(threadIdx.x % WARP, WARP, [&](u32, u32 position, T value) {
            store.value(vector * VECTOR + position, value);
        });
    }
}

LANEPACK_KERNEL(pfor_8, UNIT_THREADS, 20, WordsArguments) { pfor_small<u8>(args); }
LANEPACK_KERNEL(pfor_16, UNIT_THREADS, 20, WordsArguments) { pfor_small<u16>(args); }
LANEPACK_KERNEL(pfor_32, UNIT_THREADS, 18, WordsArguments) { patched<u32, PforVector<u32>>(args); }
LANEPACK_KERNEL(pfor_64, UNIT_THREADS, 18, WordsArguments) { patched<u64, PforVector<u64>>(args); }

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
