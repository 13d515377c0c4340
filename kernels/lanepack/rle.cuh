// Runs on the device: which run each slot of a vector belongs to.
//
//   tree[0]   buffer 0: the number of the first run of each vector; buffer 1: bits where runs
//             begin, if there are no lengths; buffer 2: which run each row belongs to, if rows are
//             reached one by one (`IndexedRle`)
//   tree[1]   the values of the runs, and behind their tree that of the lengths
//
//   bits      1 0 0 0 1 0 1 0 0 ...    a bit for each slot where a run begins, the first always
//   slot i    first run + bits before and at i - 1
//
// Vectors whose lengths do not add up, or whose bits are not as many as their runs, count as one
// run each, so that slots get runs of their own vector whatever is stored.
//
// A range test tests the values of runs: 1,024 at a time, or, where runs have lengths, one by one if
// the values are plain or a warp's vectors have few runs. Verdicts of runs become those of slots:
//
//   lengths   added up over a warp's vectors, 64 at a time: a bit where a run starts whose verdict
//             differs from that before; a slot's verdict is the parity of these bits up to it
//   bits      verdicts are moved to the bits where runs begin (a parallel deposit), and a carry
//             takes each to the end of its run
//
// Figures and what was tried: docs/experiments.md.
#pragma once

#include "reader.cuh"
#include "words.cuh"

namespace lanepack {

// The encoding's id.
constexpr u32 RLE = 7;

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
    LANEPACK_DEVICE u32 count() const { return end - first; }
};

// The bits where the runs of a vector begin: a word of each thread, and the runs before it.
struct RunBegins {
    u32 word;
    u32 count;
    u32 before;
    // Whether there are as many as there should be. If not, the vector counts as one run.
    bool is_sound;

    // `words` are those of a vector of `rows` rows and `runs` runs. All threads of a warp.
    LANEPACK_DEVICE RunBegins(const u32* words, u32 rows, u32 runs) {
        const u32 thread = threadIdx.x % WARP;
        // Buffers are padded to 64 bytes, so the last word can be read whole.
        word = thread * 32 < rows ? __ldg(words + thread) : 0;
        if (rows < VECTOR) word &= bits_before(thread * 32, rows);
        count = static_cast<u32>(__popc(word));
        const u32 upto = sum_upto(count);
        before = upto - count;
        const bool begins = thread > 0 || (word & 1) != 0;
        is_sound = __all_sync(FULL, begins && (thread < WARP - 1 || upto == runs));
        if (!is_sound) {
            word = count = thread == 0 ? 1 : 0;
            before = 1 - count;
        }
    }
};

LANEPACK_DEVICE const u32* begins_of(const Node& node) { return reinterpret_cast<const u32*>(node.buffer[1]); }

// Where the runs of a vector begin: shared memory of a warp.
struct RunBits {
    // 32 bits, and how many stand before them, less one.
    struct alignas(8) Word {
        u32 bits;
        u32 before;
    };
    Word words[WARP];

    // From bits; whether these are as they should be. All threads of a warp.
    LANEPACK_DEVICE bool from_bits(const Node& node, u32 vector, const RunSpan& span) {
        const RunBegins begins(begins_of(node) + vector * WARP, span.rows, span.count());
        // Others may still read the runs before these.
        __syncwarp();
        words[threadIdx.x % WARP] = {begins.word, begins.before - 1};
        __syncwarp();
        return begins.is_sound;
    }

    // Adds runs from `run` to before `end`, up to EACH of each thread, the first of which begins in
    // slot `at`; `length_of(run)` are their lengths. Gives where the next one begins, and whether
    // no length is 0. The words are zero before the first. All threads of a warp.
    template <u32 EACH, class LengthOf>
    LANEPACK_DEVICE u32 add(u32 at, u32 run, u32 end, const LengthOf& length_of, bool& is_sound) {
        const u32 own = run + threadIdx.x % WARP * EACH;
        u32 lengths[EACH];
        u32 sum = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            const bool is_live = own + i < end;
            lengths[i] = is_live ? length_of(own + i) : 0;
            is_sound &= !is_live || lengths[i] > 0;
            sum += lengths[i];
        }
        const u32 upto = sum_upto(sum);
        u32 start = at + upto - sum;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            if (lengths[i] > 0 && start < VECTOR) atomicOr(&words[start / 32].bits, 1u << start % 32);
            start += lengths[i];
        }
        return at + __shfl_sync(FULL, upto, WARP - 1);
    }

    LANEPACK_DEVICE void clear() {
        // Others may still read the runs before these.
        __syncwarp();
        words[threadIdx.x % WARP].bits = 0;
        __syncwarp();
    }

    // Counts what has been added, or takes all for one run if that is not as it should be.
    LANEPACK_DEVICE void finish(bool is_sound) {
        if (!is_sound) words[threadIdx.x % WARP].bits = threadIdx.x % WARP == 0 ? 1 : 0;
        count();
    }

    // The run of a slot, less the first one.
    LANEPACK_DEVICE u32 run_of(u32 slot) const {
        const Word word = words[slot / 32];
        return word.before + static_cast<u32>(__popc(word.bits << (31 - slot % 32)));
    }

private:
    LANEPACK_DEVICE void count() {
        __syncwarp();
        const u32 thread = threadIdx.x % WARP;
        const u32 own = static_cast<u32>(__popc(words[thread].bits));
        words[thread].before = sum_upto(own) - own - 1;
        __syncwarp();
    }
};

// Runs whose lengths a warp reads at a time, two of them a thread.
constexpr u32 RUNS_AT_ONCE = 2 * WARP;

// The lengths of 1,024 runs, each by itself, or of pairs. `exceptional`, shared memory of a warp, gets a bit
// for each that is an exception.
template <class Lengths>
struct RunLengths;

template <u32 ENCODINGS, u64 WIDTHS>
struct RunLengths<Words<u16, ENCODINGS, WIDTHS>> {
    static constexpr bool IS_PATCHED = (ENCODINGS & PATCHED_ENCODINGS) != 0;

    VectorValues<u16, ENCODINGS> values;
    Exceptions<u16> exceptions;
    const u32* exceptional;
    // Lengths from this vector on.
    u32 rows;

    LANEPACK_DEVICE RunLengths(const Node& node, u32 vector, u32* marks)
        : values(node, vector),
          exceptions(values.exceptions(node)),
          exceptional(marks),
          rows(node.rows - vector * VECTOR) {
        if (!IS_PATCHED || exceptions.count == 0) return;
        __syncwarp();
        marks[threadIdx.x % WARP] = 0;
        __syncwarp();
        exceptions.for_each(threadIdx.x % WARP, WARP, [&](u32, u32 position, u16) {
            atomicOr(marks + position % VECTOR / 32, 1u << position % 32);
        });
        __syncwarp();
    }

    LANEPACK_DEVICE u32 at(u32 position) const {
        if (IS_PATCHED && exceptions.count != 0 && (exceptional[position / 32] >> position % 32 & 1) != 0) {
            return exception(position);
        }
        return values.at(position);
    }

    // Those of two runs of each thread, neighbours: all of RUNS_AT_ONCE runs from `first` on, a multiple of
    // it. Anything where there are no runs. All threads of a warp.
    LANEPACK_DEVICE void pair(u32 first, u32 (&out)[2]) const {
        const u32 position = first + threadIdx.x % WARP * 2;
        if (values.is(PLAIN)) {
#pragma unroll
            for (u32 i = 0; i < 2; i++) out[i] = position + i < rows ? values.at(position + i) : 0;
            return;
        }
        out[0] = out[1] = values.base;
        if (values.is(CONSTANT)) return;
        add_packed(first, out);
        if (!IS_PATCHED || exceptions.count == 0) return;
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            if ((exceptional[position / 32] >> (position + i) % 32 & 1) != 0) out[i] = exception(position + i);
        }
    }

private:
    LANEPACK_DEVICE u32 exception(u32 position) const {
        return exceptions.at(position % LANES<u16> * ROWS<u16> + row_at<u16>(position));
    }

    // Adds the packed values of two runs: halves of a word of 32 bits, as neighbouring lanes of a row are.
    LANEPACK_DEVICE void add_packed(u32 first, u32 (&out)[2]) const {
        static_assert(RUNS_AT_ONCE == LANES<u16>, "a row");
        // As `row_at`.
        const u32 row = first / RUNS_AT_ONCE % 2 * 8 + first / (2 * RUNS_AT_ONCE);
        const u32 bit = row * values.width;
        const u32 shift = bit % ROWS<u16>;
        const u32* word = reinterpret_cast<const u32*>(values.words) + bit / ROWS<u16> * WARP + threadIdx.x % WARP;
        // At width 0 there is no word.
        const u32 low = values.width > 0 ? __ldg(word) : 0;
        const u32 high = shift + values.width > ROWS<u16> ? __ldg(word + WARP) : 0;
        const u32 mask = low_bits<u32>(values.width);
        out[0] = (out[0] + (__byte_perm(low, high, 0x5410) >> shift & mask)) & 0xffff;
        out[1] = (out[1] + (__byte_perm(low, high, 0x7632) >> shift & mask)) & 0xffff;
    }
};

// Moves the lowest bits of `word`, in their order, to the bits set in `to`: Warren, Hacker's
// Delight, 7-5 (expand), in each of four bytes, which get their own bits of `word` first.
LANEPACK_DEVICE u32 deposit(u32 word, u32 to) {
    const u32 second = word >> __popc(to & 0xff);
    const u32 third = word >> __popc(to & 0xffff);
    const u32 fourth = word >> __popc(to & 0xffffff);
    word = __byte_perm(__byte_perm(word, second, 0x0040), __byte_perm(third, fourth, 0x0040), 0x5410);
    u32 moved[3];
    u32 mask = to;
    u32 zeros = ~(to << 1) & 0xfefefefe;
#pragma unroll
    for (u32 i = 0; i < 3; i++) {
        u32 parity = zeros;
        parity ^= parity << 1 & 0xfefefefe;
        parity ^= parity << 2 & 0xfcfcfcfc;
        parity ^= parity << 4 & 0xf0f0f0f0;
        moved[i] = parity & mask;
        mask = (mask ^ moved[i]) | moved[i] >> (1u << i);
        zeros &= ~parity;
    }
#pragma unroll
    for (u32 i = 3; i-- > 0;) word = (word & ~moved[i]) | (word << (1u << i) & moved[i]);
    return word & to;
}

// Repeats each of `bits` up to the next bit of `begins`, which has all of them, and `before`, 0 or
// 1, up to the first one: 1 added behind a bit is carried through the ones of ~begins, which become
// zeros.
LANEPACK_DEVICE u32 fill_runs(u32 bits, u32 begins, u32 before) {
    const u32 sum = ~begins + 2 * bits + before;
    return bits | ~(begins | sum);
}

// For each bit the parity of those up to it.
LANEPACK_DEVICE u32 parities(u32 word) {
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) word ^= word << distance;
    return word;
}

// Verdicts on the runs of two neighbouring vectors of the values, a bit each: shared memory of a
// warp.
template <class Child>
struct RunVerdicts {
    // Vectors of the values that are prepared together.
    static constexpr u32 PREPARED = 4;
    // No vector has this number.
    static constexpr u32 NO_VECTOR = 1u << 31;

    u32 words[2 * WARP];
    u32 vectors[2];
    // The first of the vectors that the values are prepared for.
    u32 prepared;
    typename Child::template Test<PREPARED> child;

    LANEPACK_DEVICE void reset() {
        if (is_first_thread()) vectors[0] = vectors[1] = prepared = NO_VECTOR;
    }

    LANEPACK_DEVICE bool has(u32 vector) const { return vectors[vector % 2] == vector; }

    // Asks the values for the verdicts on one of their vectors, if they are not there.
    template <class Asked>
    LANEPACK_DEVICE void ask(const Node* values, u32 vector, const Asked& question, Patches& patches, u32& fault) {
        if (has(vector)) return;
        const u32 thread = threadIdx.x % WARP;
        u32 number = vector - prepared;
        if (number >= PREPARED) {
            child.prepare(values, vector, min(PREPARED, vectors_of(*values) - vector), question);
            number = 0;
        }
        const u32 word = by_step_of<Child>(child.select(values, vector, number, of_all(question), patches, fault));
        // All threads have read `vectors` and `prepared`, which change now.
        __syncwarp();
        words[vector % 2 * WARP + step_word(thread)] = word;
        if (is_first_thread()) {
            vectors[vector % 2] = vector;
            prepared = vector - number;
        }
        __syncwarp();
    }

    // Those on the 32 runs from a multiple of 32 on, of which this is one.
    LANEPACK_DEVICE u32 word(u32 run) const { return words[run / 32 % (2 * WARP)]; }

    // Those on 32 runs from one on, and that on the run before.
    LANEPACK_DEVICE u32 from(u32 run, u32& before) const {
        const u32 word = (run - 1) / 32;
        const u32 low = words[word % (2 * WARP)];
        const u32 high = words[(word + 1) % (2 * WARP)];
        before = low >> (run - 1) % 32 & 1;
        return __funnelshift_rc(low, high, (run - 1) % 32 + 1);
    }
};

// Of no more runs than this in the vectors of a warp, values are tested by themselves.
constexpr u32 FEW_RUNS = 64;

// How runs are marked: by lengths, whose reader this is, or by bits.
template <class Lengths>
struct RunMarks;

template <>
struct RunMarks<void> {
    static constexpr u32 NODES = 0;

    template <class Child, u32 EACH>
    struct Test {
        RunVerdicts<Child> verdicts;
        // The first runs of the vectors, and of that behind them.
        u32 firsts[EACH + 1];
        // The rows from the first vector on, and where their runs begin.
        u32 rows;
        const u32* begins;

        template <class Asked>
        LANEPACK_DEVICE void prepare(const Node* tree, u32 from, u32 count, const Asked&) {
            const u32 thread = threadIdx.x % WARP;
            __syncwarp();
            verdicts.reset();
            if (thread <= count) {
                const u32 vector = from + thread;
                const u32* of_chunk = reinterpret_cast<const u32*>(tree->buffer[0]);
                firsts[thread] = vector < vectors_of(*tree) ? __ldg(of_chunk + vector) : tree[1].rows;
            }
            if (is_first_thread()) {
                rows = tree->rows - from * VECTOR;
                begins = begins_of(*tree) + from * WARP;
            }
            __syncwarp();
        }

        template <class Asked>
        LANEPACK_DEVICE u32 select(const Node* tree, u32, u32 i, const Asked& question, Patches& patches,
                                   u32& fault) {
            const u32 thread = threadIdx.x % WARP;
            const u32 first = firsts[i];
            const u32 end = firsts[i + 1];
            const u32 last = (end - 1) / VECTOR;
            if (!verdicts.has(first / VECTOR) || !verdicts.has(last)) {
                // Two, or twice the same; not unrolled, which keeps the code short.
#pragma unroll 1
                for (u32 of = first / VECTOR, asked = 0; asked < 2; of = last, asked++) {
                    verdicts.ask(tree + 1, of, question, patches, fault);
                }
            }
            const RunBegins runs(begins + i * WARP, min(rows - i * VECTOR, VECTOR), end - first);
            if (!runs.is_sound) fault = FAULT_RUNS;
            u32 before;
            const u32 own = verdicts.from(first + runs.before, before);
            // The first run of a vector is the first thread's.
            if (thread == 0) before = 0;
            const u32 of_own = __funnelshift_lc(0, own, 32 - runs.count);
            if (!__any_sync(FULL, (of_own | before) != 0)) return 0;
            const u32 word = fill_runs(deposit(own, runs.word), runs.word, before);
            return __shfl_sync(FULL, word, step_word(thread));
        }
    };

    // Shared memory of a warp.
    struct Runs {
        RunBits bits;
    };

    // Finds where the runs of a vector begin, by the tree or that of the lengths, `marks`.
    LANEPACK_DEVICE static bool find(const Node* tree, const Node*, u32 vector, const RunSpan& span, Runs& runs) {
        return runs.bits.from_bits(*tree, vector, span);
    }
};

template <u32 ENCODINGS, u64 WIDTHS>
struct RunMarks<Words<u16, ENCODINGS, WIDTHS>> {
    using Lengths = RunLengths<Words<u16, ENCODINGS, WIDTHS>>;
    static constexpr u32 NODES = 1;

    template <class Child, u32 EACH>
    struct Test {
        RunVerdicts<Child> verdicts;
        u32 exceptional[WARP];
        // The first runs of the vectors, and the runs that begin where vectors do.
        u32 first_runs[EACH];
        u32 runs_at_starts[EACH];
        // Of the vectors the slots where the verdict changes.
        u32 changes[EACH * WARP];
        // The verdict before each vector, a bit each.
        u32 before;
        // The vectors, and whether their changes are there.
        u32 first;
        u32 count;
        bool is_filled;

        template <class Asked>
        LANEPACK_DEVICE void prepare(const Node* tree, u32 from, u32 vectors, const Asked&) {
            const u32 thread = threadIdx.x % WARP;
            __syncwarp();
            verdicts.reset();
            if (thread < vectors) first_runs[thread] = __ldg(reinterpret_cast<const u32*>(tree->buffer[0]) + from + thread);
            if (is_first_thread()) {
                first = from;
                count = vectors;
                is_filled = false;
            }
            __syncwarp();
        }

        // Finds the changes of all vectors: 64 runs at a time, from a multiple of 64 on, neighbours in a
        // thread. Runs of other warps, before and behind, count as of no length.
        template <class Asked>
        LANEPACK_DEVICE void fill(const Node* tree, const Asked& question, Patches& patches, u32& fault) {
            const u32 thread = threadIdx.x % WARP;
            const Node* values = tree + 1;
            const RunSpan last(*tree, first + count - 1, values->rows);
            const u32 begin = first_runs[0];
            const u32 runs = last.end - begin;
            const u32 rows = (count - 1) * VECTOR + last.rows;
            // Plain values are tested where they are met, and few values.
            const bool is_plain = is_encoding<LEAF_ENCODINGS<Child>, PLAIN>(*values);
            const bool are_few = !is_plain && Child::IS_RANDOM && runs <= FEW_RUNS;
            const auto* plain = reinterpret_cast<const typename Child::Word*>(values->buffer[0]);
            for (u32 i = 0; i < EACH; i++) changes[i * WARP + thread] = 0;
            if (thread < EACH) runs_at_starts[thread] = ~0u;
            __syncwarp();
            // Values of the next runs.
            typename Child::Word next[2] = {0, 0};
            const auto load = [&](u32 own) {
                if (!is_plain) return;
#pragma unroll
                for (u32 i = 0; i < 2; i++) next[i] = __ldg(plain + (own + i - begin < runs ? own + i : begin));
            };
            load(begin / RUNS_AT_ONCE * RUNS_AT_ONCE + 2 * thread);
            u32 verdict = 0;
            u32 at = 0;
            bool is_sound = true;
#pragma unroll 1
            for (u32 run = begin / RUNS_AT_ONCE * RUNS_AT_ONCE; run < last.end;) {
                const u32 of = run / VECTOR;
                const u32 end = min(last.end, (of + 1) * VECTOR);
                if (!is_plain && !are_few) verdicts.ask(values, of, question, patches, fault);
                const Lengths lengths(tree[1 + Child::NODES], of, exceptional);
#pragma unroll 1
                for (; run < end; run += RUNS_AT_ONCE) {
                    const u32 own = run + 2 * thread;
                    const bool is_live[2] = {own - begin < runs, own + 1 - begin < runs};
                    const typename Child::Word words[2] = {next[0], next[1]};
                    load(own + RUNS_AT_ONCE);
                    u32 length[2];
                    lengths.pair(run % VECTOR, length);
                    bool holds[2] = {false, false};
                    if (is_plain) {
#pragma unroll
                        for (u32 i = 0; i < 2; i++) holds[i] = is_live[i] && holds_word(words[i], question);
                    } else if (!are_few) {
                        const u32 both = verdicts.word(own) >> own % 32;
                        holds[0] = is_live[0] && (both & 1) != 0;
                        holds[1] = is_live[1] && (both & 2) != 0;
                    } else if constexpr (Child::IS_RANDOM) {
#pragma unroll
                        for (u32 i = 0; i < 2; i++) {
                            if (is_live[i]) holds[i] = holds_row<Child>(values, own + i, question);
                        }
                    }
#pragma unroll
                    for (u32 i = 0; i < 2; i++) {
                        is_sound &= !is_live[i] || length[i] > 0;
                        if (!is_live[i]) length[i] = 0;
                    }
                    const u32 upto = sum_upto(length[0] + length[1]);
                    const u32 middle = at + upto - length[1];
                    const u32 start = middle - length[0];
                    at += __shfl_sync(FULL, upto, WARP - 1);
                    if (is_live[0] && start % VECTOR == 0) runs_at_starts[start / VECTOR % EACH] = own;
                    if (is_live[1] && middle % VECTOR == 0) runs_at_starts[middle / VECTOR % EACH] = own + 1;
                    const u32 seconds = __ballot_sync(FULL, holds[1]);
                    const bool before = ((seconds << 1 | verdict) >> thread & 1) != 0;
                    verdict = seconds >> (WARP - 1);
                    if (is_live[0] && holds[0] != before) change(start);
                    if (is_live[1] && holds[1] != holds[0]) change(middle);
                }
            }
            __syncwarp();
            is_sound &= thread >= count || runs_at_starts[thread] == first_runs[thread];
            // A vector has at most as many runs as values, so no sum of 16 bits each overflows.
            if (!__all_sync(FULL, is_sound) || at != rows) fault = FAULT_RUNS;
            u32 parity = 0;
            u32 verdicts_before = 0;
            for (u32 i = 0; i < EACH; i++) {
                verdicts_before |= parity << i;
                const u32 odd = __ballot_sync(FULL, __popc(changes[i * WARP + thread]) % 2 != 0);
                parity ^= static_cast<u32>(__popc(odd)) & 1;
            }
            if (is_first_thread()) {
                before = verdicts_before;
                is_filled = true;
            }
            __syncwarp();
        }

        LANEPACK_DEVICE void change(u32 slot) {
            atomicXor(&changes[slot / 32 % (EACH * WARP)], 1u << slot % 32);
        }

        template <class Asked>
        LANEPACK_DEVICE u32 select(const Node* tree, u32, u32 i, const Asked& question, Patches& patches,
                                   u32& fault) {
            const u32 thread = threadIdx.x % WARP;
            if (!is_filled) fill(tree, question, patches, fault);
            const u32 changed = changes[i * WARP + thread];
            const u32 odd = __ballot_sync(FULL, __popc(changed) % 2 != 0);
            const u32 parity = static_cast<u32>(__popc(odd & ((1u << thread) - 1))) ^ before >> i;
            const u32 word = parities(changed) ^ (0u - (parity & 1));
            return __shfl_sync(FULL, word, step_word(thread));
        }
    };

    struct Runs {
        RunBits bits;
        u32 exceptional[WARP];
    };

    LANEPACK_DEVICE static bool find(const Node*, const Node* marks, u32, const RunSpan& span, Runs& runs) {
        constexpr u32 MANY = 4;
        runs.bits.clear();
        u32 at = 0;
        bool is_sound = true;
#pragma unroll 1
        for (u32 run = span.first; run < span.end;) {
            const u32 of = run / VECTOR;
            const u32 end = min(span.end, (of + 1) * VECTOR);
            const Lengths lengths(*marks, of, runs.exceptional);
            const auto length_of = [&](u32 own) { return lengths.at(own % VECTOR); };
            if (end - run > WARP) {
                at = runs.bits.template add<MANY>(at, run, end, length_of, is_sound);
                run = min(end, run + MANY * WARP);
            } else {
                at = runs.bits.template add<1>(at, run, end, length_of, is_sound);
                run = end;
            }
        }
        is_sound = __all_sync(FULL, is_sound) && at == span.rows;
        __syncwarp();
        runs.bits.finish(is_sound);
        return is_sound;
    }
};

// Runs of values that `Child` reads; `Lengths`, `Words` of plain, constant, ffor or pfor, reads
// their lengths, of which there are none if there are bits.
template <class Child, class Lengths = void>
struct Rle {
    using Word = typename Child::Word;
    using Marks = RunMarks<Lengths>;
    static constexpr u32 NODES = 1 + Child::NODES + Marks::NODES;
    static constexpr bool IS_RANDOM = false;
    static constexpr bool IS_BY_STEP = true;

    template <u32 EACH>
    using Test = typename Marks::template Test<Child, EACH>;

    struct State {
        typename Marks::Runs runs;
        typename Child::State child;
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
            const Node* values = of + 1;
            const RunSpan span(*of, vector, values->rows);
            first = span.first;
            if (!Marks::find(of, values + Child::NODES, vector, span, in.runs)) fault = FAULT_RUNS;
            if constexpr (!Child::IS_RANDOM) decode(values, span, in, patches, fault);
        }

        LANEPACK_DEVICE Word at(u32 position) const {
            const u32 run = state->runs.bits.run_of(position);
            if constexpr (Child::IS_RANDOM) {
                return Child::at(tree + 1, first + run);
            } else {
                return state->decoded[run];
            }
        }
        LANEPACK_DEVICE Word operator()(u32 step) const { return at(step_position(step) + threadIdx.x % WARP); }

    private:
        // The values of all runs of the vector.
        LANEPACK_DEVICE static void decode(const Node* values, const RunSpan& span, State& in, Patches& patches,
                                           u32& fault) {
#pragma unroll 1
            for (u32 run = span.first; run < span.end;) {
                const u32 of = run / VECTOR;
                const u32 end = min(span.end, (of + 1) * VECTOR);
                const typename Child::Values rows(values, of, in.child, patches, fault);
                for (u32 own = run + threadIdx.x % WARP; own < end; own += WARP) {
                    in.decoded[own - span.first] = rows.at(own % VECTOR);
                }
                run = end;
                __syncwarp();
            }
        }
    };
};

// For 32 rows of a node where runs begin, and the runs before them, less one: 2 bits a row, made by
// index_runs (kernels/rle.cu). There is one for each 32 rows of all vectors, the last one included.
struct alignas(8) RunIndex {
    u32 bits;
    u32 before;
};

// Runs whose rows are reached one by one: `Child`, which is random, at the run of a row. Tests are those of
// runs.
template <class Child, class Lengths = void>
struct IndexedRle {
    using Word = typename Child::Word;
    static constexpr u32 NODES = Rle<Child, Lengths>::NODES;
    static constexpr bool IS_RANDOM = true;
    static constexpr bool IS_BY_STEP = true;

    template <u32 EACH>
    using Test = typename Rle<Child, Lengths>::template Test<EACH>;

    LANEPACK_DEVICE static Word at(const Node* tree, u32 row) {
        static_assert(Child::IS_RANDOM, "values of runs are read one by one");
        const u64 index = __ldg(reinterpret_cast<const u64*>(tree->buffer[2]) + row / 32);
        const u32 bits = static_cast<u32>(index);
        return Child::at(tree + 1, static_cast<u32>(index >> 32) + static_cast<u32>(__popc(bits << (31 - row % 32))));
    }

    struct State {};

    struct Values {
        const Node* tree;
        u32 first;

        Values() = default;
        LANEPACK_DEVICE Values(const Node* of, u32 vector, State&, Patches&, u32&) : tree(of), first(vector * VECTOR) {}

        LANEPACK_DEVICE Word at(u32 position) const { return IndexedRle::at(tree, first + position); }
        LANEPACK_DEVICE Word operator()(u32 step) const { return at(step_position(step) + threadIdx.x % WARP); }
    };
};

}  // namespace lanepack
