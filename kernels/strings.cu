// Arrow's offsets of strings from their packed lengths, and what follows from
// bytes and offsets: the check of UTF-8, views, and values of one width.
#include "arguments.cuh"
#include "lanepack/fields.cuh"
#include "lanepack/pfor.cuh"
#include "lanepack/strings.cuh"
#include "launch.cuh"
#include "utf8.cuh"

namespace lanepack {

// The lengths of a vector, by a warp, to `lengths`: value i at i + i / 32, so that
// 32 lanes that each read 32 values in a row read 32 banks. Slots past the end are zero.
LANEPACK_DEVICE void unpack_lengths(const Node& strings, const Node& node, u32 vector, u32 lane, u32* lengths) {
    const u32 rows = min(node.rows - vector * VECTOR, VECTOR);
    if (strings.encoding == CONSTANT) {
        const u32 length = static_cast<u32>(strings.size);
        for (u32 slot = lane; slot < VECTOR; slot += WARP) {
            lengths[slot + slot / 32] = slot < rows ? length : 0;
        }
    } else if (node.encoding == FFOR || node.encoding == PFOR) {
        const FforVector<u32> parameters(node, vector);
        u32 fields[WARP];
        unpack_fields<u32>(parameters.packed, fields);
#pragma unroll
        for (u32 row = 0; row < 32; ++row) {
            const u32 slot = index(row, lane);
            lengths[slot + slot / 32] = slot < rows ? parameters.base + fields[row] : 0;
        }
        if (node.encoding == PFOR) {
            __syncwarp();
            const Exceptions<u32> exceptions(node.buffer[2], pfor_locator<u32>(node, vector));
            exceptions.for_each(lane, WARP, [&](u32, u32 slot, u32 length) {
                if (slot < rows) lengths[slot + slot / 32] = length;
            });
        }
    } else {
        const u32* plain = reinterpret_cast<const u32*>(node.buffer[0]) + vector * VECTOR;
        for (u32 slot = lane; slot < VECTOR; slot += WARP) {
            const u32 length = node.encoding == CONSTANT ? static_cast<u32>(node.parameter)
                               : slot < rows             ? plain[slot]
                                                         : 0;
            lengths[slot + slot / 32] = slot < rows ? length : 0;
        }
    }
}

// A warp turns the lengths of a vector into the offsets at which its values
// begin; every vector knows its own start, so no warp waits for another.
//
// Lanes of a packed vector hold every 32nd value, so the lengths go through
// shared memory: each lane sums 32 values in a row, a scan over the lanes adds
// what lies before. Where lengths do not add up to the vector's bytes, offsets are
// clamped to these: whatever lengths say, offsets never fall and nobody who uses them
// leaves the values.
template <class Offset>
LANEPACK_DEVICE void offsets_of_vectors(const OffsetsArguments& args) {
    constexpr u32 WARPS = OFFSETS_THREADS / WARP;
    constexpr u32 SLOTS = VECTOR + VECTOR / 32;
    LANEPACK_SHARED(u32[WARPS * SLOTS], shared);
    const Part part = part_of_block(args.blocks_per_node);
    const Node& strings = args.nodes[part.node];
    const Node& node = args.nodes[args.node_count + part.node];
    const u32 lane = threadIdx.x % WARP;
    const u32 warp = warp_in_block();
    const u32 vector = part.part * WARPS + warp;
    if (vector * VECTOR >= node.rows) return;
    u32* lengths = shared + warp * SLOTS;
    unpack_lengths(strings, node, vector, lane, lengths);
    __syncwarp();
    u32 own[32];
    u64 sum = 0;
#pragma unroll
    for (u32 i = 0; i < 32; ++i) {
        own[i] = lengths[lane * 33 + i];
        sum += own[i];
    }
    const u64 upto = sum_upto(sum);
    const u64 before = upto - sum;
    const u64 start = value_start(strings, vector);
    const u64 end = value_start(strings, vector + 1);
    const bool is_sound = __shfl_sync(FULL, upto, WARP - 1) == end - start;
    if (lane == 0 && !is_sound) report(args.status, part.node, FAULT_LENGTHS);
    const u32 rows = min(node.rows - vector * VECTOR, VECTOR);
    Offset* out = reinterpret_cast<Offset*>(args.out) + node.at + vector * VECTOR;
    if (is_sound && (end - start) >> 32 == 0) {
        // Offsets from the vector's start have 32 bits.
        u32 at = static_cast<u32>(before);
#pragma unroll
        for (u32 i = 0; i < 32; ++i) {
            lengths[lane * 33 + i] = at;
            at += own[i];
        }
        __syncwarp();
        const Offset base = static_cast<Offset>(strings.at + start);
#pragma unroll 8
        for (u32 slot = lane; slot < rows; slot += WARP) {
            out[slot] = base + static_cast<Offset>(lengths[slot + slot / 32]);
        }
    } else {
        // Each lane writes its own, however scattered.
        u64 offset = start + before;
#pragma unroll
        for (u32 i = 0; i < 32; ++i) {
            if (lane * 32 + i < rows) out[lane * 32 + i] = static_cast<Offset>(strings.at + min(offset, end));
            offset += own[i];
        }
    }
    const bool last = part.node + 1 == args.node_count && vector * VECTOR + rows == node.rows;
    if (last && lane == 0) out[rows] = static_cast<Offset>(strings.at + end);
}

LANEPACK_KERNEL(offsets_32, OFFSETS_THREADS, 1, OffsetsArguments) { offsets_of_vectors<u32>(args); }

LANEPACK_KERNEL(offsets_64, OFFSETS_THREADS, 1, OffsetsArguments) { offsets_of_vectors<u64>(args); }

// Offset `index` of 4 or 8 bytes.
LANEPACK_DEVICE u64 offset_at(const StringsArguments& args, u64 index) {
    if (args.offset_bytes == 4) return reinterpret_cast<const u32*>(args.offsets)[index];
    return reinterpret_cast<const u64*>(args.offsets)[index];
}

// Checks that the values of every node are UTF-8 each: its bytes as a whole are,
// and none begins inside a character. Only nodes with bytes above 127 are read. A
// block looks at UTF8_BYTES bytes, and at its share of the rows, which begin about
// there, so that their bytes are still in the cache.
//
// Lost: four bytes at a time, 0.44 ms for 1 GB on an NVIDIA H200, bound by instructions, and with
// every rule for every byte 0.69; eight so, 0.9 ms; blocks of 4 KB, of which empty ones alone took
// 0.13 ms.
LANEPACK_KERNEL(utf8, UTF8_THREADS, 1, StringsArguments) {
    constexpr u32 EACH = 32;
    const Part part = part_of_block(args.blocks_per_node);
    if (args.not_ascii[part.node] == 0) return;
    const Node& node = args.nodes[part.node];
    const u64 begin = offset_at(args, node.at);
    const u64 end = offset_at(args, node.at + node.rows);
    // What a thread looks at is aligned in the output, which begins at a multiple of 256.
    const u64 aligned = begin / EACH * EACH;
    const u32 parts = static_cast<u32>((end - aligned + UTF8_BYTES - 1) / UTF8_BYTES);
    if (part.part >= parts) return;
    // What lies outside the node's bytes counts as zero, which is ASCII.
    auto inside = [&](u64 at, u32 word) {
        if (at + 4 <= begin || at >= end) return u32{0};
        if (at < begin) word = word >> (begin - at) * 8 << (begin - at) * 8;
        if (at + 4 > end) word = word << (at + 4 - end) * 8 >> (at + 4 - end) * 8;
        return word;
    };
    const u64 first = aligned + static_cast<u64>(part.part) * UTF8_BYTES + threadIdx.x * EACH;
    bool is_wrong = false;
#pragma unroll 2
    for (u32 i = 0; i < UTF8_BYTES; i += UTF8_THREADS * EACH) {
        const u64 at = first + i;
        if (at >= end) break;
        const uint4* from = reinterpret_cast<const uint4*>(args.bytes + at);
        // Buffers are padded to 64 bytes, but nothing is written to the padding.
        const uint4 head = from[0];
        const uint4 tail = at + 16 < end ? from[1] : uint4{0, 0, 0, 0};
        u32 words[8] = {head.x, head.y, head.z, head.w, tail.x, tail.y, tail.z, tail.w};
        // What is before a node's first byte is no matter.
        u32 before = at == 0 ? 0 : *reinterpret_cast<const u32*>(args.bytes + at - 4);
        const bool is_last = at + EACH >= end;
        if (at < begin + 4 || is_last) {
#pragma unroll
            for (u32 k = 0; k < 8; k++) words[k] = inside(at + k * 4, words[k]);
            before = at == 0 ? 0 : inside(at - 4, before);
        }
        u32 all = before;
#pragma unroll
        for (u32 k = 0; k < 8; k++) all |= words[k];
        if ((all & HIGH_BITS) != 0) is_wrong |= has_utf8_error(words, before, is_last);
    }
    if (is_wrong) report(args.status, part.node, FAULT_UTF8);
    const u32 share = (node.rows + parts - 1) / parts;
    const u32 last = min(node.rows, (part.part + 1) * share);
    bool cut = false;
    for (u32 row = part.part * share + threadIdx.x; row < last; row += UTF8_THREADS) {
        const u64 offset = offset_at(args, node.at + row);
        cut |= offset < end && (args.bytes[offset] & 0xc0) == 0x80;
    }
    if (cut) report(args.status, part.node, FAULT_CHARACTER);
}

// Arrow's views: length, and up to 12 bytes or 4 bytes, buffer and offset. The
// bytes of each node are a buffer of their own.
LANEPACK_KERNEL(views, VIEWS_THREADS, 1, StringsArguments) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 row = part.part * VIEWS_THREADS + threadIdx.x;
    if (row >= node.rows) return;
    const u64 begin = offset_at(args, node.at + row);
    const u32 length = static_cast<u32>(offset_at(args, node.at + row + 1) - begin);
    constexpr u32 INLINE = 12;
    u32 view[4] = {length, 0, 0, 0};
    const u32 kept = length <= INLINE ? length : 4;
    for (u32 i = 0; i < INLINE; ++i) {
        if (i < kept) view[1 + i / 4] |= static_cast<u32>(args.bytes[begin + i]) << i % 4 * 8;
    }
    if (length > INLINE) {
        view[2] = part.node;
        view[3] = static_cast<u32>(begin - offset_at(args, node.at));
    }
    reinterpret_cast<uint4*>(args.out)[node.at + row] = make_uint4(view[0], view[1], view[2], view[3]);
}

// Values of one width, each at its row; null ones may come empty and leave as zeros.
LANEPACK_KERNEL(fixed, FIXED_THREADS, 1, StringsArguments) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 lane = threadIdx.x % WARP;
    for (u32 value = warp_in_block(); value < FIXED_VALUES; value += FIXED_THREADS / WARP) {
        const u32 row = part.part * FIXED_VALUES + value;
        if (row >= node.rows) return;
        const u64 at = node.at + row;
        const u64 begin = offset_at(args, at);
        const u64 length = offset_at(args, at + 1) - begin;
        const bool null = args.valid != nullptr && (args.valid[at / 32] >> at % 32 & 1) == 0;
        const bool absent = length == 0 && null;
        if (!absent && length != args.width) {
            if (lane == 0) report(args.status, part.node, FAULT_WIDTH);
            continue;
        }
        for (u32 i = lane; i < args.width; i += WARP) {
            args.out[at * args.width + i] = absent ? 0 : args.bytes[begin + i];
        }
    }
}

}  // namespace lanepack
