// Integers to delta: what is known of the differences of neighbours, and bodies of these; the
// same choices as src/encoding/delta.rs, bit for bit.
//
//   deltas         a warp a vector, all values in registers: as windows of encode_patches.cu
//   pack_deltas    a warp makes a vector's deltas again, in registers, and leaves them in shared
//                  memory in the order of lanes; eight of its threads pack them
//
// Deltas are never written to memory: one read measures them, one read writes them. They are
// searched for in vectors that estimates look at, and in others where plans chose them. On an
// NVIDIA H200, 1.05 GB of 64 bits: deltas of samples 70 us.
#include "encode_patches.cuh"
#include "lanepack/delta.cuh"

namespace lanepack {

// pack_deltas_*: a warp makes and packs the deltas of a vector.
constexpr u32 DELTA_PACK_THREADS = 128;

// Deltas, which stand in the order of lanes: of every fourth lane all are picked.
struct ByLanes {
    template <class T, class Visit>
    LANEPACK_DEVICE static void pick(const WarpVector<T>& vector, const Visit& visit) {
#pragma unroll
        for (u32 i = 0; i < THREAD_PIECES<T>; i++) {
            // A thread's piece lies in one lane, or half of it in the next one.
#pragma unroll
            for (u32 k = 0; k < PIECE<T>; k++) {
                if (is_in_histogram(slot_of<T>(i, k) / ROWS<T>)) visit(vector.value(i, k), i * PIECE<T> + k);
            }
        }
    }
};

// Which slots of a vector are valid: lane i has slots 32 * i and on.
struct SlotMask {
    u32 word;
    // The last valid slot before this lane's, -1 if there is none.
    i32 before;

    LANEPACK_DEVICE SlotMask(const Source& source, u64 vector) {
        const u32 lane = threadIdx.x % WARP;
        word = valid_rows(source, vector * VECTOR + lane * 32);
        // Slots count from 1 on here, so that 0 is none.
        u32 last = word == 0 ? 0 : lane * 32 + 32 - static_cast<u32>(__clz(static_cast<i32>(word)));
#pragma unroll
        for (u32 step = 1; step < WARP; step *= 2) {
            const u32 other = __shfl_up_sync(FULL, last, step);
            if (lane >= step) last = max(last, other);
        }
        const u32 behind = __shfl_up_sync(FULL, last, 1);
        before = lane == 0 ? -1 : static_cast<i32>(behind) - 1;
    }

    // The first slot of a mask from `first` on, VECTOR if there is none; all threads together.
    LANEPACK_DEVICE static u32 first_from(u32 mask, u32 first) {
        const u32 lane = threadIdx.x % WARP;
        if (lane < first / 32) mask = 0;
        if (lane == first / 32) mask &= FULL << first % 32;
        const u32 lanes = __ballot_sync(FULL, mask != 0);
        if (lanes == 0) return VECTOR;
        const u32 found = static_cast<u32>(__ffs(static_cast<i32>(lanes))) - 1;
        return found * 32 + static_cast<u32>(__ffs(static_cast<i32>(__shfl_sync(FULL, mask, found)))) - 1;
    }
};

// A delta like the others of a vector, as `typical` of delta.rs.
template <class T>
LANEPACK_DEVICE T typical(const VectorReader<T>& reader, const SlotMask& valid) {
    const u32 lane = threadIdx.x % WARP;
    const u32 top = __shfl_up_sync(FULL, valid.word, 1) >> 31;
    const u32 pairs = valid.word & (valid.word << 1 | (lane == 0 ? 0 : top));
    T found[3] = {0, 0, 0};
    u32 count = 0;
#pragma unroll
    for (u32 quarter = 1; quarter <= 3; quarter++) {
        const u32 slot = SlotMask::first_from(pairs, max(reader.rows * quarter / 4, 1u));
        if (slot >= VECTOR) continue;
        const T delta = ordered(static_cast<T>(reader.value(slot) - reader.value(slot - 1)), SIGNED);
        // Inserted where it belongs; the greatest stays last.
        T more = delta;
#pragma unroll
        for (u32 i = 0; i < 3; i++) {
            if (i > count) continue;
            const bool is_less = i == count || more < found[i];
            const T other = found[i];
            if (is_less) {
                found[i] = more;
                more = other;
            }
        }
        count++;
    }
    if (count == 0) return 0;
    return unordered(count == 1 ? found[0] : found[1], SIGNED);
}

// So many times a delta.
template <class T>
LANEPACK_DEVICE T times(T delta, u32 count) {
    return static_cast<T>(static_cast<u64>(delta) * count);
}

// A value of the thread before, or of the last one.
template <class T>
LANEPACK_DEVICE T of_thread_before(T value) {
    if constexpr (sizeof(T) == 8) return __shfl_up_sync(FULL, value, 1);
    else return static_cast<T>(__shfl_up_sync(FULL, static_cast<u32>(value), 1));
}
template <class T>
LANEPACK_DEVICE T of_last_thread(T value) {
    if constexpr (sizeof(T) == 8) return __shfl_sync(FULL, value, WARP - 1);
    else return static_cast<T>(__shfl_sync(FULL, static_cast<u32>(value), WARP - 1));
}

// Turns a vector into its deltas, as `vector_deltas` of delta.rs, but for their order; all
// are valid then. Returns what they start from.
template <class T>
LANEPACK_DEVICE T to_deltas(WarpVector<T>& vector, const Source& source, u64 index,
                            const VectorReader<T>& reader) {
    const u32 lane = threadIdx.x % WARP;
    const SlotMask valid(source, index);
    const T like_others = typical(reader, valid);
    const bool is_whole = source.valid == nullptr && reader.rows == VECTOR;
    const u32 first = SlotMask::first_from(valid.word, 0);
    const T first_value = first < VECTOR ? reader.value(first) : T{0};
    const T start = static_cast<T>(first_value - times(like_others, first % VECTOR + 1));
#pragma unroll
    for (u32 step = 0; step < THREAD_PIECES<T>; step++) {
        // From the last one on: each needs the one before as it was.
        const u32 i = THREAD_PIECES<T> - 1 - step;
        const u32 last = PIECE<T> - 1;
        T before = of_thread_before(vector.value(i, last));
        const T wrapped = of_last_thread(vector.value(i == 0 ? 0 : i - 1, last));
        if (lane == 0) before = wrapped;
        T deltas[PIECE<T>];
#pragma unroll
        for (u32 k = 0; k < PIECE<T>; k++) {
            const T value = vector.value(i, k);
            deltas[k] = static_cast<T>(value - (k == 0 ? before : vector.value(i, k == 0 ? 0 : k - 1)));
            if (slot_of<T>(i, k) == 0) deltas[k] = like_others;
        }
        if (!is_whole) {
            const u32 from = slot_of<T>(i, 0) / 32;
            const u32 word = __shfl_sync(FULL, valid.word, from);
            const i32 before_word = __shfl_sync(FULL, valid.before, from);
#pragma unroll
            for (u32 k = 0; k < PIECE<T>; k++) {
                const u32 slot = slot_of<T>(i, k);
                const u32 bits = word & low_bits<u32>(slot % 32);
                const i32 found = bits == 0 ? before_word
                                            : static_cast<i32>(from * 32 + 31) - __clz(static_cast<i32>(bits));
                if ((word >> slot % 32 & 1) == 0 || found < 0) {
                    deltas[k] = like_others;
                } else if (found + 1 < static_cast<i32>(slot)) {
                    const u32 gap = slot - 1 - static_cast<u32>(found);
                    const T filled = reader.value(static_cast<u32>(found));
                    deltas[k] = static_cast<T>(vector.value(i, k) - filled - times(like_others, gap));
                }
            }
        }
        vector.pieces[i] = piece_of<T>(deltas);
    }
    vector.valid = FULL;
    return start;
}

template <class T>
LANEPACK_DEVICE void deltas(const MeasureArguments& args) {
    LANEPACK_SHARED(u32[MEASURE_BINS], bins);
    const auto measure = [&](u64 index, WarpVector<T>& vector, const VectorReader<T>& reader, u32* below) {
        const T start = to_deltas(vector, args.source, index, reader);
        if (threadIdx.x % WARP == 0) reinterpret_cast<T*>(args.of.starts)[index] = start;
        measure_vector(vector, SIGNED, args.of, index, below, ByLanes{});
    };
    measured_vector<T>(args, encoding_bit(DELTA), &bins[0], measure);
}

LANEPACK_KERNEL(deltas_8, MEASURE_THREADS, 3, MeasureArguments) { deltas<u8>(args); }
LANEPACK_KERNEL(deltas_16, MEASURE_THREADS, 3, MeasureArguments) { deltas<u16>(args); }
LANEPACK_KERNEL(deltas_32, MEASURE_THREADS, 4, MeasureArguments) { deltas<u32>(args); }
LANEPACK_KERNEL(deltas_64, MEASURE_THREADS, 3, MeasureArguments) { deltas<u64>(args); }

// Lines of 128 bytes in shared memory, 16 bytes apart so that those of one lane lie in
// different banks.
constexpr u32 STAGED_LINE = 128;
constexpr u32 STAGED_STRIDE = STAGED_LINE + 16;

// Where the value at a position of a vector stands.
template <class T>
LANEPACK_DEVICE u32 staged_at(u32 position) {
    const u32 byte = position * static_cast<u32>(sizeof(T));
    return byte / STAGED_LINE * STAGED_STRIDE + byte % STAGED_LINE;
}

template <class T>
LANEPACK_DEVICE void pack_deltas(const PackArguments& args) {
    constexpr u32 WARPS = DELTA_PACK_THREADS / WARP;
    constexpr u32 STAGED = static_cast<u32>(VECTOR * sizeof(T)) / STAGED_LINE * STAGED_STRIDE;
    LANEPACK_SHARED(uint4[WARPS * STAGED / 16], memory);
    const u32 warp = warp_in_block();
    const u32 lane = threadIdx.x % WARP;
    const Target& target = args.targets[blockIdx.x / args.blocks_per_target];
    const u32 in_chunk = blockIdx.x % args.blocks_per_target * WARPS + warp;
    const u32 vectors = (target.rows + VECTOR - 1) / VECTOR;
    if (in_chunk >= vectors) return;
    const u64 at = target.vector + in_chunk;
    const Packing<T> packing(args.of, at, SIGNED, args.is_patched != 0);
    if (lane == 0) {
        u32* locators = packing.write(target.buffer[1], vectors, in_chunk);
        if (args.is_patched != 0) locators[in_chunk] = packing.locator;
    }
    if (packing.locator == 0 && packing.place >> 24 == 0) return;
    const VectorReader<T> reader(args.source, at);
    WarpVector<T> vector(args.source, at, reader);
    to_deltas(vector, args.source, at, reader);
    u8* staged = reinterpret_cast<u8*>(memory) + warp * STAGED;
    vector.each([&](T delta, u32, u32 slot) {
        const u32 position = index(slot % ROWS<T>, slot / ROWS<T>);
        *reinterpret_cast<T*>(staged + staged_at<T>(position)) = delta;
    });
    __syncwarp();
    if (lane >= PACK_LANES) return;
    Patcher<T> patcher(packing, target.buffer[0], lane);
#pragma unroll 4
    for (u32 row = 0; row < ROWS<T>; row++) {
        const u32 position = index(row, lane * PIECE<T>);
        const uint4 piece = *reinterpret_cast<const uint4*>(staged + staged_at<T>(position));
        patcher.push(row, piece, low_bits<u32>(PIECE<T>));
    }
    write_block<T>(target.buffer[2], packing.locator, lane, patcher.failed, [&](u32 row, u32 of_lane) {
        return *reinterpret_cast<const T*>(staged + staged_at<T>(index(row, of_lane)));
    });
}

LANEPACK_KERNEL(pack_deltas_8, DELTA_PACK_THREADS, 1, PackArguments) { pack_deltas<u8>(args); }
LANEPACK_KERNEL(pack_deltas_16, DELTA_PACK_THREADS, 1, PackArguments) { pack_deltas<u16>(args); }
LANEPACK_KERNEL(pack_deltas_32, DELTA_PACK_THREADS, 1, PackArguments) { pack_deltas<u32>(args); }
LANEPACK_KERNEL(pack_deltas_64, DELTA_PACK_THREADS, 1, PackArguments) { pack_deltas<u64>(args); }

}  // namespace lanepack
