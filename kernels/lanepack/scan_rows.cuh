// Aggregates of few rows. A loop in which each thread takes its own rows of a vector is as long as
// that of the thread with most of them, and other threads wait. Here the rows of all threads are
// listed one behind the other, and each thread evaluates one of 32:
//
//   RowList      rows of all vectors of a warp in any order, evaluated after the last vector
//   ListedRows   rows of one vector in any order
//   OrderedRows  rows of one vector by thread and step, for sums of floats: values go to shared
//                memory, from which each thread adds those of its own rows
//
// RowList and OrderedRows are for values whose readers reach single rows (IS_RANDOM in reader.cuh).
#pragma once

#include "reader.cuh"
#include "words.cuh"

namespace lanepack {

// Kept rows of a vector, of all threads together, that are few: with more of them the loop over each
// thread's rows keeps most threads busy.
constexpr u32 FEW_ROWS = 64;

LANEPACK_DEVICE bool are_few(u32 selection) {
    return __reduce_add_sync(FULL, static_cast<u32>(__popc(selection))) <= FEW_ROWS;
}

// The row of a list's entry, which is (vector * 32 + step) * 32 + thread. Vectors of entries count
// from `first_vector`.
LANEPACK_DEVICE u32 row_of_entry(u32 first_vector, u32 entry) {
    return (first_vector + entry / VECTOR) * VECTOR + step_position(entry / WARP % WARP) + entry % WARP;
}

// Removes the lowest step of a selection, which must have one.
LANEPACK_DEVICE u32 next_step(u32& selection) {
    const u32 step = static_cast<u32>(__ffs(static_cast<int>(selection))) - 1;
    selection &= selection - 1;
    return step;
}

// Few rows of each of up to EACH vectors, vector by vector: those of one lie near each other in
// memory. Listed thread by thread, rows of all vectors by turns, SSB Q1.1 and TPC-H Q6 on decimals
// are 7 % slower on an NVIDIA H200. Shared memory of a warp.
template <u32 EACH>
struct RowList {
    u16 entries[EACH * FEW_ROWS];

    // Appends the rows of vector number `i` of the warp to `count` others, unless they are many;
    // whether it does. All threads of a warp.
    LANEPACK_DEVICE bool append(u32 selection, u32 i, u32& count) {
        const u32 own = static_cast<u32>(__popc(selection));
        const u32 upto = sum_upto(own);
        const u32 all = __shfl_sync(FULL, upto, WARP - 1);
        if (all > FEW_ROWS) return false;
#pragma unroll 1
        for (u32 at = count + upto - own; selection != 0; at++) {
            entries[at] = static_cast<u16>((i * WARP + next_step(selection)) * WARP + threadIdx.x % WARP);
        }
        count += all;
        return true;
    }

    // Calls `add(value(row))` for each of `count` rows, 32 at a time in the threads of the warp:
    // values of two rows of a thread are on their way at a time. All threads of a warp.
    template <class Value, class Add>
    LANEPACK_DEVICE void add_each(u32 count, u32 first_vector, const Value& value, const Add& add) const {
        __syncwarp();
#pragma unroll 1
        for (u32 at = threadIdx.x % WARP; at < count; at += 2 * WARP) {
            const bool has_second = at + WARP < count;
            const u32 row = row_of_entry(first_vector, entries[at]);
            const u32 second = has_second ? row_of_entry(first_vector, entries[at + WARP]) : row;
            const auto one = value(row);
            const auto other = value(second);
            add(one);
            if (has_second) add(other);
        }
    }
};

// Few rows of a vector, by thread and step: shared memory of a warp.
struct OrderedRows {
    u16 entries[FEW_ROWS];
    double values[WARP];

    // The rows of this thread, from `first` up to `end`, of `count`.
    struct Place {
        u32 first;
        u32 end;
        u32 count;
    };

    // Lists the rows of a selection. All threads of a warp.
    LANEPACK_DEVICE Place list(u32 selection) {
        const u32 own = static_cast<u32>(__popc(selection));
        const u32 end = sum_upto(own);
        const Place place{end - own, end, __shfl_sync(FULL, end, WARP - 1)};
        // Other threads may still read the entries of the vector before.
        __syncwarp();
#pragma unroll 1
        for (u32 at = place.first; at < end; at++) {
            entries[at] = static_cast<u16>(next_step(selection) * WARP + threadIdx.x % WARP);
        }
        __syncwarp();
        return place;
    }

    // The row of this thread among those from number `from` on.
    LANEPACK_DEVICE u32 row(u32 vector, u32 from) const {
        return row_of_entry(vector, entries[from + threadIdx.x % WARP]);
    }

    // Adds the values of rows number `from` to `from` + 31, of which each thread gives one, to the
    // sums of the threads whose rows these are. All threads of a warp.
    template <class Sum>
    LANEPACK_DEVICE void add(const Place& place, u32 from, double value, Sum& sum) {
        __syncwarp();
        values[threadIdx.x % WARP] = value;
        __syncwarp();
        const u32 end = min(place.end, from + WARP);
#pragma unroll 1
        for (u32 at = max(place.first, from); at < end; at++) sum.add(values[at - from]);
    }
};

// Rows of one vector, whose values go to places that have no order.
struct ListedRows {
    u16 entries[FEW_ROWS];

    // Calls `add(value(row))` for each row of a selection that has few: a thread takes one of 32. All
    // threads of a warp.
    template <class Value, class Add>
    LANEPACK_DEVICE void add_each(u32 selection, u32 vector, const Value& value, const Add& add) {
        const u32 own = static_cast<u32>(__popc(selection));
        const u32 end = sum_upto(own);
        const u32 count = __shfl_sync(FULL, end, WARP - 1);
        // Other threads may still read the entries of the vector before.
        __syncwarp();
#pragma unroll 1
        for (u32 at = end - own; at < end; at++) {
            entries[at] = static_cast<u16>(next_step(selection) * WARP + threadIdx.x % WARP);
        }
        __syncwarp();
#pragma unroll 1
        for (u32 at = threadIdx.x % WARP; at < count; at += WARP) add(value(row_of_entry(vector, entries[at])));
    }
};

// Values of a vector by row of the chunk, of readers that do not reach single rows.
template <class Values>
struct RowsOfVector {
    Values values;

    LANEPACK_DEVICE auto operator()(u32 row) const { return values.at(row % VECTOR); }
};

// Values of a chunk by row; called as `Values` of a reader, which take steps of a vector.
template <class Reader>
struct RowValues {
    const Node* tree;

    LANEPACK_DEVICE typename Reader::Word operator()(u32 row) const { return Reader::at(tree, row); }
};

// The same of values of two words.
template <class Low, class High>
struct WideRowValues {
    const Node* low_tree;
    const Node* high_tree;

    LANEPACK_DEVICE i128 operator()(u32 row) const {
        const u64 low = Low::at(low_tree, row);
        const u64 high = is_sign<High>(high_tree) ? static_cast<u64>(static_cast<i64>(low) >> 63) : High::at(high_tree, row);
        return static_cast<i128>(static_cast<u128>(high) << 64 | low);
    }
};

}  // namespace lanepack
