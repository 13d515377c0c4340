// Arguments of the kernels that write lz.
#pragma once

#include "lanepack/base.cuh"

namespace lanepack {

// Most bytes of a segment.
constexpr u32 MAX_LZ_SEGMENT = 65536;

// Bytes that become a node, or a part of them that is looked at: whole symbols, less than 4 GiB.
struct LzChunk {
    // At a multiple of 8.
    const u8* bytes;
    u64 len;
    // Number of its first segment in the launch.
    u32 first;
    u32 zero;
};

// Where the buffers of a chunk go.
struct LzTarget {
    u8* buffer[4];
    // Its number among the chunks.
    u32 chunk;
    u32 zero;
};

struct LzArguments {
    const LzChunk* chunks;
    // For each segment flags, matches and literals: of it, then before it in its chunk.
    u32* places;
    // For each chunk the same.
    u32* totals;
    // Streams of segments, with room for as many as there may be: symbols, offsets and lengths,
    // bits. Null if only counts are wanted.
    u8* literals;
    u8* tokens;
    u32* flags;
    // lz_borders, lz_write only.
    const LzTarget* targets;
    // Chunks, or for lz_borders and lz_write targets, and segments of the longest.
    u32 count;
    u32 most_segments;
    // Symbols of a segment, a power of two; bytes of a symbol and of an offset.
    u32 segment;
    u32 symbol;
    u32 offset;
    // Most symbols that a match looks back.
    u32 window;
    // Bytes of a segment's tokens, and where lengths begin in them.
    u32 token_bytes;
    u32 lengths_at;
};

LANEPACK_DEVICE u32 segments_of(const LzArguments& args, const LzChunk& chunk) {
    const u64 bytes = static_cast<u64>(args.segment) * args.symbol;
    return static_cast<u32>((chunk.len + bytes - 1) / bytes);
}

}  // namespace lanepack
