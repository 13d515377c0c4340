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
// A node of delta has its starts in buffer 0 and the buffers of its child behind them; the
// child's encoding is `size`, its parameter 0 the node's.
#pragma once

#include "pfor.cuh"

namespace lanepack {

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
                static_cast<u32>(node.size)};
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

}  // namespace lanepack
