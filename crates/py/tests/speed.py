"""What Python costs: policies in whole runs, and layers. Run it in a checkout, with the package installed."""

import sys
import time
from pathlib import Path

import seekless

sys.path.insert(0, str(Path(__file__).parent))
from layers import Pass  # noqa: E402
from policies import Lru, S3Fifo  # noqa: E402
from test_layers import AsCoroutines  # noqa: E402
from test_policies import many, volume  # noqa: E402

TIMES = 5


def seconds(work):
    """Return the least processor time of a few, and the result."""
    best, result = float("inf"), None
    for _ in range(TIMES):
        before = time.process_time()
        result = work()
        best = min(best, time.process_time() - before)
    return best, result


def policies(name):
    trace = seekless.read(f"data/{name}", latencies=False)
    for compiled, policy in (("lru", Lru), ("s3-fifo", S3Fifo)):
        base = None
        for mine in (compiled, policy, many(policy)):
            own = {} if mine == compiled else {"mine": mine}
            described = volume("mine" if own else compiled)
            took, result = seconds(lambda described=described, own=own: seekless.run(described, trace=trace, policies=own))
            base = base or took
            cache = result["layers"]["cache"]
            hits = 100 * cache["hits"] / (cache["hits"] + cache["misses"])
            kind = "compiled" if not own else f"in Python, N = {getattr(mine, 'decisions', 1)}"
            print(f"{name:12} {compiled:8} {kind:18} {took:6.3f} s {took / base:5.2f} times  hits {hits:6.2f} %")


def layers():
    disk = {"component": {"disk": {"drive": "wd-re3-1tb"}}, "export": [{"top": "disk"}]}
    layered = {**disk, "layer": {"mine": {"over": "disk"}}, "export": [{"top": "mine"}]}
    for kind, described, layer in (
        ("no layer", disk, None),
        ("functions", layered, Pass),
        ("coroutines", layered, AsCoroutines),
    ):
        own = {"mine": layer} if layer else {}
        work = lambda described=described, own=own: seekless.run(  # noqa: E731
            described, workload="random", requests=40_000, size="4KiB", layers=own
        )
        took, result = seconds(work)
        print(f"{kind:12} {result['requests'] / took:9,.0f} requests a second")


for recording in ("svnserver2", "mail", "appstart2"):
    policies(recording)
layers()
