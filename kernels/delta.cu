// Values of 8 to 64 bits from their differences to memory: delta.
//
//   32, 64 bits   fields of a run in registers (fields.cuh) -> their sum -> a scan over the runs'
//                 sums -> values, 64 bytes of a run at a time through shared memory, so that
//                 neighbours store neighbours
//   8, 16 bits    deltas of a run one by one -> sums within the run, to shared memory -> the same
//                 scan -> what comes before is added on the way to the output
//
// Deltas wider than 32 bits, plain or constant are read one by one, twice: to be added up, and
// for the values.
//
// On an NVIDIA H200, bytes read and written as a share of a device-to-device copy, widths 1, 8, 16
// and 24: 84, 91, 95 and 96 % (32 bits), 90, 87, 87 and 87 % (64 bits, with 20 warps a
// multiprocessor; with 28 two points less, with 16 five). Lost: 128 bytes of a run at a time, 84, 92,
// 95, 96 and 87, 84, 86, 88; prefetching, as unit.cuh does, 3 points; streaming stores, 1 point; a
// loop over vectors, with the next one's words on their way, spills. 8 and 16 bits: 24 and 37 %. On
// an NVIDIA H100, widths 8 and 16 of 64 bits, 8 of 32: 91, 93 and 96 %; four vectors a warp, whose
// parameters are read at once, with the next one's words asked for: 84, 84 and 95.
//
// A warp takes a vector.
#include "arguments.cuh"
#include "lanepack/delta.cuh"
#include "lanepack/fields.cuh"
#include "launch.cuh"
#include "store.cuh"

namespace lanepack {

// delta_*: a warp takes a vector.
constexpr u32 DELTA_THREADS = 128;

// Where the values of a vector go.
template <class T>
struct VectorOutput {
    StoreWords<T> store;
    u32 first;

    LANEPACK_DEVICE VectorOutput(u8* out, const Node& node, u32 vector) : store(out, node), first(vector * VECTOR) {}

    LANEPACK_DEVICE bool is_whole() const { return store.past == 0 && first + VECTOR <= store.rows; }
};

// 64 bytes of each run of a warp, in pieces of 16. Neighbouring threads use different banks whether
// they write pieces of their runs or read those that are neighbours.
struct RunStage {
    static constexpr u32 PIECES = 4;
    uint4 pieces[PIECES * WARP];

    LANEPACK_DEVICE static u32 place(u32 run, u32 piece) { return (run * PIECES + piece) ^ (run / 2 % 8); }
};

// Writes the values of all runs, each `value` and `next(row)`, which has the row's delta added, of
// rows in order.
template <class T, bool UNROLLED, class Next>
LANEPACK_DEVICE void write_runs(T value, const Next& next, RunStage& stage, const VectorOutput<T>& to) {
    constexpr u32 EACH = PIECE<T>;
    constexpr u32 PIECES = RunStage::PIECES;
    constexpr u32 ROUND = PIECES * EACH;
    const u32 thread = threadIdx.x % WARP;
    const u32 number = RunPlace<T>(0).number;
    const bool is_whole = to.is_whole();
#pragma unroll(UNROLLED ? WARP / ROUND : 1)
    for (u32 first = 0; first < WARP; first += ROUND) {
#pragma unroll(UNROLLED ? PIECES : 1)
        for (u32 piece = 0; piece < PIECES; piece++) {
            T values[EACH];
#pragma unroll
            for (u32 i = 0; i < EACH; i++) {
                value = next(value, first + piece * EACH + i);
                values[i] = value;
            }
            stage.pieces[RunStage::place(number, piece)] = piece_of<T>(values);
        }
        __syncwarp();
#pragma unroll
        for (u32 i = 0; i < PIECES; i++) {
            const u32 run = i * (WARP / PIECES) + thread / PIECES;
            const uint4 piece = stage.pieces[RunStage::place(run, thread % PIECES)];
            const u32 row = run * WARP + first + thread % PIECES * EACH;
            if (is_whole) {
                // Not as `whole` does: parts of a line are to wait in the cache for each other.
                *reinterpret_cast<uint4*>(to.store.out + to.first + row) = piece;
            } else {
                to.store.values(to.first + row, piece, 0, EACH);
            }
        }
        __syncwarp();
    }
}

// Deltas that are read one by one.
template <class T>
LANEPACK_DEVICE void write_slowly(const Node& deltas, u32 vector, T start, RunStage& stage, const VectorOutput<T>& to) {
    constexpr u32 ENCODINGS = DELTA_ENCODINGS;
    const RunPlace<T> place(0);
    DeltaRun<T, ENCODINGS> run(deltas, vector, place);
    T before[1] = {0};
#pragma unroll 1
    for (u32 row = 0; row < WARP; row++) before[0] += run.next();
    before_runs<T>(before);
    DeltaRun<T, ENCODINGS> again(deltas, vector, place);
    const auto next = [&](T value, u32) { return value + again.next(); };
    write_runs<T, false>(start + before[0], next, stage, to);
}

// Shared memory of a warp.
template <class T>
struct DeltaStages {
    RunStage runs;
    // Of each run which rows are exceptions, and what these have more than the base, in all.
    u32 masks[WARP];
    T more[WARP];
};

// Packed deltas of at most 32 bits.
template <class T>
LANEPACK_DEVICE void write_packed(u32 (&fields)[WARP], T base, T start, const Exceptions<T>& block,
                                  DeltaStages<T>& stages, const VectorOutput<T>& to) {
    T before[1] = {static_cast<T>(base * WARP)};
    if (block.count == 0) {
#pragma unroll
        for (u32 row = 0; row < WARP; row++) before[0] += fields[row];
        before_runs<T>(before);
        const auto next = [&](T value, u32 row) { return value + (base + fields[row]); };
        write_runs<T, true>(start + before[0], next, stages.runs, to);
        return;
    }
    const u32 thread = threadIdx.x % WARP;
    stages.masks[thread] = 0;
    stages.more[thread] = 0;
    __syncwarp();
    for (u32 number = thread; number < block.count; number += WARP) {
        const u32 slot = __ldg(block.slots + number);
        u32 of, row;
        thread_and_step<T>(slot % ROWS<T>, slot / ROWS<T>, of, row);
        atomicOr(&stages.masks[of], 1u << row);
        atomicAdd(&stages.more[of], __ldg(block.values + number) - base);
    }
    __syncwarp();
    const u32 mask = stages.masks[thread];
    before[0] += stages.more[thread];
#pragma unroll
    for (u32 row = 0; row < WARP; row++) {
        // What is packed in the slots of exceptions is no matter.
        if ((mask >> row & 1) != 0) fields[row] = 0;
        before[0] += fields[row];
    }
    before_runs<T>(before);
    const auto next = [&](T value, u32 row) {
        value += base + fields[row];
        if ((mask >> row & 1) != 0) {
            const RunPlace<T> place(0);
            value += block.at(place.lane * ROWS<T> + place.row + row) - base;
        }
        return value;
    };
    write_runs<T, true>(start + before[0], next, stages.runs, to);
}

template <class T>
LANEPACK_DEVICE void delta(const WordsArguments& args) {
    constexpr u32 WARPS = DELTA_THREADS / WARP;
    LANEPACK_SHARED(DeltaStages<T>[WARPS], all);
    const u32 warp = warp_in_block();
    DeltaStages<T>& stages = all[warp];
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 vector = part.part * WARPS + warp;
    if (vector >= vectors_of(node)) return;
    const Node deltas = deltas_of(node);
    const T start = delta_start<T>(node, vector);
    const VectorOutput<T> to(args.out, node, vector);
    const bool is_patched = deltas.encoding == PFOR;
    if (is_patched || deltas.encoding == FFOR) {
        const FforVector<T> parameters(deltas, vector);
        const u32 locator = is_patched ? pfor_locator<T>(deltas, vector) : 0;
        if (parameters.packed.width <= 32) {
            u32 fields[WARP];
            unpack_fields(parameters.packed, fields);
            const Exceptions<T> block(deltas.buffer[2], locator);
            write_packed<T>(fields, parameters.base, start, block, stages, to);
            return;
        }
    }
    write_slowly<T>(deltas, vector, start, stages.runs, to);
}

// Of 8 and 16 bits: the sums within runs, and those of the runs.
template <class T>
struct DeltaStage {
    alignas(8) T values[VECTOR + LANES<T> * PAD<T>];
    T runs[RUNS<T>];
};

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
LANEPACK_DEVICE void narrow_delta(const WordsArguments& args) {
    constexpr u32 EACH = sizeof(u32) / sizeof(T);
    LANEPACK_SHARED(DeltaStage<T>[DELTA_THREADS / WARP], stages);
    DeltaStage<T>& stage = stages[warp_in_block()];
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 vector = part.part * (DELTA_THREADS / WARP) + warp_in_block();
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
    const bool is_aligned = reinterpret_cast<u64>(out) % sizeof(u32) == 0;
#pragma unroll 4
    for (u32 slot = threadIdx.x % WARP * EACH; slot < rows; slot += WARP * EACH) {
        const u32 before = repeat<T>(stage.runs[slot / RUN<T>]);
        const u32 values = add_word<T>(*reinterpret_cast<const u32*>(stage.values + padded<T>(slot)), before);
        if (is_aligned && slot + EACH <= rows) {
            *reinterpret_cast<u32*>(out + slot) = values;
        } else {
            for (u32 k = 0; k < EACH && slot + k < rows; k++) out[slot + k] = static_cast<T>(values >> k * ROWS<T>);
        }
    }
}

// Blocks of a multiprocessor: with more the compiler spills on newer architectures.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
constexpr u32 DELTA_BLOCKS = 6;
constexpr u32 WIDE_DELTA_BLOCKS = 4;
#else
constexpr u32 DELTA_BLOCKS = 7;
constexpr u32 WIDE_DELTA_BLOCKS = 5;
#endif

LANEPACK_KERNEL(delta_8, DELTA_THREADS, 1, WordsArguments) { narrow_delta<u8>(args); }
LANEPACK_KERNEL(delta_16, DELTA_THREADS, 1, WordsArguments) { narrow_delta<u16>(args); }
LANEPACK_KERNEL(delta_32, DELTA_THREADS, DELTA_BLOCKS, WordsArguments) { delta<u32>(args); }
LANEPACK_KERNEL(delta_64, DELTA_THREADS, WIDE_DELTA_BLOCKS, WordsArguments) { delta<u64>(args); }

}  // namespace lanepack
