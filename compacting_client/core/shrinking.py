"""A ledger under a budget: which of its lines lose their results, and which go, in a few passes whatever its length (SEEDS P8, P19)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import cached_property
from typing import Any

from compacting_client.core.effects import Effect
from compacting_client.core.ledger import Line, ledger_text, ledger_units, lists_all, widths
from compacting_client.core.tokens import units
from compacting_client.core.view import Choice, View

__all__ = ["ROOM", "Shrinking"]

ROOM = 0.9
"""Of the budget: the goal, so that the next step is some requests away."""

_ESCAPED = ('"', "\\", "\n")
_PASSES = 4
_SURELY = 1.5  # times the budget, by that rate: more than an estimate may be off


class Shrinking:
    """``chosen(text, units)`` is the choice with that text for a ledger; ``before``: the ledgers that stand in the history by now."""

    def __init__(
        self, view: View, shown: Sequence[Line], before: Sequence[str], chosen: Callable[[str, int], Choice]
    ) -> None:
        self._view, self._lines, self._chosen = view, list(shown), chosen
        self._omitted, self._least = 0, 0.0
        self._whole = _Whole([line.text for line in shown])
        self._units, self._learned = [*self._whole.units], None
        if before:
            self._resume(before)

    def _resume(self, before: Sequence[str]) -> None:
        """What was hidden or left out before stays so: a line that comes and goes would change the prompt each time."""
        known = {line for text in before for line in text.split("\n")}
        for n, line in enumerate(self._lines):
            if line.text not in known and (short := line.shorter()) and short in known:
                self._shorten(n, short)
        if not all(map(lists_all, before)):
            listed = (n for n, line in enumerate(self._lines) if line.text in known)
            self._omitted = next(listed, 0)

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
        choice = self._chosen(text, ledger_units(self._units[self._omitted :], self._omitted))
        total = (yield from self._view.after(choice)).total
        if total > self._least > 0:
            self._learned = self._size() / (total - self._least)
        return choice, total

    @property
    def _rate(self) -> float:
        """Characters to a token."""
        return self._whole.rate if self._learned is None else self._learned

    def _size(self) -> int:
        return sum([len(line.text) for line in self._lines[self._omitted :]])

    def _shorten(self, n: int, short: str) -> None:
        self._lines[n].text, self._units[n] = short, widths([short])[0]

    def _estimated(self, rate: float | None = None) -> float:
        return self._least + self._size() / (self._rate if rate is None else rate)

    def _hide(self, goal: float) -> bool:
        """Hide results, the oldest first, those that shrink last at the end, until no more than `goal` should be left; whether any was hidden."""
        over, hidden = (self._estimated() - goal) * self._rate, False
        order = range(self._omitted, len(self._lines))
        for last in (False, True):
            for n in order:
                line = self._lines[n]
                if over > 0 and line.last == last and (short := line.shorter()) is not None:
                    over -= len(line.text) - len(short)
                    self._shorten(n, short)
                    hidden = True
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


class _Whole:
    """A ledger with all its lines: characters to a token by the default estimate, for which what JSON escapes counts twice.

    ``units``: UTF-16 units of each line as a part of a JSON string.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts, self.units = texts, widths(texts)
        frame, breaks = ledger_text(()), max(0, len(texts) - 1)
        self._length = len(frame) + breaks + sum(map(len, texts))
        self._escaped = sum(map(frame.count, _ESCAPED)) + breaks + sum(self.units) - sum(map(len, texts))

    @property
    def least(self) -> float:
        """Not more than `rate`, and at hand."""
        return 4 * self._length / (self._length + self._escaped)

    @cached_property
    def rate(self) -> float:
        """What is longer in JSON for another reason: tabs, and characters of two units."""
        wide = sum([len(text.encode("utf-16-le")) // 2 - len(text) for text in self._texts if not text.isascii()])
        tabs = sum([text.count("\t") for text in self._texts])
        return 4 * self._length / (self._length + self._escaped - wide - tabs)
