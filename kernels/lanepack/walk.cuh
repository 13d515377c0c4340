// Automata over codes: which strings of a vector one accepts, a look at a table a code.
//
//   rows     the state behind each state and code, 256 codes a state, as bytes or u16
//   states   | rejecting | reject | accept | accepting | escaped | fault |
//             from start: 0        accepts              faults    count - 1
//
// States have numbers such that one comparison says what a string is that ends in one: it
// is accepted from `accepts` on, and its codes are wrong from `faults` on. `reject` and
// `accept` are never left. `escaped` is a state for each that an escape may come in,
// whose row is over literals; `fault` is behind codes without symbol.
//
//   codes    |................|................|................|     16 aligned bytes a load
//   thread s      [ 0 ][   1   ][2][         3         ][ 4 ] ...     its 32 strings
//   ends                1          1  1                   1
//
// A thread walks its strings as one run of codes, 16 at a time, whatever strings these
// belong to: at a code that is a string's last the verdict is taken and the state goes
// back to the start. So threads stay together though strings have different lengths; they
// wait for the longest run of 32 strings, not for the longest string of each step. A
// string that is decided, or not asked for, is left for the 16 codes that it ends in.
//
// As compiled for sm_90 a code takes seven instructions: a permutation (state and code to
// an index), a load, a bit test, and four that are predicated, for where a string ends.
#pragma once

#include "strings.cuh"

namespace lanepack {

struct Range;

// What the strings of a chunk are tested for: kinds of tests.
constexpr u32 STRINGS_NONE = 0;
constexpr u32 STRINGS_ALL = 1;
constexpr u32 STRINGS_LITERALS = 2;
constexpr u32 STRINGS_BYTE_ROWS = 3;
constexpr u32 STRINGS_WORD_ROWS = 4;
constexpr u32 STRINGS_CODES = 5;

// A test for the strings of a chunk.
struct StringsTest {
    // Literals (select_strings.cuh), or an automaton's rows, at a multiple of 16 bytes; of
    // codes of a dictionary a bit for each code.
    const u8* table;
    // Literals: their ninth bytes and all behind. Codes: their CodeRange (select_codes.cuh).
    const u8* bytes;
    // Literals: the lengths that they have.
    const Range* lengths;
    u32 kind;
    // Literals, states, or values of the dictionary.
    u32 count;
    // Literals: ranges of lengths.
    u32 range_count;
    // Automata: where strings begin, and the states that a string may not end in (none
    // at all) or may (accepted, codes wrong) from there on.
    u32 start;
    u32 accepts;
    u32 faults;
    // The number of the chunk, for reports.
    u32 chunk;
    u32 zero;
    u32 zeros[2];
};

// Codes of a state's row.
constexpr u32 ROW = 256;

// The rows of an automaton where they lie.
template <class State>
struct RowsInMemory {
    const State* rows;

    LANEPACK_DEVICE explicit RowsInMemory(const StringsTest& test)
        : rows(reinterpret_cast<const State*>(test.table)) {}

    LANEPACK_DEVICE u32 operator[](u32 index) const { return __ldg(rows + index); }
};

// Room for the rows of bytes of any automaton.
struct SharedTable {
    alignas(16) u8 rows[ROW * ROW];
};

// Rows of bytes in shared memory.
struct SharedRows {
    const u8* rows;

    LANEPACK_DEVICE u32 operator[](u32 index) const { return rows[index]; }

    // Copies an automaton's rows, by all threads of a block. A barrier must follow.
    LANEPACK_DEVICE static void load(const StringsTest& test, u8* to) {
        const uint4* from = reinterpret_cast<const uint4*>(test.table);
        for (u32 i = threadIdx.x; i < test.count * (ROW / 16); i += blockDim.x) {
            reinterpret_cast<uint4*>(to)[i] = __ldg(from + i);
        }
    }
};

// The strings of a thread from the first to the last, and what was found of them.
struct Walk {
    // The string at hand, its codes that are left, and where they begin; past the last
    // string `WARP`.
    u32 string;
    u32 left;
    u64 from;
    // Whether some of its codes are behind.
    bool is_inside;
    // Strings whose end was walked past, and whether they were rejected, the last one in
    // bit 0.
    u32 walked;
    u32 rejected;
    // The greatest state that a string ended in.
    u32 worst;
};

constexpr u32 CODES_PIECE = 16;

// The word of rows of the strings that an automaton accepts, walked from `begin` on in
// `codes`; what it says of strings that are not `live` is no verdict.
template <class Rows>
LANEPACK_DEVICE u32 walk_strings(const Rows& rows, const StringsTest& test, const u8* codes, u64 begin, u32 live,
                                 const Node& lengths, u32 vector, StoredLengths& shared, u32& fault) {
    const u32 start = test.start;
    const u32 accepts = test.accepts;
    const u32 reject = accepts - 1;
    const auto length = [&](u32 string) { return string < WARP ? shared.of(lengths, vector, string) : FULL; };
    Walk walk{0, length(0), begin, false, 0, 0, 0};
    u32 state = start;
#pragma unroll 1
    while (true) {
        // The last string that was passed over.
        u32 passed = 0;
        if (!walk.is_inside) {
            // To the next string that is asked for and has codes.
            while (walk.string < WARP && (walk.left == 0 || (live >> walk.string & 1) == 0)) {
                if (walk.left > 0) passed = 1u << walk.string;
                walk.from += walk.left;
                walk.left = length(++walk.string);
            }
            if (walk.string == WARP) break;
        } else {
            // To the piece in which a string ends that is decided, or not asked for: of
            // its codes in between nothing is known.
            const bool is_live = (live >> walk.string & 1) != 0;
            if (!is_live) state = reject;
            if (state == reject || state == accepts) {
                const u32 skipped = (walk.left - 1) / CODES_PIECE * CODES_PIECE;
                walk.from += skipped;
                walk.left -= skipped;
            }
        }
        u32 at = static_cast<u32>(walk.from % CODES_PIECE);
        const uint4 piece = __ldg(reinterpret_cast<const uint4*>(codes + (walk.from - at)));
        walk.from += CODES_PIECE - at;
        // The codes that end a string.
        u32 ends = 0;
        if (!walk.is_inside) {
            state = start;
            if (at > 0) {
                // What stands before is the end of a string that was passed over, which is
                // rejected, or of another thread's: that verdict is the first, and is shifted
                // out or left over.
                state = reject;
                ends = 1u << (at - 1);
                walk.walked |= passed;
            }
        }
        while (walk.left <= CODES_PIECE - at) {
            at += walk.left;
            ends |= 1u << (at - 1);
            walk.walked |= 1u << walk.string;
            do walk.left = length(++walk.string);
            while (walk.left == 0);
        }
        walk.is_inside = at < CODES_PIECE && walk.string < WARP;
        if (walk.is_inside) walk.left -= CODES_PIECE - at;
        const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
        for (u32 i = 0; i < CODES_PIECE; i++) {
            // The code is the lowest byte of the index, the state stands above.
            state = rows[__byte_perm(state, words[i / 4], 0x2104 + i % 4)];
            if ((ends & 1u << i) != 0) {
                // Its bit is the sign of a difference.
                walk.rejected = __funnelshift_l(state - accepts, walk.rejected, 1);
                walk.worst = max(walk.worst, state);
                state = start;
            }
        }
    }
    // The first verdict to the first string.
    u32 found = ~__brev(walk.rejected);
    if (walk.walked != FULL) {
        // Each verdict to its string; strings without codes are what the start is.
        found = start >= accepts ? ~walk.walked : 0;
#pragma unroll 1
        for (u32 left = __brev(walk.walked); left != 0; left &= left - 1) {
            if ((walk.rejected & 1) == 0) found |= __brev(left & (0 - left));
            walk.rejected >>= 1;
        }
    }
    const u32 worst = __reduce_max_sync(FULL, walk.worst);
    if (worst >= test.faults) fault = worst + 1 == test.count ? FAULT_CODE : FAULT_ESCAPE;
    return found;
}

}  // namespace lanepack
