"""The conversations seen last, so that what was measured and digested of one that grew is not measured and digested again.

A memo, and no memory: it changes no answer, holds no text, and is compared item by item with the history at hand.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from compacting_client.core.imprints import Imprint
from compacting_client.core.trace import Trace

__all__ = ["Recent", "Seen"]

_POSITIONS = 200_000
"""So many items are held at most, some 50 bytes each."""

_ALIKE = 8
"""So many histories are held that begin alike."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One history: by position, the hashes of the imprints, the roles and the sizes; and the states of its digest, by length."""

    hashes: array[int]
    roles: Sequence[str]
    sizes: Sequence[float]
    states: Mapping[int, Any]

    def states_until(self, length: int) -> dict[int, Any]:
        """The states of the digest up to a length."""
        return {at: state for at, state in self.states.items() if at <= length}

    def shared(self, hashes: array[int], roles: Sequence[str]) -> int:
        """How many positions two histories have in common from the first on."""
        low, high = 0, min(len(self.hashes), len(hashes))
        length = high
        while low < high:
            if self.hashes[low:length] == hashes[low:length] and self.roles[low:length] == roles[low:length]:
                low = length
            else:
                high = length - 1
            length = (low + high + 1) // 2
        return low


class Recent:
    """Thread-safe; the conversation used last is the last to go."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[Any, ...], tuple[Seen, ...]] = OrderedDict()
        self._held = 0
        self._lock = Lock()

    def find(self, trace: Trace) -> tuple[Seen | None, int]:
        """The history that has most in common with this one, and how many positions: none behind media, whose data no imprint holds."""
        candidates = self._seen.get(trace.opening()) if self._seen else None
        if not candidates:
            return None, 0
        texts, roles = trace.texts()
        hashes, plain = hashed(texts), trace.without_media()
        shared, seen = max(((each.shared(hashes, roles), each) for each in candidates), key=lambda found: found[0])
        return seen, min(shared, plain)

    def keep(self, trace: Trace, sizes: Sequence[float], states: Mapping[int, Any], grown: Seen | None) -> None:
        """Hold a history, in the place of the one that it grew from."""
        texts, roles = trace.texts()
        seen = Seen(hashed(texts), roles, trace.placed(sizes), states)
        opening = trace.opening()
        with self._lock:
            before = self._seen.pop(opening, ())
            after = (seen, *(each for each in before if each is not grown))[:_ALIKE]
            self._seen[opening] = after
            self._held += _positions(after) - _positions(before)
            while self._held > _POSITIONS and len(self._seen) > 1:
                self._held -= _positions(self._seen.popitem(last=False)[1])


def hashed(imprints: Sequence[Imprint]) -> array[int]:
    """The hashes of some imprints: texts keep theirs."""
    return array("q", map(hash, imprints))


def _positions(histories: Sequence[Seen]) -> int:
    return sum(len(each.hashes) for each in histories)
