"""Keep the last user turns, whatever their size."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from compacting_client.core.view import Choice, View
from compacting_client.policies.base import Policy
from compacting_client.policies.sequences import completed
from compacting_client.validation import flag, whole_number

__all__ = ["KeepTurns"]


@dataclass(frozen=True)
class KeepTurns(Policy):
    """Once more than ``max_messages + slack`` user messages are there, cut back to the last `max_messages` and what follows them.

    ``max_messages``      int >= 1, user messages; items of only tool results are none
    ``remove_tool_msgs``  on every request, calls and results of *completed* tool sequences go, all hops of a chain, with the text beside the
                          calls; the final answer stays.  A sequence is completed by an assistant message without calls, with no user or system
                          message between; one whose hops are not all free to go stays whole
    ``slack``             int >= 0; with 0 the cut moves on every turn, and the provider's prompt cache is lost each time

    System messages keep their place.  An exchange that reaches over the cut stays whole.  Tokens are not looked at: for a tool loop that never
    ends, add a budget, as in ``Chain(KeepTurns(10), DropOldest(60_000))``.

    Raises ConfigError for a setting out of range.
    """

    max_messages: int = 10
    _: KW_ONLY
    remove_tool_msgs: bool = False
    slack: int = 0

    def __post_init__(self) -> None:
        whole_number("max_messages", self.max_messages, at_least=1)
        flag("remove_tool_msgs", self.remove_tool_msgs)
        whole_number("slack", self.slack, at_least=0)

    def triggered(self, view: View) -> bool:
        """Too many turns, or a completed tool sequence to remove."""
        return len(_asked(view)) > self.max_messages + self.slack or (self.remove_tool_msgs and bool(completed(view)))

    def choose(self, view: View) -> Choice | None:
        """What is older than the kept turns, and the completed tool sequences."""
        tools = completed(view) if self.remove_tool_msgs else set[int]()
        asked = _asked(view)
        if len(asked) > self.max_messages + self.slack:
            dropped = _older(view, asked[-self.max_messages], tools)
            freed = sum(view.conversation.exchanges.owner[index] in dropped for index in asked)
            if freed > self.slack:  # turns that have to stay are no reason to cut
                return Choice(frozenset(dropped), "turns")
        return Choice(frozenset(tools), "tool_results") if tools else None


def _asked(view: View) -> list[int]:
    """The user messages that are there."""
    roles, is_ours = view.conversation.roles, view.conversation.is_ours
    return [
        index for index, role in enumerate(roles) if role == "user" and index not in view.gone and not is_ours(index)
    ]


def _older(view: View, start: int, dropped: set[int]) -> set[int]:
    """`dropped`, and the units that end before item `start` and may go."""
    unit = view.conversation.exchanges.unit
    older = {first for first in view.units() if unit(first)[-1] < start}
    across = {first for first in view.units() if first < start and first not in older}
    return _whole_turns(view, across, dropped | (older - view.pinned))


def _whole_turns(view: View, across: set[int], dropped: set[int]) -> set[int]:
    """`dropped`, changed so that a user message comes first, and that a turn of which something has to stay keeps question and answer."""
    dropped = view.holding(across).mended(dropped)
    if view.conversation.alternates:
        for turn in view.turns():
            ends = set(turn).difference(view.inner(turn))
            if len(ends) == 2 and not ends <= dropped:
                dropped = dropped - ends
    return dropped
