// FSST codes from strings: lanepack/fsst_encode.cuh.
//
//   fsst_lengths_*   value lengths; bytes, pieces and the first run of every vector
//   fsst_encode_*    a thread encodes a run, then another: codes to scratch, code lengths
//
// fsst_place.cu copies them to their chunks.
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
// Input and ends of values pass through rings of 64 and 32 bytes in shared memory. Word i of
// all lanes lies side by side, so that each lane has a bank of its own wherever it reads or
// writes; the first words of the input stand behind the last ones too, so that three words in
// a row need one address. Codes wait in 32 bytes of the lane, one behind the other, so that a
// code's place needs no arithmetic. Every six steps lanes refill their rings from what was
// loaded six steps before, and write 16 bytes of codes if they have them. Six steps may want
// more than the ring has: a lane whose next eight bytes are not all there waits. A warp takes
// runs in a row from those that are left, and lanes whose run has ended get the next ones,
// eight or more at a time: there are no more blocks than the GPU holds, and all end together,
// as they take fewer towards the end.
//
// Figures and what was tried: docs/experiments.md.
#include "encode_arguments.cuh"
#include "lanepack/fsst_encode.cuh"
#include "launch.cuh"

namespace lanepack {

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
LANEPACK_DEVICE void lengths_of_vector(const StringsView& args) {
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

LANEPACK_KERNEL(fsst_lengths_32, FSST_VECTOR_THREADS, 1, StringsView) { lengths_of_vector<u32>(args); }

LANEPACK_KERNEL(fsst_lengths_64, FSST_VECTOR_THREADS, 1, StringsView) { lengths_of_vector<u64>(args); }

constexpr u32 ENCODE_WARPS = FSST_ENCODE_THREADS / WARP;
// Steps between two looks at the rings; those behind which segments may end, a bit each,
// and how many they are.
constexpr u32 STEPS = 6;
constexpr u32 ADVANCE = 0b101010;
constexpr u32 ADVANCES = 3;
// Lanes without a run at which they get new ones; most runs that a warp takes at a time, but
// for those that it lacks.
constexpr u32 IDLE_LANES = 8;
constexpr u32 WARP_RUNS = 2 * WARP;
// A step looks at so many bytes, and gives up to two codes.
constexpr u32 STEP_BYTES = 8;
constexpr u32 STEP_CODES = 2;
// Bytes and words of the ring of input, which comes as whole sectors when there is room for
// one: at least one step can be made.
constexpr u32 INPUT_RING = 64;
constexpr u32 INPUT_WORDS = INPUT_RING / 4 + 2;
constexpr u32 SECTOR = 32;
static_assert(INPUT_RING - SECTOR + 1 >= STEP_BYTES, "a step finds its bytes");
// Ends of values: four come at a time, and the steps take fewer.
constexpr u32 ENDS_RING = 8;
constexpr u32 ENDS = 4;
static_assert(ENDS >= ADVANCES, "rings hold that");
// Words of codes that wait to be a unit, and one that sets lanes at the same place apart.
constexpr u32 CODE_WORDS = 2 * UNIT / 4;
constexpr u32 CODE_STRIDE = CODE_WORDS + 1;
static_assert(CODE_WORDS * 4 >= UNIT - 1 + STEPS * STEP_CODES, "codes find room");

// Words of a lane's rings: input, ends of values.
constexpr u32 RING_WORDS = INPUT_WORDS + ENDS_RING;

struct FsstEncodeShared {
    EncoderTable table;
    u32 rings[ENCODE_WARPS * RING_WORDS * WARP];
    u32 codes[FSST_ENCODE_THREADS * CODE_STRIDE];
};
static_assert(sizeof(FsstEncodeShared) == FSST_ENCODE_SHARED, "the host asks for it");
static_assert(FSST_ENCODE_SHARED <= MAX_DYNAMIC_SHARED, "a launch can have it");

// A lane and its run. Positions count from a byte of `values` at a multiple of 32.
template <class Offset>
struct RunEncoder {
    static constexpr u32 NONE = FULL;
    // Units of 16 bytes that hold four offsets.
    static constexpr u32 END_UNITS = ENDS * sizeof(Offset) / UNIT;

    const StringsView& args;
    FsstEncodeShared& shared;
    // The lane's first word of the rings, and of its codes.
    const u32 first_word;
    const u32 first_code;
    u32 run = NONE;
    Offset origin = 0;
    // The next byte, the end of its segment and of its value, and where the run's
    // segments no longer begin: 0 once all are encoded.
    u32 at = 0;
    u32 end = 0;
    u32 value_end = 0;
    u32 limit = 0;
    // Where the segment ends, or the bytes in the ring no longer suffice for a step.
    u32 ready = 0;
    u32 row = 0;
    // Position of the first byte, and bytes of nulls passed since.
    u32 passed = 0;
    // Codes in memory, and those that wait; where among these the value's begin, less than
    // zero if they are in memory.
    u32 flushed = 0;
    u32 waiting = 0;
    u32 value_begin = 0;
    u32 unit = 0;
    // The value has several segments; it is null; or it may be.
    u32 several = 0;
    u32 null = 0;
    u32 careful = 0;
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

    LANEPACK_DEVICE RunEncoder(const StringsView& args_, FsstEncodeShared& shared_, u32 first_word_, u32 first_code_, u32 first_run_)
        : args(args_),
          shared(shared_),
          first_word(first_word_),
          first_code(first_code_),
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
        ready = at;
        passed = at;
        flushed = 0;
        waiting = 0;
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
        if (null == 0) end = min(at + SEGMENT, value_end);
    }

    // To be called where the segment's end changes, or what has been loaded.
    LANEPACK_DEVICE void find_ready() { ready = end <= loaded ? end : loaded - (STEP_BYTES - 1); }

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
    // loaded six steps ago, and a load into registers that are still awaited waits for
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
        find_ready();
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
        constexpr u32 FIRST = INPUT_WORDS;
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
        value_end = word(INPUT_WORDS, taken % ENDS_RING * 4);
        ++taken;
        value_begin = waiting;
        several = inside || value_end - at > SEGMENT ? 1 : 0;
        null = args.valid != nullptr && row < args.rows && !is_valid(args, row) ? 1 : 0;
        careful = several | (args.valid != nullptr ? 1 : 0);
    }

    // At the end of a segment: the next one, or none. Of a null, 8 bytes are passed, so
    // that it takes no more of the ring than a step does.
    LANEPACK_DEVICE void advance() {
        if (careful == 0) {
            args.code_lengths[row] = waiting - value_begin;
            value_begin = waiting;
            ++row;
            value_end = word(INPUT_WORDS, taken % ENDS_RING * 4);
            ++taken;
            several = careful = value_end - at > SEGMENT ? 1 : 0;
            end = min(at + SEGMENT, value_end);
        } else {
            advance_carefully();
        }
        if (at >= limit) {
            end = at;
            limit = 0;
        }
        find_ready();
    }

    LANEPACK_DEVICE void advance_carefully() {
        if (at == value_end) {
            if (null == 0) finish_value();
            ++row;
            begin_value(false);
        } else if (null != 0) {
            const u32 skipped = min(value_end - at, STEP_BYTES);
            at += skipped;
            passed += skipped;
        } else if (at >= limit) {
            finish_value();
        }
        end = null != 0 ? at : min(at + SEGMENT, value_end);
    }

    LANEPACK_DEVICE void finish_value() {
        if (several != 0) {
            atomicAdd(args.code_lengths + row, waiting - value_begin);
        } else {
            args.code_lengths[row] = waiting - value_begin;
        }
    }

    LANEPACK_DEVICE void step(const EncoderTable& table, u32 eights) {
        const u32 first = word(0, at % INPUT_RING);
        const u32 second = word(1, at % INPUT_RING);
        const u32 third = word(2, at % INPUT_RING);
        const u32 low = __funnelshift_r(first, second, at * 8);
        const u32 high = __funnelshift_r(second, third, at * 8);
        const Match match = table.match(low, high, end - at, eights);
        u8* const code = reinterpret_cast<u8*>(shared.codes + first_code) + waiting;
        code[0] = static_cast<u8>(match.code);
        at += match.length;
        ++waiting;
        if (match.code == ESCAPE) {
            code[1] = static_cast<u8>(low);
            ++waiting;
        }
    }

    // Writes the first 16 codes that wait, or what there is of them.
    LANEPACK_DEVICE void write_unit() {
        const u32* const waiting_codes = shared.codes + first_code;
        *reinterpret_cast<uint4*>(args.codes + static_cast<u64>(unit) * UNIT + flushed) =
            make_uint4(waiting_codes[0], waiting_codes[1], waiting_codes[2], waiting_codes[3]);
    }

    // Writes 16 codes, and a mark behind every 64.
    LANEPACK_DEVICE void flush() {
        write_unit();
        u32* const waiting_codes = shared.codes + first_code;
#pragma unroll
        for (u32 i = 0; i < UNIT / 4; ++i) waiting_codes[i] = waiting_codes[i + UNIT / 4];
        flushed += UNIT;
        waiting -= UNIT;
        value_begin -= UNIT;
        if (flushed % MARK == 0) {
            args.marks[unit / (MARK / UNIT) + flushed / MARK - 1] =
                static_cast<u16>(waiting | (at - passed) << MARK_CODE_BITS);
        }
    }

    LANEPACK_DEVICE void finish() {
        if (run == NONE) return;
        if (waiting != 0) write_unit();
        args.runs[run] = {unit, flushed + waiting, at - passed, 0};
        run = NONE;
        waiting = 0;
    }
};

template <class Offset>
LANEPACK_DEVICE void encode_runs(const StringsView& args) {
    LANEPACK_DYNAMIC_SHARED(FsstEncodeShared, shared);
    shared.table.load(args.table);
    const u32 eights = shared.table.eights;
    const u32 lane = threadIdx.x % WARP;
    const u32 warp = warp_in_block();
    const u32 first_run = args.vectors[args.first_vector].run;
    const u32 runs = args.vectors[args.end_vector].run - first_run;
    // Through shuffles, so that they stay in registers: else they are computed again for
    // every step.
    const u32 first_word = __shfl_sync(FULL, warp * RING_WORDS * WARP + lane, lane);
    const u32 first_code = __shfl_sync(FULL, threadIdx.x * CODE_STRIDE, lane);
    RunEncoder<Offset> state(args, shared, first_word, first_code, first_run);
    // A warp takes a quarter of its share of what is left.
    const u32 shares = gridDim.x * ENCODE_WARPS * 4;
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
                // The last ones of these, then the first ones of others: fewer towards the
                // end, so that all warps end together.
                const u32 least = next - end;
                const u32 some = max(least, min((runs - end) / shares, WARP_RUNS));
                u32 others = 0;
                if (lane == 0) others = atomicAdd(args.taken, some);
                others = __shfl_sync(FULL, others, 0);
                if (take >= end) take += others - end;
                next += others - end;
                end = min(others + some, runs);
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
            if (state.at < state.ready) state.step(shared.table, eights);
            if ((ADVANCE >> step & 1) != 0 && state.at >= state.end && state.limit != 0) state.advance();
        }
        if (state.waiting >= UNIT) state.flush();
    }
    state.finish();
}

// Registers for a block more than there are, which is room for kernels beside.
LANEPACK_KERNEL(fsst_encode_32, FSST_ENCODE_THREADS, FSST_ENCODE_BLOCKS + 1, StringsView) { encode_runs<u32>(args); }

LANEPACK_KERNEL(fsst_encode_64, FSST_ENCODE_THREADS, FSST_ENCODE_BLOCKS + 1, StringsView) { encode_runs<u64>(args); }

}  // namespace lanepack
