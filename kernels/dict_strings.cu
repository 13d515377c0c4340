// Strings of dictionaries by their codes to memory: dict_strings; and their lengths, of
// which the offsets of rows are made first: dict_lengths.
//
//   codes -> where each row's string lies, and where it goes -> 16 bytes of the output a thread
//
// A block writes the rows of a vector. The bytes of neighbouring rows are neighbours, so the
// threads share the output and not the rows: each finds the row that its 16 bytes begin in by
// bisection, and takes what it needs from that string and those behind it.
//
// On an NVIDIA H200 some 450 GB/s of bytes are written for strings of 5 to 15 bytes; with four
// bytes of a string at a time instead of eight 10 % less.
//
// Lengths are not trusted: a row gets no more bytes than its string has, and zeros behind.
#include "arguments.cuh"
#include "lanepack/strings.cuh"
#include "launch.cuh"

namespace lanepack {

// Up to eight bytes from `address` on, the first the lowest, zeros behind them; reads aligned
// words that have one of them.
LANEPACK_DEVICE u64 eight_bytes_at(const u8* address, u32 count) {
    const u32 shift = static_cast<u32>(reinterpret_cast<u64>(address) % 8);
    const u64* words = reinterpret_cast<const u64*>(address - shift);
    const u64 low = __ldg(words);
    const u64 high = shift + count > 8 ? __ldg(words + 1) : 0;
    return funnel(low, high, shift * 8) & low_bits<u64>(count * 8);
}

// The strings of a vector's rows.
struct DictRows {
    const u8* strings[VECTOR];
    // Bytes that a string has.
    u32 bytes[VECTOR];
    // Where its bytes go, from the vector's first on, and the end.
    u32 places[VECTOR + 1];

    // The last row that begins at `byte` or before.
    LANEPACK_DEVICE u32 row_at(u32 byte, u32 rows) const {
        u32 first = 0;
        for (u32 end = rows - 1; first < end;) {
            const u32 middle = (first + end + 1) / 2;
            if (places[middle] <= byte) {
                first = middle;
            } else {
                end = middle - 1;
            }
        }
        return first;
    }

    // The bytes of the output from `begin` to `end`, 16 at most.
    LANEPACK_DEVICE uint4 piece(u32 begin, u32 end, u32 rows) const {
        u64 low = 0;
        u64 high = 0;
        u32 row = row_at(begin, rows);
#pragma unroll 1
        for (u32 byte = begin; byte < end;) {
            const u32 inside = byte - places[row];
            const u32 count = min(min(places[row + 1], end) - byte, 8u);
            const u32 there = inside < bytes[row] ? min(bytes[row] - inside, count) : 0;
            const u64 word = there > 0 ? eight_bytes_at(strings[row] + inside, there) : 0;
            const u32 at = byte - begin;
            if (at < 8) {
                low |= word << at * 8;
                if (at > 0) high |= word >> (8 - at) * 8;
            } else {
                high |= word << (at - 8) * 8;
            }
            byte += count;
            while (byte < end && byte >= places[row + 1]) row++;
        }
        return uint4{static_cast<u32>(low), static_cast<u32>(low >> 32), static_cast<u32>(high),
                     static_cast<u32>(high >> 32)};
    }
};

// The lengths of the strings of each dictionary, of the offsets in buffer 0.
LANEPACK_KERNEL(dict_lengths, DICT_STRINGS_THREADS, 1, WordsArguments) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u64* offsets = reinterpret_cast<const u64*>(node.buffer[0]);
    const u32 row = part.part * DICT_STRINGS_THREADS + threadIdx.x;
    if (row >= node.rows) return;
    reinterpret_cast<u32*>(args.out)[node.at + row] = static_cast<u32>(offsets[row + 1] - offsets[row]);
}

LANEPACK_KERNEL(dict_strings, DICT_STRINGS_THREADS, 4, DictStringsArguments) {
    LANEPACK_SHARED(DictRows, shared);
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 vector = part.part;
    if (vector >= vectors_of(node)) return;
    const u32 rows = min(node.rows - vector * VECTOR, VECTOR);
    const u32* codes = reinterpret_cast<const u32*>(node.buffer[0]) + vector * VECTOR;
    const u64* values = reinterpret_cast<const u64*>(node.buffer[1]);
    const u32 count = static_cast<u32>(node.size);
    const auto offset = [&](u32 row) {
        const u64 at = node.at + static_cast<u64>(vector) * VECTOR + row;
        return args.offset_bytes == 4 ? reinterpret_cast<const u32*>(args.offsets)[at]
                                      : reinterpret_cast<const u64*>(args.offsets)[at];
    };
    const u64 first = offset(0);
    u32 worst = 0;
    for (u32 row = threadIdx.x; row <= rows; row += DICT_STRINGS_THREADS) {
        shared.places[row] = static_cast<u32>(offset(row) - first);
        if (row == rows) break;
        const u32 code = __ldg(codes + row);
        worst = max(worst, code);
        const u64* value = values + min(code, count - 1);
        shared.strings[row] = args.values + value[0];
        shared.bytes[row] = static_cast<u32>(value[1] - value[0]);
    }
    if (worst >= count) report(args.status, part.node, FAULT_VALUE);
    __syncthreads();
    const u32 total = shared.places[rows];
    u8* const out = args.out + first;
    const u32 past = static_cast<u32>(reinterpret_cast<u64>(out) % 16);
    u32 seen = 0;
#pragma unroll 1
    for (u32 unit = threadIdx.x * 16; unit < total + past; unit += DICT_STRINGS_THREADS * 16) {
        const u32 begin = unit < past ? 0 : unit - past;
        const u32 end = min(unit + 16 - past, total);
        const uint4 piece = shared.piece(begin, end, rows);
        seen |= piece.x | piece.y | piece.z | piece.w;
        if (end - begin == 16) {
            __stcs(reinterpret_cast<uint4*>(out + begin), piece);
        } else {
            const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
            for (u32 i = 0; i < end - begin; i++) out[begin + i] = static_cast<u8>(words[i / 4] >> i % 4 * 8);
        }
    }
    if ((seen & HIGH_BITS) != 0 && __ldcg(args.not_ascii + part.node) == 0) args.not_ascii[part.node] = 1;
}

}  // namespace lanepack
