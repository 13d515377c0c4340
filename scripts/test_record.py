"""Tests of scripts/record: python3 scripts/test_record.py"""

import importlib.machinery
import importlib.util
import io
import json
import pathlib
import shutil
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
PATH = pathlib.Path(__file__).resolve().parent / "record"
LOADER = importlib.machinery.SourceFileLoader("record", str(PATH))
record = importlib.util.module_from_spec(importlib.util.spec_from_loader("record", LOADER))
LOADER.exec_module(record)
# Modules beside scripts/record.
sys.path.insert(0, str(PATH.parent))
import figures
import tables


def figure(value, low, high, metric="speed", better="higher"):
    return {
        "suite": "decode", "case": "wiki", "metric": metric, "unit": "GB/s", "value": value,
        "low": low, "high": high, "runs": 15, "better": better,
    }


def document(*figures, **head):
    return {
        "format": 1, "kind": "gpu", "commit": "0123456789abcdef", "date": "2026-11-24",
        "device": "NVIDIA H200", "suites": ["decode"], "failures": [],
        "cases": [{"suite": "decode", "case": "wiki", "encoding": "fsst"}],
        "figures": list(figures),
    } | head


def compared(old, new, **options):
    out = io.StringIO()
    return record.compare(old, new, out=out, **options), out.getvalue()


class Compare(unittest.TestCase):
    def test_the_same_is_no_failure(self):
        one = document(figure(100, 99, 101))
        bad, text = compared(one, one)
        self.assertEqual(bad, 0)
        self.assertIn("1.000  decode: wiki: speed, GB/s", text)

    def test_more_than_the_tolerance_below_is_worse(self):
        bad, text = compared(document(figure(100, 99, 101)), document(figure(94, 93, 95)))
        self.assertEqual(bad, 1)
        self.assertIn("0.940", text)
        self.assertIn("WORSE", text)

    def test_within_the_tolerance_is_no_failure(self):
        bad, _ = compared(document(figure(100, 99, 101)), document(figure(96, 95, 97)))
        self.assertEqual(bad, 0)

    def test_spreads_that_overlap_are_no_failure(self):
        bad, _ = compared(document(figure(100, 90, 101)), document(figure(80, 70, 91)))
        self.assertEqual(bad, 0)

    def test_better_is_no_failure(self):
        bad, _ = compared(document(figure(100, 99, 101)), document(figure(200, 199, 201)))
        self.assertEqual(bad, 0)

    def test_of_times_more_is_worse(self):
        old, same, more = (
            document(figure(value, value, value, better="lower")) for value in [100, 104, 106])
        self.assertEqual(compared(old, same)[0], 0)
        self.assertEqual(compared(old, more)[0], 1)
        self.assertEqual(compared(more, old)[0], 0)

    def test_memory_that_was_zero_is_worse_if_there_is_some(self):
        none, some = (document(figure(value, value, value, better="lower")) for value in [0, 5])
        self.assertEqual(compared(none, some)[0], 1)
        self.assertEqual(compared(none, none)[0], 0)
        self.assertEqual(compared(some, none)[0], 0)

    def test_a_figure_that_vanished_is_a_failure_unless_allowed(self):
        old = document(figure(100, 99, 101), figure(5, 5, 5, metric="ratio"))
        new = document(figure(100, 99, 101))
        bad, text = compared(old, new)
        self.assertEqual(bad, 1)
        self.assertIn("MISSING", text)
        self.assertEqual(compared(old, new, allow_missing=True)[0], 0)

    def test_new_figures_are_listed(self):
        old = document(figure(100, 99, 101))
        new = document(figure(100, 99, 101), figure(5, 5, 5, metric="ratio"))
        bad, text = compared(old, new)
        self.assertEqual(bad, 0)
        self.assertIn("NEW", text)

    def test_a_wrong_result_is_a_failure(self):
        one = document(figure(100, 99, 101))
        bad, text = compared(one, one | {"failures": ["decode: wiki: other values"]})
        self.assertEqual(bad, 1)
        self.assertIn("FAILED decode: wiki", text)

    def test_another_encoding_is_pointed_out(self):
        old = document(figure(100, 99, 101))
        new = document(figure(100, 99, 101),
                       cases=[{"suite": "decode", "case": "wiki", "encoding": "dict(fsst)"}])
        self.assertIn("other encoding", compared(old, new)[1])

    def test_records_of_two_kinds_are_not_compared(self):
        with self.assertRaises(record.Problem):
            compared(document(), document(kind="cpu"))


class Merge(unittest.TestCase):
    def test_parts_become_one(self):
        other = figure(7, 6, 8) | {"suite": "scan"}
        merged = record.merge([document(figure(100, 99, 101)),
                               document(other, suites=["scan"], date="2026-11-25")])
        self.assertEqual(merged["suites"], ["decode", "scan"])
        self.assertEqual(merged["date"], "2026-11-25")
        self.assertEqual(merged["figures"], [figure(100, 99, 101), other])

    def test_repetitions_have_the_spread_of_all(self):
        merged = record.merge([document(figure(100, 99, 101)), document(figure(110, 108, 111)),
                               document(figure(90, 89, 91))])
        found = merged["figures"][0]
        self.assertEqual((found["value"], found["low"], found["high"]), (100, 89, 111))
        self.assertEqual(found["runs"], 45)
        self.assertEqual(found["values"], [100, 110, 90])
        again = record.merge([merged, document(figure(120, 119, 121))])["figures"][0]
        self.assertEqual(again["value"], 105)

    def test_other_commits_are_not_merged(self):
        with self.assertRaises(record.Problem):
            record.merge([document(), document(commit="fedcba9876543210")])


class Files(unittest.TestCase):
    def test_what_is_written_is_read(self):
        one = document(figure(100, 99, 101), figure(5, 5, 5, metric="ratio"))
        text = record.text_of(one)
        self.assertEqual(json.loads(text), one)
        self.assertEqual(sum('"metric"' in line for line in text.splitlines()), 2)

    def test_names_have_machine_date_and_commit(self):
        self.assertEqual(record.file_name(document()), "gpu-h200-2026-11-24-0123456.json")
        with_time = document(date="2026-11-24T09:23Z")
        self.assertEqual(record.file_name(with_time), "gpu-h200-2026-11-24-0123456.json")
        dirty = document(commit="0123456789abcdef-dirty", kind="cpu",
                         device="Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz")
        self.assertEqual(record.file_name(dirty),
                         "cpu-intel-xeon-platinum-8481c-2-70ghz-2026-11-24-0123456-dirty.json")


class Cpu(unittest.TestCase):
    def test_lines_of_peers(self):
        lines = "skipped: something\n" + "\n".join(json.dumps(line) for line in [
            {"group": "FSST decompress", "input": "wiki", "counts": True, "bytes": 1000000,
             "rounds": 5, "ours_seconds": [1, 2, 3], "peer_seconds": [2, 4, 6],
             "ratio": [1.9, 2.0, 2.1]},
            {"group": "FSST decompress", "input": "c_name", "counts": False, "bytes": None,
             "rounds": 5, "ours_seconds": [1, 2, 3], "peer_seconds": [2, 4, 6],
             "ratio": [7.0, 8.0, 9.0]},
            {"group": "FSST size", "input": "wiki", "counts": True, "bytes": 100,
             "ours_bytes": 40, "peer_bytes": 50},
        ])
        cases, figures = record.peers(lines)
        self.assertEqual(cases[0]["ours_mb_per_s"], 0.5)
        self.assertEqual(cases[1]["peer_ms"], 4000)
        self.assertEqual([one["value"] for one in figures], [2.0, 8.0, 1.25])
        self.assertEqual((figures[0]["low"], figures[0]["high"]), (1.9, 2.1))
        means = record.means({"cases": cases, "figures": figures})
        self.assertEqual([one["value"] for one in means], [2.0, 1.25])

    def test_lines_of_quickstart(self):
        text = (
            "\nlineitem\n" "column      type   encoding\n"
            "l_comment   Utf8View  fsst   600,572  1,000  300  3.33  2.1  400  900\n"
            "total       Arrow IPC file      600,572  130,812,345  18,412,345   7.10      612   2,601\n")
        cases, figures = record.tables_of(text)
        self.assertEqual(cases[0]["case"], "lineitem")
        self.assertEqual([one["value"] for one in figures], [18412000, 612, 2601])

    def test_lines_of_planning(self):
        text = (
            "Balanced, 60 columns\n"
            "  all                                        210 MB/s  tables   3.1 %"
            "  planning  15.0 %  choice  17.2 %\n")
        cases, figures = record.shares(text)
        self.assertEqual(figures[0]["value"], 210)
        self.assertEqual(cases[0]["choice_percent"], 17.2)

    def test_lines_of_ratios(self):
        text = (
            "file,column,type,rows,raw_bytes,packed_bytes,encoding,round_trip\n"
            "a.parquet,value,Utf8,10,100,40,fsst,ok\n"
            "a.parquet,*,,10,100,50,,ok\n" "b.parquet,*,,10,200,70,,ok\n")
        cases, figures = record.sizes("strings", "balanced", text)
        self.assertEqual(figures[0]["value"], 120)
        self.assertEqual(cases[0]["arrow_bytes"], 300)
        with self.assertRaises(record.Problem):
            record.sizes("strings", "balanced", text.replace("70,,ok", "70,,DIFFERENT"))


class Tables(unittest.TestCase):
    """Figures of records in a repository of one document."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "docs/benchmarks").mkdir(parents=True)
        self.definitions = types.SimpleNamespace(
            DEVICES={"gpu": "NVIDIA H200", "cpu": None}, DOCUMENTS=["README.md"],
            SETS={"both": ["wiki", "uuid"]}, DRAWINGS={}, TABLES={
                "decode": (["file", "GB/s", "ratio"], [
                    ["wiki", "{decode: wiki: speed}", "{decode: wiki: ratio}"],
                ]),
            })

    def add(self, one):
        path = self.root / "docs/benchmarks" / record.file_name(one)
        path.write_text(record.text_of(one))

    def written(self, text):
        """The document after its figures were written."""
        path = self.root / "README.md"
        path.write_text(text)
        record.write_tables(self.root, definitions=self.definitions, out=io.StringIO())
        return path.read_text()

    def checked(self):
        out = io.StringIO()
        return record.write_tables(self.root, True, self.definitions, out), out.getvalue()

    def fails(self, text, message):
        with self.assertRaises(record.Problem) as caught:
            self.written(text)
        self.assertIn(message, str(caught.exception))

    def test_each_figure_is_of_the_newest_record_that_has_it(self):
        self.add(document(figure(1234.5, 1, 1), figure(4, 4, 4, metric="ratio")))
        self.add(document(figure(2345.6, 1, 1), commit="fedcba9876543210", date="2026-11-25"))
        self.assertEqual(
            self.written("<!-- record: decode -->\n<!-- /record -->\n"),
            "<!-- record: decode -->\n"
            "| file | GB/s | ratio |\n"
            "|---|--:|--:|\n"
            "| wiki | 2,350 | 4.00 |\n"
            "\n"
            "NVIDIA H200, commits "
            "[fedcba9](docs/benchmarks/gpu-h200-2026-11-25-fedcba9.json) (2026-11-25), "
            "[0123456](docs/benchmarks/gpu-h200-2026-11-24-0123456.json) (2026-11-24).\n"
            "<!-- /record -->\n")
        self.assertEqual(self.checked(), (0, ""))

    def test_records_of_one_date_need_the_time_of_day(self):
        text = "<!-- record: decode: wiki: speed --><!-- /record -->"
        early = document(figure(1, 1, 1))
        late = document(figure(2, 2, 2), commit="fedcba9876543210")
        self.add(early)
        self.add(late)
        self.fails(text, "expected dates with the time of day")
        self.add(early | {"date": "2026-11-24T09:00Z"})
        self.fails(text, "expected dates with the time of day")
        self.add(late | {"date": "2026-11-24T10:00Z"})
        self.assertIn(">2.00<", self.written(text))

    def test_other_gpus_are_left_out(self):
        self.add(document(figure(1, 1, 1)))
        self.add(document(figure(2, 2, 2), device="NVIDIA H100", date="2026-11-25"))
        text = self.written("<!-- record: decode: wiki: speed --><!-- /record -->")
        self.assertIn(">1.00<", text)

    def test_figures_of_cpus_are_of_the_machine_of_the_newest_record(self):
        sizes = figure(10, 10, 10) | {"suite": "sizes"}
        speed = figure(20, 20, 20) | {"suite": "quickstart"}
        cpu = {"kind": "cpu", "cases": []}
        self.add(document(sizes, device="Xeon", **cpu))
        self.add(document(speed, device="EPYC", date="2026-11-25", **cpu))
        text = self.written("<!-- record: quickstart: wiki: speed --><!-- /record -->")
        self.assertIn(">20.0<", text)
        self.fails("<!-- record: sizes: wiki: speed --><!-- /record -->", "sizes: wiki: speed")

    def test_means_quotients_and_what_records_say_beside_figures(self):
        uuid = figure(400, 1, 1) | {"case": "uuid"}
        case = {"suite": "decode", "case": "wiki", "encoding": "fsst", "kernels": {
            "a": 1.25, "b": 1000, "c": 3, "d": 4, "e": 5,
        }}
        peer = figure(1.5, 1, 2, "ratio to peer") | {"suite": "FFOR (peer: fastlanes)"}
        self.add(document(figure(100, 1, 1), uuid, peer, cases=[case], limits={"copy": 4200.0}))
        for name, value in {
            "decode: mean of both: speed": "200",
            "decode: wiki: speed / 1000": "0.100",
            "decode: wiki: encoding": "fsst",
            "decode: wiki: kernels.a": "1.25",
            "decode: wiki: kernels": "b 1,000, e 5.00, d 4.00, c 3.00",
            "decode: record: limits.copy": "4,200",
            "FFOR (peer: fastlanes): wiki: ratio to peer": "1.50",
        }.items():
            text = self.written(f"At <!-- record: {name} -->1<!-- /record --> GB/s.")
            self.assertEqual(text, f"At <!-- record: {name} -->{value}<!-- /record --> GB/s.")

    def test_a_changed_figure_is_found(self):
        self.add(document(figure(100, 1, 1)))
        text = self.written("<!-- record: decode: wiki: speed --><!-- /record -->\n")
        (self.root / "README.md").write_text(text.replace("100", "101"))
        differ, out = self.checked()
        self.assertEqual(differ, 1)
        self.assertIn("-<!-- record: decode: wiki: speed -->101<!-- /record -->", out)
        self.assertIn("+<!-- record: decode: wiki: speed -->100<!-- /record -->", out)
        self.assertIn("101", (self.root / "README.md").read_text())

    def test_unknown_names_are_errors(self):
        self.add(document(figure(100, 1, 1)))
        self.fails("<!-- record: decode: wiki: of copy --><!-- /record -->",
                   "README.md: expected a figure that a record has, found decode: wiki: of copy")
        self.fails("<!-- record: decode -->\n<!-- /record -->\n", "decode: wiki: ratio")
        self.fails("<!-- record: encode -->\n<!-- /record -->\n", "found encode")
        self.fails("<!-- record: decode: mean of all: speed --><!-- /record -->", "mean of all")

    def test_markers_without_an_end_are_errors(self):
        self.add(document(figure(100, 1, 1)))
        one = "<!-- record: decode: wiki: speed -->"
        self.fails(one, "README.md")
        self.fails(f"{one}100{one}100<!-- /record -->", "expected <!-- /record -->")
        self.fails("<!-- /record -->", "README.md")


class Documents(unittest.TestCase):
    """Figures in README.md and docs."""

    def test_they_are_those_of_the_records(self):
        out = io.StringIO()
        differ = record.write_tables(record.ROOT, check=True, out=out)
        self.assertEqual(differ, 0, f"run scripts/record tables\n{out.getvalue()}")

    def test_each_table_is_in_a_document(self):
        texts = [(record.ROOT / name).read_text() for name in tables.DOCUMENTS]
        for name in tables.TABLES:
            self.assertEqual(sum(f"<!-- record: {name} -->\n" in text for text in texts), 1, name)

    def test_each_file_with_a_changed_figure_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            shutil.copytree(record.ROOT / "docs", root / "docs")
            shutil.copy(record.ROOT / "README.md", root)
            changes = {
                "README.md": "| a copy of the raw array, for comparison | ",
                "docs/benchmarks/GPU.md": "<!-- record: decode: record: limits.copy_gb_per_s -->",
                "docs/scans.svg": 'font-size="10" fill="#444444">',
            }
            for number, (name, before) in enumerate(changes.items(), 1):
                path = root / name
                text = path.read_text()
                self.assertIn(before, text)
                path.write_text(text.replace(before, before + "1", 1))
                out = io.StringIO()
                self.assertEqual(record.write_tables(root, check=True, out=out), number)
                self.assertIn(f"--- {name}", out.getvalue())


class Numbers(unittest.TestCase):
    def test_they_have_three_digits(self):
        for value, text in {
            0: "0", 0.08424: "0.0842", 1.0: "1.00", 9.999: "10.0", 45.131: "45.1", 99.96: "100",
            548.33: "548", 3463.7: "3,460", 26008.0: "26,000", 12: "12.0",
        }.items():
            self.assertEqual(figures.text_of(value), text)


if __name__ == "__main__":
    unittest.main()
