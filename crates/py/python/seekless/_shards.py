"""Traces in shards, and sweeps, on this machine or on several that share a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

from ._words import StrPath, files_of, program, words_of


def outline(paths: StrPath | Sequence[StrPath], out: StrPath, **options: object) -> dict[str, Any]:
    """Write the outline of a shard to ``out``: what the other shards need of it.

    ``paths`` are the files of the shard; options are those of :func:`read`. Returns what was written.
    """
    return _printed(_reading(paths, options) + ["--outline", fspath(out)])


def merge_outlines(outlines: StrPath | Sequence[StrPath], out: StrPath) -> dict[str, Any]:
    """Write the outline of a whole trace, of those of its shards in whatever order. Returns what was written."""
    return _printed(["--merge", "--outline", fspath(out), "--", *files_of(outlines)])


def partial(
    paths: StrPath | Sequence[StrPath],
    out: StrPath,
    *,
    of: StrPath | None = None,
    sample: str = "1/1",
    **options: object,
) -> dict[str, Any]:
    """Write the statistics of a shard to ``out``, to be merged with those of the others.

    ``of`` is the outline of the whole trace; without it, ``paths`` are all of it. ``sample="1/64"`` keeps one of 64
    pages, and of 64 pairs of requests. Options are those of :func:`read` and of :meth:`Trace.stats`. Returns what was
    written.
    """
    whole = [] if of is None else ["--of", fspath(of)]
    return _printed([*_reading(paths, options), "--partial", fspath(out), *whole, "--sample", sample])


def merge(partials: StrPath | Sequence[StrPath], out: StrPath | None = None) -> dict[str, Any]:
    """Merge statistics of shards, in whatever order.

    Returns the dictionary of :meth:`Trace.stats` for the whole trace, for which all shards have to be there. With
    ``out``, writes the merged statistics of neighbours, to be merged with others, and returns what was written.
    """
    to = [] if out is None else ["--partial", fspath(out)]
    return _printed(["--merge", *to, "--", *files_of(partials)])


def sweep(
    file: StrPath, out: StrPath | None = None, *, threads: int | None = None, page: StrPath | None = None
) -> dict[str, Any]:
    """Run a sweep on the processors of this machine, as ``seekless lab sweep``; returns its report.

    ``out`` is the folder of its results, by default the file's name with ``.results``; what it has already is not run
    again. ``page`` is a file for the report as a page of HTML.
    """
    options = words_of({"out": out, "threads": threads, "report": page})
    printed: dict[str, Any] = json.loads(program("lab", "sweep", fspath(file), *options, "--json"))
    return printed


def _reading(paths: StrPath | Sequence[StrPath], options: dict[str, object]) -> list[str]:
    """Return the words of files, and of options."""
    files = [paths] if isinstance(paths, str | PathLike) else list(paths)
    return [*(fspath(file) for file in files), *words_of(options)]


def _printed(words: list[str]) -> dict[str, Any]:
    printed: dict[str, Any] = json.loads(program("trace", "stats", "--json", *words))
    return printed
