// Integers of 8 to 64 bits to ffor, words to plain, bits to plain.
//
// pack: eight threads take a vector, each the same 16 bytes of every line
// (kernels/lanepack/lanes.cuh): its values of eight rows at a time, shifted alike into the
// line under way. On an NVIDIA H200 it reads 3.5 TB/s of 64 to 8 bits, with memory busy 77 %
// of the time.
#include "encode.cuh"

namespace lanepack {

// Whether x is below y, word by word from the top one.
template <u32 WORDS>
LANEPACK_DEVICE bool is_below(const u64* x, const u64* y) {
    bool below = false;
#pragma unroll
    for (u32 i = 0; i < WORDS; i++) below = x[i] < y[i] || (x[i] == y[i] && below);
    return below;
}

// A warp takes a vector.
template <u32 WORDS>
LANEPACK_DEVICE void wide_bounds(const WideBoundsArguments& args) {
    const Source& source = args.source;
    const u64 vector = static_cast<u64>(blockIdx.x) * (MEASURE_THREADS / WARP) + warp_in_block();
    if (rows_of(source, vector) == 0) return;
    const u32 lane = threadIdx.x % WARP;
    constexpr u64 SIGN = u64{1} << 63;
    u64 low[WORDS];
    u64 high[WORDS];
#pragma unroll
    for (u32 i = 0; i < WORDS; i++) low[i] = ~u64{0}, high[i] = 0;
    u32 words = 1;
    u32 count = 0;
#pragma unroll 2
    for (u32 i = 0; i < VECTOR / WARP; i++) {
        const u64 row = vector * VECTOR + i * WARP;
        const u32 valid = valid_rows(source, row);
        count += static_cast<u32>(__popc(valid));
        if ((valid >> lane & 1) == 0) continue;
        const u64* from = reinterpret_cast<const u64*>(source.values) + (row + lane) * source.stride;
        u64 value[WORDS];
#pragma unroll
        for (u32 k = 0; k < WORDS; k++) value[k] = __ldg(from + k);
#pragma unroll
        for (u32 k = 1; k < WORDS; k++) {
            // A word is needed if it is not the sign of the one below.
            const u64 sign = (value[k - 1] & SIGN) != 0 ? ~u64{0} : 0;
            if (value[k] != sign && words < k + 1) words = k + 1;
        }
        value[WORDS - 1] ^= SIGN;
        const bool is_low = is_below<WORDS>(value, low);
        const bool is_high = is_below<WORDS>(high, value);
#pragma unroll
        for (u32 k = 0; k < WORDS; k++) {
            low[k] = is_low ? value[k] : low[k];
            high[k] = is_high ? value[k] : high[k];
        }
    }
#pragma unroll
    for (u32 step = WARP / 2; step > 0; step /= 2) {
        u64 other_low[WORDS];
        u64 other_high[WORDS];
#pragma unroll
        for (u32 k = 0; k < WORDS; k++) {
            other_low[k] = __shfl_xor_sync(FULL, low[k], step);
            other_high[k] = __shfl_xor_sync(FULL, high[k], step);
        }
        const bool is_low = is_below<WORDS>(other_low, low);
        const bool is_high = is_below<WORDS>(high, other_high);
#pragma unroll
        for (u32 k = 0; k < WORDS; k++) {
            low[k] = is_low ? other_low[k] : low[k];
            high[k] = is_high ? other_high[k] : high[k];
        }
    }
    words = warp_max(words);
    if (lane == 0) {
        WideBounds bounds{};
#pragma unroll
        for (u32 k = 0; k < WORDS; k++) {
            bounds.low[k] = low[k];
            bounds.high[k] = high[k];
        }
        bounds.words = words;
        bounds.valid = count;
        args.bounds[vector] = bounds;
    }
}

LANEPACK_KERNEL(wide_bounds_128, MEASURE_THREADS, 8, WideBoundsArguments) { wide_bounds<2>(args); }
LANEPACK_KERNEL(wide_bounds_256, MEASURE_THREADS, 8, WideBoundsArguments) { wide_bounds<4>(args); }

// A thread a vector: MAX_CHUNK_ROWS / VECTOR of them.
template <class T>
LANEPACK_DEVICE void layout(const LayoutArguments& args) {
    static_assert(LAYOUT_THREADS == MAX_CHUNK_ROWS / VECTOR, "a thread a vector");
    constexpr u32 SUMS = 7;
    LANEPACK_SHARED(u32[SUMS * LAYOUT_THREADS / WARP], sums);
    LANEPACK_SHARED(u64[2 * LAYOUT_THREADS / WARP], ends);
    const AskedChunk own{blockIdx.x, args.what};
    const AskedChunk asked = args.chunks == nullptr ? own : args.chunks[blockIdx.x];
    if ((asked.asked & args.what) == 0) return;
    const VectorMeasures& of = args.of;
    const u64 first = static_cast<u64>(asked.chunk) * args.source.chunk_vectors;
    const u32 vectors = (rows_of_chunk(args.source, asked.chunk) + VECTOR - 1) / VECTOR;
    const u64 vector = first + threadIdx.x;
    const bool is_one = threadIdx.x < vectors;
    const bool is_in_sample = is_one && is_sampled(threadIdx.x, vectors);
    const bool is_last = args.which != MEASURE_SAMPLED || vectors <= SAMPLED_VECTORS;
    const bool is_measured = is_one && (is_last || is_in_sample);
    // All vectors have the bounds of their values.
    const bool has_bounds = is_measured || (is_one && of.starts == nullptr);
    u64 low = ~u64{0};
    u64 high = 0;
    u32 width = 0;
    if (has_bounds) {
        const T vector_low = reinterpret_cast<const T*>(of.lows)[vector];
        const T vector_high = reinterpret_cast<const T*>(of.highs)[vector];
        if (vector_low <= vector_high) {
            low = vector_low;
            high = vector_high;
            width = bits_of(high - low);
        }
    }
    const bool has_patches = is_measured && of.bases != nullptr;
    const u32 patched = has_patches ? of.patched_places[vector] >> 24 : 0;
    const u32 exceptions = has_patches ? of.locators[vector] : 0;
    const u32 blocks = block_units<T>(exceptions);
    u32 before[SUMS] = {width,
                        patched,
                        blocks,
                        exceptions,
                        is_in_sample ? width : 0,
                        is_in_sample ? patched : 0,
                        is_in_sample ? blocks : 0};
    u32 all[SUMS];
    block_sums_before(before, sums, all);
    if (has_bounds) of.places[vector] = before[0] | width << 24;
    if (has_patches && is_last) {
        of.patched_places[vector] = before[1] | patched << 24;
        of.locators[vector] = exceptions == 0 ? 0 : exceptions | before[2] << LOCATOR_COUNT_BITS;
    }
    ChunkTotals totals{};
    totals.units = all[0];
    totals.patched_units = all[1];
    totals.block_units = all[2];
    totals.exceptions = all[3];
    totals.sampled_units = all[4];
    totals.sampled_patched_units = all[5];
    totals.sampled_block_units = all[6];
    bounds_of_block(low, high, ends);
    if (threadIdx.x == 0) {
        totals.low = low;
        totals.high = high;
        of.totals[asked.chunk] = totals;
    }
}

LANEPACK_KERNEL(layout_8, LAYOUT_THREADS, 1, LayoutArguments) { layout<u8>(args); }
LANEPACK_KERNEL(layout_16, LAYOUT_THREADS, 1, LayoutArguments) { layout<u16>(args); }
LANEPACK_KERNEL(layout_32, LAYOUT_THREADS, 1, LayoutArguments) { layout<u32>(args); }
LANEPACK_KERNEL(layout_64, LAYOUT_THREADS, 1, LayoutArguments) { layout<u64>(args); }

template <class T>
LANEPACK_DEVICE void pack(const PackArguments& args) {
    const u32 target_index = blockIdx.x / args.blocks_per_target;
    const Target& target = args.targets[target_index];
    const u32 in_chunk = blockIdx.x % args.blocks_per_target * (PACK_THREADS / PACK_LANES) +
                         threadIdx.x / PACK_LANES;
    const u32 vectors = (target.rows + VECTOR - 1) / VECTOR;
    if (in_chunk >= vectors) return;
    const u64 vector = target.vector + in_chunk;
    const u32 thread = threadIdx.x % PACK_LANES;
    const Source& source = args.source;
    const Packing<T> packing(args.of, vector, source.order, false);
    if (thread == 0) packing.write(target.buffer[1], vectors, in_chunk);
    const T base = packing.base;
    const VectorReader<T> reader(source, vector);
    const bool is_whole = source.valid == nullptr && reader.rows == VECTOR;
    LinePacker<T> packer(target.buffer[0], packing.place, thread);
    if (packer.width == 0) return;
#pragma unroll 1
    for (u32 group = 0; group < ROWS<T> / 8; group++) {
        uint4 pieces[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u32 position = index(group * 8 + i, thread * PIECE<T>);
            pieces[i] = reader.piece(position);
        }
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            uint4 piece = subtract<T>(pieces[i], base);
            if (!is_whole) {
                const u32 position = index(group * 8 + i, thread * PIECE<T>);
                piece = both(piece, spread<T>(valid_piece<T>(source, vector, position)));
            }
            packer.push(piece);
        }
    }
}

LANEPACK_KERNEL(pack_8, PACK_THREADS, 12, PackArguments) { pack<u8>(args); }
LANEPACK_KERNEL(pack_16, PACK_THREADS, 12, PackArguments) { pack<u16>(args); }
LANEPACK_KERNEL(pack_32, PACK_THREADS, 12, PackArguments) { pack<u32>(args); }
LANEPACK_KERNEL(pack_64, PACK_THREADS, 14, PackArguments) { pack<u64>(args); }

// Words as they are, zero where null; behind the last one zeros to 64 bytes.
template <class T>
LANEPACK_DEVICE void copy(const CopyArguments& args) {
    const Target& target = args.targets[blockIdx.x / args.blocks_per_target];
    const u32 block = blockIdx.x % args.blocks_per_target;
    const u32 words = target.rows * args.row_words;
    const Source& source = args.source;
    const u64 first = target.vector * VECTOR;
    T* out = reinterpret_cast<T*>(target.buffer[0]);
#pragma unroll
    for (u32 i = 0; i < COPY_BYTES / COPY_THREADS / 16; i++) {
        const u32 word = (block * COPY_BYTES / 16 + i * COPY_THREADS + threadIdx.x) * PIECE<T>;
        if (word * sizeof(T) >= (words * sizeof(T) + 63) / 64 * 64) continue;
        uint4 piece{0, 0, 0, 0};
        if (args.row_words == 1 && (word + PIECE<T> <= words)) {
            const u64 vector = target.vector + word / VECTOR;
            piece = VectorReader<T>(source, vector).piece(word % VECTOR);
            if (source.valid != nullptr) {
                piece = both(piece, spread<T>(valid_piece<T>(source, vector, word % VECTOR)));
            }
        } else {
            T parts[PIECE<T>];
#pragma unroll
            for (u32 k = 0; k < PIECE<T>; k++) {
                parts[k] = 0;
                if (word + k >= words) continue;
                const u64 row = first + (word + k) / args.row_words;
                if ((valid_rows(source, row / 32 * 32) >> row % 32 & 1) == 0) continue;
                parts[k] = __ldg(reinterpret_cast<const T*>(source.values) + row * source.stride +
                                 (word + k) % args.row_words);
            }
            piece = piece_of<T>(parts);
        }
        __stcs(reinterpret_cast<uint4*>(out + word), piece);
    }
}

LANEPACK_KERNEL(copy_8, COPY_THREADS, 1, CopyArguments) { copy<u8>(args); }
LANEPACK_KERNEL(copy_16, COPY_THREADS, 1, CopyArguments) { copy<u16>(args); }
LANEPACK_KERNEL(copy_32, COPY_THREADS, 1, CopyArguments) { copy<u32>(args); }
LANEPACK_KERNEL(copy_64, COPY_THREADS, 1, CopyArguments) { copy<u64>(args); }

// 32 bits of a column of bits, zero where null or past the end.
LANEPACK_DEVICE u32 set_rows(const CopyBitsArguments& args, u64 row, u32 valid) {
    if (valid == 0 || args.source.values == nullptr) return valid;
    Source bits = args.source;
    bits.valid = reinterpret_cast<const u32*>(bits.values);
    bits.valid_at = args.values_at;
    return valid_rows(bits, row) & valid;
}

// A block counts BITS_THREADS words of a chunk of `chunk_vectors`.
LANEPACK_KERNEL(count_bits, BITS_THREADS, 1, CopyBitsArguments) {
    const u32 chunk = blockIdx.x / args.blocks_per_target;
    const u32 word = blockIdx.x % args.blocks_per_target * BITS_THREADS + threadIdx.x;
    const u64 row = static_cast<u64>(chunk) * args.source.chunk_vectors * VECTOR + word * 32;
    u32 valid = 0;
    if (word < args.source.chunk_vectors * (VECTOR / 32)) valid = valid_rows(args.source, row);
    const u32 set = set_rows(args, row, valid);
    const u32 valid_sum = __reduce_add_sync(FULL, static_cast<u32>(__popc(valid)));
    const u32 set_sum = __reduce_add_sync(FULL, static_cast<u32>(__popc(set)));
    if (threadIdx.x % WARP == 0 && valid_sum > 0) {
        atomicAdd(&args.counts[chunk].x, valid_sum);
        if (set_sum > 0) atomicAdd(&args.counts[chunk].y, set_sum);
    }
}

// A thread copies a word; behind the last one zeros to 64 bytes.
LANEPACK_KERNEL(copy_bits, BITS_THREADS, 1, CopyBitsArguments) {
    const Target& target = args.targets[blockIdx.x / args.blocks_per_target];
    const u32 word = blockIdx.x % args.blocks_per_target * BITS_THREADS + threadIdx.x;
    if (word >= (target.rows + 511) / 512 * 16) return;
    u32 set = 0;
    if (word * 32 < target.rows) {
        const u64 row = target.vector * VECTOR + word * 32;
        set = set_rows(args, row, valid_rows(args.source, row));
        // The next chunk begins at a multiple of 1,024 rows, the column may end here.
    }
    reinterpret_cast<u32*>(target.buffer[0])[word] = set;
}

// A thread a gap; they are shorter than 64 bytes.
LANEPACK_KERNEL(gaps, BITS_THREADS, 1, GapsArguments) {
    const u64 at = static_cast<u64>(blockIdx.x) * BITS_THREADS + threadIdx.x;
    if (at >= args.count) return;
    const Gap gap = args.gaps[at];
    for (u64 i = 0; i < gap.bytes; i++) gap.at[i] = 0;
}

}  // namespace lanepack
