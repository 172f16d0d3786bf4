"""A decision about one history, as indexes: which items go, and what changes in those that stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from compacting_client.core.edits import NO_EDITS, Edits

__all__ = ["NOTHING", "Plan", "Stretch", "kept", "runs", "stretches"]

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

    def __bool__(self) -> bool:
        return bool(self.gone) or self.strip is not None or bool(self.edits)


NOTHING = Plan()


def kept(gone: Sequence[int], size: int) -> list[int]:
    """The indexes of the items that stay, ascending."""
    if not gone:
        return list(range(size))
    absent = set(gone)
    return [index for index in range(size) if index not in absent]


def stretches(places: Sequence[int]) -> list[Stretch]:
    """Places, ascending, as [start, stop)."""
    return [(places[start], places[stop - 1] + 1) for start, stop in runs(places)]


def runs(places: Sequence[int], kinds: Sequence[object] | None = None) -> list[tuple[int, int]]:
    """Where in `places`, ascending, each stretch of neighbours of one kind starts and stops."""
    if not places:
        return []
    pairs = enumerate(pairwise(places), 1)
    ends = [n for n, (one, other) in pairs if other != one + 1 or (kinds is not None and kinds[n] != kinds[n - 1])]
    return list(zip([0, *ends], [*ends, len(places)], strict=True))
