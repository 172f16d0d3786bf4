"""The units of a history, turn by turn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import overload

__all__ = ["Turns"]


class Turns(Sequence[Sequence[int]]):
    """Turns in a row, oldest first, each a sequence of units.

    ``units``   all of them, in order
    ``starts``  where in `units` each turn begins, ascending, the first at 0
    """

    __slots__ = ("_ends", "units")

    def __init__(self, units: Sequence[int], starts: Sequence[int]) -> None:
        self.units, self._ends = units, [*starts, len(units)]

    @classmethod
    def beginning(cls, units: Sequence[int], starts: Sequence[int]) -> Turns:
        """A turn from each of `starts`; what stands before the first of them is a turn too."""
        return cls(units, starts if not units or starts[:1] == [0] else [0, *starts])

    @classmethod
    def each(cls, units: Sequence[int]) -> Turns:
        """Each unit by itself."""
        return cls(units, range(len(units)))

    def without(self, gone: AbstractSet[int]) -> Turns:
        """Those that are left without some units."""
        units, starts = list[int](), list[int]()
        for turn in self:
            stays = [unit for unit in turn if unit not in gone]
            if stays:
                starts.append(len(units))
                units += stays
        return Turns(units, starts)

    def place(self, unit: int) -> int:
        """The turn that a unit stands in, or would; -1 for one before all turns."""
        at = bisect_right(self.units, unit) - 1
        return bisect_right(self._ends, at, 0, len(self)) - 1

    def before(self, place: int) -> Sequence[int]:
        """The units of all turns before this one."""
        return self.units[: self._ends[place]]

    @overload
    def __getitem__(self, place: int) -> Sequence[int]: ...
    @overload
    def __getitem__(self, place: slice) -> Turns: ...
    def __getitem__(self, place: int | slice) -> Sequence[int] | Turns:
        if isinstance(place, slice):
            first, last, step = place.indices(len(self))
            if step != 1:
                raise ValueError("turns in a row have no gaps")
            ends = self._ends[first : max(first, last) + 1]
            return Turns(self.units[ends[0] : ends[-1]], [end - ends[0] for end in ends[:-1]])
        at = place if place >= 0 else len(self) + place
        return self.units[self._ends[at] : self._ends[at + 1]]

    def __len__(self) -> int:
        return len(self._ends) - 1
