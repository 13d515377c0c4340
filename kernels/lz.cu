// Bytes of which some have stood there before, to memory: lz.
//
// A warp writes a segment, 32 items at a time, an item being a literal or a match:
//
//   flags     0  1  0  0  1 ..      lane i has item i; matches before it are a popcount
//   lengths   1  5  1  1  9 ..      a scan: where each item begins
//   windows   |a bcdef g h ijk.. |  32 symbols at a time, one a lane: which item it is of is a
//                                   popcount over the bits where items begin
//
// A symbol of a match is one that stands before the match: in memory, if before the window;
// else it is looked up in the same way, item by item, until it is a literal or before the
// window. No lane waits for another within a window, and none copies more than another.
// Symbols in memory are read back through the first-level cache, which the warp's own writes
// have passed.
//
// Where segments lie in the streams has been checked; flags, lengths and offsets have not.
//
// A node's buffers are those of docs/FORMAT.md; its `parameter` has the bytes of all values in
// bits 0..32 and the number of literals above, its `size` the bytes of an offset in bits 8..16,
// the binary logarithm of the symbols of a segment in bits 16..24, and the number of matches in
// bits 32..64.
#include "arguments.cuh"
#include "launch.cuh"

namespace lanepack {

// Symbols at any address, or, where all are aligned, at one that is.
template <class T>
struct Symbols {
    u8* bytes;
    bool is_aligned;

    LANEPACK_DEVICE explicit Symbols(u8* bytes) : bytes(bytes), is_aligned(reinterpret_cast<u64>(bytes) % sizeof(T) == 0) {}

    LANEPACK_DEVICE T get(u32 index) const {
        if (sizeof(T) == 1 || is_aligned) return reinterpret_cast<const T*>(bytes)[index];
        T symbol = 0;
        for (u32 i = 0; i < sizeof(T); i++) symbol |= static_cast<T>(static_cast<T>(bytes[index * sizeof(T) + i]) << (8 * i));
        return symbol;
    }

    LANEPACK_DEVICE void set(u32 index, T symbol) const {
        if (sizeof(T) == 1 || is_aligned) {
            reinterpret_cast<T*>(bytes)[index] = symbol;
            return;
        }
        for (u32 i = 0; i < sizeof(T); i++) bytes[index * sizeof(T) + i] = static_cast<u8>(symbol >> (8 * i));
    }
};

// An item: a literal has offset 0. `start` counts symbols from that of the first of 32 items.
template <class T>
struct Item {
    u32 start;
    u32 offset;
    T literal;

    // That of another lane.
    LANEPACK_DEVICE Item of(u32 lane) const {
        return {__shfl_sync(FULL, start, lane), __shfl_sync(FULL, offset, lane), literal_of(lane)};
    }

    LANEPACK_DEVICE T literal_of(u32 lane) const {
        if constexpr (sizeof(T) == 8) return __shfl_sync(FULL, literal, lane);
        return static_cast<T>(__shfl_sync(FULL, static_cast<u32>(literal), lane));
    }

    // How far before the symbol `at` of this match the one stands that it repeats, such that it
    // is not of the match itself.
    LANEPACK_DEVICE u32 back(u32 at) const {
        const u32 inside = at - start;
        return inside < offset ? offset : inside / offset * offset + offset;
    }
};

template <class T>
LANEPACK_DEVICE u32 lz_segment(const Node& node, u32 segment, u8* out, u32& high) {
    const u32 lane = threadIdx.x % WARP;
    const u32 narrow = (node.size >> 8 & 0xff) == 1;
    const u32 least = sizeof(T) == 1 ? 4 - narrow : sizeof(T) == 2 ? 2 : 1;
    const u32 segment_symbols = 1u << (node.size >> 16 & 0xff);
    const u32 all_matches = static_cast<u32>(node.size >> 32);
    const u32 all_symbols = static_cast<u32>(node.parameter) / sizeof(T);
    const u64 first = static_cast<u64>(segment) * segment_symbols;
    const u32 symbols = min(segment_symbols, static_cast<u32>(all_symbols - first));
    const bool is_last = first + symbols == all_symbols;
    const u32* place = reinterpret_cast<const u32*>(node.buffer[3]) + 3 * static_cast<u64>(segment);
    u32 flag = __ldg(place);
    u32 match = __ldg(place + 1);
    u32 literal = __ldg(place + 2);
    const u32 matches_end = is_last ? all_matches : __ldg(place + 4);
    const u32 literals_end = is_last ? static_cast<u32>(node.parameter >> 32) : __ldg(place + 5);
    const T* literals = reinterpret_cast<const T*>(node.buffer[0]);
    const u8* offsets = node.buffer[1];
    const u8* lengths = offsets + static_cast<u64>(all_matches) * (2 - narrow);
    const u32* flags = reinterpret_cast<const u32*>(node.buffer[2]);
    const Symbols<T> to(out + first * sizeof(T));
    const auto note = [&](T symbol) {
        if constexpr (sizeof(T) == 8) high |= static_cast<u32>(symbol) | static_cast<u32>(symbol >> 32);
        else high |= symbol;
    };
    if (match == matches_end) {
        for (u32 at = lane; at < symbols; at += WARP) {
            const T symbol = __ldg(literals + literal + at);
            note(symbol);
            to.set(at, symbol);
        }
        return 0;
    }
    u32 items = matches_end - match + literals_end - literal;
    u32 begin = 0;
    while (items > 0) {
        const u32 some = min(items, WARP);
        const u32* word = flags + flag / 32;
        const u32 bits = __funnelshift_r(__ldg(word), __ldg(word + 1), flag % 32) & (FULL >> (WARP - some));
        const u32 rank = __popc(bits & ((1u << lane) - 1));
        const bool is_match = bits >> lane & 1;
        const u32 count = __popc(bits);
        // The streams have so many; of each lane its own is among them.
        if (count > matches_end - match || some - count > literals_end - literal) return FAULT_SEGMENT;
        Item<T> own{0, 0, 0};
        u32 length = lane < some;
        if (is_match) {
            const u32 token = match + rank;
            own.offset = 1 + (narrow ? __ldg(offsets + token) : __ldg(reinterpret_cast<const u16*>(offsets) + token));
            length = least + __ldg(lengths + token);
        } else if (lane < some) {
            own.literal = __ldg(literals + literal + lane - rank);
            note(own.literal);
        }
        const u32 end = sum_upto(length);
        own.start = end - length;
        const u32 total = __shfl_sync(FULL, end, WARP - 1);
        const bool fits = own.offset <= begin + own.start && total <= symbols - begin;
        if (!__all_sync(FULL, fits)) return FAULT_SEGMENT;
        u32 before = 0;
        for (u32 window = 0; window < total; window += WARP) {
            const bool begins = lane < some && own.start - window < WARP;
            const u32 starts = __reduce_or_sync(FULL, begins ? 1u << (own.start - window) : 0u);
            const auto item_of = [&](u32 at) { return before + __popc(starts & (FULL >> (WARP - 1 - at))) - 1; };
            u32 at = window + lane;
            Item<T> item = own.of(item_of(lane));
            T symbol = item.literal;
            // Behind the segment's end nothing is looked for.
            bool is_found = item.offset == 0 || at >= total;
            u32 back = 0;
            if (!is_found) back = item.back(at);
            while (true) {
                const bool is_inside = !is_found && back <= at - window;
                if (!__any_sync(FULL, is_inside)) break;
                if (is_inside) at -= back;
                item = own.of(item_of(at - window));
                if (is_inside) {
                    symbol = item.literal;
                    is_found = item.offset == 0;
                    if (!is_found) back = item.back(at);
                }
            }
            if (!is_found) symbol = to.get(begin + at - back);
            if (window + lane < total) to.set(begin + window + lane, symbol);
            before += __popc(starts);
            __syncwarp();
        }
        begin += total;
        flag += some;
        match += count;
        literal += some - count;
        items -= some;
    }
    return begin == symbols ? 0u : static_cast<u32>(FAULT_SEGMENT);
}

template <class T>
LANEPACK_DEVICE void lz(const BytesArguments& args) {
    constexpr u32 WARPS = LZ_THREADS / WARP;
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 segment = part.part * WARPS + threadIdx.x / WARP;
    const u64 bytes = static_cast<u32>(node.parameter);
    if (segment * sizeof(T) << (node.size >> 16 & 0xff) >= bytes) return;
    u32 high = 0;
    const u32 fault = lz_segment<T>(node, segment, args.out + node.at, high);
    const bool any = __any_sync(FULL, (high & HIGH_BITS) != 0);
    if (threadIdx.x % WARP != 0) return;
    if (fault != 0) report(args.status, part.node, static_cast<Fault>(fault));
    if (any) args.not_ascii[part.node] = 1;
}

LANEPACK_KERNEL(lz_8, LZ_THREADS, 8, BytesArguments) { lz<u8>(args); }
LANEPACK_KERNEL(lz_16, LZ_THREADS, 8, BytesArguments) { lz<u16>(args); }
LANEPACK_KERNEL(lz_32, LZ_THREADS, 8, BytesArguments) { lz<u32>(args); }
LANEPACK_KERNEL(lz_64, LZ_THREADS, 8, BytesArguments) { lz<u64>(args); }

}  // namespace lanepack
