"""The tables and drawings of figures in documents, for `scripts/record tables`.

A cell is text, with names of figures in braces: suite, case and metric. Anything else that a
record says of a case has a name as well, with dots: `decode_kernels_us.utf8`. The case
`record` has what a record says of itself, and `mean of` a set of cases their geometric mean.
"""

import re

# The machine whose records are used, or that of the newest record.
DEVICES = {"gpu": "NVIDIA H200", "cpu": "AMD EPYC"}

# Files with markers.
DOCUMENTS = [
    "README.md", "docs/benchmarks/GPU.md", "docs/benchmarks/CPU.md", "docs/guide/files.md",
]

# Cases.

STRINGS = [
    "chinese", "city", "c_name", "credentials", "firstname", "genome", "hamlet", "l_comment",
    "location", "movies", "street", "urls2", "uuid", "wiki", "wikipedia",
]
FLOATS = [
    "bitcoin_transactions_f_rg", "city_temperature_f_rg", "kv_cache_original", "nyc29_rg",
    "shapesall",
]
NUMBERS_OF_TABLES = ["bimbo.Venta_hoy", "linear_road.Column_6", "weather_forecast.Column_2"]
STRINGS_OF_TABLES = [
    "bgg_reviews.comment", "examiner_headlines.headline_text", "question_tags.Tag",
]
INTEGERS = [
    "u8 of 3 bits", "u16 of 5 bits", "u32 of 8 bits", "u32 of 16 bits", "u64 of 8 bits",
    "u64 of 16 bits", "u64 of 24 bits",
]
DECIMALS = [
    f"{values}, {exceptions} exc."
    for values in [
        "f64 of 8 bits", "f64 of 16 bits", "f64 of 24 bits", "f32 of 8 bits", "f32 of 16 bits",
        "f32 whole, 16 bits",
    ]
    for exceptions in [0, 8]
]
ALP = [f"{case} [alp]" for case in DECIMALS if " of 8 bits" in case]
PFOR = ["u32 of 5 bits, 8 exc.", "u64 of 5 bits, 8 exc."]
REALS = ["f64 from 1 to 2", "f32 from 1 to 2", "f32 of bfloat16"]
CASCADES = [
    "u32 growing by 8 bits", "u64 growing by 8 bits", "u64 growing by 16 bits",
    "u32 of 8 bits times 1000", "u64 of 8 bits times 1000", "u64 of 16 bits times 1000",
    "u32 of 200 values", "u64 of 200 values", "u64 of 30000 values",
    "u32 in runs up to 20", "u64 in runs up to 20", "u64 in runs up to 1000",
    "u64 in runs up to 20 [rle, ffor]",
    "u64 of 8 bits, 1 in 5000 null", "u64 of 8 bits, 1 in 2 null",
    "booleans, 1 in 5000 true", "booleans, 1 in 2 true",
]
WORDS = ["strings of 7 values", "strings of 300 values", "strings of 30000 values"]
QUERIES = [
    "SSB Q1.1", "SSB Q1.2", "SSB Q1.3", "TPC-H Q6, Float64", "TPC-H Q6, decimals",
    "TPC-H Q19, lineitem", "l_comment LIKE, a year", "count, 1 columns", "count, 2 columns",
    "count, 4 columns", "count, 10 columns",
]
FROM_HOST = ["u64 of 8 bits", "f64 of 16 bits, 8 exc.", "l_comment", "wiki"]
GATHERED = ["f64 of 16 bits, 8 exc.", "u32 of 16 bits", "l_comment", "wiki"]
LZ = ["l_comment S2 C2048 L3", "l_comment S1 C4096 L4", "l_comment S1 C65536 L5"]

# Cases whose geometric means are figures.
SETS = {"strings": STRINGS}


def files(what, metric):
    """A row of figures of files."""
    return [what, *(f"{{files: lineitem, {cores}: {metric}}}" for cores in ["all cores", "one core"])]


def label(case):
    """The name of a case in a table."""
    for short, long in [
        (r"\bf(32|64)\b", r"Float\1"), (r"\bu(\d+)\b", r"UInt\1"),
        (r" whole, ", ", whole numbers of "), (r"\b0 exc\.", "no exceptions"),
        (r"\bexc\.", "exceptions a vector"), (r"\b30000\b", "30,000"), (r"\b5000\b", "5,000"),
        (r"\b1000\b", "1,000"), (r"\b1 columns", "1 column"),
    ]:
        case = re.sub(short, long, case)
    return case


def rows(suite, cases, metrics):
    """A row for each case, and in it a cell for each metric."""
    return [
        [label(case), *(f"{{{suite}: {case}: {metric}}}" for metric in metrics)]
        for case in cases
    ]


def means(suite, name, metrics):
    """The row of geometric means of a set; empty cells for what has none."""
    cells = (f"{{{suite}: mean of {name}: {one}}}" if one else "" for one in metrics)
    return ["geometric mean", *cells]


def slashes(suite, cases, metric):
    """A cell with a figure of several cases."""
    return " / ".join(f"{{{suite}: {case}: {metric}}}" for case in cases)


def ffor(bits, widths):
    """Speeds of decompression at widths, and their share of a copy."""
    cases = {width: f"u{bits} of {width} bits [ffor]" for width in widths}
    if bits < 32:
        # By default they become nothing else.
        cases = {width: f"u{bits} of {width} bits" for width in widths}
    return [f"UInt{bits}"] + [
        share_of_copy(cases[width]) if width in cases else ""
        for width in [1, 3, 5, 8, 16, 24, 32, 48, 63]
    ]


def share_of_copy(case):
    return f"{{decode: {case}: speed}} ({{decode: {case}: of copy}})"


def alp(values, allowed=""):
    return [label(values)] + [
        share_of_copy(f"{values}, {exceptions} exc.{allowed}") for exceptions in [0, 8]
    ]


def lz(case):
    symbol, segment, level = re.fullmatch(r".* S(\d+) C(\d+) L(\d)", case).groups()
    figures = [f"{{lz: {case}: {metric}}}" for metric in ["decode", "encode", "ratio"]]
    return [f"{symbol}, {int(segment):,}, {level}", *figures]


QUERY = ["packed", "raw", "decoded first"]
DECODE = ["encoding", "speed", "of copy", "ratio", "decode_kernels_us"]
ENCODE = ["encoding", "speed", "ratio", "encode_kernels_us"]
SHARES = ["0.01 %", "1 %", "10 %", "50 %", "100 %", "moved", "raw", "decoded first"]
TESTS = ["=", "IN", "prefix", "LIKE"]
LIKE = ["moved", "raw", "decoded first", "first_scan_us", "later scans", "memory kept"]
HOST = [
    "compress, page-locked", "compress, ordinary memory", "decompress, page-locked",
    "decompress, ordinary memory",
]


def to_peer(group, peer, case="geometric mean"):
    """A cell with the speed or size of lanepack as a multiple of a peer's."""
    return f"{{{group} (peer: {peer}): {case}: ratio to peer}}"


def against_parquet(what, effort=""):
    """Cells of all cores and of one thread, compared with Parquet."""
    return [
        to_peer(f"table {what}, {threads}{effort}", "Parquet zstd(3)")
        for threads in ["all cores", "one thread"]
    ]


ARROW = "Arrow kernels on raw arrays"


def cpu_query(name):
    """A row of a query on the CPU."""
    return [name, to_peer("queries", ARROW, f"{name}, 6 million rows")]


FOLDERS = ["strings", "floats", "tables"]


def megabytes(name, key="file_bytes"):
    """A cell of each folder of the shared data."""
    return [f"{{sizes: {folder}{name}: {key} / 1000000}}" for folder in FOLDERS]


# For each name the head of a table and its rows.
TABLES = {
    # Of README.md.
    "decode": (["column", "GB/s"], [
        ["strings (FSST), TPC-H comments", "{decode: l_comment: speed}"],
        ["strings (FSST), 15 public files, geometric mean", "{decode: mean of strings: speed}"],
        ["Float64 (ALP), 8 / 16 / 24 bits, 8 exceptions a vector",
         slashes("decode", [f"f64 of {width} bits, 8 exc." for width in [8, 16, 24]], "speed")],
        ["UInt32 (FFOR), 1 / 8 / 16 bits",
         slashes("decode", [f"u32 of {width} bits [ffor]" for width in [1, 8, 16]], "speed")],
        ["a copy of the raw array, for comparison",
         "{decode: record: limits.copy_gb_per_s / 2}"],
    ]),
    "scan": (["column", "=", "IN of 5", "prefix", "LIKE `%..%`", "LIKE, raw strings",
              "LIKE, decompressed first"], [
        ["TPC-H comments",
         *(f"{{scan: l_comment: {one}}}" for one in [*TESTS, "raw", "decoded first"])],
        ["15 public files, geometric mean",
         *(f"{{scan: mean of strings: {one}}}" for one in [*TESTS, "raw", "decoded first"])],
    ]),
    "queries": (["query", "compressed", "raw columns, same kernel", "decompressed first"], [
        [name, *(slashes("queries", cases, one) for one in QUERY)]
        for name, cases in {
            "SSB Q1.1 / Q1.2 / Q1.3, 240 million rows": QUERIES[:3],
            "TPC-H Q6, Float64 / decimals": QUERIES[3:5],
            "TPC-H Q19 on lineitem (IN and = of strings) / LIKE on a year's comments":
                QUERIES[5:7],
        }.items()
    ]),
    "cpu-files": (["table", "Arrow, MB", "IPC file, MB", "write, MB/s", "read, MB/s"], [
        [table, *(f"{{quickstart: {table}: {one}}}" for one in
                  ["arrow_bytes / 1000000", "file_bytes / 1000000", "write", "read"])]
        for table in ["lineitem", "customer", "part"]
    ]),
    "cpu-parquet": (["", "all cores", "one thread"], [
        ["decompress", *against_parquet("decompress")],
        ["compress", *against_parquet("compress")],
        ["decompress, `Effort::Fast`", *against_parquet("decompress", ", Effort::Fast")],
        ["compress, `Effort::Fast`", *against_parquet("compress", ", Effort::Fast")],
    ]),
    "cpu-sizes": (["MB", "strings", "floats", "tables"], [
        ["Arrow buffers", *megabytes("", "arrow_bytes")],
        ["lanepack", *megabytes("")],
        ["lanepack, `Effort::Small`", *megabytes(", Effort::Small")],
        ["Parquet zstd(3)", *(
            f"{{folder size (peer: Parquet zstd(3)): {folder}: peer_bytes / 1000000}}"
            for folder in FOLDERS)],
    ]),
    # Of docs/guide/files.md.
    "files": (["lineitem, scale factor 1", "all cores", "one core"], [
        files("write, s", "writing"),
        files("write Parquet, zstd(3), s", "writing Parquet"),
        files("generate the rows only, s", "generating"),
        files("memory of the writer, MB", "memory of the writer"),
        files("memory of Parquet's writer, MB", "memory of Parquet's writer"),
        files("file, MB", "file"),
        files("Parquet file, MB", "Parquet file"),
        files("open, ms", "opening"),
        files("open and query 6, ms", "Q6"),
        files("query 6 of the Parquet file by DuckDB, ms", "Q6 of Parquet"),
        files("open and query 6, file not in memory, ms", "Q6, cold"),
        files("query 6 by DuckDB, file not in memory, ms", "Q6 of Parquet, cold"),
        files("read by query 6, MB", "read by Q6"),
        files("memory of the process, MB", "memory of Q6"),
    ]),
    # Of docs/benchmarks/CPU.md.
    "cpu-codecs": (["codec", "peer", "encode", "decode", "size"], [
        ["FSST", "fsst-rs 0.7, bulk",
         to_peer("FSST compress", "fsst-rs"), to_peer("FSST decompress", "fsst-rs"),
         to_peer("FSST factor, codes and table", "fsst-rs")],
        ["FSST, training a table", "fsst-rs 0.7", to_peer("FSST training", "fsst-rs"), "", ""],
        ["ALP Float64", "alp 0.0.4 and fastlanes 0.7",
         *(to_peer(f"ALP f64 {what}", "alp and fastlanes")
           for what in ["encode", "decode", "size"])],
        ["ALP Float64 without packing", "alp 0.0.4",
         to_peer("ALP f64 encode only, no packing", "alp"), "", ""],
        *([f"FFOR UInt{bits}", "fastlanes 0.7",
           to_peer(f"FFOR u{bits} pack", "fastlanes"),
           to_peer(f"FFOR u{bits} unpack", "fastlanes"), ""] for bits in [8, 16, 32, 64]),
    ]),
    "cpu-scans": (["scan", "of Arrow's speed"], [
        ["filters of numbers, geometric mean", to_peer("scan of numbers", ARROW)],
        ["filters of strings (15 files), geometric mean", to_peer("scan of strings", ARROW)],
        *(cpu_query(name) for name in QUERIES[3:5] + QUERIES[:3]),
    ]),
    # Of docs/benchmarks/GPU.md.
    "decode-strings": (
        ["file", "tree", "GB/s, Arrow", "strings only", "of copy, %", "ratio", "kernels (us)"],
        rows("decode", STRINGS,
             ["encoding", "speed", "values", "of copy", "ratio", "decode_kernels_us"])
        + [means("decode", "strings", ["", "speed", "values", "of copy", "ratio", ""])]),
    "decode-ffor": (["bits", "1", "3", "5", "8", "16", "24", "32", "48", "63"], [
        ffor(8, [3]), ffor(16, [5]), ffor(32, [1, 8, 16, 24]),
        ffor(64, [1, 8, 16, 24, 32, 48, 63]),
    ]),
    "decode-alp": (["", "no exceptions", "8 a vector"], [
        alp("f64 of 8 bits"), alp("f64 of 16 bits"), alp("f64 of 24 bits"),
        alp("f32 of 8 bits", " [alp]"), alp("f32 of 16 bits"), alp("f32 whole, 16 bits"),
    ]),
    "decode-columns": (
        ["column", "tree", "GB/s", "of copy, %", "ratio", "kernels (us)"],
        rows("decode", FLOATS + NUMBERS_OF_TABLES + STRINGS_OF_TABLES, DECODE)),
    "decode-cascades": (
        ["column", "tree", "GB/s", "of copy, %", "ratio", "kernels (us)"],
        rows("decode", PFOR + REALS + CASCADES + WORDS, DECODE)),
    "lz": (["S, C, level", "decompress", "compress", "ratio"], [lz(case) for case in LZ]),
    "encode-numbers": (
        ["column", "tree", "GB/s", "ratio", "largest parts (us)"],
        rows("encode", INTEGERS + DECIMALS + ALP + PFOR + REALS + CASCADES, ENCODE)),
    "encode-strings": (
        ["column", "tree", "GB/s", "ratio", "largest parts (us)"],
        rows("encode", STRINGS, ENCODE)
        + [means("encode", "strings", ["", "speed", "ratio", ""])]
        + rows("encode", WORDS, ENCODE)),
    "encode-columns": (
        ["column", "tree", "GB/s", "ratio", "largest parts (us)"],
        rows("encode", FLOATS + NUMBERS_OF_TABLES + STRINGS_OF_TABLES, ENCODE)),
    "scan-numbers": (
        ["column", "0.01 %", "1 %", "10 %", "50 %", "100 %", "moved", "raw", "decoded first"],
        rows("scan", DECIMALS + ALP + INTEGERS, SHARES)),
    "scan-cascades": (
        ["column", "tree", "10 %", "moved", "raw", "decoded first", "first scan (us)",
         "memory kept (MB)"],
        rows("scan", PFOR + REALS + CASCADES + FLOATS + NUMBERS_OF_TABLES,
             ["encoding", "10 %", *SHARES[5:], "first_scan_us", "memory kept"])),
    "scan-strings": (
        ["column", "tree", "=", "IN of 5", "prefix", "LIKE", "LIKE: moved", "raw",
         "decoded first", "first scan (us)", "later scans (us)", "memory kept (MB)"],
        rows("scan", STRINGS, ["encoding", *TESTS, *LIKE])
        + [means("scan", "strings", ["", *TESTS, *LIKE[:3], "", "", ""])]
        + rows("scan", WORDS + STRINGS_OF_TABLES, ["encoding", *TESTS, *LIKE])),
    "queries-all": (
        ["query", "bytes a row", "compressed", "raw", "decoded first", "moved (GB/s)",
         "first call (ms)", "memory kept (MB)"],
        rows("queries", QUERIES,
             ["size of a row", *QUERY, "moved", "first_call_us / 1000", "memory kept"])),
    "gather": (
        ["column", "0.1 %", "1 %", "10 %", "50 %", "100 %", "all"],
        rows("gather", GATHERED, ["0.1 %", "1 %", "10 %", "50 %", "100 %", "all"])),
    "host": (
        ["column", "compress, page-locked", "ordinary memory", "decompress, page-locked",
         "ordinary memory"],
        rows("host", FROM_HOST, HOST)),
}

# For each file what its bars are: figures of a case for each series.
DRAWINGS = {
    "docs/scans.svg": {
        "title": "Filters on an NVIDIA H200: GB/s of values, a tenth of the rows selected",
        "suite": "scan",
        "series": {
            "compressed": "10 %", "raw array": "raw", "decompressed first": "decoded first",
        },
        "rows": {
            "Float64, 8 bits": "f64 of 8 bits, 0 exc.",
            "Float64, 16 bits": "f64 of 16 bits, 0 exc.",
            "Float64, 24 bits": "f64 of 24 bits, 0 exc.",
            "Float32, 8 bits": "f32 of 8 bits, 0 exc.",
            "UInt32, 8 bits": "u32 of 8 bits",
            "UInt64, 8 bits": "u64 of 8 bits",
            "UInt64, 24 bits": "u64 of 24 bits",
        },
    },
}
