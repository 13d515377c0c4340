// Exceptions of a vector: all of them, for a group of threads, and those of one
// lane, for a thread that walks the lane.
//
//   block   | n x value | n x slot (u16) |        slot = lane * ROWS + row, ascending
//             values of 8 bits: slots at a multiple of two bytes
//
// Thread i of a group takes exception i, whose address needs no other load; a
// lane finds its first one by bisection and its others behind it.
//
// Figures and what was tried: docs/experiments.md.
#pragma once

#include "lanes.cuh"

namespace lanepack {

// The block of exceptions of a vector.
template <class T>
struct Exceptions {
    const T* values;
    const u16* slots;
    u32 count;

    Exceptions() = default;
    LANEPACK_DEVICE Exceptions(const u8* blocks, u32 locator) {
        constexpr u32 UNIT = sizeof(T) > 1 ? sizeof(T) : 2;
        const u8* block = blocks + (locator >> LOCATOR_COUNT_BITS) * UNIT;
        values = reinterpret_cast<const T*>(block);
        count = locator & ((1u << LOCATOR_COUNT_BITS) - 1);
        slots = reinterpret_cast<const u16*>(block + (count * static_cast<u32>(sizeof(T)) + 1) / 2 * 2);
    }

    // The exception of a slot, which has one.
    LANEPACK_DEVICE T at(u32 slot) const {
        const u32 number = first_from(slot);
        return number < count ? __ldg(values + number) : T{0};
    }

    // Whether a slot has an exception, and which.
    LANEPACK_DEVICE bool find(u32 slot, T& value) const {
        const u32 number = first_from(slot);
        if (number >= count || __ldg(slots + number) != slot) return false;
        value = __ldg(values + number);
        return true;
    }

    // The number of exceptions of slots before one.
    LANEPACK_DEVICE u32 first_from(u32 slot) const {
        u32 first = 0;
        for (u32 end = count; first < end;) {
            const u32 middle = (first + end) / 2;
            if (__ldg(slots + middle) < slot) {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        return first;
    }

    // Calls `visit(number, position, value)` for every exception, in one of `threads`
    // threads, of which this is `thread`.
    template <class Visit>
    LANEPACK_DEVICE void for_each(u32 thread, u32 threads, const Visit& visit) const {
        for (u32 number = thread; number < count; number += threads) {
            const u32 slot = __ldg(slots + number);
            visit(number, index(slot % ROWS<T>, slot / ROWS<T>), __ldg(values + number));
        }
    }
};

// The exceptions of a lane from a row on, by row; the next one waits in `row` and `value`.
template <class T>
struct LaneExceptions {
    Exceptions<T> block;
    u32 lane;
    u32 number;
    // ROWS<T> if there are no more.
    u32 row;
    T value;

    LaneExceptions() = default;
    LANEPACK_DEVICE LaneExceptions(const Exceptions<T>& exceptions, u32 of_lane, u32 from_row = 0) {
        block = exceptions;
        lane = of_lane;
        value = 0;
        number = block.first_from(lane * ROWS<T> + from_row);
        advance();
    }

    LANEPACK_DEVICE void advance() {
        row = ROWS<T>;
        if (number >= block.count) return;
        const u32 slot = __ldg(block.slots + number);
        if (slot / ROWS<T> != lane) return;
        row = slot % ROWS<T>;
        value = __ldg(block.values + number);
        number++;
    }
};

// The values of a lane of a vector of packed values with exceptions (alp, pfor, alp_rd), in
// rows 0 to ROWS<T> - 1. `Vector` says where they are packed, and what its `step()` makes of
// packed ones.
template <class T, class Vector>
struct PatchedLane {
    PackedLane<T> packed;
    typename Vector::Step step;
    LaneExceptions<T> exceptions;
    u32 row;

    LANEPACK_DEVICE PatchedLane(const Node& node, u32 vector, u32 lane) {
        const Vector parameters(node, vector);
        packed = PackedLane<T>(parameters.packed, lane, reinterpret_cast<const T*>(node.buffer[1]));
        step = parameters.step();
        exceptions = LaneExceptions<T>(Exceptions<T>(node.buffer[2], parameters.locator), lane);
        row = 0;
    }

    LANEPACK_DEVICE T next() {
        T value = step.value(packed.next());
        if (row == exceptions.row) {
            value = exceptions.value;
            exceptions.advance();
        }
        row++;
        return value;
    }
};

}  // namespace lanepack
