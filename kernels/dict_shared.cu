// Values of large dictionaries of numbers by their codes to memory: dict_shared_32, dict_shared_64.
//
//   dictionary -> shared memory of a block, as much as fits, once for the vectors of a chunk
//   codes      -> registers of a thread (fields.cuh) -> values -> the output, neighbours by neighbours
//
// Values that lie far apart come from the second-level cache one sector each, which is 28 % of a
// copy for 30,000 values of 64 bits. From shared memory a warp has 32 of any in a few cycles.
//
// A block stays: it takes as many vectors as the others, and reads a dictionary when it comes to a
// chunk. Values that do not fit stay in global memory. Nodes are those of dict (dict.cuh); codes are
// ffor, pfor or plain.
//
// On an NVIDIA H200, bytes read and written as a share of a device-to-device copy, dictionaries of
// 1,024, 4,096, 16,384 and 32,768 values: 87, 88, 88 and 77 % (64 bits; the last one does not fit),
// 77, 77, 80 and 82 % (32 bits); by dict_ffor_* 86, 48, 36 and 37, and 81, 65, 27 and 25 %. With 1,024
// threads 79, 79, 78, 68 and 71, 72, 74, 75.
#include "arguments.cuh"
#include "copy_async.cuh"
#include "lanepack/dict.cuh"
#include "lanepack/fields.cuh"
#include "lanepack/patches.cuh"
#include "lanepack/pfor.cuh"
#include "launch.cuh"

namespace lanepack {

constexpr u32 DICT_SHARED_WARPS = DICT_SHARED_THREADS / WARP;
static_assert(DICT_SHARED_WARPS * sizeof(Patches) <= DICT_SHARED_OTHER, "what the host leaves");

// As many as a launch asks for, which may be more on devices with more shared memory.
template <class T>
struct alignas(16) SharedValues {
    T values[(MAX_DYNAMIC_SHARED - DICT_SHARED_OTHER) / sizeof(T)];
};

// Codes of a thread in the order of steps.
LANEPACK_DEVICE void read_codes(const Node& codes, u32 vector, u32 (&all)[WARP], Patches& patches) {
    const u32 thread = threadIdx.x % WARP;
    if (codes.encoding == PLAIN) {
        const u32* words = reinterpret_cast<const u32*>(codes.buffer[0]) + vector * VECTOR + thread;
        const u32 rows = codes.rows - vector * VECTOR;
#pragma unroll
        for (u32 step = 0; step < WARP; step++) {
            const u32 position = step_position(step);
            all[step] = position + thread < rows ? __ldcs(words + position) : 0;
        }
        return;
    }
    const FforVector<u32> parameters(codes, vector);
    unpack_fields<u32>(parameters.packed, all);
#pragma unroll
    for (u32 step = 0; step < WARP; step++) all[step] += parameters.base;
    if (codes.encoding != PFOR) return;
    const Exceptions<u32> block(codes.buffer[2], pfor_locator<u32>(codes, vector));
    if (block.count == 0) return;
    const u32 exceptional = exceptional_steps(block, patches);
#pragma unroll
    for (u32 step = 0; step < WARP; step++) {
        if ((exceptional >> step & 1) != 0) all[step] = block.at(thread * ROWS<u32> + step);
    }
}

// Where the codes of a vector are packed, and their width; 0 if they are not.
LANEPACK_DEVICE u32 place_of(const Node& codes, u32 vector) {
    return codes.encoding == PLAIN ? 0 : __ldg(ffor_places<u32>(codes) + vector);
}

template <class T>
LANEPACK_DEVICE void dict_shared(const DictSharedArguments& args) {
    LANEPACK_SHARED(Patches[DICT_SHARED_WARPS], patches);
    LANEPACK_DYNAMIC_SHARED(SharedValues<T>, dictionary);
    T* table = dictionary.values;
    const u32 warp = warp_in_block();
    const u32 thread = threadIdx.x % WARP;
    const u64 all = static_cast<u64>(args.node_count) * args.vectors_per_node;
    const u64 end = all * (blockIdx.x + 1) / gridDim.x;
    for (u64 first = all * blockIdx.x / gridDim.x; first < end;) {
        const u32 number = static_cast<u32>(first / args.vectors_per_node);
        const Node& node = args.nodes[number];
        const u32 begin = static_cast<u32>(first % args.vectors_per_node);
        const u32 count = static_cast<u32>(min(u64{args.vectors_per_node - begin}, end - first));
        first += count;
        if (begin >= vectors_of(node)) continue;
        const T* values = reinterpret_cast<const T*>(node.buffer[3]);
        const u32 size = static_cast<u32>(node.size);
        const u32 shared = min(size, args.shared_values);
        // Others may still read the dictionary before.
        __syncthreads();
        if (reinterpret_cast<u64>(values) % 16 == 0) {
            for (u32 i = threadIdx.x * PIECE<T>; i < shared; i += DICT_SHARED_THREADS * PIECE<T>) {
                // Buffers are padded to 64 bytes, so pieces can be read whole.
                copy_async(reinterpret_cast<uint4*>(table + i), reinterpret_cast<const uint4*>(values + i));
            }
        } else {
            // One of several dictionaries that follow each other.
            for (u32 i = threadIdx.x; i < shared; i += DICT_SHARED_THREADS) copy_async(table + i, values + i);
        }
        copies_done();
        __syncthreads();
        const Node codes = codes_of(node);
        const u32 behind = min(begin + count, vectors_of(node));
        u32 worst = 0;
#pragma unroll 1
        for (u32 vector = begin + warp; vector < behind; vector += DICT_SHARED_WARPS) {
            u32 own[WARP];
            const u32 later = vector + DICT_SHARED_WARPS < behind ? place_of(codes, vector + DICT_SHARED_WARPS) : 0;
            read_codes(codes, vector, own, patches[warp]);
            // What comes next is asked for while values are written.
            if (thread < later >> 24) prefetch(codes.buffer[0] + ((later & 0xffffff) + thread) * u64{PACKED_UNIT});
            T* out = reinterpret_cast<T*>(args.out) + node.at + vector * VECTOR + thread;
            const u32 rows = node.rows - vector * VECTOR;
#pragma unroll
            for (u32 step = 0; step < WARP; step++) {
                const u32 code = own[step];
                const u32 position = step_position(step);
                T value;
                if (code < shared) {
                    value = table[code];
                } else {
                    value = __ldg(values + min(code, size - 1));
                }
                if (position + thread < rows) {
                    worst = max(worst, code);
                    __stcs(out + position, value);
                }
            }
        }
        if (worst >= size) report(args.status, number, FAULT_VALUE);
    }
}

LANEPACK_KERNEL(dict_shared_32, DICT_SHARED_THREADS, 1, DictSharedArguments) { dict_shared<u32>(args); }
LANEPACK_KERNEL(dict_shared_64, DICT_SHARED_THREADS, 1, DictSharedArguments) { dict_shared<u64>(args); }

}  // namespace lanepack
