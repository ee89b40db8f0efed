"""Block traces as data frames, simulated drives, and a laboratory for block storage layers.

    >>> import seekless
    >>> trace = seekless.read("data/mail")
    >>> trace.stats()["partial_determinism_pct"]
    >>> seekless.compare(["none", "borg"], trace=trace, bopt="512MiB")["net_reduction_pct"]

Times are in nanoseconds where a name ends in ``_ns``, in seconds in ``_s``, in milliseconds in ``_ms``; sizes are in
bytes, sectors have 512. Options are those of the program's command line, with ``_`` for ``-``: ``bopt="1GiB"`` is
``--bopt 1GiB``. Errors are of the kinds of :class:`SeeklessError`, with the program's words.
"""

from ._layer import Device, Event, IoError, Layer, Request, sleep_ns, spawn, together
from ._policy import Policy
from ._results import Comparison, Figure, Result, compare, explore, figure, hits, run
from ._seekless import (
    Data,
    Drive,
    DriveError,
    LayerError,
    Page,
    PolicyError,
    SeeklessError,
    Table,
    Trace,
    TraceError,
    UsageError,
    VolumeError,
    WorkloadError,
    __version__,
    drives,
    edge,
    now_ns,
    read,
)
from ._shards import merge, merge_outlines, outline, partial, sweep

__all__ = [
    "Comparison",
    "Data",
    "Device",
    "Drive",
    "DriveError",
    "Event",
    "Figure",
    "IoError",
    "Layer",
    "LayerError",
    "Page",
    "Policy",
    "PolicyError",
    "Request",
    "Result",
    "SeeklessError",
    "Table",
    "Trace",
    "TraceError",
    "UsageError",
    "VolumeError",
    "WorkloadError",
    "__version__",
    "compare",
    "drives",
    "edge",
    "explore",
    "figure",
    "hits",
    "merge",
    "merge_outlines",
    "now_ns",
    "outline",
    "partial",
    "read",
    "run",
    "sleep_ns",
    "spawn",
    "sweep",
    "together",
]
