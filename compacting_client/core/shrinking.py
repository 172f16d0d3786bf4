"""A ledger under a budget: which of its lines lose their results, and which go, in a few passes whatever its length (SEEDS P8, P19)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from compacting_client.core.effects import Effect
from compacting_client.core.ledger import Line, ledger_text
from compacting_client.core.tokens import dump
from compacting_client.core.view import Choice, View

__all__ = ["ROOM", "Shrinking"]

ROOM = 0.9  # of the budget: the goal, so that the next step is some requests away
_PASSES = 4


class Shrinking:
    """``chosen(text)`` is the choice with that text for a ledger; ``before``: the ledgers that stand in the history by now."""

    def __init__(
        self, view: View, shown: Sequence[Line], before: Sequence[str], chosen: Callable[[str], Choice]
    ) -> None:
        self._view, self._shown, self._chosen = view, list(shown), chosen
        known = {line for text in before for line in text.split("\n")}
        if known:
            self._resume(known)

    def _resume(self, known: set[str]) -> None:
        """What was hidden before stays hidden: a line that comes and goes would change the prompt each time."""
        for line in self._shown:
            if line.text not in known and (short := line.shorter()) is not None and short and short in known:
                line.shrink(short)

    def to(self, budget: float | None) -> Generator[Effect, Any, tuple[Choice, float]]:
        """The choice that is within `budget`, and the tokens that it leaves; where there is none, the smallest that still names every call."""
        choice = self._chosen(ledger_text(self._shown))
        total = yield from self._total(choice)
        if budget is None or total <= budget:
            return choice, total
        goal = ROOM * budget
        order = sorted(range(len(self._shown)), key=lambda n: self._shown[n].last)
        choice, total = yield from self._hide(order, choice, total, goal)
        if total > budget:
            return (yield from self._omit(total, goal)) or (choice, total)
        return choice, total

    def _total(self, choice: Choice) -> Generator[Effect, Any, float]:
        return (yield from self._view.after(choice)).total

    def _hide(
        self, order: list[int], choice: Choice, total: float, goal: float
    ) -> Generator[Effect, Any, tuple[Choice, float]]:
        """Hide results, first those that are to shrink first, until no more than `goal` is left."""
        rate, n = 4.0, 0  # characters of JSON to a token: learned from the first pass
        for _ in range(_PASSES):
            before, saved = total, 0
            while n < len(order) and before - saved / rate > goal:
                line = self._shown[order[n]]
                n += 1
                if (short := line.shorter()) is not None:
                    saved += _weight(line.text) - _weight(short)
                    line.shrink(short)
            if not saved:
                break
            choice = self._chosen(ledger_text(self._shown))
            total = yield from self._total(choice)
            if total <= goal:
                break
            rate = max(rate, saved / max(1.0, before - total))
        return choice, total

    def _omit(self, total: float, goal: float) -> Generator[Effect, Any, tuple[Choice, float] | None]:
        """Leave out the oldest lines, where that helps; None where even none of them would be too much."""
        weights = [_weight(line.text) for line in self._shown]
        empty = self._chosen(ledger_text((), len(weights)))
        least = yield from self._total(empty)
        if least > goal:
            return None
        rate = max(1.0, sum(weights)) / max(1.0, total - least)
        left, n = total, 0
        for _ in range(_PASSES):
            while n < len(weights) and left > goal:
                left -= weights[n] / rate
                n += 1
            choice = self._chosen(ledger_text(self._shown[n:], n))
            left = yield from self._total(choice)
            if left <= goal:
                return choice, left
        return empty, least


def _weight(text: str) -> int:
    """Bytes of a line inside of JSON."""
    return len(dump(text))
