// Values of 8 to 64 bits from their differences to memory: delta.
//
//   deltas of a run -> sums within the run, to shared memory; the sum of the run
//   scan over the runs' sums -> what lies before each run
//   shared memory -> sums, what lies before added, to the output, neighbours by neighbours
//
// On an NVIDIA H200, bytes read and written as a share of a device-to-device copy: 68 to 74 %
// for 64 and 32 bits, 37 and 24 % for 16 and 8, where a value at a time is many instructions.
// One code for deltas of all encodings: 60 to 64 %, 30 and 18.
//
// A warp takes a vector.
#include "arguments.cuh"
#include "lanepack/delta.cuh"
#include "launch.cuh"

namespace lanepack {

template <class T>
struct DeltaStage {
    alignas(8) T values[VECTOR + LANES<T> * PAD<T>];
    T runs[RUNS<T>];
};

// What threads read and write at once: four bytes of values at least.
template <class T>
struct WordOf {
    using Type = u32;
};
template <>
struct WordOf<u64> {
    using Type = u64;
};

// The sums within the runs of this thread, and those of the runs.
template <class T, u32 ENCODINGS>
LANEPACK_DEVICE void add_up(const Node& deltas, u32 vector, DeltaStage<T>& stage) {
#pragma unroll 1
    for (u32 i = 0; i < RUNS_EACH<T>; i++) {
        const RunPlace<T> place(i);
        DeltaRun<T, ENCODINGS> run(deltas, vector, place);
        T* to = stage.values + padded<T>(place.number * RUN<T>);
        T sum = 0;
#pragma unroll 8
        for (u32 k = 0; k < RUN<T>; k++) {
            sum = static_cast<T>(sum + run.next());
            to[k] = sum;
        }
        stage.runs[place.number] = sum;
    }
}

template <class T>
LANEPACK_DEVICE void delta(const WordsArguments& args) {
    using Word = typename WordOf<T>::Type;
    constexpr u32 EACH = sizeof(Word) / sizeof(T);
    LANEPACK_SHARED(DeltaStage<T>[DELTA_THREADS / WARP], stages);
    DeltaStage<T>& stage = stages[threadIdx.x / WARP];
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 vector = part.part * (DELTA_THREADS / WARP) + threadIdx.x / WARP;
    if (vector >= vectors_of(node)) return;
    const Node deltas = deltas_of(node);
    // Mostly without exceptions: code of its own.
    if (deltas.encoding == FFOR) {
        add_up<T, 1u << FFOR>(deltas, vector, stage);
    } else {
        add_up<T, DELTA_ENCODINGS & ~(1u << FFOR)>(deltas, vector, stage);
    }
    __syncwarp();
    add_up_runs(stage.runs, delta_start<T>(node, vector));
    __syncwarp();
    const u32 rows = min(node.rows - vector * VECTOR, VECTOR);
    T* out = reinterpret_cast<T*>(args.out) + node.at + vector * VECTOR;
    const bool is_aligned = reinterpret_cast<u64>(out) % sizeof(Word) == 0;
#pragma unroll 4
    for (u32 slot = threadIdx.x % WARP * EACH; slot < rows; slot += WARP * EACH) {
        const T before = stage.runs[slot / RUN<T>];
        const Word sums = *reinterpret_cast<const Word*>(stage.values + padded<T>(slot));
        Word values;
        if constexpr (sizeof(T) == 8) {
            values = sums + before;
        } else {
            values = add_word<T>(sums, repeat<T>(before));
        }
        if (is_aligned && slot + EACH <= rows) {
            *reinterpret_cast<Word*>(out + slot) = values;
        } else {
            for (u32 k = 0; k < EACH && slot + k < rows; k++) {
                out[slot + k] = static_cast<T>(values >> (k * ROWS<T>) % (8 * sizeof(Word)));
            }
        }
    }
}

LANEPACK_KERNEL(delta_8, DELTA_THREADS, 1, WordsArguments) { delta<u8>(args); }
LANEPACK_KERNEL(delta_16, DELTA_THREADS, 1, WordsArguments) { delta<u16>(args); }
LANEPACK_KERNEL(delta_32, DELTA_THREADS, 1, WordsArguments) { delta<u32>(args); }
LANEPACK_KERNEL(delta_64, DELTA_THREADS, 1, WordsArguments) { delta<u64>(args); }

}  // namespace lanepack
