// Bits to an Arrow bitmap: booleans and validity.
//
// A thread makes 128 bits of the output. Chunks may begin at any bit, so a word at a chunk's edge
// belongs to two chunks (or more, of few rows) and is ORed into an output of zeros; words inside
// are stored whole. Set bits are counted on the way: what was stated as null must be null.
#include "arguments.cuh"
#include "launch.cuh"

namespace lanepack {

// 32 bits of a bitmap of whole words, from bit `position` on, which may be
// negative or pass the end; what lies outside of its `words` is zero.
LANEPACK_DEVICE u32 bits_at(const u32* bitmap, i64 words, i64 position) {
    const i64 word = position >> 5;
    const u32 low = word >= 0 && word < words ? bitmap[word] : 0;
    const u32 high = word + 1 >= 0 && word + 1 < words ? bitmap[word + 1] : 0;
    return __funnelshift_r(low, high, static_cast<u32>(position) & 31);
}

// Word `word` of the output, of which bits from `node.at` to before `end` are the node's; gives
// these.
LANEPACK_DEVICE u32 put_word(const BitsArguments& args, const Node& node, u64 word, u64 end) {
    if (word * 32 >= end || word * 32 + 32 <= node.at) return 0;
    const i64 position = static_cast<i64>(word * 32) - static_cast<i64>(node.at);
    u32 inside = FULL;
    if (position < 0) inside <<= -position;
    if (word * 32 + 32 > end) inside &= FULL >> (word * 32 + 32 - end);
    u32 value;
    if (node.encoding == CONSTANT) {
        value = node.parameter != 0 ? inside : 0;
    } else {
        // Buffers are padded to 64 bytes, so the last word can be read whole.
        const i64 words = (node.rows + 31) / 32;
        value = bits_at(reinterpret_cast<const u32*>(node.buffer[0]), words, position) & inside;
    }
    if (inside == FULL) {
        args.out[word] = value;
    } else {
        atomicOr(&args.out[word], value);
    }
    return value;
}

// Bits from `position` on of a node, which has 128 from there on.
LANEPACK_DEVICE uint4 piece_at(const Node& node, u64 position) {
    if (node.encoding == CONSTANT) {
        const u32 all = node.parameter != 0 ? FULL : 0;
        return uint4{all, all, all, all};
    }
    const u32* words = reinterpret_cast<const u32*>(node.buffer[0]) + position / 32;
    if (position % 128 == 0) return __ldcs(reinterpret_cast<const uint4*>(words));
    const u32 shift = static_cast<u32>(position % 32);
    const u32 behind = shift != 0 ? words[4] : 0;
    return uint4{__funnelshift_r(words[0], words[1], shift), __funnelshift_r(words[1], words[2], shift),
                 __funnelshift_r(words[2], words[3], shift), __funnelshift_r(words[3], behind, shift)};
}

LANEPACK_DEVICE u32 bits_set(uint4 piece) {
    return static_cast<u32>(__popc(piece.x) + __popc(piece.y) + __popc(piece.z) + __popc(piece.w));
}

LANEPACK_KERNEL(bits, BITS_THREADS, 1, BitsArguments) {
    LANEPACK_SHARED(u32, all);
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    // Pieces of 128 bits of the output.
    const u64 piece = node.at / 128 + static_cast<u64>(part.part) * BITS_THREADS + threadIdx.x;
    const u64 end = node.at + node.rows;
    if (threadIdx.x == 0) all = 0;
    __syncthreads();
    u32 set = 0;
    if (piece * 128 >= node.at && piece * 128 + 128 <= end) {
        const uint4 value = piece_at(node, piece * 128 - node.at);
        __stcs(reinterpret_cast<uint4*>(args.out) + piece, value);
        set = bits_set(value);
    } else {
#pragma unroll 1
        for (u32 i = 0; i < 4; i++) set += static_cast<u32>(__popc(put_word(args, node, piece * 4 + i, end)));
    }
    set = __reduce_add_sync(FULL, set);
    if (threadIdx.x % WARP == 0 && set > 0) atomicAdd(&all, set);
    __syncthreads();
    if (threadIdx.x == 0 && all > 0) atomicAdd(&args.counts[part.node], all);
}

}  // namespace lanepack
