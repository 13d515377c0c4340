// Scans of any number of columns in one kernel: what kernels generated for a query
// (src/scan/device/source.rs) are put together from.
//
//   a column is read by the reader of its trees (reader.cuh); wide values by one for each word
//   a warp takes a few neighbouring vectors of a chunk
//     prepare      for each test for a range: which packed values pass, for all of them at once
//     each vector  tests one after the other, each only while a row is left
//                    -> a bitmap: verdicts transposed into its words
//                    -> aggregates: values of many rows thread by thread, of few rows by
//                       full warps, behind the last vector (scan_rows.cuh)
//   reduce_partials (kernels/scan.cu) makes partials of vectors those of chunks
//
// All columns have the same chunks. Steps and threads have the same rows in every type
// (steps.cuh), so selections go together bit by bit and values row by row.
//
// Sums of floats have one order, that of src/scan/aggregate.rs: a thread adds its values by
// step, threads 16, 8, 4, 2, 1 apart are added, then vectors and chunks in their order. All other
// aggregates have none: a warp aggregates its vectors, and the first one has the partial.
#pragma once

#include "calendar.cuh"
#include "numbers.cuh"
#include "readers.cuh"
#include "scan_rows.cuh"

namespace lanepack {

// Threads of a block, fewer where shared memory is short.
constexpr u32 SCAN_THREADS = 256;
// Blocks of a multiprocessor at least: 40 registers a thread. With 5 and 6 on an NVIDIA H200, billion
// rows/s: SSB Q1.1 736 and 829, Q1.2 1,001 and 1,120; TPC-H Q6 on Float64 721 and 762, on decimals
// 727 and 757. With 7, while rows of several vectors were listed by turns, Q1.1 had 584 instead of
// 746.
constexpr u32 SCAN_BLOCKS = 6;
// The same of kernels that test strings, which spill with less than 48 registers.
constexpr u32 SCAN_BLOCKS_STRINGS = 5;
// The same of kernels that look up keys, or make groups, which spill with 40. All 13 queries of the Star
// Schema Benchmark at scale factor 20 on an NVIDIA H200, geometric mean with 4, 5 and 6 blocks: 550, 507,
// 530 us. Bits of small lookups in shared memory instead of the first-level cache: 573 with 4 blocks.
constexpr u32 SCAN_BLOCKS_KEYS = 5;
// Vectors of a warp at most, and the same where all columns are plain: with 4, SSB on raw columns is
// 4 % faster, Q1.2 on compressed columns 10 % slower.
constexpr u32 SCAN_EACH = 8;
constexpr u32 SCAN_EACH_PLAIN = 4;
// Vectors of a warp in a kernel for one test of strings, as strings take long.
constexpr u32 SCAN_EACH_STRINGS = 1;
// The same in chunks that have codes. Of a column of both kinds of chunks (examiner_headlines) an NVIDIA
// H100 tests, GB/s, tried in turns, with 1, 2 and 4 vectors of codes: = 12,100, 11,850, 11,140; IN 10,060,
// 10,940, 10,180; prefixes 7,770, 7,870, 8,840; LIKE 5,220, 5,640, 6,650.
constexpr u32 SCAN_EACH_CODES = 2;
// Launches have blocks for the least, tests room for the most.
static_assert(SCAN_EACH_STRINGS <= SCAN_EACH_CODES && SCAN_EACH_CODES <= SCAN_EACH, "of a warp");

struct StringsTest;

// What the arguments of all scans begin with.
// Shared with the host.
struct ScanHead {
    // Row 0 is bit 0; null if no bitmap is written.
    u32* mask;
    // A bitmap of rows to look at, or null for all.
    const u32* within;
    // Partial p of vector v of chunk c: partials[(p * chunks + c) * stride + v].
    u64* partials;
    // A word for each column that may turn out to be damaged; null if there is none.
    u64* status;
    u64 rows;
    u32 chunks;
    u32 stride;
    // 2^node_shift blocks take a chunk, a warp `each` of its vectors.
    u32 node_shift;
    u32 each;
    // What becomes of the bits that the bitmap holds.
    u32 combine;
    u32 zero;
};

// The argument of a scan of `NODES` lists of nodes, with so many words of literals.
template <u32 NODES, u32 LITERALS>
struct ScanArguments : ScanHead {
    // A node for each chunk.
    const Node* nodes[NODES];
    u64 literals[LITERALS];

    LANEPACK_DEVICE Range range(u32 at) const { return {literals[at], literals[at + 1]}; }
    // Ranges in memory, by their address and number.
    LANEPACK_DEVICE Ranges ranges(u32 at, u32 order) const {
        return {reinterpret_cast<const Range*>(literals[at]), static_cast<u32>(literals[at + 1]), order};
    }
    // A test of strings for each chunk, by its address.
    LANEPACK_DEVICE const StringsTest* tests(u32 at) const {
        return reinterpret_cast<const StringsTest*>(literals[at]);
    }
    // Words that a struct of these was made of.
    template <class T>
    LANEPACK_DEVICE const T& words(u32 at) const {
        return *reinterpret_cast<const T*>(literals + at);
    }
    // What lies in memory, by its address.
    template <class T>
    LANEPACK_DEVICE const T* pointer(u32 at) const {
        return reinterpret_cast<const T*>(literals[at]);
    }
    LANEPACK_DEVICE i64 integer(u32 at) const { return static_cast<i64>(literals[at]); }
    LANEPACK_DEVICE i128 wide_integer(u32 at) const {
        return static_cast<i128>(static_cast<u128>(literals[at + 1]) << 64 | literals[at]);
    }
    LANEPACK_DEVICE double number(u32 at) const { return __longlong_as_double(static_cast<i64>(literals[at])); }
};

// Whether any thread of the warp has a row.
LANEPACK_DEVICE bool any(u32 selection) { return __any_sync(FULL, selection != 0); }

// Calls `visit(step)` for each row of a selection, by step.
template <class Visit>
LANEPACK_DEVICE void for_each_step(u32 selection, const Visit& visit) {
#pragma unroll 1
    while (selection != 0) {
        const u32 step = static_cast<u32>(__ffs(static_cast<int>(selection))) - 1;
        selection &= selection - 1;
        visit(step);
    }
}

// Calls `add(value(step))` for each row of a selection, by step: values of two rows are on their
// way at a time.
template <class Value, class Add>
LANEPACK_DEVICE void add_each_step(u32 selection, const Value& value, const Add& add) {
#pragma unroll 1
    while (selection != 0) {
        const u32 first = static_cast<u32>(__ffs(static_cast<int>(selection))) - 1;
        selection &= selection - 1;
        const bool has_second = selection != 0;
        const u32 second = has_second ? static_cast<u32>(__ffs(static_cast<int>(selection))) - 1 : first;
        selection &= selection - 1;
        const auto one = value(first);
        const auto other = value(second);
        add(one);
        if (has_second) add(other);
    }
}

// The rows of a selection that `test(step)` holds for.
template <class Test>
LANEPACK_DEVICE u32 select_each(u32 selection, const Test& test) {
    u32 kept = 0;
    for_each_step(selection, [&](u32 step) {
        if (test(step)) kept |= 1u << step;
    });
    return kept;
}

// Reports what is wrong with a column, if anything is, to its status word.
template <class Arguments>
LANEPACK_DEVICE void report_fault(const Arguments& args, u32 status, u32 chunk, u32 fault) {
    if (fault != 0 && is_first_thread()) report(args.status + status, chunk, static_cast<Fault>(fault));
}

// The chunk of a block.
template <class Arguments>
LANEPACK_DEVICE u32 scan_chunk(const Arguments& args) {
    return blockIdx.x >> args.node_shift;
}

// The place of a warp: `count` vectors of a chunk from `first` on, up to `each`, which is what the
// launch says or more.
struct ScanPlace {
    u32 chunk;
    u32 first;
    u32 count;
    // From the first of these vectors on to the end of the chunk.
    u32 rows;

    template <class Arguments>
    LANEPACK_DEVICE ScanPlace(const Arguments& args, u32 each) {
        chunk = scan_chunk(args);
        const u32 part = blockIdx.x & ((1u << args.node_shift) - 1);
        first = (part * (blockDim.x / WARP) + warp_in_block()) * each;
        const Node& node = args.nodes[0][chunk];
        const u32 vectors = vectors_of(node);
        count = first < vectors ? min(each, vectors - first) : 0;
        rows = node.rows - first * VECTOR;
    }
};

// The bits of a vector in the bitmaps of a scan.
template <class Arguments>
LANEPACK_DEVICE VectorBits scan_bits(const Arguments& args, u32* bitmap, u32 chunk, u32 vector) {
    const Node& node = args.nodes[0][chunk];
    const u32 rows = min(node.rows - vector * VECTOR, VECTOR);
    return {bitmap, node.at + static_cast<u64>(vector) * VECTOR, rows, args.rows};
}

// The rows of vector number `i` of a warp, those that the bitmap of rows to look at has, by step.
template <class Arguments>
LANEPACK_DEVICE u32 rows_by_step(const Arguments& args, const ScanPlace& place, u32 i) {
    if (args.within == nullptr) return bits_before(step_position(threadIdx.x % WARP), place.rows - i * VECTOR);
    // Read only: nobody writes through this.
    return scan_bits(args, const_cast<u32*>(args.within), place.chunk, place.first + i).read();
}

// The same as a selection.
template <class Arguments>
LANEPACK_DEVICE u32 rows_within(const Arguments& args, const ScanPlace& place, u32 i) {
    if (args.within == nullptr) return steps_within(place.rows - i * VECTOR);
    return by_step(rows_by_step(args, place, i));
}

// Of `rows`, by step, those that the bitmap to be written does not decide already.
template <class Arguments>
LANEPACK_DEVICE u32 undecided_by_step(const Arguments& args, u32 chunk, u32 vector, u32 rows) {
    if (args.combine == COMBINE_SET) return rows;
    const u32 before = scan_bits(args, args.mask, chunk, vector).read();
    return args.combine == COMBINE_AND ? rows & before : rows & ~before;
}

// The same of a selection.
template <class Arguments>
LANEPACK_DEVICE u32 undecided(const Arguments& args, u32 chunk, u32 vector, u32 rows) {
    if (args.combine == COMBINE_SET) return rows;
    return rows & by_step(undecided_by_step(args, chunk, vector, FULL));
}

// Writes the kept ones of a vector's undecided rows, by step.
template <class Arguments>
LANEPACK_DEVICE void put_by_step(const Arguments& args, u32 chunk, u32 vector, u32 word) {
    const Node& node = args.nodes[0][chunk];
    // Whole vectors that begin with a word of the bitmap are stored as they are.
    if (args.combine != COMBINE_OR && node.at % 32 == 0 && (vector + 1) * VECTOR <= node.rows) {
        args.mask[node.at / 32 + vector * (VECTOR / 32) + step_word(threadIdx.x % WARP)] = word;
        return;
    }
    const VectorBits bits = scan_bits(args, args.mask, chunk, vector);
    if (args.combine == COMBINE_OR) word |= bits.read();
    bits.write(word);
}

// The same of a selection.
template <class Arguments>
LANEPACK_DEVICE void put_mask(const Arguments& args, u32 chunk, u32 vector, u32 kept) {
    put_by_step(args, chunk, vector, by_step(kept));
}

// Sums over a warp; the result is the first thread's.
LANEPACK_DEVICE u64 warp_sum(u64 own) {
#pragma unroll
    for (u32 apart = WARP / 2; apart > 0; apart /= 2) own += __shfl_down_sync(FULL, own, apart);
    return own;
}
LANEPACK_DEVICE double warp_sum(double own) {
#pragma unroll
    for (u32 apart = WARP / 2; apart > 0; apart /= 2) own = __dadd_rn(own, __shfl_down_sync(FULL, own, apart));
    return own;
}

// What a scan makes of the rows of a vector, or of all vectors of a warp: `add` each, `gather`
// over the warp, and `put` the partials, by the first thread. Made of no rows it is neutral.

// The rows of a warp's vectors.
struct CountRows {
    static constexpr u32 PARTIALS = 1;
    u32 count = 0;

    LANEPACK_DEVICE void add(u32 selection) { count += static_cast<u32>(__popc(selection)); }
    LANEPACK_DEVICE void gather() { count = __reduce_add_sync(FULL, count); }
    LANEPACK_DEVICE u64 partial(u32) const { return count; }
};

// Integers whose sum over a chunk 64 bits hold, of a warp's vectors.
struct SumIntegers {
    static constexpr u32 PARTIALS = 1;
    u64 sum = 0;

    LANEPACK_DEVICE void add(i64 value) { sum += static_cast<u64>(value); }
    LANEPACK_DEVICE void gather() { sum = warp_sum(sum); }
    LANEPACK_DEVICE u64 partial(u32) const { return sum; }
};

// Integers of up to 128 bits: 192 hold the sum of a chunk's.
struct SumWide {
    static constexpr u32 PARTIALS = 3;
    u64 words[3] = {0, 0, 0};

    LANEPACK_DEVICE void add(u64 low, u64 middle, u64 high) {
        const u128 first = static_cast<u128>(words[0]) + low;
        const u128 second = static_cast<u128>(words[1]) + middle + static_cast<u64>(first >> 64);
        words[0] = static_cast<u64>(first);
        words[1] = static_cast<u64>(second);
        words[2] += high + static_cast<u64>(second >> 64);
    }
    LANEPACK_DEVICE void add(i128 value) {
        add(static_cast<u64>(value), static_cast<u64>(value >> 64), value < 0 ? ~u64{0} : 0);
    }
    LANEPACK_DEVICE void gather() {
#pragma unroll
        for (u32 apart = WARP / 2; apart > 0; apart /= 2) {
            const u64 low = __shfl_down_sync(FULL, words[0], apart);
            const u64 middle = __shfl_down_sync(FULL, words[1], apart);
            const u64 high = __shfl_down_sync(FULL, words[2], apart);
            add(low, middle, high);
        }
    }
    LANEPACK_DEVICE u64 partial(u32 word) const { return words[word]; }
};

struct SumFloats {
    static constexpr u32 PARTIALS = 1;
    double sum = 0;

    LANEPACK_DEVICE void add(double value) { sum = __dadd_rn(sum, value); }
    LANEPACK_DEVICE void gather() { sum = warp_sum(sum); }
    LANEPACK_DEVICE u64 partial(u32) const { return static_cast<u64>(__double_as_longlong(sum)); }
};

// The least or the greatest of numbers of up to 64 bits or of 128, by keys: words, the
// highest one last, that compare as unsigned numbers. Of no rows the other end of all.
template <u32 WORDS, bool IS_MIN>
struct Bound {
    static constexpr u32 PARTIALS = WORDS;
    u64 key[WORDS];

    LANEPACK_DEVICE Bound() {
        for (u32 i = 0; i < WORDS; i++) key[i] = IS_MIN ? ~u64{0} : 0;
    }
    LANEPACK_DEVICE void take(const u64* other) {
        bool is_less = false;
        bool is_greater = false;
        for (u32 i = 0; i < WORDS; i++) {
            if (other[i] != key[i]) {
                is_less = other[i] < key[i];
                is_greater = !is_less;
            }
        }
        if (IS_MIN ? is_less : is_greater) {
            for (u32 i = 0; i < WORDS; i++) key[i] = other[i];
        }
    }
    LANEPACK_DEVICE void add(u64 value) { take(&value); }
    LANEPACK_DEVICE void add(i128 value) {
        const u64 words[2] = {static_cast<u64>(value), static_cast<u64>(value >> 64) ^ u64{1} << 63};
        take(words);
    }
    LANEPACK_DEVICE void gather() {
#pragma unroll
        for (u32 apart = WARP / 2; apart > 0; apart /= 2) {
            u64 other[WORDS];
            for (u32 i = 0; i < WORDS; i++) other[i] = __shfl_down_sync(FULL, key[i], apart);
            take(other);
        }
    }
    LANEPACK_DEVICE u64 partial(u32 word) const { return key[word]; }
};

// Writes the partials of a vector from number `first` on.
template <class Arguments, class Aggregate>
LANEPACK_DEVICE void put_partials(const Arguments& args, u32 first, u32 chunk, u32 vector, const Aggregate& aggregate) {
    if (threadIdx.x % WARP != 0) return;
#pragma unroll
    for (u32 i = 0; i < Aggregate::PARTIALS; i++) {
        args.partials[(static_cast<u64>(first + i) * args.chunks + chunk) * args.stride + vector] = aggregate.partial(i);
    }
}

// The same of all vectors of a warp: the first one has the partials, those of others are neutral.
template <class Arguments, class Aggregate>
LANEPACK_DEVICE void put_partials_of_warp(const Arguments& args, u32 first, const ScanPlace& place,
                                          const Aggregate& aggregate) {
    const u32 thread = threadIdx.x % WARP;
    if (thread >= place.count) return;
#pragma unroll
    for (u32 i = 0; i < Aggregate::PARTIALS; i++) {
        const u64 at = (static_cast<u64>(first + i) * args.chunks + place.chunk) * args.stride + place.first + thread;
        args.partials[at] = thread == 0 ? aggregate.partial(i) : Aggregate().partial(i);
    }
}

}  // namespace lanepack
