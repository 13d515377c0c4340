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
// range test asks the values once for 1,024 runs, or of few runs each; runs whose verdict differs from the one before
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

// Of no more runs than this in a vector, values are tested by themselves.
constexpr u32 FEW_RUNS = 64;

template <class Child, class Starts>
struct Rle {
    using Word = typename Child::Word;
    using StartRows = RowsOf<Starts, Starts::IS_RANDOM>;
    using ValueRows = RowsOf<Child, Child::IS_RANDOM>;
    static constexpr u32 NODES = 1 + Child::NODES + Starts::NODES;
    static constexpr bool IS_RANDOM = false;

    LANEPACK_DEVICE static const Node* values_of(const Node* tree) { return tree + 1; }
    LANEPACK_DEVICE static const Node* starts_of(const Node* tree) { return tree + 1 + Child::NODES; }

    // Calls `visit(run, start, count)` for up to 32 neighbouring runs of a vector at a time, from
    // `run` on, in all threads of a warp: thread t has the start of run number t of these. Before
    // those of each vector of the children `enter(vector)`. Starts that are not sound are a fault.
    template <class Enter, class Visit>
    LANEPACK_DEVICE static void each_run(const Node* tree, const RunSpan& span, typename StartRows::State& state,
                                         Patches& patches, u32& fault, const Enter& enter, const Visit& visit) {
        const u32 thread = threadIdx.x % WARP;
        // One less than the first start.
        i32 last = -1;
        bool is_sound = true;
#pragma unroll 1
        for (u32 run = span.first; run < span.end;) {
            const u32 of = run / VECTOR;
            const u32 end = min(span.end, (of + 1) * VECTOR);
            enter(of);
            const StartRows starts(starts_of(tree), of, state, patches, fault);
#pragma unroll 1
            while (run < end) {
                const u32 count = min(end - run, WARP);
                const i32 start = thread < count ? static_cast<i32>(starts.at(run + thread)) : 0;
                const i32 above = __shfl_up_sync(FULL, start, 1);
                const i32 before = thread > 0 ? above : last;
                if (thread < count) is_sound &= start > before && start < static_cast<i32>(span.rows);
                visit(run, static_cast<u32>(start), count);
                last = __shfl_sync(FULL, start, count - 1);
                // The first of all is 0.
                if (run == span.first && thread == 0) is_sound &= start == 0;
                run += count;
            }
        }
        if (!__all_sync(FULL, is_sound)) fault = FAULT_RUNS;
    }

    template <u32 EACH>
    struct Test {
        // Verdicts on the runs of a vector of the values, a bit each.
        u32 verdicts[WARP];
        u32 of_vector;
        // Of each vector the slots where the verdict changes.
        u32 changes[EACH][WARP];
        // The vectors, and whether their changes are there.
        u32 first;
        u32 count;
        bool is_filled;
        bool is_tried;
        typename Child::template Test<1> child;
        typename StartRows::State starts;

        LANEPACK_DEVICE void prepare(const Node*, u32 from, u32 vectors, const Question&) {
            __syncwarp();
            if (is_first_thread()) {
                of_vector = ~0u;
                first = from;
                count = vectors;
                is_filled = false;
                is_tried = false;
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

        // Finds the changes of all vectors at once, of starts that threads have 32 neighbours of.
        // Leaves them to `find` where one of the vectors is short or has no such starts.
        LANEPACK_DEVICE void fill(const Node* tree, const Question& question, Patches& patches, u32& fault) {
            if constexpr (HAS_PAIRS<Starts>) {
                const u32 thread = threadIdx.x % WARP;
                const Node* values = values_of(tree);
                if ((first + count) * VECTOR > tree->rows) return;
                const u32* firsts = reinterpret_cast<const u32*>(tree->buffer[0]);
                const u32 begin = __ldg(firsts + first);
                const u32 end = RunSpan(*tree, first + count - 1, values->rows).end;
                __syncwarp();
                for (u32 i = 0; i < count; i++) changes[i][thread] = 0;
                __syncwarp();
                u32 last_verdict = 0;
                u32 last_start = 0;
                u32 seen = 0;
                bool is_sound = true;
                bool has_code = true;
#pragma unroll 1
                for (u32 of = begin / VECTOR; has_code && of * VECTOR < end; of++) {
                    ask(values, of, question, patches, fault);
                    // Of this thread's runs those that begin a vector, and those of these vectors.
                    const u32 own = of * VECTOR + thread * WARP;
                    u32 heads = 0;
                    u32* changed = &changes[0][0] - WARP;
                    for (u32 i = 0; i < count; i++) {
                        const u32 head = __ldg(firsts + first + i);
                        if (head < own) {
                            changed += WARP;
                        } else if (head - own < WARP) {
                            heads |= 1u << (head - own);
                        }
                    }
                    const u32 inside = bits_before(own, end) & ~bits_before(own, begin);
                    const u32 word = verdicts[thread];
                    const u32 above = __shfl_up_sync(FULL, word >> 31, 1);
                    const u32 before = word << 1 | (thread > 0 ? above : last_verdict);
                    const u32 toggles = (word ^ (before & ~heads)) & inside;
                    u32 start_before = 0;
                    has_code = Starts::with_pairs(
                        starts_of(tree), of,
                        [&](u32 value) { start_before = thread > 0 ? value & 0xffff : last_start; },
                        [&](u32 i, u32 start) {
                            const u32 bit = 1u << i;
                            if ((heads & bit) != 0) {
                                changed += WARP;
                                is_sound &= start == 0;
                            } else if ((inside & bit) != 0) {
                                is_sound &= start > start_before;
                            }
                            if ((inside & bit) != 0) seen |= start;
                            if ((toggles & bit) != 0) atomicXor(changed + start % VECTOR / 32, 1u << start % 32);
                            start_before = start;
                        });
                    last_verdict = __shfl_sync(FULL, word >> 31, WARP - 1);
                    last_start = __shfl_sync(FULL, start_before, WARP - 1);
                }
                if (!has_code) return;
                if (!__all_sync(FULL, is_sound && seen < VECTOR)) fault = FAULT_RUNS;
                __syncwarp();
                if (is_first_thread()) is_filled = true;
            }
        }

        // Finds the changes of one vector.
        LANEPACK_DEVICE void find(const Node* tree, u32 vector, u32* changed, const Question& question,
                                  Patches& patches, u32& fault) {
            const u32 thread = threadIdx.x % WARP;
            const Node* values = values_of(tree);
            const RunSpan span(*tree, vector, values->rows);
            // Of few runs each value by itself.
            const bool are_few = Child::IS_RANDOM && span.end - span.first <= FEW_RUNS;
            __syncwarp();
            changed[thread] = 0;
            __syncwarp();
            // The verdict on the last run so far.
            u32 last = 0;
            each_run(
                tree, span, starts, patches, fault,
                [&](u32 of) {
                    if (!are_few) ask(values, of, question, patches, fault);
                },
                [&](u32 run, u32 start, u32 runs) {
                    u32 all;
                    if (are_few) {
                        bool own = false;
                        if constexpr (Child::IS_RANDOM) {
                            own = thread < runs && holds_row<Child>(values, run + thread, question);
                        }
                        all = __ballot_sync(FULL, own);
                    } else {
                        // Bits behind the last run are not used.
                        const u32 word = run % VECTOR / 32;
                        all = __funnelshift_r(verdicts[word], verdicts[min(word + 1, WARP - 1)], run % 32);
                    }
                    const bool is_changed = ((all ^ (all << 1 | last)) >> thread & 1) != 0;
                    if (is_changed && thread < runs) atomicXor(changed + start % VECTOR / 32, 1u << start % 32);
                    last = all >> (runs - 1) & 1;
                });
        }

        LANEPACK_DEVICE u32 select(const Node* tree, u32 vector, u32 i, const Question& question, Patches& patches,
                                   u32& fault) {
            const u32 thread = threadIdx.x % WARP;
            if (!is_tried) {
                fill(tree, question, patches, fault);
                __syncwarp();
                if (is_first_thread()) is_tried = true;
                __syncwarp();
            }
            if (!is_filled) find(tree, vector, changes[i], question, patches, fault);
            __syncwarp();
            u32 word = changes[i][thread];
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
            const RunSpan span(*of, vector, values_of(of)->rows);
            first = span.first;
            __syncwarp();
            in.bits[thread] = 0;
            if (is_first_thread()) {
                in.starts.reset();
                in.values.reset();
            }
            __syncwarp();
            u32 entered = 0;
            each_run(
                of, span, in.starts, patches, fault, [&](u32 number) { entered = number; },
                [&](u32 run, u32 start, u32 count) {
                    const bool is_live = thread < count;
                    const bool is_later = run + thread != first;
                    if (is_live && is_later) atomicOr(&in.bits[start % VECTOR / 32], 1u << start % 32);
                    if constexpr (!Child::IS_RANDOM) {
                        const ValueRows rows(values_of(of), entered, in.values, patches, fault);
                        if (is_live) in.decoded[run + thread - first] = rows.at(run + thread);
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
