// Values of dictionaries by their codes to memory: dict_ffor_*, dict_pfor_*, dict_plain_*; and whether all
// codes have a value, which scans count on: dict_check.
//
//   codes, 4 a thread -> values, from the first-level cache -> the output
//
// On an NVIDIA H200, bytes read and written as a share of a device-to-device copy, 200 values:
// 93 % for 64 bits, 91 for 32, 73 for 16, 40 for 8.
//
// A node of dict has the buffers of its codes first, and in buffer 3 the values of its
// dictionary as they are; `size` is their number, and above 32 bits the encoding of the codes;
// the parameter is theirs. ffor and pfor codes are unpacked as all of these (unit.cuh), others come
// plain.
#include "arguments.cuh"
#include "lanepack/values.cuh"
#include "store.cuh"
#include "unit.cuh"

namespace lanepack {

template <class T>
struct StoreCodes {
    Dictionary<T> dictionary;
    StoreWords<T> words;
    // The greatest code so far.
    u32& worst;

    LANEPACK_DEVICE StoreCodes(u8* out, const Node& node, u32& greatest)
        : dictionary(node), words(out, node), worst(greatest) {}

    LANEPACK_DEVICE bool is_whole(u32 row) const {
        return words.past == 0 && row + UNIT_BYTES / static_cast<u32>(sizeof(u32)) <= words.rows;
    }

    LANEPACK_DEVICE T at(u32 code) const {
        worst = max(worst, code);
        return dictionary.at(code);
    }

    // All threads of a warp together, with codes that follow each other.
    LANEPACK_DEVICE void whole(u32 row, uint4 codes) const {
        T* out = words.out + row;
        if constexpr (sizeof(T) == 8) {
            // Threads exchange codes so that neighbours store neighbours.
            const u32 lane = threadIdx.x % WARP;
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                const u32 from = i * (WARP / 2) + lane / 2;
                const u32 x = __shfl_sync(FULL, codes.x, from);
                const u32 y = __shfl_sync(FULL, codes.y, from);
                const u32 z = __shfl_sync(FULL, codes.z, from);
                const u32 w = __shfl_sync(FULL, codes.w, from);
                const u64 first = at(lane % 2 == 0 ? x : z);
                const u64 second = at(lane % 2 == 0 ? y : w);
                ulonglong2* to = reinterpret_cast<ulonglong2*>(words.out + (row - lane * 4));
                __stcs(to + i * WARP + lane, ulonglong2{first, second});
            }
        } else if constexpr (sizeof(T) == 4) {
            __stcs(reinterpret_cast<uint4*>(out), uint4{at(codes.x), at(codes.y), at(codes.z), at(codes.w)});
        } else if constexpr (sizeof(T) == 2) {
            const u32 low = at(codes.x) | static_cast<u32>(at(codes.y)) << 16;
            const u32 high = at(codes.z) | static_cast<u32>(at(codes.w)) << 16;
            __stcs(reinterpret_cast<uint2*>(out), uint2{low, high});
        } else {
            const u32 low = at(codes.x) | static_cast<u32>(at(codes.y)) << 8;
            const u32 high = at(codes.z) | static_cast<u32>(at(codes.w)) << 8;
            __stcs(reinterpret_cast<u32*>(out), low | high << 16);
        }
    }

    LANEPACK_DEVICE void operator()(u32 row, uint4 codes) const {
        const u32 all[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            if (row + i < words.rows) words.value(row + i, at(all[i]));
        }
    }

    LANEPACK_DEVICE void value(u32 row, u32 code) const {
        if (row < words.rows) words.value(row, at(code));
    }
};

// Reports codes without a value; called by all threads once they have stored.
LANEPACK_DEVICE void check_codes(const DictArguments& args, const Part& part, u32 worst) {
    if (worst >= static_cast<u32>(args.nodes[part.node].size)) report(args.status, part.node, FAULT_VALUE);
}

template <class T>
LANEPACK_DEVICE void dict_ffor(const DictArguments& args) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    u32 worst = 0;
    decode_ffor_unit<u32>(node, part.part, {args.nodes, args.blocks_per_node},
                          StoreCodes<T>(args.out, node, worst));
    check_codes(args, part, worst);
}

template <class T>
LANEPACK_DEVICE void dict_pfor(const DictArguments& args) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    u32 worst = 0;
    decode_patched_unit<u32, PforVector<u32>>(node, part.part, {args.nodes, args.blocks_per_node},
                                              StoreCodes<T>(args.out, node, worst));
    check_codes(args, part, worst);
}

template <class T>
LANEPACK_DEVICE void dict_plain(const DictArguments& args) {
    constexpr u32 CODES = UNIT_BYTES / sizeof(u32);
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const uint4* codes = reinterpret_cast<const uint4*>(node.buffer[0]);
    u32 worst = 0;
    const StoreCodes<T> store(args.out, node, worst);
    const bool is_whole = store.is_whole(part.part * CODES);
#pragma unroll
    for (u32 i = 0; i < UNIT_STEPS; i++) {
        const u32 row = part.part * CODES + (i * UNIT_THREADS + threadIdx.x) * 4;
        if (is_whole) {
            store.whole(row, __ldcs(codes + row / 4));
        } else if (row < node.rows) {
            // Buffers are padded to 64 bytes, so pieces can be read whole.
            store(row, __ldcs(codes + row / 4));
        }
    }
    check_codes(args, part, worst);
}

// With 16 the compiler spills on newer architectures.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr u32 DICT_BLOCKS = 12;
#else
constexpr u32 DICT_BLOCKS = 16;
#endif

LANEPACK_KERNEL(dict_ffor_8, UNIT_THREADS, 16, DictArguments) { dict_ffor<u8>(args); }
LANEPACK_KERNEL(dict_ffor_16, UNIT_THREADS, 16, DictArguments) { dict_ffor<u16>(args); }
LANEPACK_KERNEL(dict_ffor_32, UNIT_THREADS, 16, DictArguments) { dict_ffor<u32>(args); }
LANEPACK_KERNEL(dict_ffor_64, UNIT_THREADS, DICT_BLOCKS, DictArguments) { dict_ffor<u64>(args); }
LANEPACK_KERNEL(dict_pfor_8, UNIT_THREADS, 12, DictArguments) { dict_pfor<u8>(args); }
LANEPACK_KERNEL(dict_pfor_16, UNIT_THREADS, 12, DictArguments) { dict_pfor<u16>(args); }
LANEPACK_KERNEL(dict_pfor_32, UNIT_THREADS, 12, DictArguments) { dict_pfor<u32>(args); }
LANEPACK_KERNEL(dict_pfor_64, UNIT_THREADS, 12, DictArguments) { dict_pfor<u64>(args); }
LANEPACK_KERNEL(dict_plain_8, UNIT_THREADS, 16, DictArguments) { dict_plain<u8>(args); }
LANEPACK_KERNEL(dict_plain_16, UNIT_THREADS, 16, DictArguments) { dict_plain<u16>(args); }
LANEPACK_KERNEL(dict_plain_32, UNIT_THREADS, 16, DictArguments) { dict_plain<u32>(args); }
LANEPACK_KERNEL(dict_plain_64, UNIT_THREADS, 16, DictArguments) { dict_plain<u64>(args); }

// Looks at the codes of vectors, a warp at one. `out` is not used.
LANEPACK_KERNEL(dict_check, DICT_CHECK_THREADS, 1, DictArguments) {
    const Part part = part_of_block(args.blocks_per_node);
    const Node& node = args.nodes[part.node];
    const u32 vector = part.part * (DICT_CHECK_THREADS / WARP) + warp_in_block();
    if (vector >= vectors_of(node)) return;
    const Node codes = codes_of(node);
    const StepValues<u32, CODE_ENCODINGS> values(codes, vector);
    const u32 within = steps_within(node.rows - vector * VECTOR);
    u32 worst = 0;
#pragma unroll 8
    for (u32 step = 0; step < WARP; step++) {
        if ((within >> step & 1) != 0) worst = max(worst, values(step));
    }
    check_codes(args, part, worst);
}

}  // namespace lanepack
