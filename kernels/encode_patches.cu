// Integers to pfor: what is known of vectors, and bodies with exceptions (encode_patches.cuh).
//
//   bounds         a warp a vector
//   windows        a warp a vector, all values in registers: bounds, the window that is packed
//                  and how many values lie outside
//   pack_patched   eight threads a vector: values in the window, exceptions by lane
//
// All vectors have bounds; windows are searched for in those that estimates look at, and in others
// where plans chose them. One kernel for several of these is slower:
// docs/experiments.md.
#include "encode_patches.cuh"

namespace lanepack {

template <class T>
LANEPACK_DEVICE void bounds(const MeasureArguments& args) {
    constexpr u32 WARPS = MEASURE_THREADS / WARP;
    const u64 index = static_cast<u64>(blockIdx.x) * WARPS + warp_in_block();
    if (rows_of(args.source, index) == 0) return;
    const WarpVector<T> vector(args.source, index, VectorReader<T>(args.source, index));
    vector_bounds(vector, args.source.order, args.of, index);
}

LANEPACK_KERNEL(bounds_8, MEASURE_THREADS, 5, MeasureArguments) { bounds<u8>(args); }
LANEPACK_KERNEL(bounds_16, MEASURE_THREADS, 5, MeasureArguments) { bounds<u16>(args); }
LANEPACK_KERNEL(bounds_32, MEASURE_THREADS, 5, MeasureArguments) { bounds<u32>(args); }
LANEPACK_KERNEL(bounds_64, MEASURE_THREADS, 5, MeasureArguments) { bounds<u64>(args); }

template <class T>
LANEPACK_DEVICE void windows(const MeasureArguments& args) {
    LANEPACK_SHARED(u32[MEASURE_BINS], bins);
    const auto measure = [&](u64 index, WarpVector<T>& vector, const VectorReader<T>&, u32* below) {
        measure_vector(vector, args.source.order, args.of, index, below, InOrder{});
    };
    measured_vector<T>(args, encoding_bit(PFOR), &bins[0], measure);
}

LANEPACK_KERNEL(windows_8, MEASURE_THREADS, 5, MeasureArguments) { windows<u8>(args); }
LANEPACK_KERNEL(windows_16, MEASURE_THREADS, 4, MeasureArguments) { windows<u16>(args); }
LANEPACK_KERNEL(windows_32, MEASURE_THREADS, 5, MeasureArguments) { windows<u32>(args); }
LANEPACK_KERNEL(windows_64, MEASURE_THREADS, 3, MeasureArguments) { windows<u64>(args); }

template <class T>
LANEPACK_DEVICE void pack_patched(const PackArguments& args) {
    const Target& target = args.targets[blockIdx.x / args.blocks_per_target];
    const u32 in_chunk = blockIdx.x % args.blocks_per_target * (PACK_THREADS / PACK_LANES) +
                         threadIdx.x / PACK_LANES;
    const u32 vectors = (target.rows + VECTOR - 1) / VECTOR;
    if (in_chunk >= vectors) return;
    const u64 vector = target.vector + in_chunk;
    const u32 thread = threadIdx.x % PACK_LANES;
    const Source& source = args.source;
    const Packing<T> packing(args.of, vector, source.order, true);
    if (thread == 0) packing.write(target.buffer[1], vectors, in_chunk)[in_chunk] = packing.locator;
    const VectorReader<T> reader(source, vector);
    const bool is_whole = source.valid == nullptr && reader.rows == VECTOR;
    Patcher<T> patcher(packing, target.buffer[0], thread);
    if (packing.locator == 0 && patcher.packer.width == 0) return;
#pragma unroll 1
    for (u32 group = 0; group < ROWS<T> / 8; group++) {
        uint4 pieces[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) pieces[i] = reader.piece(index(group * 8 + i, thread * PIECE<T>));
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u32 row = group * 8 + i;
            u32 valid = low_bits<u32>(PIECE<T>);
            if (!is_whole) valid = valid_piece<T>(source, vector, index(row, thread * PIECE<T>));
            patcher.push(row, pieces[i], valid);
        }
    }
    write_block<T>(target.buffer[2], packing.locator, thread, patcher.failed,
                   [&](u32 row, u32 lane) { return reader.value(index(row, lane)); });
}

LANEPACK_KERNEL(pack_patched_8, PACK_THREADS, 8, PackArguments) { pack_patched<u8>(args); }
LANEPACK_KERNEL(pack_patched_16, PACK_THREADS, 8, PackArguments) { pack_patched<u16>(args); }
LANEPACK_KERNEL(pack_patched_32, PACK_THREADS, 8, PackArguments) { pack_patched<u32>(args); }
LANEPACK_KERNEL(pack_patched_64, PACK_THREADS, 8, PackArguments) { pack_patched<u64>(args); }

}  // namespace lanepack
