// Parts of the device library that selections of one column do not show, for
// src/scan/device/select/tests: columns of different types together, strings among the rows that
// another test has left, and the slow search.
#include "lanepack/select.cuh"
#include "lanepack/select_strings.cuh"

namespace lanepack {

struct TogetherArguments {
    // For each chunk.
    const Node* shorts;
    const Node* doubles;
    const Node* validity;
    // One range for each column.
    const Range* ranges;
    u32* out;
    u64 rows;
};

// A block takes a chunk, a warp every fourth vector: the rows whose values lie in both
// ranges and are valid.
LANEPACK_KERNEL(select_together, 128, 1, TogetherArguments) {
    LANEPACK_SHARED(Patches[128 / WARP], patches);
    const Node& shorts = args.shorts[blockIdx.x];
    for (u32 vector = threadIdx.x / WARP; vector < vectors_of(shorts); vector += 128 / WARP) {
        const u32 rows = min(shorts.rows - vector * VECTOR, VECTOR);
        const u32 word = bits_word(args.validity[blockIdx.x], vector * (VECTOR / 32) + step_word(threadIdx.x % WARP));
        u32 selection = steps_within(rows) & by_step(word);
        Patches& patch = patches[threadIdx.x / WARP];
        selection &= select_values<u16, WORD_ENCODINGS, widths_upto(16)>(
            shorts, vector, Ranges{args.ranges, 1, SIGNED}, patch);
        // The widths of no column: the slow code.
        selection &= select_values<u64, FLOAT_ENCODINGS, 0>(args.doubles[blockIdx.x], vector,
                                                            Ranges{args.ranges + 1, 1, FLOAT}, patch);
        const VectorBits bits(args.out, shorts.at + vector * VECTOR, rows, args.rows);
        bits.write(by_step(selection));
    }
}

struct StringsArguments {
    // For each chunk.
    const Node* strings;
    const Node* lengths;
    const StringsTest* tests;
    // Bitmaps of the rows that are asked for, and of those that pass.
    u32* live;
    u32* out;
    u64 rows;
};

// A block takes a chunk, a warp every fourth vector. Damage sets bits that are not live.
LANEPACK_KERNEL(select_strings_among, 128, 1, StringsArguments) {
    LANEPACK_SHARED(StoredLengths[128 / WARP], shared);
    const Node& strings = args.strings[blockIdx.x];
    for (u32 vector = threadIdx.x / WARP; vector < vectors_of(strings); vector += 128 / WARP) {
        const u32 rows = min(strings.rows - vector * VECTOR, VECTOR);
        const u64 first = strings.at + vector * VECTOR;
        const u32 live = by_step(VectorBits(args.live, first, rows, args.rows).read());
        u32 fault = 0;
        const u32 selection = select_strings<ALL_STRINGS, LENGTH_ENCODINGS, widths_upto(32)>(
            strings, args.lengths[blockIdx.x], vector, args.tests[blockIdx.x], live, shared[threadIdx.x / WARP], fault);
        const u32 found = fault != 0 ? ~live : selection & live;
        VectorBits(args.out, first, rows, args.rows).write(by_step(found & steps_within(rows)));
    }
}

struct SearchArguments {
    // Ranges that meet the vector's values.
    const Range* ranges;
    // For each range what a search around an estimate finds, and one digit by digit.
    u64* out;
    u64 scale;
    u32 width;
    u32 count;
};

template <class T>
LANEPACK_DEVICE void search(const SearchArguments& args) {
    const T scale = static_cast<T>(args.scale);
    const AlpStep<T> step(scale);
    const u64 least = ordered(step.value(0), FLOAT);
    const u64 greatest = ordered(step.value(low_bits<T>(args.width)), FLOAT);
    for (u32 i = 0; i < args.count; i++) {
        const Range range = args.ranges[i];
        const PackedRange<T> near = alp_packed_range<T>(scale, args.width, range, least, greatest);
        const AlpSearch<T> search(scale, args.width, range);
        const PackedRange<T> far = search.range_of(search.by_digits(args.width));
        if (threadIdx.x > 0) continue;
        const u64 found[4] = {near.low, near.high, far.low, far.high};
        for (u32 k = 0; k < 4; k++) args.out[i * 4 + k] = found[k];
    }
}

LANEPACK_KERNEL(search_alp_32, 32, 1, SearchArguments) { search<u32>(args); }
LANEPACK_KERNEL(search_alp_64, 32, 1, SearchArguments) { search<u64>(args); }

}  // namespace lanepack
