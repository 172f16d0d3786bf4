"""A ledger under a budget: which of its lines lose their results, and which go, in a few passes whatever its length (SEEDS P8, P19)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from compacting_client.core.effects import Effect
from compacting_client.core.ledger import Line, ledger_text, lists_all
from compacting_client.core.view import Choice, View

__all__ = ["ROOM", "Shrinking"]

ROOM = 0.9
"""Of the budget: the goal, so that the next step is some requests away."""

_PASSES = 4
_SURELY = 1.5  # times the budget, by that rate: more than an estimate may be off


class Shrinking:
    """``chosen(text)`` is the choice with that text for a ledger; ``before``: the ledgers that stand in the history by now."""

    def __init__(
        self, view: View, shown: Sequence[Line], before: Sequence[str], chosen: Callable[[str], Choice]
    ) -> None:
        self._view, self._lines, self._chosen = view, list(shown), chosen
        self._omitted, self._rate, self._least = 0, _rate(ledger_text(shown)), 0.0
        if before:
            self._resume(before)

    def _resume(self, before: Sequence[str]) -> None:
        """What was hidden or left out before stays so: a line that comes and goes would change the prompt each time."""
        known = {line for text in before for line in text.split("\n")}
        for line in self._lines:
            if line.text not in known and (short := line.shorter()) and short in known:
                line.text = short
        if not all(map(lists_all, before)):
            listed = (n for n, line in enumerate(self._lines) if line.text in known)
            self._omitted = next(listed, 0)

    def to(self, budget: float | None) -> Generator[Effect, Any, tuple[Choice, float]]:
        """The choice that is within `budget`, and the tokens that it leaves; where there is none, the smallest that still names every call."""
        if budget is None:
            return (yield from self._measured())
        goal = ROOM * budget
        self._least = (yield from self._view.after(self._chosen(ledger_text((), 1)))).total
        found: tuple[Choice, float] | None = None
        if self._estimated() <= _SURELY * budget:
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
        choice = self._chosen(ledger_text(self._lines[self._omitted :], self._omitted))
        total = (yield from self._view.after(choice)).total
        if total > self._least > 0 and (size := self._size()):  # without lines nothing is learned
            self._rate = size / (total - self._least)
        return choice, total

    def _size(self) -> int:
        return sum([len(line.text) for line in self._lines[self._omitted :]])

    def _estimated(self) -> float:
        return self._least + self._size() / self._rate

    def _hide(self, goal: float) -> bool:
        """Hide results, the oldest first, those that shrink last at the end, until no more than `goal` should be left; whether any was hidden."""
        over, hidden = (self._estimated() - goal) * self._rate, False
        order = range(self._omitted, len(self._lines))
        for last in (False, True):
            for n in order:
                line = self._lines[n]
                if over > 0 and line.last == last and (short := line.shorter()) is not None:
                    over -= len(line.text) - len(short)
                    line.text, hidden = short, True
        return hidden

    def _omit(self, goal: float) -> Generator[Effect, Any, tuple[Choice, float]]:
        """Leave out the oldest lines until no more than `goal` is left."""
        for _ in range(_PASSES):
            over = (self._estimated() - goal) * self._rate
            while over > 0 and self._omitted < len(self._lines):
                over -= len(self._lines[self._omitted].text)
                self._omitted += 1
            found = yield from self._measured()
            if found[1] <= goal:
                return found
        self._omitted = len(self._lines)
        return (yield from self._measured())


def _rate(text: str) -> float:
    """Characters to a token by the default estimate, until it is measured: what JSON escapes counts twice."""
    return 4 * len(text) / (len(text) + sum(map(text.count, ('"', "\\", "\n"))))
