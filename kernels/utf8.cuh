// Whether bytes are UTF-8 (Unicode standard, table 3-7), 32 of them by a thread at a time.
//
//   words    w0 w1 ... w7, four bytes each
//   planes   bit k of all 32 bytes in one word: bit 8 b + i is that of byte b of word i
//
// Sixteen swaps of bits make the planes (Warren, Hacker's Delight, 7-3). Then one instruction looks
// at 32 bytes: continuation bytes must stand exactly where leads ask for them. Only bytes that are
// never used, and leads that restrict the byte behind them, need the lower nibbles.
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
    u32 wrong = asked ^ (upper[3] & ~upper[2]);
    if (is_last) wrong |= (leads.two & 0x80000000) | (leads.three & 0x80800000) | (leads.four & 0x80808000);
    // F0 and above; C0, C1, E0 (and E1); ED (and EC, CC, CD).
    const u32 zeros = lower[3] | lower[2] | lower[1];
    const u32 rare = leads.four | (leads.two & ~upper[0] & (~zeros | (lower[3] & lower[2] & ~lower[1])));
    const u32 lead = before >> 24;
    if (rare != 0 || lead == 0xe0 || lead == 0xed || lead >= 0xf0) {
        // C0, C1, and above F4, which are never used.
        wrong |= leads.two & ~upper[1] & ~upper[0] & ~zeros;
        wrong |= leads.four & (lower[3] | (lower[2] & (lower[1] | lower[0])));
        // Behind E0 come A0 to BF, behind ED 80 to 9F, behind F0 90 to BF, behind F4 80 to 8F.
        const u32 three = leads.three & ~upper[0];
        const u32 e0 = one_on(three & ~zeros & ~lower[0]) | (lead == 0xe0);
        const u32 ed = one_on(three & lower[3] & lower[2] & ~lower[1] & lower[0]) | (lead == 0xed);
        const u32 f0 = one_on(leads.four & ~zeros & ~lower[0]) | (lead == 0xf0);
        const u32 f4 = one_on(leads.four & lower[2]) | (lead == 0xf4);
        wrong |= (e0 & ~upper[1]) | (ed & upper[1]);
        wrong |= (f0 & ~(upper[1] | upper[0])) | (f4 & (upper[1] | upper[0]));
    }
    return wrong != 0;
}

}  // namespace lanepack
