"""Layers in Python: what a class has, the devices below it, and what its methods may wait for."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from ._seekless import Bell, Data, SeeklessError

T = TypeVar("T")
_READ, _WRITE, _FLUSH, _DISCARD, _SLEEP, _TOGETHER, _WAIT, _SPAWN = range(8)

class IoError(SeeklessError):
    """A request to a device failed. A layer may catch it, let it pass, or raise its own: the request fails."""

    def __init__(self, message: str, kind: str = "medium") -> None:
        super().__init__(message)
        self.kind = kind
        """What went wrong: medium, corrupt, timeout, gone, no-space, read-only, unsupported, invalid or aborted."""


class Request(tuple[int, int, int, int, Any], Generic[T]):
    """A request, carried out once it is awaited (or yielded, in a generator); the result is of type ``T``."""

    __slots__ = ()

    def __await__(self) -> Generator[Request[T], Any, T]:
        result: T = yield self
        return result


Work: TypeAlias = Coroutine[Any, Any, T] | Generator[Request[Any], Any, T] | Request[T] | T
"""What a method of a layer returns: a coroutine, a generator, one request whose result is the answer, or the answer."""


class Device:
    """A device below a layer. Places and sizes are in sectors of 512 bytes."""

    __slots__ = ("_number", "name", "sectors")

    def __init__(self, name: str, number: int, sectors: int) -> None:
        self.name = name
        """The key of a volume file that names it: ``over``, or one of the class's ``devices``."""
        self.sectors = sectors
        """Size, in sectors."""
        self._number = number

    def read(self, start: int, sectors: int) -> Request[Data]:
        """Read sectors from ``start`` on."""
        return Request((_READ, self._number, start, sectors, None))

    def write(self, start: int, data: Data) -> Request[None]:
        """Write sectors from ``start`` on."""
        return Request((_WRITE, self._number, start, 0, data))

    def flush(self) -> Request[None]:
        """Make the writes that have ended durable."""
        return Request((_FLUSH, self._number, 0, 0, None))

    def discard(self, start: int, sectors: int) -> Request[None]:
        """Give up sectors from ``start`` on: they read as zeroes or as before."""
        return Request((_DISCARD, self._number, start, sectors, None))


class Layer(Protocol):
    """What a layer has: a class, made with the device below and the options of a volume file as keywords.

    Methods are ``async``, or generators that yield requests, or return one :class:`Request`. Requests of overlapping
    pages of 4 KiB wait for each other before they reach a method. Besides these methods a class may have:

    - ``discard(start, sectors)``: sectors that are not needed; without it they read as before
    - ``start()`` before the first request, and ``stop()`` after the last one, which flushes unless it is there
    - ``counters``: a dictionary of numbers, for the results
    - ``devices``: keys of further devices in a volume file, which are keywords as the options are
    - ``transparent``: whether the device below has all data in its place once all is flushed
    - ``volatile``: whether acknowledged writes may be lost until a flush
    - ``edges``: names of rare places, which an exploration has to reach; each calls :func:`edge` there
    """

    def read(self, start: int, sectors: int) -> Work[Data]:
        """Return the sectors from ``start`` on."""

    def write(self, start: int, data: Data) -> Work[None]:
        """Write sectors from ``start`` on."""

    def flush(self) -> Work[None]:
        """Make the writes that have ended durable."""


class Event:
    """Something that one request waits for, and another one sets."""

    __slots__ = ("_bell",)

    def __init__(self) -> None:
        self._bell = Bell()

    def is_set(self) -> bool:
        """Whether it was set, and not cleared since."""
        return self._bell.rung

    def set(self) -> None:
        """Let all go on that wait, in the order in which they came."""
        self._bell.ring()

    def clear(self) -> None:
        """Let those wait that come from now on."""
        self._bell.silence()

    def wait(self) -> Request[None]:
        """Wait until it is set."""
        return Request((_WAIT, 0, 0, 0, self._bell))


def together(*requests: Request[T]) -> Request[list[T]]:
    """Carry out requests at the same time; their results are a list. All have ended before the first error is raised."""
    return Request((_TOGETHER, 0, 0, 0, requests))


def sleep_ns(time: int) -> Request[None]:
    """Wait this long in virtual time, in nanoseconds."""
    return Request((_SLEEP, 0, time, 0, None))


def spawn(work: Coroutine[Any, Any, None] | Generator[Request[Any], Any, None]) -> Request[None]:
    """Let work go on by itself, beside all requests: a coroutine or a generator, such as a method that cleans up.

    Awaiting it starts the work and returns at once. Its requests are background work, which precedes no client's. It is
    not ordered with requests of the same pages; an :class:`Event` or the layer's own state may order them. What it raises
    ends the run; at the end of a run, or when the power is cut, it ends where it is.
    """
    return Request((_SPAWN, 0, 0, 0, work))
