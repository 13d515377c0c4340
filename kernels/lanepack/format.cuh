// Constants of the format that device code needs; docs/FORMAT.md says what they
// mean. src/gpu/abi.rs compares every one with the Rust constant of the same
// meaning when the crate is compiled.
#pragma once

#include "base.cuh"

namespace lanepack {

// Values of a vector.
constexpr u32 VECTOR = 1024;
// Values of a chunk at most.
constexpr u32 MAX_CHUNK_ROWS = 131072;
// Bytes of a vector packed at one bit.
constexpr u32 PACKED_UNIT = 128;
// Code bytes of an FSST tile, and tiles of a group of the tile index.
constexpr u32 TILE = 512;
constexpr u32 TILES_PER_GROUP = 16;
// Bytes of a group: u64 head, u16 offset of every tile.
constexpr u32 TILE_GROUP = 40;
// Bits of the value offset in a group's head; escape bits stand above.
constexpr u32 TILE_OFFSET_BITS = 48;
// Symbols and escapes never cross a multiple of so many bytes from a value's start.
constexpr u32 SEGMENT = 1024;
// The code that makes the byte behind it a literal.
constexpr u32 ESCAPE = 255;
// Bits of a locator that count exceptions.
constexpr u32 LOCATOR_COUNT_BITS = 11;

// Rows whose strings may begin as those before them in the block do.
constexpr u32 FRONT_BLOCK = 64;

// Ids of encodings that code for several knows; others are in the headers of their own.
constexpr u32 PLAIN = 0;
constexpr u32 CONSTANT = 1;
constexpr u32 FFOR = 2;
constexpr u32 ALP = 3;
constexpr u32 FSST = 4;
constexpr u32 LIMBS = 5;
constexpr u32 DICT = 6;
constexpr u32 PFOR = 9;
constexpr u32 ALP_RD = 10;
constexpr u32 FRONT = 11;

}  // namespace lanepack
