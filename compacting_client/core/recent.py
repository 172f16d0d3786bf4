"""What measuring and digesting a history came to, so that of one that only grew the old part is not measured and digested again.

A memo, and no memory: it changes no answer, and holds no text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from compacting_client.core.trace import Trace

__all__ = ["Recent", "Seen"]


@dataclass(frozen=True, slots=True)
class Seen:
    """One history: by position, its sizes, None for those that nobody asked for; and by length, the hashes of what was sent up to there, and
    the states of its digest.

    ``plain``: so many positions stand before its first item with media; ``unquoted``: before the first text that looks like one of ours.
    """

    hashes: Mapping[int, int]
    sizes: Sequence[float | None]
    states: Mapping[int, Any]
    plain: int
    unquoted: int = 0

    def shared(self, trace: Trace) -> int:
        """How many positions a history has in common with this one, as far as was marked."""
        for length in sorted(self.hashes, reverse=True):
            if length <= len(trace.history) and trace.sent(length) == self.hashes[length]:
                return length
        return 0


class Recent(Protocol):
    """The histories seen last."""

    def alike(self, opening: tuple[Any, ...]) -> Sequence[Seen]:
        """Those that begin so."""
        ...

    def keep(self, opening: tuple[Any, ...], new: Seen, old: Seen | None) -> None:
        """Hold a history, in the place of the one that it grew from."""
        ...
