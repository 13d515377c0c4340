// Selections of one column as bitmaps: which rows lie in ranges, are true, are null.
//
// A warp takes a vector. Its verdicts are transposed into words of the bitmap
// (lanepack/steps.cuh), where those of nulls are dropped and what the bitmap held before
// is brought in: a conjunction reads only vectors of which something is still selected, a
// disjunction those of which something is not.
//
// Every architecture has threads for six blocks on a multiprocessor, which leaves 40
// registers: enough for the code of all widths. Eight blocks, of 32 registers, are refused
// where there are 1,536 threads and spill 12 bytes for sm_100 (select_64); they would spill
// nearly everywhere if what is known of a vector were kept across the code for its width
// rather than read again. Kernels of their own for integers and for floats of a size would
// have that code twice, half as much again to compile, for the same registers.
#include "arguments.cuh"
#include "lanepack/select.cuh"
#include "launch.cuh"

namespace lanepack {

LANEPACK_DEVICE VectorBits bits_of(const SelectArguments& args, const Node& node, u32 vector) {
    const u32 rows = min(node.rows - vector * VECTOR, VECTOR);
    return {args.out, node.at + static_cast<u64>(vector) * VECTOR, rows, args.rows};
}

// `test(node, vector)` gives the word of thread s's step.
template <class Test>
LANEPACK_DEVICE void select_rows(const SelectArguments& args, const Test& test) {
    const u32 chunk = blockIdx.x >> args.node_shift;
    const Node& node = args.nodes[chunk];
    const u32 part = blockIdx.x & ((1u << args.node_shift) - 1);
    const u32 vector = part * (SELECT_THREADS / WARP) + threadIdx.x / WARP;
    if (vector >= vectors_of(node)) return;
    const u32 position = step_position(threadIdx.x % WARP);
    if (args.combine != COMBINE_SET) {
        const VectorBits bits = bits_of(args, node, vector);
        const u32 before = bits.read();
        const u32 open = args.combine == COMBINE_AND ? before : bits_before(position, bits.rows) & ~before;
        if (!__any_sync(FULL, open != 0)) return;
    }
    u32 found = test(node, vector);
    if (args.negate != 0) found = ~found;
    const VectorBits bits = bits_of(args, again(node), vector);
    found &= bits_before(position, bits.rows);
    if (args.validity != nullptr) {
        found &= bits_word(args.validity[chunk], (vector * VECTOR + position) / 32);
    }
    if (args.combine == COMBINE_AND) found &= bits.read();
    if (args.combine == COMBINE_OR) found |= bits.read();
    bits.write(found);
}

LANEPACK_DEVICE Ranges ranges_of(const SelectArguments& args) {
    return {args.ranges, args.range_count, args.order};
}

template <class T>
LANEPACK_DEVICE void select_narrow(const SelectArguments& args) {
    select_rows(args, [&](const Node& node, u32 vector) {
        return by_step(select_integers<T>(node, vector, ranges_of(args)));
    });
}

// Integers and floats.
template <class T>
LANEPACK_DEVICE void select_wide(const SelectArguments& args) {
    LANEPACK_SHARED(Patches[SELECT_THREADS / WARP], patches);
    select_rows(args, [&](const Node& node, u32 vector) {
        return by_step(select_floats<T, true>(node, vector, ranges_of(args), patches[threadIdx.x / WARP]));
    });
}

LANEPACK_KERNEL(select_8, SELECT_THREADS, 6, SelectArguments) { select_narrow<u8>(args); }
LANEPACK_KERNEL(select_16, SELECT_THREADS, 6, SelectArguments) { select_narrow<u16>(args); }
LANEPACK_KERNEL(select_32, SELECT_THREADS, 6, SelectArguments) { select_wide<u32>(args); }
LANEPACK_KERNEL(select_64, SELECT_THREADS, 6, SelectArguments) { select_wide<u64>(args); }

// Booleans that are true, or rows that are valid: nodes are those of the validity then.
LANEPACK_KERNEL(select_bits, SELECT_THREADS, 6, SelectArguments) {
    select_rows(args, [&](const Node& node, u32 vector) {
        return bits_word(node, (vector * VECTOR + step_position(threadIdx.x % WARP)) / 32);
    });
}

// Joins a bitmap with another; bits behind the last become zero.
LANEPACK_KERNEL(join_selected, JOIN_THREADS, 1, JoinArguments) {
    const u64 word = static_cast<u64>(blockIdx.x) * JOIN_THREADS + threadIdx.x;
    if (word * 32 >= args.bits) return;
    const u64 rest = args.bits - word * 32;
    const u32 inside = rest >= 32 ? FULL : FULL >> (32 - static_cast<u32>(rest));
    u32 found = (args.negate != 0 ? ~args.from[word] : args.from[word]) & inside;
    if (args.combine == COMBINE_AND) found &= args.out[word];
    if (args.combine == COMBINE_OR) found |= args.out[word] & inside;
    args.out[word] = found;
}

// Adds the number of set bits of a bitmap to a count.
LANEPACK_KERNEL(count_selected, COUNT_THREADS, 1, CountArguments) {
    const u64 first = static_cast<u64>(blockIdx.x) * COUNT_WORDS + threadIdx.x;
    u32 count = 0;
#pragma unroll
    for (u32 i = 0; i < COUNT_WORDS / COUNT_THREADS; i++) {
        const u64 word = first + i * COUNT_THREADS;
        if (word * 32 >= args.bits) break;
        const u64 rest = args.bits - word * 32;
        const u32 inside = rest >= 32 ? FULL : FULL >> (32 - static_cast<u32>(rest));
        count += static_cast<u32>(__popc(__ldg(args.bitmap + word) & inside));
    }
    count = __reduce_add_sync(FULL, count);
    if (threadIdx.x % WARP == 0 && count > 0) atomicAdd(args.count, static_cast<u64>(count));
}

}  // namespace lanepack
