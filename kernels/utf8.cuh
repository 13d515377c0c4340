// Whether bytes are UTF-8 (Unicode standard, table 3-7), 32 of them by a thread at a time.
//
//   words    w0 w1 ... w7, four bytes each
//   planes   bit k of all 32 bytes in one word: bit 8 b + i is that of byte b of word i
//
// Sixteen swaps of bits make the planes (Warren, Hacker's Delight, 7-3). Then one instruction looks
// at 32 bytes: continuation bytes must stand exactly where leads ask for them. Leads that restrict
// the byte behind them are rare, and looked at byte by byte.
#pragma once

#include "lanepack/base.cuh"

namespace lanepack {

// Exchanges the bits of `high` that `mask` has with those of `low` that stand `shift` higher.
LANEPACK_DEVICE void swap_bits(u32& low, u32& high, u32 shift, u32 mask) {
    const u32 moved = (low >> shift ^ high) & mask;
    high ^= moved;
    low ^= moved << shift;
}

// Of words whose bytes hold two nibbles each, those of words i and i + 4, the planes of the four bits.
LANEPACK_DEVICE void planes_of_nibbles(u32 (&words)[4]) {
    swap_bits(words[0], words[2], 2, 0x33333333);
    swap_bits(words[1], words[3], 2, 0x33333333);
    swap_bits(words[0], words[1], 1, 0x55555555);
    swap_bits(words[2], words[3], 1, 0x55555555);
}

// Planes of bytes one, two and three places on; of the last bytes nothing is left.
LANEPACK_DEVICE u32 one_on(u32 plane) { return plane << 8 | (plane >> 23 & 0xfe); }
LANEPACK_DEVICE u32 two_on(u32 plane) { return plane << 16 | (plane >> 15 & 0xfefe); }
LANEPACK_DEVICE u32 three_on(u32 plane) { return plane << 24 | (plane >> 7 & 0xfefefe); }

// Leads of two, three and four bytes or more.
struct Utf8Leads {
    u32 two;
    u32 three;
    u32 four;

    // By planes 7 to 4, or by the highest bits of the bytes of a word.
    LANEPACK_DEVICE Utf8Leads(u32 bit7, u32 bit6, u32 bit5, u32 bit4)
        : two(bit7 & bit6), three(two & bit5), four(three & bit4) {}
    LANEPACK_DEVICE static Utf8Leads of_word(u32 word) {
        return {word & HIGH_BITS, word << 1, word << 2, word << 3};
    }
};

// Whether a word has a byte that is never used, or that its lead does not allow as a second byte.
LANEPACK_DEVICE bool has_rare_error(u32 word, u32 before) {
    bool is_wrong = false;
    u32 lead = before >> 24;
    for (u32 i = 0; i < 4; i++) {
        const u32 byte = word >> 8 * i & 255;
        is_wrong |= byte == 0xc0 || byte == 0xc1 || byte >= 0xf5 || (lead == 0xe0 && byte < 0xa0) ||
                    (lead == 0xed && byte > 0x9f) || (lead == 0xf0 && byte < 0x90) || (lead == 0xf4 && byte > 0x8f);
        lead = byte;
    }
    return is_wrong;
}

// Whether a byte is never used or a lead that restricts the byte behind it, or that may be.
LANEPACK_DEVICE bool is_rare(u32 byte) { return byte == 0xe0 || byte == 0xed || byte >= 0xf0; }

// Whether 32 bytes behind the four of `before` are wrong: those of words 0 to 7, and, if they are the
// `last`, a character that they leave unfinished.
LANEPACK_DEVICE bool has_utf8_error(const u32 (&words)[8], u32 before, bool is_last) {
    constexpr u32 LOW = 0x0f0f0f0f;
    u32 upper[4];
    u32 lower[4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        upper[i] = (words[i] >> 4 & LOW) | (words[i + 4] & ~LOW);
        lower[i] = (words[i] & LOW) | (words[i + 4] << 4 & ~LOW);
    }
    planes_of_nibbles(upper);
    planes_of_nibbles(lower);
    const Utf8Leads leads(upper[3], upper[2], upper[1], upper[0]);
    const Utf8Leads earlier = Utf8Leads::of_word(before);
    const u32 asked_before = earlier.two >> 31 | (earlier.three >> 23 & 0x101) | (earlier.four >> 15 & 0x10101);
    const u32 asked = asked_before | one_on(leads.two) | two_on(leads.three) | three_on(leads.four);
    bool is_wrong = (asked ^ (upper[3] & ~upper[2])) != 0;
    if (is_last) {
        is_wrong |= ((leads.two & 0x80000000) | (leads.three & 0x80800000) | (leads.four & 0x80808000)) != 0;
    }
    // F0 and above; C0, C1, E0 (and E1); ED (and EC).
    const u32 zeros = lower[3] | lower[2] | lower[1];
    const u32 rare = leads.four | (leads.two & ~upper[0] & (~zeros | (lower[3] & lower[2] & ~lower[1])));
    if (rare != 0 || is_rare(before >> 24)) {
#pragma unroll 1
        for (u32 i = 0; i < 8; i++) is_wrong |= has_rare_error(words[i], i > 0 ? words[i - 1] : before);
    }
    return is_wrong;
}

}  // namespace lanepack
