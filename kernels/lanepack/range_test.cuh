// A test for one range, which most tests are: which values of a vector lie between two
// bounds in the order domain (order.cuh).
//
//   ffor      the range clipped to base .. base + mask, less base; pfor the same
//   alp       decoding never falls: the first packed integers at and past the range
//        -> a range of packed values -> select_packed.cuh; alp, pfor: then each exception by itself
//   plain     value by value; constant: once; alp_rd: value by value
//
// What all threads of a warp would find alike (where packed words lie, which packed values
// pass) is found for several vectors at once, by a thread or two for each.
//
// Lost on an NVIDIA H200: asking for the packed words of the next vector meanwhile
// (prefetch.global.L2, a line a thread): 2 to 5 % less for one column, 5 % for two, 30 %
// for four.
//
// All threads of a warp call these together. Of rows past the end of a node, and of nulls,
// selections say anything: see `steps_within` and bits.cuh.
#pragma once

#include "alp.cuh"
#include "ffor.cuh"
#include "patches.cuh"
#include "select_packed.cuh"
#include "values.cuh"

namespace lanepack {

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
    const u32 f = (scale & 15) == ALP_DIVIDED ? 0 : scale & 15;
    const float number = __fmul_rn(__fmul_rn(value, power_e), POWERS_F32[1][f]);
    const float packed = __fsub_rn(number, static_cast<float>(static_cast<i32>(scale) >> 8));
    if (!(packed > 0)) return 0;
    return packed < static_cast<float>(mask) ? __float2uint_rz(packed) : mask;
}

// A range of packed values; of none if `low` is above `high`.
template <class T>
struct PackedRange {
    T low;
    T high;
};

// What a warp knows of a vector before it reads its packed words: where these lie, and which
// of the packed values are in a range. If `low` is above `high` the words are not read.
template <class T>
struct alignas(16) Prepared {
    // Values of `low` above `high`: no value passes, or all do.
    static constexpr T NONE = 1;
    static constexpr T ALL = 2;

    const T* words;
    T low;
    T high;
    u32 width;
    // 0 without exceptions.
    u32 locator;

    LANEPACK_DEVICE void decide(T as) {
        low = as;
        high = 0;
    }
    LANEPACK_DEVICE bool is_decided() const { return low > high; }
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

// Prepares `count` vectors, at most 16, from `first` on of a node of ffor, pfor or alp for one
// range: what would be the same for all threads of a warp is done by a thread, or two, for
// each vector.
template <class T, u32 ENCODINGS>
LANEPACK_DEVICE void prepare(const Node& node, u32 first, u32 count, Range range, u32 order, Prepared<T>* prepared) {
    const u32 thread = threadIdx.x % WARP;
    const u32 i = thread % 16;
    // Threads without a vector do the first once more: all of them meet below.
    const u32 vector = first + (i < count ? i : 0);
    Prepared<T> found{nullptr, Prepared<T>::NONE, 0, 0, 0};
    u32 place = 0;
    constexpr bool FLOATS = has_encoding(ENCODINGS, ALP);
    if (is_encoding<ENCODINGS, ALP>(node)) {
        if constexpr (FLOATS) {
            const bool is_low = thread < 16;
            const AlpParameters<T> parameters(node, vector);
            place = parameters.place;
            found.locator = parameters.locator;
            const T mask = low_bits<T>(place >> 24);
            const T bound = static_cast<T>(is_low ? range.low : range.high);
            const T answer = alp_first<T>(parameters.scale, mask, bound, is_low);
            const T end = __shfl_sync(FULL, answer, i + 16);
            if (answer < end) {
                found.low = answer;
                found.high = end - 1;
            }
        }
    } else {
        place = __ldg(ffor_places<T>(node) + vector);
        if (is_encoding<ENCODINGS, PFOR>(node)) found.locator = pfor_locator<T>(node, vector);
        const u64 mask = low_bits<T>(place >> 24);
        const u64 least = ordered(__ldg(ffor_bases<T>(node) + vector), order);
        if (range.high >= least && (range.low <= least || range.low - least <= mask)) {
            found.low = static_cast<T>(range.low > least ? range.low - least : 0);
            found.high = static_cast<T>(range.high - least < mask ? range.high - least : mask);
        }
    }
    const Packed<T> packed = packed_at<T>(node, place);
    found.words = packed.words;
    found.width = packed.width;
    if (found.low == 0 && found.high == low_bits<T>(packed.width)) found.decide(Prepared<T>::ALL);
    __syncwarp();
    if (thread < count) prepared[thread] = found;
    __syncwarp();
}

// The selection of packed values in a range, whose words are not read if it has none or all.
template <u64 WIDTHS, class T>
LANEPACK_DEVICE u32 select_inside(Packed<T> packed, PackedRange<T> inside) {
    if (inside.low > inside.high) return 0;
    if (inside.low == 0 && inside.high == low_bits<T>(packed.width)) return FULL;
    return select_widths<WIDTHS>(packed, inside.low, inside.high);
}

// The selection of a vector that has been prepared, without exceptions.
template <u64 WIDTHS, class T>
LANEPACK_DEVICE u32 select_prepared(const Prepared<T>& prepared) {
    if (prepared.is_decided()) return prepared.low == Prepared<T>::ALL ? FULL : 0;
    return select_widths<WIDTHS>(Packed<T>{prepared.words, prepared.width}, prepared.low, prepared.high);
}

// The selection of the values of a vector that lie in a range, as they are stored plain.
template <class T>
LANEPACK_DEVICE u32 select_plain(const Node& node, u32 vector, Range range, u32 order) {
    const T* values = reinterpret_cast<const T*>(node.buffer[0]) + vector * VECTOR + threadIdx.x % WARP;
    const T low = static_cast<T>(range.low);
    const T span = static_cast<T>(range.high - range.low);
    const u32 rows = node.rows - vector * VECTOR;
    u32 selection = 0;
    const auto judge = [&](u32 step) {
        const T value = ordered(__ldg(values + step_position(step)), order);
        if (static_cast<T>(value - low) <= span) selection |= 1u << step;
    };
    if (rows >= VECTOR) {
#pragma unroll 8
        for (u32 step = 0; step < WARP; step++) judge(step);
    } else {
        const u32 within = steps_within(rows);
#pragma unroll 1
        for (u32 step = 0; step < WARP; step++) {
            if (within >> step & 1) judge(step);
        }
    }
    return selection;
}

// Whether a node has one of some encodings.
template <u32 ENCODINGS>
LANEPACK_DEVICE bool is_one_of(const Node& node) {
    return ENCODINGS != 0 && (ENCODINGS >> node.encoding & 1) != 0;
}

// The selection of the values of a vector that `holds(word)` is true for, one by one.
template <class T, u32 ENCODINGS, class Holds>
LANEPACK_DEVICE u32 select_by_value(const Node& node, u32 vector, const Holds& holds, Patches& patches) {
    const StepValues<T, ENCODINGS> values(node, vector, patches);
    const u32 within = steps_within(node.rows - vector * VECTOR);
    u32 selection = 0;
#pragma unroll 4
    for (u32 step = 0; step < WARP; step++) {
        if ((within >> step & 1) != 0 && holds(values(step))) selection |= 1u << step;
    }
    return selection;
}

LANEPACK_DEVICE bool holds(Range range, u64 key) { return key >= range.low && key <= range.high; }

// A test of a column whose chunks have some of `ENCODINGS` (bits by their ids) and whose
// packed vectors have mostly `WIDTHS`.
template <class T, u32 ENCODINGS, u64 WIDTHS>
struct RangeTest {
    static constexpr u32 PREPARED = 1u << FFOR | 1u << ALP | 1u << PFOR;
    static constexpr u32 PATCHED = 1u << ALP | 1u << PFOR;
    static constexpr bool IS_PACKED = (ENCODINGS & PREPARED) != 0;

    // Vector number i of those to come is to be selected with prepared[i]; at most 16.
    LANEPACK_DEVICE static void prepare(const Node& node, u32 first, u32 count, Range range, u32 order,
                                        Prepared<T>* prepared) {
        if constexpr (IS_PACKED) {
            if (is_one_of<ENCODINGS & ~PREPARED>(node)) return;
            lanepack::prepare<T, ENCODINGS>(node, first, count, range, order, prepared);
        }
    }

    LANEPACK_DEVICE static u32 select(const Node& node, u32 vector, Range range, u32 order,
                                      const Prepared<T>& prepared, Patches& patches) {
        if (is_encoding<ENCODINGS, PLAIN>(node)) return select_plain<T>(node, vector, range, order);
        if (is_encoding<ENCODINGS, CONSTANT>(node)) {
            return holds(range, ordered(static_cast<T>(node.parameter), order)) ? FULL : 0;
        }
        if constexpr (has_encoding(ENCODINGS, ALP_RD)) {
            if (is_encoding<ENCODINGS, ALP_RD>(node)) {
                const T low = static_cast<T>(range.low);
                const T span = static_cast<T>(range.high - range.low);
                const auto is_inside = [&](T word) { return static_cast<T>(ordered(word, order) - low) <= span; };
                return select_by_value<T, 1u << ALP_RD>(node, vector, is_inside, patches);
            }
        }
        if constexpr (IS_PACKED) {
            const u32 selection = select_prepared<WIDTHS>(prepared);
            if constexpr ((ENCODINGS & PATCHED) != 0) {
                const Exceptions<T> exceptions(again(node).buffer[2], prepared.locator);
                const T low = static_cast<T>(range.low);
                const T high = static_cast<T>(range.high);
                // Known to the compiler where all exceptions are floats.
                const u32 its_order = has_encoding(ENCODINGS, PFOR) ? order : FLOAT;
                return patch_selection(
                    selection, exceptions, its_order, [&](T key) { return key >= low && key <= high; }, patches);
            }
            return selection;
        }
        return 0;
    }
};

}  // namespace lanepack
