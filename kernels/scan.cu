// What scans need beside the kernels that are generated for them: aggregates of chunks from
// those of vectors, and which widths the vectors of a column are packed with.
#include "arguments.cuh"
#include "lanepack/scan.cuh"
#include "launch.cuh"

namespace lanepack {

// Kinds of aggregates.
constexpr u32 REDUCE_SUM = 0;
constexpr u32 REDUCE_WIDE_SUM = 1;
constexpr u32 REDUCE_FLOAT_SUM = 2;
constexpr u32 REDUCE_LEAST = 3;
constexpr u32 REDUCE_GREATEST = 4;
constexpr u32 REDUCE_WIDE_LEAST = 5;
constexpr u32 REDUCE_WIDE_GREATEST = 6;

// One partial of a chunk's vectors.
struct Partials {
    const u64* of_vectors;
    u32 apart;
    u32 vectors;

    LANEPACK_DEVICE u64 operator()(u32 partial, u32 vector) const {
        return of_vectors[static_cast<u64>(partial) * apart + vector];
    }
};

// Whatever the order: threads take vectors, `add(sum, partials, vector)` each.
template <class Aggregate, class Add>
LANEPACK_DEVICE void reduce_any(const Partials& partials, u64* out, u32 chunks, const Add& add) {
    Aggregate all;
    for (u32 vector = threadIdx.x % WARP; vector < partials.vectors; vector += WARP) add(all, vector);
    all.gather();
    if (threadIdx.x % WARP != 0) return;
#pragma unroll
    for (u32 i = 0; i < Aggregate::PARTIALS; i++) out[i * chunks] = all.partial(i);
}

template <u32 WORDS, bool IS_MIN>
LANEPACK_DEVICE void reduce_bound(const Partials& partials, u64* out, u32 chunks) {
    reduce_any<Bound<WORDS, IS_MIN>>(partials, out, chunks, [&](Bound<WORDS, IS_MIN>& all, u32 vector) {
        u64 key[WORDS];
        for (u32 i = 0; i < WORDS; i++) key[i] = partials(i, vector);
        all.take(key);
    });
}

// Sums of floats are added in the order of vectors, by all threads alike.
LANEPACK_DEVICE void reduce_floats(const Partials& partials, u64* out) {
    double sum = 0;
    for (u32 first = 0; first < partials.vectors; first += WARP) {
        const u32 vector = first + threadIdx.x % WARP;
        const u64 own = vector < partials.vectors ? partials(0, vector) : 0;
#pragma unroll
        for (u32 i = 0; i < WARP; i++) {
            sum = __dadd_rn(sum, __longlong_as_double(static_cast<i64>(__shfl_sync(FULL, own, i))));
        }
    }
    if (threadIdx.x % WARP == 0) *out = static_cast<u64>(__double_as_longlong(sum));
}

LANEPACK_KERNEL(reduce_partials, REDUCE_THREADS, 1, ReduceArguments) {
    const u32 number = blockIdx.x * (REDUCE_THREADS / WARP) + warp_in_block();
    const u32 chunk = number % args.chunks;
    const u32 index = number / args.chunks;
    if (index >= args.count) return;
    const Reduction reduction = args.reductions[index];
    const u64 first = static_cast<u64>(reduction.first) * args.chunks + chunk;
    const Partials partials{args.partials + first * args.stride, args.chunks * args.stride,
                            vectors_of(args.nodes[chunk])};
    u64* out = args.out + first;
    switch (reduction.kind) {
        case REDUCE_SUM:
            reduce_any<SumIntegers>(partials, out, args.chunks, [&](SumIntegers& all, u32 vector) {
                all.add(static_cast<i64>(partials(0, vector)));
            });
            break;
        case REDUCE_WIDE_SUM:
            reduce_any<SumWide>(partials, out, args.chunks, [&](SumWide& all, u32 vector) {
                all.add(partials(0, vector), partials(1, vector), partials(2, vector));
            });
            break;
        case REDUCE_FLOAT_SUM: reduce_floats(partials, out); break;
        case REDUCE_LEAST: reduce_bound<1, true>(partials, out, args.chunks); break;
        case REDUCE_GREATEST: reduce_bound<1, false>(partials, out, args.chunks); break;
        case REDUCE_WIDE_LEAST: reduce_bound<2, true>(partials, out, args.chunks); break;
        case REDUCE_WIDE_GREATEST: reduce_bound<2, false>(partials, out, args.chunks); break;
        default: break;
    }
}

// The widths of the vectors of nodes of ffor, pfor and alp; of others nothing.
LANEPACK_KERNEL(packed_widths, WIDTHS_THREADS, 1, WidthsArguments) {
    const u32 index = blockIdx.x * (WIDTHS_THREADS / WARP) + warp_in_block();
    if (index >= args.count) return;
    const Node* tree = args.nodes + static_cast<u64>(index) * args.stride;
    if (tree->shape != args.shape) return;
    const Node& node = tree[args.node];
    if (node.encoding != FFOR && node.encoding != PFOR && node.encoding != ALP) return;
    const u32 vectors = vectors_of(node);
    const u32 size = args.size;
    // As in ffor.cuh, pfor.cuh and alp.cuh, for values of any size.
    const u32* places = reinterpret_cast<const u32*>(node.buffer[1] + (vectors * size + 3) / 4 * 4);
    u64 widths = 0;
    for (u32 vector = threadIdx.x % WARP; vector < vectors; vector += WARP) {
        const u32 width = places[vector] >> 24;
        if (width > 0) widths |= u64{1} << (width - 1);
    }
    const u32 low = __reduce_or_sync(FULL, static_cast<u32>(widths));
    const u32 high = __reduce_or_sync(FULL, static_cast<u32>(widths >> 32));
    if (threadIdx.x % WARP == 0) atomicOr(args.out, join(low, high));
}

}  // namespace lanepack
