// Which packed values of a vector lie in a range of packed values: one load of every
// word, one or two instructions to bring a value to the top of a register, a
// comparison, and one to collect the verdict; nothing is unpacked.
//
//   words       w0          w1          w2           of one thread, W for its 32 values
//   values   |  r0  |  r1  |  r2  |  r3  |  r4  |
//   r1:      w0 << k | w1 >> (32 - k)  =  r1 << (32 - W) | lower bits of r0
//            less low << (32 - W), compared with (high - low) << (32 - W) | 2^(32 - W) - 1
//
// The bits of the neighbour below the value do not change the verdict, so there is no
// mask; values that end in the word that they begin in are shifted by a multiplication
// that adds the bound too. Code is unrolled for each width, so that all shifts are
// constants, and a switch chooses: a warp has one width.
//
// Widths 1 and 3 to 6: several values are tested together, as fields of a word with bits to spare
// between them (`select_together`). Instructions for 32 values of 4 and 6 bits, loads included: 72
// and 98, one by one 108 and 114.
//
// 8- and 16-bit values: a word of 32 bits has those of 4 or 2 neighbouring lanes, which
// permutations of bytes sort; a thread judges the lanes that it has loaded, and shuffles
// hand the verdicts over. Over 32 bits: comparisons of 64.
//
// Figures and what was tried: docs/experiments.md.
#pragma once

#include "steps.cuh"

namespace lanepack {

// Value `r` of `W` bits at the top of 32 bits; below it anything.
template <u32 W>
LANEPACK_DEVICE u32 at_top(const u32* words, u32 r) {
    const u32 word = r * W / 32;
    const u32 end = r * W % 32 + W;
    // A constant shift may be a multiplication, which is fused with the addition behind it.
    if (end <= 32) return words[word] * (1u << (32 - end));
    return __funnelshift_l(words[word], words[word + 1], 64 - end);
}

// The same for `W` above 32, at the top of 64 bits.
template <u32 W>
LANEPACK_DEVICE u64 at_top_wide(const u32* words, u32 r) {
    const u32 last = (r * W + W - 1) / 32;
    const u32 shift = 31 - (r * W + W - 1) % 32;
    if (shift == 0) return join(words[last - 1], words[last]);
    const u32 high = __funnelshift_l(words[last - 1], words[last], shift);
    const bool is_in_three = r * W < (last - 1) * 32;
    const u32 low =
        is_in_three ? __funnelshift_l(words[last - 2], words[last - 1], shift) : words[last - 1] << shift;
    return join(low, high);
}

// A range of packed values as `at_top` has them: x is inside if x + less <= span.
template <class X>
struct Window {
    X less;
    X span;
};

// From low to high, of `width` bits, which is not 0.
template <class X, class T>
LANEPACK_DEVICE Window<X> window_of(T low, T high, u32 width) {
    const u32 up = sizeof(X) * 8 - width;
    const X below = static_cast<X>((X{1} << up) - 1);
    return {X{0} - (static_cast<X>(low) << up), (static_cast<X>(high - low) << up) | below};
}

// Values of `W` bits that are tested together, neighbours at the bottom of 32 bits; 0 where it is
// slower than one by one. Their verdicts are gathered by a multiplication, which limits them.
template <u32 W>
constexpr u32 TOGETHER = W == 1 ? 32 : W == 3 ? 6 : W == 4 ? 7 : W == 5 ? 6 : W == 6 ? 5 : 0;

// A bit for each of `COUNT` values: at `first`, `step` bits apart.
LANEPACK_DEVICE constexpr u32 bits_apart(u32 first, u32 step, u32 count) {
    u32 bits = 0;
    for (u32 i = 0; i < count; i++) bits |= 1u << (first + i * step);
    return bits;
}

// Values from bit 0 on, W bits each; every other one has W bits to spare above it:
//
//   even      v2 .. v0      masked, plus 2^W - low in each: bit W is set if v >= low
//                           2^W + high in each, less v:     bit W is set if v <= high
//   odd       .. v1 ..      the same, W bits higher
//   verdicts  at bits W, 2 W, 3 W, ..: a multiplication moves them to the top
//
// `even_low` and `even_high` have 2^W - low and 2^W + high at bits 0, 2 W, 4 W, ... The result
// has verdict k of `COUNT` at bit 32 - COUNT + k, below that anything.
template <u32 W, u32 COUNT>
LANEPACK_DEVICE u32 select_together(u32 values, u32 even_low, u32 even_high) {
    constexpr u32 EVEN = (COUNT + 1) / 2;
    constexpr u32 ODD = COUNT / 2;
    constexpr u32 FIELD = (1u << W) - 1;
    const u32 even = values & FIELD * bits_apart(0, 2 * W, EVEN);
    const u32 of_even = (even + even_low) & (even_high - even) & bits_apart(W, 2 * W, EVEN);
    const u32 odd = values & FIELD * bits_apart(W, 2 * W, ODD);
    const u32 of_odd = (odd + (even_low << W)) & ((even_high << W) - odd) & bits_apart(2 * W, 2 * W, ODD);
    if constexpr (COUNT < W) {
        // Verdict k at bit W (k + 1) to 32 - COUNT + k.
        return (of_even | of_odd) * bits_apart(32 - COUNT - W - (W - 1) * (COUNT - 1), W - 1, COUNT);
    } else {
        return of_even * bits_apart(32 - COUNT - W - (2 * W - 2) * (EVEN - 1), 2 * W - 2, EVEN) +
               of_odd * bits_apart(33 - COUNT - 2 * W - (2 * W - 2) * (ODD - 1), 2 * W - 2, ODD);
    }
}

// `select_fields` for widths of which several values are tested together. `low` and `high` have
// W bits.
template <u32 W, u32 COUNT, class Load>
LANEPACK_DEVICE u32 select_narrow(u32 low, u32 high, const Load& load) {
    if constexpr (W == 1) {
        const u32 word = load(0);
        return ((low == 0 ? ~word : 0) | (high == 1 ? word : 0)) & FULL >> (32 - COUNT);
    } else {
        constexpr u32 EACH = TOGETHER<W>;
        constexpr u32 GROUPS = (COUNT + EACH - 1) / EACH;
        constexpr u32 WORDS = (W * COUNT + 31) / 32;
        constexpr u32 ONES = bits_apart(0, 2 * W, (EACH + 1) / 2);
        const u32 even_low = ((1u << W) - low) * ONES;
        const u32 even_high = ((1u << W) + high) * ONES;
        u32 words[WORDS + 1];
#pragma unroll
        for (u32 k = 0; k < WORDS; k++) words[k] = load(k);
        words[WORDS] = 0;
        u32 selection = 0;
#pragma unroll
        for (u32 group = GROUPS; group-- > 0;) {
            const u32 bit = group * EACH * W;
            const u32 values = __funnelshift_r(words[bit / 32], words[bit / 32 + 1], bit % 32);
            if (group == GROUPS - 1) {
                constexpr u32 LAST = COUNT - (GROUPS - 1) * EACH;
                selection = select_together<W, LAST>(values, even_low, even_high) >> (32 - LAST);
            } else {
                selection = __funnelshift_l(select_together<W, EACH>(values, even_low, even_high), selection, EACH);
            }
        }
        return selection;
    }
}

// Bit r: value r of `COUNT` is inside; `load(k)` gives word k, and is asked once for each
// and no sooner than it is needed, which leaves registers for more warps.
template <u32 W, u32 COUNT, class X, class Load>
LANEPACK_DEVICE u32 select_fields(Window<X> window, const Load& load) {
    u32 words[(W * COUNT + 31) / 32];
    u32 selection = 0;
    const u32 one = opaque_one();
#pragma unroll
    for (u32 r = 0; r < COUNT; r++) {
        // The words that value r ends in, and the one before did not.
#pragma unroll
        for (u32 k = (r * W + 31) / 32; k < ((r + 1) * W + 31) / 32; k++) words[k] = load(k);
        if constexpr (W <= 32) {
            collect(at_top<W>(words, r) + window.less <= window.span, 1u << r, one, selection);
        } else {
            collect(at_top_wide<W>(words, r) + window.less <= window.span, 1u << r, one, selection);
        }
    }
    return selection;
}

// Bytes of 4 words in 4 lanes: word i of the result has byte i of each.
LANEPACK_DEVICE uint4 transpose_bytes(uint4 words) {
    const u32 even_low = __byte_perm(words.x, words.y, 0x5140);
    const u32 even_high = __byte_perm(words.x, words.y, 0x7362);
    const u32 odd_low = __byte_perm(words.z, words.w, 0x5140);
    const u32 odd_high = __byte_perm(words.z, words.w, 0x7362);
    return uint4{__byte_perm(even_low, odd_low, 0x5410), __byte_perm(even_low, odd_low, 0x7632),
                 __byte_perm(even_high, odd_high, 0x5410), __byte_perm(even_high, odd_high, 0x7632)};
}

// Verdicts on the lanes of the words that each thread has loaded, ROWS<T> bits a lane,
// to the threads that have the lanes.
template <class T>
LANEPACK_DEVICE u32 hand_over(u32 selection) {
    const u32 thread = threadIdx.x % WARP;
    if constexpr (sizeof(T) == 2) {
        const u32 low = __shfl_sync(FULL, selection, thread / 2);
        const u32 high = __shfl_sync(FULL, selection, 16 + thread / 2);
        return __byte_perm(low, high, thread % 2 == 0 ? 0x5410 : 0x7632);
    } else {
        const u32 byte = thread % 4 * 0x11 + 0x40;
        const u32 first = __shfl_sync(FULL, selection, thread / 4);
        const u32 second = __shfl_sync(FULL, selection, 16 + thread / 4);
        const u32 third = __shfl_sync(FULL, selection, 8 + thread / 4);
        const u32 fourth = __shfl_sync(FULL, selection, 24 + thread / 4);
        return __byte_perm(__byte_perm(first, second, byte), __byte_perm(third, fourth, byte), 0x5410);
    }
}

// The words of 32 bits that hold a thread's values; of 8- and 16-bit values those of
// neighbouring lanes. Two pointers, as halves of 64-bit lanes may begin in the middle of a
// word: addresses differ by constants then, which keeps code for a width to its loads.
template <class T>
struct ThreadWords {
    const u32* even;
    const u32* odd;

    LANEPACK_DEVICE explicit ThreadWords(Packed<T> packed) {
        const u32 thread = threadIdx.x % WARP;
        const u32* words = reinterpret_cast<const u32*>(packed.words);
        if constexpr (sizeof(T) == 8) {
            // A lane's words of 32 bits are pairs, 32 words apart.
            const u32 first = thread / 16 * packed.width;
            words += thread % 16 * 2;
            even = words + first / 2 * 32 + first % 2;
            odd = words + (first + 1) / 2 * 32 + (first + 1) % 2;
        } else {
            even = words + thread;
            odd = even + 32;
        }
    }

    LANEPACK_DEVICE u32 load(u32 k) const {
        constexpr u32 PAIR = sizeof(T) == 8 ? 32 : 64;
        return load_once((k % 2 == 0 ? even : odd) + k / 2 * PAIR);
    }
};

// `select_packed` for one width.
template <class T, u32 W>
LANEPACK_DEVICE u32 select_width(const ThreadWords<T>& words, T low, T high) {
    if constexpr (sizeof(T) >= 4) {
        const auto load = [&](u32 k) { return words.load(k); };
        if constexpr (TOGETHER<W> != 0) {
            return select_narrow<W, 32>(static_cast<u32>(low), static_cast<u32>(high), load);
        } else if constexpr (W <= 32) {
            return select_fields<W, 32>(window_of<u32>(low, high, W), load);
        } else {
            return select_fields<W, 32>(window_of<u64>(low, high, W), load);
        }
    } else {
        [[maybe_unused]] const Window<u32> window = window_of<u32>(low, high, W);
        // A word of each line has `EACH` lanes; `EACH` lines make a word of a lane.
        constexpr u32 EACH = 4 / sizeof(T);
        constexpr u32 COUNT = (W + EACH - 1) / EACH;
        u32 lanes[EACH][COUNT];
#pragma unroll
        for (u32 k = 0; k < COUNT; k++) {
            u32 lines[EACH];
#pragma unroll
            for (u32 i = 0; i < EACH; i++) lines[i] = k * EACH + i < W ? words.load(k * EACH + i) : 0;
            if constexpr (sizeof(T) == 2) {
                lanes[0][k] = __byte_perm(lines[0], lines[1], 0x5410);
                lanes[1][k] = __byte_perm(lines[0], lines[1], 0x7632);
            } else {
                const uint4 bytes = transpose_bytes(uint4{lines[0], lines[1], lines[2], lines[3]});
                lanes[0][k] = bytes.x, lanes[1][k] = bytes.y;
                lanes[2][k] = bytes.z, lanes[3][k] = bytes.w;
            }
        }
        u32 selection = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            const auto load = [&](u32 k) { return lanes[i][k]; };
            u32 of_lane;
            if constexpr (TOGETHER<W> != 0) {
                of_lane = select_narrow<W, ROWS<T>>(low, high, load);
            } else {
                of_lane = select_fields<W, ROWS<T>>(window, load);
            }
            selection |= of_lane << i * ROWS<T>;
        }
        return hand_over<T>(selection);
    }
}

// Sets of widths, bit w - 1 for width w: those that code is made for. Width 0 needs none.
LANEPACK_DEVICE constexpr u64 widths_upto(u32 width) {
    return width == 0 ? 0 : ~u64{0} >> (64 - width);
}
LANEPACK_DEVICE constexpr bool has_width(u64 widths, u32 width) {
    return (widths >> (width - 1) & 1) != 0;
}

// The selection of a vector's packed values from `low` to `high`, both included, of
// which neither has more bits than the vector's width; one of `WIDTHS`, or any slowly. All
// threads of a warp.
template <u64 WIDTHS, class T>
LANEPACK_DEVICE u32 select_widths(Packed<T> packed, T low, T high) {
    const ThreadWords<T> words(packed);
    switch (packed.width) {
#define LANEPACK_WIDTH(w) \
    case w:               \
        if constexpr (w <= ROWS<T> && has_width(WIDTHS, w)) return select_width<T, w>(words, low, high); else break;
#define LANEPACK_WIDTHS(w)                                                                    \
    LANEPACK_WIDTH(w) LANEPACK_WIDTH(w + 1) LANEPACK_WIDTH(w + 2) LANEPACK_WIDTH(w + 3)         \
    LANEPACK_WIDTH(w + 4) LANEPACK_WIDTH(w + 5) LANEPACK_WIDTH(w + 6) LANEPACK_WIDTH(w + 7)
        LANEPACK_WIDTHS(1) LANEPACK_WIDTHS(9) LANEPACK_WIDTHS(17) LANEPACK_WIDTHS(25)
        LANEPACK_WIDTHS(33) LANEPACK_WIDTHS(41) LANEPACK_WIDTHS(49) LANEPACK_WIDTHS(57)
#undef LANEPACK_WIDTHS
#undef LANEPACK_WIDTH
        default: break;
    }
    u32 selection = FULL;
    if constexpr (WIDTHS != widths_upto(ROWS<T>)) {
        if (packed.width == 0) return selection;
        StepPacked<T> steps(packed);
        selection = 0;
#pragma unroll 1
        for (u32 step = 0; step < WARP; step++) {
            const T value = steps.next();
            if (value >= low && value <= high) selection |= 1u << step;
        }
    }
    // Width 0: all values are 0.
    return selection;
}

// The same for all widths up to `MAX`.
template <u32 MAX, class T>
LANEPACK_DEVICE u32 select_packed(Packed<T> packed, T low, T high) {
    return select_widths<widths_upto(MAX)>(packed, low, high);
}

}  // namespace lanepack
