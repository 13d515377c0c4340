// FSST codes from strings: lanepack/fsst_encode.cuh.
//
//   fsst_lengths_*   value lengths; bytes, pieces and the first run of every vector
//   fsst_encode_*    a thread encodes a run, then another: codes to scratch, code lengths
//   fsst_chunks      where runs begin in their chunk, and what chunks come to; the host
//                    then has sizes, and places for the buffers
//   fsst_place       codes from scratch to their chunks
//   fsst_index       starts and tiles
//
// A run is a share of a vector's bytes, at most run_bytes of them and the rest of the
// last segment that begins there. A vector that has `bytes` from `begin` on has
// (begin + bytes) / run_bytes - begin / run_bytes + 1 runs, so that runs are numbered
// without a scan; it is cut into as many equal parts. Long values are spread over
// runs, and rows without bytes cost a step each, at most 1,024 in a run.
//
//   ring of a lane   word 0 | word 1 | ... | word 15 | word 0 | word 1 |
//   shared memory    32 lanes' word 0, 32 lanes' word 1, ...
//
// Input, codes and ends of values pass through rings of 64, 32 and 32 bytes in shared
// memory. Word i of all lanes lies side by side, so that each lane has a bank of its own
// wherever it reads or writes; the first words of the input stand behind the last ones
// too, so that three words in a row need one address. Every three steps lanes refill
// their rings from what was loaded three steps before, and write 16 bytes of codes if
// they have them. A warp takes 64 runs in a row at a time from those that are left, and
// lanes whose run has ended get the next ones, eight or more at a time: there are no more
// blocks than the GPU holds, and all end together, whatever else runs beside them.
//
// A step is some 75 instructions and 14 wavefronts of shared memory for 25 lanes (8 for
// slots and input, 4 for pairs, 1 for the code). On an NVIDIA H200, 1 GB of input,
// encode alone and all kernels, GB/s; runs of 256 bytes unless it says otherwise:
//
//                                                     l_comment        wiki   wikipedia
// - a run a thread, found by bisection, no refetch,
//   ends of values loaded where needed, runs of 512   335, 262    199, 162
//   the same, runs of 1,024                           242, 208    155, 135    309, 249
// - run records, refetch, ring of ends, 4 steps       307, 243    181, 149    243, 193
// - whole sectors, waits first, 3 steps, 28 warps     336, 264    203, 167    258, 208
//   the same, 24 warps, runs of 512                   329, 271                260, 212
//   the same, runs of 1,024, 28 warps                 242, 210    158, 135
// - 20 warps 304, 243 of l_comment; 2 steps 317, 252; new runs at 12 idle lanes 340,
//   266, at 6 332, 261; 256 runs a warp 317, 252
//
// In the last form above 28 % of all stalls stood at one load that waited for another
// which shared its scoreboard; `refill` since then waits for all before it loads. Runs
// longer than 512 lose as lanes' lines no longer stay in the caches: 3.5 times the bytes
// from device memory at runs of 1,024.
//
// In windows of one table, 1.05 GB of l_comment in four or five: blocks of 12 x 128 runs,
// a wave and a bit of them, 4,626 us; a share of all runs for each warp that the GPU holds
// 2,808; warps that take 64 runs at a time, their lanes waiting for the next 64, 3,229; not
// waiting, runs of 256, 2,679. A window ends with 70 us of few lanes, one run long.
//
// fsst_place, by lanes a run, runs of 256 and 512, ms for 1 GB of l_comment: 32 lanes
// 1.23, 0.69; 16 lanes 0.70, 0.46; 8 lanes 0.47, 0.36; and words of 8 bytes 0.44, 0.32.
#include "encode_arguments.cuh"
#include "lanepack/fsst_encode.cuh"
#include "launch.cuh"

namespace lanepack {

// Units of codes, and codes between two marks.
constexpr u32 UNIT = 16;
constexpr u32 MARK = 64;
// Bits of a mark that count codes behind the multiple of 64 that it belongs to.
constexpr u32 MARK_CODE_BITS = 4;

// A block sums bytes over its threads, and pieces over the first of its warps' lanes; the
// results are whole in thread 0.
LANEPACK_DEVICE void sum_of_block(u64& bytes, u32& pieces) {
    constexpr u32 WARPS = FSST_VECTOR_THREADS / WARP;
    LANEPACK_SHARED(u64[WARPS], all_bytes);
    LANEPACK_SHARED(u32[WARPS], all_pieces);
    for (u32 step = WARP / 2; step > 0; step /= 2) {
        bytes += __shfl_down_sync(FULL, bytes, step);
    }
    if (threadIdx.x % WARP == 0) {
        all_bytes[threadIdx.x / WARP] = bytes;
        all_pieces[threadIdx.x / WARP] = pieces;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (u32 warp = 1; warp < WARPS; ++warp) {
            bytes += all_bytes[warp];
            pieces += all_pieces[warp];
        }
    }
}

// Lengths of a vector, and where its runs begin.
template <class Offset>
LANEPACK_DEVICE void lengths_of_vector(const FsstWindow& args) {
    LANEPACK_SHARED(Offset[VECTOR + 1], offsets);
    const u32 vector = blockIdx.x;
    const u32 first_row = vector * VECTOR;
    const u32 rows = min(args.rows - first_row, VECTOR);
    for (u32 i = threadIdx.x; i <= rows; i += FSST_VECTOR_THREADS) offsets[i] = offset_of<Offset>(args, first_row + i);
    __syncthreads();
    u64 bytes = 0;
    u32 pieces = 0;
    for (u32 i = threadIdx.x; i < VECTOR; i += FSST_VECTOR_THREADS) {
        const u32 row = first_row + i;
        const u32 length = i < rows && is_valid(args, row) ? static_cast<u32>(offsets[i + 1] - offsets[i]) : 0;
        args.value_lengths[row] = length;
        // What no run has, or several have.
        if (length == 0 || length > SEGMENT) args.code_lengths[row] = 0;
        bytes += length;
        const u32 of_warp = __reduce_add_sync(FULL, pieces_of(length));
        if (threadIdx.x % WARP == 0) {
            args.row_pieces[(u64{vector} * VECTOR + i) / WARP] = of_warp;
            pieces += of_warp;
        }
    }
    sum_of_block(bytes, pieces);
    const u64 origin = offset_of<Offset>(args, 0);
    const u64 begin = offsets[0] - origin;
    const u64 end = offsets[rows] - origin;
    const u32 first_run = static_cast<u32>(begin / args.run_bytes) + vector;
    const u32 end_run = static_cast<u32>(end / args.run_bytes) + vector + 1;
    if (threadIdx.x == 0) {
        args.vectors[vector] = {bytes, pieces, first_run};
        if (first_row + rows == args.rows) args.vectors[vector + 1] = {0, 0, end_run};
    }
    const u32 runs = end_run - first_run;
    const u64 share = (end - begin) / runs;
    const u32 rest = static_cast<u32>((end - begin) % runs);
    for (u32 index = threadIdx.x; index < runs; index += FSST_VECTOR_THREADS) {
        // The run's part of the vector's bytes, and the row that holds the first one.
        const u64 from = begin + share * index + min(index, rest);
        const u64 until = from + share + (index < rest ? 1 : 0);
        u32 row = 0;
        for (u32 count = rows; count > 1;) {
            const u32 half = count / 2;
            if (offsets[row + half] - origin <= from) row += half;
            count -= half;
        }
        const u64 value_begin = offsets[row] - origin;
        const u64 value_end = offsets[row + 1] - origin;
        // The first segment from there on.
        u64 start = value_begin + (from - value_begin + SEGMENT - 1) / SEGMENT * SEGMENT;
        const bool inside = start != value_begin && start < value_end;
        if (start >= value_end) {
            start = value_end;
            ++row;
        }
        const u32 span = until > start ? static_cast<u32>(until - start) : 0;
        args.run_starts[first_run + index] = {start, first_row + row, span | (inside ? FsstRunStart::INSIDE : 0)};
    }
}

LANEPACK_KERNEL(fsst_lengths_32, FSST_VECTOR_THREADS, 1, FsstWindow) { lengths_of_vector<u32>(args); }

LANEPACK_KERNEL(fsst_lengths_64, FSST_VECTOR_THREADS, 1, FsstWindow) { lengths_of_vector<u64>(args); }

constexpr u32 ENCODE_WARPS = FSST_ENCODE_THREADS / WARP;
// Steps between two looks at the rings; those behind which segments may end, a bit each,
// and how many they are.
constexpr u32 STEPS = 3;
constexpr u32 ADVANCE = 0b101;
constexpr u32 ADVANCES = 2;
// Lanes without a run at which they get new ones; runs that a warp takes at a time.
constexpr u32 IDLE_LANES = 8;
constexpr u32 WARP_RUNS = 2 * WARP;
// Bytes and words of the rings. A step takes up to 8 bytes of 8 that it looks at, and
// gives up to 2; up to 15 codes wait for more.
constexpr u32 INPUT_RING = 64;
constexpr u32 INPUT_WORDS = INPUT_RING / 4 + 2;
constexpr u32 OUTPUT_RING = 32;
// Ends of values: four come at a time, and three steps take fewer.
constexpr u32 ENDS_RING = 8;
constexpr u32 ENDS = 4;
// Input comes as whole sectors, when there is room for one.
constexpr u32 SECTOR = 32;
static_assert(INPUT_RING - SECTOR + 1 >= STEPS * 8 + 8 && OUTPUT_RING >= UNIT - 1 + STEPS * 2 && ENDS >= ADVANCES,
              "rings hold that");

// Words of a lane's rings: input, codes, ends of values.
constexpr u32 OUTPUT_WORDS = OUTPUT_RING / 4;
constexpr u32 LANE_WORDS = INPUT_WORDS + OUTPUT_WORDS + ENDS_RING;

struct FsstEncodeShared {
    EncoderTable table;
    u32 rings[ENCODE_WARPS * LANE_WORDS * WARP];
};
static_assert(sizeof(FsstEncodeShared) == FSST_ENCODE_SHARED, "the host asks for it");
static_assert(FSST_ENCODE_SHARED <= MAX_DYNAMIC_SHARED, "a launch can have it");

// A lane and its run. Positions count from a byte of `values` at a multiple of 32.
template <class Offset>
struct RunEncoder {
    static constexpr u32 NONE = FULL;
    // Units of 16 bytes that hold four offsets.
    static constexpr u32 END_UNITS = ENDS * sizeof(Offset) / UNIT;

    const FsstWindow& args;
    FsstEncodeShared& shared;
    // The lane's first word of the rings.
    const u32 first_word;
    u32 run = NONE;
    Offset origin = 0;
    // The next byte, the end of its segment and of its value, and where the run's
    // segments no longer begin: 0 once all are encoded.
    u32 at = 0;
    u32 end = 0;
    u32 value_end = 0;
    u32 limit = 0;
    u32 row = 0;
    // Position of the first byte, and bytes of nulls passed since.
    u32 passed = 0;
    // Codes so far, before the value, and of those in memory.
    u32 codes = 0;
    u32 value_codes = 0;
    u32 flushed = 0;
    u32 unit = 0;
    // The value has several segments; it is null; or it may be.
    bool several = false;
    bool null = false;
    bool careful = false;
    // Input: sectors before `loaded` are in the ring, the next is on its way.
    const uint4* units = nullptr;
    u32 loaded = 0;
    u32 stop = 0;
    uint4 ahead[2] = {};
    // Ends of values: taken from the ring, put there, and the next ones on their way.
    u32 taken = 0;
    u32 filled = 0;
    u32 end_unit = 0;
    uint4 ends_ahead[END_UNITS] = {};

    // The first run of all, and where it begins.
    const u32 first_run;
    const u64 first_start;

    LANEPACK_DEVICE RunEncoder(const FsstWindow& args_, FsstEncodeShared& shared_, u32 first_word_, u32 first_run_)
        : args(args_),
          shared(shared_),
          first_word(first_word_),
          first_run(first_run_),
          first_start(args_.run_starts[first_run_].start / (UNIT / 2)) {}

    // Word `index` of the lane's rings, or the one that holds byte `byte` from there on.
    LANEPACK_DEVICE u32& word(u32 index, u32 byte = 0) {
        return shared.rings[first_word + byte / 4 * WARP + index * WARP];
    }

    // `run` counts from the first.
    LANEPACK_DEVICE void start(u32 run_) {
        run = run_;
        const FsstRunStart found = args.run_starts[first_run + run];
        const u64 begin = static_cast<u64>(offset_of<Offset>(args, 0)) + found.start;
        unit = static_cast<u32>(found.start / (UNIT / 2) - first_start) + run;
        origin = static_cast<Offset>(begin / SECTOR * SECTOR);
        at = static_cast<u32>(begin % SECTOR);
        end = at;
        passed = at;
        codes = 0;
        flushed = 0;
        row = found.row;
        const u32 span = found.span & ~FsstRunStart::INSIDE;
        limit = span == 0 ? 0 : at + span;
        if (span == 0) return;
        units = reinterpret_cast<const uint4*>(args.values + origin);
        const u64 readable = static_cast<u64>(offset_of<Offset>(args, args.rows)) - origin;
        stop = static_cast<u32>(min(readable, u64{1} << 30));
        loaded = 0;
        load();
        constexpr u32 EACH = UNIT / sizeof(Offset);
        const u32 before = static_cast<u32>(reinterpret_cast<u64>(args.offsets) % UNIT / sizeof(Offset));
        end_unit = static_cast<u32>((row + u64{1} + before) / EACH);
        taken = (row + 1 + before) % EACH;
        filled = 0;
        load_ends();
        put();
        put_ends();
        load();
        load_ends();
        put_ends();
        load_ends();
        begin_value((found.span & FsstRunStart::INSIDE) != 0);
        if (!null) end = min(at + SEGMENT, value_end);
    }

    LANEPACK_DEVICE void load() {
        if (loaded < stop) {
            ahead[0] = __ldg(units + loaded / UNIT);
            ahead[1] = __ldg(units + loaded / UNIT + 1);
        }
    }

    LANEPACK_DEVICE void put() {
        const u32 at_ring = loaded % INPUT_RING;
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            word(4 * i, at_ring) = ahead[i].x;
            word(4 * i + 1, at_ring) = ahead[i].y;
            word(4 * i + 2, at_ring) = ahead[i].z;
            word(4 * i + 3, at_ring) = ahead[i].w;
        }
        if (at_ring == 0) {
            word(INPUT_RING / 4) = ahead[0].x;
            word(INPUT_RING / 4 + 1) = ahead[0].y;
        }
        loaded += SECTOR;
    }

    // Refills the rings. All that is on its way is waited for before more is loaded: it was
    // loaded three steps ago, and a load into registers that are still awaited waits for
    // whatever shares their scoreboard, which may be a load just begun. The sum needs the
    // values and changes nothing.
    LANEPACK_DEVICE void refill() {
        const bool more = static_cast<i32>(loaded - at) <= static_cast<i32>(INPUT_RING - SECTOR);
        const bool more_ends = filled - taken <= ENDS_RING - ENDS;
        if (more) put();
        if (more_ends) put_ends();
        loaded += (ahead[0].x ^ ahead[1].x ^ ends_ahead[0].x ^ ends_ahead[END_UNITS - 1].x) & args.zero;
        if (more) load();
        if (more_ends) load_ends();
    }

    LANEPACK_DEVICE void load_ends() {
        const u64 begin = reinterpret_cast<u64>(args.offsets);
        const uint4* const all = reinterpret_cast<const uint4*>(begin / UNIT * UNIT);
        const u32 last = static_cast<u32>((begin % UNIT + args.rows * u64{sizeof(Offset)}) / UNIT);
#pragma unroll
        for (u32 i = 0; i < END_UNITS; ++i) ends_ahead[i] = __ldg(all + min(end_unit + i, last));
        end_unit += END_UNITS;
    }

    LANEPACK_DEVICE void put_ends() {
        const u32 at_ring = filled % ENDS_RING * 4;
        constexpr u32 FIRST = INPUT_WORDS + OUTPUT_WORDS;
#pragma unroll
        for (u32 i = 0; i < END_UNITS; ++i) {
            const uint4 unit = ends_ahead[i];
            if (sizeof(Offset) == 4) {
                const u32 from = static_cast<u32>(origin);
                word(FIRST, at_ring) = unit.x - from;
                word(FIRST + 1, at_ring) = unit.y - from;
                word(FIRST + 2, at_ring) = unit.z - from;
                word(FIRST + 3, at_ring) = unit.w - from;
            } else {
                // Far ones are cut.
                const u64 first = (static_cast<u64>(unit.y) << 32 | unit.x) - origin;
                const u64 second = (static_cast<u64>(unit.w) << 32 | unit.z) - origin;
                word(FIRST + 2 * i, at_ring) = static_cast<u32>(min(first, u64{1} << 30));
                word(FIRST + 2 * i + 1, at_ring) = static_cast<u32>(min(second, u64{1} << 30));
            }
        }
        filled += ENDS;
    }

    // Begins a value, or the rest of one, at `at`.
    LANEPACK_DEVICE void begin_value(bool inside) {
        value_end = word(INPUT_WORDS + OUTPUT_WORDS, taken % ENDS_RING * 4);
        ++taken;
        value_codes = codes;
        several = inside || value_end - at > SEGMENT;
        null = args.valid != nullptr && row < args.rows && !is_valid(args, row);
        careful = several || args.valid != nullptr;
    }

    // At the end of a segment: the next one, or none. Of a null, 8 bytes are passed, so
    // that a step takes no more of the ring than it does where it encodes.
    LANEPACK_DEVICE void advance() {
        if (!careful) {
            args.code_lengths[row] = codes - value_codes;
            value_codes = codes;
            ++row;
            value_end = word(INPUT_WORDS + OUTPUT_WORDS, taken % ENDS_RING * 4);
            ++taken;
            several = careful = value_end - at > SEGMENT;
            end = min(at + SEGMENT, value_end);
        } else {
            advance_carefully();
        }
        if (at >= limit) {
            end = at;
            limit = 0;
        }
    }

    LANEPACK_DEVICE void advance_carefully() {
        if (at == value_end) {
            if (!null) finish_value();
            ++row;
            begin_value(false);
        } else if (null) {
            const u32 skipped = min(value_end - at, 8u);
            at += skipped;
            passed += skipped;
        } else if (at >= limit) {
            finish_value();
        }
        end = null ? at : min(at + SEGMENT, value_end);
    }

    LANEPACK_DEVICE void finish_value() {
        if (several) {
            atomicAdd(args.code_lengths + row, codes - value_codes);
        } else {
            args.code_lengths[row] = codes - value_codes;
        }
    }

    LANEPACK_DEVICE void step(const EncoderTable& table, u32 eights) {
        const u32 first = word(0, at % INPUT_RING);
        const u32 second = word(1, at % INPUT_RING);
        const u32 third = word(2, at % INPUT_RING);
        const u32 low = __funnelshift_r(first, second, at * 8);
        const u32 high = __funnelshift_r(second, third, at * 8);
        const Match match = table.match(low, high, end - at, eights);
        code_at(codes) = static_cast<u8>(match.code);
        if (match.bytes == 2) code_at(codes + 1) = static_cast<u8>(low);
        at += match.length;
        codes += match.bytes;
    }

    LANEPACK_DEVICE u8& code_at(u32 index) {
        return reinterpret_cast<u8*>(&word(INPUT_WORDS, index % OUTPUT_RING))[index % 4];
    }

    // Writes 16 codes, and a mark behind every 64.
    LANEPACK_DEVICE void flush() {
        const u32 ring = flushed % OUTPUT_RING;
        *reinterpret_cast<uint4*>(args.codes + static_cast<u64>(unit) * UNIT + flushed) =
            make_uint4(word(INPUT_WORDS, ring), word(INPUT_WORDS + 1, ring), word(INPUT_WORDS + 2, ring),
                       word(INPUT_WORDS + 3, ring));
        flushed += UNIT;
        if (flushed % MARK == 0 && codes >= flushed) {
            args.marks[unit / (MARK / UNIT) + flushed / MARK - 1] =
                static_cast<u16>((codes - flushed) | (at - passed) << MARK_CODE_BITS);
        }
    }

    LANEPACK_DEVICE void finish() {
        if (run == NONE) return;
        if (codes > flushed) flush();
        args.runs[run] = {unit, codes, at - passed, 0};
        run = NONE;
        flushed = codes;
    }
};

template <class Offset>
LANEPACK_DEVICE void encode_runs(const FsstWindow& args) {
    LANEPACK_DYNAMIC_SHARED(FsstEncodeShared, shared);
    shared.table.load(args.table);
    const u32 eights = shared.table.eights;
    const u32 lane = threadIdx.x % WARP;
    const u32 warp = threadIdx.x / WARP;
    const u32 first_run = args.vectors[args.first_vector].run;
    const u32 runs = args.vectors[args.end_vector].run - first_run;
    // Through a shuffle, so that it stays in a register: else it is computed again for
    // every step.
    RunEncoder<Offset> state(args, shared, __shfl_sync(FULL, warp * LANE_WORDS * WARP + lane, lane), first_run);
    // Runs from `next` to `end` are this warp's.
    u32 next = 0;
    u32 end = 0;
    bool more = true;
    for (;;) {
        const u32 idle = __ballot_sync(FULL, state.limit == 0);
        const u32 wanted = static_cast<u32>(__popc(idle));
        if (wanted >= IDLE_LANES && more) {
            u32 take = next + static_cast<u32>(__popc(idle & ((1u << lane) - 1)));
            next += wanted;
            if (next > end) {
                // The last ones of these, then the first ones of others.
                u32 others = 0;
                if (lane == 0) others = atomicAdd(args.taken, WARP_RUNS);
                others = __shfl_sync(FULL, others, 0);
                if (take >= end) take += others - end;
                next += others - end;
                end = min(others + WARP_RUNS, runs);
                more = others < runs;
            }
            if (state.limit == 0) {
                state.finish();
                if (take < runs) state.start(take);
            }
        } else if (idle == FULL && !more) {
            break;
        }
        if (state.limit != 0) state.refill();
#pragma unroll
        for (u32 step = 0; step < STEPS; ++step) {
            if (state.at < state.end) state.step(shared.table, eights);
            if ((ADVANCE >> step & 1) != 0 && state.at >= state.end && state.limit != 0) state.advance();
        }
        if (state.codes - state.flushed >= UNIT) state.flush();
    }
    state.finish();
}

LANEPACK_KERNEL(fsst_encode_32, FSST_ENCODE_THREADS, FSST_ENCODE_BLOCKS, FsstWindow) { encode_runs<u32>(args); }

LANEPACK_KERNEL(fsst_encode_64, FSST_ENCODE_THREADS, FSST_ENCODE_BLOCKS, FsstWindow) { encode_runs<u64>(args); }

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
LANEPACK_DEVICE u32* tiles_of(const FsstWindow& args, u32 chunk, u32 first_run) {
    return args.tile_runs + args.runs[first_run].unit / (TILE / UNIT) + chunk;
}

// A block scans the runs of a chunk, a few of each thread at a time. Small enough to find
// room beside a window whose codes are being made: the host waits for the sizes.
LANEPACK_KERNEL(fsst_chunks, FSST_CHUNKS_THREADS, 6, FsstWindow) {
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
                FsstRun& run = args.runs[begin + i];
                run.chunk = blockIdx.x;
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

// Eight lanes copy a run, in words of the output.
LANEPACK_KERNEL(fsst_place, FSST_PLACE_THREADS, 6, FsstWindow) {
    constexpr u32 BLOCK_RUNS = FSST_PLACE_THREADS / FSST_PLACE_LANES;
    const u32 lane = threadIdx.x % FSST_PLACE_LANES;
    const u32 run = blockIdx.x * BLOCK_RUNS + threadIdx.x / FSST_PLACE_LANES;
    if (run >= args.vectors[args.end_vector].run - args.vectors[args.first_vector].run) return;
    const FsstRun found = args.runs[run];
    u8* const out = args.outputs[found.chunk].codes + args.places[run].codes;
    const u8* const codes = args.codes + static_cast<u64>(found.unit) * UNIT;
    // Words of 8 bytes of the output, and single bytes before and behind them.
    const u32 before = min(static_cast<u32>(-reinterpret_cast<u64>(out) % 8), found.codes);
    if (lane < before) out[lane] = codes[lane];
    const u32 words = (found.codes - before) / 8;
    const u32* const from = reinterpret_cast<const u32*>(codes + (before & 4));
    // The third word of one is behind the last codes where none of it is needed.
    const u32 third = before % 4 != 0 ? 2 : 1;
#pragma unroll 4
    for (u32 i = lane; i < words; i += FSST_PLACE_LANES) {
        const u32 middle = from[2 * i + 1];
        const u32 low = __funnelshift_r(from[2 * i], middle, before * 8);
        const u32 high = __funnelshift_r(middle, from[2 * i + third], before * 8);
        reinterpret_cast<uint2*>(out + before)[i] = make_uint2(low, high);
    }
    const u32 last = before + words * 8 + lane;
    if (last < found.codes) out[last] = codes[last];
}

// The offset of a tile that begins at code `position` of a chunk, in a run; `inside` is
// whether it begins inside an escape.
LANEPACK_DEVICE u64 tile_offset(const FsstWindow& args, const u8* lengths, u32 index, u64 position, bool& inside) {
    const FsstRun run = args.runs[index];
    const FsstPlace place = args.places[index];
    const u32 until = static_cast<u32>(position - place.codes);
    const u8* const codes = args.codes + static_cast<u64>(run.unit) * UNIT;
    const u16* const marks = args.marks + run.unit / (MARK / UNIT);
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
    inside = false;
    while (at < until) {
        const u32 code = codes[at];
        if (code == ESCAPE) {
            inside = at + 1 == until;
            if (inside) break;
            at += 2;
            bytes += 1;
        } else {
            at += 1;
            bytes += lengths[code];
        }
    }
    return place.bytes + bytes;
}

// A thread finds where a tile begins; 16 in a row have the index's group.
LANEPACK_KERNEL(fsst_index, FSST_INDEX_THREADS, 1, FsstWindow) {
    LANEPACK_SHARED(u8[256], lengths);
    const SerialisedTable table(args.table);
    for (u32 code = threadIdx.x; code < 256; code += FSST_INDEX_THREADS) {
        u64 word;
        lengths[code] = static_cast<u8>(table.symbol(code, word));
    }
    __syncthreads();
    const u32 chunk = blockIdx.x / args.blocks_per_chunk;
    const u32 part = blockIdx.x % args.blocks_per_chunk;
    const u32 chunk_vectors = args.chunk_rows / VECTOR;
    const u32 first_run = args.vectors[args.first_vector].run;
    const u32 first_vector = args.first_vector + chunk * chunk_vectors;
    const u32 vectors = min(chunk_vectors, args.end_vector - first_vector);
    const FsstPlace totals = args.chunks[chunk];
    const FsstOutput output = args.outputs[chunk];

    const bool wide = (totals.codes | totals.bytes) >> 32 != 0;
    const u32 threads = args.blocks_per_chunk * FSST_INDEX_THREADS;
    const u32 thread = part * FSST_INDEX_THREADS + threadIdx.x;
    for (u32 vector = thread; vector < vectors; vector += threads) {
        const FsstPlace place = args.places[args.vectors[first_vector + vector].run - first_run];
        if (wide) {
            reinterpret_cast<FsstPlace*>(output.starts)[vector] = place;
        } else {
            reinterpret_cast<uint2*>(output.starts)[vector] =
                make_uint2(static_cast<u32>(place.codes), static_cast<u32>(place.bytes));
        }
    }

    const u32 first = args.vectors[first_vector].run - first_run;
    const u32* const tile_runs = tiles_of(args, chunk, first);
    const u32 tiles = static_cast<u32>((totals.codes + TILE - 1) / TILE);
    const u32 whole_groups = (tiles + TILES_PER_GROUP - 1) / TILES_PER_GROUP * TILES_PER_GROUP;
    // Whole warps go on together.
    for (u32 tile = thread; tile / WARP * WARP < whole_groups; tile += threads) {
        u64 offset = 0;
        bool inside = false;
        if (tile < tiles) offset = tile_offset(args, lengths, tile_runs[tile], static_cast<u64>(tile) * TILE, inside);
        __syncwarp();
        const u32 escapes = __ballot_sync(FULL, inside);
        const u32 lane = threadIdx.x % WARP;
        const u32 leader = lane / TILES_PER_GROUP * TILES_PER_GROUP;
        const u64 begin = __shfl_sync(FULL, offset, leader);
        u8* const group = output.tiles + static_cast<u64>(tile / TILES_PER_GROUP) * TILE_GROUP;
        if (tile < whole_groups) {
            if (lane == leader) {
                const u64 bits = escapes >> leader & 0xffff;
                *reinterpret_cast<u64*>(group) = begin | bits << TILE_OFFSET_BITS;
            }
            reinterpret_cast<u16*>(group + 8)[tile % TILES_PER_GROUP] =
                tile < tiles ? static_cast<u16>(offset - begin) : 0;
        }
    }
}

}  // namespace lanepack
