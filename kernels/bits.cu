// Bits to an Arrow bitmap: booleans and validity.
//
// A thread makes one 32-bit word of the output. Chunks may begin at any bit, so
// a word at a chunk's edge belongs to two chunks (or more, of few rows) and is
// ORed into an output of zeros; words inside are stored whole. Set bits are
// counted on the way: what was stated as null must be null.
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

LANEPACK_KERNEL(bits, BITS_THREADS, 1, BitsArguments) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u64 first = node.at / 32;
    const u64 word = first + static_cast<u64>(part.part) * BITS_THREADS + threadIdx.x;
    const u64 end = node.at + node.rows;
    u32 value = 0;
    if (word * 32 < end) {
        const i64 position = static_cast<i64>(word * 32) - static_cast<i64>(node.at);
        u32 inside = FULL;
        if (position < 0) inside <<= -position;
        if (word * 32 + 32 > end) inside &= FULL >> (word * 32 + 32 - end);
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
    }
    const u32 set = __reduce_add_sync(FULL, static_cast<u32>(__popc(value)));
    if (threadIdx.x % WARP == 0 && set > 0) atomicAdd(&args.counts[part.node], set);
}

}  // namespace lanepack
