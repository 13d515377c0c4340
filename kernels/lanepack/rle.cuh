// Runs on the device: which run each slot of a vector belongs to.
//
//   buffer 0   the number of the first run of each vector
//   buffer 1   values of the runs, as they are
//   buffer 2   u16 starts of the runs, as they are
//   size       runs
//
//   bits       1 0 0 0 1 0 1 0 0 ...    a bit for each slot where a run begins, the first always
//   slot i     first run + bits before and at i - 1
//
// Whatever the starts are, slots get runs of their own vector.
//
// As a tree (reader.cuh): tree[0] has buffer 0, then the trees of values and starts follow. A
// range test asks the values once for 1,024 runs; runs whose verdict differs from the one before
// leave a bit where they start, and the verdicts of slots are the parities of the bits up to them.
#pragma once

#include "reader.cuh"

namespace lanepack {

// The runs of a vector: shared memory of a warp.
struct RunBits {
    u32 bits[VECTOR / 32];
    // Bits before each word, less one.
    u32 before[VECTOR / 32];

    // Finds them; whether the starts are as they should be. All threads of a warp.
    LANEPACK_DEVICE bool load(const Node& node, u32 vector) {
        const u32 thread = threadIdx.x % WARP;
        const u32 rows = min(node.rows - vector * VECTOR, VECTOR);
        const u32* firsts = reinterpret_cast<const u32*>(node.buffer[0]);
        const u32 first = __ldg(firsts + vector);
        const u32 end = vector + 1 < vectors_of(node) ? __ldg(firsts + vector + 1) : static_cast<u32>(node.size);
        const u16* starts = reinterpret_cast<const u16*>(node.buffer[2]);
        // Others may still read the runs before these.
        __syncwarp();
        bits[thread] = thread == 0 ? 1 : 0;
        __syncwarp();
        bool is_sound = __ldg(starts + first) == 0;
        for (u32 run = first + 1 + thread; run < end; run += WARP) {
            const u32 start = __ldg(starts + run);
            is_sound &= start > __ldg(starts + run - 1) && start < rows;
            atomicOr(&bits[start / 32 % (VECTOR / 32)], 1u << start % 32);
        }
        __syncwarp();
        const u32 own = static_cast<u32>(__popc(bits[thread]));
        before[thread] = first + sum_upto(own) - own - 1;
        __syncwarp();
        return __all_sync(FULL, is_sound);
    }

    // The run of a slot.
    LANEPACK_DEVICE u32 run_of(u32 slot) const {
        const u32 upto = bits[slot / 32] << (31 - slot % 32);
        return before[slot / 32] + static_cast<u32>(__popc(upto));
    }
};

// The runs of a vector, and its rows.
struct RunSpan {
    u32 first;
    u32 end;
    u32 rows;

    LANEPACK_DEVICE RunSpan(const Node& node, u32 vector, u32 runs) {
        const u32* firsts = reinterpret_cast<const u32*>(node.buffer[0]);
        first = __ldg(firsts + vector);
        end = vector + 1 < vectors_of(node) ? __ldg(firsts + vector + 1) : runs;
        rows = min(node.rows - vector * VECTOR, VECTOR);
    }
};

// Rows of a reader that can be reached one by one, or that a warp has decoded a vector of.
template <class Reader, bool IS_RANDOM>
struct RowsOf;

template <class Reader>
struct RowsOf<Reader, true> {
    struct State {
        LANEPACK_DEVICE void reset() {}
    };
    const Node* tree;

    LANEPACK_DEVICE RowsOf(const Node* of, u32, State&, Patches&, u32&) : tree(of) {}
    LANEPACK_DEVICE typename Reader::Word at(u32 row) const { return Reader::at(tree, row); }
};

template <class Reader>
struct RowsOf<Reader, false> {
    struct State {
        typename Reader::State decoded;
        // Which vector.
        u32 vector;

        LANEPACK_DEVICE void reset() { vector = ~0u; }
    };
    typename Reader::Values values;

    LANEPACK_DEVICE RowsOf(const Node* tree, u32 vector, State& state, Patches& patches, u32& fault) {
        if (state.vector == vector) {
            values = typename Reader::Values(tree, state.decoded);
            return;
        }
        values = typename Reader::Values(tree, vector, state.decoded, patches, fault);
        __syncwarp();
        if (is_first_thread()) state.vector = vector;
        __syncwarp();
    }
    LANEPACK_DEVICE typename Reader::Word at(u32 row) const { return values.at(row % VECTOR); }
};

template <class Child, class Starts>
struct Rle {
    using Word = typename Child::Word;
    using StartRows = RowsOf<Starts, Starts::IS_RANDOM>;
    using ValueRows = RowsOf<Child, Child::IS_RANDOM>;
    static constexpr u32 NODES = 1 + Child::NODES + Starts::NODES;
    static constexpr bool IS_RANDOM = false;

    LANEPACK_DEVICE static const Node* values_of(const Node* tree) { return tree + 1; }
    LANEPACK_DEVICE static const Node* starts_of(const Node* tree) { return tree + 1 + Child::NODES; }

    // Calls `visit(run, start, is_live)` for the runs of a vector, 32 neighbours at a time, in all
    // threads of a warp; `enter(vector)` before those of each vector of the children. Starts that
    // are not sound are a fault.
    template <class Enter, class Visit>
    LANEPACK_DEVICE static void each_run(const Node* tree, u32 vector, typename StartRows::State& state,
                                         Patches& patches, u32& fault, const Enter& enter, const Visit& visit) {
        const RunSpan span(*tree, vector, values_of(tree)->rows);
        const u32 thread = threadIdx.x % WARP;
        u32 last = 0;
        bool is_sound = true;
#pragma unroll 1
        for (u32 first = span.first; first < span.end;) {
            const u32 of = first / VECTOR;
            const u32 end = min(span.end, (of + 1) * VECTOR);
            enter(of);
            const StartRows starts(starts_of(tree), of, state, patches, fault);
#pragma unroll 1
            for (; first < end; first += WARP) {
                const u32 run = first + thread;
                const bool is_live = run < end;
                const u32 start = is_live ? starts.at(run) : 0;
                const u32 above = __shfl_up_sync(FULL, start, 1);
                const u32 before = thread > 0 ? above : last;
                if (is_live) is_sound &= run == span.first ? start == 0 : start > before && start < span.rows;
                visit(run, start % VECTOR, is_live);
                last = __shfl_sync(FULL, start, min(end - first, WARP) - 1);
            }
            first = end;
        }
        if (!__all_sync(FULL, is_sound)) fault = FAULT_RUNS;
    }

    template <u32 EACH>
    struct Test {
        // Verdicts on the runs of a vector of the values, a bit each.
        u32 verdicts[WARP];
        u32 of_vector;
        u32 changes[WARP];
        typename Child::template Test<1> child;
        typename StartRows::State starts;

        LANEPACK_DEVICE void prepare(const Node*, u32, u32, const Question&) {
            __syncwarp();
            if (is_first_thread()) {
                of_vector = ~0u;
                starts.reset();
            }
            __syncwarp();
        }

        // Asks the values for the verdicts on the runs of one of their vectors.
        LANEPACK_DEVICE void ask(const Node* values, u32 vector, const Question& question, Patches& patches,
                                 u32& fault) {
            if (of_vector == vector) return;
            const u32 thread = threadIdx.x % WARP;
            child.prepare(values, vector, 1, question);
            const u32 word = by_step(child.select(values, vector, 0, question, patches, fault));
            __syncwarp();
            verdicts[step_word(thread)] = word;
            if (is_first_thread()) of_vector = vector;
            __syncwarp();
        }

        LANEPACK_DEVICE u32 select(const Node* tree, u32 vector, u32, const Question& question, Patches& patches,
                                   u32& fault) {
            const u32 thread = threadIdx.x % WARP;
            __syncwarp();
            changes[thread] = 0;
            __syncwarp();
            // Of the last run so far.
            bool last = false;
            each_run(
                tree, vector, starts, patches, fault,
                [&](u32 of) { ask(values_of(tree), of, question, patches, fault); },
                [&](u32 run, u32 start, bool is_live) {
                    const bool own = is_live && (verdicts[run % VECTOR / 32] >> run % 32 & 1) != 0;
                    const u32 all = __ballot_sync(FULL, own);
                    const u32 live = __ballot_sync(FULL, is_live);
                    const bool before = thread > 0 ? (all >> (thread - 1) & 1) != 0 : last;
                    if (is_live && own != before) atomicXor(&changes[start / 32], 1u << start % 32);
                    last = (all >> (31 - __clz(static_cast<int>(live))) & 1) != 0;
                });
            __syncwarp();
            u32 word = changes[thread];
            const u32 odd = __ballot_sync(FULL, __popc(word) % 2 != 0);
#pragma unroll
            for (u32 distance = 1; distance < 32; distance *= 2) word ^= word << distance;
            if (__popc(odd & ((1u << thread) - 1)) % 2 != 0) word = ~word;
            return by_step(__shfl_sync(FULL, word, step_word(thread)));
        }
    };

    struct State {
        // Bits where runs start, and runs before those of each word, less one.
        u32 bits[WARP];
        u32 before[WARP];
        typename StartRows::State starts;
        typename ValueRows::State values;
        // The values of the runs, from the first on, if they are not reached one by one.
        Word decoded[Child::IS_RANDOM ? 1 : VECTOR];
    };

    struct Values {
        const Node* tree;
        const State* state;
        u32 first;

        Values() = default;
        LANEPACK_DEVICE Values(const Node* of, u32 vector, State& in, Patches& patches, u32& fault)
            : tree(of), state(&in) {
            const u32 thread = threadIdx.x % WARP;
            first = RunSpan(*of, vector, values_of(of)->rows).first;
            __syncwarp();
            in.bits[thread] = 0;
            if (is_first_thread()) {
                in.starts.reset();
                in.values.reset();
            }
            __syncwarp();
            u32 entered = 0;
            each_run(
                of, vector, in.starts, patches, fault, [&](u32 number) { entered = number; },
                [&](u32 run, u32 start, bool is_live) {
                    if (is_live && run != first) atomicOr(&in.bits[start / 32], 1u << start % 32);
                    if constexpr (!Child::IS_RANDOM) {
                        const ValueRows rows(values_of(of), entered, in.values, patches, fault);
                        if (is_live) in.decoded[run - first] = rows.at(run);
                    }
                });
            // Whatever the starts are, the first run begins at the first slot, and there are no more
            // bits than runs.
            if (is_first_thread()) in.bits[0] |= 1;
            __syncwarp();
            const u32 own = static_cast<u32>(__popc(in.bits[thread]));
            in.before[thread] = sum_upto(own) - own - 1;
            __syncwarp();
        }

        LANEPACK_DEVICE Word at(u32 position) const {
            const u32 upto = state->bits[position / 32] << (31 - position % 32);
            const u32 run = state->before[position / 32] + static_cast<u32>(__popc(upto));
            if constexpr (Child::IS_RANDOM) {
                return Child::at(values_of(tree), first + run);
            } else {
                return state->decoded[run];
            }
        }
        LANEPACK_DEVICE Word operator()(u32 step) const { return at(step_position(step) + threadIdx.x % WARP); }
    };
};

}  // namespace lanepack
