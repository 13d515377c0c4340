// Columns of users' kernels: values and range tests of a compressed column, whatever its encodings.
//
// `Kernel::for_columns` compiles a source together with a type for each column, Column0, Column1
// and so on. The type is also the column's member of the kernel's argument (`ColumnArgument` in
// Rust):
//
//   struct Arguments { Column0 price; u64 groups; ... };
//
//   Column<double, Words<..>, 2, false, Valid<..>>   numbers of up to 64 bits
//   WideColumn<..>                                   128 bits: decimals, intervals
//   BoolColumn<..>                                   booleans
//
// Members of each, for a chunk of the column and a vector below `vectors(chunk)`:
//
//   rows(chunk), vectors(chunk), first_row(chunk)
//   Scratch                shared memory that a warp needs for one vector at a time
//   valid(chunk, vector, scratch)
//                          selection (steps.cuh) of the rows that exist and are not null
//   Values(column, chunk, vector, scratch)
//     operator()(step)     this thread's value of a step, as a `Value`; valid() may use the same
//                          scratch meanwhile
//
// Columns of numbers also have `Test<EACH>`: which rows have values in a range, found without
// decoding where the encoding allows it. All threads of a warp construct and call these together,
// except operator(), which each thread may call by itself. Values of null rows are arbitrary; of
// rows past the end of a chunk values are 0, and nothing is read.
//
// Stability. Within a minor version of lanepack (0.x as well as x.y) these stay as they are: the
// columns' members above, with `Value` and `Test<EACH>` and its `prepare` and `select`; of base.cuh
// the names of integers, `LANEPACK_KERNEL`, `LANEPACK_SHARED`, `LANEPACK_DYNAMIC_SHARED`,
// `LANEPACK_DEVICE`, `WARP` and `FULL`; of steps.cuh the order of rows in steps and selections;
// `warps_of_block` and `warp_in_block`. All else in these headers may change with any release:
// arguments of templates (`Column<..>`), readers (reader.cuh), `Node` (node.cuh) and what is read
// of it, what any other header declares, and sizes of all structs. Sources are compiled with the
// headers of the release that runs them, so that a kernel and the host agree in any case.
//
// Damaged data are reported through a status word. The host returns the error from the next call
// that waits for kernels.
#pragma once

#include "readers.cuh"

namespace lanepack {

// The bits of a float of 16 bits.
struct Half {
    u16 bits;
};

// The word that a type is stored as, and the order of its values (order.cuh).
template <class T>
struct ValueType;

template <class T, class Unsigned, u32 OF>
struct IntegerType {
    using Word = Unsigned;
    static constexpr u32 ORDER = OF;

    LANEPACK_DEVICE static T from(Word word) { return static_cast<T>(word); }
    LANEPACK_DEVICE static Word to(T value) { return static_cast<Word>(value); }
};
template <>
struct ValueType<u8> : IntegerType<u8, u8, UNSIGNED> {};
template <>
struct ValueType<u16> : IntegerType<u16, u16, UNSIGNED> {};
template <>
struct ValueType<u32> : IntegerType<u32, u32, UNSIGNED> {};
template <>
struct ValueType<u64> : IntegerType<u64, u64, UNSIGNED> {};
template <>
struct ValueType<i8> : IntegerType<i8, u8, SIGNED> {};
template <>
struct ValueType<i16> : IntegerType<i16, u16, SIGNED> {};
template <>
struct ValueType<i32> : IntegerType<i32, u32, SIGNED> {};
template <>
struct ValueType<i64> : IntegerType<i64, u64, SIGNED> {};

template <>
struct ValueType<Half> {
    using Word = u16;
    static constexpr u32 ORDER = FLOAT;

    LANEPACK_DEVICE static Half from(Word word) { return Half{word}; }
    LANEPACK_DEVICE static Word to(Half value) { return value.bits; }
};
template <>
struct ValueType<float> {
    using Word = u32;
    static constexpr u32 ORDER = FLOAT;

    LANEPACK_DEVICE static float from(Word word) { return __uint_as_float(word); }
    LANEPACK_DEVICE static Word to(float value) { return __float_as_uint(value); }
};
template <>
struct ValueType<double> {
    using Word = u64;
    static constexpr u32 ORDER = FLOAT;

    LANEPACK_DEVICE static double from(Word word) { return __longlong_as_double(static_cast<i64>(word)); }
    LANEPACK_DEVICE static Word to(double value) { return static_cast<Word>(__double_as_longlong(value)); }
};

// Which rows of a column are valid, by a reader of bits whose trees lie STRIDE nodes apart.
template <class Reader, u32 STRIDE>
struct Valid {
    static constexpr u32 NODES = STRIDE;
    using State = typename Reader::State;

    LANEPACK_DEVICE static u32 select(const Node* tree, u32 vector, State& state, Patches& patches, u32& fault) {
        return by_step(Reader::bits(tree, vector, state, patches, fault));
    }
};

// The same of columns without nulls.
struct AllValid {
    static constexpr u32 NODES = 1;
    struct State {};

    LANEPACK_DEVICE static u32 select(const Node*, u32, State&, Patches&, u32&) { return FULL; }
};

// What a column is made of in a kernel's argument.
// Shared with the host.
struct ColumnPointers {
    // The trees of all chunks; of wide values those of the lower words.
    const Node* trees;
    // The trees of the upper words of wide values.
    const Node* upper;
    // The trees of the validity.
    const Node* validity;
    // The status word that damage is reported to.
    u64* status;
};

// Members of the columns of all types.
template <class Validity>
struct AnyColumn : ColumnPointers {
    LANEPACK_DEVICE const Node& head(u32 chunk) const { return validity[static_cast<u64>(chunk) * Validity::NODES]; }
    LANEPACK_DEVICE u32 rows(u32 chunk) const { return head(chunk).rows; }
    LANEPACK_DEVICE u32 vectors(u32 chunk) const { return vectors_of(head(chunk)); }
    // The number of the chunk's first row in the column.
    LANEPACK_DEVICE u64 first_row(u32 chunk) const { return head(chunk).at; }

    // The selection of the rows of a vector that exist.
    LANEPACK_DEVICE u32 within(u32 chunk, u32 vector) const {
        const u32 first = vector * VECTOR;
        return first < rows(chunk) ? steps_within(rows(chunk) - first) : 0;
    }
    // Of these the rows that are not null. `scratch` is the column's, or a test of it.
    template <class Scratch>
    LANEPACK_DEVICE u32 valid(u32 chunk, u32 vector, Scratch& scratch) const {
        const u32 rows = within(chunk, vector);
        if (!__any_sync(FULL, rows != 0)) return 0;
        u32 fault = 0;
        const u32 valid = Validity::select(&head(chunk), vector, scratch.validity, scratch.patches, fault);
        report(chunk, fault);
        return valid & rows;
    }

    LANEPACK_DEVICE void report(u32 chunk, u32 fault) const {
        if (fault != 0 && is_first_thread()) lanepack::report(status, chunk, static_cast<Fault>(fault));
    }
};

// Numbers of up to 64 bits, with `STRIDE` nodes a chunk. `BY_VALUE`: whether range tests compare
// decoded values. Dictionaries need that, as range tests of their readers take the codes that pass,
// which the host computes for queries and not for users' kernels; so does Half, whose encodings are
// those of integers of other order.
template <class T, class Of, u32 STRIDE, bool BY_VALUE, class Validity>
struct Column : AnyColumn<Validity> {
    using Value = T;
    using Reader = Of;
    using Word = typename Reader::Word;

    LANEPACK_DEVICE const Node* tree(u32 chunk) const { return this->trees + static_cast<u64>(chunk) * STRIDE; }

    struct Scratch {
        Patches patches;
        typename Reader::State state;
        typename Validity::State validity;
    };

    struct Values {
        typename Reader::Values words;
        // Rows that exist: readers may read past the end of a buffer for others.
        u32 within;

        LANEPACK_DEVICE Values(const Column& column, u32 chunk, u32 vector, Scratch& scratch)
            : within(column.within(chunk, vector)) {
            u32 fault = 0;
            words = typename Reader::Values(column.tree(chunk), vector, scratch.state, scratch.patches, fault);
            column.report(chunk, fault);
        }

        LANEPACK_DEVICE Value operator()(u32 step) const {
            return ValueType<T>::from((within >> step & 1) != 0 ? words(step) : Word{0});
        }
    };

    // Which rows have values between `low` and `high`, both included, in the order of Arrow's kernels
    // (order.cuh), for up to EACH consecutive vectors. Stored in shared memory, one for each warp.
    template <u32 EACH>
    struct Test {
        static_assert(EACH >= 1 && EACH <= 16, "a warp prepares 16 vectors at most");
        // For tests of decoded values, and of values as they are stored.
        union Work {
            typename Reader::State state;
            typename Reader::template Test<BY_VALUE ? 1 : EACH> stored;
        };
        Patches patches;
        Range range;
        Work work;
        typename Validity::State validity;

        // Prepares `count` vectors of a chunk, EACH at most, from `first` on.
        LANEPACK_DEVICE void prepare(const Column& column, u32 chunk, u32 first, u32 count, T low, T high) {
            constexpr u32 ORDER = ValueType<T>::ORDER;
            __syncwarp();
            if (is_first_thread()) {
                range = {ordered(ValueType<T>::to(low), ORDER), ordered(ValueType<T>::to(high), ORDER)};
            }
            __syncwarp();
            if constexpr (!BY_VALUE) {
                if (range.low <= range.high) {
                    work.stored.prepare(column.tree(chunk), first, count, Question{range, ORDER, nullptr});
                }
            }
        }

        // The selection of vector number `i` of these: no nulls, nor rows past the end of the chunk.
        LANEPACK_DEVICE u32 select(const Column& column, u32 chunk, u32 vector, u32 i) {
            constexpr u32 ORDER = ValueType<T>::ORDER;
            if (range.low > range.high) return 0;
            const u32 valid = column.valid(chunk, vector, *this);
            if (!__any_sync(FULL, valid != 0)) return 0;
            const Node* tree = column.tree(chunk);
            u32 fault = 0;
            u32 selection;
            if constexpr (BY_VALUE) {
                const auto holds = [&](Word word) {
                    const Word key = ordered(word, ORDER);
                    return key >= range.low && key <= range.high;
                };
                selection = select_words<Reader>(tree, vector, holds, work.state, patches, fault);
            } else {
                selection = selection_of<Reader>(
                    work.stored.select(tree, vector, i, Question{range, ORDER, nullptr}, patches, fault));
            }
            column.report(chunk, fault);
            return selection & valid;
        }
    };
};

// Values of 128 bits. `High` is `SignWord` where no chunk stores upper words: these are the signs
// of the lower ones.
template <class Low, u32 LOW_STRIDE, class High, u32 HIGH_STRIDE, class Validity>
struct WideColumn : AnyColumn<Validity> {
    using Value = i128;

    struct Scratch {
        Patches patches;
        typename WideValues<Low, High>::State state;
        typename Validity::State validity;
    };

    struct Values {
        // Declared before `values`, whose constructor sets it.
        u32 fault = 0;
        WideValues<Low, High> values;
        u32 within;

        LANEPACK_DEVICE Values(const WideColumn& column, u32 chunk, u32 vector, Scratch& scratch)
            : values(column.trees + static_cast<u64>(chunk) * LOW_STRIDE,
                     column.upper + static_cast<u64>(chunk) * HIGH_STRIDE, vector, scratch.state, scratch.patches,
                     fault),
              within(column.within(chunk, vector)) {
            column.report(chunk, fault);
        }

        LANEPACK_DEVICE i128 operator()(u32 step) const {
            return (within >> step & 1) != 0 ? values(step) : i128{0};
        }
    };
};

// Booleans, whose reader is one of bits.
template <class Reader, u32 STRIDE, class Validity>
struct BoolColumn : AnyColumn<Validity> {
    using Value = bool;

    struct Scratch {
        Patches patches;
        typename Reader::State state;
        typename Validity::State validity;
    };

    struct Values {
        // The rows whose value is true.
        u32 selection;

        LANEPACK_DEVICE Values(const BoolColumn& column, u32 chunk, u32 vector, Scratch& scratch) {
            const Node* tree = column.trees + static_cast<u64>(chunk) * STRIDE;
            u32 fault = 0;
            selection = by_step(Reader::bits(tree, vector, scratch.state, scratch.patches, fault));
            selection &= column.within(chunk, vector);
            column.report(chunk, fault);
        }

        LANEPACK_DEVICE bool operator()(u32 step) const { return (selection >> step & 1) != 0; }
    };
};

// Warps of a block if each needs `bytes` of shared memory: 8, 4, 2 or 1, within the 48 KiB that
// kernels may declare. 0 if one warp needs more than that.
LANEPACK_DEVICE constexpr u32 warps_of_block(u64 bytes) {
    for (u32 warps = 8; warps > 0; warps /= 2) {
        if (warps * bytes <= 48 << 10) return warps;
    }
    return 0;
}

}  // namespace lanepack
