// The check of UTF-8 while FSST codes are decoded, instead of by a launch of its own that reads all
// bytes again: every 8 KB a warp looks at what it has written, which is in the cache.
//
//   tiles of warp w    ... e4 bd | a0 e5 ...    tiles of warp w + 1
//
// A warp checks the characters that begin in its bytes, to their ends: it decodes the first codes of
// the next warp's for that. What begins a warp's bytes in the middle of a character is the check of
// the warp before. Lines of ASCII alone are not looked at, and where few threads would have something
// to look at, it is put off until all have.
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
    LANEPACK_DEVICE u32 fault() const { return 0; }
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

    // How far behind `start`, and not before it, a row begins; FULL if there is no such row.
    LANEPACK_DEVICE u32 behind(u64 start, u32 row) const {
        if (row >= rows) return FULL;
        if (offset_bytes == 4) return __ldg(reinterpret_cast<const u32*>(offsets) + row) - static_cast<u32>(start);
        return static_cast<u32>(min(of(row) - start, u64{FULL}));
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
    // Bytes of a unit, which a thread looks at, at a multiple of as many in the output.
    static constexpr u32 EACH = 32;
    // Bytes of whole lines that are looked at together.
    static constexpr u32 BATCH = 8192;
    // So many of a warp's 32 units or fewer are put off until there are 32.
    static constexpr u32 FEW = 16;

public:
    // Units that are put off, as many as there may be.
    static constexpr u32 QUEUE = WARP + FEW;

private:
    // Places count from the first byte of the first line, which has this place in the output.
    const u8* first_line;
    u64 start;
    RowOffsets rows;
    // The first row that has not been looked at, known if rows up to `rows_end` have been.
    u32 rows_end = FULL;
    u32 row = 0;
    // Up to where bytes have been looked at; no line has been written before if this is 0.
    u32 looked_at = 0;
    // Whether there is something but ASCII in the thread's part of those behind, and whether the four
    // bytes before them are not ASCII.
    bool is_text = false;
    bool goes_on = false;
    // Bytes in the middle of a character that may still come first.
    u32 skipped;
    u32* queue;
    u32 queued = 0;
    // Of the thread's bytes.
    bool is_wrong = false;
    bool is_cut = false;

public:
    // Of bytes from place `at` of the output on, which `is_first` says are the node's first.
    LANEPACK_DEVICE TextCheck(const u8* out, u64 at, RowOffsets rows_, u32* queue_, bool is_first)
        : first_line(out + at / LINE * LINE),
          start(at / LINE * LINE),
          rows(rows_),
          skipped(is_first ? 0 : MORE),
          queue(queue_) {}

    // Takes note of the lines of the stage up to `until`, which have been written.
    LANEPACK_DEVICE void written(const StagedOutput& output, u32 until) {
        is_text |= (output.seen & HIGH_BITS) != 0;
        const u32 end = place(output) + until;
        if (looked_at == 0) {
            look_at_stage(output, until, until);
            looked_at = end;
        } else if (end - looked_at >= BATCH) {
            look_at_lines(end);
        }
    }

    // Looks at the last bytes, which have been written: `next` are the codes that follow them.
    LANEPACK_DEVICE void ended(StagedOutput& output, FsstValue& next) {
        look_at_lines(place(output));
        is_text = (output.seen & HIGH_BITS) != 0;
        const u32 end = output.end;
        u8* bytes = reinterpret_cast<u8*>(output.stage);
        // Bytes of the next warp's that go on with a character, one more than there may be at most,
        // and behind them one of ASCII: what asks for more is wrong.
        u32 more = 0;
        Piece piece;
        for (bool is_more = true; is_more && next.next(piece);) {
            for (u32 i = 0; is_more && i < piece.length; i++) {
                const u32 byte = static_cast<u32>(piece.word >> 8 * i) & 255;
                is_more = (byte & 0xc0) == 0x80 && more <= MORE;
                if (is_more && threadIdx.x % WARP == 0) bytes[end + more] = static_cast<u8>(byte);
                more += is_more;
            }
        }
        if (threadIdx.x % WARP == 0) bytes[end + more] = 0;
        __syncwarp();
        goes_on |= more > 0;
        look_at_stage(output, end, end + more + 1);
        look_at_queued();
    }

    // What is wrong with the bytes, or 0.
    LANEPACK_DEVICE u32 fault() const {
        if (__any_sync(FULL, is_wrong)) return FAULT_UTF8;
        if (__any_sync(FULL, is_cut)) return FAULT_CHARACTER;
        return 0;
    }

private:
    LANEPACK_DEVICE u32 place(const StagedOutput& output) const { return static_cast<u32>(output.line - first_line); }

    LANEPACK_DEVICE static bool is_inner(u32 byte) { return (byte & 0xc0) == 0x80; }

    // Looks at rows that begin in bytes from place `begin` to `end`, which `byte_of` reads.
    template <class ByteOf>
    LANEPACK_DEVICE void look_at_rows(u32 begin, u32 end, ByteOf byte_of) {
        if (rows_end != begin) row = rows.first_from(start + begin);
        rows_end = end;
        const u32 lane = threadIdx.x % WARP;
        u32 at = rows.behind(start, row + lane);
        u32 byte = 0;
        u32 found = WARP;
#pragma unroll 1
        while (found == WARP) {
            const bool is_here = at < end;
            // That of the rows before has come by now.
            is_cut |= is_inner(byte);
            byte = is_here ? byte_of(at) : 0;
            found = __popc(__ballot_sync(FULL, is_here));
            row += found;
            if (found == WARP) at = rows.behind(start, row + lane);
        }
        is_cut |= is_inner(byte);
    }

    // Looks at whole lines up to place `end` where they have been written to.
    LANEPACK_DEVICE void look_at_lines(u32 end) {
        const u32 begin = looked_at;
        looked_at = end;
        if (begin == end || !(__any_sync(FULL, is_text) || goes_on)) return;
        is_text = false;
        look_at_rows(begin, end, [&](u32 at) { return static_cast<u32>(__ldcg(first_line + at)); });
        const u32 lane = threadIdx.x % WARP;
#pragma unroll 1
        for (u32 first = begin; first < end; first += WARP * EACH) {
            const u32 own = first + lane * EACH;
            const u32 at = min(own, end - EACH);
            u32 words[8];
            const u32 before = load(at, words);
            u32 all = before;
#pragma unroll
            for (u32 i = 0; i < 8; i++) all |= words[i];
            const bool is_here = own < end && (all & HIGH_BITS) != 0;
            const u32 here = __ballot_sync(FULL, is_here);
            if (static_cast<u32>(__popc(here)) > FEW) {
                if (is_here) is_wrong |= has_utf8_error(words, before, false);
            } else {
                put_off(at, is_here, here);
            }
        }
        goes_on = (__ldcg(reinterpret_cast<const u32*>(first_line + end) - 1) & HIGH_BITS) != 0;
    }

    // The words of a unit, and the one before.
    LANEPACK_DEVICE u32 load(u32 at, u32 (&words)[8]) const {
        const u32* from = reinterpret_cast<const u32*>(first_line + at);
        const uint4 head = __ldcg(reinterpret_cast<const uint4*>(from));
        const uint4 tail = __ldcg(reinterpret_cast<const uint4*>(from) + 1);
        words[0] = head.x;
        words[1] = head.y;
        words[2] = head.z;
        words[3] = head.w;
        words[4] = tail.x;
        words[5] = tail.y;
        words[6] = tail.z;
        words[7] = tail.w;
        return __ldcg(from - 1);
    }

    // Puts units off, and looks at 32 of them if there are as many.
    LANEPACK_DEVICE void put_off(u32 at, bool is_here, u32 here) {
        const u32 lane = threadIdx.x % WARP;
        if (is_here) queue[queued + __popc(here & ((1u << lane) - 1))] = at;
        queued += __popc(here);
        if (queued >= WARP) look_at_queued();
    }

    // Looks at the last 32 units that were put off.
    LANEPACK_DEVICE void look_at_queued() {
        const u32 lane = threadIdx.x % WARP;
        const u32 count = min(queued, WARP);
        queued -= count;
        __syncwarp();
        if (lane < count) {
            u32 words[8];
            const u32 before = load(queue[queued + lane], words);
            is_wrong |= has_utf8_error(words, before, false);
        }
        __syncwarp();
    }

    // Looks at bytes of the stage, rows that begin before `rows_until`: the first and the last of a
    // warp, of which units are not whole.
    LANEPACK_DEVICE void look_at_stage(const StagedOutput& output, u32 rows_until, u32 until) {
        if (!(__any_sync(FULL, is_text) || goes_on)) {
            skipped = 0;
            return;
        }
        is_text = false;
        const u32 lane = threadIdx.x % WARP;
        const u8* bytes = reinterpret_cast<const u8*>(output.stage);
        const u32 line = place(output);
        look_at_rows(line + output.begin, line + rows_until, [&](u32 at) { return u32{bytes[at - line]}; });
        u32 begin = output.begin;
        for (; skipped > 0 && begin < until; begin++, skipped--) {
            if (!is_inner(bytes[begin])) skipped = 0;
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
        for (u32 at = begin / EACH * EACH + lane * EACH; at < until; at += WARP * EACH) {
            const u32* from = output.stage + at / 4;
            u32 before = at == 0 && looked_at != 0 ? from[-1] : 0;
            if (at > begin) before = inside(at - 4, from[-1]);
            u32 words[8];
#pragma unroll
            for (u32 i = 0; i < 8; i++) words[i] = inside(at + i * 4, from[i]);
            is_wrong |= has_utf8_error(words, before, false);
        }
        __syncwarp();
        const u32 last = (until - 1) / 4;
        goes_on = until > begin && (inside(last * 4, output.stage[last]) & HIGH_BITS) != 0;
    }
};

}  // namespace lanepack
