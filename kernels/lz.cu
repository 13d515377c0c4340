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
// have passed. The next 32 items are on their way while these are written.
//
// On an NVIDIA H200, GB/s of comments as bytes in segments of 64 KiB, of sorted keys, of comments
// as symbols of 2 bytes in segments of 4 KiB: 229, 201, 251 at first; 255, 227, 257 with the
// next items on their way, 12 blocks a multiprocessor (10), and powers of two of an offset instead of a division where a
// match repeats itself. Instructions limit: some 45 for 32 symbols, and 80 for 32 items.
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
        if constexpr (sizeof(T) > 1) {
            if (!is_aligned) {
                T symbol = 0;
                for (u32 i = 0; i < sizeof(T); i++) {
                    symbol |= static_cast<T>(static_cast<T>(bytes[index * sizeof(T) + i]) << (8 * i));
                }
                return symbol;
            }
        }
        return reinterpret_cast<const T*>(bytes)[index];
    }

    LANEPACK_DEVICE void set(u32 index, T symbol) const {
        if constexpr (sizeof(T) > 1) {
            if (!is_aligned) {
                for (u32 i = 0; i < sizeof(T); i++) {
                    bytes[index * sizeof(T) + i] = static_cast<u8>(symbol >> (8 * i));
                }
                return;
            }
        }
        reinterpret_cast<T*>(bytes)[index] = symbol;
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

    // How far before the symbol `at` of this match one stands that is the same: the offset, or,
    // where that is one of the match itself, the most times it that are a power of two, so that
    // few steps lead out of the match.
    LANEPACK_DEVICE u32 back(u32 at) const {
        const u32 most = at - start + offset;
        const u32 near = offset << (__clz(static_cast<i32>(offset)) - __clz(static_cast<i32>(most)));
        return near <= most ? near : near / 2;
    }
};

// 32 items of a segment, or the last: one a lane.
template <class T>
struct Items {
    u32 some;
    // Symbols of the lane's own, 0 if it has none; its offset, and the symbol of a literal.
    u32 length;
    u32 offset;
    T literal;
    // Whether the streams have so many matches and literals.
    bool is_there;
};

// The streams of a segment, read by a warp.
template <class T>
struct Streams {
    const T* literals;
    const u8* offsets;
    const u8* lengths;
    const u32* flags;
    // Whether offsets have one byte.
    u32 is_narrow;
    // What is next in each stream, and what the segment has left of it.
    u32 literal;
    u32 match;
    u32 flag;
    u32 literals_left;
    u32 matches_left;

    // The next flags.
    LANEPACK_DEVICE u32 peek() const {
        const u32 items = matches_left + literals_left;
        if (items == 0) return 0;
        const u32* word = flags + flag / 32;
        const u32 bits = __funnelshift_r(__ldg(word), __ldg(word + 1), flag % 32);
        return items < WARP ? bits & ((1u << items) - 1) : bits;
    }

    // The next items, of these flags.
    LANEPACK_DEVICE Items<T> take(u32 bits) {
        const u32 lane = threadIdx.x % WARP;
        const u32 count = __popc(bits);
        Items<T> items{min(matches_left + literals_left, WARP), 0, 0, 0, false};
        const u32 others = items.some - count;
        items.is_there = count <= matches_left && others <= literals_left;
        if (!items.is_there) return items;
        const u32 rank = __popc(bits & ((1u << lane) - 1));
        if (bits >> lane & 1) {
            constexpr u32 LEAST = sizeof(T) == 1 ? 4 : sizeof(T) == 2 ? 2 : 1;
            const u32 token = match + rank;
            items.offset = 1 + (is_narrow ? __ldg(offsets + token) : __ldg(reinterpret_cast<const u16*>(offsets) + token));
            items.length = LEAST - (sizeof(T) == 1 ? is_narrow : 0) + __ldg(lengths + token);
        } else if (lane < items.some) {
            items.literal = __ldg(literals + literal + lane - rank);
            items.length = 1;
        }
        flag += items.some;
        match += count;
        matches_left -= count;
        literal += others;
        literals_left -= others;
        return items;
    }
};

template <class T>
LANEPACK_DEVICE u32 lz_segment(const Node& node, u32 segment, u8* out, u32& high) {
    const u32 lane = threadIdx.x % WARP;
    const u32 segment_symbols = 1u << (node.size >> 16 & 0xff);
    const u32 all_matches = static_cast<u32>(node.size >> 32);
    const u32 all_symbols = static_cast<u32>(node.parameter) / sizeof(T);
    const u64 first = static_cast<u64>(segment) * segment_symbols;
    const u32 symbols = min(segment_symbols, static_cast<u32>(all_symbols - first));
    const bool is_last = first + symbols == all_symbols;
    const u32* place = reinterpret_cast<const u32*>(node.buffer[3]) + 3 * static_cast<u64>(segment);
    Streams<T> streams;
    streams.literals = reinterpret_cast<const T*>(node.buffer[0]);
    streams.is_narrow = (node.size >> 8 & 0xff) == 1;
    streams.offsets = node.buffer[1];
    streams.lengths = streams.offsets + static_cast<u64>(all_matches) * (2 - streams.is_narrow);
    streams.flags = reinterpret_cast<const u32*>(node.buffer[2]);
    streams.flag = __ldg(place);
    streams.match = __ldg(place + 1);
    streams.literal = __ldg(place + 2);
    streams.matches_left = (is_last ? all_matches : __ldg(place + 4)) - streams.match;
    streams.literals_left = (is_last ? static_cast<u32>(node.parameter >> 32) : __ldg(place + 5)) - streams.literal;
    const Symbols<T> to(out + first * sizeof(T));
    const auto note = [&](T symbol) {
        if constexpr (sizeof(T) == 8) high |= static_cast<u32>(symbol) | static_cast<u32>(symbol >> 32);
        else high |= symbol;
    };
    if (streams.matches_left == 0) {
        for (u32 at = lane; at < symbols; at += WARP) {
            const T symbol = __ldg(streams.literals + streams.literal + at);
            note(symbol);
            to.set(at, symbol);
        }
        return 0;
    }
    u32 begin = 0;
    Items<T> items = streams.take(streams.peek());
    while (items.some > 0) {
        if (!items.is_there) return FAULT_SEGMENT;
        // What comes next is on its way while these items are written.
        const u32 ahead = streams.peek();
        const u32 end = sum_upto(items.length);
        const Item<T> own{end - items.length, items.offset, items.literal};
        const u32 total = __shfl_sync(FULL, end, WARP - 1);
        const bool fits = own.offset <= begin + own.start && total <= symbols - begin;
        if (!__all_sync(FULL, fits)) return FAULT_SEGMENT;
        note(own.literal);
        const bool is_one = lane < items.some;
        items = streams.take(ahead);
        u32 before = 0;
        for (u32 window = 0; window < total; window += WARP) {
            const bool begins = is_one && own.start - window < WARP;
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
    }
    return begin == symbols ? 0u : static_cast<u32>(FAULT_SEGMENT);
}

template <class T>
LANEPACK_DEVICE void lz(const BytesArguments& args) {
    constexpr u32 WARPS = LZ_THREADS / WARP;
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 segment = part.part * WARPS + warp_in_block();
    const u64 bytes = static_cast<u32>(node.parameter);
    if (segment * sizeof(T) << (node.size >> 16 & 0xff) >= bytes) return;
    u32 high = 0;
    const u32 fault = lz_segment<T>(node, segment, args.out + node.at, high);
    const bool any = __any_sync(FULL, (high & HIGH_BITS) != 0);
    if (threadIdx.x % WARP != 0) return;
    if (fault != 0) report(args.status, part.node, static_cast<Fault>(fault));
    if (any) args.not_ascii[part.node] = 1;
}

// Blocks that a multiprocessor is to hold: as many as registers suffice for without spills,
// which is more with what the compiler makes for Hopper.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr u32 LZ_BLOCKS = 12;
constexpr u32 LZ_BLOCKS_64 = 10;
#else
constexpr u32 LZ_BLOCKS = 9;
constexpr u32 LZ_BLOCKS_64 = 8;
#endif

LANEPACK_KERNEL(lz_8, LZ_THREADS, LZ_BLOCKS, BytesArguments) { lz<u8>(args); }
LANEPACK_KERNEL(lz_16, LZ_THREADS, LZ_BLOCKS, BytesArguments) { lz<u16>(args); }
LANEPACK_KERNEL(lz_32, LZ_THREADS, LZ_BLOCKS, BytesArguments) { lz<u32>(args); }
LANEPACK_KERNEL(lz_64, LZ_THREADS, LZ_BLOCKS_64, BytesArguments) { lz<u64>(args); }

}  // namespace lanepack
