// Values of a vector one by one, in any order: by their position, and a thread's value of
// any step (steps.cuh), for rows that a selection has left. One or two loads a value, code
// for all widths.
//
//   plain, strided   a load             ffor     two words at most, shifted, base added
//   constant, sign   nothing            pfor     the same; exceptions by bisection
//   dict             its code, a load   alp, alp_rd   the same, then a float
#pragma once

#include "alp.cuh"
#include "alp_rd.cuh"
#include "dict.cuh"
#include "ffor.cuh"
#include "patches.cuh"
#include "pfor.cuh"

namespace lanepack {

// Nodes that only scans have, of words of 64 bits of wide values: words of which a value has
// `size`, side by side; and 64 times the sign of the word below.
constexpr u32 STRIDED = 30;
constexpr u32 SIGN = 31;

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

// Values by their position, of a vector of a node that has one of `ENCODINGS`. What stands in
// the slots of exceptions is for those who ask to know.
template <class T, u32 ENCODINGS>
struct VectorValues {
    u32 encoding;
    u32 width;
    // Plain: the values. Packed: the words.
    const T* words;
    // Constant: the value.
    T base;
    // alp, alp_rd: what makes floats of packed values.
    T scale;
    const u8* dictionary;
    // Dictionaries: their node.
    const Node* dict;
    u32 vector;
    // Exceptions, if any.
    u32 locator;

    VectorValues() = default;
    LANEPACK_DEVICE VectorValues(const Node& node, u32 number)
        : encoding(node.encoding),
          width(0),
          words(reinterpret_cast<const T*>(node.buffer[0]) + number * VECTOR),
          base(static_cast<T>(node.parameter)),
          scale(0),
          dictionary(nullptr),
          dict(&node),
          vector(number),
          locator(0) {
        if (is(FFOR)) {
            const FforVector<T> parameters(node, vector);
            pack(parameters.packed);
            base = parameters.base;
        } else if (is(PFOR)) {
            const PforVector<T> parameters(node, vector);
            pack(parameters.packed);
            base = parameters.base;
            locator = parameters.locator;
        } else if (is(ALP)) {
            if constexpr (has_encoding(ENCODINGS, ALP)) {
                const AlpVector<T> parameters(node, vector);
                pack(parameters.packed);
                scale = parameters.scale;
                locator = parameters.locator;
            }
        } else if (is(ALP_RD)) {
            if constexpr (has_encoding(ENCODINGS, ALP_RD)) {
                const AlpRdVector<T> parameters(node, vector);
                pack(parameters.packed);
                scale = parameters.cut;
                dictionary = parameters.dictionary;
                locator = parameters.locator;
            }
        }
    }

    LANEPACK_DEVICE T at(u32 position) const {
        if (is(PLAIN)) return __ldg(words + position);
        if (is(CONSTANT)) return base;
        if constexpr (has_encoding(ENCODINGS, DICT)) {
            if (is(DICT)) {
                const Node node = codes_of(*dict);
                const VectorValues<u32, WORD_ENCODINGS> codes(node, vector);
                return Dictionary<T>(*dict).at(codes.at(position));
            }
        }
        // Without a branch, so that loads of several values are on their way at a time.
        const T value = packed_value<T>(words, width, row_at<T>(position), position % LANES<T>);
        if constexpr (has_encoding(ENCODINGS, ALP)) {
            if (is(ALP)) return AlpStep<T>(scale).value(value);
        }
        if constexpr (has_encoding(ENCODINGS, ALP_RD)) {
            if (is(ALP_RD)) return AlpRdStep<T>(dictionary, static_cast<u32>(scale)).value(value);
        }
        return static_cast<T>(base + value);
    }

    // The exceptions of the vector, of its node.
    LANEPACK_DEVICE Exceptions<T> exceptions(const Node& node) const { return {node.buffer[2], locator}; }

    LANEPACK_DEVICE bool is(u32 one) const {
        return has_encoding(ENCODINGS, one) && (ENCODINGS == encoding_bit(one) || encoding == one);
    }

private:
    LANEPACK_DEVICE void pack(Packed<T> packed) {
        words = packed.words;
        width = packed.width;
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

template <class T, u32 ENCODINGS>
struct StepValues;

// What is known of a vector beside its packed words, where its column may have it.
template <class T, bool HAS>
struct ExceptionsOfSteps {
    Exceptions<T> exceptions;
    // The steps of this thread's exceptions.
    u32 exceptional = 0;
};
template <class T>
struct ExceptionsOfSteps<T, false> {};

template <class T, bool HAS>
struct AlpOfSteps {
    AlpStep<T> alp;
};
template <class T>
struct AlpOfSteps<T, false> {};

template <class T, bool HAS>
struct AlpRdOfSteps {
    AlpRdStep<T> alp_rd;
};
template <class T>
struct AlpRdOfSteps<T, false> {};

constexpr u32 CODE_ENCODINGS = 1u << PLAIN | 1u << FFOR;

template <class T, bool HAS, u32 CODES = CODE_ENCODINGS>
struct DictOfSteps {
    Node code_node;
    StepValues<u32, CODES> codes;
    Dictionary<T> dictionary;

    LANEPACK_DEVICE DictOfSteps(const Node& of, u32 vector)
        : code_node(codes_of(of)), codes(code_node, vector), dictionary(of) {}
};
template <class T, u32 CODES>
struct DictOfSteps<T, false, CODES> {
    DictOfSteps() = default;
    LANEPACK_DEVICE DictOfSteps(const Node&, u32) {}
};

constexpr u32 PATCHED_ENCODINGS = 1u << ALP | 1u << PFOR | 1u << ALP_RD;

// The values of this thread in a vector of a column whose chunks have some of `ENCODINGS`.
// All threads of a warp make one together.
template <class T, u32 ENCODINGS>
struct StepValues : ExceptionsOfSteps<T, (ENCODINGS & PATCHED_ENCODINGS) != 0>,
                    AlpOfSteps<T, has_encoding(ENCODINGS, ALP)>,
                    AlpRdOfSteps<T, has_encoding(ENCODINGS, ALP_RD)>,
                    DictOfSteps<T, has_encoding(ENCODINGS, DICT)> {
    static constexpr bool IS_PATCHED = (ENCODINGS & PATCHED_ENCODINGS) != 0;

    const Node* node;
    // Plain: the first value of the vector. Packed: its words.
    const T* words;
    // Strided: words of a value.
    u32 width;
    // Constant: the value.
    T base;

    StepValues() = default;
    LANEPACK_DEVICE StepValues(const Node& of, u32 vector, Patches& patches)
        : DictOfSteps<T, has_encoding(ENCODINGS, DICT)>(of, vector), node(&of) {
        find(of, vector);
        if constexpr (IS_PATCHED) this->exceptional = exceptional_steps(this->exceptions, patches);
    }

    // Of encodings without exceptions.
    LANEPACK_DEVICE StepValues(const Node& of, u32 vector)
        : DictOfSteps<T, has_encoding(ENCODINGS, DICT)>(of, vector), node(&of) {
        static_assert(!IS_PATCHED, "exceptions are looked for in shared memory");
        find(of, vector);
    }

    // The bits of the value of a step; of a sign 0.
    LANEPACK_DEVICE T operator()(u32 step) const {
        const u32 position = step_position(step) + threadIdx.x % WARP;
        if (is_encoding<ENCODINGS, PLAIN>(*node)) return __ldg(words + position);
        if (is_encoding<ENCODINGS, STRIDED>(*node)) return __ldg(words + position * width);
        if (is_encoding<ENCODINGS, CONSTANT>(*node)) return base;
        if constexpr (has_encoding(ENCODINGS, DICT)) {
            if (is_encoding<ENCODINGS, DICT>(*node)) return this->dictionary.at(this->codes(step));
        }
        if constexpr (has_encoding(ENCODINGS, FFOR) || IS_PATCHED) {
            const PackedPlace<T> place(step);
            if (is_encoding<ENCODINGS, FFOR>(*node)) return static_cast<T>(base + packed(place));
            if constexpr (IS_PATCHED) {
                const bool is_exception = (this->exceptional >> step & 1) != 0;
                if (is_exception) return this->exceptions.at(place.lane * ROWS<T> + place.row);
            }
            if (is_encoding<ENCODINGS, PFOR>(*node)) return static_cast<T>(base + packed(place));
            if constexpr (has_encoding(ENCODINGS, ALP)) {
                if (is_encoding<ENCODINGS, ALP>(*node)) return this->alp.value(packed(place));
            }
            if constexpr (has_encoding(ENCODINGS, ALP_RD)) {
                if (is_encoding<ENCODINGS, ALP_RD>(*node)) return this->alp_rd.value(packed(place));
            }
        }
        return 0;
    }

private:
    // Where the values of a vector lie.
    LANEPACK_DEVICE void find(const Node& of, u32 vector) {
        words = reinterpret_cast<const T*>(of.buffer[0]);
        if constexpr (IS_PATCHED) this->exceptions = Exceptions<T>(of.buffer[2], 0);
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
        if constexpr (has_encoding(ENCODINGS, PFOR)) {
            if (is_encoding<ENCODINGS, PFOR>(of)) {
                const PforVector<T> parameters(of, vector);
                patch(of, parameters);
                base = parameters.base;
            }
        }
        if constexpr (has_encoding(ENCODINGS, ALP)) {
            if (is_encoding<ENCODINGS, ALP>(of)) {
                const AlpVector<T> parameters(of, vector);
                patch(of, parameters);
                this->alp = parameters.step();
            }
        }
        if constexpr (has_encoding(ENCODINGS, ALP_RD)) {
            if (is_encoding<ENCODINGS, ALP_RD>(of)) {
                const AlpRdVector<T> parameters(of, vector);
                patch(of, parameters);
                this->alp_rd = parameters.step();
            }
        }
    }

    LANEPACK_DEVICE void pack(Packed<T> packed) {
        words = packed.words;
        width = packed.width;
    }

    template <class Vector>
    LANEPACK_DEVICE void patch(const Node& of, const Vector& vector) {
        pack(vector.packed);
        this->exceptions = Exceptions<T>(of.buffer[2], vector.locator);
    }

    LANEPACK_DEVICE T packed(PackedPlace<T> place) const {
        return packed_value<T>(words, width, place.row, place.lane);
    }
};

}  // namespace lanepack
