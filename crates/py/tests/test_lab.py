"""Volumes compared and run, figures, drives: the program's results as dictionaries and tables."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import seekless

ROOT = Path(__file__).resolve().parents[3]
BOOT = "data/vmboot"
SMALL = {"bopt": "64MiB", "reconfigure": 2}


def program(*words):
    """Run the program of the package in a process of its own."""
    return subprocess.run([sys.executable, "-m", "seekless", *words], capture_output=True, text=True, check=False)


def rows(table):
    """Return the rows of a table, by pyarrow."""
    import pyarrow

    return pyarrow.table(table).to_pylist()


has_pyarrow = unittest.skipUnless(importlib.util.find_spec("pyarrow"), "no pyarrow here")


class Comparisons(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.trace = seekless.read(BOOT)
        cls.compared = seekless.compare(["none", "borg"], trace=cls.trace, **SMALL)

    def test_a_comparison_is_the_dictionary_of_the_program(self):
        words = ["--layer", "none,borg", "--bopt", "64MiB", "--reconfigure", "2", "--json"]
        printed = program("lab", "compare", "--trace", BOOT, *words)
        self.assertEqual(json.loads(printed.stdout), dict(self.compared), printed.stderr)

    @has_pyarrow
    def test_series_are_tables(self):
        phases = rows(self.compared.phases)
        self.assertEqual({row["variant"] for row in phases}, {"none", "borg"})
        borg = self.compared["variants"][1]
        named = [row["name"] for row in phases if row["variant"] == "borg"]
        self.assertEqual(named, [phase["name"] for phase in borg["phases"]])
        self.assertEqual(rows(self.compared.variants)[1]["response_ms.all.p99"], borg["response_ms"]["all"]["p99"])
        self.assertEqual(len(self.compared.reconfigurations), len(borg["reconfigurations"]))
        seeks = [row for row in rows(self.compared.seeks) if row["variant"] == "none"]
        self.assertEqual(sum(row["seeks"] for row in seeks), self.compared["variants"][0]["seeks"])

    def test_a_comparison_has_a_page_and_a_table_in_a_notebook(self):
        self.assertIn("<html", self.compared.report().html)
        self.assertIn("<td>borg</td>", self.compared._repr_html_())

    def test_volumes_are_files_or_dictionaries(self):
        plain = {"component": {"disk": {"drive": "wd2500aaks"}}, "export": [{"top": "disk"}]}
        by_keys = seekless.compare([plain, plain], trace=self.trace)
        self.assertEqual([variant["name"] for variant in by_keys["variants"]], ["volume-1", "volume-2"])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plain.toml"
            path.write_text('[component.disk]\ndrive = "wd2500aaks"\n[[export]]\ntop = "disk"\n')
            by_file = seekless.run(path, trace=self.trace)
            self.assertEqual(by_file["busy_s"], by_keys["variants"][0]["busy_s"])
            with self.assertRaisesRegex(seekless.UsageError, "cannot be used with"):
                seekless.run(path, trace=self.trace, drive="wd2500aaks")
        with self.assertRaisesRegex(seekless.UsageError, "found the layer borg beside others"):
            seekless.compare([plain, "borg"], trace=self.trace)
        with self.assertRaisesRegex(seekless.VolumeError, "missing field `export`"):
            seekless.run({"component": {}}, trace=self.trace)


class Runs(unittest.TestCase):
    def test_a_workload_is_the_dictionary_of_the_program(self):
        result = seekless.run("none", workload="random", requests=500, size="4KiB", reads=67)
        line = "lab run --layer none --workload random --requests 500 --size 4KiB --reads 67 --json"
        self.assertEqual(json.loads(program(*line.split()).stdout), dict(result))
        self.assertEqual((len(result.figures), len(result.phases), len(result.reconfigurations)), (1, 0, 0))
        self.assertIn("requests_per_s", result._repr_html_())

    def test_a_trace_has_phases(self):
        result = seekless.run("borg", trace=BOOT, **SMALL)
        self.assertEqual(len(result.phases), len(result["phases"]))
        with self.assertRaisesRegex(seekless.UsageError, "a trace and a workload"):
            seekless.run("none", trace=BOOT, workload="random")
        with self.assertRaisesRegex(seekless.UsageError, "no trace and no workload"):
            seekless.run("none")

    def test_a_figure_has_rows_and_a_picture(self):
        figure = seekless.figure("freeblock-2", requests=200)
        self.assertEqual((figure["name"], len(figure.rows)), ("freeblock-2", len(figure["rows"])))
        self.assertTrue(figure._repr_svg_().startswith("<svg"))
        with tempfile.TemporaryDirectory() as folder:
            figure.save(Path(folder) / "2.svg")
            self.assertEqual((Path(folder) / "2.svg").read_text("utf-8"), figure.svg)


class Drives(unittest.TestCase):
    def test_a_drive_knows_where_sectors_are(self):
        drive = seekless.Drive("wd-re3-1tb")
        self.assertEqual((drive.name, drive.size), ("wd-re3-1tb", drive.sectors * 512))
        first = drive.position(0)
        self.assertEqual((first["cylinder"], first["head"], first["sector"]), (0, 0, 0))
        last = drive.position(drive.sectors - 1)
        self.assertGreater(last["cylinder"], 10_000)
        self.assertLess(last["angle_ns"], drive.revolution_ns)
        with self.assertRaisesRegex(seekless.UsageError, "lba: found sector"):
            drive.position(drive.sectors)
        self.assertIn("wd-re3-1tb", seekless.drives())
        self.assertTrue(drive._repr_svg_().startswith("<svg"))
        self.assertEqual(drive.description["rpm"], 7200)

    @has_pyarrow
    def test_service_times_are_sums_of_their_parts(self):
        trace = seekless.read(BOOT)
        served = rows(seekless.Drive("wd-re3-1tb").service_times(trace))
        self.assertEqual(len(served), len(trace))
        for before, after in zip(served, served[1:], strict=False):
            parts = (after[f"{part}_ns"] for part in ("seek", "rotation", "transfer", "overhead"))
            self.assertEqual(sum(parts), after["service_ns"])
            self.assertGreaterEqual(after["start_ns"], before["start_ns"] + before["service_ns"])

    def test_a_small_drive_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            far = Path(folder) / "far.csv"
            far.write_text(f"0,R,{10**15},512\n")
            with self.assertRaisesRegex(seekless.TraceError, "expected at most"):
                seekless.Drive("wd-re3-1tb").service_times(
                    seekless.read(far, columns="time:ms,op,offset:bytes,size:bytes")
                )

    @has_pyarrow
    def test_a_drive_is_fitted_to_its_own_times(self):
        true = seekless.Drive("quantum-atlas-10k")
        text = true.toml()
        with tempfile.TemporaryDirectory() as folder:
            # One whose command handling is described wrongly.
            wrong = Path(folder) / "wrong.toml"
            start = text.index("head_switch_us = ")
            end = text.index("\n", start)
            wrong.write_text(f"{text[:start]}head_switch_us = 5000.0{text[end:]}")
            lines, place = [], 1
            for _ in range(400):
                place = place * 48_271 % 2_147_483_647
                lines.append(f"0,R,{place % (true.sectors - 8) * 512},4096")
            requests = Path(folder) / "random.csv"
            requests.write_text("\n".join(lines) + "\n")
            trace = seekless.read(requests, columns="time:ms,op,offset:bytes,size:bytes")
            measured = Path(folder) / "measured.trace"
            self.measure(true, trace, measured)
            described = seekless.Drive(wrong)
            before = described.validate(seekless.read(measured, format="disksim-validate"))
            fitted = described.fit(seekless.read(measured, format="disksim-validate"), name="again")
            after = fitted.validate(seekless.read(measured, format="disksim-validate"))
            self.assertEqual(fitted.name, "again")
            self.assertTrue(fitted.changes)
            self.assertLess(after["paired_rms_ms"], before["paired_rms_ms"] / 2)

    @staticmethod
    def measure(drive, trace, path):
        """Write the service times of a drive as a validation trace."""
        import pyarrow

        times = pyarrow.table(drive.service_times(trace))["service_ns"].to_pylist()
        offsets = pyarrow.table(trace)["offset"].to_pylist()
        lines = (f"R Miss {at // 512} 8 {time / 1000:.3f} 0.000" for at, time in zip(offsets, times, strict=True))
        path.write_text("\n".join(lines) + "\n")


class Program(unittest.TestCase):
    def test_the_program_comes_with_the_package(self):
        done = program("--version")
        self.assertTrue(done.stdout.startswith(f"seekless {seekless.__version__}"), done.stderr)
        unknown = program("no-such")
        self.assertEqual((unknown.returncode, unknown.stdout), (2, ""))
        failed = program("trace", "stats", "no-such")
        self.assertEqual(failed.returncode, 1)
        self.assertTrue(failed.stderr.startswith("error: no-such: found no such trace"), failed.stderr)

    def test_command_lines_in_its_output_are_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "boot.html")
            self.assertEqual(program("trace", "report", BOOT, "-o", page).returncode, 0)
            text = Path(page).read_text("utf-8")
            self.assertIn(f"seekless trace report {BOOT} -o ", text)


if __name__ == "__main__":
    unittest.main()
