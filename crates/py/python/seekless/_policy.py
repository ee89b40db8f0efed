"""Eviction policies in Python, called by the cache layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ._seekless import PolicyError


class Policy(Protocol):
    """What an eviction policy has; it is made with the number of pages that the cache has room for.

    Pages are numbers, all of 4 KiB. Besides these methods it may have:

    - ``miss(page)``: a page that is not in the cache is accessed, and room is made for it next
    - ``pin(page, pinned)``: a page cannot be evicted for now (it is dirty, or in use), or can be again. A policy without
      it may choose such pages: they leave once they can, unless they are accessed before, and others leave first
    - ``prefetch(page, pages)``: a read of that many pages from ``page`` on missed; returns the pages to fetch where that
      costs nothing (in the rotational wait of a drive that does freeblock scheduling), in that order. Those that are in the
      cache, or not on the device, are passed over. A page that was fetched is inserted once it is accessed. Without this
      method, the cache's option ``prefetch`` decides
    - ``resize(pages)``: the cache has room for this many pages from now on
    - ``decisions``: how many pages are chosen at once, 1 unless set, and at most a 64th of the cache. With more, a run
      is faster, and pages are chosen a little too early; one that is accessed after that is inserted again. What to
      fetch is decided for as many reads at once, after the last of them
    """

    def insert(self, page: int) -> None:
        """Take a page that enters the cache."""

    def hit(self, page: int) -> None:
        """Note an access of a page that is in the cache."""

    def remove(self, page: int) -> None:
        """Forget a page that left the cache for another reason than this policy."""

    def evict(self) -> int | None:
        """Choose a page that leaves the cache, and forget it; ``None`` if there is none."""


_NAMES = ("miss", "insert", "hit", "remove", "pin", "pin", "resize")
_NEEDED = ("insert", "hit", "remove", "evict")
_MOST = 65_536


class Driver:
    """A policy of one cache, with what happened delivered at once."""

    def __init__(self, name: str, make: Callable[[int], Policy], pages: int) -> None:
        self.name = name
        policy: Any = self._guarded("__init__", pages, make)
        lacking = [method for method in _NEEDED if not callable(getattr(policy, method, None))]
        if lacking:
            raise PolicyError(f"the policy {name}: found no {lacking[0]}(), expected {', '.join(_NEEDED)}")
        decisions = getattr(policy, "decisions", 1)
        if type(decisions) is not int or not 1 <= decisions <= _MOST:
            raise PolicyError(f"the policy {name}: decisions: found {decisions!r}, expected 1 to {_MOST}")
        miss, pin = getattr(policy, "miss", None), getattr(policy, "pin", None)
        self.misses, self.pins, self.decisions = miss is not None, pin is not None, decisions
        self.calls: tuple[Callable[[int], object], ...] = (
            miss or _nothing,
            policy.insert,
            policy.hit,
            policy.remove,
            (lambda page: pin(page, True)) if pin else _nothing,
            (lambda page: pin(page, False)) if pin else _nothing,
            getattr(policy, "resize", _nothing),
        )
        self.evict = policy.evict
        self.ahead: Callable[[int, int], Iterable[int]] | None = getattr(policy, "prefetch", None)
        self.prefetches = self.ahead is not None

    def decide(self, kinds: bytes, pages: Sequence[int], most: int) -> list[int]:
        """Deliver what happened, and take up to ``most`` decisions."""
        evict = self.evict
        self._deliver(kinds, pages)
        chosen: list[int] = []
        try:
            while len(chosen) < most and (page := evict()) is not None:
                chosen.append(page)
        except Exception as error:
            raise self._failed("evict()", error) from error
        return self._pages("evict()", chosen, "a page or None")

    def prefetch(self, kinds: bytes, pages: Sequence[int], missed: Sequence[tuple[int, int]]) -> list[int]:
        """Deliver what happened, and take the pages to fetch beside reads that missed."""
        self._deliver(kinds, pages)
        chosen: list[int] = []
        if self.ahead is None:
            return chosen
        for page, count in missed:
            call = f"prefetch({page}, {count})"
            try:
                chosen += self._pages(call, list(self.ahead(page, count)), "pages")
            except PolicyError:
                raise
            except Exception as error:
                raise self._failed(call, error) from error
        return chosen

    def _deliver(self, kinds: bytes, pages: Sequence[int]) -> None:
        calls = self.calls
        kind, page = 0, 0
        try:
            for kind, page in zip(kinds, pages):  # noqa: B905 (as long as each other, and called often)
                calls[kind](page)
        except Exception as error:
            raise self._failed(f"{_NAMES[kind]}({page})", error) from error

    def _pages(self, call: str, chosen: list[int], expected: str) -> list[int]:
        for page in chosen:
            if type(page) is not int or not 0 <= page < 1 << 64:
                raise PolicyError(f"the policy {self.name}: {call}: found {page!r}, expected {expected}")
        return chosen

    def _guarded(self, method: str, argument: int, call: Callable[[int], Any]) -> Any:
        try:
            return call(argument)
        except Exception as error:
            raise self._failed(f"{method}({argument})", error) from error

    def _failed(self, call: str, error: Exception) -> PolicyError:
        return PolicyError(f"the policy {self.name}: {call}: {type(error).__name__}: {error}")


def _nothing(_page: int) -> None:
    pass
