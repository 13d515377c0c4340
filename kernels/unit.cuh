// Decodes UNIT_BYTES of values, a whole number of vectors, by one block.
//
//   packed words of consecutive vectors -> shared memory -> registers, 16 bytes a step -> `store`
//
// The packed words of neighbouring vectors are neighbours, so one copy brings
// them all. The unit is written front to back, UNIT_THREADS * 16 bytes at a time:
// a thread looks up the row that its 16 bytes of output hold, takes the one or two
// pieces that the row's bits lie in from shared memory, and shifts all lanes of
// the piece alike. Exceptions are listed in shared memory while the packed words
// are under way, with a bit for each in a mask of the thread that writes it, so
// that they cost the loop a test of two (four) bits.
//
// While its words are under way a block asks for those of the block AHEAD later to be
// brought to the second-level cache: memory takes few reads among many writes less
// well than half of each, and so has longer to fit them in.
//
// Figures and what was tried: docs/experiments.md.
#pragma once

#include "copy_async.cuh"
#include "lanepack/alp.cuh"
#include "lanepack/alp_rd.cuh"
#include "lanepack/ffor.cuh"
#include "lanepack/pfor.cuh"
#include "launch.cuh"

namespace lanepack {

// Blocks from one that prefetches to the one that reads, on an H200 half of what runs at once.
// Few in the emulation, whose launches are small.
#if defined(LANEPACK_SIMT)
constexpr u32 AHEAD = 5;
#else
constexpr u32 AHEAD = 1024;
#endif

// Vectors of a unit; steps of a thread, in all and for a vector.
template <class T>
constexpr u32 UNIT_VECTORS = UNIT_BYTES / (VECTOR * static_cast<u32>(sizeof(T)));
constexpr u32 UNIT_STEPS = UNIT_BYTES / 16 / UNIT_THREADS;
template <class T>
constexpr u32 VECTOR_STEPS = UNIT_STEPS / UNIT_VECTORS<T>;

// Brings the packed words of the vectors from `first` to `last` to `lines`.
template <class T>
LANEPACK_DEVICE void copy_packed(Packed<T> first, Packed<T> last, uint4* lines) {
    const uint4* from = reinterpret_cast<const uint4*>(first.words);
    const uint4* end = reinterpret_cast<const uint4*>(last.words) + last.width * 8;
    const u32 pieces = static_cast<u32>(end - from);
#pragma unroll
    for (u32 i = 0; i < UNIT_STEPS; i++) {
        const u32 piece = i * UNIT_THREADS + threadIdx.x;
        if (piece < pieces) copy_async(lines + piece, from + piece);
    }
}

// The work of the block AHEAD later, whose packed words a block prefetches while it
// waits for its own.
struct Later {
    const Node* nodes;
    u32 blocks_per_node;

    template <class T, class Vector>
    LANEPACK_DEVICE void prefetch_packed() const {
        constexpr u32 LINE = 128;
        static_assert(UNIT_THREADS * LINE == UNIT_BYTES, "a line a thread");
        const u32 block = blockIdx.x + AHEAD;
        if (block >= gridDim.x) return;
        const Node& node = nodes[block / blocks_per_node];
        const u32 first = block % blocks_per_node * UNIT_VECTORS<T>;
        const u32 all = vectors_of(node);
        if (first >= all) return;
        const Packed<T> head = Vector(node, first).packed;
        const Packed<T> tail = Vector(node, min(first + UNIT_VECTORS<T>, all) - 1).packed;
        const u8* line = reinterpret_cast<const u8*>(head.words) + threadIdx.x * LINE;
        if (line < reinterpret_cast<const u8*>(tail.words) + tail.width * LINE) prefetch(line);
    }
};

// The packed values of this thread's step i of a vector, whose first line is `lines`.
template <class T>
LANEPACK_DEVICE uint4 unpack_step(const uint4* lines, u32 width, T mask, u32 i) {
    const u32 row = row_at<T>((i * UNIT_THREADS + threadIdx.x) * PIECE<T>);
    const u32 bit = row * width;
    const uint4* line = lines + bit / ROWS<T> * 8 + threadIdx.x % 8;
    const u32 shift = bit % ROWS<T>;
    const uint4 low = line[0];
    const uint4 high = line[shift + width > ROWS<T> ? 8 : 0];
    return unpack_piece<T>(low, high, shift, mask);
}

template <bool WHOLE, class Store>
LANEPACK_DEVICE void put(const Store& store, u32 row, uint4 piece) {
    if constexpr (WHOLE) {
        store.whole(row, piece);
    } else {
        store(row, piece);
    }
}

// Once the packed words have come: all steps of a unit of `vectors` vectors.
template <class T, bool WHOLE, class Store>
LANEPACK_DEVICE void ffor_steps(const uint4* lines, const u32* places, const T* bases, u32 first, u32 vectors,
                                const Store& store) {
#pragma unroll
    for (u32 j = 0; j < UNIT_VECTORS<T>; j++) {
        if (j >= vectors) break;
        const AddBase<T> step{bases[j]};
        const u32 width = places[j] >> 24;
        const uint4* from = lines + (places[j] & 0xffffff) * 8;
        const T mask = low_bits<T>(width);
#pragma unroll
        for (u32 i = 0; i < VECTOR_STEPS<T>; i++) {
            const u32 row = (first + j) * VECTOR + (i * UNIT_THREADS + threadIdx.x) * PIECE<T>;
            // At width 0 this reads a piece that nobody wrote; the mask drops it.
            put<WHOLE>(store, row, step.piece(unpack_step<T>(from, width, mask, i)));
        }
    }
}

// Decodes unit `unit` of a node of packed integers with bases; calls `store.whole(row of the
// node, piece)` if all of the unit can be stored so (`is_whole`), else `store(row, piece)`.
template <class T, class Vector = FforVector<T>, class Store>
LANEPACK_DEVICE void decode_ffor_unit(const Node& node, u32 unit, const Later& later, const Store& store) {
    LANEPACK_SHARED(uint4[UNIT_BYTES / 16], lines);
    LANEPACK_SHARED(T[UNIT_VECTORS<T>], bases);
    LANEPACK_SHARED(u32[UNIT_VECTORS<T>], places);
    const u32 first = unit * UNIT_VECTORS<T>;
    const u32 all = vectors_of(node);
    if (first >= all) return;
    const u32 vectors = all - first < UNIT_VECTORS<T> ? all - first : UNIT_VECTORS<T>;
    const Vector head(node, first);
    const Vector tail = vectors > 1 ? Vector(node, first + vectors - 1) : head;
    if (threadIdx.x < vectors) {
        const Vector vector(node, first + threadIdx.x);
        bases[threadIdx.x] = vector.base;
        // Lines before it in the unit, and its width.
        const u64 before =
            reinterpret_cast<u64>(vector.packed.words) - reinterpret_cast<u64>(head.packed.words);
        places[threadIdx.x] = static_cast<u32>(before / PACKED_UNIT) | vector.packed.width << 24;
    }
    copy_packed(head.packed, tail.packed, lines);
    later.prefetch_packed<T, Vector>();
    copies_done();
    __syncthreads();
    if (store.is_whole(first * VECTOR)) {
        ffor_steps<T, true>(lines, places, bases, first, vectors, store);
    } else {
        ffor_steps<T, false>(lines, places, bases, first, vectors, store);
    }
}

// Sets value k of a piece.
template <class T>
LANEPACK_DEVICE void set_value(uint4& piece, u32 k, T value) {
    static_assert(sizeof(T) >= 4, "values of 8 and 16 bits are not patched one by one");
    if constexpr (sizeof(T) == 8) {
        const u32 low = static_cast<u32>(value);
        const u32 high = static_cast<u32>(value >> 32);
        if (k == 0) piece.x = low, piece.y = high;
        if (k == 1) piece.z = low, piece.w = high;
    } else {
        if (k == 0) piece.x = value;
        if (k == 1) piece.y = value;
        if (k == 2) piece.z = value;
        if (k == 3) piece.w = value;
    }
}

// Exceptions of a vector that are listed and patched while decoding; vectors that
// have more go through shared memory, STAGED steps at a time.
constexpr u32 LISTED = 128;
constexpr u32 STAGED = 2;

// Once packed words and exceptions have come: all steps of a unit. Bit k of `bits`:
// value k of this thread is an exception, list[numbers[its slot]].
template <class T, class Vector, bool WHOLE, class Store>
LANEPACK_DEVICE void patched_steps(const Vector& head, const Vector& tail, const uint4* lines,
                               const T* list, const u8* numbers, u32 bits, u32 first, u32 vectors,
                               const Store& store) {
#pragma unroll
    for (u32 j = 0; j < UNIT_VECTORS<T>; j++) {
        if (j >= vectors) break;
        const Vector& vector = j == 0 ? head : tail;
        const auto step = vector.step();
        const u32 width = vector.packed.width;
        const uint4* from = lines + (j == 0 ? 0 : head.packed.width * 8);
        const T mask = low_bits<T>(width);
#pragma unroll
        for (u32 i = 0; i < VECTOR_STEPS<T>; i++) {
            const u32 all_i = j * VECTOR_STEPS<T> + i;
            const u32 slot = (all_i * UNIT_THREADS + threadIdx.x) * PIECE<T>;
            // At width 0 this reads a piece that nobody wrote; the mask drops it.
            uint4 piece = step.piece(unpack_step<T>(from, width, mask, i));
            if ((bits >> (all_i * PIECE<T>) & ((1u << PIECE<T>) - 1)) != 0) {
#pragma unroll
                for (u32 k = 0; k < PIECE<T>; k++) {
                    if (bits >> (all_i * PIECE<T> + k) & 1) {
                        set_value<T>(piece, k, list[j * LISTED + numbers[slot + k]]);
                    }
                }
            }
            put<WHOLE>(store, first * VECTOR + slot, piece);
        }
    }
}

// The same for a unit with a vector of many exceptions: they are written over its
// values in `stage`.
template <class T, class Vector, class Store>
LANEPACK_DEVICE void staged_steps(const Node& node, const uint4* lines, uint4* stage, u32 first,
                                      u32 vectors, const Store& store) {
    constexpr u32 VALUES = STAGED * UNIT_THREADS * PIECE<T>;
    T* values = reinterpret_cast<T*>(stage);
#pragma unroll 1
    for (u32 j = 0; j < vectors; j++) {
        // Read again rather than kept: registers are short.
        const Vector vector(node, first + j);
        const auto step = vector.step();
        const u32 width = vector.packed.width;
        const uint4* from = lines + (j == 0 ? 0 : Vector(node, first).packed.width * 8);
        const T mask = low_bits<T>(width);
        const Exceptions<T> exceptions(node.buffer[2], vector.locator);
#pragma unroll 1
        for (u32 i = 0; i < VECTOR_STEPS<T>; i += STAGED) {
#pragma unroll 1
            for (u32 k = 0; k < STAGED; k++) {
                stage[k * UNIT_THREADS + threadIdx.x] = step.piece(unpack_step<T>(from, width, mask, i + k));
            }
            __syncthreads();
            const u32 before = i * UNIT_THREADS * PIECE<T>;
            exceptions.for_each(threadIdx.x, UNIT_THREADS, [&](u32, u32 position, T value) {
                if (position - before < VALUES) values[position - before] = value;
            });
            __syncthreads();
#pragma unroll 1
            for (u32 k = threadIdx.x; k < VALUES; k += UNIT_THREADS) {
                store.value((first + j) * VECTOR + before + k, values[k]);
            }
            __syncthreads();
        }
    }
}

// Decodes unit `unit` of a node of packed values with exceptions (alp,
// pfor, alp_rd), which `Vector` knows; calls `store` as above, or for units with a
// vector of more than LISTED exceptions `store.value(row, value)`.
template <class T, class Vector, class Store>
LANEPACK_DEVICE void decode_patched_unit(const Node& node, u32 unit, const Later& later, const Store& store) {
    constexpr u32 THREADS_EACH = UNIT_THREADS / UNIT_VECTORS<T>;
    constexpr u32 LIST = UNIT_VECTORS<T> * LISTED * static_cast<u32>(sizeof(T));
    constexpr u32 NUMBERS = UNIT_VECTORS<T> * VECTOR;
    constexpr u32 STAGE = STAGED * UNIT_THREADS * 16;
    static_assert(UNIT_VECTORS<T> <= 2, "a first vector and a last");
    static_assert(LIST + NUMBERS >= STAGE && VECTOR_STEPS<T> % STAGED == 0, "the stage fits");
    LANEPACK_SHARED(uint4[UNIT_VECTORS<T> * Vector::MAX_WIDTH * 8], lines);
    // The exceptions, and for the positions of exceptions their numbers; or the stage.
    LANEPACK_SHARED(uint4[(LIST + NUMBERS) / 16], scratch);
    // For every thread, which of its values are exceptions.
    LANEPACK_SHARED(u32[UNIT_THREADS], masks);
    T* list = reinterpret_cast<T*>(&scratch[0]);
    u8* numbers = reinterpret_cast<u8*>(&scratch[0]) + LIST;
    const u32 first = unit * UNIT_VECTORS<T>;
    const u32 all = vectors_of(node);
    if (first >= all) return;
    const u32 vectors = all - first < UNIT_VECTORS<T> ? all - first : UNIT_VECTORS<T>;
    masks[threadIdx.x] = 0;
    const Vector head(node, first);
    const Vector tail = vectors > 1 ? Vector(node, first + 1) : head;
    copy_packed(head.packed, tail.packed, lines);
    later.prefetch_packed<T, Vector>();
    constexpr u32 COUNT = (1u << LOCATOR_COUNT_BITS) - 1;
    const bool is_whole = store.is_whole(first * VECTOR);
    if (max(head.locator & COUNT, tail.locator & COUNT) > LISTED) {
        copies_done();
        __syncthreads();
        staged_steps<T, Vector>(node, lines, scratch, first, vectors, store);
        return;
    }
    const bool has_exceptions = (head.locator | tail.locator) != 0;
    if (has_exceptions) {
        // All masks are zero.
        __syncthreads();
        const u32 j_mine = threadIdx.x / THREADS_EACH;
        const u32 locator = j_mine == 0 ? head.locator : j_mine < vectors ? tail.locator : 0;
        const Exceptions<T> exceptions(node.buffer[2], locator);
        exceptions.for_each(
            threadIdx.x % THREADS_EACH, THREADS_EACH, [&](u32 number, u32 position, T value) {
                const u32 slot = j_mine * VECTOR + position;
                const u32 step = slot / PIECE<T> / UNIT_THREADS;
                list[j_mine * LISTED + number] = value;
                numbers[slot] = static_cast<u8>(number);
                atomicOr(&masks[slot / PIECE<T> % UNIT_THREADS],
                         1u << (step * PIECE<T> + slot % PIECE<T>));
            });
    }
    copies_done();
    __syncthreads();
    const u32 bits = has_exceptions ? masks[threadIdx.x] : 0;
    if (is_whole) {
        patched_steps<T, Vector, true>(head, tail, lines, list, numbers, bits, first, vectors, store);
    } else {
        patched_steps<T, Vector, false>(head, tail, lines, list, numbers, bits, first, vectors, store);
    }
}

}  // namespace lanepack
