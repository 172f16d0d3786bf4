"""A decision about one history, as indexes: which items go, and what changes in those that stay."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import TypeVar

from compacting_client.core.edits import NO_EDITS, Edits

__all__ = ["NOTHING", "Plan", "Stretch", "between", "runs", "stretches"]

T = TypeVar("T")

Stretch = tuple[int, int]
"""[start, stop)."""


@dataclass(frozen=True)
class Plan:
    """What is to be done.

    ``gone``: the indexes of the dropped items, ascending.  ``strip``: (start, stop), the items in which signed thinking is removed.
    ``edits``: what was shortened and inserted.
    """

    gone: tuple[int, ...] = ()
    strip: tuple[int, int] | None = None
    edits: Edits = NO_EDITS

    @cached_property
    def stretches(self) -> list[Stretch]:
        """`gone` as stretches [start, stop)."""
        return stretches(self.gone)

    def without(self, items: Sequence[T]) -> list[T]:
        """Those of some items, one for each index, that stay."""
        return [*chain.from_iterable(items[start:stop] for start, stop in between(self.stretches, len(items)))]

    def kept(self, size: int) -> list[int]:
        """The indexes of the items that stay, of so many, ascending."""
        return self.without(range(size))

    def __bool__(self) -> bool:
        return bool(self.gone) or self.strip is not None or bool(self.edits)


NOTHING = Plan()


def stretches(places: Sequence[int]) -> list[Stretch]:
    """Places, ascending, as [start, stop)."""
    found, start = list[Stretch](), 0
    while start < len(places):
        stop = _neighbours(places, start)
        found.append((places[start], places[stop - 1] + 1))
        start = stop
    return found


def _neighbours(places: Sequence[int], start: int) -> int:
    """Where the neighbours that begin at `start` end, found in steps that double: most of what is dropped stands together."""
    ahead, length = places[start] - start, 1
    while start + length < len(places) and places[start + length] - start - length == ahead:
        length *= 2
    if length == 1:
        return start + 1
    first, last = start + length // 2, min(start + length, len(places))
    return bisect_right(range(last), ahead, first, key=lambda at: places[at] - at)


def between(gone: Sequence[Stretch], size: int) -> list[Stretch]:
    """What lies between stretches, of so many places."""
    ends = [0, *chain(*gone), size]
    return list(zip(ends[::2], ends[1::2], strict=True))


def runs(places: Sequence[int], kinds: Sequence[object]) -> list[tuple[int, int]]:
    """Where in `places`, ascending, each stretch of neighbours of one kind starts and stops."""
    if not places:
        return []
    pairs = enumerate(pairwise(places), 1)
    ends = [n for n, (one, other) in pairs if other != one + 1 or kinds[n] != kinds[n - 1]]
    return list(zip([0, *ends], [*ends, len(places)], strict=True))
