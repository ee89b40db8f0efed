"""Traces as tables: the columns, their units, and every library that takes them."""

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path

import seekless
from seekless._words import program

MAIL = "data/mail"
COLUMNS = [
    *("time_ns", "volume", "device", "op", "offset", "size", "sync", "meta", "ahead", "fua", "preflush"),
    *("pid", "process", "stream", "latency_ns"),
]


def needs(library):
    """Skip a test where a library is missing."""
    return unittest.skipUnless(importlib.util.find_spec(library), f"no {library} here")


class Traces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.trace = seekless.read(MAIL)

    def test_a_trace_knows_where_it_is_from(self):
        self.assertEqual((len(self.trace), self.trace.format), (70_396, "blktrace"))
        self.assertEqual([Path(path).name for path in self.trace.sources], ["mail.blktrace.0.xz", "mail.blktrace.1.xz"])
        self.assertIn("70396 requests", repr(self.trace))
        self.assertIn("mail.blktrace.0.xz", self.trace._repr_html_())

    def test_statistics_are_those_of_the_program(self):
        stats = self.trace.stats()
        self.assertEqual((stats["requests"], stats["reads"], stats["flushes"]), (70_394, 24_269, 2))
        self.assertEqual(len(self.trace.stats(intervals=3)["working_sets"]), 3)
        with self.assertRaisesRegex(seekless.UsageError, "--interval: found [0-9]+ intervals, expected at most 1000"):
            self.trace.stats(interval="1ms")

    def test_a_report_is_one_page(self):
        page = self.trace.report()
        self.assertIn("<html", page.html)
        self.assertTrue(page._repr_html_().startswith('<iframe srcdoc="&lt;!'))
        with tempfile.TemporaryDirectory() as folder:
            page.save(Path(folder) / "mail.html")
            self.assertEqual((Path(folder) / "mail.html").read_text("utf-8"), page.html)

    def test_a_trace_is_converted_and_read_back(self):
        with tempfile.TemporaryDirectory() as folder:
            written = self.trace.convert(Path(folder) / "mail.parquet")
            self.assertEqual((written["records"], written["to"]), (len(self.trace), "parquet"))
            again = seekless.read(Path(folder) / "mail.parquet")
            self.assertEqual(json.dumps(again.stats()), json.dumps(self.trace.stats()))
            with self.assertRaisesRegex(seekless.SeeklessError, "found a file of that name"):
                self.trace.convert(Path(folder) / "mail.parquet")
            self.trace.convert(Path(folder) / "mail.parquet", force=True)
            with self.assertRaisesRegex(seekless.UsageError, "found no format in the name"):
                self.trace.convert(Path(folder) / "mail.unknown")

    def test_options_of_reading_are_those_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "a.csv"
            text.write_text("1.5,R,4096,512\n2.5,W,8192,1024\n")
            trace = seekless.read(text, columns="time:ms,op,offset:bytes,size:bytes")
            self.assertEqual((len(trace), trace.duration_ns), (2, 1_000_000))
            with self.assertRaisesRegex(seekless.UsageError, "time-unit"):
                seekless.read(text, time_unit="years")

    @needs("pyarrow")
    def test_an_arrow_table_has_the_columns_in_bytes_and_nanoseconds(self):
        import pyarrow

        table = pyarrow.table(self.trace)
        self.assertEqual((table.column_names, table.num_rows), (COLUMNS, 70_396))
        table.validate(full=True)
        stats = self.trace.stats()
        written = table.filter(pyarrow.compute.field("op").cast("string") == "write")
        self.assertEqual(pyarrow.compute.sum(written["size"]).as_py() / 2**30, stats["write_gib_total"])
        self.assertEqual(table["time_ns"][-1].as_py(), self.trace.duration_ns)
        self.assertEqual(pyarrow.schema(self.trace), table.schema)
        # A stream can be made again and again.
        self.assertEqual(pyarrow.table(self.trace), table)

    @needs("polars")
    def test_polars_takes_it_with_categories(self):
        import polars

        frame = polars.DataFrame(self.trace)
        self.assertEqual(frame.columns, COLUMNS)
        # A column called `len` would collide with this function's.
        counts = dict(frame.group_by(polars.col("op").cast(polars.String)).agg(polars.len()).iter_rows())
        self.assertEqual(counts, {"read": 24_269, "write": 46_125, "flush": 2})

    @needs("pandas")
    @needs("pyarrow")
    def test_pandas_takes_it(self):
        import pandas
        import pyarrow

        frame = pyarrow.table(self.trace).to_pandas()
        self.assertIsInstance(frame["process"].dtype, pandas.CategoricalDtype)
        self.assertEqual(list(frame.columns), COLUMNS)

    @needs("duckdb")
    @needs("pyarrow")
    def test_duckdb_queries_it(self):
        import duckdb

        trace = self.trace  # noqa: F841: DuckDB finds it by its name
        self.assertEqual(duckdb.sql("select count(*) from trace where op = 'read'").fetchall(), [(24_269,)])

    @needs("polars")
    def test_a_frame_is_written_and_read_back(self):
        import polars.testing

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "writes.parquet"
            frame = polars.DataFrame(self.trace).filter(polars.col("op") == "write")
            frame.write_parquet(path)
            again = seekless.read(path)
            self.assertEqual(len(again), 46_125)
            same = ["offset", "size", "pid", "process", "latency_ns", "sync"]
            polars.testing.assert_frame_equal(
                polars.DataFrame(again).select(same).cast({"process": polars.String}),
                frame.select(same).cast({"process": polars.String}),
            )


class Volumes(unittest.TestCase):
    def test_statistics_by_volume_are_those_of_the_program(self):
        fleet = seekless.read(MAIL).stats(by="volume", memory="64MiB")
        words = ("trace", "stats", MAIL, "--by", "volume", "--memory", "64MiB", "--json")
        self.assertEqual(fleet, json.loads(program(*words)))
        self.assertEqual([each["statistic"] for each in fleet["distribution"]][0], "requests")
        with self.assertRaisesRegex(seekless.UsageError, "'no-such' for '--by <WHAT>'"):
            seekless.read(MAIL).stats(by="no-such")


class Shards(unittest.TestCase):
    def test_merged_shards_are_one_pass(self):
        with tempfile.TemporaryDirectory() as folder:
            at = Path(folder)
            files = [at / f"{name}.csv" for name in ("mon", "tue")]
            for day, file in enumerate(files):
                rows = [f"{day * 100 + n},{'R' if n % 3 else 'W'},{n * n % 50 * 4096},4096" for n in range(90)]
                file.write_text("\n".join(rows) + "\n")
            how = {"columns": "time:s,op,offset:bytes,size:bytes"}
            for file in files:
                written = seekless.outline(file, file.with_suffix(".outline"), **how)
                self.assertEqual(written["requests"], 90)
            whole = at / "week"
            joined = seekless.merge_outlines([file.with_suffix(".outline") for file in files], whole)
            self.assertEqual((joined["shards"], joined["requests"]), (2, 180))
            for file in files:
                seekless.partial(file, file.with_suffix(".partial"), of=whole, interval="1min", **how)
            parts = [file.with_suffix(".partial") for file in reversed(files)]
            with self.assertRaisesRegex(seekless.SeeklessError, "no partial of mon.csv"):
                seekless.merge(parts[0])
            self.assertEqual(seekless.merge(parts, at / "both.partial")["shards"], 2)
            both = at / "both.csv"
            both.write_text("".join(file.read_text() for file in files))
            expected = seekless.read(both, **how).stats(interval="1min")
            self.assertEqual(seekless.merge(str(at / "both.part*")), expected)


class Errors(unittest.TestCase):
    def test_kinds_of_errors_have_the_words_of_the_program(self):
        with self.assertRaisesRegex(seekless.TraceError, "no-such: found no such trace, expected"):
            seekless.read("no-such")
        with self.assertRaisesRegex(seekless.DriveError, "no drive is called 'no-such'; expected"):
            seekless.Drive("no-such")
        with self.assertRaisesRegex(seekless.UsageError, "found 'x', expected a size such as 4GiB"):
            seekless.compare("borg", trace=MAIL, bopt="x")
        with self.assertRaisesRegex(seekless.UsageError, "found 'no-such', expected .*borg"):
            seekless.compare(["no-such"], trace=MAIL)
        with self.assertRaisesRegex(seekless.VolumeError, "no-such.toml: found .* expected a volume file"):
            seekless.compare(["no-such.toml"], trace=MAIL)
        with self.assertRaisesRegex(seekless.WorkloadError, "found 'no-such', expected one of: random"):
            seekless.run("none", workload="no-such")
        with self.assertRaisesRegex(seekless.UsageError, "no-such"):
            seekless.figure("no-such")
        with self.assertRaisesRegex(seekless.UsageError, "json: found an option of the program"):
            seekless.compare("borg", trace=MAIL, json=True)
        with self.assertRaisesRegex(seekless.UsageError, "unexpected argument '--no-such'"):
            seekless.compare("borg", trace=MAIL, no_such=1)
        with self.assertRaises(TypeError):
            seekless.read(3)

    def test_each_kind_is_an_error_of_the_package(self):
        for kind in ("UsageError", "TraceError", "DriveError", "VolumeError", "WorkloadError"):
            self.assertTrue(issubclass(getattr(seekless, kind), seekless.SeeklessError))

    def test_damaged_files_are_errors_with_their_place(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bad.parquet"
            seekless.read(MAIL).convert(path)
            whole = path.read_bytes()
            path.write_bytes(whole[: len(whole) // 2])
            with self.assertRaisesRegex(seekless.TraceError, "bad.parquet, byte"):
                seekless.read(path)
            path.write_bytes(b"")
            with self.assertRaisesRegex(seekless.TraceError, "an empty file"):
                seekless.read(path)


if __name__ == "__main__":
    unittest.main()
