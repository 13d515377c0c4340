// Selections of strings: which of a vector's pass a test, on what is stored of them.
//
//   = and IN   the literals' codes by the chunk's symbol table. Code lengths first: where
//              none fits, no code is read; then eight codes and the length together as
//              one number, then the rest
//   all else   an automaton over codes (walk.cuh)
//   dict       its codes, by what the tests of its values have found (select_codes.cuh)
//
// Equal strings have equal codes (docs/FORMAT.md), so nothing is decoded. The host makes
// a test for each symbol table, and decides what a chunk's header and table decide.
//
// All threads of a warp call these together, with the same vector. Functions that take
// and give words of rows (strings.cuh) are for kernels that make bitmaps; `select_strings`
// takes and gives selections.
#pragma once

#include "select_codes.cuh"
#include "walk.cuh"

namespace lanepack {

// A literal as it is stored: its first bytes as a number, and where the others are.
// Shared with the host.
struct StoredLiteral {
    // Its first eight bytes, the first the highest, zeros behind them.
    u64 head;
    u32 length;
    // Where its ninth byte stands among those of all literals; a multiple of 4.
    u32 rest;
};

// Bytes of the head.
constexpr u32 HEAD = 8;

// Four bytes as a number, the first the highest: compares as they do.
LANEPACK_DEVICE u32 big_endian(u32 bytes) {
    return __byte_perm(bytes, 0, 0x0123);
}

// Whether a string of one of the literals' lengths is a literal.
LANEPACK_DEVICE bool is_literal(const StringsTest& test, const u8* string, u32 length) {
    const u32 high = length > 0 ? bytes_at(string, length) : 0;
    const u32 low = length > 4 ? bytes_at(string + 4, length - 4) : 0;
    const u64 head = join(big_endian(low), big_endian(high));
    const StoredLiteral* literals = reinterpret_cast<const StoredLiteral*>(test.table);
    u32 first = 0;
#pragma unroll 1
    for (u32 end = test.count; first < end;) {
        const u32 middle = (first + end) / 2;
        const StoredLiteral* literal = literals + middle;
        // They are in order of their lengths, and of one length of their bytes.
        const u32 its_length = __ldg(&literal->length);
        const u64 its_head = __ldg(&literal->head);
        bool is_before = its_length < length;
        bool is_equal = its_length == length;
        if (is_equal) {
            is_before = its_head < head;
            is_equal = its_head == head;
        }
        if (is_equal && length > HEAD) {
            const u8* rest = test.bytes + __ldg(&literal->rest);
#pragma unroll 1
            for (u32 at = HEAD; at < length; at += 4) {
                const u32 its = __ldg(reinterpret_cast<const u32*>(rest + (at - HEAD)));
                const u32 own = bytes_at(string + at, length - at);
                if (its == own) continue;
                is_equal = false;
                is_before = big_endian(its) < big_endian(own);
                break;
            }
        }
        if (is_equal) return true;
        if (is_before) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return false;
}

// The word of rows of the strings that are one of the literals, of those that are `live`.
// `ENCODINGS` and `WIDTHS` are those of the lengths (words.cuh).
template <u32 ENCODINGS, u64 WIDTHS>
LANEPACK_DEVICE u32 rows_of_literals(const Node& strings, const Node& lengths, u32 vector, const StringsTest& test,
                                     u32 live, StoredLengths& shared, u32& fault) {
    const Ranges fitting{test.lengths, test.range_count, UNSIGNED};
    // Others may still read lengths of the vector before.
    __syncwarp();
    u32 left = live & by_step(select_values<u32, ENCODINGS, WIDTHS>(lengths, vector, fitting, shared.patches));
    if (!__any_sync(FULL, left != 0)) return 0;
    u64 begin;
    if (!find_strings(strings, lengths, vector, shared, begin)) {
        fault = FAULT_LENGTHS;
        return 0;
    }
    const u8* string = stored_bytes(strings) + begin;
    u32 found = 0;
    u32 i = 0;
#pragma unroll 1
    for (; left != 0; left &= left - 1) {
        const u32 next = static_cast<u32>(__ffs(static_cast<int>(left))) - 1;
#pragma unroll 1
        for (; i < next; i++) string += shared.of(lengths, vector, i);
        if (is_literal(test, string, shared.of(lengths, vector, i))) found |= 1u << i;
    }
    return found;
}

// The word of rows of the strings that an automaton accepts; those that are not `live`
// may be among them. `rows` are the automaton's.
template <class Rows>
LANEPACK_DEVICE u32 rows_of_automaton(const Node& strings, const Node& lengths, u32 vector, const StringsTest& test,
                                      u32 live, StoredLengths& shared, const Rows& rows, u32& fault) {
    if (!__any_sync(FULL, live != 0)) return 0;
    u64 begin;
    if (!find_strings(strings, lengths, vector, shared, begin)) {
        fault = FAULT_LENGTHS;
        return 0;
    }
    // Kept in registers, not read from the node again for every piece.
    const u8* codes = &again(*stored_bytes(strings));
    return walk_strings(rows, test, codes, begin, live, lengths, vector, shared, fault);
}

// All kinds of tests that look at strings, as bits by their numbers.
constexpr u32 ALL_STRINGS = 1 << STRINGS_LITERALS | 1 << STRINGS_BYTE_ROWS | 1 << STRINGS_WORD_ROWS;

// The selection of the strings that pass the test of their chunk, which is of one of
// `KINDS` unless it is decided; of those that are not `live` it says anything. `fault` becomes
// what is wrong with lengths or codes, the same in all threads, and is left alone if nothing
// is: see `report`. Tables are read where they lie.
template <u32 KINDS, u32 ENCODINGS, u64 WIDTHS>
LANEPACK_DEVICE u32 select_strings(const Node& strings, const Node& lengths, u32 vector, const StringsTest& test,
                                   u32 live, StoredLengths& shared, u32& fault) {
    if (test.kind == STRINGS_ALL) return FULL;
    live &= steps_within(min(strings.rows - vector * VECTOR, VECTOR));
    const u32 rows = by_step(live);
    u32 found = 0;
    if constexpr ((KINDS >> STRINGS_LITERALS & 1) != 0) {
        if (test.kind == STRINGS_LITERALS) {
            found = rows_of_literals<ENCODINGS, WIDTHS>(strings, lengths, vector, test, rows, shared, fault);
        }
    }
    if constexpr ((KINDS >> STRINGS_BYTE_ROWS & 1) != 0) {
        if (test.kind == STRINGS_BYTE_ROWS) {
            found = rows_of_automaton(strings, lengths, vector, test, rows, shared, RowsInMemory<u8>(test), fault);
        }
    }
    if constexpr ((KINDS >> STRINGS_WORD_ROWS & 1) != 0) {
        if (test.kind == STRINGS_WORD_ROWS) {
            found = rows_of_automaton(strings, lengths, vector, test, rows, shared, RowsInMemory<u16>(test), fault);
        }
    }
    return by_step(found);
}

// The same in a kernel made for a query, whose test number `test` this is.
template <u32 KINDS, u32 ENCODINGS, u64 WIDTHS, class Arguments>
LANEPACK_DEVICE u32 scan_strings(const Arguments& args, const Node& strings, const Node& lengths, u32 vector,
                                 const StringsTest& of_chunk, u32 test, u32 live, StoredLengths& shared) {
    u32 fault = 0;
    const u32 selection =
        select_strings<KINDS, ENCODINGS, WIDTHS>(strings, lengths, vector, of_chunk, live, shared, fault);
    if (fault != 0 && threadIdx.x % WARP == 0) report(args.status + test, of_chunk.chunk, static_cast<Fault>(fault));
    return selection;
}

}  // namespace lanepack
