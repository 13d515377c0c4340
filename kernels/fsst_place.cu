// From runs of codes in scratch (fsst_encode.cu) to the buffers of chunks.
//
//   fsst_chunks      where runs begin in their chunk, and what chunks come to; the host
//                    then has sizes, and places for the buffers
//   fsst_place       codes from scratch to their chunks, starts and tiles
//
// Figures and what was tried: docs/experiments.md.
#include "encode_arguments.cuh"
#include "lanepack/fsst_encode.cuh"
#include "launch.cuh"

namespace lanepack {

// Two sums over the threads before, by a block of FSST_CHUNKS_THREADS; `totals` are
// those of all threads.
LANEPACK_DEVICE uint2 scan_of_block(uint2 own, uint2& totals) {
    constexpr u32 WARPS = FSST_CHUNKS_THREADS / WARP;
    LANEPACK_SHARED(uint2[WARPS], sums);
    const u32 lane = threadIdx.x % WARP;
    const uint2 upto = make_uint2(sum_upto(own.x), sum_upto(own.y));
    __syncthreads();
    if (lane == WARP - 1) sums[threadIdx.x / WARP] = upto;
    __syncthreads();
    uint2 before = make_uint2(0, 0);
    totals = before;
#pragma unroll
    for (u32 warp = 0; warp < WARPS; ++warp) {
        if (warp == threadIdx.x / WARP) before = totals;
        totals = make_uint2(totals.x + sums[warp].x, totals.y + sums[warp].y);
    }
    return make_uint2(before.x + upto.x - own.x, before.y + upto.y - own.y);
}

// Where the tiles of a chunk are in tile_runs, given its first run.
LANEPACK_DEVICE u32* tiles_of(const StringsView& args, u32 chunk, u32 first_run) {
    return args.tile_runs + args.runs[first_run].unit / (TILE / UNIT) + chunk;
}

// A block scans the runs of a chunk, a few of each thread at a time. Small enough to find
// room beside a span whose codes are being made: the host waits for the sizes.
LANEPACK_KERNEL(fsst_chunks, FSST_CHUNKS_THREADS, 6, StringsView) {
    constexpr u32 EACH = 4;
    const u32 chunk_vectors = args.chunk_rows / VECTOR;
    const u32 first_run = args.vectors[args.first_vector].run;
    const u32 first_vector = args.first_vector + blockIdx.x * chunk_vectors;
    const u32 first = args.vectors[first_vector].run - first_run;
    const u32 end = args.vectors[min(first_vector + chunk_vectors, args.end_vector)].run - first_run;
    u32* const tiles = tiles_of(args, blockIdx.x, first);
    FsstPlace place = {0, 0};
    for (u32 base = first; base < end; base += EACH * FSST_CHUNKS_THREADS) {
        const u32 begin = base + EACH * threadIdx.x;
        uint2 own[EACH];
        uint2 sum = make_uint2(0, 0);
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            own[i] = sum;
            if (begin + i < end) {
                const FsstRun run = args.runs[begin + i];
                sum = make_uint2(sum.x + run.codes, sum.y + run.bytes);
            }
        }
        uint2 totals;
        const uint2 before = scan_of_block(sum, totals);
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            if (begin + i >= end) break;
            const u64 codes = place.codes + before.x + own[i].x;
            args.places[begin + i] = {codes, place.bytes + before.y + own[i].y};
            const u64 until = place.codes + before.x + (i + 1 < EACH ? own[i + 1].x : sum.x);
            for (u64 tile = (codes + TILE - 1) / TILE; tile * TILE < until; ++tile) tiles[tile] = begin + i;
        }
        place.codes += totals.x;
        place.bytes += totals.y;
    }
    if (threadIdx.x == 0) args.chunks[blockIdx.x] = place;
}

// Lengths of symbols by code; an escape stands for one byte.
struct FsstPlaceShared {
    u8 lengths[256];
    // Bytes before each tile of the group, and whether it begins inside an escape.
    u64 offsets[TILES_PER_GROUP];
    u32 inside[TILES_PER_GROUP];
};

// Some runs in a row, a lane each, and where each begins, from a tile's first code on.
struct TileRuns {
    FsstRun run;
    i32 start;

    // Adds codes from `at` on, counted from the tile's first, to the first `filled` of `unit`,
    // until it has as many as are wanted or these runs end: of the run that holds the next
    // code, and of the one behind it, which are on their way together. Gives how many there
    // are then. Called by whole warps.
    LANEPACK_DEVICE u32 fill(const StringsView& args, uint4& unit, u32 at, u32 filled, u32 wanted) const {
        at += filled;
        // The last run that begins no later: those without codes begin where the next one does.
        u32 index = 0;
#pragma unroll
        for (u32 step = WARP / 2; step > 0; step /= 2) {
            if (__shfl_sync(FULL, start, index + step) <= static_cast<i32>(at)) index += step;
        }
        const uint4* const all = reinterpret_cast<const uint4*>(args.codes);
        const u32 codes = __shfl_sync(FULL, run.codes, index);
        const u32 inside = static_cast<u32>(static_cast<i32>(at) - __shfl_sync(FULL, start, index));
        const u32 from = __shfl_sync(FULL, run.unit, index) + inside / UNIT;
        const u32 behind = min(index + 1, WARP - 1);
        const u32 behind_codes = __shfl_sync(FULL, run.codes, behind);
        const u32 behind_from = __shfl_sync(FULL, run.unit, behind);
        const u32 some = inside < codes ? min(wanted - filled, codes - inside) : 0;
        const u32 left = wanted - filled - some;
        const u32 more = some != 0 && behind != index ? min(left, behind_codes) : 0;
        if (some == 0) return filled;
        const u32 shift = inside % UNIT;
        uint4 next = all[from];
        uint4 after = next;
        uint4 last = next;
        if (shift + some > UNIT) after = all[from + 1];
        if (more != 0) last = all[behind_from];
        if (shift != 0) next = bytes_from(next, after, shift);
        unit = filled == 0 ? next : joined(unit, next, filled);
        filled += some;
        if (more != 0) unit = joined(unit, last, filled);
        return filled + more;
    }

    // The first `count` bytes of one, 1 to 15, then those of another.
    static LANEPACK_DEVICE uint4 joined(uint4 one, uint4 other, u32 count) {
        return bytes_from(bytes_from(one, one, count), other, UNIT - count);
    }
};

// The bytes that the first `until` codes of a run stand for, whose codes begin with a unit, by
// a warp; `inside` is whether an escape is the last, whose byte does not count.
LANEPACK_DEVICE u32 bytes_of(const StringsView& args, const u8* lengths, u32 unit, u32 until, u32& inside) {
    const u32 lane = threadIdx.x % WARP;
    const u8* const codes = args.codes + static_cast<u64>(unit) * UNIT;
    const u16* const marks = args.marks + unit / (MARK / UNIT);
    // From the last mark before, or the run's begin.
    u32 at = 0;
    u32 bytes = 0;
    for (u32 mark = until / MARK; mark > 0; --mark) {
        const u32 state = marks[mark - 1];
        at = mark * MARK + (state & ((1u << MARK_CODE_BITS) - 1));
        bytes = state >> MARK_CODE_BITS;
        if (at <= until) break;
        at = 0;
        bytes = 0;
    }
    // A byte belongs to an escape if an odd number of escapes stands right before it: where
    // all before it in these 32 bytes are, with what is carried from those before.
    u32 sum = 0;
    inside = 0;
    for (; at < until; at += WARP) {
        const u32 code = at + lane < until ? codes[at + lane] : 0;
        const u32 escapes = __ballot_sync(FULL, code == ESCAPE);
        const u32 after = lane == 0 ? FULL : ~(escapes << (WARP - lane));
        const u32 before = min(static_cast<u32>(__clz(static_cast<i32>(after))), lane);
        const bool literal = ((before + (before == lane ? inside : 0)) & 1) != 0;
        if (at + lane < until && !literal) sum += lengths[code];
        // The state behind these bytes, of which the last few may not be.
        const u32 count = min(until - at, WARP);
        inside = __shfl_sync(FULL, code == ESCAPE && !literal ? 1u : 0u, static_cast<int>(count - 1));
    }
    return bytes + __reduce_add_sync(FULL, sum) - inside;
}

// A warp writes the `codes` codes of a tile to `out`, each lane 16: `first` to `last` are the
// runs that hold its first code, number `begin` (the lower bits of it), and the next tile's.
// Gives the bytes of the chunk before it, and whether it begins inside an escape.
LANEPACK_DEVICE u64 place_tile(const StringsView& args, const u8* lengths, u8* out, u32 codes, u32 begin, u32 first,
                               u32 last, u32& inside) {
    const u32 lane = threadIdx.x % WARP;
    const u32 at = lane * UNIT;
    const u32 wanted = at < codes ? min(codes - at, UNIT) : 0;
    uint4 unit = make_uint4(0, 0, 0, 0);
    u32 filled = 0;
    u64 bytes = 0;
    for (u32 base = first; base <= last; base += WARP) {
        const u32 own = min(base + lane, last);
        const FsstPlace place = args.places[own];
        const i32 start = static_cast<i32>(static_cast<u32>(place.codes) - begin);
        TileRuns runs{args.runs[own], start};
        // None begins behind the last.
        if (base + lane > last) runs = {{0, 0, 0, 0}, 0x7fffffff};
        if (base == first) {
            const u32 until = static_cast<u32>(-__shfl_sync(FULL, start, 0));
            const u32 first_unit = __shfl_sync(FULL, runs.run.unit, 0);
            bytes = __shfl_sync(FULL, place.bytes, 0) + bytes_of(args, lengths, first_unit, until, inside);
        }
        for (bool more = true; more;) {
            const u32 before = filled;
            filled = runs.fill(args, unit, at, filled, wanted);
            more = __any_sync(FULL, filled < wanted && filled > before);
        }
    }
    if (wanted == UNIT) {
        *reinterpret_cast<uint4*>(out + at) = unit;
    } else {
        const u32 words[UNIT / 4] = {unit.x, unit.y, unit.z, unit.w};
#pragma unroll
        for (u32 i = 0; i < UNIT; ++i) {
            if (i < wanted) out[at + i] = static_cast<u8>(words[i / 4] >> i % 4 * 8);
        }
    }
    __syncwarp();
    return bytes;
}

// Two blocks find room beside fsst_encode_32; newer architectures would spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr u32 PLACE_BLOCKS = 4;
#else
constexpr u32 PLACE_BLOCKS = 5;
#endif

// A block writes a group of tiles, codes and index, a warp a tile; with the first one, the
// starts of the chunk's vectors.
LANEPACK_KERNEL(fsst_place, FSST_PLACE_THREADS, PLACE_BLOCKS, StringsView) {
    constexpr u32 WARPS = FSST_PLACE_THREADS / WARP;
    LANEPACK_SHARED(FsstPlaceShared, shared);
    const u32 chunk = blockIdx.x / args.blocks_per_chunk;
    const u32 group = blockIdx.x % args.blocks_per_chunk;
    const u32 chunk_vectors = args.chunk_rows / VECTOR;
    const u32 first_run = args.vectors[args.first_vector].run;
    const u32 first_vector = args.first_vector + chunk * chunk_vectors;
    const u32 vectors = min(chunk_vectors, args.end_vector - first_vector);
    const FsstPlace totals = args.chunks[chunk];
    const FsstOutput output = args.outputs[chunk];
    // Of a chunk that has turned out to be smaller without codes.
    if (output.starts == nullptr) return;
    if (group == 0) {
        const bool wide = (totals.codes | totals.bytes) >> 32 != 0;
        for (u32 vector = threadIdx.x; vector < output.vectors; vector += FSST_PLACE_THREADS) {
            const FsstPlace place = args.places[args.vectors[first_vector + vector].run - first_run];
            if (wide) {
                reinterpret_cast<FsstPlace*>(output.starts)[vector] = place;
            } else {
                reinterpret_cast<uint2*>(output.starts)[vector] =
                    make_uint2(static_cast<u32>(place.codes), static_cast<u32>(place.bytes));
            }
        }
    }
    const u32 first_tile = group * TILES_PER_GROUP;
    const u32 tiles = static_cast<u32>((totals.codes + TILE - 1) / TILE);
    if (first_tile >= tiles) return;
    const SerialisedTable table(args.table);
    for (u32 code = threadIdx.x; code < 256; code += FSST_PLACE_THREADS) {
        u64 word;
        shared.lengths[code] = static_cast<u8>(code == ESCAPE ? 1 : table.symbol(code, word));
    }
    __syncthreads();
    const u32 runs = args.vectors[first_vector + vectors].run - first_run;
    const u32* const tile_runs = tiles_of(args, chunk, args.vectors[first_vector].run - first_run);
    const u32 lane = threadIdx.x % WARP;
#pragma unroll 1
    for (u32 i = warp_in_block(); i < TILES_PER_GROUP; i += WARPS) {
        const u32 tile = first_tile + i;
        u64 offset = 0;
        u32 inside = 0;
        if (tile < tiles) {
            const u32 first = tile_runs[tile];
            const u32 last = tile + 1 < tiles ? tile_runs[tile + 1] : runs - 1;
            const u64 begin = static_cast<u64>(tile) * TILE;
            const u32 codes = static_cast<u32>(min(totals.codes - begin, u64{TILE}));
            offset = place_tile(args, shared.lengths, output.codes + begin, codes, static_cast<u32>(begin), first,
                                last, inside);
        }
        if (lane == 0) {
            shared.offsets[i] = offset;
            shared.inside[i] = inside;
        }
    }
    __syncthreads();
    if (threadIdx.x >= WARP) return;
    const u32 i = min(lane, TILES_PER_GROUP - 1);
    const u32 escapes = __ballot_sync(FULL, lane < TILES_PER_GROUP && shared.inside[i] != 0);
    if (lane >= TILES_PER_GROUP) return;
    u8* const entry = output.tiles + static_cast<u64>(group) * TILE_GROUP;
    const u64 begin = shared.offsets[0];
    if (lane == 0) *reinterpret_cast<u64*>(entry) = begin | static_cast<u64>(escapes) << TILE_OFFSET_BITS;
    reinterpret_cast<u16*>(entry + 8)[lane] =
        first_tile + lane < tiles ? static_cast<u16>(shared.offsets[lane] - begin) : 0;
}

}  // namespace lanepack
