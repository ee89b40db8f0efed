"""Eviction policies in Python have the results of the program's own; their mistakes are clear errors."""

import signal
import subprocess
import sys
import unittest
from pathlib import Path

import seekless

sys.path.insert(0, str(Path(__file__).parent))
from policies import Lru, PinnedLru, S3Fifo  # noqa: E402

TRACE = "data/svnserver2"


def volume(policy, write="back", size="16MiB", disk=None, **more):
    cache = {"over": "disk", "size": size, "policy": policy, "write": write, **more}
    return {
        "component": {"disk": {"drive": "wd-re3-1tb", **(disk or {})}},
        "layer": {"cache": cache},
        "export": [{"top": "cache"}],
    }


def many(policy, decisions=64):
    return type(policy.__name__, (policy,), {"decisions": decisions})


class Around(PinnedLru):
    """Fetches eight pages before a read that missed and eight after it, if one of them is used already."""

    def __init__(self, pages):
        super().__init__(pages)
        self.used = set()

    def insert(self, page):
        super().insert(page)
        self.used.add(page)

    def remove(self, page):
        super().remove(page)
        self.used.discard(page)

    def evict(self):
        page = super().evict()
        self.used.discard(page)
        return page

    def prefetch(self, page, pages):
        around = [*range(max(page - 8, 0), page), *range(page + pages, page + pages + 8)]
        return around if any(each in self.used for each in around) else []


WITH = [("lru", {"prefetch": "64KiB"}), ("around", {}), ("lru", {})]


class Exact(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.trace = seekless.read(TRACE, latencies=False)

    def test_one_decision_at_a_time_is_the_compiled_policy(self):
        mine = {"my-lru": PinnedLru, "my-s3": S3Fifo}
        volumes = [volume(policy, "through") for policy in ("lru", "my-lru", "s3-fifo", "my-s3")]
        volumes += [volume(policy) for policy in ("lru", "my-lru")]
        compared = seekless.compare(volumes, trace=self.trace, policies=mine)
        variants = [
            {key: value for key, value in variant.items() if key != "name"} for variant in compared["variants"]
        ]
        for ours, theirs in zip(variants[::2], variants[1::2], strict=True):
            self.assertGreater(ours["layers"]["cache"]["hits"], 9000)
            changed = {key for key in ours if not key.startswith("net_") and ours[key] != theirs[key]}
            self.assertEqual(changed, set())
        self.assertEqual(len({variant["event_hash"] for variant in variants}), 3)

    def test_hits_are_those_of_the_compiled_policies(self):
        mine = {"my-lru": Lru, "my-s3": S3Fifo}
        for ours, theirs in (("lru", "my-lru"), ("s3-fifo", "my-s3")):
            rows = seekless.hits(self.trace, policies=mine, policy=f"{ours},{theirs}", size=["16MiB", "64MiB"])
            hits = {(row["policy"], row["bytes"]): row["hits"] for row in rows}
            for size in (16 << 20, 64 << 20):
                self.assertEqual(hits[ours, size], hits[theirs, size])
        listed = seekless.hits(self.trace, policies={"mine": Lru}, size="4MiB")
        self.assertEqual([row["policy"] for row in listed][-2:], ["drop-when-read", "mine"])

    def test_many_decisions_at_once_cost_few_hits(self):
        for policy in (Lru, PinnedLru, S3Fifo):
            ratios = []
            for mine in (policy, many(policy)):
                result = seekless.run(volume("mine"), trace=self.trace, policies={"mine": mine})
                cache = result["layers"]["cache"]
                ratios.append(100 * cache["hits"] / (cache["hits"] + cache["misses"]))
            self.assertAlmostEqual(*ratios, delta=0.2)

    def test_what_is_fetched_is_that_of_the_compiled_option(self):
        mine = {"around": Around}
        disk = {"scheduler": "sptf", "depth": 4, "freeblock": "weighted"}
        volumes = [volume(policy, disk=disk, **more) for policy, more in WITH]
        ours, theirs, none = seekless.compare(volumes, trace=self.trace, policies=mine)["variants"][-3:]
        self.assertGreater(ours["layers"]["cache"]["prefetched"], 100)
        self.assertEqual(none["layers"]["cache"]["prefetched"], 0)
        self.assertEqual(ours["layers"], theirs["layers"])
        self.assertEqual(ours["event_hash"], theirs["event_hash"])
        later = seekless.run(volume("mine", disk=disk), trace=self.trace, policies={"mine": many(Around)})
        self.assertGreater(later["layers"]["cache"]["prefetched"], 10)

    def test_a_run_may_call_another_one(self):
        inner = []

        class Curious(Lru):
            def __init__(self, pages):
                super().__init__(pages)
                inner.append(seekless.run("none", workload="random", requests=10)["requests"])

        rows = seekless.hits(self.trace, policies={"curious": Curious}, policy=["curious", "lru"], size="16MiB")
        self.assertEqual(rows[0]["hits"], rows[1]["hits"])
        self.assertEqual(inner, [10])


class Raises(Lru):
    def hit(self, page):
        raise KeyError(page)


class FetchesNonsense(Lru):
    def prefetch(self, page, pages):
        return [page + pages, -1]


class RaisesLater(Lru):
    def evict(self):
        return [][0]


class Lacks:
    def __init__(self, pages):
        pass

    def insert(self, page):
        pass


class Unknown(Lru):
    def evict(self):
        return 1 << 40


class Twice(Lru):
    def evict(self):
        return next(iter(self.queue))


class Unwilling(Lru):
    def evict(self):
        return None


class Wordy(Lru):
    def evict(self):
        return "page"


class Unmade:
    def __init__(self):
        pass


class Mistakes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.trace = seekless.read(TRACE, latencies=False)

    def expect(self, policy, message, cause=None):
        for call in (
            lambda mine: seekless.hits(self.trace, policies=mine, policy="mine", size="4MiB"),
            lambda mine: seekless.run(volume("mine"), trace=self.trace, policies=mine),
        ):
            with self.assertRaisesRegex(seekless.PolicyError, message) as raised:
                call({"mine": policy})
            found = raised.exception.__cause__
            self.assertIs(type(found), cause or type(None))
            if cause is not None:
                self.assertIsNotNone(found.__traceback__)

    def test_what_a_policy_raises_is_the_cause(self):
        self.expect(Raises, r"the policy mine: hit\(\d+\): KeyError: \d+", KeyError)
        self.expect(RaisesLater, r"the policy mine: evict\(\): IndexError: ", IndexError)
        self.expect(Unmade, r"the policy mine: __init__\(\d+\): TypeError: ", TypeError)

    def test_what_a_policy_lacks_is_named(self):
        self.expect(Lacks, r"found no hit\(\), expected insert, hit, remove, evict")
        fetching = {"trace": self.trace, "policies": {"mine": FetchesNonsense}}
        with self.assertRaisesRegex(seekless.PolicyError, r"prefetch\(\d+, \d+\): found -1, expected pages"):
            seekless.run(volume("mine"), **fetching)
        self.expect(many(Lru, 0), "decisions: found 0, expected 1 to 65536")

    def test_what_cannot_be_evicted_is_named(self):
        self.expect(Unknown, r"evict\(\): found 1099511627776, expected a page that was inserted")
        self.expect(Twice, r"evict\(\): found \d+, expected a page that was inserted")
        self.expect(many(Twice), r"evict\(\): found \d+, expected a page that was inserted")
        self.expect(Unwilling, r"evict\(\): found None, expected a page: ")
        self.expect(Wordy, r"evict\(\): found 'page', expected a page or None")

    def test_names(self):
        for name, message in (
            ("lru", "two policies named 'lru'"),
            ("none", "found 'none', expected a name"),
            ("My own", "found 'My own', expected a name"),
        ):
            with self.assertRaisesRegex(seekless.UsageError, message):
                seekless.hits(self.trace, policies={name: Lru})
        with self.assertRaisesRegex(seekless.UsageError, "mine: found 3, expected a class"):
            seekless.hits(self.trace, policies={"mine": 3})
        with self.assertRaisesRegex(seekless.UsageError, "found 'mien', expected one of lru, .*; perhaps mine"):
            seekless.hits(self.trace, policies={"mine": Lru}, policy="mien")
        with self.assertRaisesRegex(seekless.VolumeError, "found 'mine', expected one of lru"):
            seekless.run(volume("mine"), trace=self.trace)

    def test_ctrl_c_ends_a_policy_that_does_not_end(self):
        program = """
import seekless
class Endless:
    def __init__(self, pages): print("ready", flush=True)
    def insert(self, page):
        while True: pass
    hit = remove = insert
    def evict(self): return None
try:
    seekless.hits("data/svnserver2", policies={"mine": Endless}, policy="mine", size="1MiB")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as running:
            self.assertEqual(running.stdout.readline(), "ready\n")
            running.send_signal(signal.SIGINT)
            self.assertEqual(running.communicate(timeout=10)[0], "interrupted\n")


if __name__ == "__main__":
    unittest.main()
