// Selections of one column as bitmaps: which rows lie in ranges, are true, are null.
//
// A warp takes a few vectors in a row. What is the same for all threads of a warp (where
// the packed words lie, which packed values are in the range) is prepared for all of them
// at once, by a thread or two each (lanepack/select.cuh). Verdicts are transposed into
// words of the bitmap (lanepack/steps.cuh), where those of nulls are dropped and what the
// bitmap held before is brought in: a conjunction reads only vectors of which something is
// still selected, a disjunction those of which something is not.
//
// Figures and what was tried: docs/experiments.md.
//
// Five blocks on a multiprocessor, of 48 registers: six, of 40, spill. The code for all
// widths, which takes most of the time that all kernels take to compile, stands in each kernel
// once, for integers and floats: with a second one for several ranges it was 55 s instead of
// 18; with one that both share 8 % less for Float64 of 16 bits, 14 % with 8 exceptions.
#include "arguments.cuh"
#include "lanepack/select.cuh"
#include "lanepack/select_wide.cuh"
#include "select_rows.cuh"
#include "value_bits.cuh"

namespace lanepack {

template <class T, u32 ENCODINGS>
LANEPACK_DEVICE void select_numbers(const SelectArguments& args) {
    using Test = RangeTest<T, ENCODINGS, widths_upto(ROWS<T>)>;
    LANEPACK_SHARED(Patches[SELECT_THREADS / WARP], all_patches);
    LANEPACK_SHARED(Prepared<T>[SELECT_THREADS / WARP][SELECT_EACH], all);
    Patches& patches = all_patches[warp_in_block()];
    Prepared<T>* const prepared = all[warp_in_block()];
    const Ranges ranges{args.ranges, args.range_count, args.order};
    select_rows(
        args,
        [&](const Node& node, u32 first, u32 count) {
            if (ranges.count == 1) Test::prepare(node, first, count, ranges[0], ranges.order, prepared);
        },
        [&](const Node& node, u32 vector, u32 i, u32) {
            // Of several ranges each value looks for its own, without code for widths.
            const u32 selection =
                ranges.count == 1
                    ? Test::select(node, vector, ranges[0], ranges.order, prepared[i], patches)
                    : select_values<T, ENCODINGS, 0>(node, vector, ranges, patches);
            return by_step(selection);
        });
}

// For newer architectures the compiler wants more registers, or spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr u32 SELECT_BLOCKS = 3;
#else
constexpr u32 SELECT_BLOCKS = 5;
#endif

LANEPACK_KERNEL(select_8, SELECT_THREADS, SELECT_BLOCKS, SelectArguments) { select_numbers<u8, WORD_ENCODINGS>(args); }
LANEPACK_KERNEL(select_16, SELECT_THREADS, SELECT_BLOCKS, SelectArguments) { select_numbers<u16, WORD_ENCODINGS>(args); }
LANEPACK_KERNEL(select_32, SELECT_THREADS, SELECT_BLOCKS, SelectArguments) { select_numbers<u32, FLOAT_ENCODINGS>(args); }
LANEPACK_KERNEL(select_64, SELECT_THREADS, SELECT_BLOCKS, SelectArguments) { select_numbers<u64, FLOAT_ENCODINGS>(args); }

// Integers with exceptions, by themselves: in the kernels above they cost doubles with 32
// exceptions a vector 7 %, as the order of exceptions is not known to the compiler then.
LANEPACK_KERNEL(select_pfor_8, SELECT_THREADS, SELECT_BLOCKS, SelectArguments) { select_numbers<u8, 1u << PFOR>(args); }
LANEPACK_KERNEL(select_pfor_16, SELECT_THREADS, SELECT_BLOCKS, SelectArguments) { select_numbers<u16, 1u << PFOR>(args); }
LANEPACK_KERNEL(select_pfor_32, SELECT_THREADS, SELECT_BLOCKS, SelectArguments) { select_numbers<u32, 1u << PFOR>(args); }
LANEPACK_KERNEL(select_pfor_64, SELECT_THREADS, SELECT_BLOCKS, SelectArguments) { select_numbers<u64, 1u << PFOR>(args); }

// Reals, which are taken value by value.
template <class T>
LANEPACK_DEVICE void select_reals(const SelectArguments& args) {
    using Test = RangeTest<T, 1u << ALP_RD, 0>;
    LANEPACK_SHARED(Patches[SELECT_THREADS / WARP], all_patches);
    Patches& patches = all_patches[warp_in_block()];
    const Ranges ranges{args.ranges, args.range_count, args.order};
    select_rows(
        args, [](const Node&, u32, u32) {},
        [&](const Node& node, u32 vector, u32, u32) {
            const Prepared<T> nothing{};
            const u32 selection =
                ranges.count == 1 ? Test::select(node, vector, ranges[0], ranges.order, nothing, patches)
                                  : select_values<T, 1u << ALP_RD, 0>(node, vector, ranges, patches);
            return by_step(selection);
        });
}

LANEPACK_KERNEL(select_reals_32, SELECT_THREADS, 4, SelectArguments) { select_reals<u32>(args); }
LANEPACK_KERNEL(select_reals_64, SELECT_THREADS, 4, SelectArguments) { select_reals<u64>(args); }

// Booleans that are true, or rows that are valid: nodes are those of the validity then.
LANEPACK_KERNEL(select_bits, SELECT_THREADS, 6, SelectArguments) {
    select_rows(
        args, [](const Node&, u32, u32) {},
        [](const Node& node, u32 vector, u32, u32) {
            return bits_word(node, vector * (VECTOR / 32) + step_word(threadIdx.x % WARP));
        });
}

// Wide values of more than one word.
LANEPACK_KERNEL(select_wide, SELECT_THREADS, 2, SelectWideArguments) {
    const Node* words = args.words + (blockIdx.x >> args.select.node_shift) * 4;
    select_rows(
        args.select, [](const Node&, u32, u32) {},
        [&](const Node& node, u32 vector, u32, u32) {
            return by_step(args.count == 2 ? select_wide<2>(node, words, vector, args.ranges, args.range_count)
                                           : select_wide<4>(node, words, vector, args.ranges, args.range_count));
        });
}

// Values of dictionaries in ranges, a bit for each.
template <class T>
LANEPACK_DEVICE void values_in_ranges(const ValuesInRangesArguments& args) {
    const Ranges ranges{args.ranges, args.range_count, args.order};
    put_value_bits(args, [&](const Node& node, u32 row) {
        return ranges.hold_word(__ldg(reinterpret_cast<const T*>(node.buffer[0]) + row));
    });
}

LANEPACK_KERNEL(values_in_ranges, PROBE_THREADS, 1, ValuesInRangesArguments) {
    switch (args.value_bytes) {
        case 1: return values_in_ranges<u8>(args);
        case 2: return values_in_ranges<u16>(args);
        case 4: return values_in_ranges<u32>(args);
        default: return values_in_ranges<u64>(args);
    }
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
