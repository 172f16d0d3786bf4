"""What a client holds of the conversations that it sent last, by how they begin."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any, Generic, TypeVar

__all__ = ["Opening", "Openings"]

_OPENINGS = 1_000
"""So many openings are held at most."""

_ALIKE = 8
"""So many conversations are held that begin alike."""

Opening = tuple[Any, ...]

T = TypeVar("T")


class Openings(Generic[T]):
    """Holds a few things for each opening; what was used last is the last to go.  Thread-safe.

    ``most``: what all of it may weigh, by `weight`.
    """

    most = _OPENINGS * _ALIKE

    def __init__(self) -> None:
        self._seen: OrderedDict[Opening, tuple[T, ...]] = OrderedDict()
        self._held = 0
        self._lock = Lock()

    def weight(self, held: T) -> int:  # noqa: ARG002 - for those whose things differ in size
        """What one thing weighs."""
        return 1

    def alike(self, opening: Opening) -> Sequence[T]:
        """What is held for those that begin so, the last one first."""
        return self._seen.get(opening, ())

    def keep(self, opening: Opening, new: T, old: T | None) -> None:
        """Hold one more, in the place of the one that it grew from."""
        with self._lock:
            before = self._seen.pop(opening, ())
            after = (new, *(each for each in before if each is not old))[:_ALIKE]
            self._seen[opening] = after
            self._held += sum(map(self.weight, after)) - sum(map(self.weight, before))
            while (self._held > self.most or len(self._seen) > _OPENINGS) and len(self._seen) > 1:
                self._held -= sum(map(self.weight, self._seen.popitem(last=False)[1]))

    def forget(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._seen.clear()
            self._held = 0
