// FSST on the device: the symbol table, one tile as a thread decodes it, one value.
//
//   codes    | tile 0: 512 codes | tile 1 | ...     a thread decodes a tile
//   output   |  tile 0's bytes      |  tile 1's ...  known from the tile index
//
// A thread shifts symbols into a 64-bit accumulator and stores it, 8 bytes at a
// time, into a ring of its own in shared memory, at the output's address modulo
// the ring. Now and then the warp votes whose ring holds a whole line, and copies
// such lines together, so that global stores are whole lines; what a tile shares
// with its neighbours is written byte by byte.
//
// Codes are not trusted: a tile writes into its own range only, whatever they
// say, and reports codes without a symbol, escapes that nothing follows, and
// bytes that are more or fewer than the range.
#pragma once

#include "node.cuh"

namespace lanepack {

// The symbols of a node, for lookup: the bytes of a symbol, and in the highest
// byte, unless the symbol needs it, its length in bits.
struct SymbolTable {
    u64 words[256];
    // Number of symbols, and the first one of 8 bytes.
    u32 count;
    u32 first_of_8;

    // Expands the serialised table, by all threads of a block. A barrier must
    // follow before anyone decodes.
    LANEPACK_DEVICE void load(const u8* table) {
        for (u32 code = threadIdx.x; code < 256; code += blockDim.x) {
            u32 first = 0, start = 8, length = 0;
            for (u32 bytes = 1; bytes <= 8; bytes++) {
                const u32 symbols = table[bytes - 1];
                if (code >= first && code < first + symbols) {
                    length = bytes;
                    start += (code - first) * bytes;
                    break;
                }
                first += symbols;
                start += symbols * bytes;
            }
            u64 word = static_cast<u64>(length % 8 * 8) << 56;
            for (u32 i = 0; i < length; i++) word |= static_cast<u64>(table[start + i]) << i * 8;
            words[code] = word;
        }
        if (threadIdx.x == 0) {
            count = 0;
            for (u32 i = 0; i < 8; i++) count += table[i];
            first_of_8 = count - table[7];
        }
    }
};

// A symbol or literal: its bytes, and how many bits they are.
struct Piece {
    u64 bytes;
    u32 bits;
};

// Turns codes into pieces, one at a time.
struct CodeReader {
    const SymbolTable& table;
    u32 first_of_8;
    u32 symbols_of_8;
    u32 count;
    // The next code is a literal.
    bool literal;
    // A code without a symbol has come.
    bool invalid;

    LANEPACK_DEVICE CodeReader(const SymbolTable& table_, bool literal_)
        : table(table_),
          first_of_8(table_.first_of_8),
          symbols_of_8(table_.count - table_.first_of_8),
          count(table_.count),
          literal(literal_),
          invalid(false) {}

    // What a code stands for; nothing for an escape.
    LANEPACK_DEVICE Piece next(u32 code) {
        const u64 word = table.words[code];
        const bool is_8 = code - first_of_8 < symbols_of_8;
        u32 bits = is_8 ? 64 : static_cast<u32>(word >> 56);
        u64 bytes = is_8 ? word : word & 0x00ffffffffffffffull;
        const bool escape = !literal && code == ESCAPE;
        invalid |= !literal && code >= count && code != ESCAPE;
        if (literal) {
            bytes = code;
            bits = 8;
        }
        literal = escape;
        return {bytes, bits};
    }
};

// One value, decoded by one thread, symbol by symbol.
//
//   FsstValue value(table, codes, code_length);
//   for (Piece piece; value.next(piece);) { ... piece.bits / 8 bytes, the lowest first ... }
struct FsstValue {
    CodeReader reader;
    const u8* code;
    const u8* end;

    LANEPACK_DEVICE FsstValue(const SymbolTable& table, const u8* codes, u32 code_length)
        : reader(table, false), code(codes), end(codes + code_length) {}

    // The next symbol or literal; false at the end.
    LANEPACK_DEVICE bool next(Piece& piece) {
        while (code < end) {
            piece = reader.next(*code++);
            if (piece.bits != 0) return true;
        }
        return false;
    }

    // Whether every code had a symbol and every escape a literal, once `next` is false.
    LANEPACK_DEVICE bool valid() const { return !reader.invalid && !reader.literal; }
};

// Where a tile begins: docs/FORMAT.md, tiles.
struct TileStart {
    u64 offset;
    bool literal;
};

LANEPACK_DEVICE TileStart tile_start(const Node& node, u32 tile) {
    const u8* group = node.buffer[3] + static_cast<u64>(tile / TILES_PER_GROUP) * TILE_GROUP;
    const u64 head = *reinterpret_cast<const u64*>(group);
    const u32 index = tile % TILES_PER_GROUP;
    const u32 relative = reinterpret_cast<const u16*>(group + 8)[index];
    const u64 first = head & ((u64{1} << TILE_OFFSET_BITS) - 1);
    return {first + relative, (head >> (TILE_OFFSET_BITS + index) & 1) != 0};
}

// The ring of a lane, and between two lanes' rings; bytes of a line; codes
// between votes. A ring holds a line that is not full and all that comes between
// two votes.
constexpr u32 RING = 256;
constexpr u32 RING_STRIDE = RING + 16;
constexpr u32 LINE = 128;
constexpr u32 CODES_PER_VOTE = 16;
static_assert(RING >= LINE + CODES_PER_VOTE * 8 && RING % LINE == 0, "a ring holds what comes");

// Decodes a tile of every lane, a warp together. Lanes beyond the node's tiles
// take part with nothing to do.
struct TileDecoder {
    u8* ring;       // of this lane
    u8* out;        // where position 0 is written
    u64 begin;      // positions of this lane's tile in the output
    u64 end;
    u64 flushed;    // the first line that is not written yet
    u64 position;   // of the accumulator's first byte, a multiple of 8
    u64 accumulator;
    u32 fill;       // bits in it
    u64 seen;       // all bytes ORed

    LANEPACK_DEVICE TileDecoder(u8* ring_, u8* out_, u64 begin_, u64 end_)
        : ring(ring_),
          out(out_),
          begin(begin_),
          end(end_),
          flushed(begin_ / LINE * LINE),
          position(begin_ / 8 * 8),
          accumulator(0),
          fill(static_cast<u32>(begin_ % 8) * 8),
          seen(0) {}

    LANEPACK_DEVICE void push(Piece piece) {
        accumulator |= piece.bytes << fill;
        const u32 bits = fill + piece.bits;
        if (bits >= 64) {
            store();
            position += 8;
            accumulator = piece.bytes >> 1 >> (63 - fill);
        }
        fill = bits % 64;
    }

    LANEPACK_DEVICE void store() {
        *reinterpret_cast<u64*>(ring + position % RING) = accumulator;
        seen |= accumulator;
    }

    // Bytes decoded so far.
    LANEPACK_DEVICE u64 decoded() const { return position + fill / 8 - begin; }

    // Writes lines of all lanes that have a whole one, or with `all` what is left.
    LANEPACK_DEVICE void flush(bool all) {
        const u32 lane = threadIdx.x % WARP;
        const u64 ready = all ? position + fill / 8 : position / LINE * LINE;
        u32 lanes = __ballot_sync(FULL, flushed < ready);
        while (lanes != 0) {
            // Four lanes' lines at once, each by eight threads.
            u32 mine = lanes;
            for (u32 i = 0; i < lane / 8; i++) mine &= mine - 1;
            const u32 owner = mine != 0 ? __ffs(static_cast<int>(mine)) - 1 : lane;
            const u64 line = __shfl_sync(FULL, flushed, owner);
            const u64 low = __shfl_sync(FULL, begin, owner);
            const u64 high = __shfl_sync(FULL, end < ready ? end : ready, owner);
            if (mine != 0) {
                const u32 piece = lane % 8 * 16;
                const u8* from = ring + (static_cast<int>(owner) - static_cast<int>(lane)) * static_cast<int>(RING_STRIDE);
                from += (line + piece) % RING;
                write(from, line + piece, low, high);
            }
            for (u32 i = 0; i < 4; i++) lanes &= lanes - 1;
        }
        if (flushed < ready) flushed += LINE;
        __syncwarp();
    }

    // Writes those of 16 bytes that lie in [low, high).
    LANEPACK_DEVICE void write(const u8* from, u64 at, u64 low, u64 high) {
        if (at >= low && at + 16 <= high) {
            const uint4 bytes = *reinterpret_cast<const uint4*>(from);
            __stcs(reinterpret_cast<uint4*>(out + at), bytes);
        } else {
            for (u32 i = 0; i < 16; i++) {
                if (at + i >= low && at + i < high) out[at + i] = from[i];
            }
        }
    }
};

// Decodes a tile with each thread of a warp; what is wrong with it, or 0.
LANEPACK_DEVICE u32 decode_tile(const SymbolTable& table, const Node& node, u32 tile, u8* out, u8* ring,
                                bool& not_ascii) {
    const u32 tiles = static_cast<u32>((node.size + TILE - 1) / TILE);
    const bool present = tile < tiles;
    TileStart start{0, false}, next{0, false};
    u32 count = 0;
    if (present) {
        start = tile_start(node, tile);
        const bool last = tile + 1 == tiles;
        next = last ? TileStart{node.parameter, false} : tile_start(node, tile + 1);
        count = last ? static_cast<u32>(node.size - static_cast<u64>(tile) * TILE) : TILE;
    }
    CodeReader reader(table, start.literal);
    TileDecoder decoder(ring, out, node.at + start.offset, node.at + next.offset);
    const uint4* codes = reinterpret_cast<const uint4*>(node.buffer[1] + static_cast<u64>(tile) * TILE);
    uint4 ahead{0, 0, 0, 0};
    if (count > 0) ahead = __ldg(codes);
    for (u32 first = 0; first < TILE; first += 16) {
        if (!__any_sync(FULL, first < count)) break;
        const uint4 sixteen = ahead;
        if (first + 16 < count) ahead = __ldg(codes + first / 16 + 1);
        const u32 words[4] = {sixteen.x, sixteen.y, sixteen.z, sixteen.w};
        if (first + 16 <= count) {
#pragma unroll
            for (u32 i = 0; i < 16; i++) decoder.push(reader.next(words[i / 4] >> i % 4 * 8 & 255));
        } else {
#pragma unroll 1
            for (u32 i = 0; i < 16 && first + i < count; i++) {
                const u32 word = i < 4 ? words[0] : i < 8 ? words[1] : i < 12 ? words[2] : words[3];
                decoder.push(reader.next(word >> i % 4 * 8 & 255));
            }
        }
        __syncwarp();
        decoder.flush(false);
    }
    if (decoder.fill > 0) decoder.store();
    __syncwarp();
    // At most a line and a word are left.
    decoder.flush(true);
    decoder.flush(true);
    not_ascii = (decoder.seen & 0x8080808080808080ull) != 0;
    if (!present) return 0;
    if (reader.invalid) return FAULT_CODE;
    if (reader.literal != next.literal) return FAULT_ESCAPE;
    return decoder.decoded() == next.offset - start.offset ? 0u : static_cast<u32>(FAULT_TILE_BYTES);
}

}  // namespace lanepack
