"""Reads the counts that lanepack's writer puts into files and streams, and copies those of a file.

Usage: counts.py FOLDER

Reads counts.arrows and counts.arrow of the folder; prints rows and key-values of each batch of the
stream, and the key-values of the file's footer, as JSON. Writes copied.arrow: the first row of the
file, with the key-values of its footer.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa


def text(pairs):
    return {key.decode(): value.decode() for key, value in (pairs or {}).items()}


folder = Path(sys.argv[1])
stream = pa.ipc.open_stream(folder / "counts.arrows")
batches = [[batch.num_rows, text(pairs)] for batch, pairs in stream.iter_batches_with_custom_metadata()]
file = pa.ipc.open_file(folder / "counts.arrow")
with pa.ipc.new_file(folder / "copied.arrow", file.schema, metadata=file.metadata) as writer:
    writer.write_batch(file.get_batch(0).slice(0, 1))
print(json.dumps({"stream": batches, "file": text(file.metadata)}))
