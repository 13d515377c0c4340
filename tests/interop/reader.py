"""A reader of compressed columns after docs/FORMAT.md, and nothing else: numpy and pyarrow.

    reader.py COMPRESSED PLAIN

Both are Arrow IPC files, one of compressed columns in either storage, one of the same values. Each chunk of a
column of a flat type is decoded here and compared with the plain values, bit for bit where they are valid. Prints
the encodings that it has met, as JSON. It trusts what it reads, and does not compare checksums.
"""

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.ipc

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


def main():
    compressed, plain = (pyarrow.ipc.open_file(path).read_all() for path in sys.argv[1:])
    flat = 0
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
    json.dump({"chunks": flat, "encodings": sorted(seen)}, sys.stdout)


seen = set()
main()
