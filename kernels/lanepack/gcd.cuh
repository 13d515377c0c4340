// Multiples of a divisor from an offset on.
//
//   tree[0]     parameter: the divisor; size: the offset
//   tree[1]     the quotients
//   value       offset + divisor * quotient
//
// A range of values is one of quotients: both ends are divided once for a warp's vectors, the
// low one rounded up, the high one down. Quotients whose product passes the end of the order
// domain are in no range.
#pragma once

#include "reader.cuh"

namespace lanepack {

template <class Child>
struct Gcd {
    using Word = typename Child::Word;
    static constexpr u32 NODES = 1 + Child::NODES;
    static constexpr bool IS_RANDOM = Child::IS_RANDOM;
    static constexpr bool IS_BY_STEP = Child::IS_BY_STEP;

    LANEPACK_DEVICE static Word multiple(const Node* tree, Word quotient) {
        return static_cast<Word>(tree->size + tree->parameter * quotient);
    }

    LANEPACK_DEVICE static Word at(const Node* tree, u32 row) { return multiple(tree, Child::at(tree + 1, row)); }

    template <u32 EACH>
    struct Test {
        // Of quotients; of none if `low` is above `high`.
        Range range;
        typename Child::template Test<EACH> child;

        LANEPACK_DEVICE void prepare(const Node* tree, u32 first, u32 count, const Question& question) {
            // Divisions take long: a thread for each end.
            const bool is_low = threadIdx.x % 2 == 0;
            const Word divisor = static_cast<Word>(tree->parameter);
            const Word offset = ordered(static_cast<Word>(tree->size), question.order);
            const Word bound = static_cast<Word>(is_low ? question.range.low : question.range.high);
            const bool is_past = bound > offset;
            const Word distance = is_past ? bound - offset : 0;
            Word quotient = distance / divisor;
            if (is_low && quotient * divisor != distance) quotient++;
            // No value is below the offset.
            const bool is_none = !is_low && bound < offset;
            const Word low = __shfl_sync(FULL, quotient, 0);
            const Word high = __shfl_sync(FULL, quotient, 1);
            const bool has_none = __any_sync(FULL, is_none) || low > high;
            __syncwarp();
            if (is_first_thread()) range = has_none ? Range{1, 0} : Range{low, high};
            __syncwarp();
            if (!has_none) child.prepare(tree + 1, first, count, Question{range, UNSIGNED, nullptr});
        }

        LANEPACK_DEVICE u32 select(const Node* tree, u32 vector, u32 i, const Question&, Patches& patches,
                                   u32& fault) {
            if (range.low > range.high) return 0;
            return child.select(tree + 1, vector, i, Question{range, UNSIGNED, nullptr}, patches, fault);
        }
    };

    using State = typename Child::State;

    struct Values {
        const Node* node;
        typename Child::Values quotients;

        Values() = default;
        LANEPACK_DEVICE Values(const Node* tree, u32 vector, State& state, Patches& patches, u32& fault)
            : node(tree), quotients(tree + 1, vector, state, patches, fault) {}

        LANEPACK_DEVICE Word operator()(u32 step) const { return multiple(node, quotients(step)); }
        LANEPACK_DEVICE Word at(u32 position) const { return multiple(node, quotients.at(position)); }
    };
};

}  // namespace lanepack
