// The check of UTF-8 while FSST codes are decoded: of a warp's bytes, where they still stand in
// shared memory, instead of by a launch of its own that reads all bytes again.
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
//
// Figures and what was tried: docs/experiments.md.
#pragma once

#include "lanepack/fsst.cuh"
#include "utf8.cuh"

namespace lanepack {

// Offsets of a node's rows, of 4 or 8 bytes.
struct RowOffsets {
    static constexpr u32 NONE = 0xffffffff;

    const u8* offsets;
    u32 offset_bytes;
    u32 rows;

    LANEPACK_DEVICE u64 of(u32 row) const {
        if (offset_bytes == 4) return __ldg(reinterpret_cast<const u32*>(offsets) + row);
        return __ldg(reinterpret_cast<const u64*>(offsets) + row);
    }

    // The distance of a row, which does not begin before `start`, from there; NONE if there is no such
    // row or it is farther.
    LANEPACK_DEVICE u32 distance(u64 start, u32 row) const {
        if (row >= rows) return NONE;
        if (offset_bytes == 4) return __ldg(reinterpret_cast<const u32*>(offsets) + row) - static_cast<u32>(start);
        return static_cast<u32>(min(of(row) - start, u64{NONE}));
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
    // So many of a warp's 32 units or fewer are put off until there are 32.
    static constexpr u32 FEW = 16;

public:
    // Units that are put off, as many as there may be.
    static constexpr u32 QUEUE = WARP - 1 + FEW;

private:
    // Places count from the first byte of the first line, which has place `start` in the output.
    const u8* first_line;
    u64 start;
    RowOffsets rows;
    // Rows before `row` have been looked at, if bytes have been up to `rows_end`, NONE at first.
    u32 rows_end = RowOffsets::NONE;
    u32 row = 0;
    // Where row `row` + lane begins.
    u32 row_at = 0;
    // Whether the warp's first bytes are the node's first, and whether lines have been written.
    bool is_first;
    bool is_begun = false;
    // Whether one of the last four bytes is not ASCII, and so may ask for more.
    bool may_ask = false;
    u32* queue;
    u32 queued = 0;
    // Of the thread's bytes.
    bool is_wrong = false;
    bool is_cut = false;

public:
    // Of bytes from place `at` of the output on, which `is_first` says are the node's first.
    LANEPACK_DEVICE TextCheck(const u8* out, u64 at, RowOffsets rows_, u32* queue_, bool is_first_)
        : first_line(out + at / LINE * LINE),
          start(at / LINE * LINE),
          rows(rows_),
          is_first(is_first_),
          queue(queue_) {}

    // Looks at the bytes of the stage up to `until`, which have been written.
    LANEPACK_DEVICE void written(const StagedOutput& output, u32 until) {
        if (__any_sync(FULL, (output.seen & HIGH_BITS) != 0) || may_ask) {
            look_at_rows(output, until);
            look_at_bytes(output, until, false);
        }
        is_begun = true;
    }

    // Looks at the last bytes, which have been written: `next` are the codes that follow them.
    LANEPACK_DEVICE void ended(StagedOutput& output, FsstValue& next) {
        const u32 end = output.end;
        u8* bytes = reinterpret_cast<u8*>(output.stage);
        // Bytes of the next warp's that go on with a character, and behind them one of ASCII: what asks
        // for more is wrong.
        u32 more = 0;
        Piece piece;
        for (bool is_more = true; is_more && next.next(piece);) {
            for (u32 i = 0; is_more && i < piece.length; i++) {
                const u32 byte = static_cast<u32>(piece.word >> 8 * i) & 255;
                is_more = is_inner(byte) && more < MORE;
                if (is_more && threadIdx.x % WARP == 0) bytes[end + more] = static_cast<u8>(byte);
                more += is_more;
            }
        }
        if (threadIdx.x % WARP == 0) bytes[end + more] = 0;
        __syncwarp();
        if (__any_sync(FULL, (output.seen & HIGH_BITS) != 0) || may_ask || more > 0) {
            look_at_rows(output, end);
            look_at_bytes(output, end + more + 1, true);
        }
        look_at_queued();
    }

    // What is wrong with the bytes, or 0.
    LANEPACK_DEVICE u32 fault() const {
        if (__any_sync(FULL, is_wrong)) return FAULT_UTF8;
        if (__any_sync(FULL, is_cut)) return FAULT_CHARACTER;
        return 0;
    }

private:
    // Whether a byte is one of a character behind its first.
    LANEPACK_DEVICE static bool is_inner(u32 byte) { return (byte & 0xc0) == 0x80; }

    LANEPACK_DEVICE void find_row_at() { row_at = rows.distance(start, row + threadIdx.x % WARP); }

    LANEPACK_DEVICE u32 place(const StagedOutput& output) const { return static_cast<u32>(output.line - first_line); }

    LANEPACK_DEVICE void look_at_rows(const StagedOutput& output, u32 until) {
        const u32 at = place(output);
        if (rows_end != at + output.begin) {
            row = rows.first_from(start + at + output.begin);
            find_row_at();
        }
        rows_end = at + until;
        const u8* bytes = reinterpret_cast<const u8*>(output.stage);
        u32 found = WARP;
#pragma unroll 1
        while (found == WARP) {
            const bool is_here = row_at < rows_end;
            if (is_here) is_cut |= is_inner(bytes[row_at - at]);
            found = __popc(__ballot_sync(FULL, is_here));
            row += found;
            if (found == WARP) {
                // 32 rows begin at one place: all but one are empty, and so may be many behind them.
                const u32 last = __shfl_sync(FULL, row_at, WARP - 1);
                if (__shfl_sync(FULL, row_at, 0) == last) row = rows.first_from(start + last + 1);
            }
            // Loaded now, as most lines have fewer rows than 32, and the next line comes later.
            if (found > 0) find_row_at();
        }
    }

    LANEPACK_DEVICE void look_at_bytes(const StagedOutput& output, u32 until, bool is_last) {
        const u32 lane = threadIdx.x % WARP;
        const u8* bytes = reinterpret_cast<const u8*>(output.stage);
        u32 begin = output.begin;
        // The first and the last unit of a warp may hold bytes of other warps, so they are checked here,
        // with these bytes left out. All other units, and the four bytes before each, are the warp's own:
        // a tile, except the node's last, has at least 256 bytes, so its first lines end more than 128
        // bytes behind its first byte.
        const bool is_whole = is_begun && !is_last;
        if (!is_begun && !is_first) {
            const u32 most = min(begin + MORE, until);
            while (begin < most && is_inner(bytes[begin])) begin++;
        }
        // What lies outside counts as zero, which is ASCII.
        auto inside = [&](u32 at, u32 word) {
            if (at + 4 <= begin || at >= until) return u32{0};
            if (at < begin) word = word >> (begin - at) * 8 << (begin - at) * 8;
            if (at + 4 > until) word = word << (at + 4 - until) * 8 >> (at + 4 - until) * 8;
            return word;
        };
        const u32 last = (until - 1) / EACH * EACH;
#pragma unroll 1
        for (u32 first = begin / EACH * EACH; first < until; first += WARP * EACH) {
            const u32 own = first + lane * EACH;
            const u32 at = min(own, last);
            const uint4* units = reinterpret_cast<const uint4*>(bytes + at);
            const uint4 head = units[0];
            const uint4 tail = units[1];
            u32 before = reinterpret_cast<const u32*>(units)[-1];
            u32 words[8] = {head.x, head.y, head.z, head.w, tail.x, tail.y, tail.z, tail.w};
            if (!is_whole) {
                before = at > begin ? inside(at - 4, before) : at == 0 && is_begun ? before : 0;
#pragma unroll
                for (u32 i = 0; i < 8; i++) words[i] = inside(at + i * 4, words[i]);
            }
            u32 all = before;
#pragma unroll
            for (u32 i = 0; i < 8; i++) all |= words[i];
            const bool is_text = own < until && (all & HIGH_BITS) != 0;
            const u32 of_text = __ballot_sync(FULL, is_text);
            if (!is_whole || static_cast<u32>(__popc(of_text)) > FEW) {
                if (is_text) is_wrong |= has_utf8_error(words, before, false);
            } else if (of_text != 0) {
                put_off(place(output) + at, is_text, of_text);
            }
        }
        may_ask = until > begin && (inside((until - 1) & ~3u, output.stage[(until - 1) / 4]) & HIGH_BITS) != 0;
    }

    // Puts units off, and looks at 32 of them if there are as many.
    LANEPACK_DEVICE void put_off(u32 place, bool is_text, u32 of_text) {
        const u32 lane = threadIdx.x % WARP;
        if (is_text) queue[queued + __popc(of_text & ((1u << lane) - 1))] = place;
        queued += __popc(of_text);
        if (queued >= WARP) look_at_queued();
    }

    // Looks at the last 32 units that were put off, where they have been written to.
    LANEPACK_DEVICE void look_at_queued() {
        const u32 lane = threadIdx.x % WARP;
        const u32 count = min(queued, WARP);
        queued -= count;
        __syncwarp();
        if (lane < count) {
            const u8* from = first_line + queue[queued + lane];
            const uint4 head = __ldcg(reinterpret_cast<const uint4*>(from));
            const uint4 tail = __ldcg(reinterpret_cast<const uint4*>(from) + 1);
            const u32 words[8] = {head.x, head.y, head.z, head.w, tail.x, tail.y, tail.z, tail.w};
            is_wrong |= has_utf8_error(words, __ldcg(reinterpret_cast<const u32*>(from) - 1), false);
        }
        __syncwarp();
    }
};

}  // namespace lanepack
