"""The compiled part of the package."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, TypedDict, final

__all__ = [
    "Bell",
    "Compared",
    "Data",
    "Drive",
    "DriveError",
    "LayerError",
    "Page",
    "PolicyError",
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
    "now_ns",
    "program",
    "read",
    "run",
]

__version__: str

_Path: TypeAlias = str | PathLike[str]
_Paths: TypeAlias = _Path | Sequence[_Path]

class SeeklessError(Exception):
    """Base of all errors of this package."""

class UsageError(SeeklessError):
    """Invalid arguments or options."""

class TraceError(SeeklessError):
    """A trace that cannot be read, or does not fit."""

class DriveError(SeeklessError):
    """A drive that does not exist, or an invalid description."""

class VolumeError(SeeklessError):
    """An invalid description of a volume."""

class WorkloadError(SeeklessError):
    """A workload that does not exist, or invalid options."""

class PolicyError(SeeklessError):
    """An eviction policy in Python that raises, or chooses what cannot be evicted."""

class LayerError(SeeklessError):
    """A layer in Python that raises, does not answer, or answers what does not fit."""

class _Position(TypedDict):
    cylinder: int
    head: int
    sector: int
    sectors_per_track: int
    angle_ns: int

@final
class Table:
    def __new__(cls, names: Sequence[str], text: str) -> Table: ...
    def __len__(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Page:
    @property
    def html(self) -> str: ...
    def save(self, path: _Path) -> None: ...
    def _repr_html_(self) -> str: ...

@final
class Data:
    def __new__(cls, bytes: bytes) -> Data: ...
    @staticmethod
    def join(parts: Sequence[Data]) -> Data: ...
    @property
    def sectors(self) -> int: ...
    @property
    def is_hollow(self) -> bool: ...
    def cut(self, first: int, sectors: int) -> Data: ...
    def __bytes__(self) -> bytes: ...

@final
class Bell:
    def __new__(cls) -> Bell: ...
    @property
    def rung(self) -> bool: ...
    def ring(self) -> None: ...
    def silence(self) -> None: ...

@final
class Compared:
    def json(self) -> str: ...
    def report(self) -> Page: ...

@final
class Trace:
    def __len__(self) -> int: ...
    @property
    def format(self) -> str: ...
    @property
    def sources(self) -> list[PathLike[str]]: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def duration_ns(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def stats(self, **options: Any) -> dict[str, Any]: ...
    def report(self, **options: Any) -> Page: ...
    def convert(self, path: _Path, *, to: str | None = None, force: bool = False) -> dict[str, Any]: ...
    def _repr_html_(self) -> str: ...

@final
class Drive:
    def __new__(cls, name: _Path) -> Drive: ...
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def sectors(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def revolution_ns(self) -> int: ...
    @property
    def changes(self) -> list[str]: ...
    @property
    def description(self) -> dict[str, Any]: ...
    def toml(self) -> str: ...
    def position(self, lba: int) -> _Position: ...
    def service_times(self, trace: Trace | _Paths) -> Table: ...
    def fit(self, trace: Trace | _Paths, *, name: str | None = None) -> Drive: ...
    def validate(self, trace: Trace | _Paths) -> dict[str, Any]: ...
    def _repr_svg_(self) -> str: ...

def read(
    paths: _Paths,
    *,
    format: str | None = None,
    columns: str | None = None,
    record: str | None = None,
    time_unit: Literal["s", "ms", "us", "ns"] | None = None,
    sector_size: str | None = None,
    volume: str | None = None,
    skip_bad: bool = False,
    latencies: bool = True,
) -> Trace: ...
def drives() -> list[str]: ...
def compare(
    volumes: Any,
    *,
    trace: Trace | _Paths,
    policies: dict[str, Any] | None = None,
    layers: dict[str, Any] | None = None,
    **options: Any,
) -> Compared: ...
def edge(name: str) -> None: ...
def explore(
    volume: Any,
    *,
    policies: dict[str, Any] | None = None,
    layers: dict[str, Any] | None = None,
    **options: Any,
) -> str: ...
def now_ns() -> int: ...
def run(
    volume: Any,
    *,
    trace: Trace | _Paths | None = None,
    workload: str | None = None,
    policies: dict[str, Any] | None = None,
    layers: dict[str, Any] | None = None,
    **options: Any,
) -> str: ...
def hits(
    trace: Trace | _Paths, *, policies: dict[str, Any] | None = None, **options: Any
) -> list[dict[str, Any]]: ...
def figure(name: str, *, trace: Trace | _Paths | None = None, **options: Any) -> tuple[str, str]: ...
def program(by: Sequence[str], file: str, words: Sequence[str]) -> int: ...
