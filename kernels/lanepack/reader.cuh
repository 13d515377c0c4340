// Readers: what device code sees of a tree of encodings. A reader is a type, a template over
// the readers of its node's children:
//
//   Words<u64, 1u << FFOR, 0x80>   ffor of 8 bits (words.cuh)
//   Dict<u64, Words<u32, ...>>     values of 64 bits by their codes (select_codes.cuh)
//   Parent<Words<u64, ...>>        those of an encoding with children take the readers of these
//   Bitmap<1u << PLAIN>            booleans, and which rows are valid (bits.cuh)
//
// Encodings with children have a header each; readers.cuh includes all of them.
//
// The nodes of a tree are stored in pre-order: tree[0] is the root, the trees of its children
// follow. src/decode/trees.rs writes the type of a chunk's tree and its nodes. A reader has:
//
//   Word          an unsigned integer as wide as a value
//   NODES         the number of nodes of the tree
//   IS_BY_STEP    the form of verdicts; `selection_of` and `by_step_of` give either
//   IS_RANDOM     whether `at` reaches a row without decoding those before it
//   at(tree, row) the value of a row, if IS_RANDOM; each thread by itself
//
//   Test<EACH>    whether values lie in a range, for up to EACH neighbouring vectors: shared
//                 memory of a warp
//     prepare(tree, first, count, question)
//     select(tree, vector, i, question, patches, fault)   the verdicts on vector number i of these: a
//                 selection (steps.cuh), or if IS_BY_STEP what `by_step` makes of one; `question` is
//                 the same as before
//
//                 `Words` and runs of these also take a `KeyQuestion` (select_keys.cuh)
//
//   State         shared memory of a warp for the values of a vector
//   Values(tree, vector, state, patches, fault)           the values of a vector
//     operator()(step)   this thread's value of a step
//     at(position)       any value
//
// All threads of a warp call these together, but for the three that give one value. Of rows
// past the end of a node selections and values are arbitrary. `fault` becomes what is wrong
// with the data (node.cuh), in all threads alike, and is left alone if nothing is. `patches` is
// only used within a call.
#pragma once

#include "order.cuh"
#include "patches.cuh"
#include "steps.cuh"

namespace lanepack {

struct StringsTest;

// What values are tested for: a range, in the order domain of `order` (order.cuh). Of
// dictionaries, whose values have been tested before, the codes that pass (select_codes.cuh).
struct Question {
    Range range;
    u32 order;
    const StringsTest* codes;
};

// The question to values that are not those of rows, and the rows that it is about.
LANEPACK_DEVICE const Question& of_all(const Question& question) { return question; }
LANEPACK_DEVICE u32 live_rows(const Question&) { return FULL; }

// Verdicts of a test of `Reader` as a selection.
template <class Reader>
LANEPACK_DEVICE u32 selection_of(u32 verdicts) {
    return Reader::IS_BY_STEP ? by_step(verdicts) : verdicts;
}

// The same by step.
template <class Reader>
LANEPACK_DEVICE u32 by_step_of(u32 verdicts) {
    return Reader::IS_BY_STEP ? verdicts : by_step(verdicts);
}

// The trees of a column's chunks have one of several types: those of shape SHAPE are read by
// `First`, the others by `Others`.
template <u32 SHAPE, class First, class Others>
struct OneOf {
    using Word = typename First::Word;
    static constexpr u32 NODES = First::NODES > Others::NODES ? First::NODES : Others::NODES;
    static constexpr bool IS_RANDOM = First::IS_RANDOM && Others::IS_RANDOM;
    static constexpr bool IS_BY_STEP = First::IS_BY_STEP && Others::IS_BY_STEP;

    LANEPACK_DEVICE static bool is_first(const Node* tree) { return tree->shape == SHAPE; }

    LANEPACK_DEVICE static Word at(const Node* tree, u32 row) {
        return is_first(tree) ? First::at(tree, row) : Others::at(tree, row);
    }

    template <u32 EACH>
    struct Test {
        union {
            typename First::template Test<EACH> first;
            typename Others::template Test<EACH> others;
        };

        template <class Asked>
        LANEPACK_DEVICE void prepare(const Node* tree, u32 from, u32 count, const Asked& question) {
            if (is_first(tree)) {
                first.prepare(tree, from, count, question);
            } else {
                others.prepare(tree, from, count, question);
            }
        }

        template <class Asked>
        LANEPACK_DEVICE u32 select(const Node* tree, u32 vector, u32 i, const Asked& question, Patches& patches,
                                   u32& fault) {
            return is_first(tree) ? in_own_form<First>(first.select(tree, vector, i, question, patches, fault))
                                  : in_own_form<Others>(others.select(tree, vector, i, question, patches, fault));
        }
    };

    template <class Reader>
    LANEPACK_DEVICE static u32 in_own_form(u32 verdicts) {
        return IS_BY_STEP ? verdicts : selection_of<Reader>(verdicts);
    }

    union State {
        typename First::State first;
        typename Others::State others;
    };

    // Of readers of bits.
    LANEPACK_DEVICE static u32 bits(const Node* tree, u32 vector, State& state, Patches& patches, u32& fault) {
        return is_first(tree) ? First::bits(tree, vector, state.first, patches, fault)
                              : Others::bits(tree, vector, state.others, patches, fault);
    }

    struct Values {
        bool is_first_shape;
        typename First::Values first;
        typename Others::Values others;

        Values() = default;
        LANEPACK_DEVICE Values(const Node* tree, u32 vector, State& state, Patches& patches, u32& fault)
            : is_first_shape(is_first(tree)) {
            if (is_first_shape) {
                first = typename First::Values(tree, vector, state.first, patches, fault);
            } else {
                others = typename Others::Values(tree, vector, state.others, patches, fault);
            }
        }

        LANEPACK_DEVICE Word operator()(u32 step) const { return is_first_shape ? first(step) : others(step); }
        LANEPACK_DEVICE Word at(u32 position) const {
            return is_first_shape ? first.at(position) : others.at(position);
        }
    };
};

// Whether a question is about codes, whose values have been asked before.
template <class Reader>
constexpr bool ASKS_CODES = false;

// The answer to a question of one value.
template <class T>
LANEPACK_DEVICE bool holds_word(T word, const Question& question) {
    const T key = ordered(word, question.order);
    return key >= question.range.low && key <= question.range.high;
}

// The encodings of a reader that is a leaf; of others none.
template <class Reader>
constexpr u32 LEAF_ENCODINGS = 0;

// The answer to a question of one row, of readers that are random; each thread by itself.
template <class Reader, class Asked>
LANEPACK_DEVICE bool holds_row(const Node* tree, u32 row, const Asked& question) {
    if constexpr (ASKS_CODES<Reader>) {
        return Reader::holds(tree, row, question);
    } else {
        return holds_word(Reader::at(tree, row), question);
    }
}

// The selection of the values that `holds(word)` is true for, one by one.
template <class Reader, class Holds>
LANEPACK_DEVICE u32 select_words(const Node* tree, u32 vector, const Holds& holds, typename Reader::State& state,
                                 Patches& patches, u32& fault) {
    const typename Reader::Values values(tree, vector, state, patches, fault);
    const u32 within = steps_within(tree->rows - vector * VECTOR);
    u32 selection = 0;
#pragma unroll 4
    for (u32 step = 0; step < WARP; step++) {
        if ((within >> step & 1) != 0 && holds(values(step))) selection |= 1u << step;
    }
    return selection;
}

// A number that all threads of a warp have alike, from the thread that has it.
LANEPACK_DEVICE bool is_first_thread() { return threadIdx.x % WARP == 0; }

}  // namespace lanepack
