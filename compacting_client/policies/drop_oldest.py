"""Drop the oldest units once a budget is exceeded."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass

from compacting_client.core.view import Choice, View
from compacting_client.errors import ConfigError
from compacting_client.policies.base import Policy
from compacting_client.validation import share, whole_number

__all__ = ["DropOldest"]

_WORTH = (
    0.1  # of the budget: what a cut that cannot make the request fit must free, or the cut would move on every turn
)


@dataclass(frozen=True)
class DropOldest(Policy):
    """Above `max_tokens`, drop from the middle, oldest first, down to ``target * max_tokens``; the next cut is then many turns away.

    ``max_tokens``  int >= 1, in counted tokens: the whole input, system prompt and tools included
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

    def __post_init__(self) -> None:
        budget = self.max_tokens
        if budget is None or (type(budget) is float and 0 < budget <= 1):
            raise ConfigError(
                f"max_tokens={budget!r}: a budget from the model's window is not available in this version; "
                "give a number of tokens, as in DropOldest(60_000)"
            )
        whole_number("max_tokens", budget, at_least=1)
        whole_number("keep_head", self.keep_head, at_least=0)
        whole_number("keep_tail", self.keep_tail, at_least=0)
        share("target", self.target)

    @property
    def budget(self) -> float:
        """`max_tokens`."""
        assert self.max_tokens is not None
        return self.max_tokens

    def triggered(self, view: View) -> bool:
        """Above the budget."""
        return view.exceeds(self.budget)

    def choose(self, view: View) -> Choice | None:
        """The oldest units of the middle, then of the tail."""
        head, tail = view.ends(self.keep_head, self.keep_tail)
        if self.target == 1.0:
            dropped, left = _drop_units(view, head | tail | view.pinned, self.budget)
        else:
            dropped, left = self._with_room(view, head, tail)
        if not dropped or (left > self.budget and self.target < 1.0 and view.total - left < _WORTH * self.budget):
            return None
        return Choice(frozenset(dropped), "tokens", self.target * self.budget)

    def _with_room(self, view: View, head: set[int], tail: set[int]) -> tuple[set[int], float]:
        """From the middle, down to the target; if that is not even the budget, from the tail too, and at last not by whole turns.

        A tail that has to shrink gives half of what a new cut gives: enough that the next turn does not cut again, and no more.
        """
        budget, stays = self.budget, head | view.pinned
        dropped, left = _drop_turns(view, stays | tail, set(), view.total, self.target * budget)
        half = (1 + self.target) / 2 * budget
        if left > budget:
            dropped, left = _drop_turns(view, stays, dropped, left, half)
        if left > budget:
            broken, less = _drop_units(view, stays, half)
            if less <= budget:  # half turns, which strict templates refuse, only where they make the difference
                dropped, left = broken, less
        mended = view.mended(dropped)
        return mended, left + view.weight(dropped - mended) - view.weight(mended - dropped)


def _drop_units(view: View, stays: AbstractSet[int], goal: float) -> tuple[set[int], float]:
    """Drop the oldest units while more than `goal` tokens are left; and how many then are."""
    weights, left, dropped = view.weights(), view.total, set[int]()
    for unit in view.units():
        if left <= goal:
            break
        if unit not in stays:
            dropped.add(unit)
            left -= weights[unit]
    return dropped, left


def _drop_turns(
    view: View, stays: AbstractSet[int], dropped: set[int], left: float, goal: float
) -> tuple[set[int], float]:
    """The same turn by turn: first the exchanges inside a turn; then its question and answer together, if all of it may go."""
    weights = view.weights()
    for turn in view.turns():
        if left <= goal:
            break
        if dropped:
            turn = [unit for unit in turn if unit not in dropped]
        goes = stays.isdisjoint(turn)
        if goes and left - (weight := sum([weights[unit] for unit in turn])) > goal:
            dropped.update(turn)
            left -= weight
            continue
        for unit in view.inner(turn) if turn else ():
            if left > goal and unit not in stays:
                dropped.add(unit)
                left -= weights[unit]
        if goes and left > goal:
            left -= sum([weights[unit] for unit in turn if unit not in dropped])
            dropped.update(turn)
    return dropped, left
