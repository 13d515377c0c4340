// Bytes of plain and constant nodes of strings: a thread writes every 256th 16
// bytes of the block's 64 KB of output.
#include "arguments.cuh"
#include "launch.cuh"

namespace lanepack {

// The highest bit of every byte: set in none of ASCII.
constexpr u32 TOP_BITS = 0x80808080u;

// Writes the block's part of `bytes` bytes from out + at on, those of a multiple of
// 16 bytes at once: unit_at(u) gives the 16 bytes of which the first is byte
// 16 u - at % 16, byte_at(i) is byte i.
template <class Unit, class Byte>
LANEPACK_DEVICE void write_bytes(const BytesArguments& args, const Part& part, u64 at, u64 bytes, const Unit& unit_at,
                                 const Byte& byte_at) {
    constexpr u32 UNITS = BYTES_BYTES / 16;
    const u32 past = static_cast<u32>(at % 16);
    uint4* const out = reinterpret_cast<uint4*>(args.out + (at - past));
    u32 seen = 0;
#pragma unroll 4
    for (u32 i = threadIdx.x; i < UNITS; i += BYTES_THREADS) {
        const u64 unit = static_cast<u64>(part.part) * UNITS + i;
        // Bytes of the node before the unit's end, and with `past` before its beginning.
        const u64 behind = unit * 16 + 16 - past;
        if (unit * 16 >= past && behind <= bytes) {
            const uint4 words = unit_at(unit);
            seen |= words.x | words.y | words.z | words.w;
            __stcs(out + unit, words);
        } else if (unit * 16 < bytes + past) {
            const u64 first = unit * 16 < past ? 0 : unit * 16 - past;
            for (u64 byte = first; byte < min(behind, bytes); ++byte) {
                const u8 value = byte_at(byte);
                seen |= value;
                args.out[at + byte] = value;
            }
        }
    }
    if (__any_sync(FULL, (seen & TOP_BITS) != 0) && threadIdx.x % WARP == 0) args.not_ascii[part.node] = 1;
}

// 16 bytes from byte `skip` on of the 32 in low and high.
LANEPACK_DEVICE uint4 shifted(uint4 low, uint4 high, u32 skip) {
    u32 words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (u32 step = 2; step > 0; step /= 2) {
        if ((skip / 4 & step) != 0) {
#pragma unroll
            for (u32 i = 0; i + step < 8; ++i) words[i] = words[i + step];
        }
    }
    const u32 shift = skip % 4 * 8;
    return make_uint4(__funnelshift_r(words[0], words[1], shift), __funnelshift_r(words[1], words[2], shift),
                      __funnelshift_r(words[2], words[3], shift), __funnelshift_r(words[3], words[4], shift));
}

LANEPACK_KERNEL(bytes_plain, BYTES_THREADS, 1, BytesArguments) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    if (static_cast<u64>(part.part) * BYTES_BYTES >= node.size + node.at % 16) return;
    const u8* const from = node.buffer[0];
    const u32 past = static_cast<u32>(node.at % 16);
    const u32 skip = (16 - past) % 16;
    write_bytes(
        args, part, node.at, node.size,
        [&](u64 unit) {
            // Byte 16 unit - past of the node, which lies in two units of it unless past is 0.
            const uint4* units = reinterpret_cast<const uint4*>(from) + unit - (past == 0 ? 0 : 1);
            if (skip == 0) return __ldcs(units);
            return shifted(__ldg(units), __ldg(units + 1), skip);
        },
        [&](u64 byte) { return from[byte]; });
}

// The value's bytes repeat every size / gcd(size, 16) units of 16 bytes: these are
// made once in shared memory.
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
        u32 words[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            words[i] = 0;
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                words[i] |= static_cast<u32>(value[at]) << 8 * j;
                if (++at == size) at = 0;
            }
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
