"""What check-ssb and check-tpch have in common: results of an example's queries, compared with those
of DuckDB or DataFusion on the same tables.

Results have to be equal row for row: integers, decimals, dates and texts exactly. Floats may differ by a
relative TOLERANCE, a few units in the last place: DuckDB's `avg` and divisions are rounded at other points
than lanepack's, which divides the rounded sum by the count.
"""

import argparse
import math
import os
import pathlib
import re
import time

import pyarrow

TOLERANCE = 1e-14


class DuckDB:
    name = "DuckDB"

    def __init__(self):
        import duckdb

        self.database = duckdb.connect()

    def add(self, table, values):
        self.database.register("source", values)
        self.database.execute(f'CREATE TABLE "{table}" AS SELECT * FROM source')
        self.database.unregister("source")

    def rows(self, sql):
        return self.database.execute(sql).fetchall()


class DataFusion:
    name = "DataFusion"

    def __init__(self):
        import datafusion

        self.context = datafusion.SessionContext()

    def add(self, table, values):
        # A partition for each thread.
        batches, count = values.to_batches(), os.cpu_count() or 1
        partitions = [batches[index::count] for index in range(count)]
        self.context.register_record_batches(table, [part for part in partitions if part])

    def rows(self, sql):
        # Its mean of decimals is one of four digits more, which is rounded too soon.
        sql = re.sub(r"avg\((\w+)\)", r"CAST(sum(\1) AS DOUBLE) / count(\1)", sql)
        batches = self.context.sql(sql).collect()
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


ENGINES = {"duckdb": DuckDB, "datafusion": DataFusion}


def read(path):
    with pyarrow.ipc.open_file(path) as reader:
        return reader.read_all()


def is_equal(found, expected):
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=0)
    return found == expected


def are_equal(found, expected):
    return len(found) == len(expected) and all(map(is_equal, found, expected))


def main(example, tables, queries):
    """Compares the results of queries, a dict of SQL by name; what the program returns."""
    parser = argparse.ArgumentParser(description=f"Checks the results of the example {example}.")
    parser.add_argument("folder", type=pathlib.Path, help=f"what `--example {example} -- --write FOLDER` has written")
    parser.add_argument("--engine", choices=ENGINES, default="duckdb", help="what they have to equal")
    parser.add_argument("--time", action="store_true", help="prints what the engine takes, tables in its memory")
    args = parser.parse_args()
    engine = ENGINES[args.engine]()
    for table in tables:
        engine.add(table, read(args.folder / f"{table}.arrow"))
    different, groups, logarithms = 0, 0, []
    for name, sql in queries.items():
        found = [tuple(row.values()) for row in read(args.folder / f"{name}.arrow").to_pylist()]
        expected = engine.rows(sql)
        groups += len(found)
        is_different = len(found) != len(expected)
        for one, other in zip(found, expected):
            if not are_equal(one, other):
                is_different = True
                print(f"    {name}: {one}, {engine.name} has {other}")
                break
        if is_different:
            different += 1
            print(f"{name}: {len(found)} rows, {engine.name} has {len(expected)}")
        if args.time:
            times = []
            for _ in range(5):
                start = time.perf_counter()
                engine.rows(sql)
                times.append(time.perf_counter() - start)
            logarithms.append(math.log(min(times)))
            print(f"{name:6} {min(times) * 1e3:10.2f} ms")
    if args.time:
        print(f"geometric mean {math.exp(sum(logarithms) / len(logarithms)) * 1e3:.2f} ms")
    same = len(queries) - different
    print(f"{same} of {len(queries)} results are {engine.name}'s, {groups} groups in all")
    # Tables without rows would give equal results.
    return 1 if different or groups <= len(queries) else 0
