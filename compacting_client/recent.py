"""The conversations that a client sent last, in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any

from compacting_client.core.recent import Seen

__all__ = ["Recent"]

_POSITIONS = 200_000
"""So many sizes are held at most, of 8 bytes each or a little more."""

_OPENINGS = 1_000

_ALIKE = 8
"""So many histories are held that begin alike."""

Opening = tuple[Any, ...]


class Recent:
    """Holds sizes and hashes of the histories seen last; the conversation used last is the last to go.  Thread-safe."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Opening, tuple[Seen, ...]] = OrderedDict()
        self._held = 0
        self._lock = Lock()

    def alike(self, opening: Opening) -> Sequence[Seen]:
        """Those that begin so, the last one first."""
        return self._seen.get(opening, ())

    def keep(self, opening: Opening, seen: Seen, grown: Seen | None) -> None:
        """Hold a history, in the place of the one that it grew from."""
        with self._lock:
            before = self._seen.pop(opening, ())
            after = (seen, *(each for each in before if each is not grown))[:_ALIKE]
            self._seen[opening] = after
            self._held += _positions(after) - _positions(before)
            while (self._held > _POSITIONS or len(self._seen) > _OPENINGS) and len(self._seen) > 1:
                self._held -= _positions(self._seen.popitem(last=False)[1])

    def forget(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._seen.clear()
            self._held = 0


def _positions(histories: Sequence[Seen]) -> int:
    return sum(len(each.sizes) for each in histories)
