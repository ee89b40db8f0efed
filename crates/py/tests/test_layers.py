"""Layers in Python: under traces, workloads and the explorer; their mistakes are clear errors."""

import signal
import subprocess
import sys
import traceback
import unittest
from pathlib import Path

import seekless

sys.path.insert(0, str(Path(__file__).parent))
from layers import Mirror, Pass, WriteBack  # noqa: E402

DISK = {"drive": "wd-re3-1tb"}


def volume(name, room="1GiB", **more):
    """A layer over a disk, or over a part of it; the key ``copy`` may name a second one."""
    return {
        "component": {"disk": DISK, "second": DISK},
        "slice": {
            "part": {"of": "disk", "size": room},
            "copy": {"of": "second", "size": room},
        },
        "layer": {name: {"over": "part", **more}},
        "export": [{"top": name}],
    }


def run(layer, workload="random", requests=100, **more):
    options = {"size": "4KiB"} if workload == "random" else {}
    return seekless.run(
        volume("mine", **more), workload=workload, requests=requests, layers={"mine": layer}, **options
    )


class AsGenerators(Pass):
    def read(self, start, sectors):
        return (yield self.below.read(start, sectors))

    def write(self, start, data):
        yield self.below.write(start, data)

    def flush(self):
        yield self.below.flush()


class AsCoroutines(Pass):
    async def read(self, start, sectors):
        return await self.below.read(start, sectors)

    async def write(self, start, data):
        await self.below.write(start, data)

    async def flush(self):
        return self.below.flush()


class Cleans(Pass):
    """Writes a sector of its own every second, beside all requests."""

    def __init__(self, below):
        super().__init__(below)
        self.counters = {"cleaned": 0}

    async def start(self):
        await seekless.spawn(self.clean())

    async def clean(self):
        while True:
            await seekless.sleep_ns(1_000_000_000)
            await self.below.write(self.below.sectors - 8, seekless.Data(bytes(4096)))
            self.counters["cleaned"] += 1


class Spawns(unittest.TestCase):
    def test_spawned_work_goes_on_beside_requests(self):
        done = run(Cleans, requests=1000)
        cleaned, seconds = done["layers"]["mine"]["cleaned"], done["elapsed_s"]
        self.assertGreater(seconds, 5)
        self.assertAlmostEqual(cleaned, seconds, delta=2)
        self.assertEqual(run(Cleans, requests=1000)["event_hash"], done["event_hash"])

    def test_what_spawned_work_raises_ends_the_run(self):
        class Wrong(Cleans):
            async def clean(self):
                await seekless.sleep_ns(1_000_000_000)
                raise ValueError("odd")

        with self.assertRaisesRegex(seekless.LayerError, "the layer mine: spawned work .*: ValueError: odd"):
            run(Wrong, requests=1000)

        class NoWork(Pass):
            async def start(self):
                await seekless.spawn(3)

        with self.assertRaisesRegex(seekless.LayerError, "found 3, expected a coroutine or a generator"):
            run(NoWork)


class Works(unittest.TestCase):
    def test_all_forms_of_a_method_are_the_same_run(self):
        trace = seekless.read("data/vmboot", latencies=False)
        layers = {"plain": Pass, "generators": AsGenerators, "coroutines": AsCoroutines}
        volumes = [volume(name, "100GiB") for name in layers]
        compared = seekless.compare(volumes, trace=trace, layers=layers)
        self.assertEqual(len({variant["event_hash"] for variant in compared["variants"]}), 1)
        self.assertGreater(compared["variants"][0]["busy_s"], 1)
        again = seekless.compare(["none", "plain"], trace=trace, layers=layers)
        self.assertEqual([variant["name"] for variant in again["variants"]], ["none", "plain"])

    def test_counters_options_and_further_devices(self):
        result = run(Mirror, copy="copy")
        self.assertEqual(result["failed"], 0)
        self.assertEqual(result["layers"]["mine"], {"reads": result["reads"]})

        class Takes(Pass):
            def __init__(self, below, size, shares):
                super().__init__(below)
                self.counters = {"size": size, "second": shares[1], "sectors": below.sectors}

        result = run(Takes, size=7, shares=[1, 2])
        self.assertEqual(result["layers"]["mine"], {"size": 7, "second": 2, "sectors": 1 << 21})

    def test_time_and_events(self):
        class Gathers(Pass):
            """Lets requests go on by fours, and the last ones after a second."""

            def __init__(self, below):
                super().__init__(below)
                self.full, self.waiting = seekless.Event(), 0
                self.counters = {"groups": 0}

            async def read(self, start, sectors):
                full = self.full
                self.waiting += 1
                if self.waiting == 4:
                    self.counters["groups"] += 1
                    self.waiting, self.full = 0, seekless.Event()
                    before = seekless.now_ns()
                    await seekless.sleep_ns(1_000_000_000)
                    assert seekless.now_ns() == before + 1_000_000_000
                    full.set()
                await full.wait()
                return await self.below.read(start, sectors)

        result = run(Gathers, "random:outstanding=4,reads=100", requests=40)
        self.assertEqual((result["layers"]["mine"]["groups"], result["failed"]), (10, 0))
        self.assertGreater(result["elapsed_s"], 10)
        with self.assertRaisesRegex(seekless.LayerError, "outside of a layer"):
            seekless.now_ns()

    def test_every_run_ends_with_a_stop(self):
        class Flushes(Pass):
            def __init__(self, below):
                super().__init__(below)
                self.counters = {"stops": 0, "flushes": 0}

            def flush(self):
                self.counters["flushes"] += 1
                return self.below.flush()

        class Stops(Flushes):
            def stop(self):
                self.counters["stops"] += 1
                return self.below.flush()

        trace = seekless.read("data/vmboot", latencies=False)

        def counted(layer):
            layers = {"mine": layer}
            compared = seekless.compare([volume("mine", "100GiB")] * 2, trace=trace, layers=layers)
            results = [*compared["variants"], seekless.run(volume("mine", "100GiB"), trace=trace, layers=layers)]
            return [result["layers"]["mine"] for result in [*results, run(layer)]]

        # Those of the trace, and the last one.
        with_stop, without = counted(Stops), counted(Flushes)
        self.assertEqual([each["stops"] for each in with_stop + without], [1] * 4 + [0] * 4)
        self.assertEqual([each["flushes"] + 1 for each in with_stop], [each["flushes"] for each in without])
        self.assertEqual(with_stop[3]["flushes"], 0)

    def test_errors_of_the_last_flush_are_seen(self):
        class Wrong(Pass):
            def flush(self):
                raise RuntimeError("not written")

        class Fails(Pass):
            def stop(self):
                raise seekless.IoError("worn out")

        trace = seekless.read("data/vmboot", latencies=False)
        on = {"trace": trace}, {"workload": "random:size=4KiB,reads=100", "requests": 10}
        for more in on:
            with self.assertRaisesRegex(seekless.LayerError, "the layer mine: flush .*not written"):
                seekless.run(volume("mine", "100GiB"), layers={"mine": Wrong}, **more)
        result = seekless.run(volume("mine", "100GiB"), layers={"mine": Fails}, **on[0])
        self.assertTrue(any("stop of mine: " in note and "worn out" in note for note in result["notes"]), result["notes"])
        with self.assertRaisesRegex(seekless.SeeklessError, "worn out"):
            seekless.run(volume("mine", "100GiB"), layers={"mine": Fails}, **on[1])

    def test_data(self):
        data = seekless.Data(bytes(512) + bytes([7]) * 1024)
        self.assertEqual((data.sectors, data.is_hollow), (3, False))
        self.assertEqual(bytes(data.cut(1, 1)), bytes([7]) * 512)
        joined = seekless.Data.join([data.cut(2, 1), data.cut(0, 1)])
        self.assertEqual(bytes(joined), bytes([7]) * 512 + bytes(512))
        for wrong in (lambda: data.cut(2, 2), lambda: data.cut(1 << 63, 1 << 63), lambda: seekless.Data(b"x")):
            self.assertRaises(ValueError, wrong)

    def test_the_error_of_a_device_is_caught_or_fails_the_request(self):
        class Broken(Pass):
            async def read(self, start, sectors):
                raise seekless.IoError("worn out", "corrupt")

        class Tolerant(Pass):
            async def read(self, start, sectors):
                try:
                    return await self.below.read(start, sectors)
                except seekless.IoError as error:
                    assert error.kind == "medium", error.kind
                    return seekless.Data(bytes(512 * sectors))

        result = run(Broken)
        self.assertEqual((result["reads"], result["writes"] + result["failed"]), (0, 100))
        self.assertRegex(result["first_failure"], r"mine: Corrupt at .*: worn out")
        failing = volume("mine")
        failing["layer"]["bad"] = {"is": "error", "over": "part", "rate_pct": 50, "ops": ["read"]}
        failing["layer"]["mine"]["over"] = "bad"
        for layer, fails in ((AsCoroutines, True), (Tolerant, False)):
            result = seekless.run(failing, workload="random", requests=100, layers={"mine": layer})
            self.assertEqual(result["failed"] > 0, fails)


class Explored(unittest.TestCase):
    def explore(self, layer, states=200, **more):
        options = {"requests": 60, "fault_requests": 80, "seed": 2, "unreduced": states > 10_000}
        return seekless.explore(volume("mine", "64KiB", **more), layers={"mine": layer}, states=states, **options)

    def test_a_layer_that_keeps_its_promises_is_explored(self):
        explored = self.explore(WriteBack)
        self.assertIsNone(explored["finding"])
        self.assertGreaterEqual(explored["states"], 100)
        self.assertGreater(explored["edges"]["a read is served from memory"], 0)

    def test_what_a_layer_loses_is_found(self):
        explored = self.explore(WriteBack, forgets=True)
        self.assertRegex(explored["reduced"], "found zeroes, .* expected write")
        self.assertIn("write", explored["script"])

    def test_two_copies_that_differ_after_a_failed_write_are_found(self):
        explored = self.explore(Mirror, states=20_000, copy="copy")
        self.assertIsNotNone(explored["finding"])

    def test_a_request_without_an_answer_is_found(self):
        class Forgets(Pass):
            async def flush(self):
                await seekless.Event().wait()

        self.assertRegex(self.explore(Forgets)["finding"], "stalled")

    def test_only_volumes_are_explored(self):
        with self.assertRaisesRegex(seekless.UsageError, "found the layer borg, expected a volume file"):
            seekless.explore("borg")


class Mistakes(unittest.TestCase):
    def expect(self, layer, message, cause=None):
        with self.assertRaisesRegex(seekless.LayerError, message) as raised:
            run(layer, "random:reads=100")
        found = raised.exception.__cause__
        self.assertIs(type(found), cause or type(None))
        return found

    def test_what_a_layer_raises_is_the_cause(self):
        class Raises(Pass):
            async def read(self, start, sectors):
                await self.below.read(start, sectors)
                raise KeyError("lost")

        message = r"the layer mine: read of 8 sectors at \d+ \(request 1, at .*s\): KeyError: 'lost'"
        cause = self.expect(Raises, message, KeyError)
        self.assertIn('raise KeyError("lost")', "".join(traceback.format_tb(cause.__traceback__)))

        class Unmade(Pass):
            def __init__(self):
                pass

        self.expect(Unmade, r"the layer mine: __init__\(\): TypeError", TypeError)

    def test_a_request_that_does_not_fit_is_raised_where_it_was_made(self):
        class Beyond(Pass):
            async def read(self, start, sectors):
                return await self.below.read(self.below.sectors, sectors)

        cause = self.expect(Beyond, "ValueError: .* expected an end of at most sector", ValueError)
        self.assertIn("self.below.sectors", "".join(traceback.format_tb(cause.__traceback__)))

    def test_an_answer_that_does_not_come_is_named(self):
        class Waits(Pass):
            async def read(self, start, sectors):
                await seekless.Event().wait()

        self.expect(Waits, r"the layer mine: read of 8 sectors at \d+ \(request 1, at .*\): found no answer: ")

    def test_a_second_answer_is_refused(self):
        class Yields(Pass):
            def read(self, start, sectors):
                data = yield self.below.read(start, sectors)
                yield data
                return data

        self.expect(Yields, r"\(request 1, .*an answer that was yielded, expected it returned: .* once")

        class Repeats(Pass):
            """One coroutine for two requests."""

            def read(self, start, sectors):
                self.same = getattr(self, "same", None) or self.reading(start, sectors)
                return self.same

            async def reading(self, start, sectors):
                return await self.below.read(start, sectors)

        self.expect(Repeats, r"\(request 2, .*cannot reuse already awaited coroutine", RuntimeError)

    def test_an_answer_that_does_not_fit_is_refused(self):
        for answer, found in (
            (None, "found nothing returned, expected Data of 8 sectors"),
            (seekless.Data(bytes(512)), "found 1 sectors returned, expected Data of 8 sectors"),
            ("text", "found 'text' returned, expected Data of 8 sectors"),
        ):

            class Answers(Pass):
                async def read(self, start, sectors, answer=answer):
                    return answer

            self.expect(Answers, found)

        class Awaits(Pass):
            def read(self, start, sectors):
                yield 3

        self.expect(Awaits, "found 3 awaited, expected requests to devices below")

    def test_counters_that_are_none(self):
        class Counts(Pass):
            counters = 3

        self.expect(Counts, "the layer mine: counters: AttributeError", AttributeError)

    def test_names_and_classes(self):
        lacking = type("Lacking", (), {"read": None, "write": None})
        for layers, message in (
            ({"borg": Pass}, "two layers named 'borg'"),
            ({"none": Pass}, "found 'none', expected a name"),
            ({"mine": lacking}, r"mine: found no flush\(\), expected read, write and flush"),
            ({"mine": 3}, "mine: found 3, expected a class"),
        ):
            with self.assertRaisesRegex(seekless.UsageError, message):
                seekless.run(volume("mine"), workload="random", layers=layers)
        with self.assertRaisesRegex(seekless.VolumeError, "'mine', expected a layer"):
            seekless.run(volume("mine"), workload="random")

    def test_ctrl_c_ends_a_run_with_layers(self):
        program = """
import sys
sys.path.insert(0, "crates/py/tests")
import seekless
from test_layers import AsCoroutines, volume
class Endless(AsCoroutines):
    async def read(self, start, sectors):
        while True:
            pass
print("ready", flush=True)
try:
    seekless.run(volume("mine"), workload="random", requests=10**9, layers={"mine": %s})
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
        for layer in ("Endless", "AsCoroutines"):
            words = [sys.executable, "-c", program % layer]
            with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
                self.assertEqual(running.stdout.readline(), "ready\n")
                with self.assertRaises(subprocess.TimeoutExpired):
                    running.wait(0.3)
                running.send_signal(signal.SIGINT)
                self.assertEqual(running.communicate(timeout=10)[0], "interrupted\n")


if __name__ == "__main__":
    unittest.main()
