// A user's kernel (examples/fused_scan.rs): sum(price) where quantity <= most, over two compressed
// columns of one batch, which have the same chunks. Values are decoded into registers and not
// written anywhere.
//
// Column0 (Int64) and Column1 (Float64) are types for the encodings of the two columns
// (lanepack/column.cuh). A warp takes up to EACH vectors of 1,024 rows: it selects the rows whose
// quantity passes and adds up their prices.
using namespace lanepack;

// Vectors of a warp.
constexpr u32 EACH = 8;

struct SumWhere {
    Column0 quantity;
    Column1 price;
    // Zeros before the launch.
    double* sum;
    u64* count;
    i64 most;
    u32 chunks;
    // Warps for each chunk.
    u32 warps_each;
};
static_assert(sizeof(Column0::Value) == sizeof(i64), "quantities are Int64");

// Shared memory of a warp.
struct Scratch {
    Column0::Test<EACH> test;
    Column1::Scratch prices;
};
constexpr u32 WARPS = warps_of_block(sizeof(Scratch));

LANEPACK_KERNEL(sum_where, WARPS * WARP, 1, SumWhere) {
    LANEPACK_SHARED(Scratch[WARPS], all);
    Scratch& scratch = all[warp_in_block()];
    const u32 warp = blockIdx.x * WARPS + warp_in_block();
    const u32 chunk = warp / args.warps_each;
    if (chunk >= args.chunks) return;
    const u32 first = warp % args.warps_each * EACH;
    const u32 end = min(first + EACH, args.price.vectors(chunk));
    if (first >= end) return;

    constexpr i64 LEAST = static_cast<i64>(u64{1} << 63);
    scratch.test.prepare(args.quantity, chunk, first, end - first, LEAST, args.most);
    double sum = 0;
    u32 count = 0;
    for (u32 vector = first; vector < end; vector++) {
        u32 kept = scratch.test.select(args.quantity, chunk, vector, vector - first);
        kept &= args.price.valid(chunk, vector, scratch.prices);
        if (!__any_sync(FULL, kept != 0)) continue;
        count += __popc(kept);
        const Column1::Values price(args.price, chunk, vector, scratch.prices);
        for (u32 step = 0; step < WARP; step++) {
            if ((kept >> step & 1) != 0) sum += price(step);
        }
    }
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(FULL, sum, distance);
    }
    count = __reduce_add_sync(FULL, count);
    if (threadIdx.x % WARP == 0) {
        atomicAdd(args.sum, sum);
        atomicAdd(args.count, static_cast<u64>(count));
    }
}
