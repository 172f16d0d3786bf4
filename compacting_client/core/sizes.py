"""Tokens of the items of a history by the estimate, each counted once it is asked for: of what is dropped, that is mostly never."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, overload

from compacting_client.core.imprints import Imprint

__all__ = ["Count", "Sizes"]

Count = Callable[[Sequence[Imprint], Sequence[str]], Sequence[float]]
"""Gives the tokens of items by their imprints and roles, their media aside."""


class Sizes(Sequence[float]):
    """The tokens of each item, as a sequence.  ``media``: item index -> tokens of its media.

    ``found``   those that are counted; None for the rest
    """

    __slots__ = ("_count", "_imprints", "_media", "_roles", "_whole", "found")

    def __init__(
        self, imprints: Sequence[Imprint], roles: Sequence[str], media: Mapping[int, float], count: Count
    ) -> None:
        self._imprints, self._roles, self._media, self._count = imprints, roles, media, count
        self._whole = False
        self.found: list[Any] = [None] * len(roles)

    def take(self, known: Sequence[float | None], places: Sequence[int]) -> None:
        """Take over what is known of the items at these places, ascending; None where nothing is."""
        if isinstance(places, range):
            self.found[places.start : places.stop] = known
        else:
            for index, size in zip(places, known, strict=True):
                self.found[index] = size

    def release(self) -> None:
        """Let go of the imprints of what is counted; another thread may count at the same time."""
        found = self.found[:]
        if self._whole or None not in found:
            self._imprints = ()
            return
        first, last = found.index(None), len(found) - found[::-1].index(None)
        left = self._imprints[first:last]
        if found.count(None) < last - first:
            left = ["" if size is not None else each for each, size in zip(left, found[first:last], strict=True)]
        self._imprints = [*repeat("", first), *left]

    def of(self, indexes: Sequence[int]) -> list[float]:
        """Those of some items."""
        found = self.found
        if isinstance(indexes, range):
            part = found[indexes.start : indexes.stop]
            if None not in part:
                return part
            self._fill(indexes.start, indexes.stop)
            return found[indexes.start : indexes.stop]
        if missing := [index for index in indexes if found[index] is None]:
            first, last = min(missing), max(missing) + 1
            # whoever asks for most of a stretch asks for the rest of it soon
            if found[first:last].count(None) < 2 * len(missing):
                self._fill(first, last)
            else:
                self._fill_each(missing)
        return [found[index] for index in indexes]

    def all(self) -> list[float]:
        """All of them."""
        if not self._whole:
            self.of(range(len(self.found)))
            self._whole, self._imprints = True, ()
        return self.found

    def _fill(self, start: int, stop: int) -> None:
        """Count what is not counted of a stretch."""
        imprints = self._imprints  # looked at before `found`: what is counted by then may be let go by another thread
        if self.found[start:stop].count(None) < stop - start:
            self._fill_each(range(start, stop))
            return
        sizes = list(self._count(imprints[start:stop], self._roles[start:stop]))
        for index, tokens in self._media.items():
            if start <= index < stop:
                sizes[index - start] += tokens
        self.found[start:stop] = sizes

    def _fill_each(self, indexes: Sequence[int]) -> None:
        imprints, roles, found, media = self._imprints, self._roles, self.found, self._media
        indexes = [index for index in indexes if found[index] is None]
        sizes = self._count([imprints[index] for index in indexes], [roles[index] for index in indexes])
        for index, size in zip(indexes, sizes, strict=True):
            found[index] = size + media[index] if index in media else size

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> list[float]: ...
    def __getitem__(self, index: int | slice) -> float | list[float]:
        if isinstance(index, slice):
            return self.all()[index]
        size: float | None = self.found[index]
        return self.of([index % len(self.found)])[0] if size is None else size

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[float]:
        return iter(self.all())
