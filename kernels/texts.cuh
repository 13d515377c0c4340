// Values of a column of strings, and how they compare: by eight bytes at a time as numbers, the
// first of which are at hand.
#pragma once

#include "encode_arguments.cuh"

namespace lanepack {

template <class Offset>
struct StringReader {
    const StringsView& view;

    LANEPACK_DEVICE u64 from(u32 row) const {
        return static_cast<u64>(offset_of<Offset>(view, row));
    }
    LANEPACK_DEVICE u32 length(u32 row) const { return static_cast<u32>(from(row + 1) - from(row)); }
    LANEPACK_DEVICE bool is_valid(u32 row) const { return lanepack::is_valid(view, row); }
};

// A value: its bytes and its first eight as a number, zeros past its end.
struct Text {
    const u8* bytes;
    u64 prefix;
    u32 length;
    u32 row;
};
constexpr u32 NO_ROW = FULL;

// The first eight of `length` bytes, at least one, the first one lowest and zeros behind the
// last: words that hold some of them are read.
LANEPACK_DEVICE u64 leading_bytes(const u8* from, u32 length) {
    const u64 address = reinterpret_cast<u64>(from);
    const u64* word = reinterpret_cast<const u64*>(address / 8 * 8);
    const u32 shift = static_cast<u32>(address % 8) * 8;
    u64 bytes = __ldg(word) >> shift;
    if (shift != 0 && shift / 8 + length > 8) bytes |= __ldg(word + 1) << (64 - shift);
    return length < 8 ? bytes & ~u64{0} >> (64 - length * 8) : bytes;
}

// The same as a number that orders them.
LANEPACK_DEVICE u64 number_at(const u8* from, u32 length) {
    const u64 bytes = leading_bytes(from, length);
    const u32 low = __byte_perm(static_cast<u32>(bytes), 0, 0x0123);
    const u32 high = __byte_perm(static_cast<u32>(bytes >> 32), 0, 0x0123);
    return static_cast<u64>(low) << 32 | high;
}

template <class Offset>
LANEPACK_DEVICE Text text_at(const StringReader<Offset>& reader, u32 row) {
    Text text{reader.view.values + reader.from(row), 0, reader.length(row), row};
    if (text.length != 0) text.prefix = number_at(text.bytes, text.length);
    return text;
}

// A value that is empty where null.
template <class Offset>
LANEPACK_DEVICE Text text_or_empty(const StringReader<Offset>& reader, u32 row) {
    return reader.is_valid(row) ? text_at(reader, row) : Text{nullptr, 0, 0, row};
}

// How many bytes two values both begin with, up to `most`.
LANEPACK_DEVICE u32 common_bytes(const Text& one, const Text& other, u32 most) {
    most = min(most, min(one.length, other.length));
    for (u32 i = 0; i < most; i += 8) {
        const u64 differ = number_at(one.bytes + i, most - i) ^ number_at(other.bytes + i, most - i);
        if (differ != 0) return min(i + static_cast<u32>(__clzll(static_cast<i64>(differ))) / 8, most);
    }
    return most;
}

// Less than zero if x comes before y bytewise, more if behind it.
LANEPACK_DEVICE i32 compare(const Text& x, const Text& y) {
    if (x.prefix != y.prefix) return x.prefix < y.prefix ? -1 : 1;
    const u32 both = min(x.length, y.length);
#pragma unroll 1
    for (u32 i = 8; i < both; i += 8) {
        const u64 first = number_at(x.bytes + i, both - i);
        const u64 second = number_at(y.bytes + i, both - i);
        if (first != second) return first < second ? -1 : 1;
    }
    if (x.length == y.length) return 0;
    return x.length < y.length ? -1 : 1;
}

}  // namespace lanepack
