// Bytes of plain and constant nodes of strings: a thread writes every 256th 16 bytes
// of the block's 16 KB of output, four at a time.
//
// On an NVIDIA H200 plain writes 2,004 to 2,029 GB/s (94 % of a copy), constant 4,341
// (95 % of writing alone); with 64 KB a block 1,909 and 4,111.
#include "arguments.cuh"
#include "launch.cuh"

namespace lanepack {

// Notes a byte above 127. Looks first: stores of every block to one place hold each
// other up (bytes_constant 2,918 GB/s instead of 3,867).
LANEPACK_DEVICE void note_not_ascii(const BytesArguments& args, u32 node) {
    if (__ldcg(args.not_ascii + node) == 0) args.not_ascii[node] = 1;
}

// Writes the block's part of `bytes` bytes from out + at on, multiples of 16 bytes at
// once: unit_at(u) gives the 16 bytes of which the first is byte 16 u - at % 16,
// byte_at(i) is byte i. By all threads of the block.
template <class Unit, class Byte>
LANEPACK_DEVICE void write_bytes(const BytesArguments& args, const Part& part, u64 at, u64 bytes, const Unit& unit_at,
                                 const Byte& byte_at) {
    constexpr u32 UNITS = BYTES_BYTES / 16;
    constexpr u32 AHEAD = 4;
    static_assert(UNITS % (BYTES_THREADS * AHEAD) == 0, "all threads write as much");
    const u32 past = static_cast<u32>(at % 16);
    uint4* const out = reinterpret_cast<uint4*>(args.out + (at - past));
    const u64 first = static_cast<u64>(part.part) * UNITS;
    u32 seen = 0;
    if (first * 16 >= past && (first + UNITS) * 16 - past <= bytes) {
#pragma unroll 1
        for (u64 unit = first + threadIdx.x; unit < first + UNITS; unit += BYTES_THREADS * AHEAD) {
            uint4 words[AHEAD];
#pragma unroll
            for (u32 i = 0; i < AHEAD; ++i) words[i] = unit_at(unit + i * BYTES_THREADS);
#pragma unroll
            for (u32 i = 0; i < AHEAD; ++i) {
                seen |= words[i].x | words[i].y | words[i].z | words[i].w;
                __stcs(out + unit + i * BYTES_THREADS, words[i]);
            }
        }
    } else {
#pragma unroll 1
        for (u64 unit = first + threadIdx.x; unit < first + UNITS && unit * 16 < bytes + past; unit += BYTES_THREADS) {
            const u64 behind = unit * 16 + 16 - past;
            if (unit * 16 >= past && behind <= bytes) {
                const uint4 words = unit_at(unit);
                seen |= words.x | words.y | words.z | words.w;
                __stcs(out + unit, words);
                continue;
            }
            for (u64 byte = unit * 16 < past ? 0 : unit * 16 - past; byte < min(behind, bytes); ++byte) {
                const u8 value = byte_at(byte);
                seen |= value;
                args.out[at + byte] = value;
            }
        }
    }
    if (__any_sync(FULL, (seen & HIGH_BITS) != 0) && threadIdx.x % WARP == 0) note_not_ascii(args, part.node);
}

LANEPACK_KERNEL(bytes_plain, BYTES_THREADS, 1, BytesArguments) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    if (static_cast<u64>(part.part) * BYTES_BYTES >= node.size + node.at % 16) return;
    const u8* const from = node.buffer[0];
    const uint4* const units = reinterpret_cast<const uint4*>(from);
    const u32 past = static_cast<u32>(node.at % 16);
    const auto byte_at = [&](u64 byte) { return from[byte]; };
    if (past == 0) {
        write_bytes(args, part, node.at, node.size, [&](u64 unit) { return __ldcs(units + unit); }, byte_at);
    } else {
        // Byte 16 unit - past of the node, in the last bytes of the unit before and the first of this one.
        const auto unit_at = [&](u64 unit) {
            return bytes_from(__ldg(units + unit - 1), __ldg(units + unit), 16 - past);
        };
        write_bytes(args, part, node.at, node.size, unit_at, byte_at);
    }
}

// The value's bytes repeat every `period` units of 16 bytes: these are made once in shared memory.
LANEPACK_KERNEL(bytes_constant, BYTES_THREADS, 1, BytesArguments) {
    constexpr u32 MOST = 1024;
    LANEPACK_SHARED(uint4[MOST], pattern);
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u64 bytes = node.size * node.rows;
    const u32 past = static_cast<u32>(node.at % 16);
    if (bytes == 0 || static_cast<u64>(part.part) * BYTES_BYTES >= bytes + past) return;
    const u8* const value = node.buffer[0];
    const u32 size = static_cast<u32>(node.size);
    const u32 period = size / min(size & (~size + 1), 16u);
    for (u32 unit = threadIdx.x; unit < period; unit += BYTES_THREADS) {
        // Unit 0 of the pattern is unit 1 of the output, the first that is surely whole.
        u32 at = (unit * 16 + 16 - past) % size;
        u32 words[4] = {0, 0, 0, 0};
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            words[i / 4] |= static_cast<u32>(value[at]) << i % 4 * 8;
            if (++at == size) at = 0;
        }
        pattern[unit] = make_uint4(words[0], words[1], words[2], words[3]);
    }
    __syncthreads();
    write_bytes(
        args, part, node.at, bytes,
        [&](u64 unit) { return pattern[(static_cast<u32>(unit) + period - 1) % period]; },
        [&](u64 byte) { return value[byte % size]; });
}

}  // namespace lanepack
