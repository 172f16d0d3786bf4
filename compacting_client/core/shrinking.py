"""A ledger under a budget: which of its lines lose their results, and which go, in a few passes whatever its length (SEEDS P8, P19)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from compacting_client.core.effects import Effect
from compacting_client.core.extent import Extent, Whole
from compacting_client.core.ledger import Line, ledger_text, lists_all
from compacting_client.core.tokens import units
from compacting_client.core.view import Choice, View

__all__ = ["ROOM", "Shrinking"]

ROOM = 0.9
"""Of the budget: the goal, so that the next step is some requests away."""

_PASSES = 4
_SURELY = 1.5  # times the budget, by that rate: more than an estimate may be off


class Shrinking:
    """``chosen(text, units)`` is the choice with that text for a ledger; ``before``: the ledgers that stand in the history by now."""

    def __init__(
        self, view: View, shown: Sequence[Line], before: Sequence[str], chosen: Callable[[str, int], Choice]
    ) -> None:
        self._view, self._lines, self._chosen = view, list(shown), chosen
        self._omitted, self._least = 0, 0.0
        self._extent: Extent | None = Extent.of(shown)
        self._whole = Whole([line.parts for line in shown], self._extent)
        self._learned: float | None = None
        if before:
            self._resume(before)

    def _resume(self, before: Sequence[str]) -> None:
        """What was hidden or left out before stays so: a line that comes and goes would change the prompt each time."""
        known = {line for text in before for line in text.split("\n")}
        for line in self._lines:
            if line.text not in known and (short := line.shorter()) and short in known:
                self._shorten(line, short)
        if not all(map(lists_all, before)):
            listed = (n for n, line in enumerate(self._lines) if line.text in known)
            self._leave_out(next(listed, 0))

    def to(self, budget: float | None) -> Generator[Effect, Any, tuple[Choice, float]]:
        """The choice that is within `budget`, and the tokens that it leaves; where there is none, the smallest that still names every call."""
        if budget is None:
            return (yield from self._measured())
        goal = ROOM * budget
        least = ledger_text((), 1)
        self._least = (yield from self._view.after(self._chosen(least, units(least)))).total
        found: tuple[Choice, float] | None = None
        if self._estimated(self._whole.least) <= _SURELY * budget or self._estimated() <= _SURELY * budget:
            found = yield from self._measured()
            if found[1] <= budget:
                return found
        for _ in range(_PASSES):
            if not self._hide(goal):
                break
            found = yield from self._measured()
            if found[1] <= (goal + budget) / 2:
                return found
        found = found or (yield from self._measured())
        if found[1] > budget and self._least <= budget:
            found = yield from self._omit(max(goal, (self._least + budget) / 2))
        return found

    def _measured(self) -> Generator[Effect, Any, tuple[Choice, float]]:
        """The present choice, and what it leaves; what that teaches of the estimate is used from now on."""
        text = ledger_text(self._lines[self._omitted :], self._omitted)
        choice = self._chosen(text, self._there.within(self._omitted))
        total = (yield from self._view.after(choice)).total
        if total > self._least > 0 and (length := self._there.length):  # without lines nothing is learned
            self._learned = length / (total - self._least)
        return choice, total

    @property
    def _rate(self) -> float:
        """Characters to a token."""
        return self._whole.rate if self._learned is None else self._learned

    @property
    def _there(self) -> Extent:
        """The lines that are not left out."""
        if self._extent is None:
            self._extent = Extent.of(self._lines[self._omitted :])
        return self._extent

    def _shorten(self, line: Line, short: str) -> None:
        line.parts, self._extent = (short,) if short else (), None

    def _leave_out(self, stop: int) -> None:
        """Leave out the lines before this one."""
        self._omitted, self._extent = stop, None

    def _estimated(self, rate: float | None = None) -> float:
        return self._least + self._there.length / (self._rate if rate is None else rate)

    def _hide(self, goal: float) -> bool:
        """Hide results, the oldest first, those that shrink last at the end, until no more than `goal` should be left; whether any was hidden."""
        over, hidden = (self._estimated() - goal) * self._rate, False
        for last in (False, True):
            for line in self._lines[self._omitted :]:
                if over > 0 and line.last == last and (short := line.shorter()) is not None:
                    over -= len(line) - len(short)
                    self._shorten(line, short)
                    hidden = True
        return hidden

    def _omit(self, goal: float) -> Generator[Effect, Any, tuple[Choice, float]]:
        """Leave out the oldest lines until no more than `goal` is left."""
        for _ in range(_PASSES):
            over = (self._estimated() - goal) * self._rate
            stop = self._omitted
            while over > 0 and stop < len(self._lines):
                over -= len(self._lines[stop])
                stop += 1
            self._leave_out(stop)
            found = yield from self._measured()
            if found[1] <= goal:
                return found
        self._leave_out(len(self._lines))
        return (yield from self._measured())
