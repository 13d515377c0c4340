// Integers to pfor and delta: what is known of vectors, as they are and as differences of
// neighbours, and bodies with exceptions; the same choices as src/encoding/{pfor,windows,
// delta}.rs, bit for bit.
//
//   bounds         a warp a vector
//   windows        a warp a vector, all values in registers: bounds, the window that is packed
//                  and how many values lie outside
//   deltas         the same of differences of neighbours
//   pack_patched   eight threads a vector: values in the window, exceptions by lane
//   pack_deltas    a warp makes a vector's deltas again, in registers, and leaves them in shared
//                  memory in the order of lanes; eight of its threads pack them
//
// Deltas are never written to memory: one read measures them, one read writes them. All vectors
// have bounds; windows and deltas are searched for in those that estimates look at, and in others
// where plans chose them. On an NVIDIA H200, 1.05 GB of 64 bits: bounds 301 us, windows and deltas
// of samples 71 and 70. Tried: bounds and both searches of all vectors in one kernel, 756; that
// kernel with searches in samples only, whose warps held up the others of their blocks, 581; both
// searches of samples in one kernel, which has registers for three blocks a multiprocessor where
// windows alone have them for four or five, 137; values in shared memory instead of
// registers, up to seven blocks: windows of all vectors 817 to 855 against 789, as some 3,500
// instructions a vector are what they take.
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
LANEPACK_DEVICE void bounds(const MeasureArguments& args) {
    constexpr u32 WARPS = MEASURE_THREADS / WARP;
    const u64 index = static_cast<u64>(blockIdx.x) * WARPS + warp_in_block();
    if (rows_of(args.source, index) == 0) return;
    const WarpVector<T> vector(args.source, index, VectorReader<T>(args.source, index));
    vector_bounds(vector, args.source.order, args.values, index);
}

LANEPACK_KERNEL(bounds_8, MEASURE_THREADS, 5, MeasureArguments) { bounds<u8>(args); }
LANEPACK_KERNEL(bounds_16, MEASURE_THREADS, 5, MeasureArguments) { bounds<u16>(args); }
LANEPACK_KERNEL(bounds_32, MEASURE_THREADS, 5, MeasureArguments) { bounds<u32>(args); }
LANEPACK_KERNEL(bounds_64, MEASURE_THREADS, 5, MeasureArguments) { bounds<u64>(args); }

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

template <class T>
LANEPACK_DEVICE void windows(const MeasureArguments& args) {
    LANEPACK_SHARED(u32[MEASURE_BINS], bins);
    const auto measure = [&](u64 index, WarpVector<T>& vector, const VectorReader<T>&, u32* below) {
        measure_vector(vector, args.source.order, args.values, index, below, InOrder{});
    };
    measured_vector<T>(args, ASKED_WINDOWS, &bins[0], measure);
}

template <class T>
LANEPACK_DEVICE void deltas(const MeasureArguments& args) {
    LANEPACK_SHARED(u32[MEASURE_BINS], bins);
    const auto measure = [&](u64 index, WarpVector<T>& vector, const VectorReader<T>& reader, u32* below) {
        const T start = to_deltas(vector, args.source, index, reader);
        if (threadIdx.x % WARP == 0) reinterpret_cast<T*>(args.deltas.starts)[index] = start;
        measure_vector(vector, SIGNED, args.deltas, index, below, ByLanes{});
    };
    measured_vector<T>(args, ASKED_DELTAS, &bins[0], measure);
}

LANEPACK_KERNEL(windows_8, MEASURE_THREADS, 5, MeasureArguments) { windows<u8>(args); }
LANEPACK_KERNEL(windows_16, MEASURE_THREADS, 4, MeasureArguments) { windows<u16>(args); }
LANEPACK_KERNEL(windows_32, MEASURE_THREADS, 5, MeasureArguments) { windows<u32>(args); }
LANEPACK_KERNEL(windows_64, MEASURE_THREADS, 3, MeasureArguments) { windows<u64>(args); }
LANEPACK_KERNEL(deltas_8, MEASURE_THREADS, 3, MeasureArguments) { deltas<u8>(args); }
LANEPACK_KERNEL(deltas_16, MEASURE_THREADS, 3, MeasureArguments) { deltas<u16>(args); }
LANEPACK_KERNEL(deltas_32, MEASURE_THREADS, 4, MeasureArguments) { deltas<u32>(args); }
LANEPACK_KERNEL(deltas_64, MEASURE_THREADS, 3, MeasureArguments) { deltas<u64>(args); }

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
