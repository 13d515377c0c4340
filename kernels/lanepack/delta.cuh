// Delta on the device: the deltas of a vector in the order of values, taken by a warp.
//
//   delta i       of lane i / ROWS, row i % ROWS
//   run           the deltas of a lane (64 bits: of half a lane): neighbours, in one thread
//
//     64 bits   thread 16 h + l   run 2 l + h: rows 32 h to 32 h + 31 of lane l
//     32 bits   thread l          run l
//     16 bits   thread t          runs t, t + 32
//      8 bits   thread t          runs t, t + 32, t + 64, t + 96
//
// A thread sums its runs, a scan over the sums of all runs gives where each begins.
//
// A range test sums runs twice: for where each begins, then against the bounds. It reads exceptions
// only where all other deltas of a vector are 0 and the column has no width with code of its own. The
// values of a thread are neighbours, so their verdicts are bits of a bitmap.
//
// A node of delta has its starts in buffer 0 and the buffers of its child behind them; the
// child's encoding is `size`, its parameter 0 the node's.
#pragma once

#include "pfor.cuh"
#include "words.cuh"

namespace lanepack {

// The encoding's id.
constexpr u32 DELTA = 8;

// Deltas of a run, runs of a thread and of a vector.
template <class T>
constexpr u32 RUN = ROWS<T> < WARP ? ROWS<T> : WARP;
template <class T>
constexpr u32 RUNS_EACH = WARP / RUN<T>;
template <class T>
constexpr u32 RUNS = VECTOR / RUN<T>;

// Where run number `i` of this thread lies.
template <class T>
struct RunPlace {
    u32 lane;
    u32 row;
    // In the order of values.
    u32 number;

    LANEPACK_DEVICE explicit RunPlace(u32 i) {
        const u32 thread = threadIdx.x % WARP;
        lane = (thread + i * WARP) % LANES<T>;
        row = sizeof(T) == 8 ? thread / LANES<T> * WARP : 0;
        number = sizeof(T) == 8 ? lane * 2 + row / WARP : lane;
    }
};

// The child of a delta node.
LANEPACK_DEVICE Node deltas_of(const Node& node) {
    return Node{{node.buffer[1], node.buffer[2], node.buffer[3], nullptr},
                node.parameter,
                0,
                0,
                vectors_of(node) * VECTOR,
                static_cast<u16>(node.size), 0};
}

// Encodings of deltas.
constexpr u32 DELTA_ENCODINGS = WORD_ENCODINGS | 1u << PFOR;

// The deltas of a run, one behind the other; `deltas` is the child, which has one of `ENCODINGS`.
template <class T, u32 ENCODINGS>
struct DeltaRun {
    const Node& node;
    // Plain: of the vector.
    const T* words;
    PackedLane<T> packed;
    LaneExceptions<T> exceptions;
    T base;
    u32 lane;
    u32 row;

    LANEPACK_DEVICE DeltaRun(const Node& deltas, u32 vector, RunPlace<T> place)
        : node(deltas),
          words(reinterpret_cast<const T*>(deltas.buffer[0]) + vector * VECTOR),
          base(static_cast<T>(deltas.parameter)),
          lane(place.lane),
          row(place.row) {
        exceptions.row = ROWS<T>;
        if (!is(FFOR) && !is(PFOR)) return;
        const FforVector<T> parameters(deltas, vector);
        base = parameters.base;
        packed = PackedLane<T>(parameters.packed, lane, reinterpret_cast<const T*>(deltas.buffer[1]));
        const u32 bit = row * parameters.packed.width;
        packed.word += bit / ROWS<T> * LANES<T>;
        packed.shift = bit % ROWS<T>;
        if (!is(PFOR)) return;
        const Exceptions<T> block(deltas.buffer[2], pfor_locator<T>(deltas, vector));
        exceptions = LaneExceptions<T>(block, lane, row);
    }

    LANEPACK_DEVICE T next() {
        T value = base;
        if (is(FFOR) || is(PFOR)) value = static_cast<T>(base + packed.next());
        if (is(PLAIN)) value = __ldg(words + index(row, lane));
        if (has_encoding(ENCODINGS, PFOR) && row == exceptions.row) {
            value = exceptions.value;
            exceptions.advance();
        }
        row++;
        return value;
    }

private:
    LANEPACK_DEVICE bool is(u32 encoding) const {
        if (!has_encoding(ENCODINGS, encoding)) return false;
        return ENCODINGS == encoding_bit(encoding) || node.encoding == encoding;
    }
};

// Sums of runs to the values before each, from `start` on. All threads of a warp; a barrier
// must follow.
template <class T>
LANEPACK_DEVICE void add_up_runs(T* sums, T start) {
    using Sum = Same<decltype(T{} + 0u)>;
    T* own = sums + threadIdx.x % WARP * RUNS_EACH<T>;
    Sum sum = 0;
#pragma unroll
    for (u32 i = 0; i < RUNS_EACH<T>; i++) sum += own[i];
    Sum before = static_cast<Sum>(start + (sum_upto(sum) - sum));
#pragma unroll
    for (u32 i = 0; i < RUNS_EACH<T>; i++) {
        const T value = own[i];
        own[i] = static_cast<T>(before);
        before += value;
    }
}

// The starts of the vectors of a delta node.
template <class T>
LANEPACK_DEVICE T delta_start(const Node& node, u32 vector) {
    return __ldg(reinterpret_cast<const T*>(node.buffer[0]) + vector);
}

// Four bytes, of 64-bit values eight: so far apart are the values of neighbouring lanes in shared
// memory beside their own, so that 32 threads that each write the next value of their runs write
// 32 banks.
template <class T>
constexpr u32 PAD = sizeof(T) < 4 ? 4 / sizeof(T) : 1;

template <class T>
LANEPACK_DEVICE u32 padded(u32 slot) {
    return slot + slot / ROWS<T> * PAD<T>;
}

// The thread that has the first run of a word of a bitmap (32 values).
template <class T>
LANEPACK_DEVICE u32 run_holder(u32 word) {
    return sizeof(T) == 8 ? word % 2 * LANES<T> + word / 2 : word * (WARP / RUN<T>) % WARP;
}

// What comes before each run of this thread, given their sums. All threads of a warp.
template <class T>
LANEPACK_DEVICE void before_runs(T (&runs)[RUNS_EACH<T>]) {
    const u32 thread = threadIdx.x % WARP;
    if constexpr (sizeof(T) == 8) {
        // In the order of runs for the sum, and back.
        const T own = __shfl_sync(FULL, runs[0], run_holder<T>(thread));
        runs[0] = __shfl_sync(FULL, sum_upto(own) - own, RunPlace<T>(0).number);
    } else {
        u32 all = 0;
#pragma unroll
        for (u32 i = 0; i < RUNS_EACH<T>; i++) {
            const u32 own = runs[i];
            const u32 upto = sum_upto(own);
            runs[i] = static_cast<T>(all + upto - own);
            all += __shfl_sync(FULL, upto, WARP - 1);
        }
    }
}

// Verdicts on the values of each thread's runs, one run behind the other from bit 0 on, by step. All
// threads of a warp.
template <class T>
LANEPACK_DEVICE u32 runs_by_step(u32 verdicts) {
    const u32 word = step_word(threadIdx.x % WARP);
    const u32 holder = run_holder<T>(word);
    if constexpr (sizeof(T) >= 4) {
        return __shfl_sync(FULL, verdicts, holder);
    } else {
        // Parts of the word, from threads that follow each other.
        const u32 part = word * (WARP / RUN<T>) / WARP;
        u32 bits = 0;
#pragma unroll
        for (u32 i = 0; i < WARP / RUN<T>; i++) {
            const u32 run = __shfl_sync(FULL, verdicts, holder + i) >> part * RUN<T>;
            bits |= (run & ((1u << RUN<T>) - 1)) << i * RUN<T>;
        }
        return bits;
    }
}

// Packed deltas of one width, whose words a thread keeps: those of its run.
template <class T, u32 W>
struct PackedRun {
    u32 words[W];

    LANEPACK_DEVICE explicit PackedRun(const ThreadWords<T>& from) {
#pragma unroll
        for (u32 k = 0; k < W; k++) words[k] = from.load(k);
    }

    LANEPACK_DEVICE u32 at(u32 row) const { return at_top<W>(words, row) >> (32 - W); }
};

// The verdicts on a run, from `value` on, of which bounds are `value <= span`.
template <class T, u32 W>
LANEPACK_DEVICE u32 judge_run(const PackedRun<T, W>& run, T base, T value, T span) {
    const u32 one = opaque_one();
    u32 verdicts = 0;
#pragma unroll
    for (u32 row = 0; row < WARP; row++) {
        value += base + run.at(row);
        collect(value <= span, 1u << row, one, verdicts);
    }
    return verdicts;
}

// The same with exceptions, of which a thread has few: what follows one is judged again, with what
// the exception has more than the base, which is in its slot. All threads of a warp.
template <class T, u32 W>
LANEPACK_DEVICE u32 judge_patched_run(ThreadWords<T> from, T base, T value, T span, const Exceptions<T>& block) {
    const RunPlace<T> place(0);
    LaneExceptions<T> exceptions(block, place.lane, place.row);
    u32 verdicts = 0;
    u32 judged = 0;
#pragma unroll 1
    while (__any_sync(FULL, judged < WARP)) {
        const u32 end = min(exceptions.row - place.row, WARP);
        // Words are loaded again rather than kept: registers are short.
        from.even = &again(*from.even);
        from.odd = &again(*from.odd);
        const u32 found = judge_run<T, W>(PackedRun<T, W>(from), base, value, span);
        verdicts |= found & bits_before(0, end) & ~bits_before(0, judged);
        judged = end;
        if (end < WARP) {
            value += exceptions.value - base;
            exceptions.advance();
        }
    }
    return verdicts;
}

// Verdicts by code for one width, of values of 32 and 64 bits: `value` is what each value of the
// vector begins from, less the lower bound.
template <class T, u32 W>
LANEPACK_DEVICE u32 judge_deltas(const ThreadWords<T>& from, const Exceptions<T>& block, T base, T value, T span) {
    const PackedRun<T, W> run(from);
    u32 sum = 0;
#pragma unroll
    for (u32 row = 0; row < WARP; row++) sum += run.at(row);
    T before[1] = {static_cast<T>(base * WARP + sum)};
    if (block.count == 0) {
        before_runs<T>(before);
        return judge_run<T, W>(run, base, value + before[0], span);
    }
    const RunPlace<T> place(0);
#pragma unroll 1
    for (LaneExceptions<T> each(block, place.lane, place.row); each.row < place.row + WARP; each.advance()) {
        before[0] += each.value - base;
    }
    before_runs<T>(before);
    return judge_patched_run<T, W>(from, base, value + before[0], span, block);
}

// The same for all types, widths and encodings of deltas.
template <class T, u32 ENCODINGS>
LANEPACK_DEVICE u32 judge_any_deltas(const Node& deltas, u32 vector, T value, T span) {
    T before[RUNS_EACH<T>];
#pragma unroll
    for (u32 i = 0; i < RUNS_EACH<T>; i++) {
        DeltaRun<T, ENCODINGS> run(deltas, vector, RunPlace<T>(i));
        before[i] = 0;
#pragma unroll 1
        for (u32 k = 0; k < RUN<T>; k++) before[i] = static_cast<T>(before[i] + run.next());
    }
    before_runs<T>(before);
    u32 verdicts = 0;
#pragma unroll
    for (u32 i = 0; i < RUNS_EACH<T>; i++) {
        DeltaRun<T, ENCODINGS> run(deltas, vector, RunPlace<T>(i));
        T sum = static_cast<T>(value + before[i]);
#pragma unroll 1
        for (u32 k = 0; k < RUN<T>; k++) {
            sum = static_cast<T>(sum + run.next());
            if (sum <= span) verdicts |= 1u << (i * RUN<T> + k);
        }
    }
    return verdicts;
}

// The same where deltas are 0 but for exceptions, as those of values that come again: verdicts change
// at exceptions only.
template <class T>
LANEPACK_DEVICE u32 judge_exceptions(const Exceptions<T>& block, T value, T span) {
    T before[RUNS_EACH<T>];
#pragma unroll
    for (u32 i = 0; i < RUNS_EACH<T>; i++) {
        const RunPlace<T> place(i);
        before[i] = 0;
#pragma unroll 1
        for (LaneExceptions<T> each(block, place.lane, place.row); each.row < place.row + RUN<T>; each.advance()) {
            before[i] = static_cast<T>(before[i] + each.value);
        }
    }
    before_runs<T>(before);
    u32 verdicts = 0;
#pragma unroll
    for (u32 i = 0; i < RUNS_EACH<T>; i++) {
        const RunPlace<T> place(i);
        LaneExceptions<T> each(block, place.lane, place.row);
        T now = static_cast<T>(value + before[i]);
        u32 row = 0;
#pragma unroll 1
        while (row < RUN<T>) {
            const u32 end = min(each.row - place.row, RUN<T>);
            if (now <= span) verdicts |= (bits_before(0, end) & ~bits_before(0, row)) << i * RUN<T>;
            row = end;
            if (row < RUN<T>) {
                now = static_cast<T>(now + each.value);
                each.advance();
            }
        }
    }
    return verdicts;
}

// Widths whose fields add up to 32 bits at most over a run, and whose words fit in registers.
constexpr u32 MOST_DELTA_WIDTH = 24;

// `Child` reads the deltas: `Words` of plain, constant, ffor or pfor.
template <class Child>
struct Delta;

template <class T, u32 ENCODINGS, u64 WIDTHS>
struct Delta<Words<T, ENCODINGS, WIDTHS>> {
    using Word = T;
    static constexpr u32 NODES = 2;
    static constexpr bool IS_RANDOM = false;
    static constexpr bool IS_BY_STEP = true;

    template <u32 EACH>
    struct Test {
        LANEPACK_DEVICE void prepare(const Node*, u32, u32, const Question&) {}

        LANEPACK_DEVICE u32 select(const Node* tree, u32 vector, u32, const Question& question, Patches&, u32&) {
            const T low = static_cast<T>(question.range.low);
            const T span = static_cast<T>(question.range.high - question.range.low);
            // The order domain of integers is their own, moved.
            const T moved = question.order == SIGNED ? static_cast<T>(T{1} << (ROWS<T> - 1)) : T{0};
            const T value = static_cast<T>(delta_start<T>(*tree, vector) + moved - low);
            return runs_by_step<T>(judge(tree[1], vector, value, span));
        }
    };

    struct State {
        alignas(8) T values[VECTOR + LANES<T> * PAD<T>];
    };

    struct Values {
        const State* state;

        Values() = default;
        LANEPACK_DEVICE Values(const Node* tree, u32 vector, State& of, Patches&, u32&) : state(&of) {
            // Others may still read the vector before.
            __syncwarp();
            T before[RUNS_EACH<T>];
#pragma unroll
            for (u32 i = 0; i < RUNS_EACH<T>; i++) {
                const RunPlace<T> place(i);
                DeltaRun<T, ENCODINGS> run(tree[1], vector, place);
                T* to = of.values + padded<T>(place.number * RUN<T>);
                T sum = 0;
#pragma unroll 4
                for (u32 k = 0; k < RUN<T>; k++) {
                    sum = static_cast<T>(sum + run.next());
                    to[k] = sum;
                }
                before[i] = sum;
            }
            before_runs<T>(before);
            const T start = delta_start<T>(*tree, vector);
#pragma unroll
            for (u32 i = 0; i < RUNS_EACH<T>; i++) {
                T* to = of.values + padded<T>(RunPlace<T>(i).number * RUN<T>);
                const T add = static_cast<T>(start + before[i]);
#pragma unroll 4
                for (u32 k = 0; k < RUN<T>; k++) to[k] = static_cast<T>(to[k] + add);
            }
            __syncwarp();
        }

        LANEPACK_DEVICE T at(u32 position) const { return state->values[padded<T>(position)]; }
        LANEPACK_DEVICE T operator()(u32 step) const { return at(step_position(step) + threadIdx.x % WARP); }
    };

private:
    LANEPACK_DEVICE static u32 judge(const Node& deltas, u32 vector, T value, T span) {
        const bool is_patched = is_encoding<ENCODINGS, PFOR>(deltas);
        if (is_patched || is_encoding<ENCODINGS, FFOR>(deltas)) {
            const FforVector<T> parameters(deltas, vector);
            const u32 locator = is_patched ? pfor_locator<T>(deltas, vector) : 0;
            const Exceptions<T> block(deltas.buffer[2], locator);
            if constexpr (sizeof(T) >= 4 && (WIDTHS & widths_upto(MOST_DELTA_WIDTH)) != 0) {
                const ThreadWords<T> words(parameters.packed);
                switch (parameters.packed.width) {
#define LANEPACK_WIDTH(w)                                                             \
    case w:                                                                           \
        if constexpr (has_width(WIDTHS, w)) {                                         \
            return judge_deltas<T, w>(words, block, parameters.base, value, span);    \
        } else {                                                                      \
            break;                                                                    \
        }
#define LANEPACK_WIDTHS(w) LANEPACK_WIDTH(w) LANEPACK_WIDTH(w + 1) LANEPACK_WIDTH(w + 2) LANEPACK_WIDTH(w + 3)
                    LANEPACK_WIDTHS(1) LANEPACK_WIDTHS(5) LANEPACK_WIDTHS(9) LANEPACK_WIDTHS(13)
                    LANEPACK_WIDTHS(17) LANEPACK_WIDTHS(21)
#undef LANEPACK_WIDTHS
#undef LANEPACK_WIDTH
                    default: break;
                }
            } else if (parameters.packed.width == 0 && parameters.base == 0) {
                // Compiled beside the code for widths it spills: u64 of 16 bits 30 % slower on an H200.
                return judge_exceptions<T>(block, value, span);
            }
        }
        return judge_any_deltas<T, ENCODINGS>(deltas, vector, value, span);
    }
};

}  // namespace lanepack
