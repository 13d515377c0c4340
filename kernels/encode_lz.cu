// Matches of bytes with what stood before them, and the streams made of them; the same as
// src/encoding/lz/matches.rs.
//
//   lz_find_*     a warp a segment: its streams to scratch, and how long they are
//   lz_layout     a block a chunk: where segments begin in the chunk's streams
//   (host)        keeps chunks that take less so, lays out bodies
//   lz_borders    a thread a segment: zeros where its flags begin
//   lz_write      a warp a segment: its streams to their places
//
// A warp takes 32 positions at a time. A lane's candidates are the nearest lanes below with the
// same hashes, else what the tables have (shared memory, the last position of each hash), so that
// the order in which positions are looked up and put into tables is that of the CPU. Lengths are
// found by all lanes at a time up to 16 bytes. Then the warp goes from match to match, of
// which every lane knows the next one behind its own, and compares the rest of those that are
// longer with all lanes.
//
// Figures and what was tried: docs/experiments.md.
// Entries that lanes share are found by a store of each lane's number that is read again; several lanes
// may then store to one place, which racecheck cannot know to be meant. __match_any_sync would take 8
// cycles of a quarter of a multiprocessor for each different value.
#include "encode_lz.cuh"
#include "encode.cuh"

namespace lanepack {

// How matches are found: symbols of a type, offsets of one byte or two.
template <class Symbol, bool WIDE_>
struct LzShape {
    using T = Symbol;
    static constexpr bool WIDE = WIDE_;
    static constexpr u32 SYMBOL = sizeof(T);
    // Symbols of a match.
    static constexpr u32 LEAST = SYMBOL == 1 ? (WIDE ? 4 : 3) : SYMBOL == 2 ? 2 : 1;
    static constexpr u32 MOST = LEAST + 255;
    // Bytes of keys.
    static constexpr u32 SHORT_KEY = LEAST * SYMBOL;
    static constexpr u32 LONG_KEY = SYMBOL == 2 ? 6 : 2 * SHORT_KEY;
    static constexpr u32 HASH_BITS = WIDE ? 12 : 10;
    // Symbols that lanes compare one by one.
    static constexpr u32 COMPARED = 16 / SYMBOL;
};

// The hash of the first KEY of 16 bytes.
template <u32 KEY, u32 BITS>
LANEPACK_DEVICE u32 lz_hash(uint4 bytes) {
    constexpr u32 FACTORS[4] = {0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f};
    u32 sum = bytes.x * FACTORS[0];
    if constexpr (KEY == 3) sum <<= 8;
    if constexpr (KEY == 6) sum += bytes.y * FACTORS[1] << 16;
    if constexpr (KEY >= 8) sum += bytes.y * FACTORS[1];
    if constexpr (KEY == 16) sum += bytes.z * FACTORS[2] + bytes.w * FACTORS[3];
    return sum >> (32 - BITS);
}

// Whether the first KEY bytes, of which differing ones are not 0 here, are the same.
template <u32 KEY>
LANEPACK_DEVICE bool has_key(uint4 other) {
    static_assert(KEY == 6 || KEY == 8 || KEY == 16, "a long key");
    const u32 second = KEY == 6 ? other.y << 16 : other.y;
    const u32 more = KEY == 16 ? other.z | other.w : 0;
    return (other.x | second | more) == 0;
}

LANEPACK_DEVICE uint4 differing(uint4 a, uint4 b) { return uint4{a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w}; }

// Zero bytes before the first other one.
LANEPACK_DEVICE u32 same_bytes(uint4 other) {
    const bool in_first = (other.x | other.y) != 0;
    const u32 low = in_first ? other.x : other.z;
    const u32 high = in_first ? other.y : other.w;
    const u32 word = low != 0 ? low : high;
    // 32 bits if there is none, too.
    const u32 bits = static_cast<u32>(__clz(static_cast<i32>(__brev(word))));
    return bits / 8 + (low != 0 ? 0 : 4) + (in_first ? 0 : 8);
}

// Words of 8 bytes among which 16 bytes are; the last is not needed for symbols of 8.
struct LzWords {
    u64 word[3];
};

// The bytes of a segment, which begins at a multiple of 8; zeros behind the chunk.
template <u32 SYMBOL>
struct LzBytes {
    const u64* words;
    // Whole words of the chunk from the segment on, as far as they matter, and the bytes behind,
    // in shared memory: hardly ever needed, and registers are.
    u32 whole;
    const u64& rest;

    // A warp does; `rest` is written.
    LANEPACK_DEVICE LzBytes(const u8* bytes, u64 left, u64& rest)
        : words(reinterpret_cast<const u64*>(bytes)), rest(rest) {
        const u32 len = static_cast<u32>(min(left, static_cast<u64>(2 * MAX_LZ_SEGMENT)));
        whole = len / 8;
        if (threadIdx.x % WARP == 0) {
            u64 word = 0;
            for (u32 byte = 8 * whole; byte < len; byte++) word |= static_cast<u64>(__ldg(bytes + byte)) << byte % 8 * 8;
            rest = word;
        }
        __syncwarp();
    }

    LANEPACK_DEVICE u64 word(u32 index) const {
        return index < whole ? __ldg(words + index) : index == whole ? rest : 0;
    }

    // The words of the 16 bytes of some symbols; INSIDE if 24 bytes are there.
    template <bool INSIDE>
    LANEPACK_DEVICE LzWords words_at(u32 byte) const {
        LzWords found{};
        for (u32 k = 0; k < (SYMBOL == 8 ? 2 : 3); k++) {
            found.word[k] = INSIDE ? __ldg(words + byte / 8 + k) : word(byte / 8 + k);
        }
        return found;
    }

    // The 16 bytes.
    LANEPACK_DEVICE static uint4 bytes_of(const LzWords& words, u32 byte) {
        const auto [a, b, c] = words.word;
        const u32 a_low = static_cast<u32>(a), a_high = static_cast<u32>(a >> 32);
        const u32 b_low = static_cast<u32>(b), b_high = static_cast<u32>(b >> 32);
        if constexpr (SYMBOL == 8) return uint4{a_low, a_high, b_low, b_high};
        const u32 c_low = static_cast<u32>(c), c_high = static_cast<u32>(c >> 32);
        const bool is_odd = (byte & 4) != 0;
        const u32 w0 = is_odd ? a_high : a_low;
        const u32 w1 = is_odd ? b_low : a_high;
        const u32 w2 = is_odd ? b_high : b_low;
        const u32 w3 = is_odd ? c_low : b_high;
        if constexpr (SYMBOL == 4) return uint4{w0, w1, w2, w3};
        const u32 w4 = is_odd ? c_high : c_low;
        const u32 shift = byte % 4 * 8;
        return uint4{__funnelshift_r(w0, w1, shift), __funnelshift_r(w1, w2, shift),
                     __funnelshift_r(w2, w3, shift), __funnelshift_r(w3, w4, shift)};
    }

    LANEPACK_DEVICE uint4 at(u32 byte) const { return bytes_of(words_at<false>(byte), byte); }
};

template <class T>
LANEPACK_DEVICE T symbol_of(uint4 bytes) {
    if constexpr (sizeof(T) == 8) return join(bytes.x, bytes.y);
    else return static_cast<T>(bytes.x);
}

// No position.
constexpr u32 NOWHERE = FULL;

// What a warp has in shared memory.
template <class Shape>
struct alignas(16) LzTables {
    static constexpr u32 ENTRIES = 1u << Shape::HASH_BITS;
    // One more than the last position of each hash, of short keys and then of long ones; 0 stands
    // for none.
    u16 last[2 * ENTRIES];
    // Bits of find_sharing.
    u32 seen[2 * WARP];
    // That of LzBytes.
    u64 rest;

    // A warp does.
    LANEPACK_DEVICE void clear() {
        uint4* words = reinterpret_cast<uint4*>(this);
        for (u32 i = threadIdx.x % WARP; i < sizeof(*this) / 16; i += WARP) words[i] = uint4{0, 0, 0, 0};
        __syncwarp();
    }
};

// Whether a position's short key and its long one lie in the segment.
struct LzKeys {
    bool has[2];
};

// Entries of `last` that a lane's position has, by its keys.
struct LzEntries {
    u32 of[2];
    // For each key at least the lanes but one of all that have the same entry.
    u32 sharing[2];
};

// Finds lanes that share entries: words of `seen` are bits of 1,024 entries for each key, all 0
// before and after. A few others whose bits are the same may be among them.
LANEPACK_DEVICE void find_sharing(u32* seen, LzKeys keys, LzEntries& entries) {
    const u32 lane = threadIdx.x % WARP;
    bool shares[2];
    for (u32 k = 0; k < 2; k++) {
        const u32 bit = 1u << entries.of[k] % WARP;
        shares[k] = keys.has[k] && (atomicOr(seen + WARP * k + entries.of[k] / WARP % WARP, bit) & bit) != 0;
    }
    for (u32 k = 0; k < 2; k++) entries.sharing[k] = __ballot_sync(FULL, shares[k]);
    __syncwarp();
    for (u32 k = 0; k < 2; k++) seen[WARP * k + lane] = 0;
    __syncwarp();
}

// Lanes whose entry is that of a lane, itself among them; if no other is, 0 as well.
LANEPACK_DEVICE u32 lanes_at(u32 entry, bool has, u32 sharing) {
    // That many times asking about one entry takes less than __match_any_sync.
    constexpr i32 FEW = 1;
    if (__popc(sharing) > FEW) return __match_any_sync(FULL, has ? entry : FULL - threadIdx.x % WARP);
    u32 lanes = 0;
    while (sharing != 0) {
        const u32 shared = __shfl_sync(FULL, entry, __ffs(static_cast<i32>(sharing)) - 1);
        const bool is_same = has && entry == shared;
        const u32 same = __ballot_sync(FULL, is_same);
        if (is_same) lanes = same;
        sharing &= ~same;
    }
    return lanes;
}

// Puts a warp's positions, of which lane 0 has `begin`, where they are the last ones, in order; what
// each finds there before that: the nearest lane below that shares the entry, or what was there.
// The last of those lanes stays.
LANEPACK_DEVICE void replace_all(u16* last, LzKeys keys, const LzEntries& entries, u32 begin, u32 (&found)[2]) {
    const u32 lane = threadIdx.x % WARP;
    for (u32 k = 0; k < 2; k++) found[k] = keys.has[k] ? last[entries.of[k]] - 1u : NOWHERE;
    __syncwarp();
    for (u32 k = 0; k < 2; k++) {
        const u32 lanes = lanes_at(entries.of[k], keys.has[k], entries.sharing[k]);
        const u32 below = lanes & ((1u << lane) - 1);
        if (below != 0) found[k] = begin + WARP - 1 - static_cast<u32>(__clz(static_cast<i32>(below)));
        if (keys.has[k] && lanes >> lane <= 1) last[entries.of[k]] = static_cast<u16>(begin + lane + 1);
    }
    __syncwarp();
}

// Streams that a warp writes.
template <class Shape>
struct LzStreams {
    using T = typename Shape::T;
    const LzArguments& args;
    T* literals;
    // Lengths are `lengths_at` behind.
    u8* offsets;
    u32* flags;
    // What has been written of them.
    u32 match_count;
    u32 flag_count;
    // Flags of the last word.
    u32 pending;

    // Those of segment `number` of the launch; none of a sample.
    LANEPACK_DEVICE LzStreams(const LzArguments& args, u32 number) : args(args) {
        match_count = flag_count = pending = 0;
        const u64 index = number;
        literals = reinterpret_cast<T*>(args.literals + index * args.segment * Shape::SYMBOL);
        offsets = args.tokens + index * args.token_bytes;
        flags = args.flags + index * (args.segment / WARP);
    }

    // Adds the items that begin at lanes, of which some are matches.
    LANEPACK_DEVICE void add(u32 items, u32 matches, T symbol, u32 offset, u32 length) {
        const u32 lane = threadIdx.x % WARP;
        const u32 below = (1u << lane) - 1;
        const bool is_match = (matches >> lane & 1) != 0;
        const u32 before = static_cast<u32>(__popc(matches & below));
        const u32 rank = static_cast<u32>(__popc(items & below));
        const u32 all = static_cast<u32>(__popc(items));
        const u32 bits = __reduce_or_sync(FULL, is_match ? 1u << rank : 0u);
        if (is_match) {
            const u32 at = match_count + before;
            if constexpr (Shape::WIDE) reinterpret_cast<u16*>(offsets)[at] = static_cast<u16>(offset - 1);
            else offsets[at] = static_cast<u8>(offset - 1);
            offsets[args.lengths_at + at] = static_cast<u8>(length - Shape::LEAST);
        } else if (items >> lane & 1) {
            literals[flag_count - match_count + rank - before] = symbol;
        }
        const u32 filled = flag_count % WARP;
        pending |= bits << filled;
        if (filled + all >= WARP) {
            if (lane == 0) flags[flag_count / WARP] = pending;
            pending = filled == 0 ? 0 : bits >> (WARP - filled);
        }
        flag_count += all;
        match_count += static_cast<u32>(__popc(matches));
    }

    LANEPACK_DEVICE void finish() {
        if (threadIdx.x % WARP == 0 && flag_count % WARP != 0) flags[flag_count / WARP] = pending;
    }
};

// The segment's symbols that are the same as those `offset` before, from symbol `at` on, up to
// `most`; those that lanes compare one by one are.
template <class Shape>
LANEPACK_DEVICE u32 same_symbols(const LzBytes<Shape::SYMBOL>& bytes, u32 at, u32 offset, u32 most) {
    const u32 lane = threadIdx.x % WARP;
    const u32 limit = most * Shape::SYMBOL;
    for (u32 done = 16; done < limit; done += 16 * WARP) {
        const u32 byte = done + 16 * lane;
        const u32 here = at * Shape::SYMBOL + byte;
        u32 same = 0;
        if (byte < limit) same = same_bytes(differing(bytes.at(here), bytes.at(here - offset * Shape::SYMBOL)));
        const u32 others = __ballot_sync(FULL, same < 16);
        if (others != 0) {
            const u32 first = static_cast<u32>(__ffs(static_cast<i32>(others))) - 1;
            const u32 end = done + 16 * first + __shfl_sync(FULL, same, first);
            return min(end, limit) / Shape::SYMBOL;
        }
    }
    return most;
}

// The lowest of some lanes from `first` on; WARP if there is none.
LANEPACK_DEVICE u32 first_from(u32 lanes, u32 first) {
    const u32 rest = first < WARP ? lanes & FULL << first : 0;
    return rest == 0 ? WARP : static_cast<u32>(__ffs(static_cast<i32>(rest))) - 1;
}

// A warp at a segment.
template <class Shape>
struct LzFinder {
    static constexpr u32 SYMBOL = Shape::SYMBOL;
    // Symbols, and bytes behind them, that are to be there for 32 that lie inside: those of the
    // next 32, whose keys are looked at, and of the 32 behind, which are read.
    static constexpr u32 INSIDE_SYMBOLS = 3 * WARP;
    static constexpr u32 INSIDE_BYTES = 24;

    const LzArguments& args;
    LzBytes<SYMBOL> bytes;
    LzTables<Shape>& tables;
    u32 symbols;
    LzStreams<Shape> streams;
    // Symbols of the next 32 that the last match covers.
    u32 covered;
    // What is known of the next 32.
    LzWords next;
    uint4 next_key;
    LzEntries next_entries;

    LANEPACK_DEVICE LzFinder(const LzArguments& args, const LzBytes<SYMBOL>& bytes, u32 symbols, u32 number,
                             LzTables<Shape>& tables)
        : args(args), bytes(bytes), tables(tables), symbols(symbols), streams(args, number), covered(0) {
        const u32 lane = threadIdx.x % WARP;
        next = bytes.template words_at<false>(lane * SYMBOL);
        look_ahead<false>(lane);
    }

    LANEPACK_DEVICE void find_all() {
        const u32 all_bytes = symbols * SYMBOL;
        u32 begin = 0;
        for (; (begin + INSIDE_SYMBOLS) * SYMBOL + INSIDE_BYTES <= all_bytes; begin += WARP) find<true>(begin);
        for (; begin < symbols; begin += WARP) find<false>(begin);
    }

    // What can be known of symbol `at` before those in front of it are taken: nothing waits for it
    // then. The bytes of those behind are on their way after that.
    template <bool INSIDE>
    LANEPACK_DEVICE void look_ahead(u32 at) {
        const u32 byte = at * SYMBOL;
        next_key = bytes.bytes_of(next, byte);
        next_entries.of[0] = lz_hash<Shape::SHORT_KEY, Shape::HASH_BITS>(next_key);
        next_entries.of[1] = tables.ENTRIES + lz_hash<Shape::LONG_KEY, Shape::HASH_BITS>(next_key);
        find_sharing(tables.seen, keys_at<INSIDE>(at), next_entries);
        next = bytes.template words_at<INSIDE>(byte + WARP * SYMBOL);
    }

    template <bool INSIDE>
    LANEPACK_DEVICE LzKeys keys_at(u32 at) const {
        const u32 byte = at * SYMBOL;
        const u32 all_bytes = symbols * SYMBOL;
        return {{INSIDE || byte + Shape::SHORT_KEY <= all_bytes, INSIDE || byte + Shape::LONG_KEY <= all_bytes}};
    }

    // Takes the 32 symbols from `begin` on.
    template <bool INSIDE>
    LANEPACK_DEVICE void find(u32 begin) {
        const u32 lane = threadIdx.x % WARP;
        const u32 at = begin + lane;
        const uint4 key = next_key;
        const LzEntries entries = next_entries;
        u32 found[2];
        replace_all(tables.last, keys_at<INSIDE>(at), entries, begin, found);
        const u32 count = INSIDE ? WARP : min(symbols - begin, WARP);
        if (covered >= count) {
            covered -= count;
            look_ahead<INSIDE>(at + WARP);
            return;
        }
        u32 offset;
        u32 length = length_of<INSIDE>(at, key, found, offset);
        if (!INSIDE) length = lane < count ? min(length, symbols - at) : 0;
        bool is_match = length >= Shape::LEAST;
        if constexpr (SYMBOL == 1) {
            const u32 after = __shfl_down_sync(FULL, is_match ? length : 0, 1);
            const u32 second = __shfl_down_sync(FULL, is_match ? length : 0, 2);
            const bool waits = (lane + 1 < WARP && after > length) || (lane + 2 < WARP && second > length + 1);
            is_match = is_match && !(length < Shape::COMPARED && waits);
        }
        const u32 may = __ballot_sync(FULL, is_match);
        const u32 matches = matches_of(may, begin, offset, length);
        // The last match that begins at the lane or before, and where it ends.
        const u32 upto = matches & FULL >> (WARP - 1 - lane);
        const u32 owner = upto == 0 ? lane : WARP - 1 - static_cast<u32>(__clz(static_cast<i32>(upto)));
        const u32 owner_length = __shfl_sync(FULL, length, owner);
        const u32 end = upto == 0 ? covered : owner + owner_length;
        const bool is_item = (matches >> lane & 1) != 0 || lane >= end;
        const u32 items = __ballot_sync(FULL, lane < count && is_item);
        const u32 last_end = __shfl_sync(FULL, end, WARP - 1);
        covered = last_end > count ? last_end - count : 0;
        if (args.literals != nullptr) {
            streams.add(items, matches, symbol_of<typename Shape::T>(key), offset, length);
        } else {
            streams.flag_count += static_cast<u32>(__popc(items));
            streams.match_count += static_cast<u32>(__popc(matches));
        }
    }

    // The length of the match of a position, as far as 16 bytes tell, and its offset. Looks ahead
    // at the next 32.
    template <bool INSIDE>
    LANEPACK_DEVICE u32 length_of(u32 at, uint4 key, const u32 (&found)[2], u32& offset) {
        bool has[2];
        LzWords words[2];
        uint4 other[2];
        for (u32 k = 0; k < 2; k++) {
            has[k] = found[k] != NOWHERE && at - found[k] <= args.window;
            // Its own, which need no condition, if there is none.
            words[k] = bytes.template words_at<INSIDE>((has[k] ? found[k] : at) * SYMBOL);
        }
        // While they are on their way.
        look_ahead<INSIDE>(at + WARP);
        for (u32 k = 0; k < 2; k++) {
            other[k] = differing(key, bytes.bytes_of(words[k], (has[k] ? found[k] : at) * SYMBOL));
        }
        const bool is_long = has[1] && has_key<Shape::LONG_KEY>(other[1]);
        offset = at - (is_long ? found[1] : found[0]);
        return is_long ? same_bytes(other[1]) / SYMBOL : has[0] ? same_bytes(other[0]) / SYMBOL : 0;
    }

    // The matches that are taken of those that lanes may take; lengths become whole.
    LANEPACK_DEVICE u32 matches_of(u32 may, u32 begin, u32 offset, u32& length) const {
        constexpr u32 UNKNOWN = 2 * WARP;
        const u32 lane = threadIdx.x % WARP;
        // The next match behind that of the lane.
        const u32 behind = length >= Shape::COMPARED ? UNKNOWN : first_from(may, lane + length);
        u32 matches = 0;
        u32 here = first_from(may, covered);
        while (here < WARP) {
            matches |= 1u << here;
            u32 next = __shfl_sync(FULL, behind, here);
            if (next == UNKNOWN) {
                const u32 back = __shfl_sync(FULL, offset, here);
                const u32 most = min(symbols - (begin + here), Shape::MOST);
                const u32 taken = same_symbols<Shape>(bytes, begin + here, back, most);
                if (lane == here) length = taken;
                next = first_from(may, here + taken);
            }
            here = next;
        }
        return matches;
    }
};

// Finds the matches of segment `number` of the launch.
template <class Shape>
LANEPACK_DEVICE void lz_segment(const LzArguments& args, const u8* from, u64 left, u32 number,
                                 LzTables<Shape>& tables) {
    const u64 segment_bytes = static_cast<u64>(args.segment) * Shape::SYMBOL;
    const u32 all_bytes = static_cast<u32>(min(left, segment_bytes));
    const u32 symbols = all_bytes / Shape::SYMBOL;
    tables.clear();
    const LzBytes<Shape::SYMBOL> bytes(from, left, tables.rest);
    LzFinder<Shape> finder(args, bytes, symbols, number, tables);
    finder.find_all();
    LzStreams<Shape>& streams = finder.streams;
    if (args.literals != nullptr) streams.finish();
    const u32 items = streams.flag_count;
    const u32 matches = streams.match_count;
    const u32 tokens = matches * (Shape::WIDE ? 3 : 2);
    const bool is_less = items + 8 * (tokens + (items - matches) * Shape::SYMBOL) < 8 * all_bytes;
    if (threadIdx.x % WARP == 0) {
        u32* counts = args.places + 3 * static_cast<u64>(number);
        counts[0] = is_less ? items : 0;
        counts[1] = is_less ? matches : 0;
        counts[2] = is_less ? items - matches : symbols;
    }
}

// The segment of something of which there is one for each segment of the chunks, by number.
struct LzNumber {
    u32 chunk;
    u32 segment;

    LANEPACK_DEVICE LzNumber(const LzArguments& args, u64 number)
        : chunk(static_cast<u32>(number / args.most_segments)), segment(static_cast<u32>(number % args.most_segments)) {}
};

template <class Shape, u32 THREADS>
LANEPACK_DEVICE void lz_find(const LzArguments& args) {
    constexpr u32 WARPS = THREADS / WARP;
    LANEPACK_SHARED(LzTables<Shape>[WARPS], tables);
    const u32 warp = warp_in_block();
    const LzNumber at(args, static_cast<u64>(blockIdx.x) * WARPS + warp);
    if (at.chunk >= args.count) return;
    const LzChunk& chunk = args.chunks[at.chunk];
    if (at.segment >= segments_of(args, chunk)) return;
    const u64 segment_bytes = static_cast<u64>(args.segment) * Shape::SYMBOL;
    const u64 start = at.segment * segment_bytes;
    lz_segment<Shape>(args, chunk.bytes + start, chunk.len - start, chunk.first + at.segment, tables[warp]);
}

// Blocks that a multiprocessor is to hold: as many as there is shared memory for, and registers.
constexpr u32 LZ_FIND_BLOCKS = 7;
constexpr u32 LZ_WIDE_BLOCKS = 13;

LANEPACK_KERNEL(lz_find_8, LZ_FIND_THREADS, LZ_FIND_BLOCKS, LzArguments) {
    lz_find<LzShape<u8, false>, LZ_FIND_THREADS>(args);
}
LANEPACK_KERNEL(lz_find_16, LZ_FIND_THREADS, LZ_FIND_BLOCKS, LzArguments) {
    lz_find<LzShape<u16, false>, LZ_FIND_THREADS>(args);
}
LANEPACK_KERNEL(lz_find_32, LZ_FIND_THREADS, LZ_FIND_BLOCKS, LzArguments) {
    lz_find<LzShape<u32, false>, LZ_FIND_THREADS>(args);
}
LANEPACK_KERNEL(lz_find_64, LZ_FIND_THREADS, LZ_FIND_BLOCKS, LzArguments) {
    lz_find<LzShape<u64, false>, LZ_FIND_THREADS>(args);
}
LANEPACK_KERNEL(lz_find_wide_8, LZ_WIDE_THREADS, LZ_WIDE_BLOCKS, LzArguments) {
    lz_find<LzShape<u8, true>, LZ_WIDE_THREADS>(args);
}
LANEPACK_KERNEL(lz_find_wide_16, LZ_WIDE_THREADS, LZ_WIDE_BLOCKS, LzArguments) {
    lz_find<LzShape<u16, true>, LZ_WIDE_THREADS>(args);
}
LANEPACK_KERNEL(lz_find_wide_32, LZ_WIDE_THREADS, LZ_WIDE_BLOCKS, LzArguments) {
    lz_find<LzShape<u32, true>, LZ_WIDE_THREADS>(args);
}
LANEPACK_KERNEL(lz_find_wide_64, LZ_WIDE_THREADS, LZ_WIDE_BLOCKS, LzArguments) {
    lz_find<LzShape<u64, true>, LZ_WIDE_THREADS>(args);
}

// Counts of segments become places.
LANEPACK_KERNEL(lz_layout, LZ_LAYOUT_THREADS, 1, LzArguments) {
    LANEPACK_SHARED(u32[3 * LZ_LAYOUT_THREADS / WARP], sums);
    const LzChunk& chunk = args.chunks[blockIdx.x];
    const u32 segments = segments_of(args, chunk);
    u32* places = args.places + 3 * static_cast<u64>(chunk.first);
    u32 before[3] = {0, 0, 0};
    for (u32 first = 0; first < segments; first += LZ_LAYOUT_THREADS) {
        const u32 index = first + threadIdx.x;
        u32 own[3] = {0, 0, 0};
        u32 totals[3];
        for (u32 k = 0; k < 3 && index < segments; k++) own[k] = places[3 * index + k];
        block_sums_before(own, sums, totals);
        for (u32 k = 0; k < 3; k++) {
            if (index < segments) places[3 * index + k] = before[k] + own[k];
            before[k] += totals[k];
        }
        __syncthreads();
    }
    if (threadIdx.x < 3) args.totals[3 * blockIdx.x + threadIdx.x] = before[threadIdx.x];
}

// A segment of a target, and what else is known of its chunk.
struct LzPart {
    const LzTarget& target;
    const LzChunk& chunk;
    const u32* places;
    const u32* totals;
    u32 segments;
    u32 index;

    LANEPACK_DEVICE LzPart(const LzArguments& args, LzNumber at)
        : target(args.targets[at.chunk]), chunk(args.chunks[target.chunk]), index(at.segment) {
        places = args.places + 3 * static_cast<u64>(chunk.first);
        totals = args.totals + 3 * static_cast<u64>(target.chunk);
        segments = segments_of(args, chunk);
    }

    // Where stream `k` of a segment begins, or that of the last one ends.
    LANEPACK_DEVICE u32 place(u32 segment, u32 k) const {
        return segment == segments ? totals[k] : places[3 * segment + k];
    }
};

LANEPACK_KERNEL(lz_borders, LZ_WRITE_THREADS, 1, LzArguments) {
    const LzNumber at(args, static_cast<u64>(blockIdx.x) * LZ_WRITE_THREADS + threadIdx.x);
    if (at.chunk >= args.count) return;
    const LzPart part(args, at);
    if (part.index >= part.segments) return;
    u32* flags = reinterpret_cast<u32*>(part.target.buffer[2]);
    const u32 place = part.place(part.index, 0);
    const u32 all = part.totals[0];
    if (place < all) flags[place / WARP] = 0;
    if (part.index == 0 && all > 0) flags[(all - 1) / WARP] = 0;
}

// Copies bytes, which may begin anywhere; a warp does. Reads words of which all bytes are to be
// copied, but that which an odd beginning cuts.
LANEPACK_DEVICE void copy_bytes(u8* to, const u8* from, u32 count) {
    const u32 lane = threadIdx.x % WARP;
    const u32 head = min(count, static_cast<u32>(-reinterpret_cast<u64>(to) % 4));
    if (lane < head) to[lane] = __ldg(from + lane);
    to += head;
    from += head;
    count -= head;
    const u32 shift = static_cast<u32>(reinterpret_cast<u64>(from) % 4);
    const u32* words = reinterpret_cast<const u32*>(from - shift);
    // Those that reach into the next word read it as a whole.
    const u32 whole = (count + shift) / 4;
    const u32 copied = shift == 0 || whole == 0 ? whole : whole - 1;
    for (u32 at = lane; at < copied; at += WARP) {
        const u32 low = __ldg(words + at);
        const u32 high = shift == 0 ? 0 : __ldg(words + at + 1);
        reinterpret_cast<u32*>(to)[at] = __funnelshift_r(low, high, 8 * shift);
    }
    const u32 rest = 4 * copied;
    if (rest + lane < count) to[rest + lane] = __ldg(from + rest + lane);
}

// Copies bits from bit 0 on to bit `place` on; words that begin or end with bits of others are 0.
LANEPACK_DEVICE void copy_bits(u32* to, u32 place, const u32* from, u32 count) {
    const u32 shift = place % WARP;
    const u32 words = (shift + count + WARP - 1) / WARP;
    const u32 given = (count + WARP - 1) / WARP;
    to += place / WARP;
    for (u32 at = threadIdx.x % WARP; at < words; at += WARP) {
        const u32 low = at == 0 ? 0 : __ldg(from + at - 1);
        const u32 high = at < given ? __ldg(from + at) : 0;
        const u32 bits = __funnelshift_l(low, high, shift);
        const bool is_shared = (at == 0 && shift > 0) || (at + 1 == words && (shift + count) % WARP != 0);
        if (is_shared) atomicOr(to + at, bits);
        else to[at] = bits;
    }
}

LANEPACK_KERNEL(lz_write, LZ_WRITE_THREADS, 8, LzArguments) {
    constexpr u32 WARPS = LZ_WRITE_THREADS / WARP;
    const u32 lane = threadIdx.x % WARP;
    const LzNumber at(args, static_cast<u64>(blockIdx.x) * WARPS + warp_in_block());
    if (at.chunk >= args.count) return;
    const LzPart part(args, at);
    if (part.index >= part.segments) return;
    const u64 segment_bytes = static_cast<u64>(args.segment) * args.symbol;
    const u64 number = part.chunk.first + part.index;
    u32 place[3];
    u32 count[3];
    for (u32 k = 0; k < 3; k++) {
        place[k] = part.place(part.index, k);
        count[k] = part.place(part.index + 1, k) - place[k];
    }
    u8* const* buffer = part.target.buffer;
    if (lane < 3) reinterpret_cast<u32*>(buffer[3])[3 * part.index + lane] = part.place(part.index, lane);
    const bool has_matches = count[1] > 0;
    const u8* literals =
        has_matches ? args.literals + number * segment_bytes : part.chunk.bytes + part.index * segment_bytes;
    copy_bytes(buffer[0] + static_cast<u64>(place[2]) * args.symbol, literals, count[2] * args.symbol);
    if (!has_matches) return;
    const u8* offsets = args.tokens + number * args.token_bytes;
    u8* lengths = buffer[1] + static_cast<u64>(part.totals[1]) * args.offset;
    copy_bytes(buffer[1] + static_cast<u64>(place[1]) * args.offset, offsets, count[1] * args.offset);
    copy_bytes(lengths + place[1], offsets + args.lengths_at, count[1]);
    copy_bits(reinterpret_cast<u32*>(buffer[2]), place[0], args.flags + number * (args.segment / WARP), count[0]);
}

}  // namespace lanepack
