// Selections: which values of a vector lie in ranges, for every encoding of numbers.
//
//   ranges     sorted, disjoint, both ends included, in the order domain (order.cuh)
//     ffor     clipped to base .. base + mask, less base
//     alp      decoding never falls: the least packed integers at and past each range's
//              ends, found by the warp
//         -> ranges of packed values -> select_packed.cuh; alp: then each exception by itself
//     plain    value by value; constant: once
//
// Floats are compared without being made: in the order domain they are integers, NaN,
// infinities and -0.0 like all others. A vector that lies in no range, or in one as a
// whole, is decided by its parameters; its packed words are not read.
//
// A value of ffor counts as its base in the order domain plus what is packed, which may
// pass the domain's end (and is then in no range) though decoding wraps around: no
// writer makes such vectors, and so bounds of packed values stay one range.
//
// All threads of a warp call these together, with the same vector.
#pragma once

#include "alp.cuh"
#include "ffor.cuh"
#include "order.cuh"
#include "select_packed.cuh"

namespace lanepack {

// 16 bytes; mirrored by `Range` in src/gpu/abi.rs.
struct Range {
    u64 low;
    u64 high;
};
static_assert(sizeof(Range) == 16, "Range is mirrored in src/gpu/abi.rs");

// What a column is compared with: ranges, and the order of its values. Bounds have no
// more bits than values.
struct Ranges {
    const Range* ranges;
    u32 count;
    u32 order;

    LANEPACK_DEVICE Range operator[](u32 i) const { return {__ldg(&ranges[i].low), __ldg(&ranges[i].high)}; }

    // The first range that does not end below `value`.
    LANEPACK_DEVICE u32 first_from(u64 value) const {
        u32 first = 0;
        for (u32 end = count; first < end;) {
            const u32 middle = (first + end) / 2;
            if (__ldg(&ranges[middle].high) < value) {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        return first;
    }

    // Whether a value, in the order domain, lies in one of them.
    LANEPACK_DEVICE bool hold(u64 value) const {
        const u32 first = first_from(value);
        return first < count && __ldg(&ranges[first].low) <= value;
    }
    template <class T>
    LANEPACK_DEVICE bool hold_word(T word) const {
        return hold(ordered(word, order));
    }
};

// A range of packed values; of none if `low` is above `high`.
template <class T>
struct PackedRange {
    T low;
    T high;
};

// The packed integer, up to `mask`, whose value should be about the float `bits`.
LANEPACK_DEVICE u64 alp_estimate(u64 scale, u64 bits, u64 mask) {
    const double value = __longlong_as_double(static_cast<i64>(bits));
    const double power_e = POWERS_F64[0][scale >> 5 & 31];
    const double number = __dmul_rn(__dmul_rn(value, power_e), POWERS_F64[1][scale & 31]);
    const double packed = __dsub_rn(number, static_cast<double>(static_cast<i64>(scale) >> 10));
    if (!(packed > 0)) return 0;
    return packed < static_cast<double>(mask) ? __double2ull_rz(packed) : mask;
}
LANEPACK_DEVICE u32 alp_estimate(u32 scale, u32 bits, u32 mask) {
    const float value = __uint_as_float(bits);
    const float power_e = POWERS_F32[0][scale >> 4 & 15];
    const float number = __fmul_rn(__fmul_rn(value, power_e), POWERS_F32[1][scale & 15]);
    const float packed = __fsub_rn(number, static_cast<float>(static_cast<i32>(scale) >> 8));
    if (!(packed > 0)) return 0;
    return packed < static_cast<float>(mask) ? __float2uint_rz(packed) : mask;
}

// The search of a warp for the ends of a range among the packed integers of a vector: half
// of the threads look for the first integer whose value reaches the range, the other half
// for the first past it. A round asks 16 integers; as values never fall, the answer lies
// behind the last one that says no.
template <class T>
struct AlpSearch {
    static constexpr u32 DIGIT = 4;
    static constexpr u32 HALF = 1u << DIGIT;
    AlpStep<T> step;
    T mask;
    T bound;
    bool is_low;

    LANEPACK_DEVICE AlpSearch(T scale, u32 width, Range range)
        : step(scale),
          mask(low_bits<T>(width)),
          bound(static_cast<T>(threadIdx.x % WARP < HALF ? range.low : range.high)),
          is_low(threadIdx.x % WARP < HALF) {}

    // How many of 16 parts of 2^shift integers, from `from` on, lie wholly before the answer.
    LANEPACK_DEVICE u32 parts_before(T from, u32 shift) const {
        const u32 place = threadIdx.x % HALF;
        const T last = from + (static_cast<T>(place + 1) << shift) - 1;
        const T value = ordered(step.value(last & mask), FLOAT);
        // The one behind the last integer is past every range.
        const bool passes = last > mask || (is_low ? value >= bound : value > bound);
        const u32 votes = __ballot_sync(FULL, passes) >> (is_low ? 0 : HALF) & 0xffff;
        return votes == 0 ? HALF : static_cast<u32>(__ffs(static_cast<int>(votes))) - 1;
    }

    // The answer, digit by digit.
    LANEPACK_DEVICE T by_digits(u32 width) const {
        T answer = 0;
#pragma unroll 1
        for (u32 shift = width / DIGIT * DIGIT;; shift -= DIGIT) {
            answer += static_cast<T>(parts_before(answer, shift)) << shift;
            if (shift == 0) return answer;
        }
    }

    // The answers of both halves, of which that of the upper one is not 0.
    LANEPACK_DEVICE PackedRange<T> range_of(T answer) const {
        return {__shfl_sync(FULL, answer, 0), __shfl_sync(FULL, answer, HALF) - 1};
    }
};

// The packed integers whose values lie in a range that meets those of the vector, which
// go from `least` to `greatest` in the order domain. One round around an estimate, which
// is off by a few at most, finds both ends: but nothing hangs on it except time.
template <class T>
LANEPACK_DEVICE PackedRange<T> alp_packed_range(T scale, u32 width, Range range, u64 least, u64 greatest) {
    using Search = AlpSearch<T>;
    const Search search(scale, width, range);
    T answer = search.is_low ? 0 : search.mask;
    if (search.is_low ? range.low > least : range.high < greatest) {
        answer = alp_estimate(scale, unordered(search.bound, FLOAT), search.mask);
    }
    answer -= answer < Search::HALF / 2 ? answer : Search::HALF / 2;
    const u32 before = search.parts_before(answer, 0);
    const bool is_found = before < Search::HALF && (before > 0 || answer == 0);
    answer += before;
    if (!__all_sync(FULL, is_found)) answer = search.by_digits(width);
    return search.range_of(answer);
}

// What the packed values of a vector stand for. `INTEGERS` and `FLOATS` say what is
// expected: nodes of ffor, of alp, or either.
template <class T, bool INTEGERS, bool FLOATS>
struct PackedValues {
    static constexpr u32 MAX_WIDTH = INTEGERS ? ROWS<T> : sizeof(T) == 8 ? 52 : 23;
    // The values, in the order domain, of packed 0 and of all bits set.
    u64 least;
    u64 greatest;
    // Of alp.
    T scale;
    u32 width;
    bool is_alp;

    LANEPACK_DEVICE PackedValues(const Node& node, u32 vector, u32 order) {
        is_alp = FLOATS && (!INTEGERS || node.encoding == ALP);
        scale = 0;
        if constexpr (FLOATS) {
            if (is_alp) {
                const AlpVector<T> parameters(node, vector);
                scale = parameters.scale;
                width = parameters.packed.width;
                const AlpStep<T> step(scale);
                least = ordered(step.value(0), FLOAT);
                greatest = ordered(step.value(low_bits<T>(width)), FLOAT);
                return;
            }
        }
        const FforVector<T> parameters(node, vector);
        width = parameters.packed.width;
        least = ordered(parameters.base, order);
        greatest = least + low_bits<T>(width);
        // No range is above the greatest number of 64 bits.
        if (greatest < least) greatest = ~u64{0};
    }

    // The packed values that lie in a range that meets the vector.
    LANEPACK_DEVICE PackedRange<T> clip(Range range) const {
        if constexpr (FLOATS) {
            if (is_alp) return alp_packed_range<T>(scale, width, range, least, greatest);
        }
        const u64 mask = low_bits<T>(width);
        const u64 low = range.low > least ? range.low - least : 0;
        const u64 high = range.high - least < mask ? range.high - least : mask;
        return {static_cast<T>(low), static_cast<T>(high)};
    }

    // Whether ranges hold one packed value.
    LANEPACK_DEVICE bool hold(const Ranges& ranges, T value) const {
        if constexpr (FLOATS) {
            if (is_alp) return ranges.hold_word(AlpStep<T>(scale).value(value));
        }
        return value <= ~least && ranges.hold(least + value);
    }

    // Where the packed values lie; not kept during a search.
    LANEPACK_DEVICE Packed<T> packed(const Node& node, u32 vector) const {
        if constexpr (FLOATS) {
            if (is_alp) return AlpVector<T>(again(node), vector).packed;
        }
        return FforVector<T>(again(node), vector).packed;
    }
};

// Of more ranges than this that a vector meets, each value looks for its own: 32 bisections
// take about as many instructions as so many passes of `select_packed`.
constexpr u32 FEW_RANGES = 12;

// The selection of the packed values of a vector, without exceptions.
template <class T, class Values>
LANEPACK_DEVICE u32 select_ranges(const Node& node, u32 vector, const Ranges& ranges) {
    if (ranges.count > FEW_RANGES) {
        const Values values(again(node), vector, ranges.order);
        if (ranges.first_from(values.greatest) - ranges.first_from(values.least) > FEW_RANGES) {
            StepPacked<T> steps(values.packed(node, vector));
            u32 selection = 0;
#pragma unroll 1
            for (u32 step = 0; step < WARP; step++) {
                if (values.hold(ranges, steps.next())) selection |= 1u << step;
            }
            return selection;
        }
    }
    u32 selection = 0;
    // Few vectors meet more than one range, so what is known of a vector is not kept.
#pragma unroll 1
    for (u32 next = 0; next < ranges.count;) {
        const Values values(again(node), vector, ranges.order);
        const u32 i = next > 0 ? next : ranges.first_from(values.least);
        if (i >= ranges.count) break;
        const Range range = ranges[i];
        if (range.low > values.greatest) break;
        if (range.low <= values.least && range.high >= values.greatest) return FULL;
        const PackedRange<T> inside = values.clip(range);
        if (inside.low <= inside.high) {
            const Packed<T> packed = values.packed(node, vector);
            selection |= select_packed<Values::MAX_WIDTH>(packed, inside.low, inside.high);
        }
        next = i + 1;
    }
    return selection;
}

// What a warp knows of a vector before it reads its packed words: where these lie, and which
// of the packed values are in a range: none if `low` is above `high`.
template <class T>
struct Prepared {
    T low;
    T high;
    u32 place;
    // Of alp; 0 without exceptions.
    u32 locator;
};

// The first packed integer whose value, in the order domain, is `bound` or more, or if not
// `is_low` more than `bound`; mask + 1 if there is none. By one thread: probes around an
// estimate, wider and wider until they have the answer between them, then by halves.
template <class T>
LANEPACK_DEVICE T alp_first(T scale, T mask, T bound, bool is_low) {
    const AlpStep<T> step(scale);
    T low = 0;
    T high = mask + 1;
    T probe = alp_estimate(scale, unordered(bound, FLOAT), mask);
    bool has_low = false;
    bool has_high = false;
#pragma unroll 1
    for (T stride = 1; low < high; stride *= 2) {
        const T value = ordered(step.value(probe), FLOAT);
        if (is_low ? value >= bound : value > bound) {
            high = probe;
            has_high = true;
        } else {
            low = probe + 1;
            has_low = true;
        }
        const T between = high - low;
        if (has_low && has_high) {
            probe = low + between / 2;
        } else if (has_high) {
            probe = between > stride ? high - stride : low;
        } else {
            probe = between > stride ? low + stride - 1 : high - 1;
        }
    }
    return low;
}

// Prepares `count` vectors, at most 16, from `first` on of a node of ffor or alp for one
// range: what would be the same for all threads of a warp is done by a thread, or two, for
// each vector.
template <class T, bool FLOATS>
LANEPACK_DEVICE void prepare(const Node& node, u32 first, u32 count, Range range, u32 order, Prepared<T>* prepared) {
    const u32 thread = threadIdx.x % WARP;
    const u32 i = thread % 16;
    // Threads without a vector do the first once more: all of them meet below.
    const u32 vector = first + (i < count ? i : 0);
    Prepared<T> found{1, 0, 0, 0};
    bool is_alp = false;
    if constexpr (FLOATS) is_alp = node.encoding == ALP;
    if (is_alp) {
        if constexpr (FLOATS) {
            const bool is_low = thread < 16;
            const u32 vectors = vectors_of(node);
            const T scale = __ldg(reinterpret_cast<const T*>(node.buffer[1]) + vector);
            const u32* places = reinterpret_cast<const u32*>(node.buffer[1] + vectors * sizeof(T));
            found.place = __ldg(places + vector);
            found.locator = node.parameter > 0 ? __ldg(places + vectors + vector) : 0;
            const T mask = low_bits<T>(found.place >> 24);
            const T bound = static_cast<T>(is_low ? range.low : range.high);
            const T answer = alp_first<T>(scale, mask, bound, is_low);
            const T end = __shfl_sync(FULL, answer, i + 16);
            if (answer < end) {
                found.low = answer;
                found.high = end - 1;
            }
        }
    } else {
        const FforVector<T> parameters(node, vector);
        const u32 width = parameters.packed.width;
        found.place = __ldg(reinterpret_cast<const u32*>(node.buffer[1] + (vectors_of(node) * sizeof(T) + 3) / 4 * 4) +
                            vector);
        const u64 mask = low_bits<T>(width);
        const u64 least = ordered(parameters.base, order);
        if (range.high >= least && (range.low <= least || range.low - least <= mask)) {
            found.low = static_cast<T>(range.low > least ? range.low - least : 0);
            found.high = static_cast<T>(range.high - least < mask ? range.high - least : mask);
        }
    }
    __syncwarp();
    if (thread < count) prepared[thread] = found;
    __syncwarp();
}

// The selection of a vector that has been prepared, without exceptions.
template <u32 MAX, class T>
LANEPACK_DEVICE u32 select_prepared(const Node& node, const Prepared<T>& prepared) {
    const Packed<T> packed = packed_at<T>(node, prepared.place);
    if (prepared.low > prepared.high) return 0;
    if (prepared.low == 0 && prepared.high == low_bits<T>(packed.width)) return FULL;
    return select_packed<MAX>(packed, prepared.low, prepared.high);
}

// What exceptions change in a selection: shared memory of a warp, which may serve one
// column after the other.
struct Patches {
    u32 selected[WARP];
    u32 dropped[WARP];
};

// Judges the exceptions of a vector instead of what is packed in their slots.
template <class T>
LANEPACK_DEVICE u32 patch_selection(u32 selection, const Exceptions<T>& exceptions, const Ranges& ranges,
                                    Patches& patches) {
    if (exceptions.count == 0) return selection;
    const u32 thread = threadIdx.x % WARP;
    patches.selected[thread] = 0;
    patches.dropped[thread] = 0;
    __syncwarp();
    // One range, which most tests are, is compared with as it is.
    const bool is_one = ranges.count == 1;
    const Range range = is_one ? ranges[0] : Range{0, 0};
    const PackedRange<T> one{static_cast<T>(range.low), static_cast<T>(range.high)};
    for (u32 number = thread; number < exceptions.count; number += WARP) {
        const u32 slot = __ldg(exceptions.slots + number);
        const T key = ordered(__ldg(exceptions.values + number), FLOAT);
        const bool is_inside =
            is_one ? key >= one.low && key <= one.high : ranges.hold(key);
        u32 owner;
        u32 step;
        thread_and_step<T>(slot % ROWS<T>, slot / ROWS<T>, owner, step);
        atomicOr((is_inside ? patches.selected : patches.dropped) + owner, 1u << step);
    }
    __syncwarp();
    return (selection & ~patches.dropped[thread]) | patches.selected[thread];
}

template <class T>
LANEPACK_DEVICE u32 select_plain(const Node& node, u32 vector, const Ranges& ranges) {
    const u32 first = vector * VECTOR + threadIdx.x % WARP;
    const u32 rows = node.rows;
    const T* values = reinterpret_cast<const T*>(node.buffer[0]);
    u32 selection = 0;
    if (ranges.count == 1) {
        const Range range = ranges[0];
        const T low = static_cast<T>(range.low);
        const T span = static_cast<T>(range.high - range.low);
#pragma unroll 8
        for (u32 step = 0; step < WARP; step++) {
            const u32 row = first + step_position(step);
            if (row >= rows) continue;
            const T value = ordered(__ldg(values + row), ranges.order);
            if (static_cast<T>(value - low) <= span) selection |= 1u << step;
        }
    } else {
#pragma unroll 1
        for (u32 step = 0; step < WARP; step++) {
            const u32 row = first + step_position(step);
            if (row < rows && ranges.hold_word(__ldg(values + row))) selection |= 1u << step;
        }
    }
    return selection;
}

template <class T>
LANEPACK_DEVICE u32 select_constant(const Node& node, const Ranges& ranges) {
    return ranges.hold_word(static_cast<T>(node.parameter)) ? FULL : 0;
}

// The selection of the integers of a vector that lie in ranges. Of rows past the end of
// the node, and of nulls, it says anything: see `steps_within` and `select_true`.
template <class T>
LANEPACK_DEVICE u32 select_integers(const Node& node, u32 vector, const Ranges& ranges) {
    if (node.encoding == PLAIN) return select_plain<T>(node, vector, ranges);
    if (node.encoding == CONSTANT) return select_constant<T>(node, ranges);
    return select_ranges<T, PackedValues<T, true, false>>(node, vector, ranges);
}

// The same for floats, whose bits are `T`; with `INTEGERS` for either, for one kernel
// instead of two.
template <class T, bool INTEGERS = false>
LANEPACK_DEVICE u32 select_floats(const Node& node, u32 vector, const Ranges& ranges, Patches& patches) {
    if (node.encoding == PLAIN) return select_plain<T>(node, vector, ranges);
    if (node.encoding == CONSTANT) return select_constant<T>(node, ranges);
    const u32 selection = select_ranges<T, PackedValues<T, INTEGERS, true>>(node, vector, ranges);
    const Node& now = again(node);
    if (INTEGERS && now.encoding != ALP) return selection;
    const Exceptions<T> exceptions(now.buffer[2], AlpVector<T>(now, vector).locator);
    return patch_selection(selection, exceptions, ranges, patches);
}

}  // namespace lanepack
