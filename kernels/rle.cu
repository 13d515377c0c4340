// Values of runs to memory: rle.
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
    if (!runs.load(node, vector) && threadIdx.x % WARP == 0) report(args.status, part.node, FAULT_RUNS);
    const T* values = reinterpret_cast<const T*>(node.buffer[1]);
    const u32 rows = min(node.rows - vector * VECTOR, VECTOR);
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
