// Selections of strings as bitmaps: lanepack/select_strings.cuh, over the rows that
// select_rows.cuh hands out.
//
//   select_literals     = and IN
//   select_automaton    all else; rows of bytes are copied to shared memory first, 256
//                       bytes a state and 64 KiB at most, once for a block's 32 vectors
//   select_codes        strings of dictionaries, by a bit for each code
//
// Kernels of their own, as each would take the other's registers; a launch has the chunks whose
// test is of its kind, and those that the host has decided.
#include "lanepack/select_strings.cuh"
#include "select_rows.cuh"

namespace lanepack {

// A block's test, and what `found(node, vector, live, fault)` finds of each vector.
template <class Found>
LANEPACK_DEVICE void select_tested(const SelectStringsArguments& args, const StringsTest& test, const Found& found) {
    select_rows(
        args.select, [](const Node&, u32, u32) {},
        [&](const Node& node, u32 vector, u32, u32 live) {
            if (test.kind <= STRINGS_ALL) return test.kind == STRINGS_ALL ? FULL : 0;
            u32 fault = 0;
            const u32 rows = found(node, vector, live, fault);
            if (fault != 0 && threadIdx.x % WARP == 0) report(args.status, test.chunk, static_cast<Fault>(fault));
            return rows;
        });
}

// For newer architectures the compiler wants more registers, or spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr u32 LITERALS_BLOCKS = 2;
#else
constexpr u32 LITERALS_BLOCKS = 4;
#endif

LANEPACK_KERNEL(select_literals, SELECT_THREADS, LITERALS_BLOCKS, SelectStringsArguments) {
    LANEPACK_SHARED(StoredLengths[SELECT_THREADS / WARP], all);
    StoredLengths& shared = all[warp_in_block()];
    const u32 chunk = blockIdx.x >> args.select.node_shift;
    const StringsTest& test = args.tests[chunk];
    select_tested(args, test, [&](const Node& node, u32 vector, u32 live, u32& fault) {
        return rows_of_literals<LENGTH_ENCODINGS, widths_upto(32)>(node, args.lengths[chunk], vector, test, live, shared, fault);
    });
}

LANEPACK_DEVICE void select_walked(const SelectStringsArguments& args) {
    LANEPACK_SHARED(StoredLengths[SELECT_THREADS / WARP], all);
    LANEPACK_DYNAMIC_SHARED(SharedTable, table);
    StoredLengths& shared = all[warp_in_block()];
    const u32 chunk = blockIdx.x >> args.select.node_shift;
    const u32 part = blockIdx.x & ((1u << args.select.node_shift) - 1);
    const StringsTest& test = args.tests[chunk];
    if (part * (SELECT_THREADS / WARP) * args.select.each >= vectors_of(args.select.nodes[chunk])) return;
    const bool is_shared = test.kind == STRINGS_BYTE_ROWS;
    if (is_shared) SharedRows::load(test, table.rows);
    __syncthreads();
    select_tested(args, test, [&](const Node& node, u32 vector, u32 live, u32& fault) {
        const Node& lengths = args.lengths[chunk];
        if (is_shared) {
            return rows_of_automaton(node, lengths, vector, test, live, shared, SharedRows{table.rows}, fault);
        }
        return rows_of_automaton(node, lengths, vector, test, live, shared, RowsInMemory<u16>(test), fault);
    });
}

LANEPACK_KERNEL(select_codes, SELECT_THREADS, 5, SelectStringsArguments) {
    const u32 chunk = blockIdx.x >> args.select.node_shift;
    select_tested(args, args.tests[chunk], [&](const Node&, u32 vector, u32 live, u32&) {
        // Chunks have at most 2^17 values.
        return by_step(select_codes<widths_upto(17)>(args.lengths[chunk], vector, args.tests[chunk], by_step(live)));
    });
}

// Of each dictionary the codes that pass, of the bits from number `at` on; to `ranges`, and the test of
// codes of its chunk to `tests`. A warp takes a dictionary.
LANEPACK_KERNEL(code_ranges, CODE_RANGES_THREADS, 1, CodeRangesArguments) {
    const u32 chunk = blockIdx.x * (CODE_RANGES_THREADS / WARP) + warp_in_block();
    if (chunk >= args.count) return;
    const Node& node = args.nodes[chunk];
    const u32* words = args.bitmap + node.at / 32;
    u32 low = FULL;
    u32 high = 0;
    u32 count = 0;
    for (u32 first = threadIdx.x % WARP * 32; first < node.rows; first += WARP * 32) {
        const u32 word = words[first / 32] & bits_before(first, node.rows);
        if (word == 0) continue;
        low = min(low, first + static_cast<u32>(__ffs(static_cast<int>(word))) - 1);
        high = first + 31 - static_cast<u32>(__clz(static_cast<int>(word)));
        count += static_cast<u32>(__popc(word));
    }
    low = __reduce_min_sync(FULL, low);
    high = __reduce_max_sync(FULL, high);
    count = __reduce_add_sync(FULL, count);
    if (threadIdx.x % WARP != 0) return;
    args.ranges[chunk] = CodeRange{low, high, count == high - low + 1, 0};
    if (args.tests == nullptr) return;
    StringsTest test{};
    test.table = reinterpret_cast<const u8*>(words);
    test.bytes = reinterpret_cast<const u8*>(args.ranges + chunk);
    test.kind = STRINGS_CODES;
    test.count = node.rows;
    test.chunk = static_cast<u32>(node.parameter);
    args.tests[test.chunk] = test;
}

LANEPACK_KERNEL(select_automaton, SELECT_THREADS, 4, SelectStringsArguments) { select_walked(args); }

}  // namespace lanepack
