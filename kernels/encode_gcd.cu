// Multiples of a common divisor: which divisor, and the quotients; the same as
// src/encoding/gcd.rs.
//
//   divisor     a block a chunk: what the differences of the sampled vectors' values have in common
//   (host)      asks for chunks where quotients may take less than what else there is
//   quotients   a warp a vector: the quotient of every value, and whether one is no multiple
//
// Quotients are words as others from there on: measured, planned and packed. Most chunks have no
// divisor, which the first 32 values tell: of them nothing else is read but which rows of the
// sampled vectors are valid, and a value that these are compared with.
#include "encode_rows.cuh"

namespace lanepack {

// quotients_*: a warp takes a vector.
constexpr u32 QUOTIENTS_THREADS = 256;

// divisor_* (a block a chunk), quotients_* (a warp a vector).
struct DivisorArguments {
    Source source;
    // For each chunk: what divisor_* finds; what quotients_* divides by, 0 for chunks that are
    // not asked for.
    u64* divisors;
    // What chunks come to, for their least value.
    const ChunkTotals* totals;
    // For each row of the column.
    u8* quotients;
    // For each chunk; zero at first, 1 if a value is no multiple.
    u32* misfits;
};

// Divides exactly, by a multiplication: `Divisor` of src/encoding/gcd.rs.
struct ExactDivisor {
    u64 inverse;
    u64 most;
    u32 zeros;

    // `divisor` is not 0.
    LANEPACK_DEVICE explicit ExactDivisor(u64 divisor) {
        zeros = static_cast<u32>(__ffsll(static_cast<i64>(divisor))) - 1;
        const u64 odd = divisor >> zeros;
        inverse = odd;
#pragma unroll
        for (u32 i = 0; i < 5; i++) inverse *= 2 - odd * inverse;
        most = ~u64{0} / divisor;
    }

    LANEPACK_DEVICE u64 quotient(u64 number) const {
        const u64 rotated = number * inverse;
        return zeros == 0 ? rotated : rotated >> zeros | rotated << (64 - zeros);
    }
};

// The greatest common divisor; of 0 and another number the other.
LANEPACK_DEVICE u64 common_divisor(u64 one, u64 other) {
    if (one == 0 || one == other) return other;
    if (other == 0) return one;
    const u32 zeros = static_cast<u32>(__ffsll(static_cast<i64>(one | other))) - 1;
    one >>= __ffsll(static_cast<i64>(one)) - 1;
#pragma unroll 1
    while (other != 0) {
        other >>= __ffsll(static_cast<i64>(other)) - 1;
        const u64 less = min(one, other);
        other = max(one, other) - less;
        one = less;
    }
    return one << zeros;
}

LANEPACK_DEVICE u64 warp_divisor(u64 divisor) {
#pragma unroll 1
    for (u32 step = WARP / 2; step > 0; step /= 2) {
        divisor = common_divisor(divisor, __shfl_xor_sync(FULL, divisor, step));
    }
    return divisor;
}

// Of a block; `shared` has a word for each warp. Every thread gets it.
LANEPACK_DEVICE u64 block_divisor(u64 divisor, u64* shared) {
    constexpr u32 WARPS = SAMPLE_THREADS / WARP;
    divisor = warp_divisor(divisor);
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = divisor;
    __syncthreads();
    const u32 lane = threadIdx.x % WARP;
    divisor = warp_divisor(lane < WARPS ? shared[lane] : 0);
    __syncthreads();
    return divisor;
}

template <class T>
LANEPACK_DEVICE void find_divisor(const DivisorArguments& args) {
    constexpr u32 WARPS = SAMPLE_THREADS / WARP;
    LANEPACK_SHARED(u64[WARPS], shared);
    LANEPACK_SHARED(u64[1], reference);
    LANEPACK_SHARED(u32[1], found);
    const Source& source = args.source;
    const u32 lane = threadIdx.x % WARP;
    const u32 warp = warp_in_block();
    const u64 first = static_cast<u64>(blockIdx.x) * source.chunk_vectors;
    const u32 vectors = (rows_of_chunk(source, blockIdx.x) + VECTOR - 1) / VECTOR;
    const u32 taken = min(vectors, SAMPLED_VECTORS);
    const bool is_one = warp < taken;
    const u64 vector = first + (is_one ? warp * vectors / taken : 0);
    const VectorReader<T> reader(source, vector);
    // Lane i has the rows 32 * i and on.
    const u32 word = is_one ? valid_rows(source, vector * VECTOR + lane * WARP) : 0;
    const auto value = [&](u32 slot) { return static_cast<u64>(ordered(reader.value(slot), source.order)); };
    // All differ from a valid value, whichever that is.
    if (threadIdx.x == 0) *found = 0;
    __syncthreads();
    const u32 lanes = __ballot_sync(FULL, word != 0);
    const u32 own = static_cast<u32>(__ffs(static_cast<i32>(word))) - 1;
    if (lanes != 0 && lane == static_cast<u32>(__ffs(static_cast<i32>(lanes))) - 1) {
        if (atomicExch(found, 1u) == 0) *reference = value(lane * WARP + own);
    }
    __syncthreads();
    const u64 middle = *found != 0 ? *reference : 0;
    const auto difference = [&](u32 slot) {
        const u64 other = value(slot);
        return other > middle ? other - middle : middle - other;
    };
    // The first rows of one vector.
    const u32 head = __shfl_sync(FULL, word, 0);
    u64 divisor = warp == 0 && (head >> lane & 1) != 0 ? difference(lane) : 0;
    divisor = block_divisor(divisor, shared);
    if (divisor != 1) {
        const u64 known = divisor;
        const ExactDivisor exact(known == 0 ? 1 : known);
#pragma unroll 4
        for (u32 i = 0; i < VECTOR / WARP; i++) {
            const u32 valid = __shfl_sync(FULL, word, i);
            if ((valid >> lane & 1) == 0) continue;
            const u64 other = difference(i * WARP + lane);
            // Of what all are known to have in common.
            if (known != 0 && exact.quotient(other) <= exact.most) continue;
            if (divisor != 1) divisor = common_divisor(divisor, other);
        }
        divisor = block_divisor(divisor, shared);
    }
    if (threadIdx.x == 0) args.divisors[blockIdx.x] = divisor;
}

LANEPACK_KERNEL(divisor_32, SAMPLE_THREADS, 2, DivisorArguments) { find_divisor<u32>(args); }
LANEPACK_KERNEL(divisor_64, SAMPLE_THREADS, 2, DivisorArguments) { find_divisor<u64>(args); }

template <class T>
LANEPACK_DEVICE void quotients(const DivisorArguments& args) {
    const Source& source = args.source;
    const u64 vector = static_cast<u64>(blockIdx.x) * (QUOTIENTS_THREADS / WARP) + warp_in_block();
    const u32 rows = vector * VECTOR < source.rows ? rows_of(source, vector) : 0;
    if (rows == 0) return;
    const u32 chunk = static_cast<u32>(vector / source.chunk_vectors);
    const u64 number = args.divisors[chunk];
    if (number == 0) return;
    const ExactDivisor exact(number);
    const T offset = unordered(static_cast<T>(args.totals[chunk].low), source.order);
    const u32 lane = threadIdx.x % WARP;
    const u32 word = valid_rows(source, vector * VECTOR + lane * WARP);
    const VectorReader<T> reader(source, vector);
    T* out = reinterpret_cast<T*>(args.quotients) + vector * VECTOR;
    u64 greatest = 0;
#pragma unroll 8
    for (u32 i = 0; i < VECTOR / WARP; i++) {
        const u32 valid = __shfl_sync(FULL, word, i);
        const u32 slot = i * WARP + lane;
        T value = offset;
        if ((valid >> lane & 1) != 0) value = reader.value(slot);
        const u64 quotient = exact.quotient(static_cast<T>(value - offset));
        greatest = max(greatest, quotient);
        if (slot < rows) out[slot] = static_cast<T>(quotient);
    }
    if (greatest > exact.most) args.misfits[chunk] = 1;
}

LANEPACK_KERNEL(quotients_32, QUOTIENTS_THREADS, 4, DivisorArguments) { quotients<u32>(args); }
LANEPACK_KERNEL(quotients_64, QUOTIENTS_THREADS, 4, DivisorArguments) { quotients<u64>(args); }

}  // namespace lanepack
