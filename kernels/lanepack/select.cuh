// Selections: which values of a vector lie in any number of ranges, for every encoding of
// numbers; range_test.cuh is for one.
//
//   ranges     sorted, disjoint, both ends included, in the order domain (order.cuh)
//     ffor     clipped to base .. base + mask, less base; pfor the same
//     alp      decoding never falls: the least packed integers at and past each range's
//              ends, found by the warp
//         -> ranges of packed values -> select_packed.cuh; alp, pfor: then each exception by itself
//     plain, alp_rd   value by value; constant: once
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

#include "range_test.cuh"

namespace lanepack {

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
    // The values, in the order domain, of packed 0 and of all bits set.
    u64 least;
    u64 greatest;
    // Of alp.
    T scale;
    // Where the packed words lie.
    u32 place;
    bool is_alp;

    LANEPACK_DEVICE u32 width() const { return place >> 24; }
    LANEPACK_DEVICE PackedValues(const Node& node, u32 vector, u32 order) {
        is_alp = FLOATS && (!INTEGERS || node.encoding == ALP);
        scale = 0;
        if constexpr (FLOATS) {
            if (is_alp) {
                const AlpParameters<T> parameters(node, vector);
                scale = parameters.scale;
                place = parameters.place;
                const AlpStep<T> step(scale);
                least = ordered(step.value(0), FLOAT);
                greatest = ordered(step.value(low_bits<T>(width())), FLOAT);
                return;
            }
        }
        place = __ldg(ffor_places<T>(node) + vector);
        least = ordered(__ldg(ffor_bases<T>(node) + vector), order);
        greatest = least + low_bits<T>(width());
        // No range is above the greatest number of 64 bits.
        if (greatest < least) greatest = ~u64{0};
    }

    // The packed values that lie in a range that meets the vector.
    LANEPACK_DEVICE PackedRange<T> clip(Range range) const {
        if constexpr (FLOATS) {
            if (is_alp) return alp_packed_range<T>(scale, width(), range, least, greatest);
        }
        const u64 mask = low_bits<T>(width());
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
};

// Of more ranges than this that a vector meets, each value looks for its own: 32 bisections
// take about as many instructions as so many passes of `select_packed`.
constexpr u32 FEW_RANGES = 12;

// The selection of the packed values of a vector, without exceptions, each by itself.
template <class T, class Values>
LANEPACK_DEVICE u32 select_one_by_one(const Node& node, u32 vector, const Ranges& ranges) {
    const Values values(again(node), vector, ranges.order);
    const u32 first = ranges.first_from(values.least);
    if (first >= ranges.count || ranges[first].low > values.greatest) return 0;
    if (ranges[first].low <= values.least && ranges[first].high >= values.greatest) return FULL;
    StepPacked<T> steps(packed_at<T>(again(node), values.place));
    u32 selection = 0;
#pragma unroll 1
    for (u32 step = 0; step < WARP; step++) {
        if (values.hold(ranges, steps.next())) selection |= 1u << step;
    }
    return selection;
}

// Whether a vector meets more ranges than are looked at one by one.
template <class Values>
LANEPACK_DEVICE bool meets_many(const Node& node, u32 vector, const Ranges& ranges) {
    if (ranges.count <= FEW_RANGES) return false;
    const Values values(again(node), vector, ranges.order);
    return ranges.first_from(values.greatest) - ranges.first_from(values.least) > FEW_RANGES;
}

// The packed values of a vector in the first range from number `next` on that it meets,
// which is left behind `next`; false if there is none. Few vectors meet more than one range,
// so what is known of a vector is not kept.
template <class T, class Values>
LANEPACK_DEVICE bool next_range(const Node& node, u32 vector, const Ranges& ranges, u32& next, PackedRange<T>& inside,
                                u32& place) {
    if (next >= ranges.count) return false;
    const Values values(again(node), vector, ranges.order);
    const u32 i = next > 0 ? next : ranges.first_from(values.least);
    if (i >= ranges.count) return false;
    const Range range = ranges[i];
    if (range.low > values.greatest) return false;
    next = i + 1;
    place = values.place;
    inside = PackedRange<T>{0, low_bits<T>(values.width())};
    if (range.low > values.least || range.high < values.greatest) inside = values.clip(range);
    return true;
}

// The selection of the packed values of a vector, without exceptions; value by value if there
// is code for no width.
template <class T, class Values, u64 WIDTHS>
LANEPACK_DEVICE u32 select_ranges(const Node& node, u32 vector, const Ranges& ranges) {
    if (WIDTHS == 0 || meets_many<Values>(node, vector, ranges)) {
        return select_one_by_one<T, Values>(node, vector, ranges);
    }
    u32 selection = 0;
    PackedRange<T> inside;
    u32 place;
#pragma unroll 1
    for (u32 next = 0; next_range<T, Values>(node, vector, ranges, next, inside, place);) {
        selection |= select_inside<WIDTHS>(packed_at<T>(again(node), place), inside);
    }
    return selection;
}

template <class T>
LANEPACK_DEVICE u32 select_plain(const Node& node, u32 vector, const Ranges& ranges) {
    const u32 first = vector * VECTOR + threadIdx.x % WARP;
    const T* values = reinterpret_cast<const T*>(node.buffer[0]);
    u32 selection = 0;
#pragma unroll 1
    for (u32 step = 0; step < WARP; step++) {
        const u32 row = first + step_position(step);
        if (row < node.rows && ranges.hold_word(__ldg(values + row))) selection |= 1u << step;
    }
    return selection;
}

// The selection of the values of a vector that lie in ranges, of a column as in `RangeTest`;
// exceptions as what is packed in their slots.
template <class T, u32 ENCODINGS, u64 WIDTHS>
LANEPACK_DEVICE u32 select_stored(const Node& node, u32 vector, const Ranges& ranges) {
    if (is_encoding<ENCODINGS, PLAIN>(node)) return select_plain<T>(node, vector, ranges);
    if (is_encoding<ENCODINGS, CONSTANT>(node)) {
        return ranges.hold_word(static_cast<T>(node.parameter)) ? FULL : 0;
    }
    constexpr bool INTEGERS = has_encoding(ENCODINGS, FFOR) || has_encoding(ENCODINGS, PFOR);
    constexpr bool FLOATS = has_encoding(ENCODINGS, ALP);
    if constexpr (INTEGERS || FLOATS) {
        return select_ranges<T, PackedValues<T, INTEGERS, FLOATS>, WIDTHS>(node, vector, ranges);
    }
    return 0;
}

// A selection with the exceptions of its vector, if it has any, judged by themselves.
template <class T>
LANEPACK_DEVICE u32 with_exceptions(u32 selection, const Node& node, u32 locator, u32 order, const Ranges& ranges,
                                    Patches& patches) {
    // One range, which most tests are, is compared with as it is.
    const bool is_one = ranges.count == 1;
    const Range range = is_one ? ranges[0] : Range{0, 0};
    const T low = static_cast<T>(range.low);
    const T high = static_cast<T>(range.high);
    return patch_selection(
        selection, Exceptions<T>(node.buffer[2], locator), order,
        [&](T key) { return is_one ? key >= low && key <= high : ranges.hold(key); }, patches);
}

// The same with exceptions.
template <class T, u32 ENCODINGS, u64 WIDTHS>
LANEPACK_DEVICE u32 select_values(const Node& node, u32 vector, const Ranges& ranges, Patches& patches) {
    if constexpr (has_encoding(ENCODINGS, ALP_RD)) {
        if (is_encoding<ENCODINGS, ALP_RD>(node)) {
            const auto is_inside = [&](T word) { return ranges.hold_word(word); };
            return select_by_value<T, 1u << ALP_RD>(node, vector, is_inside, patches);
        }
    }
    const u32 selection = select_stored<T, ENCODINGS & ~(1u << ALP_RD), WIDTHS>(node, vector, ranges);
    if constexpr (has_encoding(ENCODINGS, ALP)) {
        const Node& now = again(node);
        if (is_encoding<ENCODINGS, ALP>(now)) {
            return with_exceptions<T>(selection, now, AlpParameters<T>(now, vector).locator, FLOAT, ranges,
                                      patches);
        }
    }
    if constexpr (has_encoding(ENCODINGS, PFOR)) {
        const Node& now = again(node);
        if (is_encoding<ENCODINGS, PFOR>(now)) {
            return with_exceptions<T>(selection, now, pfor_locator<T>(now, vector), ranges.order, ranges,
                                      patches);
        }
    }
    return selection;
}

}  // namespace lanepack
