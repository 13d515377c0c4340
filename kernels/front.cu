// Strings that front coding has taken apart to memory: front_strings; and their lengths, of
// which the offsets of rows are made first: front_lengths.
//
//   prefixes   0  4  7  2                    byte 5 of row 2: of row 1, whose prefix is the
//   suffixes   abcde fgh i cd                nearest above it that is no longer than 5
//              ^^^^^ ^^^
//
// Each byte of a prefix stands in the suffix of the nearest row before whose own prefix ends
// at it or before it, so that no row waits for another: what a row lacks is found by walking
// back, in shared memory, over at most 63 prefixes (string_rows.cuh has the rest).
#include "arguments.cuh"
#include "launch.cuh"
#include "string_rows.cuh"

namespace lanepack {

// The length of a row: u64, for prefixes are not trusted.
LANEPACK_DEVICE u64 front_length(const u32* prefixes, const u64* suffixes, u32 row) {
    return __ldg(prefixes + row) + (__ldg(suffixes + row + 1) - __ldg(suffixes + row));
}

// Lengths of rows, of the prefixes in buffer 0 and the offsets of suffixes in buffer 1. A row
// whose prefix the one before does not have is reported.
LANEPACK_KERNEL(front_lengths, FRONT_THREADS, 1, DictArguments) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32* prefixes = reinterpret_cast<const u32*>(node.buffer[0]);
    const u64* suffixes = reinterpret_cast<const u64*>(node.buffer[1]);
    const u32 row = part.part * FRONT_THREADS + threadIdx.x;
    if (row >= node.rows) return;
    const u64 most = row % FRONT_BLOCK == 0 ? 0 : front_length(prefixes, suffixes, row - 1);
    const u64 length = front_length(prefixes, suffixes, row);
    if (__ldg(prefixes + row) > most || length >> 32 != 0) report(args.status, part.node, FAULT_PREFIX);
    reinterpret_cast<u32*>(args.out)[node.at + row] = static_cast<u32>(length);
}

// The strings of a vector's rows.
struct FrontRows {
    const u8* suffixes[VECTOR];
    // Bytes that a suffix has.
    u32 bytes[VECTOR];
    u32 prefixes[VECTOR];
    RowPlaces places;

    LANEPACK_DEVICE Bytes16 bytes_of(u32 row, u32 inside, u32& count) const {
        u32 prefix = prefixes[row];
        while (inside < prefix) {
            count = min(count, prefix - inside);
            if (row % FRONT_BLOCK == 0) return Bytes16{0, 0};
            row--;
            prefix = min(prefix, prefixes[row]);
        }
        const u32 at = inside - prefixes[row];
        const u32 there = at < bytes[row] ? min(bytes[row] - at, count) : 0;
        return there > 0 ? bytes16_at(suffixes[row] + at, there) : Bytes16{0, 0};
    }
};

LANEPACK_KERNEL(front_strings, FRONT_THREADS, 6, DictStringsArguments) {
    LANEPACK_SHARED(FrontRows, shared);
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 vector = part.part;
    if (vector >= vectors_of(node)) return;
    const u32 rows = min(node.rows - vector * VECTOR, VECTOR);
    const u32* prefixes = reinterpret_cast<const u32*>(node.buffer[0]) + vector * VECTOR;
    const u64* suffixes = reinterpret_cast<const u64*>(node.buffer[1]) + vector * VECTOR;
    const auto offset = [&](u32 row) {
        const u64 at = node.at + static_cast<u64>(vector) * VECTOR + row;
        return args.offset_bytes == 4 ? reinterpret_cast<const u32*>(args.offsets)[at]
                                      : reinterpret_cast<const u64*>(args.offsets)[at];
    };
    const u64 first = offset(0);
    u8* const out = args.out + first;
    const u32 past = static_cast<u32>(reinterpret_cast<u64>(out) % 16);
    for (u32 row = threadIdx.x; row <= rows; row += FRONT_THREADS) {
        const u32 begin = static_cast<u32>(offset(row) - first);
        if (row == rows) {
            shared.places.at[row] = begin;
            break;
        }
        shared.places.note(row, begin, static_cast<u32>(offset(row + 1) - first), past);
        const u64 suffix = __ldg(suffixes + row);
        shared.suffixes[row] = args.values + suffix;
        shared.bytes[row] = static_cast<u32>(__ldg(suffixes + row + 1) - suffix);
        shared.prefixes[row] = __ldg(prefixes + row);
    }
    __syncthreads();
    const bool seen = write_rows<FRONT_THREADS>(shared, rows, out);
    if (seen && __ldcg(args.not_ascii + part.node) == 0) args.not_ascii[part.node] = 1;
}

}  // namespace lanepack
