"""Sweeps and statistics of traces on a Ray cluster; ``pip install seekless[ray]``.

    >>> import ray, seekless.ray
    >>> ray.init(address="auto")
    >>> seekless.ray.sweep("sweep.toml", "/shared/results")["best"][0]
    >>> seekless.ray.stats("/shared/week/*.parquet", sample="1/64")["accessed_pages"]

All nodes read the same paths, such as those of a network file system. Work is done in processes of the program of this
package, one for each core. A node that goes away costs its running tasks, which Ray starts again on others.
"""

from __future__ import annotations

import importlib
import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ._seekless import SeeklessError, UsageError
from ._words import READING, StrPath, files_of, program, words_of, written

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the numbers of finished tasks of Ray and of all, as they finish."""

BATCH_S = 1.0
"""Tasks of a sweep are batched to about this time: starting one costs some 0.1 s."""
_PROBED = 4


def sweep(
    file: StrPath, out: StrPath | None = None, *, batch_s: float = BATCH_S, progress: Progress | None = None
) -> dict[str, Any]:
    """Run a sweep, as ``seekless lab sweep FILE --out OUT --json``; returns its report.

    ``out`` is a folder that all nodes share; by default the file's name with ``.results``. What it has already is not run
    again. Its ``table.parquet`` has the bytes that the program's own runner gives.
    """
    if batch_s <= 0:
        raise UsageError(f"batch_s: found {batch_s}, expected more than 0")
    path = Path(file).resolve()
    folder = Path(out).resolve() if out is not None else path.with_suffix(".results")
    tasks = len(program("lab", "sweep", str(path), "--list", "--json").splitlines())
    words = ("lab", "sweep", str(path), "--out", str(folder), "--threads", "1", "--json")
    batches = _batches(words, tasks, batch_s)
    run = _remote(_timed)
    refs = [run.remote(*words, "--shard", f"{number + 1}/{batches}") for number in range(batches)]
    _Steps(progress, batches).wait(refs)
    merged: dict[str, Any] = json.loads(program("lab", "sweep", "merge", str(path), str(folder), "--json"))
    return merged


def _batches(words: Sequence[str], tasks: int, batch_s: float) -> int:
    """Return the number of batches, by the times of one task and of a few; what these do is not done again."""
    if tasks < 4 * _PROBED:
        return max(tasks, 1)
    run = _remote(_timed)
    few = math.ceil(tasks / _PROBED)
    one_s: float = _get(run.remote(*words, "--shard", f"1/{tasks}"))
    few_s: float = _get(run.remote(*words, "--shard", f"2/{few}"))
    task_s = max((few_s - one_s) / (_PROBED - 1), 1e-3)
    return max(1, math.ceil(tasks / math.ceil(batch_s / task_s)))


def stats(
    paths: StrPath | Sequence[StrPath],
    *,
    sample: str = "1/1",
    fan_in: int = 8,
    progress: Progress | None = None,
    **options: object,
) -> dict[str, Any]:
    """Characterise a trace whose files are shards that follow each other in time, one file each.

    ``paths`` are files, or a pattern such as ``"week/*.parquet"``. Returns the dictionary of ``seekless trace stats
    --json`` of the whole trace: exact for ``sample="1/1"``; otherwise that share of pages and of pairs of requests is
    kept. Statistics of ``fan_in`` shards are merged at a time. Options are those of the command, such as
    ``interval="1d"`` or ``memory="4GiB"``.
    """
    if fan_in < 2:
        raise UsageError(f"fan_in: found {fan_in}, expected 2 or more")
    files = files_of(paths)
    reading = words_of({name: value for name, value in options.items() if name in READING})
    how = words_of({name: value for name, value in options.items() if name not in READING})
    merges, wide = 0, len(files)
    while wide > 1:
        wide = math.ceil(wide / fan_in)
        merges += wide
    steps = _Steps(progress, 2 * len(files) + merges)
    outline = _remote(_outline)
    whole = _module().put(_joined(_get(steps.wait([outline.remote(file, reading) for file in files]))))
    partial, merge = (_remote(function, num_returns=2) for function in (_partial, _merge))
    words = [*reading, *how, "--sample", sample]
    parts = steps.in_order([partial.remote(file, words, whole) for file in files])
    while len(parts) > 1:
        groups = [parts[at : at + fan_in] for at in range(0, len(parts), fan_in)]
        parts = steps.in_order([merge.remote(*group) for group in groups])
    with tempfile.TemporaryDirectory() as folder:
        last = Path(folder, "partial")
        last.write_bytes(_get(parts[0]))
        result: dict[str, Any] = json.loads(program("trace", "stats", "--merge", str(last), "--json"))
    return result


class _Steps:
    """Progress of tasks, of which there are several rounds."""

    def __init__(self, progress: Progress | None, tasks: int) -> None:
        self.progress, self.done, self.tasks = progress, 0, tasks

    def wait(self, refs: list[Any]) -> list[Any]:
        """Wait for tasks; the first error ends all of them."""
        left = list(refs)
        while left:
            ready, left = _module().wait(left)
            try:
                _get(ready)
            except BaseException:
                for ref in left:
                    _module().cancel(ref)
                raise
            self.done += len(ready)
            if self.progress is not None:
                self.progress(self.done, self.tasks)
        return refs

    def in_order(self, pairs: list[list[Any]]) -> list[Any]:
        """Wait for tasks that return the number of their first shard and a partial; the partials in that order."""
        self.wait([first for first, _ in pairs])
        numbers = _get([first for first, _ in pairs])
        ordered = sorted(zip(numbers, pairs, strict=True), key=lambda both: int(both[0]))
        return [part for number, (_, part) in ordered if number > 0]


def _module() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UsageError("found no module ray, expected it: pip install seekless[ray]") from error


def _remote(function: Callable[..., Any], num_returns: int = 1) -> Any:
    """Return the function as tasks that nodes which go away do not end."""
    options = {"num_cpus": 1, "num_returns": num_returns, "max_retries": -1, "scheduling_strategy": "SPREAD"}
    return _module().remote(**options)(function)


def _get(refs: Any) -> Any:
    """Return the values of tasks; errors of the program are those of this package."""
    ray = _module()
    try:
        return ray.get(refs)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, SeeklessError):
            raise error.cause from None
        raise


def _timed(*words: str) -> float:
    begin = time.perf_counter()
    program(*words)
    return time.perf_counter() - begin


def _outline(file: str, words: list[str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "outline")
        program("trace", "stats", file, *words, "--outline", str(out))
        return out.read_bytes()


def _joined(outlines: list[bytes]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        out, files = Path(folder, "all"), written(folder, outlines)
        program("trace", "stats", "--merge", *files, "--outline", str(out))
        return out.read_bytes()


def _partial(file: str, words: list[str], whole: bytes) -> tuple[int, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "partial")
        of = written(folder, [whole])
        text = program("trace", "stats", file, *words, "--partial", str(out), "--of", *of, "--json")
        first = json.loads(text)["first_shard"]
        # A shard without a request of the volume has none.
        return (first, out.read_bytes()) if first is not None else (0, b"")


def _merge(*parts: bytes) -> tuple[int, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        out, files = Path(folder, "partial"), written(folder, parts)
        text = program("trace", "stats", "--merge", *files, "--partial", str(out), "--json")
        return json.loads(text)["first_shard"], out.read_bytes()
