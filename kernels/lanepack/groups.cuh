// States of groups: a table with one or several words for each group and aggregate, indexed by the
// numbers of groups. Where the table fits into shared memory, each block has one of its own, which it
// adds to the table in global memory at its end.
//
//   table    | sums: word 0 of all groups | word 1 | .. | least | .. | greatest | .. |
//
// Numbers of groups that are too many for a table are hashed: open addressing with triangular probing over
// slots, of which each has the number of a group, and the index of the slot is that of the table.
//
// All operations are on integers, so their order does not matter. Sums that may pass 64 bits are added
// in digits of 32 bits: a word is the sum of one digit, and the host carries.
#pragma once

#include "base.cuh"

namespace lanepack {

// Digits of an integer of 128 bits, of which the last has its sign.
constexpr u32 INTEGER_DIGITS = 5;
// Digits of an exact sum of floats (src/scan/group/exact.rs), bit 0 of the first of which is worth
// 2^-1074. Behind them are the numbers of NaN, of negative and of positive infinities.
constexpr u32 FLOAT_DIGITS = 66;
constexpr u32 FLOAT_COUNTS = 3;

struct Groups {
    u64* words;
    // How many groups there are.
    u32 count;

    LANEPACK_DEVICE u64* at(u32 word, u32 group) const { return words + static_cast<u64>(word) * count + group; }

    LANEPACK_DEVICE void add(u32 word, u32 group, u64 value) const { atomicAdd(at(word, group), value); }
    LANEPACK_DEVICE void add(u32 word, u32 group, i64 value) const { add(word, group, static_cast<u64>(value)); }
    LANEPACK_DEVICE void add(u32 word, u32 group, i128 value) const {
#pragma unroll
        for (u32 digit = 0; digit + 1 < INTEGER_DIGITS; digit++) {
            const u64 part = static_cast<u32>(static_cast<u128>(value) >> 32 * digit);
            if (part != 0) add(word + digit, group, part);
        }
        if (value < 0) add(word + INTEGER_DIGITS - 1, group, ~u64{0});
    }
    LANEPACK_DEVICE void add(u32 word, u32 group, double value) const {
        const u64 bits = static_cast<u64>(__double_as_longlong(value));
        const u32 exponent = static_cast<u32>(bits >> 52) & 0x7ff;
        const u64 fraction = bits & ((u64{1} << 52) - 1);
        const bool is_negative = bits >> 63 != 0;
        if (exponent == 0x7ff) {
            const u32 kind = fraction != 0 ? 0 : is_negative ? 1 : 2;
            add(word + FLOAT_DIGITS + kind, group, u64{1});
            return;
        }
        const u64 mantissa = exponent == 0 ? fraction : fraction | u64{1} << 52;
        const u32 place = exponent == 0 ? 0 : exponent - 1;
        const u128 shifted = static_cast<u128>(mantissa) << place % 32;
#pragma unroll
        for (u32 digit = 0; digit < 3; digit++) {
            const u64 part = static_cast<u32>(shifted >> 32 * digit);
            if (part != 0) add(word + place / 32 + digit, group, is_negative ? u64{0} - part : part);
        }
    }
    LANEPACK_DEVICE void least(u32 word, u32 group, u64 key) const { atomicMin(at(word, group), key); }
    LANEPACK_DEVICE void greatest(u32 word, u32 group, u64 key) const { atomicMax(at(word, group), key); }
};

// A table whose words are sums up to number `sums`, then least keys up to number `least`, then greatest
// ones, of `words` in all.
struct GroupTable {
    Groups groups;
    u32 sums;
    u32 least;
    u32 words;

    // What a word holds before anything is added.
    LANEPACK_DEVICE u64 neutral(u32 word) const { return word >= sums && word < least ? ~u64{0} : 0; }

    // Begins a block's own table. All threads of a block.
    LANEPACK_DEVICE Groups begin(u64* own) const {
        for (u32 word = 0; word < words; word++) {
            for (u32 group = threadIdx.x; group < groups.count; group += blockDim.x) {
                own[word * groups.count + group] = neutral(word);
            }
        }
        __syncthreads();
        return {own, groups.count};
    }

    // Adds a block's own table to this one. All threads of a block.
    LANEPACK_DEVICE void end(const u64* own) const {
        __syncthreads();
        for (u32 word = 0; word < words; word++) {
            for (u32 group = threadIdx.x; group < groups.count; group += blockDim.x) {
                const u64 value = own[word * groups.count + group];
                if (value == neutral(word)) continue;
                if (word < sums) {
                    groups.add(word, group, value);
                } else if (word < least) {
                    groups.least(word, group, value);
                } else {
                    groups.greatest(word, group, value);
                }
            }
        }
    }
};

// Slots of a hash table that are looked at for one number. Of a table that is half full a million numbers
// take 25 at most.
constexpr u32 GROUP_PROBES = 96;
// The number of an empty slot; numbers of groups are less.
constexpr u64 NO_GROUP = ~u64{0};

// The slots of groups, as many as a power of two.
struct GroupSlots {
    u64* numbers;
    u32 mask;
    // Set if a number found no slot: what the table has is no result then.
    u32* is_full;

    LANEPACK_DEVICE u32 of(u64 number) const {
        // The finalizer of MurmurHash3.
        u64 hash = (number ^ number >> 33) * 0xff51afd7ed558ccd;
        hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53;
        u32 slot = static_cast<u32>(hash >> 32) & mask;
#pragma unroll 1
        for (u32 step = 1; step <= GROUP_PROBES; step++) {
            // Groups of a full table are found in vain.
            if (step == 16 && __ldcg(is_full) != 0) return 0;
            u64 known = __ldcg(numbers + slot);
            if (known == NO_GROUP) known = atomicCAS(numbers + slot, NO_GROUP, number);
            if (known == NO_GROUP || known == number) return slot;
            slot = (slot + step) & mask;
        }
        *is_full = 1;
        return 0;
    }
};

// The code of a value above the least one of its column, below `codes`, as statistics say; `outside` is set
// if it is not.
template <class Code>
LANEPACK_DEVICE Code code_of(u64 key, u64 least, u64 codes, bool& outside) {
    const u64 code = key - least;
    if (code < codes) return static_cast<Code>(code);
    outside = true;
    return 0;
}

// The same of values of 128 bits, of which the least one has been taken away.
template <class Code>
LANEPACK_DEVICE Code code_of(i128 code, u64 codes, bool& outside) {
    if (static_cast<u128>(code) < codes) return static_cast<Code>(code);
    outside = true;
    return 0;
}

// The code of a string of chunk `chunk`, given that in the chunk's dictionary: `codes` has where each
// chunk's begin, one number more than there are chunks, and these (src/decode/codes.rs).
LANEPACK_DEVICE u32 dictionary_code(const u32* codes, u32 chunk, u32 code, bool& outside) {
    const u32 first = __ldg(codes + chunk);
    if (code < __ldg(codes + chunk + 1) - first) return __ldg(codes + first + code);
    outside = true;
    return 0;
}

// Codes of keys that may be null, which is code 0.
LANEPACK_DEVICE u32 or_null(bool is_valid, u32 code) { return is_valid ? code + 1 : 0; }

}  // namespace lanepack
