"""What pyarrow, DuckDB and Polars see in a file with an index, as JSON.

    tools.py FILE

For each tool the names of the columns, their types, and the number of rows, which is that of chunks; from the
metadata of the schema the number of values.
"""

import json
import sys

import duckdb
import polars
import pyarrow.ipc

path = sys.argv[1]
seen = {}

with pyarrow.ipc.open_file(path) as reader:
    schema = reader.schema
    chunks = reader.read_all()
seen["values"] = int(schema.metadata[b"lanepack.rows"])
seen["extension"] = [field.metadata[b"ARROW:extension:name"].decode() for field in schema]
seen["pyarrow"] = [schema.names, [str(field.type) for field in schema], chunks.num_rows]

rows = duckdb.sql("SELECT * FROM chunks")
seen["duckdb"] = [rows.columns, [str(kind) for kind in rows.types], rows.shape[0]]

frame = polars.read_ipc(path)
seen["polars"] = [frame.columns, [str(kind) for kind in frame.dtypes], frame.height]
json.dump(seen, sys.stdout)
