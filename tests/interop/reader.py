"""A reader of compressed columns after docs/FORMAT.md, and nothing else: numpy and pyarrow, and xxhash for
checksums and filters.

    reader.py COMPRESSED PLAIN

Both are Arrow IPC files, one of compressed columns in either storage, one of the same values. Each chunk of a
column of a flat type is decoded here and compared with the plain values, bit for bit where they are valid. Of a file
with an index the index is read as well: places, nulls, bounds and filters have to be those of the chunks. Prints
what it has met, as JSON. It trusts what it reads, and compares the checksums of the index and of filters only.
"""

import json
import struct
import sys

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import xxhash

VECTOR = 1024
FL_ORDER = [0, 4, 2, 6, 1, 5, 3, 7]
ENCODINGS = [
    "plain", "constant", "ffor", "alp", "fsst", "limbs", "dict", "rle", "delta", "pfor", "alp_rd", "front",
    "gcd", "bits", "lz",
]
BOOL, BYTES, ARROW = 0, 13, 14
# Bits of a value, by physical type.
BITS = {1: 8, 2: 16, 3: 32, 4: 64, 5: 8, 6: 16, 7: 32, 8: 64, 9: 32, 10: 64, 11: 128, 12: 256}
F32, F64, I64, U64 = 9, 10, 4, 8


class NotFlat(Exception):
    """Values that are nested or carried as Arrow IPC."""


class Node:
    def __init__(self, raw):
        self.encoding, self.physical, self.flags, self.buffer_count = raw[:4]
        self.child_count = int.from_bytes(raw[4:6], "little")
        self.values = int.from_bytes(raw[8:16], "little")
        self.parameters = [int.from_bytes(raw[at:at + 8], "little") for at in (16, 24)]
        self.children, self.buffers = [], []

    def inner(self):
        """The children but the validity."""
        return self.children[self.flags & 1:]

    def vectors(self):
        return -(-self.values // VECTOR)


def tree(header, body):
    """The root of a chunk's nodes, with their buffers."""
    count = int.from_bytes(header[2:4], "little")
    nodes = [Node(header[48 + 32 * at:80 + 32 * at]) for at in range(count)]
    lengths = np.frombuffer(header, "<u8", offset=48 + 32 * count)
    unclaimed = iter(nodes[1:])
    buffer, at = 0, 0
    for node in nodes:
        node.children = [next(unclaimed) for _ in range(node.child_count)]
        for _ in range(node.buffer_count):
            length = int(lengths[buffer])
            node.buffers.append(body[at:at + length])
            at += -(-length // 64) * 64
            buffer += 1
    return nodes[0]


def index(bits):
    """For each row and lane the place of its value in the vector."""
    rows, lanes = np.arange(bits), np.arange(VECTOR // bits)
    order = np.array(FL_ORDER)[rows // 8] * 16 + rows % 8 * 128
    return order[:, None] + lanes[None, :]


def unpack(packed, width, bits):
    """The 1,024 values of a vector, as u64."""
    values = np.zeros(VECTOR, np.uint64)
    if width == 0:
        return values
    words = np.frombuffer(packed, f"<u{bits // 8}", count=width * VECTOR // bits)
    words = words.reshape(width, VECTOR // bits).astype(np.uint64)
    mask = np.uint64(2 ** width - 1)
    places = index(bits)
    for row in range(bits):
        word, shift = divmod(row * width, bits)
        value = words[word] >> np.uint64(shift)
        if shift + width > bits:
            value = value | words[word + 1] << np.uint64(bits - shift)
        values[places[row]] = value & mask
    return values


def places(vectors, at, count):
    """Where packed data begin, in bytes, and their widths."""
    place = np.frombuffer(vectors, "<u4", count=count, offset=at)
    return (place & 0xFFFFFF).astype(int) * 128, (place >> 24).astype(int)


def patch(out, block, locator, bits):
    """Puts the exceptions of a vector into it."""
    number, start = locator & 0x7FF, locator >> 11
    size = bits // 8
    unit = max(size, 2)
    at = start * unit
    values = np.frombuffer(block, f"<u{size}", count=number, offset=at)
    at += -(-number * size // 2) * 2 if size == 1 else number * size
    slots = np.frombuffer(block, "<u2", count=number, offset=at).astype(int)
    lanes, rows = np.divmod(slots, bits)
    out[index(bits)[rows, lanes]] = values


def locators(node, at):
    count = node.vectors() if node.parameters[0] else 0
    return np.frombuffer(node.buffers[1], "<u4", count=count, offset=at).astype(int)


def joined(vectors, node):
    return np.concatenate(vectors)[:node.values] if vectors else np.zeros(0, np.uint64)


def ffor(node, bits, has_exceptions=False):
    """FFOR, and PFOR."""
    packed, vectors = node.buffers[:2]
    count, size = node.vectors(), bits // 8
    bases = np.frombuffer(vectors, f"<u{size}", count=count).astype(np.uint64)
    at = -(-count * size // 4) * 4
    starts, widths = places(vectors, at, count)
    found = locators(node, at + 4 * count) if has_exceptions else []
    mask = np.uint64(2 ** bits - 1)
    out = []
    for vector in range(count):
        values = unpack(packed[starts[vector]:], widths[vector], bits) + bases[vector] & mask
        if len(found):
            patch(values, node.buffers[2], found[vector], bits)
        out.append(values)
    return joined(out, node)


def alp(node, bits):
    wide = bits == 64
    field = 5 if wide else 4
    float_type = np.float64 if wide else np.float32
    packed, vectors = node.buffers[:2]
    count = node.vectors()
    scales = np.frombuffer(vectors, "<i8" if wide else "<i4", count=count)
    starts, widths = places(vectors, count * bits // 8, count)
    found = locators(node, count * (bits // 8 + 4))
    out = []
    for vector in range(count):
        scale = int(scales[vector])
        f, e, base = scale & 2 ** field - 1, scale >> field & 2 ** field - 1, scale >> 2 * field
        integers = unpack(packed[starts[vector]:], widths[vector], bits).astype(np.int64) + base
        if not wide and f == 15:
            values = integers.astype(float_type) / float_type(f"1e{e}")
        else:
            values = integers.astype(float_type) * float_type(f"1e{f}") * float_type(f"1e-{e}")
        values = values.astype(float_type).view(f"<u{bits // 8}").astype(np.uint64)
        if len(found):
            patch(values, node.buffers[2], found[vector], bits)
        out.append(values)
    return joined(out, node)


def alp_rd(node, bits):
    right, number, zeros = (node.parameters[1] >> shift & 0xFF for shift in (0, 8, 16))
    code_bits = max(number - 1, 0).bit_length()
    lefts = np.frombuffer(node.buffers[1], "<u2", count=8).astype(np.uint64)
    width = right + code_bits
    found = locators(node, 16)
    out = []
    for vector in range(node.vectors()):
        packed = unpack(node.buffers[0][vector * width * 128:], width, bits)
        codes, low = (packed >> np.uint64(right)).astype(int), packed & np.uint64(2 ** right - 1)
        values = lefts[codes] << np.uint64(right + zeros) | low << np.uint64(zeros)
        if len(found):
            patch(values, node.buffers[2], found[vector], bits)
        out.append(values)
    return joined(out, node)


def rle(node, bits):
    values = words(node.inner()[0])
    first = np.frombuffer(node.buffers[0], "<u4", count=node.vectors()).astype(int)
    if len(node.inner()) == 2:
        return np.repeat(values, words(node.inner()[1]).astype(int))
    begins = bits_of(node.buffers[1], node.values).astype(int)
    runs = np.cumsum(begins) - 1
    assert all(runs[::VECTOR] == first), "runs begin with each vector"
    return values[runs]


def delta(node, bits):
    starts = np.frombuffer(node.buffers[0], f"<u{bits // 8}", count=node.vectors()).astype(np.uint64)
    deltas = words(node.inner()[0]).reshape(-1, VECTOR)
    # Delta lane * T + row is at index(row, lane).
    ordered = deltas[:, index(bits).T.reshape(-1)]
    values = np.cumsum(ordered, axis=1, dtype=np.uint64) + starts[:, None]
    return (values & np.uint64(2 ** bits - 1)).reshape(-1)[:node.values]


def gcd(node, bits):
    divisor, offset = (np.uint64(parameter) for parameter in node.parameters)
    return words(node.inner()[0]) * divisor + offset & np.uint64(2 ** bits - 1)


def lz(node):
    """The bytes of all values."""
    literals, matches, flags, _, *_ = node.buffers
    symbol, wide, segment = (node.parameters[1] & 0xFF, node.parameters[1] >> 8 & 0xFF, node.parameters[1] >> 16)
    least = {1: 4 if wide == 2 else 3, 2: 2}.get(symbol, 1)
    count = len(matches) // (wide + 1)
    offsets = np.frombuffer(matches, f"<u{wide}", count=count).astype(int) + 1
    lengths = np.frombuffer(matches, "u1", count=count, offset=count * wide).astype(int) + least
    segments = np.frombuffer(node.buffers[3], "<u4").reshape(-1, 3).astype(int)
    total = node.parameters[0] // symbol
    all_flags = bits_of(flags, len(flags) * 8)
    out = bytearray()
    for number, (flag, match, literal) in enumerate(segments):
        start = number * segment * symbol
        end = min(total, (number + 1) * segment) * symbol
        is_last = number + 1 == len(segments)
        matches_end = count if is_last else segments[number + 1][1]
        while len(out) < end:
            if match < matches_end and all_flags[flag]:
                source = len(out) - offsets[match] * symbol
                assert source >= start, "matches stay in their segment"
                for at in range(lengths[match] * symbol):
                    out.append(out[source + at])
                match, flag = match + 1, flag + 1
            else:
                out += literals[literal * symbol:(literal + 1) * symbol]
                literal += 1
                # A segment without matches has no flags.
                flag += 1
    return bytes(out)


def bits_of(data, count):
    return np.unpackbits(np.frombuffer(data, "u1"), bitorder="little", count=count)


def words(node):
    """The values of a node of words, as u64."""
    bits = BITS[node.physical]
    name = ENCODINGS[node.encoding]
    seen.add(name)
    if name == "plain":
        return np.frombuffer(node.buffers[0], f"<u{bits // 8}", count=node.values).astype(np.uint64)
    if name == "constant":
        return np.full(node.values, node.parameters[0], np.uint64)
    if name == "dict":
        return words(node.inner()[1])[words(node.inner()[0]).astype(int)]
    if name == "lz":
        return np.frombuffer(lz(node), f"<u{bits // 8}").astype(np.uint64)
    if name == "pfor":
        return ffor(node, bits, has_exceptions=True)
    return {"ffor": ffor, "alp": alp, "alp_rd": alp_rd, "rle": rle, "delta": delta, "gcd": gcd}[name](node, bits)


def booleans(node):
    name = ENCODINGS[node.encoding]
    seen.add(name)
    if name == "constant":
        return np.full(node.values, node.parameters[0], np.uint8)
    if name == "bits":
        return np.unpackbits(words(node.inner()[0]).astype(np.uint8), bitorder="little", count=node.values)
    return bits_of(node.buffers[0], node.values)


def cut(data, lengths):
    ends = np.cumsum(lengths.astype(int))
    return [data[end - int(length):end] for end, length in zip(ends, lengths)]


def strings(node):
    name = ENCODINGS[node.encoding]
    seen.add(name)
    if name == "plain":
        return cut(node.buffers[0], words(node.inner()[0]))
    if name == "constant":
        return [node.buffers[0]] * node.values
    if name == "dict":
        values = strings(node.inner()[1])
        return [values[code] for code in words(node.inner()[0]).astype(int)]
    if name == "lz":
        return cut(lz(node), words(node.inner()[0]))
    if name == "front":
        out, before = [], b""
        for prefix, suffix in zip(words(node.inner()[0]).astype(int), strings(node.inner()[1])):
            before = before[:prefix] + suffix
            out.append(before)
        return out
    assert name == "fsst", name
    table, codes = node.buffers[:2]
    symbols, at = [], 8
    for length, number in enumerate(table[:8], 1):
        for _ in range(number):
            symbols.append(table[at:at + length])
            at += length
    out = []
    for value in cut(codes, words(node.inner()[0])):
        decoded, escaped = bytearray(), False
        for code in value:
            if escaped:
                decoded.append(code)
            elif code != 255:
                decoded += symbols[code]
            escaped = not escaped and code == 255
        out.append(bytes(decoded))
    assert [len(value) for value in out] == list(words(node.inner()[1])), "lengths of values"
    return out


def chunk(header, body):
    """Validity and values of a chunk: u64, rows of u64 for wider ones, bytes, or bits."""
    root = tree(header, body)
    if root.physical == ARROW:
        raise NotFlat
    valid = booleans(root.children[0]) if root.flags & 1 else np.ones(root.values, np.uint8)
    if root.physical == BOOL:
        return valid, booleans(root)
    if root.physical == BYTES:
        return valid, strings(root)
    bits = BITS[root.physical]
    if bits <= 64:
        return valid, words(root)
    name = ENCODINGS[root.encoding]
    seen.add(name)
    if name == "limbs":
        parts = [words(child) for child in root.inner()]
        sign = (parts[-1].astype(np.int64) >> 63).astype(np.uint64)
        parts += [sign] * (bits // 64 - len(parts))
        return valid, np.stack(parts, axis=1)
    assert name == "plain", name
    return valid, np.frombuffer(root.buffers[0], "<u8").reshape(root.values, bits // 64)


def chunks(column):
    """Header and body of each chunk."""
    if pa.types.is_struct(column.type):
        fields = [column.field(name).to_pylist() for name in ["header", "body"]]
        yield from zip(*fields)
        return
    for packed in column.to_pylist():
        count, buffers = (int.from_bytes(packed[at:at + 2], "little") for at in (2, 12))
        header = 48 + 32 * count + 8 * buffers
        yield packed[:header], packed[-(-header // 64) * 64:]


def expected(plain):
    """Validity and values as Arrow has them, in the form of `chunk`."""
    valid = np.array(plain.is_valid().to_numpy(zero_copy_only=False), np.uint8)
    kind = plain.type
    if pa.types.is_boolean(kind):
        return valid, bits_of(plain.buffers()[1], plain.offset + len(plain))[plain.offset:]
    if any(test(kind) for test in [pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view]):
        return valid, [None if value is None else value.encode() for value in plain.to_pylist()]
    if not pa.types.is_primitive(kind) and not pa.types.is_decimal(kind):
        return valid, plain.to_pylist()
    size = kind.bit_width // 8
    data = plain.buffers()[1][plain.offset * size:(plain.offset + len(plain)) * size]
    if size <= 8:
        return valid, np.frombuffer(data, f"<u{size}").astype(np.uint64)
    return valid, np.frombuffer(data, "<u8").reshape(-1, size // 8)


SALTS = [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31]


def contains(blocks, value):
    """Whether a filter may have a value, given the bytes that are hashed."""
    digest = xxhash.xxh3_64_intdigest(value)
    block = blocks[((digest >> 32) * len(blocks)) >> 32]
    bits = [((digest & 0xFFFFFFFF) * salt & 0xFFFFFFFF) >> 27 for salt in SALTS]
    return all(int(word) >> bit & 1 for word, bit in zip(block, bits))


class Index:
    """The index of a file, read part by part."""

    def __init__(self, data, place):
        self.file, (at, length) = data, map(int, place.split(b","))
        self.bytes, self.at = data[at:at + length], 24
        checksum, version, columns, self.chunks = struct.unpack_from("<QIIQ", self.bytes)
        assert checksum == xxhash.xxh3_64_intdigest(self.bytes[8:]) and version == 1, "the head of the index"
        self.starts, self.rows = self.part("<u8", columns), self.part("<u4", self.chunks)

    def part(self, kind, count):
        found = np.frombuffer(self.bytes, kind, count, self.at)
        self.at += -(-found.nbytes // 8) * 8
        return found

    def bounds(self, kind):
        """The least or the greatest values of a column: integers or bytes, none where there is none."""
        if kind is None:
            return [None] * self.chunks
        valid = np.unpackbits(self.part("u1", -(-self.chunks // 8)), bitorder="little")
        if kind is bytes:
            ends = self.part("<u4", self.chunks + 1)
            text = self.part("u1", int(ends[-1])).tobytes()
            found = [text[start:end] for start, end in zip(ends, ends[1:])]
        elif kind is bool:
            found = np.unpackbits(self.part("u1", -(-self.chunks // 8)), bitorder="little").tolist()
        else:
            size = int(kind[2:])
            raw = self.part("u1", size * self.chunks).tobytes()
            found = [raw[at:at + size] for at in range(0, len(raw), size)]
            if kind[1] in "iu":
                found = [int.from_bytes(value, "little", signed=kind[1] == "i") for value in found]
        return [value if valid[at] else None for at, value in enumerate(found)]

    def column(self, number, values, packed):
        """Compares what is said of a column with its values and its chunks; the filters that it has."""
        start = int(self.starts[number])
        assert start & ~1 == self.at, "where parts begin"
        places, lengths = self.part("<u8", self.chunks), self.part("<u8", self.chunks)
        nulls = self.part("<u4", self.chunks)
        kind, size = bound_of(values.type)
        least, greatest = self.bounds(kind), self.bounds(kind)
        filters = [self.part("<u8", self.chunks) for _ in range(3 if start & 1 else 0)]
        row = read = 0
        for chunk in range(self.chunks):
            own = values[row:row + int(self.rows[chunk])]
            row += len(own)
            at, length = int(places[chunk]), int(lengths[chunk])
            assert self.file[at:at + length] == packed[chunk], f"chunk {chunk}: its place"
            if kind is None:
                continue
            valid, found = expected(own)
            assert nulls[chunk] == len(own) - valid.sum(), f"chunk {chunk}: nulls"
            found = [found[at] for at in np.nonzero(valid)[0]]
            low, high = least[chunk], greatest[chunk]
            if kind is bytes or kind is bool or kind[1] in "iu":
                if kind is not bytes and kind is not bool:
                    found = [int.from_bytes(np.asarray(value).tobytes()[:size], "little", signed=kind[1] == "i")
                             for value in found]
                assert not found or low is None or low <= min(found), f"chunk {chunk}: least value"
                assert not found or high is None or max(found) <= high, f"chunk {chunk}: greatest value"
            if not filters or not filters[1][chunk]:
                continue
            at, length, checksum = (int(part[chunk]) for part in filters)
            raw = self.file[at:at + length]
            assert checksum == xxhash.xxh3_64_intdigest(raw), f"chunk {chunk}: checksum of the filter"
            blocks, read = np.frombuffer(raw, "<u4").reshape(-1, 8), read + 1
            for value in found:
                if isinstance(value, int):
                    value = value.to_bytes(size, "little", signed=kind[1] == "i")
                elif not isinstance(value, bytes):
                    value = np.asarray(value).tobytes()[:size]
                assert contains(blocks, value), f"chunk {chunk}: {value} is not in its filter"
            assert not all(contains(blocks, b"absent %d" % absent) for absent in range(9)), "a filter of all"
        return read


def bound_of(kind):
    """How bounds of a type are stored, if it has some, and the bytes of a value."""
    if pa.types.is_boolean(kind):
        return bool, 1
    names = ["string", "large_string", "string_view", "binary", "large_binary", "binary_view", "fixed_size_binary"]
    if any(getattr(pa.types, f"is_{name}")(kind) for name in names):
        return bytes, 0
    if pa.types.is_null(kind) or not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
        return None, 0
    size = kind.bit_width // 8
    if pa.types.is_floating(kind):
        return f"<f{size}", size
    if size > 8:
        # Of 128 and 256 bits: the first byte of the name only says that it is signed.
        return f"<i{size}", size
    return f"<{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{size}", size


def main():
    files = [pyarrow.ipc.open_file(path) for path in sys.argv[1:]]
    compressed, plain = (file.read_all() for file in files)
    place = (files[0].metadata or {}).get(b"lanepack.index")
    index = Index(open(sys.argv[1], "rb").read(), place) if place else None
    flat = filters = 0
    for name, column, values in zip(compressed.schema.names, compressed.columns, plain.columns):
        start = 0
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = values.chunk(0) if values.num_chunks else pa.array([], values.type)
        # Of extension types that pyarrow knows.
        values = getattr(values, "storage", values)
        for piece in column.chunks:
            for number, (header, body) in enumerate(chunks(piece)):
                try:
                    valid, found = chunk(header, body)
                except NotFlat:
                    start += int.from_bytes(header[4:8], "little")
                    continue
                flat += 1
                wanted_valid, wanted = expected(values[start:start + len(valid)])
                start += len(valid)
                assert len(wanted_valid) == len(valid), f"{name}, chunk {number}: rows"
                assert (wanted_valid == valid).all(), f"{name}, chunk {number}: nulls"
                for row in np.nonzero(valid)[0]:
                    same = np.array_equal(found[row], wanted[row])
                    assert same, f"{name}, chunk {number}, row {row}: {found[row]} != {wanted[row]}"
        assert start == len(values), f"{name}: {start} rows of {len(values)}"
        if index:
            number = compressed.schema.names.index(name)
            filters += index.column(number, values, column.to_pylist())
    json.dump({"chunks": flat, "encodings": sorted(seen), "filters": filters}, sys.stdout)


seen = set()
main()
