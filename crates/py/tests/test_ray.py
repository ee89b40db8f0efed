"""Sweeps and statistics on a Ray cluster of three nodes of this machine, one of which goes away."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import seekless.ray

ROOT = Path(__file__).resolve().parents[3]
SWEEP = """\
traces = "{root}/data/{trace}"
volumes = "caching.toml"
options.layer.cache.write = ["back", "through"]
options.layer.cache.size = {{ from = "1MiB", to = "{kib}KiB", step = "256KiB" }}
outstanding = [1, 8]
"""


def program(*words):
    """Return what the program of the package prints."""
    done = subprocess.run([sys.executable, "-m", "seekless", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def written_sweep(folder, tasks, trace="svnserver2"):
    """Write a sweep of some tasks, a multiple of four."""
    Path(folder, "caching.toml").write_bytes((ROOT / "examples/caching.toml").read_bytes())
    file = Path(folder, "sweep.toml")
    file.write_text(SWEEP.format(root=ROOT, trace=trace, kib=1024 + 256 * (tasks // 4 - 1)))
    return str(file)


def shards(folder, count):
    """Cut a recording into shards that follow each other."""
    import pyarrow.parquet

    whole = Path(folder, "whole.parquet")
    program("trace", "convert", str(ROOT / "data/vmboot"), "-o", str(whole))
    table = pyarrow.parquet.read_table(whole)
    for number in range(count):
        begin, end = len(table) * number // count, len(table) * (number + 1) // count
        pyarrow.parquet.write_table(table.slice(begin, end - begin), Path(folder, f"shard-{count - number}.parquet"))
    return whole


class Words(unittest.TestCase):
    def test_options_are_those_of_the_program(self):
        words = seekless.ray.words_of({"interval": "1d", "skip_bad": True, "device_size": None})
        self.assertEqual(words, ["--interval", "1d", "--skip-bad"])

    def test_a_pattern_without_files_is_an_error(self):
        for call in (lambda: seekless.ray.stats("/nowhere/*.parquet"), lambda: seekless.ray.stats([])):
            with self.assertRaisesRegex(seekless.UsageError, "found no file"):
                call()
        with self.assertRaisesRegex(seekless.UsageError, "fan_in: found 1"):
            seekless.ray.stats("a", fan_in=1)
        with self.assertRaisesRegex(seekless.UsageError, "batch_s: found 0"):
            seekless.ray.sweep("a.toml", batch_s=0)

    @unittest.skipIf(importlib.util.find_spec("ray"), "ray is here")
    def test_without_ray_the_error_says_how_to_install_it(self):
        with tempfile.TemporaryDirectory() as folder:
            file = written_sweep(folder, 4)
            with self.assertRaisesRegex(seekless.UsageError, r"pip install seekless\[ray\]"):
                seekless.ray.sweep(file)


@unittest.skipUnless(importlib.util.find_spec("ray"), "no ray here")
@unittest.skipUnless(os.environ.get("SEEKLESS_RAY"), "a cluster takes a minute: SEEKLESS_RAY=1, as make soak")
class OnACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import ray
        from ray.cluster_utils import Cluster

        cls.folder = tempfile.TemporaryDirectory()
        # The head has no cores: with one on each of the others, they share this machine's.
        cls.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        cores = max(1, (os.cpu_count() or 3) // 2)
        cls.nodes = [cls.cluster.add_node(num_cpus=cores) for _ in range(2)]
        ray.init(address=cls.cluster.address, log_to_driver=False)

    @classmethod
    def tearDownClass(cls):
        import ray

        ray.shutdown()
        cls.cluster.shutdown()
        cls.folder.cleanup()

    def test_a_sweep_has_the_same_table_with_a_node_removed(self):
        tasks = int(os.environ.get("SEEKLESS_RAY_TASKS", "24"))
        file = written_sweep(self.folder.name, tasks)
        alone, cluster, cut = (Path(self.folder.name, name) for name in ("alone", "cluster", "cut"))
        begin = time.perf_counter()
        report = json.loads(program("lab", "sweep", file, "--out", str(alone), "--json"))
        alone_s, begin = time.perf_counter() - begin, time.perf_counter()
        self.assertEqual(seekless.ray.sweep(file, cluster), report)
        cluster_s = time.perf_counter() - begin
        print(f"ray: {tasks} tasks: {alone_s:.1f} s alone, {cluster_s:.1f} s on the cluster", file=sys.stderr)
        seen = []

        def remove(done, of):
            seen.append((done, of))
            if len(seen) == max(1, of // 3):
                threading.Thread(target=self.cluster.remove_node, args=(self.nodes.pop(),)).start()

        self.assertEqual(seekless.ray.sweep(file, cut, progress=remove), report)
        self.assertEqual(seen[-1][0], seen[-1][1])
        self.nodes.append(self.cluster.add_node(num_cpus=max(1, (os.cpu_count() or 3) // 2)))
        tables = [folder.joinpath("table.parquet").read_bytes() for folder in (alone, cluster, cut)]
        self.assertEqual(tables[0], tables[1])
        self.assertEqual(tables[0], tables[2])

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "no pyarrow here")
    def test_statistics_of_shards_are_those_of_the_whole(self):
        whole = shards(self.folder.name, 5)
        merged = seekless.ray.stats(f"{self.folder.name}/shard-*.parquet", fan_in=2)
        self.assertEqual(merged, json.loads(program("trace", "stats", str(whole), "--json")))

    def test_an_error_of_a_task_is_that_of_the_program(self):
        bad = Path(self.folder.name, "bad.csv")
        bad.write_text("hello\n")
        with self.assertRaisesRegex(seekless.SeeklessError, 'bad.csv.*found "hello"'):
            seekless.ray.stats(bad)


if __name__ == "__main__":
    unittest.main()
