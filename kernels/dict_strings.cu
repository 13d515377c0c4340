// Strings of dictionaries by their codes to memory: dict_strings; and their lengths, of
// which the offsets of rows are made first: dict_lengths.
//
//   codes -> where each row's string lies, and where it goes -> string_rows.cuh
//
// On an NVIDIA H200 dict_strings takes 1,161 us for 0.79 GB of strings of 5 to 15 bytes (680 GB/s).
// Rows found by bisection, and eight bytes of a string at a time, some 450 GB/s; four 10 % less.
//
// Lengths are not trusted: a row gets no more bytes than its string has, and zeros behind.
#include "arguments.cuh"
#include "launch.cuh"
#include "string_rows.cuh"

namespace lanepack {

// The strings of a vector's rows.
struct DictRows {
    const u8* strings[VECTOR];
    // Bytes that a string has.
    u32 bytes[VECTOR];
    RowPlaces places;

    LANEPACK_DEVICE Bytes16 bytes_of(u32 row, u32 inside, u32& count) const {
        const u32 there = inside < bytes[row] ? min(bytes[row] - inside, count) : 0;
        return there > 0 ? bytes16_at(strings[row] + inside, there) : Bytes16{0, 0};
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

LANEPACK_KERNEL(dict_strings, DICT_STRINGS_THREADS, 6, DictStringsArguments) {
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
    u8* const out = args.out + first;
    const u32 past = static_cast<u32>(reinterpret_cast<u64>(out) % 16);
    u32 worst = 0;
    for (u32 row = threadIdx.x; row <= rows; row += DICT_STRINGS_THREADS) {
        const u32 begin = static_cast<u32>(offset(row) - first);
        if (row == rows) {
            shared.places.at[row] = begin;
            break;
        }
        shared.places.note(row, begin, static_cast<u32>(offset(row + 1) - first), past);
        const u32 code = __ldg(codes + row);
        worst = max(worst, code);
        const u64* value = values + min(code, count - 1);
        shared.strings[row] = args.values + value[0];
        shared.bytes[row] = static_cast<u32>(value[1] - value[0]);
    }
    if (worst >= count) report(args.status, part.node, FAULT_VALUE);
    __syncthreads();
    const bool seen = write_rows<DICT_STRINGS_THREADS>(shared, rows, out);
    if (seen && __ldcg(args.not_ascii + part.node) == 0) args.not_ascii[part.node] = 1;
}

}  // namespace lanepack
