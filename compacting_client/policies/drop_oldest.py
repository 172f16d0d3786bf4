"""Drop the oldest units once a budget is exceeded."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import Any

from compacting_client.core.turns import Turns
from compacting_client.core.view import Choice, View
from compacting_client.core.window import Window
from compacting_client.errors import ConfigError
from compacting_client.policies.base import Policy
from compacting_client.validation import share, whole_number

__all__ = ["DropOldest"]

_WORTH = (
    0.1  # of the budget: what a cut that cannot make the request fit must free, or the cut would move on every turn
)

_AT_ONCE = 16  # turns that are weighed together


@dataclass(frozen=True)
class DropOldest(Policy):
    """Above `max_tokens`, drop from the middle, oldest first, down to ``target * max_tokens``; the next cut is then many turns away.

    ``max_tokens``  int >= 1, in counted tokens: the whole input, system prompt and tools included.  None: the model's window without what the
                    request reserves for the answer (its own `max_tokens`, or whatever the API calls it).  A float in (0, 1]: that share of the
                    window, or what the reservation leaves of it, if that is less.  While the window is not known, nothing is dropped
    ``keep_head``   so many leading neutral messages stay, the system prompt being the first
    ``keep_tail``   so many trailing ones stay, until the middle is gone and the request is still over budget
    ``target``      share of the budget in (0, 1]; 1.0 is what ctx-compact does: down to the budget, tail untouched

    Within a turn the tool exchanges go first; its question and its final answer go together, last, so that no answer is left without its
    question (microsoft/agent-framework#4991) and strictly alternating chat templates still accept the rest.

    Raises ConfigError for a setting out of range.
    """

    max_tokens: float | None = None
    _: KW_ONLY
    keep_head: int = 1
    keep_tail: int = 4
    target: float = 0.5
    _window: Window | None = field(default=None, init=False, repr=False, compare=False)  # of the request at hand

    def __post_init__(self) -> None:
        budget: Any = self.max_tokens
        if not self._by_window and (type(budget) is not int or budget < 1):
            raise ConfigError(
                f"max_tokens must be a whole number of at least 1, not {budget!r}; or None for the model's window, or a share of it, as 0.7"
            )
        whole_number("keep_head", self.keep_head, at_least=0)
        whole_number("keep_tail", self.keep_tail, at_least=0)
        share("target", self.target)

    @property
    def _by_window(self) -> bool:
        """Whether `max_tokens` is None or a share."""
        return self.max_tokens is None or (type(self.max_tokens) is float and 0 < self.max_tokens <= 1)

    @property
    def budget(self) -> float | None:
        """`max_tokens`, or what it comes to in the window; None while that is not known."""
        if not self._by_window:
            return self.max_tokens
        return self._window.budget(self.max_tokens or 1.0) if self._window is not None else None

    @property
    def idle(self) -> str:
        """Whether the budget is not known, or not reached."""
        return "below trigger" if self.budget is not None else "window unknown"

    def sized(self, window: Callable[[], Window | None]) -> Policy:
        """With the window, where it goes by one."""
        if not self._by_window or (known := window()) is None:
            return self
        made = copy.copy(self)
        object.__setattr__(made, "_window", known)
        return made

    def rescue(self, dropping: Policy) -> Policy:
        """The same ends, and half of the limit, or less where the target is."""
        ends = {"keep_head": self.keep_head, "keep_tail": self.keep_tail}
        return DropOldest(dropping.budget, **ends, target=min(self.target, 0.5))

    def triggered(self, view: View) -> bool:
        """Above the budget."""
        return self.budget is not None and view.exceeds(self.budget)

    def choose(self, view: View) -> Choice | None:
        """The oldest units of the middle, then of the tail."""
        budget = self.budget
        if budget is None:
            return None
        head, tail = view.ends(self.keep_head, self.keep_tail)
        if self.target == 1.0:
            dropped, left = _oldest(view, Turns.each(view.units()), head | tail | view.pinned, budget)
        else:
            dropped, left = self._with_room(view, head, tail, budget)
        if not dropped or (left > budget and self.target < 1.0 and view.total - left < _WORTH * budget):
            return None
        return Choice(frozenset(dropped), "tokens", self.target * budget)

    def _with_room(self, view: View, head: set[int], tail: set[int], budget: float) -> tuple[set[int], float]:
        """From the middle, down to the target; if that is not even the budget, from the tail too, and at last not by whole turns.

        A tail that has to shrink gives half of what a new cut gives: enough that the next turn does not cut again, and no more.
        """
        stays, turns = head | view.pinned, view.turns()
        dropped, left = _oldest(view, turns, stays | tail, self.target * budget)
        half = (1 + self.target) / 2 * budget
        if left > budget:
            more, left = _oldest(view, turns.without(dropped), stays, half)
            dropped |= more
        if left > budget:
            broken, less = _oldest(view, Turns.each(view.units()), stays, half)
            if less <= budget:  # half turns, which strict templates refuse, only where they make the difference
                dropped, left = broken, less
        mended = view.mended(dropped)
        if mended is dropped:
            return dropped, left
        return mended, left + view.weight(dropped - mended) - view.weight(mended - dropped)


def _oldest(view: View, turns: Turns, stays: AbstractSet[int], goal: float) -> tuple[set[int], float]:
    """What goes while more than `goal` tokens are left, turn by turn, and how many then are.

    First the exchanges inside a turn; then its question and answer together, if all of it may go.  Sums are taken from the newest turn back, as
    far as the goal reaches: what is older goes uncounted.
    """
    places = {place for unit in stays if (place := turns.place(unit)) >= 0}
    held = {place: _held(view, turns[place], stays) for place in places if not stays.isdisjoint(turns[place])}
    weights = view.weights([*chain(*held.values())])
    kept = {place: sum([weights[unit] for unit in units]) for place, units in held.items()}
    left = view.overhead + sum(weights.values())
    for place, weight in _newest_first(view, turns):
        goes = weight - kept.get(place, 0)
        if left + goes > goal:
            older = set(turns.before(place)).difference(*[held[each] for each in held if each < place])
            dropped, left = _in_turn(view, turns[place], stays, left + goes, goal)
            return older | dropped, left
        left += goes
    return set(), left


def _newest_first(view: View, turns: Turns) -> Iterator[tuple[int, float]]:
    """The place and the tokens of each turn, a few turns at a time: what is not asked for is not counted."""
    for stop in range(len(turns), 0, -_AT_ONCE):
        start = max(0, stop - _AT_ONCE)
        yield from zip(range(stop - 1, start - 1, -1), reversed(view.turn_weights(turns[start:stop])), strict=True)


def _in_turn(
    view: View, turn: Sequence[int], stays: AbstractSet[int], left: float, goal: float
) -> tuple[set[int], float]:
    """What goes of the turn that the goal is reached in."""
    dropped, weights = set[int](), view.weights(turn)
    for unit in view.inner(turn):
        if left > goal and unit not in stays:
            dropped.add(unit)
            left -= weights[unit]
    if left > goal and stays.isdisjoint(turn):
        left -= sum([weights[unit] for unit in turn if unit not in dropped])
        dropped.update(turn)
    return dropped, left


def _held(view: View, turn: Sequence[int], stays: AbstractSet[int]) -> Sequence[int]:
    """What stays of a turn, of which something has to."""
    inner = set(view.inner(turn))
    return [unit for unit in turn if unit in stays or unit not in inner]
