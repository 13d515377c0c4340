// Selections of dictionaries: which of a vector's codes stand for values that pass.
//
//   dictionary   its values are tested as those of any column -> a bit for each code
//   code_range   the codes that pass, if they follow each other: of a sorted dictionary they
//                do for =, ranges and prefixes
//   codes        packed integers in a range (range_test.cuh), or else their bits, one by one
//
// On an NVIDIA H200, UInt64 of 200 values, GB/s of values: 15,400 as a range, 1,600 with each
// code looked up and its value compared. Strings of 7 values: 23,500 as a range, 4,800 by bits.
//
// All threads of a warp call these together, with the same vector.
#pragma once

#include "reader.cuh"
#include "select.cuh"
#include "walk.cuh"

namespace lanepack {

// The codes that pass lie from `low` to `high`; all of them there do if `is_range`.
struct CodeRange {
    u32 low;
    u32 high;
    u32 is_range;
    u32 zero;
};

// The selection of the `live` codes of a vector that pass. `WIDTHS` as in `RangeTest`.
template <u64 WIDTHS>
LANEPACK_DEVICE u32 select_codes(const Node& codes, u32 vector, const StringsTest& test, u32 live) {
    const CodeRange range = *reinterpret_cast<const CodeRange*>(test.bytes);
    if (range.low > range.high) return 0;
    if (range.is_range != 0) {
        const Range inside{range.low, range.high};
        if (codes.encoding == PLAIN) return select_plain<u32>(codes, vector, inside, UNSIGNED);
        const PackedValues<u32, true, false> values(codes, vector, UNSIGNED);
        if (inside.low > values.greatest || inside.high < values.least) return 0;
        return select_inside<WIDTHS>(packed_at<u32>(codes, values.place), values.clip(inside));
    }
    const StepValues<u32, CODE_ENCODINGS> values(codes, vector);
    const u32* passes = reinterpret_cast<const u32*>(test.table);
    u32 selection = 0;
#pragma unroll 8
    for (u32 step = 0; step < WARP; step++) {
        if ((live >> step & 1) == 0) continue;
        const u32 code = min(values(step), test.count - 1);
        selection |= (__ldg(passes + code / 32) >> code % 32 & 1) << step;
    }
    return selection;
}

// The same of a node of dict.
template <u64 WIDTHS>
LANEPACK_DEVICE u32 select_looked_up(const Node& node, u32 vector, const StringsTest& test) {
    if (test.kind <= STRINGS_ALL) return test.kind == STRINGS_ALL ? FULL : 0;
    return select_codes<WIDTHS>(codes_of(node), vector, test, steps_within(node.rows - vector * VECTOR));
}

// Values by their codes, as a tree (reader.cuh): tree[0] has the dictionary, plain, in buffer 3
// and the number of its values as `size`; the tree of the codes follows.
template <class T, class Codes>
struct Dict {
    using Word = T;
    static constexpr u32 NODES = 1 + Codes::NODES;
    static constexpr bool IS_RANDOM = Codes::IS_RANDOM;
    static constexpr bool IS_BY_STEP = Codes::IS_BY_STEP;

    LANEPACK_DEVICE static T at(const Node* tree, u32 row) { return Dictionary<T>(*tree).at(Codes::at(tree + 1, row)); }

    // Whether the code of a row passes.
    LANEPACK_DEVICE static bool holds(const Node* tree, u32 row, const Question& question) {
        const StringsTest& test = *question.codes;
        if (test.kind <= STRINGS_ALL) return test.kind == STRINGS_ALL;
        return passes(test, Codes::at(tree + 1, row));
    }

    LANEPACK_DEVICE static bool passes(const StringsTest& test, u32 code) {
        const u32 known = min(code, test.count - 1);
        return (__ldg(reinterpret_cast<const u32*>(test.table) + known / 32) >> known % 32 & 1) != 0;
    }

    template <u32 EACH>
    struct Test {
        typename Codes::template Test<EACH> codes;
        typename Codes::State state;
        // The codes that pass, if they follow each other; `low` is above `high` if none passes, or
        // all do, which `kind` says.
        CodeRange range;
        u32 kind;

        LANEPACK_DEVICE static Question of_codes(const CodeRange& range) {
            return {{range.low, range.high}, UNSIGNED, nullptr};
        }

        LANEPACK_DEVICE void prepare(const Node* tree, u32 first, u32 count, const Question& question) {
            const bool has_range = question.codes->kind > STRINGS_ALL;
            __syncwarp();
            if (is_first_thread()) {
                kind = question.codes->kind;
                range = has_range ? *reinterpret_cast<const CodeRange*>(question.codes->bytes) : CodeRange{1, 0, 0, 0};
                if (has_range && range.is_range != 0 && range.low == 0 && range.high + 1 == question.codes->count) {
                    kind = STRINGS_ALL;
                }
            }
            __syncwarp();
            if (kind > STRINGS_ALL && range.is_range != 0 && range.low <= range.high) {
                codes.prepare(tree + 1, first, count, of_codes(range));
            }
        }

        LANEPACK_DEVICE u32 select(const Node* tree, u32 vector, u32 i, const Question& question, Patches& patches,
                                   u32& fault) {
            if (kind == STRINGS_ALL) return FULL;
            if (range.low > range.high) return 0;
            if (range.is_range != 0) return codes.select(tree + 1, vector, i, of_codes(range), patches, fault);
            const auto holds = [&](u32 code) { return passes(*question.codes, code); };
            const u32 selection = select_words<Codes>(tree + 1, vector, holds, state, patches, fault);
            return IS_BY_STEP ? by_step(selection) : selection;
        }
    };

    using State = typename Codes::State;

    struct Values {
        Dictionary<T> dictionary;
        typename Codes::Values codes;

        Values() = default;
        LANEPACK_DEVICE Values(const Node* tree, u32 vector, State& state, Patches& patches, u32& fault)
            : dictionary(*tree), codes(tree + 1, vector, state, patches, fault) {}

        LANEPACK_DEVICE T operator()(u32 step) const { return dictionary.at(codes(step)); }
        LANEPACK_DEVICE T at(u32 position) const { return dictionary.at(codes.at(position)); }
    };
};

template <class T, class Codes>
constexpr bool ASKS_CODES<Dict<T, Codes>> = true;

// The codes themselves, of dictionaries of strings: tests as of `Dict`.
template <class Codes>
struct DictCodes : Dict<u32, Codes> {
    LANEPACK_DEVICE static u32 at(const Node* tree, u32 row) { return Codes::at(tree + 1, row); }

    struct Values {
        typename Codes::Values codes;

        Values() = default;
        LANEPACK_DEVICE Values(const Node* tree, u32 vector, typename Codes::State& state, Patches& patches, u32& fault)
            : codes(tree + 1, vector, state, patches, fault) {}

        LANEPACK_DEVICE u32 operator()(u32 step) const { return codes(step); }
        LANEPACK_DEVICE u32 at(u32 position) const { return codes.at(position); }
    };
};

template <class Codes>
constexpr bool ASKS_CODES<DictCodes<Codes>> = true;

}  // namespace lanepack
