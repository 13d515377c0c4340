"""Figures of records in the text of documents: `scripts/record tables`.

A marker in a Markdown file holds a table of scripts/tables.py or one figure:

    <!-- record: decode-strings -->     a table, on lines of its own
    <!-- /record -->

    <!-- record: decode: l_comment: speed -->1,750<!-- /record --> GB/s

A figure is named by suite, case and metric; docs/benchmarks/README.md describes the names.
"""

import difflib
import math
import os
import pathlib
import re
from typing import NamedTuple

import drawing

# What lies between the two ends of a marker is replaced.
OPEN, CLOSE = "<!-- record: ", "<!-- /record -->"
MARKER = re.compile(re.escape(OPEN) + r"(.*?) -->(.*?)" + re.escape(CLOSE), re.S)
# Digits of a number.
DIGITS = 3
# Kernels that are named, the longest first.
KERNELS = 4


class Problem(Exception):
    """A figure that no record has, or a marker that is not one."""


class Source(NamedTuple):
    """A record that figures come from."""

    date: str
    path: pathlib.Path
    commit: str
    device: str


# Figures.


class Figures:
    """The newest figures of records, and which records were used."""

    def __init__(self, records, devices, sets):
        """Of records by their path: those of one device for each kind."""
        self.sets = sets
        self.used = set()
        # For each suite, case and name the records that have it, and what they say.
        self.found = {}
        for kind, device in devices.items():
            same = [(path, one) for path, one in records.items() if one["kind"] == kind]
            if device is None and same:
                device = max((one["date"], one["device"]) for _, one in same)[1]
            for path, one in same:
                if one["device"] == device:
                    self.add(path, one)

    def add(self, path, record):
        short = re.sub(r"^(.{7})[0-9a-f]*", r"\1", record["commit"])
        source = Source(record["date"], path, short, record["device"])

        def put(suite, case, name, value):
            self.found.setdefault((suite, case, name), {})[source] = value

        head = {key: value for key, value in record.items() if key not in ("cases", "figures")}
        for suite in {one["suite"] for one in record["figures"]}:
            for name, value in leaves(head):
                put(suite, "record", name, value)
        for one in record["cases"]:
            for name, value in leaves(one):
                put(one["suite"], one["case"], name, value)
        for one in record["figures"]:
            put(one["suite"], one["case"], one["metric"], one["value"])

    def newest(self, key):
        """A figure, as the newest record that has it says."""
        found = self.found.get(key)
        if not found:
            raise Problem(f"expected a figure that a record has, found {': '.join(key)}")
        last = max(found)
        for other in found:
            # A date without the time of day is neither before nor after another of that date.
            same = other.date.startswith(last.date) or last.date.startswith(other.date)
            if other != last and same:
                raise Problem(
                    f"{': '.join(key)}: expected dates with the time of day, found "
                    f"{other.date} in {other.path.name} and {last.date} in {last.path.name}"
                )
        self.used.add(last)
        return found[last]

    def value(self, name):
        """A figure by its name: suite, case and metric, and a number to divide by."""
        scaled = re.fullmatch(r"(.*) / ([\d.]+)", name)
        # A suite may name its peer: `FFOR u8 pack (peer: fastlanes)`.
        key = tuple((scaled.group(1) if scaled else name).rsplit(": ", 2))
        if len(key) != 3:
            raise Problem(f"expected a table, or suite: case: metric, found {name}")
        suite, case, metric = key
        mean = re.fullmatch(r"mean of (.*)", case)
        if mean:
            if mean.group(1) not in self.sets:
                raise Problem(f"{name}: expected one of {', '.join(self.sets)}")
            values = [self.newest((suite, one, metric)) for one in self.sets[mean.group(1)]]
            found = math.exp(sum(map(math.log, values)) / len(values))
        else:
            found = self.newest(key)
        return found / float(scaled.group(2)) if scaled else found

    def fill(self, text):
        """A text with figures for the names in its braces."""
        return re.sub(r"\{(.*?)\}", lambda name: text_of(self.value(name.group(1))), text)


def leaves(value, name=""):
    """The names and values in an object, those of objects in it with dots."""
    for key, one in value.items():
        if isinstance(one, dict):
            yield name + key, one
            yield from leaves(one, f"{name}{key}.")
        elif isinstance(one, (int, float, str)):
            yield name + key, one


def text_of(value):
    """A value in a document: a number, a text, or the longest of several times."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        longest = sorted(value.items(), key=lambda one: -one[1])[:KERNELS]
        return ", ".join(f"{name} {text_of(time)}" for name, time in longest)
    if value == 0:
        return "0"
    short = float(f"{value:.{DIGITS}g}")
    decimals = max(0, DIGITS - 1 - math.floor(math.log10(abs(short))))
    return f"{short:,.{decimals}f}"


# Documents.


def table(head, rows, figures):
    """The lines of a table in Markdown; columns without words are aligned to the right."""
    rows = [[figures.fill(cell) for cell in row] for row in rows]
    ends = [
        "---" if index == 0 or any(re.search(r"[A-Za-z]", row[index]) for row in rows) else "--:"
        for index in range(len(head))
    ]

    def line(cells):
        return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"

    return [line(head), f"|{'|'.join(ends)}|", *map(line, rows)]


def sources(used, link):
    """A line that says where figures come from."""
    devices = {}
    for one in sorted(used, reverse=True):
        devices.setdefault(one.device, []).append(
            f"[{one.commit}]({link(one.path)}) ({one.date[:10]})")
    return "; ".join(
        f"{device}, {'commit' if len(found) == 1 else 'commits'} {', '.join(found)}"
        for device, found in devices.items()) + "."


class Generator:
    """Files with the figures of records."""

    def __init__(self, root, records, definitions):
        self.root = root
        self.definitions = definitions
        self.figures = Figures(records, definitions.DEVICES, definitions.SETS)

    def marked(self, name, path):
        """What a marker in a file holds."""
        if name not in self.definitions.TABLES:
            return text_of(self.figures.value(name))
        self.figures.used.clear()
        lines = table(*self.definitions.TABLES[name], self.figures)

        def link(record):
            return pathlib.Path(os.path.relpath(record, path.parent)).as_posix()

        return "\n".join(["", *lines, "", sources(self.figures.used, link), ""])

    def document(self, path):
        """A file with the figures of its markers."""
        text = path.read_text()

        def replaced(marker):
            name, body = marker.groups()
            if OPEN in body:
                raise Problem(f"{path}: {name}: expected {CLOSE}")
            try:
                return f"{OPEN}{name} -->{self.marked(name, path)}{CLOSE}"
            except Problem as problem:
                raise Problem(f"{path}: {problem}") from None

        text, count = MARKER.subn(replaced, text)
        for end in [OPEN, CLOSE]:
            if text.count(end) != count:
                raise Problem(f"{path}: expected {count} times {end.strip()}")
        return text

    def drawing(self, name):
        self.figures.used.clear()
        about = self.definitions.DRAWINGS[name]
        rows = [
            (label, [self.figures.value(f"{about['suite']}: {case}: {metric}")
                     for metric in about["series"].values()])
            for label, case in about["rows"].items()
        ]
        named = [f"{one.device}, commit {one.commit}, {one.date[:10]}"
                 for one in sorted(self.figures.used, reverse=True)]
        return drawing.bars(about["title"], list(about["series"]), rows, "; ".join(named), text_of)

    def files(self):
        """All files that have figures, and what they should be."""
        files = {}
        for name in self.definitions.DOCUMENTS:
            files[self.root / name] = self.document(self.root / name)
        for name in self.definitions.DRAWINGS:
            files[self.root / name] = self.drawing(name)
        return files


def difference(path, text, root):
    """What is not as it should be in a file, as a diff."""
    name = path.relative_to(root).as_posix()
    found = path.read_text() if path.exists() else ""
    return "".join(difflib.unified_diff(
        found.splitlines(True), text.splitlines(True), name, f"{name}, from records"))
