// Floats to alp_rd: where a chunk's values are cut, then packed words and exceptions; the
// same choices as src/encoding/alp_rd/{cut,vector}.rs, bit for bit.
//
//   rd_cut       a block a chunk: draws at most 2,048 slots, sorts the top 16 bits of their
//                values, and weighs all cuts with all sizes of dictionary, a warp for each
//                number of left bits
//   rd_measure   a warp a vector: how many of its values are exceptions
//   rd_layout    a block a chunk: locators, totals
//   rd_pack      eight threads a vector: cut, pack, list exceptions by lane
//
// Chunks that a cut would take more for than alp or plain values are given up as soon as
// that is known: before the sort, where the right parts take more, which they do of most
// decimals; before values are read by more than the sample.
//
// Sorted once, the left parts of L bits are runs for every L: neighbours whose first L bits
// differ are of different ones. Runs are ranked as numbers, their length above the
// complement of their left part, so that of equal ones the least value comes first.
#include "encode.cuh"

namespace lanepack {

// Most bits of a left part.
constexpr u32 MOST_LEFT = 16;
// Slots that a sample looks at, at most.
constexpr u32 RD_SAMPLE = 2048;
// What a thread draws of them.
constexpr u32 RD_DRAWN = RD_SAMPLE / RD_CUT_THREADS;
static_assert(RD_CUT_THREADS / WARP == MOST_LEFT, "a warp for each number of left bits");

// Bits of an exception: the value and its slot.
template <class T>
constexpr u32 RD_EXCEPTION_BITS = ROWS<T> + 16;

// Bytes that a chunk's header and the gaps of its body may take, which are not counted here:
// the host does that. What it may choose must not be given up.
constexpr u64 CHUNK_EXTRA = 512;

// Bytes that alp takes for a chunk.
template <class T>
LANEPACK_DEVICE u64 alp_bytes(const ChunkTotals& alp, u32 vectors) {
    const u32 sampled = vectors < SAMPLED_VECTORS ? vectors : SAMPLED_VECTORS;
    const u64 packed = static_cast<u64>(alp.sampled_patched_units) * PACKED_UNIT * vectors / sampled;
    const u64 blocks = static_cast<u64>(alp.sampled_block_units) * sizeof(T) * vectors / sampled;
    const u64 locators = alp.sampled_block_units > 0 ? vectors * 4 : 0;
    return packed + blocks + locators + vectors * (sizeof(T) + 4);
}

// The best zero bits to drop, and values that have them.
struct Shift {
    u32 shift;
    u32 kept;
    // All values of the sample.
    u32 values;
};

// `ending` counts values by zero bits at their end; a warp together.
template <class T>
LANEPACK_DEVICE Shift shift_of(const u32* ending, u32 slots) {
    constexpr u32 MOST = ROWS<T> - MOST_LEFT;
    const u32 lane = threadIdx.x % WARP;
    // Values with fewer zeros than 0 to 31, and than 32 to 63.
    const u32 low = warp_sum_before(ending[lane]);
    const u32 half = __reduce_add_sync(FULL, ending[lane]);
    const u32 high = half + warp_sum_before(ending[WARP + lane]);
    const u32 values = half + __reduce_add_sync(FULL, ending[WARP + lane]);
    u32 best = FULL;
    if (lane <= MOST) best = (slots * (ROWS<T> - lane) + low * RD_EXCEPTION_BITS<T>) << 6 | lane;
    if (WARP + lane <= MOST) {
        const u32 shift = WARP + lane;
        best = min(best, (slots * (ROWS<T> - shift) + high * RD_EXCEPTION_BITS<T>) << 6 | shift);
    }
    const u32 shift = warp_min(best) & 63;
    const u32 fewer_low = __shfl_sync(FULL, low, static_cast<i32>(shift % WARP));
    const u32 fewer_high = __shfl_sync(FULL, high, static_cast<i32>(shift % WARP));
    const u32 kept = values - (shift < WARP ? fewer_low : fewer_high);
    // Few values may all have ones there.
    return kept > 0 ? Shift{shift, kept, values} : Shift{0, values, values};
}

// Sorts `size` numbers in shared memory, a power of two, by all threads of the block: bitonic.
LANEPACK_DEVICE void sort_shared(u32* numbers, u32 size) {
    bool was_wide = true;
    for (u32 run = 2; run <= size; run *= 2) {
        for (u32 step = run / 2; step > 0; step /= 2) {
            // A warp's pairs lie in 64 numbers of its own where steps are no longer than a warp.
            const bool is_wide = step > WARP;
            if (is_wide || was_wide) {
                __syncthreads();
            } else {
                __syncwarp();
            }
            was_wide = is_wide;
            for (u32 pair = threadIdx.x; pair < size / 2; pair += RD_CUT_THREADS) {
                const u32 at = pair * 2 - pair % step;
                const u32 x = numbers[at];
                const u32 y = numbers[at + step];
                const bool is_falling = (at & run) != 0;
                if ((x > y) != is_falling) {
                    numbers[at] = y;
                    numbers[at + step] = x;
                }
            }
        }
    }
    __syncthreads();
}

// Puts a number among the greatest so far, the greatest first.
LANEPACK_DEVICE void insert(u32 (&greatest)[MOST_ENTRIES], u32 number) {
#pragma unroll
    for (u32 i = 0; i < MOST_ENTRIES; i++) {
        const u32 less = min(greatest[i], number);
        greatest[i] = max(greatest[i], number);
        number = less;
    }
}

// The eight most frequent of `count` sorted numbers of 16 bits less their lowest `dropped`
// bits, by a warp: number i in lane i, as its frequency << 16 | its complement; 0 where there
// are no more.
LANEPACK_DEVICE u32 most_frequent(const u32* sorted, u32 count, u32 dropped) {
    const u32 lane = threadIdx.x % WARP;
    u32 greatest[MOST_ENTRIES];
#pragma unroll
    for (u32 i = 0; i < MOST_ENTRIES; i++) greatest[i] = 0;
    // Where the run under way begins.
    u32 begin = 0;
    for (u32 first = 0; first < count; first += WARP) {
        const u32 at = first + lane;
        const u32 value = at < count ? sorted[at] >> dropped : FULL;
        const u32 next = at + 1 < count ? sorted[at + 1] >> dropped : FULL;
        const bool is_last = value != next;
        const u32 lasts = __ballot_sync(FULL, is_last);
        const u32 before = lasts & low_bits<u32>(lane);
        if (is_last) {
            const u32 start = before == 0 ? begin : first + 32 - static_cast<u32>(__clz(static_cast<i32>(before)));
            const u32 number = (at + 1 - start) << 16 | (0xffff - value);
            if (number > greatest[MOST_ENTRIES - 1]) insert(greatest, number);
        }
        if (lasts != 0) begin = first + 32 - static_cast<u32>(__clz(static_cast<i32>(lasts)));
    }
    u32 own = 0;
#pragma unroll 1
    for (u32 i = 0; i < MOST_ENTRIES; i++) {
        const u32 most = warp_max(greatest[0]);
        if (lane == i) own = most;
        // No two are equal but zeros.
        if (greatest[0] == most) {
#pragma unroll
            for (u32 k = 0; k + 1 < MOST_ENTRIES; k++) greatest[k] = greatest[k + 1];
            greatest[MOST_ENTRIES - 1] = 0;
        }
    }
    return own;
}

template <class T>
LANEPACK_DEVICE void rd_cut(const AlpRdArguments& args) {
    LANEPACK_SHARED(u32[64], ending);
    LANEPACK_SHARED(u32[RD_SAMPLE], sorted);
    LANEPACK_SHARED(Shift, found);
    LANEPACK_SHARED(u32[MOST_LEFT * MOST_ENTRIES], frequent);
    LANEPACK_SHARED(u32[MOST_LEFT], costs);
    const Source& source = args.source;
    const u64 first = static_cast<u64>(blockIdx.x) * source.chunk_vectors;
    const u32 rows = rows_of_chunk(source, blockIdx.x);
    const u32 vectors = (rows + VECTOR - 1) / VECTOR;
    RdTotals& totals = args.totals[blockIdx.x];
    if (rows == 0) {
        if (threadIdx.x == 0) totals = RdTotals{};
        return;
    }
    u64 limit = static_cast<u64>(rows) * sizeof(T);
    if (args.alp != nullptr) limit = min(limit, alp_bytes<T>(args.alp[blockIdx.x], vectors));
    const u32 warp = warp_in_block();
    const u32 lane = threadIdx.x % WARP;
    for (u32 i = threadIdx.x; i < 64; i += RD_CUT_THREADS) ending[i] = 0;
    __syncthreads();
    // As many slots of each vector, spread over their ends and remainders.
    const u32 taken = vectors < SAMPLED_VECTORS ? vectors : SAMPLED_VECTORS;
    u32 stride = 1;
    while (stride * RD_SAMPLE < taken * VECTOR) stride *= 2;
    const u32 each = VECTOR / stride;
    const u32 slots = taken * each;
    // Top bits and zeros at the end; none of slots that are not valid.
    u32 drawn[RD_DRAWN];
#pragma unroll
    for (u32 i = 0; i < RD_DRAWN; i++) {
        const u32 slot = i * RD_CUT_THREADS + threadIdx.x;
        drawn[i] = FULL;
        if (slot >= slots) continue;
        const u64 vector = first + slot / each * vectors / taken;
        const u32 step = slot % each;
        const u32 position = step * stride + step * 5 % stride;
        const u32 valid = valid_rows(source, vector * VECTOR + position / 32 * 32);
        if ((valid >> position % 32 & 1) == 0) continue;
        const T value = VectorReader<T>(source, vector).value(position);
        const u32 zeros = static_cast<u32>(__ffsll(static_cast<i64>(value)));
        constexpr u32 MOST = ROWS<T> - MOST_LEFT;
        const u32 counted = zeros == 0 || zeros - 1 > MOST ? MOST : zeros - 1;
        drawn[i] = static_cast<u32>(value >> MOST) | counted << 16;
    }
#pragma unroll
    for (u32 i = 0; i < RD_DRAWN; i++) {
        const u32 zeros = drawn[i] >> 16;
        const u32 same = __match_any_sync(FULL, zeros);
        const bool is_first = (same & low_bits<u32>(lane)) == 0;
        if (is_first && drawn[i] != FULL) atomicAdd(&ending[zeros], static_cast<u32>(__popc(same)));
    }
    __syncthreads();
    if (warp == 0) {
        const Shift shift = shift_of<T>(ending, slots);
        if (lane == 0) found = shift;
    }
    __syncthreads();
    const u32 shift = found.shift;
    const u32 kept = found.kept;
    const u32 values = found.values;
    // Bytes that the chunk takes where its sample takes so many bits.
    const auto bytes = [&](u32 cost) { return static_cast<u64>(cost) * vectors * stride / taken / 8; };
    // Right parts of the fewest bits, and the exceptions of any cut.
    const u32 least = slots * (ROWS<T> - shift - MOST_LEFT) + (values - kept) * RD_EXCEPTION_BITS<T>;
    if (values == 0 || bytes(least) > limit + CHUNK_EXTRA) {
        if (threadIdx.x == 0) totals = RdTotals{};
        return;
    }
    const u32 size = taken == 1 ? VECTOR : RD_SAMPLE;
#pragma unroll
    for (u32 i = 0; i < RD_DRAWN; i++) {
        const u32 slot = i * RD_CUT_THREADS + threadIdx.x;
        const bool is_kept = drawn[i] != FULL && drawn[i] >> 16 >= shift;
        if (slot < size) sorted[slot] = is_kept ? drawn[i] & 0xffff : FULL;
    }
    sort_shared(sorted, size);
    // Left parts of fewer bits in each warp.
    const u32 own = most_frequent(sorted, kept, warp);
    const u32 entries = lane + 1;
    const u32 most_entries = static_cast<u32>(__popc(__ballot_sync(FULL, own != 0)));
    const u32 exceptions = values - sum_upto(own >> 16);
    u32 best = FULL;
    // What a code has room for costs nothing.
    if (entries <= most_entries && ((entries & lane) == 0 || entries == most_entries)) {
        const u32 right = ROWS<T> - shift - (MOST_LEFT - warp);
        const u32 cost = slots * (right + bits_of(lane)) + exceptions * RD_EXCEPTION_BITS<T>;
        best = cost << 8 | warp << 4 | lane;
    }
    best = warp_min(best);
    if (lane == 0) costs[warp] = best;
    if (lane < MOST_ENTRIES) frequent[warp * MOST_ENTRIES + lane] = 0xffff - (own & 0xffff);
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (u32 i = 1; i < MOST_LEFT; i++) best = min(best, costs[i]);
    // What loses need not be measured.
    if (bytes(best >> 8) > limit + CHUNK_EXTRA) {
        totals = RdTotals{};
        return;
    }
    const u32 fewer = best >> 4 & 15;
    const u32 count = (best & 15) + 1;
    RdTotals result{};
    for (u32 i = 0; i < MOST_ENTRIES; i++) {
        if (i < count) result.dictionary[i] = static_cast<u16>(frequent[fewer * MOST_ENTRIES + i]);
    }
    result.cut = (ROWS<T> - shift - (MOST_LEFT - fewer)) | count << 8 | shift << 16;
    result.cost = best >> 8;
    totals = result;
}

LANEPACK_KERNEL(rd_cut_32, RD_CUT_THREADS, 3, AlpRdArguments) { rd_cut<u32>(args); }
LANEPACK_KERNEL(rd_cut_64, RD_CUT_THREADS, 3, AlpRdArguments) { rd_cut<u64>(args); }

// Cuts values.
template <class T>
struct Cutter {
    // Left parts; FULL, which none is, behind the last.
    u32 entries[MOST_ENTRIES];
    u32 right;
    u32 zeros;
    u32 width;
    T right_mask;
    T zeros_mask;

    LANEPACK_DEVICE explicit Cutter(const RdTotals& totals) {
        const u32 count = totals.cut >> 8 & 0xff;
        right = totals.cut & 0xff;
        zeros = totals.cut >> 16;
        width = right + bits_of(count - 1);
        right_mask = low_bits<T>(right);
        zeros_mask = low_bits<T>(zeros);
#pragma unroll
        for (u32 i = 0; i < MOST_ENTRIES; i++) entries[i] = i < count ? totals.dictionary[i] : FULL;
    }

    // The code of a value's left part; MOST_ENTRIES of an exception.
    LANEPACK_DEVICE u32 code(T value) const {
        const u32 left = static_cast<u32>(value >> (right + zeros));
        u32 code = MOST_ENTRIES;
#pragma unroll
        for (u32 i = 0; i < MOST_ENTRIES; i++) code = left == entries[i] ? i : code;
        return (value & zeros_mask) == 0 ? code : MOST_ENTRIES;
    }

    // What is packed of a value.
    LANEPACK_DEVICE T part(T value, u32 code) const {
        return static_cast<T>(code) << right | (value >> zeros & right_mask);
    }
};

template <class T>
LANEPACK_DEVICE void rd_measure(const AlpRdArguments& args) {
    const Source& source = args.source;
    const u64 vector = static_cast<u64>(blockIdx.x) * (MEASURE_THREADS / WARP) + warp_in_block();
    if (rows_of(source, vector) == 0) return;
    const RdTotals& totals = args.totals[vector / source.chunk_vectors];
    if (totals.cut == 0) return;
    const Cutter<T> cutter(totals);
    const VectorReader<T> reader(source, vector);
    const bool is_whole = source.valid == nullptr && reader.rows == VECTOR;
    const u32 lane = threadIdx.x % WARP;
    u32 exceptions = 0;
    constexpr u32 STEPS = VECTOR / (WARP * PIECE<T>);
#pragma unroll 1
    for (u32 first = 0; first < STEPS; first += 8) {
        uint4 pieces[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) pieces[i] = reader.piece(((first + i) * WARP + lane) * PIECE<T>);
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u32 position = ((first + i) * WARP + lane) * PIECE<T>;
            const u32 valid =
                is_whole ? low_bits<u32>(PIECE<T>) : valid_piece<T>(source, vector, position);
#pragma unroll
            for (u32 k = 0; k < PIECE<T>; k++) {
                const bool is_exception = cutter.code(value_of<T>(pieces[i], k)) == MOST_ENTRIES;
                if (is_exception && (valid >> k & 1) != 0) exceptions++;
            }
        }
    }
    exceptions = __reduce_add_sync(FULL, exceptions);
    // Where they lie is put beside their number later.
    if (lane == 0) args.locators[vector] = exceptions;
}

LANEPACK_KERNEL(rd_measure_32, MEASURE_THREADS, 6, AlpRdArguments) { rd_measure<u32>(args); }
LANEPACK_KERNEL(rd_measure_64, MEASURE_THREADS, 6, AlpRdArguments) { rd_measure<u64>(args); }

template <class T>
LANEPACK_DEVICE void rd_layout(const AlpRdArguments& args) {
    LANEPACK_SHARED(u32[LAYOUT_THREADS / WARP], sums);
    const u64 first = static_cast<u64>(blockIdx.x) * args.source.chunk_vectors;
    const u64 vector = first + threadIdx.x;
    RdTotals& totals = args.totals[blockIdx.x];
    if (totals.cut == 0) return;
    const bool is_one = threadIdx.x < args.source.chunk_vectors && rows_of(args.source, vector) > 0;
    const u32 exceptions = is_one ? args.locators[vector] : 0;
    u32 end, count;
    const u32 offset = block_sum_before(block_units<T>(exceptions), sums, end);
    block_sum_before(exceptions, sums, count);
    if (exceptions > 0) args.locators[vector] = exceptions | offset << LOCATOR_COUNT_BITS;
    if (threadIdx.x == 0) {
        totals.exceptions = count;
        totals.exceptions_end = end;
    }
}

LANEPACK_KERNEL(rd_layout_32, LAYOUT_THREADS, 1, AlpRdArguments) { rd_layout<u32>(args); }
LANEPACK_KERNEL(rd_layout_64, LAYOUT_THREADS, 1, AlpRdArguments) { rd_layout<u64>(args); }

template <class T>
LANEPACK_DEVICE void rd_pack(const AlpRdArguments& args) {
    const Target& target = args.targets[blockIdx.x / args.blocks_per_target];
    const u32 in_chunk = blockIdx.x % args.blocks_per_target * (PACK_THREADS / PACK_LANES) +
                         threadIdx.x / PACK_LANES;
    const u32 vectors = (target.rows + VECTOR - 1) / VECTOR;
    if (in_chunk >= vectors) return;
    const u64 vector = target.vector + in_chunk;
    const u32 thread = threadIdx.x % PACK_LANES;
    const Source& source = args.source;
    const RdTotals& totals = args.totals[vector / source.chunk_vectors];
    const Cutter<T> cutter(totals);
    const u32 locator = args.locators[vector];
    const u32 exceptions = locator & ((1u << LOCATOR_COUNT_BITS) - 1);
    if (thread == 0) {
        u16* dictionary = reinterpret_cast<u16*>(target.buffer[1]);
        if (in_chunk == 0) {
            for (u32 i = 0; i < MOST_ENTRIES; i++) dictionary[i] = totals.dictionary[i];
        }
        // No third buffer, no locators.
        if (target.buffer[2] != nullptr) {
            reinterpret_cast<u32*>(dictionary + MOST_ENTRIES)[in_chunk] = locator;
        }
    }
    const VectorReader<T> reader(source, vector);
    const bool is_whole = source.valid == nullptr && reader.rows == VECTOR;
    LinePacker<T> packer(target.buffer[0], in_chunk * cutter.width | cutter.width << 24, thread);
    // For each of this thread's lanes, the rows of exceptions.
    T failed[PIECE<T>];
#pragma unroll
    for (u32 k = 0; k < PIECE<T>; k++) failed[k] = 0;
    if (cutter.width > 0 || exceptions > 0) {
#pragma unroll 1
        for (u32 group = 0; group < ROWS<T> / 8; group++) {
            uint4 pieces[8];
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                pieces[i] = reader.piece(lanepack::index(group * 8 + i, thread * PIECE<T>));
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
                    const T value = value_of<T>(pieces[i], k);
                    const u32 code = cutter.code(value);
                    const bool ok = code < MOST_ENTRIES;
                    const bool is_valid = (valid >> k & 1) != 0;
                    packed[k] = ok && is_valid ? cutter.part(value, code) : T{0};
                    if (!ok && is_valid) failed[k] |= T{1} << row;
                }
                if (cutter.width > 0) packer.push(piece_of<T>(packed));
            }
        }
    }
    write_block<T>(target.buffer[2], locator, thread, failed, [&](u32 row, u32 lane) {
        return reader.value(lanepack::index(row, lane));
    });
}

LANEPACK_KERNEL(rd_pack_32, PACK_THREADS, 10, AlpRdArguments) { rd_pack<u32>(args); }
LANEPACK_KERNEL(rd_pack_64, PACK_THREADS, 10, AlpRdArguments) { rd_pack<u64>(args); }

}  // namespace lanepack
