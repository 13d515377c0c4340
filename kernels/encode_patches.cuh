// Integers with exceptions, for the encoders that measure and pack them: a vector in the
// registers of a warp, the window of its values that is packed and how many lie outside, and
// bodies with exceptions; the same choices as src/encoding/{pfor,windows}.rs, bit for bit.
#pragma once

#include "encode.cuh"

namespace lanepack {

// The 32 values of a thread of a warp that holds a vector: value k of piece i stands in slot
// (i * WARP + lane) * PIECE + k, its bit in masks is i * PIECE + k.
template <class T>
constexpr u32 THREAD_PIECES = VECTOR / (WARP * PIECE<T>);

template <class T>
LANEPACK_DEVICE u32 slot_of(u32 i, u32 k) {
    return (i * WARP + threadIdx.x % WARP) * PIECE<T> + k;
}

// A vector in the registers of a warp.
template <class T>
struct WarpVector {
    uint4 pieces[THREAD_PIECES<T>];
    // Which of this thread's values are valid.
    u32 valid;

    LANEPACK_DEVICE WarpVector(const Source& source, u64 vector, const VectorReader<T>& reader) {
#pragma unroll
        for (u32 i = 0; i < THREAD_PIECES<T>; i++) pieces[i] = reader.piece(slot_of<T>(i, 0));
        valid = FULL;
        if (source.valid == nullptr && reader.rows == VECTOR) return;
        valid = 0;
#pragma unroll
        for (u32 i = 0; i < THREAD_PIECES<T>; i++) {
            valid |= valid_piece<T>(source, vector, slot_of<T>(i, 0)) << i * PIECE<T>;
        }
    }

    LANEPACK_DEVICE T value(u32 i, u32 k) const { return value_of<T>(pieces[i], k); }

    // Calls `visit(value, bit, slot)` for each of this thread's values.
    template <class Visit>
    LANEPACK_DEVICE void each(const Visit& visit) const {
#pragma unroll
        for (u32 i = 0; i < THREAD_PIECES<T>; i++) {
#pragma unroll
            for (u32 k = 0; k < PIECE<T>; k++) visit(value(i, k), i * PIECE<T> + k, slot_of<T>(i, k));
        }
    }
};

template <class T>
LANEPACK_DEVICE T warp_least(T value) {
    if constexpr (sizeof(T) == 8) return warp_min(value);
    else return static_cast<T>(warp_min(static_cast<u32>(value)));
}
template <class T>
LANEPACK_DEVICE T warp_greatest(T value) {
    if constexpr (sizeof(T) == 8) return warp_max(value);
    else return static_cast<T>(warp_max(static_cast<u32>(value)));
}

LANEPACK_DEVICE u32 warp_count(u32 mask) { return __reduce_add_sync(FULL, static_cast<u32>(__popc(mask))); }

// Bounds of some values of a vector, less `base`.
template <class T>
struct VectorBounds {
    T low;
    T high;

    LANEPACK_DEVICE VectorBounds(const WarpVector<T>& vector, u32 kept, T base) {
        low = static_cast<T>(~T{0});
        high = 0;
        vector.each([&](T value, u32 bit, u32) {
            const T above = static_cast<T>(value - base);
            if ((kept >> bit & 1) == 0) return;
            low = above < low ? above : low;
            high = above > high ? above : high;
        });
        low = warp_least(low);
        high = warp_greatest(high);
    }
    LANEPACK_DEVICE u32 width() const { return low > high ? 0 : bits_of(static_cast<u64>(high - low)); }
};

// How often a histogram narrows a window.
constexpr u32 ROUNDS_OF_WINDOWS = 12;

// The window of a vector's values that is packed, and how many lie outside.
template <class T>
struct PatchWindow {
    T start;
    u32 width;
    u32 exceptions;
};

// Values as they stand: every fourth goes into the histogram by its slot.
struct InOrder {
    // Calls `visit(value, bit)` for those of this thread.
    template <class T, class Visit>
    LANEPACK_DEVICE static void pick(const WarpVector<T>& vector, const Visit& visit) {
        const u32 lane = threadIdx.x % WARP;
#pragma unroll
        for (u32 i = 0; i < THREAD_PIECES<T>; i++) {
            if constexpr (sizeof(T) == 8) {
                // One of two pairs of values in turn has one, its first or its second.
                const u32 k = (lane >> 1 & 3) - (lane & 1) * 2;
                const T value = k == 1 ? vector.value(i, 1) : vector.value(i, 0);
                if (k < 2) visit(value, i * PIECE<T> + k);
            } else if constexpr (sizeof(T) == 4) {
                const T low = lane & 1 ? vector.value(i, 1) : vector.value(i, 0);
                const T high = lane & 1 ? vector.value(i, 3) : vector.value(i, 2);
                visit(lane & 2 ? high : low, i * PIECE<T> + (lane & 3));
            } else {
#pragma unroll
                for (u32 k = 0; k < PIECE<T>; k++) {
                    if (is_in_histogram(slot_of<T>(i, k))) visit(vector.value(i, k), i * PIECE<T> + k);
                }
            }
        }
    }
};

// What a histogram of every fourth value proposes, as `propose` of windows.rs does.
struct Proposal {
    u32 bin;
    // Bits of the window from there on.
    u32 window;
    // Values of the histogram that lie outside.
    u32 outside;
};
template <class T, class Order>
LANEPACK_DEVICE Proposal propose(const WarpVector<T>& vector, u32 kept, T base, u32 bin_bits, u32 width,
                                 u32 price, u32* below, Order) {
    const u32 lane = threadIdx.x % WARP;
    __syncwarp();
    below[2 * lane] = 0;
    below[2 * lane + 1] = 0;
    __syncwarp();
    Order::template pick<T>(vector, [&](T value, u32 bit) {
        if ((kept >> bit & 1) == 0) return;
        atomicAdd(&below[static_cast<u32>(static_cast<T>(value - base) >> bin_bits) & (BINS - 1)], 1u);
    });
    __syncwarp();
    const u32 even = below[2 * lane];
    const u32 odd = below[2 * lane + 1];
    // Of equal ones the first.
    const u32 best_here = even >= odd ? even << 8 | (BINS - 2 * lane) : odd << 8 | (BINS - 1 - 2 * lane);
    const u32 fullest = warp_max(best_here);
    const u32 before = warp_sum_before(even + odd);
    __syncwarp();
    below[2 * lane] = before;
    below[2 * lane + 1] = before + even;
    if (lane == WARP - 1) below[BINS] = before + even + odd;
    __syncwarp();
    const u32 all = below[BINS];
    // Of this thread's two bins on; windows of less than all bins end in some.
    const u32 firsts[2] = {below[lane], below[WARP + lane]};
    u32 best = width * VECTOR;
    u32 narrower = width;
#pragma unroll
    for (u32 bits = 0; bits < BIN_BITS; bits++) {
        const u32 other = bin_bits + bits;
        const u32 window = 1u << bits;
        u32 most = below[lane + window] - firsts[0];
        if (WARP + lane + window <= BINS) most = max(most, below[WARP + lane + window] - firsts[1]);
        const u32 outside = all - warp_max(most);
        const u32 size = other < width ? other * VECTOR + outside * BIN_STRIDE * price : FULL;
        if (size < best) {
            best = size;
            narrower = other;
        }
    }
    // The fullest bin may be a spike that pays in the end.
    if (narrower == width) return Proposal{BINS - (fullest & 0xff), bin_bits, all - (fullest >> 8)};
    const u32 window = 1u << (narrower - bin_bits);
    const u32 most = cover(below, window);
    u32 bin = BINS;
    for (u32 i = lane; i + window <= BINS; i += WARP) {
        if (below[i + window] - below[i] == most) bin = min(bin, i);
    }
    return Proposal{warp_min(bin), narrower, all - most};
}

// The window in which the valid values, `low` the least and `width` bits from it to the
// greatest, take the least; as `search` of pfor.rs.
template <class T, class Order>
LANEPACK_DEVICE PatchWindow<T> search(const WarpVector<T>& vector, T low, u32 width, u32* below,
                                      Order order) {
    constexpr u32 PRICE = ROWS<T> + 16;
    const u32 all = warp_count(vector.valid);
    PatchWindow<T> best{low, width, 0};
    u32 least = width * VECTOR;
    T start = low;
    u32 kept = vector.valid;
    const u32 all_bits = width;
    // Valid values that are not kept.
    u32 missed = 0;
#pragma unroll 1
    for (u32 round = 0; round < ROUNDS_OF_WINDOWS && width > 0; round++) {
        const u32 bin_bits = width > BIN_BITS ? width - BIN_BITS : 0;
        const Proposal proposal = propose(vector, kept, start, bin_bits, width, PRICE, below, order);
        // What the histogram has outside will lie outside.
        if ((missed + proposal.outside) * PRICE >= least) break;
        const u32 window = proposal.window;
        start = static_cast<T>(start + (static_cast<T>(proposal.bin) << bin_bits));
        u32 inside = 0;
        vector.each([&](T value, u32 bit, u32) {
            const bool is_inside = static_cast<T>(value - start) >> window == 0;
            inside |= is_inside ? 1u << bit : 0;
        });
        kept &= inside;
        missed = all - warp_count(kept);
        const u32 exceptions = missed * PRICE;
        if (exceptions >= least) break;
        const VectorBounds<T> bounds(vector, kept, start);
        start = static_cast<T>(start + bounds.low);
        width = bounds.width();
        const u32 bits = width * VECTOR + exceptions;
        if (bits < least) {
            best = PatchWindow<T>{start, width, 0};
            least = bits;
        }
    }
    if (best.width == all_bits) return best;
    u32 outside = 0;
    vector.each([&](T value, u32 bit, u32) {
        const bool is_inside = static_cast<T>(value - best.start) >> best.width == 0;
        outside |= is_inside ? 0 : 1u << bit;
    });
    best.exceptions = warp_count(outside & vector.valid);
    return best;
}

// The least and greatest of a vector, all in order `order`.
template <class T>
struct OrderedBounds {
    T low;
    T high;
};
template <class T>
LANEPACK_DEVICE OrderedBounds<T> vector_bounds(const WarpVector<T>& vector, u32 order,
                                               const VectorMeasures& out, u64 index) {
    T low = static_cast<T>(~T{0});
    T high = 0;
    vector.each([&](T value, u32 bit, u32) {
        const T place = ordered(value, order);
        if ((vector.valid >> bit & 1) == 0) return;
        low = place < low ? place : low;
        high = place > high ? place : high;
    });
    low = warp_least(low);
    high = warp_greatest(high);
    if (threadIdx.x % WARP == 0) {
        reinterpret_cast<T*>(out.lows)[index] = low;
        reinterpret_cast<T*>(out.highs)[index] = high;
    }
    return {low, high};
}

// Writes what is known of a vector.
template <class T, class Order>
LANEPACK_DEVICE void measure_vector(const WarpVector<T>& vector, u32 order, const VectorMeasures& out,
                                    u64 index, u32* below, Order picked) {
    const OrderedBounds<T> bounds = vector_bounds(vector, order, out, index);
    if (out.bases == nullptr) return;
    const T low = bounds.low;
    const T high = bounds.high;
    const bool is_empty = low > high;
    const u32 width = is_empty ? 0 : bits_of(static_cast<u64>(high - low));
    const T base = is_empty ? T{0} : unordered(low, order);
    const PatchWindow<T> window = search(vector, base, width, below, picked);
    if (threadIdx.x % WARP == 0) {
        reinterpret_cast<T*>(out.bases)[index] = window.start;
        out.patched_places[index] = window.width << 24;
        out.locators[index] = window.exceptions;
    }
}

// Calls `measure(index, vector, reader, below)` for the vector of this warp, if `what` of it is
// to be measured.
template <class T, class Measure>
LANEPACK_DEVICE void measured_vector(const MeasureArguments& args, u32 what, u32* bins,
                                     const Measure& measure) {
    constexpr u32 WARPS = MEASURE_THREADS / WARP;
    const Source& source = args.source;
    const u32 warp = warp_in_block();
    const u32 number = blockIdx.x / args.blocks_per_chunk;
    const AskedChunk asked = args.chunks == nullptr ? AskedChunk{number, what} : args.chunks[number];
    if ((asked.asked & what) == 0) return;
    const u32 vectors = (rows_of_chunk(source, asked.chunk) + VECTOR - 1) / VECTOR;
    const u32 taken = args.which == MEASURE_SAMPLED ? min(vectors, SAMPLED_VECTORS) : vectors;
    u32 in_chunk = blockIdx.x % args.blocks_per_chunk * WARPS + warp;
    if (in_chunk >= taken) return;
    if (args.which == MEASURE_SAMPLED) in_chunk = in_chunk * vectors / taken;
    if (args.which == MEASURE_REST && is_sampled(in_chunk, vectors)) return;
    const u64 index = static_cast<u64>(asked.chunk) * source.chunk_vectors + in_chunk;
    const VectorReader<T> reader(source, index);
    WarpVector<T> vector(source, index, reader);
    measure(index, vector, reader, bins + warp * (BINS + 2));
}
constexpr u32 MEASURE_BINS = MEASURE_THREADS / WARP * (BINS + 2);

// The rows of a vector in one of the threads that pack it.
template <class T>
struct Patcher {
    const Packing<T>& packing;
    LinePacker<T> packer;
    T mask;
    // For each of this thread's lanes, the rows of exceptions.
    T failed[PIECE<T>];

    LANEPACK_DEVICE Patcher(const Packing<T>& of, u8* packed, u32 thread)
        : packing(of), packer(packed, of.place, thread), mask(low_bits<T>(packer.width)) {
#pragma unroll
        for (u32 k = 0; k < PIECE<T>; k++) failed[k] = 0;
    }

    LANEPACK_DEVICE void push(u32 row, uint4 piece, u32 valid) {
        T parts[PIECE<T>];
#pragma unroll
        for (u32 k = 0; k < PIECE<T>; k++) {
            const T above = static_cast<T>(value_of<T>(piece, k) - packing.base);
            const bool is_valid = (valid >> k & 1) != 0;
            const bool is_inside = above <= mask;
            parts[k] = is_valid && is_inside ? above : T{0};
            if (is_valid && !is_inside) failed[k] = static_cast<T>(failed[k] | T{1} << row);
        }
        if (packer.width > 0) packer.push(piece_of<T>(parts));
    }
};

}  // namespace lanepack
