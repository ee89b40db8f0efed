"""Block traces as data frames, simulated drives, and a laboratory for block storage layers.

    >>> import seekless
    >>> trace = seekless.read("data/mail")
    >>> trace.stats()["partial_determinism_pct"]
    >>> seekless.compare(["none", "borg"], trace=trace, bopt="512MiB")["net_reduction_pct"]

Times are in nanoseconds where a name ends in ``_ns``, in seconds in ``_s``, in milliseconds in ``_ms``; sizes are in
bytes, sectors have 512. Options are those of the program's command line, with ``_`` for ``-``: ``bopt="1GiB"`` is
``--bopt 1GiB``. Errors are of the kinds of :class:`SeeklessError`, with the program's words.
"""

from ._results import Comparison, Figure, Result, compare, figure, run
from ._seekless import (
    Drive,
    DriveError,
    Page,
    SeeklessError,
    Table,
    Trace,
    TraceError,
    UsageError,
    VolumeError,
    WorkloadError,
    __version__,
    drives,
    read,
)

__all__ = [
    "Comparison",
    "Drive",
    "DriveError",
    "Figure",
    "Page",
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
    "figure",
    "read",
    "run",
]
