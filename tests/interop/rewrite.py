"""Rewrites an Arrow file of compressed columns in every way that pyarrow offers.

Usage: rewrite.py arrow|parquet INPUT FOLDER

Knows nothing of lanepack: columns of an extension type that nobody has
registered are structs, or bytes, with metadata to pyarrow, and must stay so. Prints the
fields it saw as JSON; the files it writes to FOLDER are

    arrow    file.arrow  stream.arrows  feather.arrow
             sliced.arrow         rows 1 and 2
             joined.arrow         rows 1 and 2, then all
             taken.arrow          rows 2, 0
    parquet  uncompressed.parquet  zstd.parquet  sliced.parquet  joined.parquet
             from_parquet.arrow   zstd.parquet, read and written again
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

FIELDS = ["rows", "null_count", "min", "max", "header", "body"]


def fields_of(schema):
    for field in schema:
        # Packed columns, as files with an index have them, are bytes.
        if not pa.types.is_large_binary(field.type):
            assert pa.types.is_struct(field.type), field
            assert [child.name for child in field.type] == FIELDS, field
        metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        yield {"name": field.name, "nullable": field.nullable, "metadata": metadata}


def write_file(path, table):
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def write_stream(path, table):
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def write_arrow(folder, table, sliced, joined):
    write_file(folder / "file.arrow", table)
    write_stream(folder / "stream.arrows", table)
    feather.write_feather(table, folder / "feather.arrow", compression="uncompressed")
    write_file(folder / "sliced.arrow", sliced)
    write_file(folder / "joined.arrow", joined)
    write_file(folder / "taken.arrow", table.take([2, 0]))


def write_parquet(folder, table, sliced, joined):
    pq.write_table(table, folder / "uncompressed.parquet", compression="none")
    pq.write_table(table, folder / "zstd.parquet", compression="zstd", row_group_size=1)
    pq.write_table(sliced, folder / "sliced.parquet")
    pq.write_table(joined, folder / "joined.parquet")
    write_file(folder / "from_parquet.arrow", pq.read_table(folder / "zstd.parquet"))


def main():
    form, source, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    with pa.ipc.open_file(source) as reader:
        table = reader.read_all()
    table.validate()
    print(json.dumps(list(fields_of(table.schema))))
    sliced = table.slice(1, 2)
    joined = pa.concat_tables([sliced, table]).combine_chunks()
    write = write_arrow if form == "arrow" else write_parquet
    write(folder, table, sliced, joined)


if __name__ == "__main__":
    main()
