// Floats to alp: exponents, then packed words and exceptions; the same choices as
// src/encoding/alp/{search,encode,trim}.rs, bit for bit.
//
//   alp_candidates   a block a chunk: at most 5 pairs of exponents, from 8 vectors x 32 values
//   alp_choose       a warp a vector, its values in shared memory: the pair, base and width,
//                    and which outliers become exceptions
//   alp_layout       a block a chunk: places, locators, totals
//   alp_pack         eight threads a vector: encode again, pack, list exceptions by lane
//
// On an NVIDIA H200, doubles of 8 bits: alp_choose 543 us a GB (657 with bounds of every
// value rather than from sums, and a look at every piece of a vector; then 3,012
// instructions a vector, issue slots busy 54 %, 36 % of the stalls waiting for shared
// memory, 24 warps a multiprocessor); alp_pack 370 us, 2.7 TB/s read. Reductions of 64 bits
// by shuffles rather than two of 32 bits: 4 % more in alp_choose.
//
// All costs are integers and reductions over them do not depend on order; products
// and sums of floats are rounded one by one, as on the CPU.
#include "encode.cuh"
#include "launch.cuh"
#include "lanepack/alp.cuh"

namespace lanepack {

template <class T>
struct AlpEncoder;

// Turns floats, given as bits, into bits of a sum whose low ones are an integer.
template <>
struct AlpEncoder<u64> {
    static constexpr u32 MAX_EXPONENT = 18;
    static constexpr u32 EXPONENT_BITS = 5;
    static constexpr u32 EXCEPTION_BITS = 80;
    static constexpr u64 NOT_A_NUMBER = 0x7ff8000000000000;
    // Bits of 2^52 + 2^51: adding it rounds.
    static constexpr u64 ROUND = 0x4338000000000000;
    double power_e, inverse_f, power_f, inverse_e;

    LANEPACK_DEVICE AlpEncoder(u32 e, u32 f) {
        power_e = POWERS_F64[0][e];
        inverse_f = POWERS_F64[1][f];
        power_f = POWERS_F64[0][f];
        inverse_e = POWERS_F64[1][e];
    }

    LANEPACK_DEVICE u64 encode(u64 bits, bool& ok) const {
        constexpr double round = 6755399441055744.0;
        const double value = __longlong_as_double(static_cast<i64>(bits));
        const double sum = __dadd_rn(__dmul_rn(__dmul_rn(value, power_e), inverse_f), round);
        const double decoded = __dmul_rn(__dmul_rn(__dsub_rn(sum, round), power_f), inverse_e);
        ok = sum > 4503599627370496.0 && sum < 9007199254740992.0 &&
             static_cast<u64>(__double_as_longlong(decoded)) == bits;
        return static_cast<u64>(__double_as_longlong(sum));
    }

    // The value that a sum stands for.
    LANEPACK_DEVICE u64 decode(u64 sum) const {
        constexpr double round = 6755399441055744.0;
        const double integer = __dsub_rn(__longlong_as_double(static_cast<i64>(sum)), round);
        return static_cast<u64>(__double_as_longlong(__dmul_rn(__dmul_rn(integer, power_f), inverse_e)));
    }
};

template <>
struct AlpEncoder<u32> {
    static constexpr u32 MAX_EXPONENT = 10;
    static constexpr u32 EXPONENT_BITS = 4;
    static constexpr u32 EXCEPTION_BITS = 48;
    static constexpr u32 NOT_A_NUMBER = 0x7fc00000;
    // Bits of 2^23 + 2^22.
    static constexpr u32 ROUND = 0x4b400000;
    float power_e, inverse_f;
    AlpFactors factors;

    LANEPACK_DEVICE AlpEncoder(u32 e, u32 f) : factors(e, f) {
        power_e = POWERS_F32[0][e];
        inverse_f = POWERS_F32[1][f == ALP_DIVIDED ? 0 : f];
    }

    LANEPACK_DEVICE u32 encode(u32 bits, bool& ok) const {
        constexpr float round = 12582912.0f;
        const float value = __uint_as_float(bits);
        const float sum = __fadd_rn(__fmul_rn(__fmul_rn(value, power_e), inverse_f), round);
        const float decoded = factors.of(__fsub_rn(sum, round));
        ok = sum > 8388608.0f && sum < 16777216.0f && __float_as_uint(decoded) == bits;
        return __float_as_uint(sum);
    }

    // The value that a sum stands for.
    LANEPACK_DEVICE u32 decode(u32 sum) const {
        constexpr float round = 12582912.0f;
        return __float_as_uint(factors.of(__fsub_rn(__uint_as_float(sum), round)));
    }
};

// Pairs of exponents, the largest first, of products; behind them those that divide.
template <class T>
constexpr u32 PRODUCTS = (AlpEncoder<T>::MAX_EXPONENT + 1) * (AlpEncoder<T>::MAX_EXPONENT + 2) / 2;
template <class T>
constexpr u32 PAIRS = PRODUCTS<T> + (sizeof(T) == 4 ? AlpEncoder<T>::MAX_EXPONENT : 0);

// A pair as one number.
constexpr u32 PAIR_BITS = 5;
LANEPACK_DEVICE u32 pair_of(u32 e, u32 f) { return e << PAIR_BITS | f; }

template <class T>
LANEPACK_DEVICE u32 pair_at(u32 number) {
    if (number >= PRODUCTS<T>) return pair_of(number - PRODUCTS<T> + 1, ALP_DIVIDED);
    u32 e = AlpEncoder<T>::MAX_EXPONENT;
    while (number > e) {
        number -= e + 1;
        e--;
    }
    return pair_of(e, e - number);
}

template <class T>
LANEPACK_DEVICE AlpEncoder<T> encoder_of(u32 pair) {
    return AlpEncoder<T>(pair >> PAIR_BITS, pair & ((1 << PAIR_BITS) - 1));
}

// The pair that encodes nothing: a vector that is not decimal.
template <class T>
constexpr u32 HOPELESS = AlpEncoder<T>::MAX_EXPONENT << PAIR_BITS;

// What values come to under a pair: bits of the least and greatest sum, and how many.
template <class T>
struct Measure {
    T low = static_cast<T>(~T{0});
    T high = 0;
    u32 count = 0;

    LANEPACK_DEVICE void add(T sum, bool ok) {
        if (!ok) return;
        low = sum < low ? sum : low;
        high = sum > high ? sum : high;
        count++;
    }
    LANEPACK_DEVICE void reduce() {
        low = warp_min(low);
        high = warp_max(high);
        count = __reduce_add_sync(FULL, count);
    }
    LANEPACK_DEVICE u32 width() const { return count == 0 ? 0 : bits_of(high - low); }
    // Bits of `packed` slots and of `values` less those that are encoded.
    LANEPACK_DEVICE u32 bits(u32 packed, u32 values) const {
        return width() * packed + (values - count) * AlpEncoder<T>::EXCEPTION_BITS;
    }
};

// A warp's view of which of a vector's slots are valid: lane i has slots 32 * i and on.
struct ValidSlots {
    u32 word;
    u32 before;
    u32 count;

    LANEPACK_DEVICE ValidSlots(const Source& source, u64 vector) {
        word = valid_rows(source, vector * VECTOR + threadIdx.x % WARP * 32);
        before = warp_sum_before(static_cast<u32>(__popc(word)));
        count = __reduce_add_sync(FULL, static_cast<u32>(__popc(word)));
    }

    // The position of valid slot number `number`, below `count`; all threads together.
    LANEPACK_DEVICE u32 position(u32 number) const {
        u32 lane = 0;
#pragma unroll
        for (u32 step = WARP / 2; step > 0; step /= 2) {
            const u32 other = __shfl_sync(FULL, before, lane + step);
            if (other <= number) lane += step;
        }
        const u32 skipped = number - __shfl_sync(FULL, before, lane);
        u32 bits = __shfl_sync(FULL, word, lane);
        for (u32 i = 0; i < skipped; i++) bits &= bits - 1;
        return (lane * 32 + static_cast<u32>(__ffs(static_cast<i32>(bits))) - 1) % VECTOR;
    }
};

// Value `i` of a sample of `length` of a vector's valid values: its position, or
// VECTOR where there are no more.
LANEPACK_DEVICE u32 drawn(const ValidSlots& slots, u32 length, u32 i) {
    if (slots.count == VECTOR) {
        const u32 stride = VECTOR / length;
        return i * stride + i * 7 % stride;
    }
    const u32 taken = slots.count < length ? slots.count : length;
    const u32 position = slots.position(i < taken ? i * slots.count / taken : 0);
    return i < taken ? position : VECTOR;
}

// Vectors of a chunk that candidates come from, values of each, of one alone.
constexpr u32 SEARCHED = 8;
constexpr u32 DRAWN = 32;
constexpr u32 MAX_DRAWN = SEARCHED * DRAWN;
// Lengths are rounded up to multiples of 16.
constexpr u32 MAX_SAMPLES = 352;
// Pairs that are measured on all values of a lone vector.
constexpr u32 FINALISTS = 16;

// The least of the block's numbers; `ends` is shared.
LANEPACK_DEVICE u64 block_min(u64 number, u64* ends) {
    number = warp_min(number);
    __syncthreads();
    if (threadIdx.x % WARP == 0) ends[threadIdx.x / WARP] = number;
    __syncthreads();
    for (u32 i = 0; i < CANDIDATES_THREADS / WARP; i++) number = min(number, ends[i]);
    return number;
}

template <class T>
LANEPACK_DEVICE void alp_candidates(const AlpArguments& args) {
    static_assert(CANDIDATES_THREADS / WARP == SEARCHED && CANDIDATES_THREADS >= PAIRS<T>, "a warp each");
    LANEPACK_SHARED(T[MAX_SAMPLES], samples);
    LANEPACK_SHARED(u32[SEARCHED], counts);
    LANEPACK_SHARED(u64[SEARCHED], ends);
    LANEPACK_SHARED(u32[FINALISTS], finalists);
    const Source& source = args.source;
    const u64 first = static_cast<u64>(blockIdx.x) * source.chunk_vectors;
    const u32 vectors = (rows_of_chunk(source, blockIdx.x) + VECTOR - 1) / VECTOR;
    if (vectors == 0) return;
    const u32 taken = vectors < SEARCHED ? vectors : SEARCHED;
    const u32 length = (MAX_DRAWN / taken + 15) / 16 * 16;
    const u32 warp = warp_in_block();
    const u32 lane = threadIdx.x % WARP;
    if (warp < taken) {
        const u64 vector = first + (2 * warp + 1) * vectors / (2 * taken);
        const ValidSlots slots(source, vector);
        const VectorReader<T> reader(source, vector);
        for (u32 i = lane; i - lane < length; i += WARP) {
            const u32 position = drawn(slots, length, i);
            if (i >= length) continue;
            samples[warp * length + i] =
                position < VECTOR ? reader.value(position) : AlpEncoder<T>::NOT_A_NUMBER;
        }
        if (lane == 0) counts[warp] = slots.count < length ? slots.count : length;
    }
    __syncthreads();
    // Costs of this thread's pair for each vector.
    const u32 number = threadIdx.x;
    const u32 pair = pair_at<T>(number < PAIRS<T> ? number : 0);
    u32 costs[SEARCHED];
    {
        const AlpEncoder<T> encoder = encoder_of<T>(pair);
#pragma unroll
        for (u32 v = 0; v < SEARCHED; v++) {
            costs[v] = 0;
            if (v >= taken || number >= PAIRS<T>) continue;
            Measure<T> measure;
            for (u32 i = 0; i < length; i++) {
                bool ok;
                const T sum = encoder.encode(samples[v * length + i], ok);
                measure.add(sum, ok);
            }
            costs[v] = measure.bits(counts[v], counts[v]);
        }
    }
    u32 raw = 0;
    for (u32 v = 0; v < taken; v++) raw += counts[v] * ROWS<T>;
    u32 chosen[MAX_CANDIDATES];
    u32 count = 0;
#pragma unroll
    for (u32 i = 0; i < MAX_CANDIDATES; i++) chosen[i] = 0;
    if (vectors == 1) {
        // The sixteen best of the sample, measured on the whole vector.
        u64 key = number < PAIRS<T> ? static_cast<u64>(costs[0]) << 8 | number : ~u64{0};
        u64 least = 0;
        for (u32 i = 0; i < FINALISTS; i++) {
            const u64 best = block_min(key, ends);
            if (i == 0) least = best;
            if (best == key) key = ~u64{0};
            if (threadIdx.x == 0) finalists[i] = static_cast<u32>(best & 255);
        }
        __syncthreads();
        const ValidSlots slots(source, first);
        const VectorReader<T> reader(source, first);
        u64 best = ~u64{0};
        for (u32 i = warp; i < FINALISTS; i += CANDIDATES_THREADS / WARP) {
            const AlpEncoder<T> encoder = encoder_of<T>(pair_at<T>(finalists[i]));
            Measure<T> measure;
            for (u32 k = 0; k < VECTOR / WARP; k++) {
                const u32 word = __shfl_sync(FULL, slots.word, k);
                if ((word >> lane & 1) == 0) continue;
                bool ok;
                const T sum = encoder.encode(reader.value(k * WARP + lane), ok);
                measure.add(sum, ok);
            }
            measure.reduce();
            best = min(best, static_cast<u64>(measure.bits(VECTOR, slots.count)) << 8 | i);
        }
        best = block_min(best, ends);
        chosen[0] = pair_at<T>(finalists[best & 255]);
        count = 1;
        if (raw > 0 && (least >> 8) >= raw) {
            chosen[1] = HOPELESS<T>;
            count = 2;
        }
    } else {
        // The pair that lowers the sum most, until none does.
        u64 paid[SEARCHED];
        u64 all = 0;
#pragma unroll
        for (u32 v = 0; v < SEARCHED; v++) {
            paid[v] = v < taken ? u64{1} << 40 : 0;
            all += paid[v];
        }
#pragma unroll
        for (u32 i = 0; i < MAX_CANDIDATES; i++) {
            u64 total = 0;
#pragma unroll
            for (u32 v = 0; v < SEARCHED; v++) total += min(static_cast<u64>(costs[v]), paid[v]);
            const u64 key = number < PAIRS<T> ? total << 8 | number : ~u64{0};
            const u64 best = block_min(key, ends);
            if (best >> 8 >= all) break;
            all = best >> 8;
            chosen[i] = pair_at<T>(static_cast<u32>(best & 255));
            count = i + 1;
            // Its costs are with its thread.
            __syncthreads();
            if (best == key) {
#pragma unroll
                for (u32 v = 0; v < SEARCHED; v++) counts[v] = costs[v];
            }
            __syncthreads();
#pragma unroll
            for (u32 v = 0; v < SEARCHED; v++) paid[v] = min(paid[v], static_cast<u64>(counts[v]));
        }
        if (raw > 0 && all >= raw) {
            if (count == MAX_CANDIDATES) count--;
#pragma unroll
            for (u32 i = 0; i < MAX_CANDIDATES; i++) {
                if (i == count) chosen[i] = HOPELESS<T>;
            }
            count++;
        }
    }
    if (threadIdx.x == 0) {
        Candidates candidates{};
        candidates.count = count;
#pragma unroll
        for (u32 i = 0; i < MAX_CANDIDATES; i++) {
            candidates.e[i] = static_cast<u8>(chosen[i] >> PAIR_BITS);
            candidates.f[i] = static_cast<u8>(chosen[i] & ((1 << PAIR_BITS) - 1));
        }
        args.candidates[blockIdx.x] = candidates;
    }
}

LANEPACK_KERNEL(alp_candidates_32, CANDIDATES_THREADS, 1, AlpArguments) { alp_candidates<u32>(args); }
LANEPACK_KERNEL(alp_candidates_64, CANDIDATES_THREADS, 1, AlpArguments) { alp_candidates<u64>(args); }

// Stands for an exception among sums.
template <class T>
constexpr T FAILED = static_cast<T>(~T{0});

// A vector whose values a warp has in shared memory, with NaN where not valid; later
// the sums that stand for them.
template <class T>
struct SharedVector {
    T* values;
    u32 lane;

    LANEPACK_DEVICE Measure<T> measure(u32 pair) const {
        const AlpEncoder<T> encoder = encoder_of<T>(pair);
        Measure<T> all;
#pragma unroll 4
        for (u32 i = 0; i < VECTOR / WARP; i++) {
            bool ok;
            const T sum = encoder.encode(values[i * WARP + lane], ok);
            all.add(sum, ok);
        }
        all.reduce();
        return all;
    }

    // As `measure`, and puts sums in the place of values.
    LANEPACK_DEVICE Measure<T> encode(u32 pair) const {
        const AlpEncoder<T> encoder = encoder_of<T>(pair);
        Measure<T> all;
#pragma unroll 4
        for (u32 i = 0; i < VECTOR / WARP; i++) {
            bool ok;
            const T sum = encoder.encode(values[i * WARP + lane], ok);
            all.add(sum, ok);
            values[i * WARP + lane] = ok ? sum : FAILED<T>;
        }
        all.reduce();
        return all;
    }
};

// The cost of a pair for the warp's sample, `count` values of which count.
template <class T>
LANEPACK_DEVICE u32 sample_cost(T value, u32 count, u32 pair) {
    bool ok;
    const T sum = encoder_of<T>(pair).encode(value, ok);
    Measure<T> measure;
    measure.add(sum, ok);
    measure.reduce();
    return measure.bits(count, count);
}

// Level two of the search: the pair for a vector.
template <class T>
LANEPACK_DEVICE u32 choose_pair(const SharedVector<T>& vector, const ValidSlots& slots,
                                const Candidates& candidates) {
    const u32 position = drawn(slots, DRAWN, vector.lane);
    const T value = position < VECTOR ? vector.values[position] : AlpEncoder<T>::NOT_A_NUMBER;
    const u32 count = slots.count < DRAWN ? slots.count : DRAWN;
    // Exceptions that a sample may be wrong by.
    constexpr u32 NEAR = 2 * AlpEncoder<T>::EXCEPTION_BITS;
    u32 costs[MAX_CANDIDATES];
    u32 best = FULL;
#pragma unroll
    for (u32 i = 0; i < MAX_CANDIDATES; i++) {
        costs[i] = FULL;
        if (i >= candidates.count) continue;
        costs[i] = sample_cost<T>(value, count, pair_of(candidates.e[i], candidates.f[i]));
        best = min(best, costs[i]);
    }
    bool has_hopeless = false;
    u32 finalists = 0;
    u32 last = 0;
#pragma unroll
    for (u32 i = 0; i < MAX_CANDIDATES; i++) {
        if (i >= candidates.count) continue;
        const u32 pair = pair_of(candidates.e[i], candidates.f[i]);
        has_hopeless = has_hopeless || pair == HOPELESS<T>;
        if (costs[i] - best <= NEAR) {
            finalists++;
            last = pair;
        }
    }
    const bool is_hopeless = count > 0 && best >= count * ROWS<T>;
    if (finalists == 1 && !is_hopeless) return last;
    u32 other = FULL;
    if (is_hopeless && !has_hopeless) {
        u32 least = FULL;
        for (u32 number = 0; number < PAIRS<T>; number++) {
            const u32 pair = pair_at<T>(number);
            const u32 cost = sample_cost<T>(value, count, pair);
            if (cost < least) {
                least = cost;
                other = pair;
            }
        }
    }
    u32 chosen = 0;
    u32 size = FULL;
    const auto consider = [&](u32 pair) {
        const u32 bits = vector.measure(pair).bits(VECTOR, slots.count);
        if (bits < size) {
            size = bits;
            chosen = pair;
        }
    };
#pragma unroll 1
    for (u32 i = 0; i < candidates.count && i < MAX_CANDIDATES; i++) {
        const u32 pair = pair_of(candidates.e[i], candidates.f[i]);
        // Costs again rather than from registers that would be indexed.
        if (sample_cost<T>(value, count, pair) - best <= NEAR) consider(pair);
    }
    if (other != FULL) consider(other);
    if (is_hopeless) consider(HOPELESS<T>);
    return chosen;
}

constexpr u32 TRIM_ROUNDS = 2;

// Makes exceptions of outliers as far as that shrinks the vector, of which `count`
// sums are left, `base` the least of them.
template <class T>
LANEPACK_DEVICE void trim(const SharedVector<T>& vector, u32* below, T& base, u32& width, u32& count) {
    constexpr u32 PRICE = 2 * AlpEncoder<T>::EXCEPTION_BITS;
    const u32 lane = vector.lane;
#pragma unroll 1
    for (u32 round = 0; round < TRIM_ROUNDS && width > 0; round++) {
        const u32 bin_bits = width > 6 ? width - 6 : 0;
        __syncwarp();
        below[2 * lane] = 0;
        below[2 * lane + 1] = 0;
        __syncwarp();
#pragma unroll 4
        for (u32 i = lane; i < VECTOR / BIN_STRIDE; i += WARP) {
            // Not at the same place in each group, for columns with a period.
            const u32 in_group = i % (64 / BIN_STRIDE);
            const T sum = vector.values[i / 16 * 64 + in_group * BIN_STRIDE + in_group % BIN_STRIDE];
            if (sum != FAILED<T>) atomicAdd(&below[(sum - base) >> bin_bits & (BINS - 1)], 1u);
        }
        __syncwarp();
        const u32 even = below[2 * lane];
        const u32 odd = below[2 * lane + 1];
        const u32 before = warp_sum_before(even + odd);
        __syncwarp();
        below[2 * lane] = before;
        below[2 * lane + 1] = before + even;
        if (lane == WARP - 1) below[BINS] = before + even + odd;
        __syncwarp();
        const u32 all = below[BINS];
        u32 best = width * VECTOR;
        u32 narrower = width;
        for (u32 other = bin_bits; other < width; other++) {
            const u32 size =
                other * VECTOR + (all - cover(below, 1u << (other - bin_bits))) * BIN_STRIDE * PRICE;
            if (size < best) {
                best = size;
                narrower = other;
            }
        }
        if (narrower == width) return;
        const u32 window = 1u << (narrower - bin_bits);
        const u32 most = cover(below, window);
        u32 bin = BINS;
        for (u32 i = lane; i + window <= BINS; i += WARP) {
            if (below[i + window] - below[i] == most) bin = min(bin, i);
        }
        bin = warp_min(bin);
        const T start = base + (static_cast<T>(bin) << bin_bits);
        u32 inside = 0;
#pragma unroll 4
        for (u32 i = lane; i < VECTOR; i += WARP) {
            const T sum = vector.values[i];
            inside += sum != FAILED<T> && (sum - start) >> narrower == 0 ? 1 : 0;
        }
        inside = __reduce_add_sync(FULL, inside);
        if ((count - inside) * PRICE >= (width - narrower) * VECTOR) return;
#pragma unroll 4
        for (u32 i = lane; i < VECTOR; i += WARP) {
            const T sum = vector.values[i];
            if ((sum - start) >> narrower != 0) vector.values[i] = FAILED<T>;
        }
        __syncwarp();
        base = start;
        width = narrower;
        count = inside;
    }
}

template <class T>
LANEPACK_DEVICE void alp_choose(const AlpArguments& args) {
    constexpr u32 WARPS = MEASURE_THREADS / WARP;
    constexpr u32 PIECES = VECTOR / PIECE<T>;
    LANEPACK_SHARED(uint4[WARPS * PIECES], values);
    LANEPACK_SHARED(u32[WARPS * (BINS + 2)], bins);
    const Source& source = args.source;
    const u32 warp = warp_in_block();
    const u32 lane = threadIdx.x % WARP;
    const u64 index = static_cast<u64>(blockIdx.x) * WARPS + warp;
    if (rows_of(source, index) == 0) return;
    const VectorReader<T> reader(source, index);
    uint4* pieces = &values[warp * PIECES];
    const SharedVector<T> vector{reinterpret_cast<T*>(pieces), lane};
#pragma unroll
    for (u32 i = 0; i < PIECES / WARP; i++) {
        pieces[i * WARP + lane] = reader.piece((i * WARP + lane) * PIECE<T>);
    }
    const ValidSlots slots(source, index);
    __syncwarp();
    if (slots.count < VECTOR) {
        for (u32 i = 0; i < VECTOR / WARP; i++) {
            const u32 word = __shfl_sync(FULL, slots.word, i);
            if ((word >> lane & 1) == 0) vector.values[i * WARP + lane] = AlpEncoder<T>::NOT_A_NUMBER;
        }
    }
    __syncwarp();
    const Candidates& candidates = args.candidates[index / source.chunk_vectors];
    const u32 pair = choose_pair<T>(vector, slots, candidates);
    __syncwarp();
    const Measure<T> measure = vector.encode(pair);
    // Decoding is monotone: bounds of what was encoded are those of the sums. The
    // others are looked at one by one.
    T low = static_cast<T>(~T{0});
    T high = 0;
    if (measure.count > 0) {
        const AlpEncoder<T> encoder = encoder_of<T>(pair);
        low = ordered(encoder.decode(measure.low), FLOAT);
        high = ordered(encoder.decode(measure.high), FLOAT);
    }
    if (measure.count < slots.count) {
        for (u32 i = 0; i < VECTOR / WARP; i++) {
            const u32 word = __shfl_sync(FULL, slots.word, i);
            if ((word >> lane & 1) == 0 || vector.values[i * WARP + lane] != FAILED<T>) continue;
            const T place = ordered(reader.value(i * WARP + lane), FLOAT);
            low = place < low ? place : low;
            high = place > high ? place : high;
        }
        low = warp_min(low);
        high = warp_max(high);
    }
    T base = measure.low;
    u32 width = measure.width();
    u32 count = measure.count;
    trim<T>(vector, &bins[warp * (BINS + 2)], base, width, count);
    if (lane == 0) {
        constexpr u32 BITS = AlpEncoder<T>::EXPONENT_BITS;
        const T integer = count == 0 ? T{0} : static_cast<T>(base - AlpEncoder<T>::ROUND);
        const u32 e = pair >> PAIR_BITS;
        const u32 f = pair & ((1 << PAIR_BITS) - 1);
        const T scale = static_cast<T>(integer << 2 * BITS | static_cast<T>(e << BITS | f));
        args.choices[index] = AlpChoice{scale, width, slots.count - count};
        reinterpret_cast<T*>(args.lows)[index] = low;
        reinterpret_cast<T*>(args.highs)[index] = high;
    }
}

LANEPACK_KERNEL(alp_choose_32, MEASURE_THREADS, 8, AlpArguments) { alp_choose<u32>(args); }
LANEPACK_KERNEL(alp_choose_64, MEASURE_THREADS, 6, AlpArguments) { alp_choose<u64>(args); }

template <class T>
LANEPACK_DEVICE void alp_layout(const AlpArguments& args) {
    constexpr u32 SUMS = 5;
    LANEPACK_SHARED(u32[SUMS * LAYOUT_THREADS / WARP], sums);
    LANEPACK_SHARED(u64[2 * LAYOUT_THREADS / WARP], ends);
    const u64 first = static_cast<u64>(blockIdx.x) * args.source.chunk_vectors;
    const u32 vectors = (rows_of_chunk(args.source, blockIdx.x) + VECTOR - 1) / VECTOR;
    const u64 vector = first + threadIdx.x;
    const bool is_one = threadIdx.x < vectors;
    AlpChoice choice{};
    u64 low = ~u64{0};
    u64 high = 0;
    if (is_one) {
        choice = args.choices[vector];
        const T vector_low = reinterpret_cast<const T*>(args.lows)[vector];
        const T vector_high = reinterpret_cast<const T*>(args.highs)[vector];
        if (vector_low <= vector_high) {
            low = vector_low;
            high = vector_high;
        }
    }
    const u32 blocks = block_units<T>(choice.exceptions);
    const bool is_in_sample = is_one && is_sampled(threadIdx.x, vectors);
    u32 before[SUMS] = {choice.width, blocks, choice.exceptions, is_in_sample ? choice.width : 0,
                        is_in_sample ? blocks : 0};
    u32 all[SUMS];
    block_sums_before(before, sums, all);
    if (is_one) {
        args.places[vector] = before[0] | choice.width << 24;
        args.locators[vector] =
            choice.exceptions == 0 ? 0 : choice.exceptions | before[1] << LOCATOR_COUNT_BITS;
    }
    ChunkTotals totals{};
    totals.patched_units = all[0];
    totals.block_units = all[1];
    totals.exceptions = all[2];
    totals.sampled_patched_units = all[3];
    totals.sampled_block_units = all[4];
    bounds_of_block(low, high, ends);
    if (threadIdx.x == 0) {
        totals.low = low;
        totals.high = high;
        args.totals[blockIdx.x] = totals;
    }
}

LANEPACK_KERNEL(alp_layout_32, LAYOUT_THREADS, 1, AlpArguments) { alp_layout<u32>(args); }
LANEPACK_KERNEL(alp_layout_64, LAYOUT_THREADS, 1, AlpArguments) { alp_layout<u64>(args); }

// The value's integer less the base, and whether it is below 2^width.
template <class T>
LANEPACK_DEVICE T packed_value(const AlpEncoder<T>& encoder, T bits, T base, T mask, bool& ok) {
    const T sum = encoder.encode(bits, ok);
    const T packed = sum - base;
    ok = ok && packed <= mask;
    return packed;
}

template <class T>
LANEPACK_DEVICE void alp_pack(const AlpArguments& args) {
    constexpr u32 BITS = AlpEncoder<T>::EXPONENT_BITS;
    const Target& target = args.targets[blockIdx.x / args.blocks_per_target];
    const u32 in_chunk = blockIdx.x % args.blocks_per_target * (PACK_THREADS / PACK_LANES) +
                         threadIdx.x / PACK_LANES;
    const u32 vectors = (target.rows + VECTOR - 1) / VECTOR;
    if (in_chunk >= vectors) return;
    const u64 vector = target.vector + in_chunk;
    const u32 thread = threadIdx.x % PACK_LANES;
    const Source& source = args.source;
    const AlpChoice& choice = args.choices[vector];
    const T scale = static_cast<T>(choice.scale);
    const u32 exceptions = choice.exceptions;
    const u32 locator = args.locators[vector];
    const u32 place = args.places[vector];
    if (thread == 0) {
        T* scales = reinterpret_cast<T*>(target.buffer[1]);
        u32* places = reinterpret_cast<u32*>(scales + vectors);
        scales[in_chunk] = scale;
        places[in_chunk] = place;
        // No third buffer, no locators.
        if (target.buffer[2] != nullptr) places[vectors + in_chunk] = locator;
    }
    const AlpEncoder<T> encoder(static_cast<u32>(scale >> BITS) & ((1 << BITS) - 1),
                                static_cast<u32>(scale) & ((1 << BITS) - 1));
    // The base's sign is the scale's.
    using Signed = decltype(signed_of(T{}));
    const T base = AlpEncoder<T>::ROUND + static_cast<T>(static_cast<Signed>(scale) >> 2 * BITS);
    const VectorReader<T> reader(source, vector);
    const bool is_whole = source.valid == nullptr && reader.rows == VECTOR;
    LinePacker<T> packer(target.buffer[0], place, thread);
    const T mask = low_bits<T>(packer.width);
    // For each of this thread's lanes, the rows of exceptions.
    T failed[PIECE<T>];
#pragma unroll
    for (u32 k = 0; k < PIECE<T>; k++) failed[k] = 0;
    if (packer.width > 0 || exceptions > 0) {
#pragma unroll 1
        for (u32 group = 0; group < ROWS<T> / 8; group++) {
            uint4 pieces[8];
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                const u32 position = lanepack::index(group * 8 + i, thread * PIECE<T>);
                pieces[i] = reader.piece(position);
            }
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                const u32 row = group * 8 + i;
                u32 valid = low_bits<u32>(PIECE<T>);
                if (!is_whole) {
                    valid = valid_piece<T>(source, vector, lanepack::index(row, thread * PIECE<T>));
                }
                T packed[PIECE<T>];
#pragma unroll
                for (u32 k = 0; k < PIECE<T>; k++) {
                    bool ok;
                    packed[k] = packed_value<T>(encoder, value_of<T>(pieces[i], k), base, mask, ok);
                    const bool is_valid = (valid >> k & 1) != 0;
                    if (!ok || !is_valid) packed[k] = 0;
                    if (!ok && is_valid) failed[k] |= T{1} << row;
                }
                if (packer.width > 0) packer.push(piece_of<T>(packed));
            }
        }
    }
    write_block<T>(target.buffer[2], locator, thread, failed, [&](u32 row, u32 lane) {
        return reader.value(lanepack::index(row, lane));
    });
}

LANEPACK_KERNEL(alp_pack_32, PACK_THREADS, 10, AlpArguments) { alp_pack<u32>(args); }
LANEPACK_KERNEL(alp_pack_64, PACK_THREADS, 10, AlpArguments) { alp_pack<u64>(args); }

}  // namespace lanepack
