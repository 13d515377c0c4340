// Values of the rows that a bitmap keeps, one behind the other.
//
//   keep_counts    kept rows before each vector of its chunk, and of each chunk
//   keep_lengths   the same of the bytes of kept strings
//   keep_places    of each chunk, what is kept of those before
//   keep_8 .. 64   numbers; keep_wide values of 128 and 256 bits
//   keep_bits      booleans, and validity
//   keep_strings   offsets and bytes (keep_strings.cu)
//
// A warp takes a vector at a time. Of vectors without kept rows nothing is read but their
// bits, of others the packed words of kept rows (lanepack/values.cuh).
#include "arguments.cuh"
#include "keep.cuh"
#include "lanepack/select_wide.cuh"

namespace lanepack {

// The numbers that a block, which has a node, finds of its vectors: what comes before each,
// and of the whole.
template <class Count>
LANEPACK_DEVICE void keep_sums(const KeepArguments& args, const Count& count) {
    constexpr u32 MOST = MAX_CHUNK_ROWS / VECTOR;
    constexpr u32 EACH = MOST / WARP;
    LANEPACK_SHARED(u64[MOST], sums);
    const Node& node = args.nodes[blockIdx.x];
    const u32 vectors = vectors_of(node);
    for (u32 vector = warp_in_block(); vector < MOST; vector += KEEP_THREADS / WARP) {
        const u64 sum = vector < vectors ? count(node, vector, KeptRows(kept_bits(args, node, vector))) : 0;
        if (threadIdx.x % WARP == 0) sums[vector] = sum;
    }
    __syncthreads();
    if (threadIdx.x >= WARP) return;
    u64 own[EACH];
    u64 sum = 0;
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        own[i] = sum;
        sum += sums[threadIdx.x * EACH + i];
    }
    const u64 upto = sum_upto(sum);
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        const u32 vector = threadIdx.x * EACH + i;
        if (vector < vectors) args.before[blockIdx.x * args.stride + vector] = upto - sum + own[i];
    }
    if (threadIdx.x == WARP - 1) args.places[blockIdx.x] = upto;
}

LANEPACK_KERNEL(keep_counts, KEEP_THREADS, 4, KeepArguments) {
    keep_sums(args, [](const Node&, u32, const KeptRows& kept) { return static_cast<u64>(kept.count); });
}

LANEPACK_KERNEL(keep_lengths, KEEP_THREADS, 4, KeepLengthsArguments) {
    keep_sums(args.keep, [&](const Node& node, u32 vector, const KeptRows& kept) {
        const KeptLengths lengths(node, args.lengths[blockIdx.x], vector);
        u64 whole;
        before_in_rows(lengths.sum(kept.word), whole);
        if (lengths.hold(whole)) return whole;
        if (threadIdx.x % WARP == 0) report(args.status, blockIdx.x, FAULT_LENGTHS);
        return u64{0};
    });
}

// Numbers to what comes before each, and behind the last to the sum of all. One block.
LANEPACK_KERNEL(keep_places, KEEP_PLACES_THREADS, 1, KeepPlacesArguments) {
    constexpr u32 WARPS = KEEP_PLACES_THREADS / WARP;
    LANEPACK_SHARED(u64[WARPS], sums);
    u64 before = 0;
    for (u32 first = 0; first <= args.count; first += KEEP_PLACES_THREADS) {
        const u32 i = first + threadIdx.x;
        const u64 own = i < args.count ? args.places[i] : 0;
        const u64 upto = sum_upto(own);
        if (threadIdx.x % WARP == WARP - 1) sums[threadIdx.x / WARP] = upto;
        __syncthreads();
        u64 of_warps = 0;
        u64 all = 0;
        for (u32 warp = 0; warp < WARPS; warp++) {
            if (warp == threadIdx.x / WARP) of_warps = all;
            all += sums[warp];
        }
        if (i <= args.count) args.places[i] = before + of_warps + upto - own;
        before += all;
        __syncthreads();
    }
}

template <class T, u32 ENCODINGS>
LANEPACK_DEVICE void keep_words(const KeepArguments& args) {
    keep_vectors(args, [&](const Node& node, u32 vector, const KeptRows& kept, u64 place) {
        T* out = reinterpret_cast<T*>(args.out) + place;
        const VectorValues<T, ENCODINGS> values(node, vector);
        kept.each([&](u32, u32 position, u32 at) { out[at] = values.at(position); });
        const Exceptions<T> exceptions = values.exceptions(node);
        if (exceptions.count == 0) return;
        // Over what was made of what is packed in their slots.
        __syncwarp();
        for (u32 first = 0; first < exceptions.count; first += WARP) {
            const u32 number = first + threadIdx.x % WARP;
            const u32 slot = number < exceptions.count ? __ldg(exceptions.slots + number) : 0;
            u32 at;
            const bool is_kept = kept.find(index(slot % ROWS<T>, slot / ROWS<T>), at);
            if (is_kept && number < exceptions.count) out[at] = __ldg(exceptions.values + number);
        }
    });
}

LANEPACK_KERNEL(keep_8, KEEP_THREADS, 4, KeepArguments) { keep_words<u8, ALL_WORD_ENCODINGS>(args); }
LANEPACK_KERNEL(keep_16, KEEP_THREADS, 4, KeepArguments) { keep_words<u16, ALL_WORD_ENCODINGS>(args); }
LANEPACK_KERNEL(keep_32, KEEP_THREADS, 4, KeepArguments) { keep_words<u32, ALL_FLOAT_ENCODINGS>(args); }
LANEPACK_KERNEL(keep_64, KEEP_THREADS, 4, KeepArguments) { keep_words<u64, ALL_FLOAT_ENCODINGS>(args); }

template <u32 COUNT>
LANEPACK_DEVICE void keep_wide(const KeepWideArguments& args) {
    const Node* words = args.words + (blockIdx.x >> args.keep.node_shift) * 4;
    keep_vectors(args.keep, [&](const Node& node, u32 vector, const KeptRows& kept, u64 place) {
        u64* out = reinterpret_cast<u64*>(args.keep.out) + place * COUNT;
        const WideVector<COUNT> values(node, words, vector);
        kept.each([&](u32, u32 position, u32 at) {
            u64 value[COUNT];
            values.at(position, value);
#pragma unroll
            for (u32 word = 0; word < COUNT; word++) out[at * COUNT + word] = value[word];
        });
    });
}

LANEPACK_KERNEL(keep_wide_128, KEEP_THREADS, 2, KeepWideArguments) { keep_wide<2>(args); }
LANEPACK_KERNEL(keep_wide_256, KEEP_THREADS, 2, KeepWideArguments) { keep_wide<4>(args); }

// To a bitmap that begins as zeros.
LANEPACK_KERNEL(keep_bits, KEEP_THREADS, 4, KeepArguments) {
    keep_vectors(args, [&](const Node& node, u32 vector, const KeptRows& kept, u64 place) {
        const u32 word = vector * (VECTOR / 32) + step_word(threadIdx.x % WARP);
        put_kept_bits(reinterpret_cast<u32*>(args.out), bits_word(node, word), kept, place);
    });
}

}  // namespace lanepack
