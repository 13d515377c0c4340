// Values of a vector one by one, in any order: by their position, and a thread's value of
// any step (steps.cuh), for rows that a selection has left. One or two loads a value, code
// for all widths.
//
//   plain, strided   a load             ffor   two words at most, shifted, base added
//   constant, sign   nothing            alp    the same, then a float; exceptions by bisection
#pragma once

#include "alp.cuh"
#include "ffor.cuh"
#include "patches.cuh"

namespace lanepack {

// Nodes that only scans have, of limbs of wider values (docs/FORMAT.md, limbs): words of 64
// bits of which a value has `size`; and 64 times the sign of the limb below.
constexpr u32 STRIDED = 16;
constexpr u32 SIGN = 17;

// One packed value of a vector: one word or two.
template <class T>
LANEPACK_DEVICE T packed_value(const T* words, u32 width, u32 row, u32 lane) {
    const u32 bit = row * width;
    const u32 shift = bit % ROWS<T>;
    const T* word = words + bit / ROWS<T> * LANES<T> + lane;
    // At width 0 there is no word.
    const T low = width > 0 ? __ldg(word) : T{0};
    const T high = shift + width > ROWS<T> ? __ldg(word + LANES<T>) : T{0};
    return static_cast<T>(funnel<T>(low, high, shift) & low_bits<T>(width));
}

// Values by their position: of a vector of integers or, with `FLOATS`, of floats by their bits.
template <class T, bool FLOATS>
struct VectorValues {
    T base;
    const T* words;
    u32 width;
    bool is_plain;
    bool is_alp;
    T scale;

    VectorValues() = default;
    LANEPACK_DEVICE VectorValues(const Node& node, u32 vector)
        : base(static_cast<T>(node.parameter)),
          words(reinterpret_cast<const T*>(node.buffer[0]) + vector * VECTOR),
          width(0),
          is_plain(node.encoding == PLAIN),
          is_alp(FLOATS && node.encoding == ALP),
          scale(0) {
        if (is_alp) {
            if constexpr (FLOATS) {
                const AlpVector<T> parameters(node, vector);
                base = 0;
                words = parameters.packed.words;
                width = parameters.packed.width;
                scale = parameters.scale;
            }
        } else if (node.encoding == FFOR) {
            const FforVector<T> parameters(node, vector);
            base = parameters.base;
            words = parameters.packed.words;
            width = parameters.packed.width;
        }
    }

    LANEPACK_DEVICE T at(u32 position) const {
        if (is_plain) return __ldg(words + position);
        T value = base;
        if (width > 0) {
            const T packed = packed_value<T>(words, width, row_at<T>(position), position % LANES<T>);
            value = static_cast<T>(base + packed);
        }
        if constexpr (FLOATS) {
            if (is_alp) return AlpStep<T>(scale).value(value);
        }
        return value;
    }
};

// Where the value of a step is among the packed: row and lane of this thread.
template <class T>
struct PackedPlace {
    u32 row;
    u32 lane;

    LANEPACK_DEVICE explicit PackedPlace(u32 step) {
        const u32 thread = threadIdx.x % WARP;
        if constexpr (sizeof(T) == 8) {
            row = thread / 16 * WARP + step;
            lane = thread % 16;
        } else {
            row = step % ROWS<T>;
            lane = (step_position(step) + thread) % LANES<T>;
        }
    }
};

// What is known of a vector of alp beside its packed words; of types without it nothing.
template <class T, bool HAS_ALP>
struct AlpOfSteps {
    AlpStep<T> alp;
    Exceptions<T> exceptions;
    // The steps of this thread's exceptions.
    u32 exceptional;
};
template <class T>
struct AlpOfSteps<T, false> {};

// The values of this thread in a vector of a column whose chunks have some of `ENCODINGS`.
// All threads of a warp make one together.
template <class T, u32 ENCODINGS>
struct StepValues : AlpOfSteps<T, has_encoding(ENCODINGS, ALP)> {
    const Node* node;
    // Plain: the first value of the vector. Packed: its words.
    const T* words;
    // Plain: words of a value.
    u32 width;
    // Constant: the value.
    T base;

    LANEPACK_DEVICE StepValues(const Node& of, u32 vector, Patches& patches) : node(&of) {
        words = reinterpret_cast<const T*>(of.buffer[0]);
        if (is_encoding<ENCODINGS, PLAIN>(of)) {
            words += vector * VECTOR;
        } else if (is_encoding<ENCODINGS, STRIDED>(of)) {
            width = static_cast<u32>(of.size);
            words += vector * VECTOR * width;
        } else if (is_encoding<ENCODINGS, CONSTANT>(of)) {
            base = static_cast<T>(of.parameter);
        } else if (is_encoding<ENCODINGS, FFOR>(of)) {
            const FforVector<T> parameters(of, vector);
            pack(parameters.packed);
            base = parameters.base;
        }
        if constexpr (has_encoding(ENCODINGS, ALP)) {
            if (is_encoding<ENCODINGS, ALP>(of)) {
                const AlpVector<T> parameters(of, vector);
                pack(parameters.packed);
                this->alp = AlpStep<T>(parameters.scale);
                this->exceptions = Exceptions<T>(of.buffer[2], parameters.locator);
                this->exceptional = exceptional_steps(this->exceptions, patches);
            }
        }
    }

    LANEPACK_DEVICE void pack(Packed<T> packed) {
        words = packed.words;
        width = packed.width;
    }

    // The bits of the value of a step; of a sign 0.
    LANEPACK_DEVICE T operator()(u32 step) const {
        const u32 position = step_position(step) + threadIdx.x % WARP;
        if (is_encoding<ENCODINGS, PLAIN>(*node)) return __ldg(words + position);
        if (is_encoding<ENCODINGS, STRIDED>(*node)) return __ldg(words + position * width);
        if (is_encoding<ENCODINGS, CONSTANT>(*node)) return base;
        if constexpr (has_encoding(ENCODINGS, FFOR) || has_encoding(ENCODINGS, ALP)) {
            const PackedPlace<T> place(step);
            if (is_encoding<ENCODINGS, FFOR>(*node)) return static_cast<T>(base + packed(place));
            if constexpr (has_encoding(ENCODINGS, ALP)) {
                if (is_encoding<ENCODINGS, ALP>(*node)) {
                    const bool is_exception = (this->exceptional >> step & 1) != 0;
                    if (is_exception) return this->exceptions.at(place.lane * ROWS<T> + place.row);
                    return this->alp.value(packed(place));
                }
            }
        }
        return 0;
    }

    LANEPACK_DEVICE T packed(PackedPlace<T> place) const {
        return packed_value<T>(words, width, place.row, place.lane);
    }
};

// Values of two limbs, the upper of which may be the sign of the lower.
template <u32 LOW, u32 HIGH>
struct WideStepValues {
    StepValues<u64, LOW> low;
    StepValues<u64, HIGH> high;

    LANEPACK_DEVICE WideStepValues(const Node& low_node, const Node& high_node, u32 vector, Patches& patches)
        : low(low_node, vector, patches), high(high_node, vector, patches) {}

    LANEPACK_DEVICE i128 operator()(u32 step) const {
        const u64 below = low(step);
        const bool is_sign = is_encoding<HIGH, SIGN>(*high.node);
        const u64 above = is_sign ? static_cast<u64>(static_cast<i64>(below) >> 63) : high(step);
        return static_cast<i128>(static_cast<u128>(above) << 64 | below);
    }
};

}  // namespace lanepack
