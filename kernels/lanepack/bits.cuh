// Readers of bits: booleans, and which rows of a column are valid. A value is 0 or 1, and verdicts
// are words of a bitmap, by step.
//
//   Bitmap<ENCODINGS>   a bitmap (plain) or one value for all rows (constant)
//   Bits<Child>         a bitmap whose bytes `Child` reads, eight rows each
//     tree[1]           the bytes
//
// Beside what all readers have (reader.cuh):
//
//   bits(tree, vector, state, patches, fault)   the bits of a vector by step
//
// A vector of bytes has the bits of eight vectors of rows. Tests come to neighbouring vectors one
// after the other, so they read a vector of bytes once and keep it; `bits` reads the 128 bytes that
// one vector of rows has: the bytes of four steps.
#pragma once

#include "pfor.cuh"
#include "reader.cuh"

namespace lanepack {

// The question whether bits are set.
LANEPACK_DEVICE Question is_set() { return {{1, 1}, UNSIGNED, nullptr}; }

// Verdicts on bits: a range of values has 0, 1 or both.
LANEPACK_DEVICE u32 verdicts_on_bits(u32 word, const Question& question) {
    return (question.range.high != 0 ? word : 0) | (question.range.low == 0 ? ~word : 0);
}

template <u32 ENCODINGS>
struct Bitmap {
    using Word = u8;
    static constexpr u32 NODES = 1;
    static constexpr bool IS_RANDOM = true;
    static constexpr bool IS_BY_STEP = true;

    // 32 rows from `word` * 32 on.
    LANEPACK_DEVICE static u32 word_at(const Node& node, u32 word) {
        if (is_encoding<ENCODINGS, CONSTANT>(node)) return node.parameter != 0 ? FULL : 0;
        return bits_word(node, word);
    }

    LANEPACK_DEVICE static u8 at(const Node* tree, u32 row) { return word_at(*tree, row / 32) >> row % 32 & 1; }

    template <u32 EACH>
    struct Test {
        LANEPACK_DEVICE void prepare(const Node*, u32, u32, const Question&) {}

        LANEPACK_DEVICE u32 select(const Node* tree, u32 vector, u32, const Question& question, Patches&, u32&) {
            const u32 word = vector * (VECTOR / 32) + step_word(threadIdx.x % WARP);
            return verdicts_on_bits(word_at(*tree, word), question);
        }
    };

    struct State {};

    LANEPACK_DEVICE static u32 bits(const Node* tree, u32 vector, State&, Patches&, u32&) {
        return word_at(*tree, vector * (VECTOR / 32) + step_word(threadIdx.x % WARP));
    }

    struct Values {
        const Node* tree;
        u32 vector;
        u32 selection;

        Values() = default;
        LANEPACK_DEVICE Values(const Node* of, u32 number, State& state, Patches& patches, u32& fault)
            : tree(of), vector(number), selection(by_step(bits(of, number, state, patches, fault))) {}

        LANEPACK_DEVICE u8 operator()(u32 step) const { return selection >> step & 1; }
        LANEPACK_DEVICE u8 at(u32 position) const { return Bitmap::at(tree, vector * VECTOR + position); }
    };
};

template <class Child>
struct Bits {
    using Word = u8;
    static constexpr u32 NODES = 1 + Child::NODES;
    static constexpr bool IS_RANDOM = Child::IS_RANDOM;
    static constexpr bool IS_BY_STEP = true;
    // Vectors of rows whose bits are one vector of bytes.
    static constexpr u32 VECTORS = 8;
    static_assert(sizeof(typename Child::Word) == 1, "eight rows each");

    LANEPACK_DEVICE static u8 at(const Node* tree, u32 row) { return Child::at(tree + 1, row / 8) >> row % 8 & 1; }

    // Every `APART`-th step of vector `of` of the bytes, from step `first` on: writes the bytes from
    // the first of them on to `words`. Bytes past the end may be anything.
    template <u32 APART>
    LANEPACK_DEVICE static void read(const Node* tree, u32 of, u32 first, u32* words, typename Child::State& state,
                                     Patches& patches, u32& fault) {
        const Node* bytes = tree + 1;
        if constexpr (has_encoding(LEAF_ENCODINGS<Child>, PFOR)) {
            if (is_encoding<LEAF_ENCODINGS<Child>, PFOR>(*bytes)) {
                const PforVector<u8> parameters(*bytes, of);
                if (parameters.packed.width == 0) {
                    read_exceptions<APART>(*bytes, parameters, first, words);
                    return;
                }
            }
        }
        const typename Child::Values values(bytes, of, state, patches, fault);
        const u32 within = steps_within(bytes->rows - of * VECTOR);
        u8* out = reinterpret_cast<u8*>(words) + threadIdx.x % WARP;
        // Other threads have read what was there before.
        __syncwarp();
#pragma unroll 4
        for (u32 step = first; step < WARP; step += APART) {
            out[step_position(step) - step_position(first)] = (within >> step & 1) != 0 ? values(step) : u8{0};
        }
        __syncwarp();
    }

    // The same of bytes that are equal but for exceptions, as most bitmaps with few bits are.
    template <u32 APART>
    LANEPACK_DEVICE static void read_exceptions(const Node& bytes, const PforVector<u8>& parameters, u32 first,
                                                u32* words) {
        constexpr u32 BYTES = VECTOR / APART;
        const u32 thread = threadIdx.x % WARP;
        const u32 begin = step_position(first);
        const u32 equal = parameters.base * 0x01010101u;
        __syncwarp();
#pragma unroll
        for (u32 i = 0; i < BYTES / sizeof(u32) / WARP; i++) words[i * WARP + thread] = equal;
        __syncwarp();
        const Exceptions<u8> exceptions(bytes.buffer[2], parameters.locator);
        exceptions.for_each(thread, WARP, [&](u32, u32 position, u8 value) {
            if (position - begin < BYTES) reinterpret_cast<u8*>(words)[position - begin] = value;
        });
        __syncwarp();
    }

    template <u32 EACH>
    struct Test {
        // Bytes of a vector, and its number; of none at first.
        u32 words[VECTOR / sizeof(u32)];
        u32 kept;
        typename Child::State state;

        LANEPACK_DEVICE void prepare(const Node*, u32, u32, const Question&) {
            __syncwarp();
            if (is_first_thread()) kept = ~0u;
            __syncwarp();
        }

        LANEPACK_DEVICE u32 select(const Node* tree, u32 vector, u32, const Question& question, Patches& patches,
                                   u32& fault) {
            const u32 of = vector / VECTORS;
            if (kept != of) {
                read<1>(tree, of, 0, words, state, patches, fault);
                if (is_first_thread()) kept = of;
                __syncwarp();
            }
            const u32 word = vector % VECTORS * WARP + step_word(threadIdx.x % WARP);
            return verdicts_on_bits(words[word], question);
        }
    };

    struct State {
        u32 words[WARP];
        typename Child::State child;
    };

    LANEPACK_DEVICE static u32 bits(const Node* tree, u32 vector, State& state, Patches& patches, u32& fault) {
        read<VECTORS>(tree, vector / VECTORS, vector % VECTORS, state.words, state.child, patches, fault);
        return state.words[step_word(threadIdx.x % WARP)];
    }

    struct Values {
        const State* state;
        u32 selection;

        Values() = default;
        LANEPACK_DEVICE Values(const Node* tree, u32 vector, State& in, Patches& patches, u32& fault)
            : state(&in), selection(by_step(bits(tree, vector, in, patches, fault))) {}

        LANEPACK_DEVICE u8 operator()(u32 step) const { return selection >> step & 1; }
        LANEPACK_DEVICE u8 at(u32 position) const { return state->words[position / 32] >> position % 32 & 1; }
    };
};

}  // namespace lanepack
