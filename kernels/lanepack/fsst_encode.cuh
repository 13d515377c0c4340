// FSST's longest match on the device: a symbol table as a block looks it up.
//
//   next bytes   c u s t o m e r
//                '-+-'            one slot of 2,048, by the first three bytes
//                '-'              else one of 4,096 words, by 12 bits of two bytes
//
//   slot   16 bits: bytes 0 and 1 | 8: length, or byte 7 | 8: code | 32: bytes 3 to 6
//   word   16 bits: which of 16 pairs are symbols | 8: code of the first, less one | 8: code of one byte
//
// Both are exact and of one size whatever the symbols are, 32 KB together. Slot and
// two bytes determine the third, so it need not be stored; codes ascend by length,
// so those of 8 bytes are known by their codes, and their last byte has the place
// of the length; codes of two bytes ascend by bytes, so the code of a pair follows
// from the number of pairs before it.
#pragma once

#include "format.cuh"

namespace lanepack {

constexpr u32 SLOTS = 2048;
constexpr u32 SLOT_MULTIPLIER = 0x67e332bf;

// Bytes of the largest serialised table: 8 counts and 255 symbols.
constexpr u32 MAX_TABLE = 2048;

// The symbols of a serialised table, by code.
struct SerialisedTable {
    const u8* table;
    u64 counts;

    LANEPACK_DEVICE explicit SerialisedTable(const u8* table_)
        : table(table_), counts(*reinterpret_cast<const u64*>(table_)) {}

    // The first code of symbols of `length` bytes or more, 1 to 9.
    LANEPACK_DEVICE u32 first(u32 length) const {
        u32 code = 0;
        for (u32 i = 0; i + 1 < length; ++i) code += static_cast<u32>(counts >> 8 * i) & 255;
        return code;
    }

    // The length of a code's symbol and its bytes, zero above; 0 for codes without one.
    LANEPACK_DEVICE u32 symbol(u32 code, u64& word) const {
        u32 first = 0;
        u32 at = 8;
        word = 0;
        for (u32 length = 1; length <= 8; ++length) {
            const u32 count = static_cast<u32>(counts >> 8 * (length - 1)) & 255;
            if (code < first + count) {
                at += (code - first) * length;
                for (u32 i = 0; i < length; ++i) word |= static_cast<u64>(table[at + i]) << 8 * i;
                return length;
            }
            first += count;
            at += count * length;
        }
        return 0;
    }
};

// What the next bytes begin with: a code, the bytes it stands for, and its own
// bytes: 2 for an escape, whose code is 255 and whose literal is the first byte.
struct Match {
    u32 code;
    u32 length;
    u32 bytes;
};

struct EncoderTable {
    uint2 slots[SLOTS];
    u32 pairs[4096];
    // The first code of 8 bytes, at the place of the code in a slot.
    u32 eights;

    static LANEPACK_DEVICE u32 slot_of(u32 low) { return ((low & 0xffffff) * SLOT_MULTIPLIER) >> 21; }

    // Where the word of two bytes is, given as b0 * 256 + b1.
    static LANEPACK_DEVICE u32 word_of(u32 pair) { return pair >> 4; }

    // Expands the serialised table, by all threads of a block of at least 256. Ends with a
    // barrier.
    LANEPACK_DEVICE void load(const u8* serialised) {
        // Read as a whole, to where slots will be; each thread has a code.
        u64* const staged = reinterpret_cast<u64*>(slots);
        for (u32 i = threadIdx.x; i < MAX_TABLE / 8; i += blockDim.x) {
            staged[i] = reinterpret_cast<const u64*>(serialised)[i];
        }
        __syncthreads();
        const SerialisedTable table(reinterpret_cast<const u8*>(staged));
        const u32 code = threadIdx.x;
        u64 word = 0;
        u64 before = 0;
        u32 length = 0;
        bool follows = false;
        if (code < 256) {
            length = table.symbol(code, word);
            follows = code > 0 && length == 2 && table.symbol(code - 1, before) == 2;
        }
        const u32 first_eight = table.first(8);
        __syncthreads();
        // A vacant slot has bytes 0 and 1 that belong to another one: zeros, and
        // one and zero where zeros and some third byte belong here.
        for (u32 i = threadIdx.x; i < SLOTS; i += blockDim.x) slots[i] = make_uint2(3 << 16, 0);
        for (u32 i = threadIdx.x; i < 4096; i += blockDim.x) pairs[i] = ESCAPE << 24;
        if (threadIdx.x == 0) eights = first_eight << 24;
        __syncthreads();
        if (code < 256) {
            slots[slot_of(code << 16)].x = 1 | 3 << 16;
            if (length == 1) {
                for (u32 j = 0; j < 16; ++j) pairs[static_cast<u32>(word) * 16 + j] = code << 24;
            }
        }
        __syncthreads();
        const u32 low = static_cast<u32>(word);
        const u32 high = static_cast<u32>(word >> 32);
        if (length == 2) {
            const u32 pair = __byte_perm(low, 0, 0x4401);
            follows = follows && word_of(__byte_perm(static_cast<u32>(before), 0, 0x4401)) == word_of(pair);
            atomicOr(pairs + word_of(pair), 1u << pair % 16 | (follows ? 0 : ((code - 1) & 255) << 16));
        } else if (length > 2) {
            const u32 last = length == 8 ? high >> 24 : length;
            slots[slot_of(low)] = make_uint2((low & 0xffff) | last << 16 | code << 24, __funnelshift_r(low, high, 24));
        }
        __syncthreads();
    }

    // The longest match of 8 bytes, `left` of which count, at least one; first_eight
    // is `eights`, read once.
    LANEPACK_DEVICE Match match(u32 low, u32 high, u32 left, u32 first_eight) const {
        const uint2 slot = slots[slot_of(low)];
        const bool eight = slot.x >= first_eight;
        const u32 last = slot.x >> 16 & 255;
        const u32 upto = eight ? 7 : last;
        u32 differs = __funnelshift_lc(0, slot.y ^ __funnelshift_r(low, high, 24), 56 - 8 * upto);
        differs |= (slot.x ^ low) & 0xffff;
        differs |= eight ? last ^ high >> 24 : 0;
        const u32 length = eight ? 8 : last;
        Match match{slot.x >> 24, length, 1};
        if (differs != 0 || length > left) match = short_match(low, left);
        return match;
    }

    // The longest match of two bytes, or of one if only one is left.
    LANEPACK_DEVICE Match short_match(u32 low, u32 left) const {
        const u32 pair = __byte_perm(low, 0, 0x4401);
        const u32 word = pairs[word_of(pair)];
        // The pair's bit on top, below it those of the pairs before.
        const u32 until = word << (31 - pair % 16);
        const bool two = static_cast<i32>(until) < 0 && left > 1;
        const u32 code = two ? ((word >> 16) + static_cast<u32>(__popc(until))) & 255 : word >> 24;
        return {code, two ? 2u : 1u, code == ESCAPE ? 2u : 1u};
    }
};

}  // namespace lanepack
