// The reader of nodes without children: values of 8 to 64 bits that are plain, constant, ffor,
// pfor, alp or alp_rd, and dictionaries whose values are plain (dict.cuh).
//
// A column's chunks may have several of these: `ENCODINGS` is a set of bits by their ids, and
// which one a node has is looked up where there is a choice. `WIDTHS` are those that packed
// vectors have: there is fast code for these (select_packed.cuh).
#pragma once

#include "range_test.cuh"
#include "reader.cuh"
#include "select.cuh"

namespace lanepack {

// The value of a row, exceptions included.
template <class T, u32 ENCODINGS>
LANEPACK_DEVICE T word_at(const Node& node, u32 row) {
    if (is_encoding<ENCODINGS, STRIDED>(node)) {
        return __ldg(reinterpret_cast<const T*>(node.buffer[0]) + row * node.size);
    }
    const VectorValues<T, ENCODINGS> values(node, row / VECTOR);
    const u32 position = row % VECTOR;
    if constexpr ((ENCODINGS & PATCHED_ENCODINGS) != 0) {
        const Exceptions<T> exceptions = values.exceptions(node);
        const u32 slot = position % LANES<T> * ROWS<T> + row_at<T>(position);
        T value;
        if (exceptions.find(slot, value)) return value;
    }
    return values.at(position);
}

// The values of a thread in a vector, of `W` bits, that `holds(packed)` is true for, of those in `live`.
template <u32 W, class T, class Holds>
LANEPACK_DEVICE u32 select_unpacked(const ThreadWords<T>& from, u32 live, const Holds& holds) {
    u32 words[W];
    u32 selection = 0;
#pragma unroll
    for (u32 r = 0; r < WARP; r++) {
        // The words that value r ends in, and the one before did not.
#pragma unroll
        for (u32 k = (r * W + 31) / 32; k < ((r + 1) * W + 31) / 32; k++) words[k] = from.load(k);
        const T packed = static_cast<T>(at_top<W>(words, r) >> (32 - W));
        if ((live >> r & 1) != 0) selection |= static_cast<u32>(holds(packed)) << r;
    }
    return selection;
}

// The same of packed values of any width but 0: with code for each of `WIDTHS` up to 32, or any
// slowly.
template <u64 WIDTHS, class T, class Holds>
LANEPACK_DEVICE u32 select_packed_by(Packed<T> packed, u32 live, const Holds& holds) {
    if constexpr (sizeof(T) >= 4) {
        const ThreadWords<T> words(packed);
        switch (packed.width) {
#define LANEPACK_WIDTH(w) \
    case w:               \
        if constexpr (has_width(WIDTHS, w)) return select_unpacked<w>(words, live, holds); else break;
#define LANEPACK_WIDTHS(w) LANEPACK_WIDTH(w) LANEPACK_WIDTH(w + 1) LANEPACK_WIDTH(w + 2) LANEPACK_WIDTH(w + 3)
            LANEPACK_WIDTHS(1) LANEPACK_WIDTHS(5) LANEPACK_WIDTHS(9) LANEPACK_WIDTHS(13)
            LANEPACK_WIDTHS(17) LANEPACK_WIDTHS(21) LANEPACK_WIDTHS(25) LANEPACK_WIDTHS(29)
#undef LANEPACK_WIDTHS
#undef LANEPACK_WIDTH
            default: break;
        }
    }
    StepPacked<T> steps(packed);
    u32 selection = 0;
#pragma unroll 4
    for (u32 step = 0; step < WARP; step++) {
        const T packed_value = steps.next();
        if ((live >> step & 1) != 0) selection |= static_cast<u32>(holds(packed_value)) << step;
    }
    return selection;
}

// The selection of the values that a question about keys holds for: packed ones in their order, which is
// faster than by their positions. Bits of rows past the end, and of rows that the question is not about,
// are arbitrary.
template <class T, u32 ENCODINGS, u64 WIDTHS, class Asked>
LANEPACK_DEVICE u32 select_in_order(const Node& node, u32 vector, const Asked& question, Patches& patches) {
    const auto holds = [&](T word) { return holds_word(word, question); };
    const u32 live = live_rows(question);
    constexpr u32 PACKED = 1u << FFOR | 1u << PFOR;
    if constexpr ((ENCODINGS & PACKED) != 0) {
        if (is_one_of<ENCODINGS & PACKED>(node) || (ENCODINGS & ~PACKED) == 0) {
            const FforVector<T> parameters(node, vector);
            u32 selection = 0;
            if (parameters.packed.width == 0) {
                selection = holds(parameters.base) ? FULL : 0;
            } else if (!excludes_words(parameters.base, low_bits<T>(parameters.packed.width), question)) {
                selection = select_packed_by<WIDTHS>(
                    parameters.packed, live, [&](T packed) { return holds(static_cast<T>(parameters.base + packed)); });
            }
            if constexpr (has_encoding(ENCODINGS, PFOR)) {
                if (is_encoding<ENCODINGS, PFOR>(node)) {
                    const Exceptions<T> exceptions(node.buffer[2], pfor_locator<T>(node, vector));
                    return patch_selection(selection, exceptions, UNSIGNED, holds, patches);
                }
            }
            return selection;
        }
    }
    if constexpr ((ENCODINGS & ~PACKED) != 0) {
        const StepValues<T, ENCODINGS & ~PACKED> values(node, vector, patches);
        const u32 within = live & steps_within(node.rows - vector * VECTOR);
        return select_many_steps(within, [&](u32 step) { return holds(values(step)); });
    }
    return 0;
}

template <class T, u32 ENCODINGS, u64 WIDTHS>
struct Words {
    using Word = T;
    static constexpr u32 NODES = 1;
    static constexpr bool IS_RANDOM = true;
    static constexpr bool IS_BY_STEP = false;

    LANEPACK_DEVICE static T at(const Node* tree, u32 row) { return word_at<T, ENCODINGS>(*tree, row); }

    template <u32 EACH>
    struct Test {
        Prepared<T> vectors[EACH];

        LANEPACK_DEVICE void prepare(const Node* tree, u32 first, u32 count, const Question& question) {
            RangeTest<T, ENCODINGS, WIDTHS>::prepare(*tree, first, count, question.range, question.order, vectors);
        }

        LANEPACK_DEVICE u32 select(const Node* tree, u32 vector, u32 i, const Question& question, Patches& patches,
                                   u32&) {
            return RangeTest<T, ENCODINGS, WIDTHS>::select(*tree, vector, question.range, question.order, vectors[i],
                                                           patches);
        }

        template <class Asked>
        LANEPACK_DEVICE void prepare(const Node*, u32, u32, const Asked&) {}

        template <class Asked>
        LANEPACK_DEVICE u32 select(const Node* tree, u32 vector, u32, const Asked& question, Patches& patches, u32&) {
            return select_asked(tree, vector, question, patches);
        }
    };

    // A test of keys, which prepares nothing and needs no memory.
    template <class Asked>
    LANEPACK_DEVICE static u32 select_asked(const Node* tree, u32 vector, const Asked& question, Patches& patches) {
        return select_in_order<T, ENCODINGS, WIDTHS>(*tree, vector, question, patches);
    }

    struct State {};

    struct Values : StepValues<T, ENCODINGS> {
        u32 vector;

        Values() = default;
        LANEPACK_DEVICE Values(const Node* tree, u32 number, State&, Patches& patches, u32&)
            : StepValues<T, ENCODINGS>(*tree, number, patches), vector(number) {}

        LANEPACK_DEVICE T at(u32 position) const {
            return word_at<T, ENCODINGS>(*this->node, vector * VECTOR + position);
        }
    };
};

template <class T, u32 ENCODINGS, u64 WIDTHS>
constexpr u32 LEAF_ENCODINGS<Words<T, ENCODINGS, WIDTHS>> = ENCODINGS;

// The selection of the values that lie in any number of ranges, one by one.
template <class Reader>
LANEPACK_DEVICE u32 select_in_ranges(const Node* tree, u32 vector, const Ranges& ranges,
                                     typename Reader::State& state, Patches& patches, u32& fault) {
    const auto holds = [&](typename Reader::Word word) { return ranges.hold_word(word); };
    return select_words<Reader>(tree, vector, holds, state, patches, fault);
}

// The upper word of wide columns that have one word only: the sign of the lower one.
struct SignWord {
    LANEPACK_DEVICE static u64 at(const Node*, u32) { return 0; }

    struct State {};
    struct Values {
        LANEPACK_DEVICE Values(const Node*, u32, State&, Patches&, u32&) {}
        LANEPACK_DEVICE u64 operator()(u32) const { return 0; }
    };
};

template <class High>
LANEPACK_DEVICE bool is_sign(const Node* tree) {
    return tree->encoding == SIGN;
}
template <>
LANEPACK_DEVICE bool is_sign<SignWord>(const Node*) {
    return true;
}

// Values of two words, the upper of which may be the sign of the lower.
template <class Low, class High>
struct WideValues {
    struct State {
        typename Low::State low;
        typename High::State high;
    };

    typename Low::Values low;
    typename High::Values high;
    bool has_sign;

    LANEPACK_DEVICE WideValues(const Node* low_tree, const Node* high_tree, u32 vector, State& state,
                               Patches& patches, u32& fault)
        : low(low_tree, vector, state.low, patches, fault),
          high(high_tree, vector, state.high, patches, fault),
          has_sign(is_sign<High>(high_tree)) {}

    LANEPACK_DEVICE i128 operator()(u32 step) const {
        const u64 below = low(step);
        const u64 above = has_sign ? static_cast<u64>(static_cast<i64>(below) >> 63) : high(step);
        return static_cast<i128>(static_cast<u128>(above) << 64 | below);
    }
};

}  // namespace lanepack
