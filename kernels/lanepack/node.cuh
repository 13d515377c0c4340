// A node of a chunk as kernels see it: where its buffers lie in device memory.
//
// The host builds an array of these for every launch, one for each chunk that
// the launch works on, from headers that have been validated (src/chunk): every
// size, offset, width and count that a node's parameters state is in range, so
// device code need not look again. What only decoding shows (codes, lengths)
// device code checks, and reports through a status word.
//
// The layout may change with any release (see "Stability" in column.cuh).
#pragma once

#include "format.cuh"

namespace lanepack {

// A node of a chunk in device memory.
struct Node {
    // The buffers of the node, each at a multiple of 64 bytes, in the order of docs/FORMAT.md; for
    // encodings whose kernels read children as they are stored, the sources of these say more.
    const u8* buffer[4];
    // The node's parameter 0.
    u64 parameter;
    // fsst: bytes of codes. Other byte strings: bytes of buffer 0. Else parameter 1, or what the
    // sources of an encoding's kernels say.
    u64 size;
    // Where the node's first value goes: rows from the start of the output, for
    // byte strings bytes.
    u64 at;
    // Values.
    u32 rows;
    // As in format.cuh, or one that only kernels know (values.cuh).
    u16 encoding;
    // Of the root of a tree: which of the column's trees it is (reader.cuh).
    u16 shape;
};

// Sets of encodings, as bits by their ids: those that code is made for.
LANEPACK_DEVICE constexpr u32 encoding_bit(u32 encoding) { return 1u << encoding; }
LANEPACK_DEVICE constexpr bool has_encoding(u32 encodings, u32 encoding) {
    return (encodings & encoding_bit(encoding)) != 0;
}
constexpr u32 WORD_ENCODINGS = 1u << PLAIN | 1u << CONSTANT | 1u << FFOR;
constexpr u32 FLOAT_ENCODINGS = WORD_ENCODINGS | 1u << ALP;
// All that values are read of.
constexpr u32 ALL_WORD_ENCODINGS = WORD_ENCODINGS | 1u << PFOR | 1u << DICT;
constexpr u32 ALL_FLOAT_ENCODINGS = FLOAT_ENCODINGS | 1u << PFOR | 1u << DICT | 1u << ALP_RD;

// Whether a node has an encoding, where it has one of some; known to the compiler where
// there is no choice.
template <u32 ENCODINGS, u32 ENCODING>
LANEPACK_DEVICE bool is_encoding(const Node& node) {
    if (!has_encoding(ENCODINGS, ENCODING)) return false;
    return ENCODINGS == encoding_bit(ENCODING) || node.encoding == ENCODING;
}

// What a kernel found wrong; 0 is not used. As `Fault` in src/gpu/fault.rs.
enum Fault : u32 {
    // A code that stands for no symbol.
    FAULT_CODE = 1,
    // Codes that end inside an escape.
    FAULT_ESCAPE = 2,
    // Codes that stand for more or fewer bytes than the tile index says.
    FAULT_TILE_BYTES = 3,
    // Lengths of a vector that do not add up to what the starts say.
    FAULT_LENGTHS = 4,
    // Text that is not UTF-8.
    FAULT_UTF8 = 5,
    // A text that ends inside a character.
    FAULT_CHARACTER = 6,
    // A value of another width than the column's.
    FAULT_WIDTH = 7,
    // A code of a dictionary that stands for no value.
    FAULT_VALUE = 8,
    // Runs of a vector that do not add up to its values.
    FAULT_RUNS = 9,
    // A string that begins with more bytes than the one before has.
    FAULT_PREFIX = 10,
    // Literals and matches that do not make the symbols of a segment.
    FAULT_SEGMENT = 11,
    // A value outside the bounds that the statistics of its column state.
    FAULT_BOUNDS = 12,
};

// Reports a fault of node `node`. The status word begins as all ones and keeps
// the fault of the lowest node, so that the report does not depend on timing.
LANEPACK_DEVICE void report(u64* status, u32 node, Fault fault) {
    atomicMin(status, static_cast<u64>(node) << 32 | static_cast<u64>(fault));
}

// The work of a block: a launch has `blocks_per_node` blocks for every node,
// those past the end of a short node have nothing to do.
struct Part {
    u32 node;
    u32 part;
};

LANEPACK_DEVICE Part part_of_block(u32 blocks_per_node) {
    return {blockIdx.x / blocks_per_node, blockIdx.x % blocks_per_node};
}

}  // namespace lanepack
