// FSST on the device: the symbol table, tiles as a warp decodes them, one value
// as a thread decodes it.
//
//   codes    | lane 0: 16 codes | lane 1 | ... | lane 31 |    a tile, 512 codes
//   lengths      11                 40             27          looked up, then
//   begins    0                 11       51 ...                a scan over the lanes
//   stage    |---- the tile's bytes in shared memory ----|    then whole lines to memory
//
// A lane knows where its bytes begin before it writes one, so no lane waits for
// another and every byte is written once. It looks symbols up as two words, keeps
// the last four bytes in a register, and when a symbol completes a word of the
// stage, one funnel shift makes it. Words that lanes share are completed by one of
// them, and the others OR theirs in. 128-byte lines leave by 16-byte stores; the
// rest of a line waits in the stage for the warp's next tile.
//
// Codes are not trusted: bytes are counted before any is written, a tile with
// other bytes than the index says, codes without symbol or a wrong escape is
// reported, and neither it nor what the warp would decode behind it is written.
//
// The limit is shared memory, busy 93 to 95 % of the time on an NVIDIA H200: 12.2 wavefronts for 32
// codes of l_comment. What was tried: docs/experiments.md.
#pragma once

#include "node.cuh"

namespace lanepack {

// The symbols of a node, for lookup by code, or by 256 + byte for a literal.
struct SymbolTable {
    // Length of codes that have no symbol: more than 16 symbols have together.
    static constexpr u32 INVALID = 255;

    // Bytes 0 to 4 and 4 to 8 of a symbol, zeros above its length.
    u32 low[512];
    u32 high[256];
    // Bytes; 0 for the escape.
    u8 length[512];

    // Expands the serialised table, by all threads of a block. A barrier must
    // follow before anyone decodes.
    LANEPACK_DEVICE void load(const u8* table) {
        const u64 counts = *reinterpret_cast<const u64*>(table);
        for (u32 code = threadIdx.x; code < 256; code += blockDim.x) {
            u32 bytes = 0;
            u32 first = 0;
            u32 at = 8;
            while (bytes < 8) {
                const u32 count = static_cast<u32>(counts >> 8 * bytes) & 255;
                ++bytes;
                if (code < first + count) break;
                first += count;
                at += count * bytes;
                if (bytes == 8) bytes = INVALID;
            }
            u64 word = 0;
            if (bytes <= 8) {
                at += (code - first) * bytes;
                for (u32 i = 0; i < bytes; ++i) word |= static_cast<u64>(table[at + i]) << 8 * i;
            }
            low[code] = static_cast<u32>(word);
            high[code] = static_cast<u32>(word >> 32);
            length[code] = static_cast<u8>(code == ESCAPE ? 0 : bytes);
            low[256 + code] = code;
            length[256 + code] = 1;
        }
    }
};

// A symbol or literal: its bytes, the lowest first, and how many they are.
struct Piece {
    u64 word;
    u32 length;
};

// One value, decoded by one thread, symbol by symbol.
//
//   FsstValue value(table, codes, code_length);
//   for (Piece piece; value.next(piece);) { ... piece.length bytes of piece.word ... }
struct FsstValue {
    const SymbolTable& table;
    const u8* code;
    const u8* end;
    // The next code is a literal.
    bool literal = false;
    // A code without a symbol has come; it counts as no bytes.
    bool invalid = false;

    LANEPACK_DEVICE FsstValue(const SymbolTable& table_, const u8* codes, u32 code_length)
        : table(table_), code(codes), end(codes + code_length) {}

    // The next symbol or literal; false at the end.
    LANEPACK_DEVICE bool next(Piece& piece) {
        while (code < end) {
            const u32 index = *code++ | (literal ? 256u : 0u);
            literal = index == ESCAPE;
            const u32 length = table.length[index];
            if (length == SymbolTable::INVALID) invalid = true;
            if (length == 0 || length == SymbolTable::INVALID) continue;
            const u64 high = length > 4 ? table.high[index] : 0;
            piece = {high << 32 | table.low[index], length};
            return true;
        }
        return false;
    }

    // Whether every code had a symbol and every escape a literal, once `next` is false.
    LANEPACK_DEVICE bool valid() const { return !invalid && !literal; }
};

// Codes of a lane, bytes of a line, and of a warp's stage: the longest tile, what stands before it in
// its first line, and the 16 bytes before that.
constexpr u32 LANE_CODES = TILE / WARP;
constexpr u32 LINE = 128;
constexpr u32 STAGE = 16 + LINE + TILE * 8;
static_assert(LANE_CODES == 16, "a lane's codes are a uint4");

// Bytes of high:low as the nibbles of `selector` say, whose bit 3 asks for eight
// times the byte's sign instead (which __byte_perm does not do).
LANEPACK_DEVICE u32 permute(u32 low, u32 high, u32 selector) {
    u32 result;
#if defined(LANEPACK_SIMT)
    const u64 bytes = static_cast<u64>(high) << 32 | low;
    result = 0;
    for (u32 i = 0; i < 4; ++i) {
        const u32 nibble = selector >> 4 * i & 15;
        const u32 byte = static_cast<u32>(bytes >> 8 * (nibble & 7)) & 255;
        result |= (nibble < 8 ? byte : byte < 128 ? 0 : 255) << 8 * i;
    }
#else
    // Volatile: done again where it is used again, which keeps 12 registers free (sm_100).
    asm volatile("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
#endif
    return result;
}

// A lane's codes, and a 1 in the byte of each that is a literal.
struct LaneCodes {
    u32 word[4];
    u32 literal[4];

    // Where the symbol of code i stands in the table.
    LANEPACK_DEVICE u32 index(u32 i) const {
        // Bytes of the result: the code, its literal byte, and that byte's sign, zero.
        const u32 byte = i % 4;
        return permute(word[i / 4], literal[i / 4], byte | (byte + 4) << 4 | (byte + 12) << 8 | (byte + 12) << 12);
    }
};

// The top bit of every byte that is 255.
LANEPACK_DEVICE u32 bytes_of_255(u32 word) { return ((word & ~HIGH_BITS) + 0x01010101u) & word & HIGH_BITS; }

// The top bits of literals among bytes, those of 255 given: bytes behind an
// escape, and the first one if `inside`.
LANEPACK_DEVICE u32 literals_of(u32 escapes, u32 inside) {
    u32 literals = inside << 7;
    for (u32 i = 0; i < 3; ++i) literals = inside << 7 | (escapes & ~literals) << 8;
    return literals;
}

// Finds the literals of a tile that begins inside an escape or not (1 or 0); the
// result is whether it ends inside one. By a warp together.
LANEPACK_DEVICE u32 find_literals(LaneCodes& codes, u32 inside) {
    const u32 lane = threadIdx.x % WARP;
    u32 escapes[4];
    u32 literals[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) escapes[i] = bytes_of_255(codes.word[i]);
    // As if all 255s were escapes: what stands behind one is a literal.
    u32 ends = __ballot_sync(FULL, escapes[3] >> 31 != 0);
    const u32 begins = (ends << 1 | inside) >> lane & 1;
    u32 doubtful = 0;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        literals[i] = escapes[i] << 8 | (i == 0 ? begins << 7 : escapes[(i + 3) % 4] >> 24);
        doubtful |= literals[i] & escapes[i];
    }
    if (__any_sync(FULL, doubtful != 0)) {
        // A 255 behind a 255, which text in UTF-8 never has: one after the other.
        // A lane of nothing else ends as it begins, others end the same either way.
        u32 state = 0;
        u32 all = HIGH_BITS;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            state = (escapes[i] & ~literals_of(escapes[i], state)) >> 31;
            all &= escapes[i];
        }
        ends = __ballot_sync(FULL, state != 0);
        const u32 others = __ballot_sync(FULL, all != HIGH_BITS) & ((1u << lane) - 1);
        state = others == 0 ? inside : ends >> (31 - __clz(static_cast<int>(others))) & 1;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            literals[i] = literals_of(escapes[i], state);
            state = (escapes[i] & ~literals[i]) >> 31;
        }
        ends = __ballot_sync(FULL, state != 0);
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) codes.literal[i] = literals[i] >> 7;
    return ends >> 31;
}

// The same for a tile of which the lane has `count` codes, the node's last: those
// past the end become escapes that nothing follows, of no bytes.
LANEPACK_DEVICE u32 find_literals(LaneCodes& codes, u32 inside, u32 count) {
    u32 kept[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        kept[i] = count <= 4 * i ? 0 : count >= 4 * i + 4 ? FULL : FULL >> (32 - 8 * (count - 4 * i));
        codes.word[i] &= kept[i];
    }
    const u32 ends = find_literals(codes, inside);
    u32 past = 0;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        past |= codes.literal[i] & ~kept[i];
        codes.word[i] |= ~kept[i];
        codes.literal[i] &= kept[i];
    }
    return __any_sync(FULL, past != 0) ? 1 : ends;
}

// Where a warp's bytes go: positions count from the first byte of `stage`, which
// is the first of a line of the output. The 16 bytes of the line before stand before it.
struct StagedOutput {
    u32* stage;
    u8* line;
    // The first byte that is the warp's and not written yet, and the end of all.
    u32 begin;
    u32 end;
    // The bytes of the unfinished word before `end`, at the top.
    u32 held;
    // What the thread wrote last, ORed.
    u32 seen;

    LANEPACK_DEVICE StagedOutput(uint4* stage_, u8* out, u64 at)
        : stage(reinterpret_cast<u32*>(stage_ + 1)),
          line(out + at / LINE * LINE),
          begin(static_cast<u32>(at % LINE)),
          end(begin),
          held(0),
          seen(0) {}

    // Decodes a tile of `bytes` bytes, the lane's from `at` on.
    LANEPACK_DEVICE void decode(const SymbolTable& table, const LaneCodes& codes, const u32 (&length)[LANE_CODES],
                                u32 at, u32 bytes) {
        u32 last = threadIdx.x % WARP == 0 ? held : 0;
        end += bytes;
        // The word that no lane completes.
        if (threadIdx.x % WARP == 0) stage[end / 4] = 0;
#pragma unroll
        for (u32 i = 0; i < LANE_CODES; ++i) {
            const u32 index = codes.index(i);
            const u32 low = table.low[index];
            const u32 word = at & ~3u;
            const u32 next = at + length[i];
            const u32 next_word = next & ~3u;
            if (next_word != word) stage[word / 4] = __funnelshift_l(last, low, 8 * at);
            if (length[i] > 4) {
                const u32 high = table.high[index];
                if (next_word - word > 4) stage[word / 4 + 1] = __funnelshift_l(low, high, 8 * at);
                last = __funnelshift_rc(low, high, 8 * length[i] - 32);
            } else {
                last = __funnelshift_rc(last, low, 8 * length[i]);
            }
            at = next;
        }
        __syncwarp();
        if (at % 4 != 0) atomicOr(stage + at / 4, last >> (32 - 8 * (at % 4)));
        __syncwarp();
    }

    // Writes the lines that are whole, shows them to `check` and keeps the rest.
    template <class Check>
    LANEPACK_DEVICE void flush(Check& check) {
        const u32 lane = threadIdx.x % WARP;
        held = __funnelshift_r(0, stage[end / 4], 8 * end);
        const u32 whole = end / LINE * LINE;
        if (whole != 0) {
            write(whole);
            check.written(*this, whole);
            uint4* units = reinterpret_cast<uint4*>(stage) - 1;
            const uint4 rest = units[whole / 16 + min(lane, LINE / 16)];
            __syncwarp();
            if (lane <= LINE / 16) units[lane] = rest;
            line += whole;
            begin = 0;
            end -= whole;
        }
        __syncwarp();
    }

    // Writes what stands before `until`: 16 bytes at a time, but byte by byte where
    // others write some of the 16.
    LANEPACK_DEVICE void write(u32 until) {
        seen = 0;
        const u32 lane = threadIdx.x % WARP;
        const u32 first = (begin + 15) & ~15u;
        const u32 behind = until & ~15u;
#pragma unroll 1
        for (u32 at = first + lane * 16; at < behind; at += WARP * 16) {
            const uint4 unit = *reinterpret_cast<const uint4*>(stage + at / 4);
            seen |= unit.x | unit.y | unit.z | unit.w;
            __stcs(reinterpret_cast<uint4*>(line + at), unit);
        }
        if (begin == first && until == behind) return;
        const u8* bytes = reinterpret_cast<const u8*>(stage);
        const u32 before = begin + lane;
        if (before < min(first, until)) {
            seen |= bytes[before];
            line[before] = bytes[before];
        }
        const u32 after = max(first, behind) + lane;
        if (after < until) {
            seen |= bytes[after];
            line[after] = bytes[after];
        }
    }
};

// Where a tile begins in the node's bytes; `inside` is 1 if inside an escape.
LANEPACK_DEVICE u64 tile_start(const Node& node, u32 tile, u32& inside) {
    const u8* group = node.buffer[3] + static_cast<u64>(tile / TILES_PER_GROUP) * TILE_GROUP;
    const u64 head = *reinterpret_cast<const u64*>(group);
    const u32 index = tile % TILES_PER_GROUP;
    inside = static_cast<u32>(head >> (TILE_OFFSET_BITS + index)) & 1;
    return (head & ((u64{1} << TILE_OFFSET_BITS) - 1)) + reinterpret_cast<const u16*>(group + 8)[index];
}

// The interface of a check of decoded bytes, and a check that accepts all. `decode_tiles` calls its
// members by all threads of a warp.
struct NoCheck {
    // Makes the check of a warp whose bytes begin at this place of the output.
    LANEPACK_DEVICE NoCheck operator()(u64) const { return {}; }
    // Whole lines have been written: the bytes of the stage from `begin` up to a position.
    LANEPACK_DEVICE void written(const StagedOutput&, u32) {}
    // The last bytes have been written, from `begin` up to `end`; the codes of the node's next tile.
    LANEPACK_DEVICE void ended(StagedOutput&, FsstValue&) {}
    // The fault of all bytes, or 0.
    LANEPACK_DEVICE u32 fault() const { return 0; }
};

// Decodes up to 31 tiles of a node from tile `first` on to out + node.at, by a warp
// with a stage of STAGE bytes of its own. The result, the same in all lanes, is what
// is wrong with the codes, or else the fault of the check that `check_from` makes, or 0.
template <class CheckFrom = NoCheck>
LANEPACK_DEVICE u32 decode_tiles(const SymbolTable& table, const Node& node, u32 first, u32 count, u8* out,
                                 uint4* stage, CheckFrom check_from = {}) {
    const u32 lane = threadIdx.x % WARP;
    const u32 tiles = static_cast<u32>((node.size + TILE - 1) / TILE);
    if (first >= tiles) return 0;
    count = min(count, tiles - first);
    // Lane i keeps where tile first + i begins.
    u32 inside = 0;
    u64 offset = node.parameter;
    if (lane <= count && first + lane < tiles) offset = tile_start(node, first + lane, inside);
    const u32 insides = __ballot_sync(FULL, inside != 0);
    const u64 start = __shfl_sync(FULL, offset, 0);
    const u32 relative = static_cast<u32>(min(offset - start, u64{FULL}));

    StagedOutput output(stage, out, node.at + start);
    auto check = check_from(node.at + start);
    const u64 left = node.size - static_cast<u64>(first) * TILE;
    const uint4* const codes = reinterpret_cast<const uint4*>(node.buffer[1] + static_cast<u64>(first) * TILE) + lane;
    uint4 ahead = make_uint4(0, 0, 0, 0);
    if (lane * LANE_CODES < left) ahead = __ldcs(codes);
    for (u32 tile = 0; tile < count; ++tile) {
        LaneCodes own{{ahead.x, ahead.y, ahead.z, ahead.w}, {}};
        const u32 behind = (tile + 1) * TILE;
        if (tile + 1 < count && behind + lane * LANE_CODES < left) ahead = __ldcs(codes + behind / LANE_CODES);
        const bool whole = behind <= left;
        const u32 mine = tile * TILE + lane * LANE_CODES;
        const u32 ends = whole ? find_literals(own, insides >> tile & 1)
                               : find_literals(own, insides >> tile & 1,
                                               mine < left ? min(static_cast<u32>(left) - mine, LANE_CODES) : 0);

        u32 length[LANE_CODES];
        u32 sum = 0;
#pragma unroll
        for (u32 i = 0; i < LANE_CODES; ++i) {
            length[i] = table.length[own.index(i)];
            sum += length[i];
        }
        u32 before = sum;
#pragma unroll
        for (u32 step = 1; step < WARP; step *= 2) {
            const u32 other = __shfl_up_sync(FULL, before, step);
            if (lane >= step) before += other;
        }
        const u32 bytes = __shfl_sync(FULL, before, WARP - 1);
        const u32 expected = __shfl_sync(FULL, relative, tile + 1) - __shfl_sync(FULL, relative, tile);
        const bool last = first + tile + 1 == tiles;
        const u32 next_inside = last ? 0 : insides >> (tile + 1) & 1;
        // 16 symbols have at most 128 bytes; one code without symbol counts as more.
        if (__any_sync(FULL, sum > LANE_CODES * 8)) return FAULT_CODE;
        if (ends != next_inside) return last ? FAULT_ESCAPE : FAULT_TILE_BYTES;
        if (bytes != expected) return FAULT_TILE_BYTES;
        output.decode(table, own, length, output.end + before - sum, bytes);
        output.flush(check);
    }
    output.write(output.end);
    const u32 behind = first + count;
    FsstValue next(table, node.buffer[1] + min(static_cast<u64>(behind) * TILE, node.size),
                   behind < tiles ? static_cast<u32>(min(node.size - static_cast<u64>(behind) * TILE, u64{TILE})) : 0);
    next.literal = behind < tiles && (insides >> count & 1) != 0;
    check.ended(output, next);
    return check.fault();
}

}  // namespace lanepack
