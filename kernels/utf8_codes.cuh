// The check of UTF-8 while FSST codes are decoded: of a warp's bytes, where they still stand in
// shared memory, instead of by a launch of its own that reads all bytes again.
//
//   tiles of warp w    ... e4 bd | a0 e5 ...    tiles of warp w + 1
//
// A warp checks the characters that begin in its bytes, to their ends: it decodes the first codes of
// the next warp's for that. What begins a warp's bytes in the middle of a character is the check of
// the warp before. Lines of ASCII alone are not looked at.
//
// Rows must not begin inside a character. A warp looks at its rows by their offsets, in order; where
// the first of them is, it searches when it meets bytes that are not ASCII.
#pragma once

#include "lanepack/fsst.cuh"
#include "utf8.cuh"

namespace lanepack {

// Sees bytes that nobody asks anything of.
struct NoCheck {
    LANEPACK_DEVICE void written(const StagedOutput&, u32) {}
    LANEPACK_DEVICE void ended(StagedOutput&, FsstValue&) {}
};

// Offsets of a node's rows, of 4 or 8 bytes.
struct RowOffsets {
    const u8* offsets;
    u32 offset_bytes;
    u32 rows;

    LANEPACK_DEVICE u64 of(u32 row) const {
        if (offset_bytes == 4) return __ldg(reinterpret_cast<const u32*>(offsets) + row);
        return __ldg(reinterpret_cast<const u64*>(offsets) + row);
    }

    // The first row that begins at `at` or behind; `rows` if none does. All threads of a warp.
    LANEPACK_DEVICE u32 first_from(u64 at) const {
        u32 low = 0;
        u32 high = rows;
        while (low < high) {
            const u32 step = (high - low + WARP - 1) / WARP;
            const u64 row = low + static_cast<u64>(threadIdx.x % WARP) * step;
            const u32 before = __popc(__ballot_sync(FULL, row < high && of(static_cast<u32>(row)) < at));
            if (before == 0) return low;
            high = static_cast<u32>(min(low + static_cast<u64>(before) * step, static_cast<u64>(high)));
            low += (before - 1) * step + 1;
        }
        return low;
    }
};

class TextCheck {
    // Most bytes of a character behind its first.
    static constexpr u32 MORE = 3;
    // Bytes that a thread looks at.
    static constexpr u32 EACH = 32;

    const u8* out;
    RowOffsets rows;
    // Up to which place of the output the rows before `row` are; 0 if that is not known.
    u64 rows_end = 0;
    u32 row = 0;
    // Bytes in the middle of a character that may still come first.
    u32 skipped;
    // The last four bytes, zeros if they are ASCII.
    u32 before = 0;

public:
    // Of the thread's bytes.
    bool is_wrong = false;
    bool is_cut = false;

    LANEPACK_DEVICE TextCheck(const u8* out_, RowOffsets rows_, bool is_first)
        : out(out_), rows(rows_), skipped(is_first ? 0 : MORE) {}

    // Looks at the bytes of the stage up to `until`, which have been written.
    LANEPACK_DEVICE void written(const StagedOutput& output, u32 until) {
        if (!__any_sync(FULL, ((output.seen | before) & HIGH_BITS) != 0)) {
            skipped = 0;
            return;
        }
        look_at_rows(output, until);
        look_at_bytes(output, until, false);
    }

    // Looks at the last bytes, which have been written: `next` are the codes that follow them.
    LANEPACK_DEVICE void ended(StagedOutput& output, FsstValue& next) {
        const u32 end = output.end;
        // Bytes of the next warp's that go on with a character, one more than there may be at most.
        u32 more = 0;
        Piece piece;
        for (bool is_more = true; is_more && next.next(piece);) {
            for (u32 i = 0; is_more && i < piece.length; i++) {
                const u32 byte = static_cast<u32>(piece.word >> 8 * i) & 255;
                is_more = (byte & 0xc0) == 0x80 && more <= MORE;
                if (is_more && threadIdx.x % WARP == 0) reinterpret_cast<u8*>(output.stage)[end + more] = byte;
                more += is_more;
            }
        }
        __syncwarp();
        const bool is_ascii = !__any_sync(FULL, ((output.seen | before) & HIGH_BITS) != 0);
        if (is_ascii && more == 0) return;
        look_at_rows(output, end);
        look_at_bytes(output, end + more, true);
    }

private:
    LANEPACK_DEVICE void look_at_rows(const StagedOutput& output, u32 until) {
        const u64 at = static_cast<u64>(output.line - out);
        if (rows_end != at + output.begin) row = rows.first_from(at + output.begin);
        rows_end = at + until;
        const u8* bytes = reinterpret_cast<const u8*>(output.stage);
        u32 found = WARP;
        while (found == WARP) {
            const u32 own = row + threadIdx.x % WARP;
            const u64 offset = own < rows.rows ? rows.of(own) : rows_end;
            const bool is_here = offset < rows_end;
            if (is_here) is_cut |= (bytes[offset - at] & 0xc0) == 0x80;
            found = __popc(__ballot_sync(FULL, is_here));
            row += found;
        }
    }

    LANEPACK_DEVICE void look_at_bytes(const StagedOutput& output, u32 until, bool is_last) {
        const u32 lane = threadIdx.x % WARP;
        const u8* bytes = reinterpret_cast<const u8*>(output.stage);
        u32 begin = output.begin;
        for (; skipped > 0 && begin < until; begin++, skipped--) {
            if ((bytes[begin] & 0xc0) != 0x80) skipped = 0;
            if (skipped == 0) break;
        }
        // What lies outside counts as zero, which is ASCII.
        auto inside = [&](u32 at, u32 word) {
            if (at + 4 <= begin || at >= until) return u32{0};
            if (at < begin) word = word >> (begin - at) * 8 << (begin - at) * 8;
            if (at + 4 > until) word = word << (at + 4 - until) * 8 >> (at + 4 - until) * 8;
            return word;
        };
#pragma unroll 1
        for (u32 first = begin / EACH * EACH; first < until; first += WARP * EACH) {
            const u32 at = first + lane * EACH;
            const uint4* units = reinterpret_cast<const uint4*>(bytes + at);
            const bool is_here = at < until;
            const uint4 head = is_here ? units[0] : uint4{0, 0, 0, 0};
            const uint4 tail = is_here ? units[1] : uint4{0, 0, 0, 0};
            u32 words[8] = {head.x, head.y, head.z, head.w, tail.x, tail.y, tail.z, tail.w};
            if (is_here && (at < begin || at + EACH > until)) {
#pragma unroll
                for (u32 i = 0; i < 8; i++) words[i] = inside(at + i * 4, words[i]);
            }
            const u32 others = __shfl_up_sync(FULL, words[7], 1);
            const u32 own_before = lane == 0 ? before : others;
            if (is_here) is_wrong |= has_utf8_error(words, own_before, is_last && at + EACH >= until);
            before = __shfl_sync(FULL, words[7], min((until - 1 - first) / EACH, WARP - 1));
        }
    }
};

}  // namespace lanepack
