// Values of runs to memory: rle_*; which run each row belongs to: index_runs.
//
//   buffer 0   the number of the first run of each vector
//   buffer 1   bits where runs begin, if there are no lengths
//
// Behind the nodes of a launch stand as many of the runs' lengths, and as many of their values, as
// these are stored: plain, constant, ffor or pfor. Lengths without rows belong to nodes with bits.
//
// A warp takes a vector: brings the values of its runs to shared memory, makes the bits where runs
// begin from lengths, counts which run each slot belongs to, and writes 16 bytes of neighbours a
// thread.
//
// On an NVIDIA H200, bytes read and written as a share of a device-to-device copy, values and
// lengths plain: runs up to 2, 7, 20 and 1,000 values 67, 76, 84 and 98 % (32 bits), 82, 90, 91 and
// 99 % (64 bits); with bits instead of lengths 89, 88, 92 and 91, and 93, 91, 91 and 92 %. More
// warps a multiprocessor than 36 to 40 are worse but for short lengths. On an NVIDIA H100, runs up to
// 20: 89 and 94 %; four vectors a warp, whose first runs are read at once, with the next one's values
// asked for: 91 and 90.
#include "arguments.cuh"
#include "copy_async.cuh"
#include "lanepack/rle.cuh"
#include "launch.cuh"
#include "store.cuh"

namespace lanepack {

// rle_*: a warp takes a vector.
constexpr u32 RLE_THREADS = 128;

constexpr u32 RUN_ENCODINGS = WORD_ENCODINGS | 1u << PFOR;
using AnyLengths = Words<u16, RUN_ENCODINGS, 0>;

// Runs whose values a warp has in shared memory; those of vectors with more are read one by one.
constexpr u32 STAGED_RUNS = 512;

template <class T>
struct RleStage {
    RunMarks<AnyLengths>::Runs runs;
    T values[STAGED_RUNS];
};

// Finds where the runs of a vector begin; whether what is stored is sound. All threads of a warp.
LANEPACK_DEVICE bool find_runs(const Node& node, const Node& lengths, u32 vector, const RunSpan& span,
                               RunMarks<AnyLengths>::Runs& runs) {
    return lengths.rows == 0 ? runs.bits.from_bits(node, vector, span)
                             : RunMarks<AnyLengths>::find(&node, &lengths, vector, span, runs);
}

// Brings the values of the runs of a vector to `to`; they are there after `copies_done` and a
// barrier. All threads of a warp.
template <class T>
LANEPACK_DEVICE void stage_values(const Node& node, const RunSpan& span, T* to) {
    const u32 thread = threadIdx.x % WARP;
#pragma unroll 1
    for (u32 run = span.first; run < span.end;) {
        const u32 of = run / VECTOR;
        const u32 end = min(span.end, (of + 1) * VECTOR);
        if (sizeof(T) >= 4 && node.encoding == PLAIN) {
            const T* values = reinterpret_cast<const T*>(node.buffer[0]);
#pragma unroll 1
            for (u32 own = run + thread; own < end; own += WARP) {
                if constexpr (sizeof(T) >= 4) copy_async(to + (own - span.first), values + own);
            }
        } else {
            const VectorValues<T, RUN_ENCODINGS> values(node, of);
#pragma unroll 2
            for (u32 own = run + thread; own < end; own += WARP) to[own - span.first] = values.at(own % VECTOR);
            if (node.encoding == PFOR) {
                __syncwarp();
                values.exceptions(node).for_each(thread, WARP, [&](u32, u32 position, T value) {
                    const u32 own = of * VECTOR + position;
                    if (own >= run && own < end) to[own - span.first] = value;
                });
            }
        }
        run = end;
    }
}

// The values of slots from `slot` on, 16 bytes of them, all within a word of bits;
// `value_of(run)` are those of runs.
template <class T, class ValueOf>
LANEPACK_DEVICE uint4 run_values(const RunBits& runs, const ValueOf& value_of, u32 slot) {
    const RunBits::Word word = runs.words[slot / 32];
    const u32 begins = word.bits >> slot % 32;
    u32 run = word.before + static_cast<u32>(__popc(word.bits << (31 - slot % 32)));
    T values[PIECE<T>];
#pragma unroll
    for (u32 i = 0; i < PIECE<T>; i++) {
        if (i > 0) run += begins >> i & 1;
        values[i] = value_of(run);
    }
    return piece_of<T>(values);
}

template <class T, class ValueOf>
LANEPACK_DEVICE void write_slots(const RunBits& runs, const ValueOf& value_of, const StoreWords<T>& store, u32 first) {
    const bool is_whole = store.past == 0 && first + VECTOR <= store.rows;
#pragma unroll 4
    for (u32 slot = threadIdx.x % WARP * PIECE<T>; slot < VECTOR; slot += WARP * PIECE<T>) {
        // Slots past the end belong to the last run.
        const uint4 piece = run_values<T>(runs, value_of, slot);
        if (is_whole) {
            store.whole(first + slot, piece);
        } else {
            store.values(first + slot, piece, 0, PIECE<T>);
        }
    }
}

template <class T>
LANEPACK_DEVICE void rle(const DictArguments& args) {
    LANEPACK_SHARED(RleStage<T>[RLE_THREADS / WARP], all);
    const u32 warp = warp_in_block();
    RleStage<T>& stage = all[warp];
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 nodes = gridDim.x / args.blocks_per_node;
    const Node& lengths = args.nodes[nodes + part.node];
    const Node& values = args.nodes[nodes * 2 + part.node];
    const u32 thread = threadIdx.x % WARP;
    const u32 vector = part.part * (RLE_THREADS / WARP) + warp;
    if (vector >= vectors_of(node)) return;
    const RunSpan span(node, vector, values.rows);
    const bool is_staged = span.count() <= STAGED_RUNS;
    if (is_staged) stage_values<T>(values, span, stage.values);
    if (!find_runs(node, lengths, vector, span, stage.runs) && thread == 0) report(args.status, part.node, FAULT_RUNS);
    const StoreWords<T> store(args.out, node);
    if (is_staged) {
        copies_done();
        __syncwarp();
        const auto value_of = [&](u32 run) { return stage.values[run]; };
        write_slots<T>(stage.runs.bits, value_of, store, vector * VECTOR);
    } else {
        const auto value_of = [&](u32 run) { return word_at<T, RUN_ENCODINGS>(values, span.first + run); };
        write_slots<T>(stage.runs.bits, value_of, store, vector * VECTOR);
    }
}

// `out` gets a `RunIndex` for each 32 rows, those of a node from number `at` on. Values of runs are nodes
// that only say how many there are.
LANEPACK_KERNEL(index_runs, RLE_THREADS, 8, DictArguments) {
    LANEPACK_SHARED(RunMarks<AnyLengths>::Runs[RLE_THREADS / WARP], all);
    const u32 warp = warp_in_block();
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 nodes = gridDim.x / args.blocks_per_node;
    const Node& lengths = args.nodes[nodes + part.node];
    const Node& values = args.nodes[nodes * 2 + part.node];
    const u32 thread = threadIdx.x % WARP;
    const u32 vector = part.part * (RLE_THREADS / WARP) + warp;
    if (vector >= vectors_of(node)) return;
    const RunSpan span(node, vector, values.rows);
    if (!find_runs(node, lengths, vector, span, all[warp]) && thread == 0) report(args.status, part.node, FAULT_RUNS);
    const RunBits::Word word = all[warp].bits.words[thread];
    RunIndex* out = reinterpret_cast<RunIndex*>(args.out) + node.at;
    out[vector * WARP + thread] = {word.bits, span.first + word.before};
}

LANEPACK_KERNEL(rle_8, RLE_THREADS, 6, DictArguments) { rle<u8>(args); }
LANEPACK_KERNEL(rle_16, RLE_THREADS, 7, DictArguments) { rle<u16>(args); }
LANEPACK_KERNEL(rle_32, RLE_THREADS, 10, DictArguments) { rle<u32>(args); }
LANEPACK_KERNEL(rle_64, RLE_THREADS, 9, DictArguments) { rle<u64>(args); }

}  // namespace lanepack
