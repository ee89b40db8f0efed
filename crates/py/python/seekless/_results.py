"""Results: dictionaries of the program's JSON, with their series as tables and their pictures."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from . import _seekless
from ._layer import Layer
from ._policy import Policy
from ._seekless import Page, Table, Trace

StrPath: TypeAlias = str | PathLike[str]
Volume: TypeAlias = StrPath | Mapping[str, Any]
"""A layer's name (``none`` for no layer), the path of a volume file, or the keys of one as a dictionary."""
TraceLike: TypeAlias = Trace | StrPath | Sequence[StrPath]
"""A trace that was read, or the files of one."""
Policies: TypeAlias = Mapping[str, Callable[[int], Policy]]
"""Eviction policies by name: classes, whose objects are made with the number of pages of a cache."""
Layers: TypeAlias = Mapping[str, Callable[..., Layer]]
"""Layers by name: classes, whose objects are made with the device below and the options of a volume file."""


def _flat(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the fields without lists; those of nested objects are named ``outer.inner``."""
    flat: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{name}."))
        elif not isinstance(value, list):
            flat[f"{prefix}{name}"] = value
    return flat


def _table(rows: Iterable[Mapping[str, Any]]) -> Table:
    listed = list(rows)
    names = dict.fromkeys(name for row in listed for name in row)
    return Table(list(names), json.dumps(listed))


def _html(rows: Sequence[Sequence[object]]) -> str:
    def row(cells: Sequence[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(_shown(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{row(rows[0], 'th')}{''.join(row(cells, 'td') for cells in rows[1:])}</table>"


def _shown(cell: object) -> str:
    return f"{cell:,.2f}" if isinstance(cell, float) else str(cell)


class Result(dict[str, Any]):
    """The result of a run: the dictionary of ``seekless lab run --json``, whose keys name the units."""

    @property
    def phases(self) -> Table:
        """A row for each phase of a trace; empty for a workload."""
        return _table(_flat(phase) for phase in self.get("phases", []))

    @property
    def reconfigurations(self) -> Table:
        """A row for each reconfiguration of a trace; empty for a workload."""
        done = self.get("reconfigurations", [])
        return _table(_flat(each) for each in (done if isinstance(done, list) else []))

    @property
    def figures(self) -> Table:
        """One row: every number and text of the run, nested ones as ``response_ms.reads.p99``."""
        return _table([_flat(self)])

    def _repr_html_(self) -> str:
        figures = _flat(self)
        return _html([("figure", "value"), *figures.items()])


class Comparison(dict[str, Any]):
    """The result of a comparison: the dictionary of ``seekless lab compare --json``, whose keys name the units."""

    def __init__(self, compared: _seekless.Compared) -> None:
        super().__init__(json.loads(compared.json()))
        self._compared = compared

    def _series(self, name: str) -> Table:
        return _table(
            {"variant": variant["name"], **_flat(row)} for variant in self["variants"] for row in variant[name]
        )

    @property
    def variants(self) -> Table:
        """A row for each variant, the base first, with every number and text of it."""
        return _table(_flat(variant) for variant in self["variants"])

    @property
    def phases(self) -> Table:
        """A row for each phase of each variant."""
        return self._series("phases")

    @property
    def reconfigurations(self) -> Table:
        """A row for each reconfiguration of each variant."""
        return self._series("reconfigurations")

    @property
    def seeks(self) -> Table:
        """A row for each bin of each variant's seeks: those of at most so long a distance, beyond the bin before."""
        return _table(
            {"variant": variant["name"], "distance_cylinders": distance, "seeks": seeks}
            for variant in self["variants"]
            for distance, seeks in variant["seek_histogram"]
        )

    def report(self) -> Page:
        """Return the page of ``seekless lab compare --report``."""
        return self._compared.report()

    def _repr_html_(self) -> str:
        keys = ("name", "busy_s", "seek_s", "rotation_s", "transfer_s", "net_reduction_pct")
        return _html([keys, *([variant[key] for key in keys] for variant in self["variants"])])


class Figure(dict[str, Any]):
    """A figure of a paper: the dictionary of ``seekless lab figure --json``, and its picture."""

    def __init__(self, fields: Mapping[str, Any], svg: str) -> None:
        super().__init__(fields)
        self.svg = svg
        """The picture, as the text of an SVG file."""

    @property
    def rows(self) -> Table:
        """The rows of the figure."""
        rows = next(value for key, value in self.items() if key not in _LISTS and isinstance(value, list))
        return _table(rows)

    def save(self, path: StrPath) -> None:
        """Write the picture to a file, which may be there already."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg


_LISTS = ("drives", "columns", "more", "paper", "notes")


def compare(
    volumes: Volume | Iterable[Volume],
    *,
    trace: TraceLike,
    policies: Policies | None = None,
    layers: Layers | None = None,
    **options: Any,
) -> Comparison:
    """Compare volumes on a trace in virtual time; the first is the base.

    Volumes are names of layers (a single one is compared with the bare drive), or paths or dictionaries of volume
    files. Options are those of ``seekless lab compare``: ``drive``, ``bopt``, ``reconfigure``, ``bounds`` and so on.
    Caches know the policies by their names, as ``policy = "mine"`` of the layer ``cache``, and volumes the layers; see
    :class:`Policy` and :class:`Layer`. Ctrl-C ends it within a second.
    """
    own = {"policies": _dictionary(policies), "layers": _dictionary(layers)}
    return Comparison(_seekless.compare(volumes, trace=trace, **own, **options))


def run(
    volume: Volume,
    *,
    trace: TraceLike | None = None,
    workload: str | None = None,
    policies: Policies | None = None,
    layers: Layers | None = None,
    **options: Any,
) -> Result:
    """Run a trace or a workload (``"oltp:mpl=20"``) on a volume in virtual time.

    The volume is the name of a layer, or the path or dictionary of a volume file. Options are those of ``seekless lab
    run``: ``drive``, ``requests``, ``size``, ``reads`` and so on. Policies and layers are as in :func:`compare`. Ctrl-C
    ends it within a second.
    """
    own = {"policies": _dictionary(policies), "layers": _dictionary(layers)}
    return Result(json.loads(_seekless.run(volume, trace=trace, workload=workload, **own, **options)))


def explore(
    volume: Volume, *, policies: Policies | None = None, layers: Layers | None = None, **options: Any
) -> dict[str, Any]:
    """Cut the power of a volume at critical moments, and fail its requests; check what a restart finds.

    The volume is the path or dictionary of a volume file; its components become memory that loses power. Options are
    those of ``seekless lab explore``: ``states``, ``requests``, ``workload``, ``seed`` and so on. Policies and layers
    are as in :func:`compare`. The dictionary is that of ``--json``: ``finding`` is the promise that is broken, or None;
    ``reduced`` and ``script`` are the few requests that it takes. Ctrl-C ends it within a second.
    """
    own = {"policies": _dictionary(policies), "layers": _dictionary(layers)}
    explored: dict[str, Any] = json.loads(_seekless.explore(volume, **own, **options))
    return explored


def hits(trace: TraceLike, *, policies: Policies | None = None, **options: Any) -> list[dict[str, Any]]:
    """Play a trace through caches without a disk: one for each policy and size.

    Options are those of ``seekless lab hits``: ``policy``, a list of names (all unless given, with those of
    ``policies``), and ``size``, a list of sizes. The dictionaries are those of ``--json``: ``hits`` and ``accesses``
    count pages of 4 KiB, ``bytes`` is the size of the cache. Ctrl-C ends it within a second.
    """
    return _seekless.hits(trace, policies=_dictionary(policies), **options)


def _dictionary(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if given is None else dict(given)


def figure(name: str, *, trace: TraceLike | None = None, **options: Any) -> Figure:
    """Simulate a figure of a paper, such as ``freeblock-5``; options are those of ``seekless lab figure``.

    A figure of a recording takes its files from ``data/`` in the current folder, unless ``trace`` names others.
    """
    fields, svg = _seekless.figure(name, trace=trace, **options)
    return Figure(json.loads(fields), svg)
