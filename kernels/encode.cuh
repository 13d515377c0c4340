// What the encoders share: a column as Arrow lays it out, arguments, and small reductions.
//
//   measure   every vector: bounds (encode_patches.cu) or exponents (encode_alp.cu), exceptions
//             of reals (encode_alp_rd.cu), reads all values; windows, and what is searched for
//             other encodings, of vectors that estimates look at, and of others after planning
//   layout    every chunk: where its vectors' packed words and exceptions begin, totals for the host
//   (host)    chooses encodings, lays out bodies, allocates exactly
//   write     every vector to its place in a body; reads all values again
//
// Values are read twice rather than kept: there is no scratch but what is known of
// vectors, 31 to 80 bytes each, and the quotients, codes and runs of chunks that have them
// (encode_rows.cuh) and the bytes of bits, which are measured and written as values are.
#pragma once

#include "lanepack/order.cuh"
#include "launch.cuh"

namespace lanepack {

// A column to be compressed. Its vectors are numbered through all chunks, which have
// `chunk_vectors` each but for the last.
struct Source {
    // Row 0.
    const u8* values;
    // A bit for each row, row 0's is bit `valid_at`, below 32; null if all are valid.
    const u32* valid;
    u64 rows;
    u32 valid_at;
    // Words from one value to the next: 1, or the words of a wide value.
    u32 stride;
    u32 chunk_vectors;
    // UNSIGNED, SIGNED or FLOAT.
    u32 order;
    // Rows of each chunk, for words that are derived from others and fill none; null if all
    // chunks but the last are full.
    const u32* chunk_rows;
};

// Where the rows of the chunk of vector `vector` end.
LANEPACK_DEVICE u64 end_of(const Source& source, u64 vector) {
    if (source.chunk_rows == nullptr || vector * VECTOR >= source.rows) return source.rows;
    const u64 chunk = vector / source.chunk_vectors;
    return chunk * source.chunk_vectors * VECTOR + source.chunk_rows[chunk];
}

// Word `word` of a bitmap of which `bits` bits count: the last one may lie in memory of
// others, which ends with the byte of the last bit.
LANEPACK_DEVICE u32 bitmap_word(const u32* bitmap, u64 word, u64 bits) {
    if ((word + 1) * 32 <= bits) return __ldg(bitmap + word);
    u32 value = 0;
    for (u32 i = 0; i < 4 && word * 32 + i * 8 < bits; i++) {
        value |= static_cast<u32>(__ldg(reinterpret_cast<const u8*>(bitmap + word) + i)) << i * 8;
    }
    return value;
}

// Bit i: row `row` + i exists and is valid; `row` is a multiple of 32.
LANEPACK_DEVICE u32 valid_rows(const Source& source, u64 row) {
    const u64 end = end_of(source, row / VECTOR);
    if (row >= end) return 0;
    const u64 left = end - row;
    const u32 exist = left >= 32 ? FULL : FULL >> (32 - static_cast<u32>(left));
    if (source.valid == nullptr) return exist;
    const u64 bit = source.valid_at + row;
    const u32 shift = bit % 32;
    const u64 bits = source.valid_at + source.rows;
    const u32 low = bitmap_word(source.valid, bit / 32, bits);
    const u32 high = shift + left > 32 && shift > 0 ? bitmap_word(source.valid, bit / 32 + 1, bits) : 0;
    return __funnelshift_r(low, high, shift) & exist;
}

// The rows of a vector that exist.
LANEPACK_DEVICE u32 rows_of(const Source& source, u64 vector) {
    const u64 row = vector * VECTOR;
    const u64 end = end_of(source, vector);
    if (row >= end) return 0;
    return end - row < VECTOR ? static_cast<u32>(end - row) : VECTOR;
}

// The rows of a chunk that exist.
LANEPACK_DEVICE u32 rows_of_chunk(const Source& source, u32 chunk) {
    const u64 first = static_cast<u64>(chunk) * source.chunk_vectors;
    const u64 left = end_of(source, first) - first * VECTOR;
    const u32 most = source.chunk_vectors * VECTOR;
    return left < most ? static_cast<u32>(left) : most;
}

// A vector of a source, read piece by piece.
template <class T>
struct VectorReader {
    const T* values;
    u32 rows;
    u32 stride;
    // Whether pieces can be read as they are.
    bool is_direct;

    LANEPACK_DEVICE VectorReader(const Source& source, u64 vector) {
        stride = source.stride;
        values = reinterpret_cast<const T*>(source.values) + vector * VECTOR * stride;
        rows = rows_of(source, vector);
        is_direct = stride == 1 && rows == VECTOR && reinterpret_cast<u64>(values) % 16 == 0;
    }

    LANEPACK_DEVICE T value(u32 position) const {
        return __ldg(values + static_cast<u64>(position) * stride);
    }

    // Values `position` to `position` + PIECE - 1; zeros past the end.
    LANEPACK_DEVICE uint4 piece(u32 position) const {
        if (is_direct) return __ldcs(reinterpret_cast<const uint4*>(values + position));
        T parts[PIECE<T>];
#pragma unroll
        for (u32 i = 0; i < PIECE<T>; i++) parts[i] = position + i < rows ? value(position + i) : T{0};
        return piece_of<T>(parts);
    }
};

// Value i of a piece.
template <class T>
LANEPACK_DEVICE T value_of(uint4 piece, u32 i) {
    const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
    if constexpr (sizeof(T) == 8) {
        return join(words[2 * i], words[2 * i + 1]);
    } else {
        return static_cast<T>(words[i * sizeof(T) / 4] >> i * ROWS<T> % 32);
    }
}

// The valid ones of the rows of a piece of vector `vector`, from `position` on.
template <class T>
LANEPACK_DEVICE u32 valid_piece(const Source& source, u64 vector, u32 position) {
    const u32 word = valid_rows(source, vector * VECTOR + position / 32 * 32);
    return word >> position % 32 & low_bits<u32>(PIECE<T>);
}

// All ones in the values of a piece whose bit in `chosen` is set.
template <class T>
LANEPACK_DEVICE uint4 spread(u32 chosen) {
    u32 words[4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        if constexpr (sizeof(T) >= 4) {
            words[i] = chosen >> i * 4 / sizeof(T) & 1 ? FULL : 0;
        } else {
            words[i] = 0;
#pragma unroll
            for (u32 k = 0; k < 4 / sizeof(T); k++) {
                const u32 bit = chosen >> (i * (4 / sizeof(T)) + k) & 1;
                words[i] |= (bit != 0 ? low_bits<u32>(ROWS<T>) : 0) << k * ROWS<T>;
            }
        }
    }
    return uint4{words[0], words[1], words[2], words[3]};
}

// The signed type of the same size.
LANEPACK_DEVICE i32 signed_of(u32 value) { return static_cast<i32>(value); }
LANEPACK_DEVICE i64 signed_of(u64 value) { return static_cast<i64>(value); }

// Reductions over a warp; every thread gets the result.
LANEPACK_DEVICE u32 warp_min(u32 value) { return __reduce_min_sync(FULL, value); }
LANEPACK_DEVICE u32 warp_max(u32 value) { return __reduce_max_sync(FULL, value); }
LANEPACK_DEVICE u64 warp_min(u64 value) {
    const u32 high = warp_min(static_cast<u32>(value >> 32));
    return join(warp_min(value >> 32 == high ? static_cast<u32>(value) : FULL), high);
}
LANEPACK_DEVICE u64 warp_max(u64 value) {
    const u32 high = warp_max(static_cast<u32>(value >> 32));
    return join(warp_max(value >> 32 == high ? static_cast<u32>(value) : 0), high);
}

// The sum over the lanes below.
LANEPACK_DEVICE u32 warp_sum_before(u32 value) { return sum_upto(value) - value; }

// The sum over the threads below in a block; `sums` is shared, a word for each warp.
LANEPACK_DEVICE u32 block_sum_before(u32 value, u32* sums, u32& total) {
    const u32 before = warp_sum_before(value);
    const u32 warp = threadIdx.x / WARP;
    __syncthreads();
    if (threadIdx.x % WARP == WARP - 1) sums[warp] = before + value;
    __syncthreads();
    u32 offset = 0;
    total = 0;
    for (u32 i = 0; i < blockDim.x / WARP; i++) {
        if (i < warp) offset += sums[i];
        total += sums[i];
    }
    return offset + before;
}

// The same of several numbers, with the total of each; `sums` has as many words for each
// warp, and is not in use.
template <u32 COUNT>
LANEPACK_DEVICE void block_sums_before(u32 (&values)[COUNT], u32* sums, u32 (&totals)[COUNT]) {
    const u32 warp = threadIdx.x / WARP;
#pragma unroll
    for (u32 k = 0; k < COUNT; k++) {
        const u32 upto = sum_upto(values[k]);
        if (threadIdx.x % WARP == WARP - 1) sums[warp * COUNT + k] = upto;
        values[k] = upto - values[k];
        totals[k] = 0;
    }
    __syncthreads();
    for (u32 i = 0; i < blockDim.x / WARP; i++) {
#pragma unroll
        for (u32 k = 0; k < COUNT; k++) {
            if (i < warp) values[k] += sums[i * COUNT + k];
            totals[k] += sums[i * COUNT + k];
        }
    }
}

// The least `low` and the greatest `high` of a block's threads, in thread 0; `ends` is
// shared, two words for each warp.
LANEPACK_DEVICE void bounds_of_block(u64& low, u64& high, u64* ends) {
    low = warp_min(low);
    high = warp_max(high);
    const u32 warp = threadIdx.x / WARP;
    if (threadIdx.x % WARP == 0) {
        ends[2 * warp] = low;
        ends[2 * warp + 1] = high;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (u32 i = 1; i < blockDim.x / WARP; i++) {
        low = min(low, ends[2 * i]);
        high = max(high, ends[2 * i + 1]);
    }
}

// Every value of a piece shifted towards higher bits, or lower ones, by less than its width.
template <class T>
LANEPACK_DEVICE uint4 shift_up(uint4 piece, u32 by) {
    if constexpr (sizeof(T) == 8) {
        const u64 x = join(piece.x, piece.y) << by;
        const u64 y = join(piece.z, piece.w) << by;
        return uint4{static_cast<u32>(x), static_cast<u32>(x >> 32), static_cast<u32>(y),
                     static_cast<u32>(y >> 32)};
    } else {
        const u32 mask = repeat<T>(low_bits<u32>(ROWS<T> - by) << by);
        return uint4{piece.x << by & mask, piece.y << by & mask, piece.z << by & mask, piece.w << by & mask};
    }
}
template <class T>
LANEPACK_DEVICE uint4 shift_down(uint4 piece, u32 by) {
    if constexpr (sizeof(T) == 8) {
        const u64 x = join(piece.x, piece.y) >> by;
        const u64 y = join(piece.z, piece.w) >> by;
        return uint4{static_cast<u32>(x), static_cast<u32>(x >> 32), static_cast<u32>(y),
                     static_cast<u32>(y >> 32)};
    } else {
        const u32 mask = repeat<T>(low_bits<u32>(ROWS<T> - by));
        return uint4{piece.x >> by & mask, piece.y >> by & mask, piece.z >> by & mask, piece.w >> by & mask};
    }
}

// x - y, value by value, in two or four values of a word.
template <class T>
LANEPACK_DEVICE u32 subtract_in_word(u32 x, u32 y) {
    if constexpr (sizeof(T) == 4) {
        return x - y;
    } else {
        // The top bit of each value keeps borrows from its neighbour.
        const u32 tops = repeat<T>(1u << (ROWS<T> - 1));
        return ((x | tops) - (y & ~tops)) ^ ((x ^ ~y) & tops);
    }
}

template <class T>
LANEPACK_DEVICE uint4 subtract(uint4 piece, T base) {
    if constexpr (sizeof(T) == 8) {
        const u64 x = join(piece.x, piece.y) - base;
        const u64 y = join(piece.z, piece.w) - base;
        return uint4{static_cast<u32>(x), static_cast<u32>(x >> 32), static_cast<u32>(y),
                     static_cast<u32>(y >> 32)};
    } else {
        const u32 y = repeat<T>(base);
        return uint4{subtract_in_word<T>(piece.x, y), subtract_in_word<T>(piece.y, y),
                     subtract_in_word<T>(piece.z, y), subtract_in_word<T>(piece.w, y)};
    }
}

LANEPACK_DEVICE uint4 both(uint4 x, uint4 y) {
    return uint4{x.x & y.x, x.y & y.y, x.z & y.z, x.w & y.w};
}

// Packs the rows of a vector, one piece of each in a thread: piece `thread` of every line.
template <class T>
struct LinePacker {
    uint4* out;
    u32 width;
    u32 shift;
    uint4 line;

    LANEPACK_DEVICE LinePacker(u8* packed, u32 place, u32 thread) {
        out = reinterpret_cast<uint4*>(packed + static_cast<u64>(place & 0xffffff) * PACKED_UNIT) + thread;
        width = place >> 24;
        shift = 0;
        line = uint4{0, 0, 0, 0};
    }

    // The next row; values are below 2^width.
    LANEPACK_DEVICE void push(uint4 piece) {
        const uint4 up = shift_up<T>(piece, shift);
        line = uint4{line.x | up.x, line.y | up.y, line.z | up.z, line.w | up.w};
        shift += width;
        if (shift >= ROWS<T>) {
            *out = line;
            out += PACKED_UNIT / 16;
            shift -= ROWS<T>;
            line = shift == 0 ? uint4{0, 0, 0, 0} : shift_down<T>(piece, width - shift);
        }
    }
};

// Bits of a number.
LANEPACK_DEVICE u32 bits_of(u64 number) {
    return 64 - static_cast<u32>(__clzll(static_cast<i64>(number)));
}

// Bins of the histogram that proposes windows; one value in so many goes into it.
constexpr u32 BIN_BITS = 6;
constexpr u32 BINS = 1 << BIN_BITS;
constexpr u32 BIN_STRIDE = 4;

// Whether the value at a position does: not at the same place in each group, for columns with
// a period.
LANEPACK_DEVICE bool is_in_histogram(u32 position) { return (position & 3) == (position >> 2 & 3); }

// The most values in `window` neighbouring bins; `below` counts values below each bin.
LANEPACK_DEVICE u32 cover(const u32* below, u32 window) {
    u32 most = 0;
    for (u32 bin = threadIdx.x % WARP; bin + window <= BINS; bin += WARP) {
        most = max(most, below[bin + window] - below[bin]);
    }
    return warp_max(most);
}

// Bytes that offsets of blocks of exceptions count in.
template <class T>
constexpr u32 BLOCK_UNIT = sizeof(T) == 1 ? 2 : static_cast<u32>(sizeof(T));

// Where the slots begin in a block of exceptions, in bytes.
template <class T>
LANEPACK_DEVICE u32 slots_at(u32 exceptions) {
    return (exceptions * static_cast<u32>(sizeof(T)) + 1) / 2 * 2;
}

// Units of a block of exceptions.
template <class T>
LANEPACK_DEVICE u32 block_units(u32 exceptions) {
    return (slots_at<T>(exceptions) + exceptions * 2 + BLOCK_UNIT<T> - 1) / BLOCK_UNIT<T>;
}

// Writes the block of a vector's exceptions, by lane and row, with the PACK_LANES threads
// that pack it: `failed` has the rows of exceptions of each of this thread's lanes,
// `value(row, lane)` gives them.
template <class T, class Value>
LANEPACK_DEVICE void write_block(u8* blocks, u32 locator, u32 thread, const T (&failed)[PIECE<T>],
                                 const Value& value) {
    const u32 exceptions = locator & ((1u << LOCATOR_COUNT_BITS) - 1);
    if (exceptions == 0) return;
    u32 mine = 0;
#pragma unroll
    for (u32 k = 0; k < PIECE<T>; k++) mine += static_cast<u32>(__popcll(failed[k]));
    // Lanes follow each other in the threads of a vector, which are not all of a warp.
    const u32 group_mask = 0xffu << threadIdx.x % WARP / PACK_LANES * PACK_LANES;
    u32 before = mine;
#pragma unroll
    for (u32 step = 1; step < PACK_LANES; step *= 2) {
        const u32 other = __shfl_up_sync(group_mask, before, step, PACK_LANES);
        if (thread >= step) before += other;
    }
    u32 number = before - mine;
    u8* block = blocks + (locator >> LOCATOR_COUNT_BITS) * BLOCK_UNIT<T>;
    u16* slots = reinterpret_cast<u16*>(block + slots_at<T>(exceptions));
#pragma unroll
    for (u32 k = 0; k < PIECE<T>; k++) {
        const u32 lane = thread * PIECE<T> + k;
        for (T rows = failed[k]; rows != 0; rows &= rows - 1) {
            const u32 row = static_cast<u32>(__ffsll(static_cast<i64>(rows))) - 1;
            reinterpret_cast<T*>(block)[number] = value(row, lane);
            slots[number] = static_cast<u16>(lane * ROWS<T> + row);
            number++;
        }
    }
    if (thread != PACK_LANES - 1) return;
    if (sizeof(T) == 1 && exceptions % 2 != 0) block[exceptions] = 0;
    constexpr u32 SLOTS = BLOCK_UNIT<T> / 2;
    const u32 first = slots_at<T>(exceptions) / 2;
    for (u32 i = exceptions; (first + i) % SLOTS != 0; i++) slots[i] = 0;
}

// Vectors that estimates look at: at most 16 of a chunk, evenly spread.
constexpr u32 SAMPLED_VECTORS = 16;

LANEPACK_DEVICE bool is_sampled(u32 vector, u32 vectors) {
    const u32 count = vectors < SAMPLED_VECTORS ? vectors : SAMPLED_VECTORS;
    // Sample i is vector i * vectors / count: the least i that gets there.
    const u32 i = (vector * count + vectors - 1) / vectors;
    return i < count && i * vectors / count == vector;
}

// What a chunk's vectors come to, as they are or as an encoding turns them into others.
struct ChunkTotals {
    // Bounds of the valid values, ordered; low above high if there are none.
    u64 low;
    u64 high;
    // Units of packed words of all values, and of those of the sampled vectors.
    u32 units;
    u32 sampled_units;
    // With exceptions (pfor, alp): the same, exceptions, and units of their blocks, of all
    // vectors and of the sampled ones.
    u32 patched_units;
    u32 sampled_patched_units;
    u32 exceptions;
    u32 block_units;
    u32 sampled_block_units;
    u32 zero;
};

// What is known of the vectors of a column of words of type T, or of what an encoding turns them
// into before they are packed.
struct VectorMeasures {
    // T for each vector: bounds, ordered; low above high if it has no valid value.
    u8* lows;
    u8* highs;
    // Places as in the format; the width alone until layout.
    u32* places;
    // With exceptions: T, the least that is packed; places; locators as in the format, the
    // count alone until layout. Null if not asked for.
    u8* bases;
    u32* patched_places;
    u32* locators;
    // T for each vector, where what an encoding turns it into starts; null of vectors as they are.
    u8* starts;
    // For each chunk.
    ChunkTotals* totals;
};

// How a vector is packed.
template <class T>
struct Packing {
    T base;
    u32 place;
    u32 locator;

    LANEPACK_DEVICE Packing(const VectorMeasures& of, u64 vector, u32 order, bool is_patched) {
        if (is_patched) {
            base = reinterpret_cast<const T*>(of.bases)[vector];
            place = of.patched_places[vector];
            locator = of.locators[vector];
            return;
        }
        const T low = reinterpret_cast<const T*>(of.lows)[vector];
        const T high = reinterpret_cast<const T*>(of.highs)[vector];
        base = low <= high ? unordered(low, order) : T{0};
        place = of.places[vector];
        locator = 0;
    }

    // Writes what the node keeps of vector `index` of `vectors`; returns where locators go.
    LANEPACK_DEVICE u32* write(u8* parameters, u32 vectors, u32 index) const {
        const u32 places_at = (vectors * static_cast<u32>(sizeof(T)) + 3) / 4 * 4;
        u32* places = reinterpret_cast<u32*>(parameters + places_at);
        reinterpret_cast<T*>(parameters)[index] = base;
        places[index] = place;
        return places + vectors;
    }
};

// Of which vectors something is searched for: of all; of those that estimates look at; or of the
// others, in chunks that are asked for.
constexpr u32 MEASURE_ALL = 0;
constexpr u32 MEASURE_SAMPLED = 1;
constexpr u32 MEASURE_REST = 2;

// A chunk, and what of it is asked for: the encodings that need it, as bits by their ids. Windows
// are what PFOR needs.
struct AskedChunk {
    u32 chunk;
    u32 asked;
};

// Vectors of a column, measured: bounds_* (a warp a vector), windows_* and other searches
// (blocks_per_chunk blocks a chunk).
struct MeasureArguments {
    Source source;
    VectorMeasures of;
    // Null for all chunks, and everything of them.
    const AskedChunk* chunks;
    u32 blocks_per_chunk;
    u32 which;
};

// Bounds of vectors of values of `stride` words of 64 bits, and how many words they
// need. The top word is signed; in `low` and `high` its sign is flipped.
struct WideBounds {
    u64 low[4];
    u64 high[4];
    u32 words;
    u32 valid;
};

// wide_bounds_*.
struct WideBoundsArguments {
    Source source;
    WideBounds* bounds;
};

// Offsets and totals: layout_*. A block a chunk, those that were measured. Totals of
// MEASURE_SAMPLED are those of the sampled vectors, but for the bounds of values, which all have;
// in chunks that have no other vectors nothing is left to measure.
struct LayoutArguments {
    Source source;
    VectorMeasures of;
    // As measured; and the encoding, as a bit, that `of` is measured for.
    const AskedChunk* chunks;
    u32 which;
    u32 what;
};

// A chunk's node to be written.
struct Target {
    // Its buffers.
    u8* buffer[3];
    // The chunk's first vector, and rows.
    u64 vector;
    u32 rows;
    u32 zero;
};

// ffor and pfor nodes: pack_*, pack_patched_*, and of words that are turned into others.
struct PackArguments {
    Source source;
    const Target* targets;
    VectorMeasures of;
    u32 blocks_per_target;
    // Of words that are turned into others: whether with exceptions.
    u32 is_patched;
};

// plain nodes of words: copy_*. A row has `row_words` words in the node.
struct CopyArguments {
    Source source;
    const Target* targets;
    u32 blocks_per_target;
    u32 row_words;
};

// Bits of chunks, counted and copied: count_bits, copy_bits. Values are bits here,
// row 0's is bit `values_at` of `source.values`.
struct CopyBitsArguments {
    Source source;
    const Target* targets;
    // For each chunk its valid rows and the set bits among them.
    uint2* counts;
    u32 blocks_per_target;
    u32 values_at;
};

// A gap between or in buffers, whose bytes become zeros.
struct Gap {
    u8* at;
    u64 bytes;
};

// gaps.
struct GapsArguments {
    const Gap* gaps;
    u64 count;
};

// Exponents that a chunk's vectors try.
constexpr u32 MAX_CANDIDATES = 5;

// Exponents that the vectors of a chunk try; only kernels read them.
struct Candidates {
    u32 count;
    u8 e[6];
    u8 f[6];
};

// What is known of a vector of floats; only kernels read it.
struct AlpChoice {
    // As in the format.
    u64 scale;
    u32 width;
    u32 exceptions;
};

// alp nodes: alp_candidates_* (a block a chunk), alp_choose_* (a warp a vector),
// alp_layout_* (a block a chunk), alp_pack_*.
struct AlpArguments {
    Source source;
    Candidates* candidates;
    AlpChoice* choices;
    // T for each vector: bounds in total order.
    u8* lows;
    u8* highs;
    u32* places;
    u32* locators;
    ChunkTotals* totals;
    const Target* targets;
    u32 blocks_per_target;
    u32 zero;
};

// Left parts of a dictionary of alp_rd.
constexpr u32 MOST_ENTRIES = 8;

// What a chunk comes to as alp_rd.
struct RdTotals {
    u16 dictionary[MOST_ENTRIES];
    // The node's parameter 1; 0 of a chunk that alp_rd does not pay for.
    u32 cut;
    // Bits that the sample takes.
    u32 cost;
    // Exceptions, and where the last block ends, in values.
    u32 exceptions;
    u32 exceptions_end;
};

// alp_rd nodes: rd_cut_* (a block a chunk), rd_measure_* (a warp a vector), rd_layout_* (a
// block a chunk), rd_pack_*.
struct AlpRdArguments {
    Source source;
    // What chunks come to as alp; null if that is not allowed.
    const ChunkTotals* alp;
    RdTotals* totals;
    u32* locators;
    const Target* targets;
    u32 blocks_per_target;
    u32 zero;
};

}  // namespace lanepack
