// Values of runs to memory: rle.
//
//   buffer 0   the number of the first run of each vector
//   buffer 1   bits where runs begin, if there are no lengths
//   buffer 2   values of the runs, as they are
//   buffer 3   u16 lengths of the runs, as they are, or none
//   size       runs
//
// A warp takes a vector: counts in a bitmap which run each slot belongs to, and writes
// neighbours, four bytes or a value a thread.
#include "arguments.cuh"
#include "lanepack/rle.cuh"
#include "launch.cuh"

namespace lanepack {

template <class T>
LANEPACK_DEVICE void rle(const DictArguments& args) {
    // Values of a thread at once.
    constexpr u32 EACH = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
    LANEPACK_SHARED(RunBits[RLE_THREADS / WARP], all);
    RunBits& runs = all[threadIdx.x / WARP];
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 vector = part.part * (RLE_THREADS / WARP) + threadIdx.x / WARP;
    if (vector >= vectors_of(node)) return;
    const RunSpan span(node, vector, static_cast<u32>(node.size));
    const u16* lengths = reinterpret_cast<const u16*>(node.buffer[3]);
    const auto length_of = [&](u32 run, bool is_live) { return is_live ? u32{__ldg(lengths + run)} : 0; };
    const bool is_sound =
        lengths == nullptr ? runs.from_bits(node.buffer[1], vector, span) : runs.from_lengths(span, length_of);
    if (!is_sound && threadIdx.x % WARP == 0) report(args.status, part.node, FAULT_RUNS);
    const T* values = reinterpret_cast<const T*>(node.buffer[2]) + span.first;
    const u32 rows = span.rows;
    T* out = reinterpret_cast<T*>(args.out) + node.at + vector * VECTOR;
    const bool is_aligned = reinterpret_cast<u64>(out) % (EACH * sizeof(T)) == 0;
#pragma unroll 4
    for (u32 slot = threadIdx.x % WARP * EACH; slot < rows; slot += WARP * EACH) {
        if constexpr (EACH == 1) {
            out[slot] = __ldg(values + runs.run_of(slot));
        } else {
            u32 word = 0;
#pragma unroll
            for (u32 i = 0; i < EACH; i++) {
                word |= static_cast<u32>(__ldg(values + runs.run_of(slot + i))) << i * ROWS<T>;
            }
            if (is_aligned && slot + EACH <= rows) {
                *reinterpret_cast<u32*>(out + slot) = word;
            } else {
                for (u32 i = 0; i < EACH && slot + i < rows; i++) out[slot + i] = static_cast<T>(word >> i * ROWS<T>);
            }
        }
    }
}

LANEPACK_KERNEL(rle_8, RLE_THREADS, 1, DictArguments) { rle<u8>(args); }
LANEPACK_KERNEL(rle_16, RLE_THREADS, 1, DictArguments) { rle<u16>(args); }
LANEPACK_KERNEL(rle_32, RLE_THREADS, 1, DictArguments) { rle<u32>(args); }
LANEPACK_KERNEL(rle_64, RLE_THREADS, 1, DictArguments) { rle<u64>(args); }

}  // namespace lanepack
