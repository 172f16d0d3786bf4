"""What a policy decides on: the units that are there, their sizes, and which of them have to stay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from compacting_client.core.conversation import SYSTEM, Conversation

__all__ = ["Choice", "Turn", "View", "base_pins"]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a policy wants: the units to drop (each by its first item), why it acted, whether the rest fits, and what it aimed at (tokens)."""

    units: frozenset[int]
    trigger: str
    fits: bool
    budget: float | None = None
    target: float | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """A user message and what follows it, as units: `question` and `answer` (a final plain text) where there are, `inner` between them."""

    question: int | None
    inner: tuple[int, ...]
    answer: int | None

    def units(self) -> tuple[int, ...]:
        """All units of the turn."""
        return tuple(unit for unit in (self.question, *self.inner, self.answer) if unit is not None)


class View:
    """The present state of one history.  A unit is named by the index of its first item.

    ``sizes[i]`` tokens of item *i*; ``overhead`` tokens of the system prompt and the tools; ``total`` tokens of all that is still there;
    ``gone`` item indexes that are gone already; ``pinned`` units that stay, whatever the policy says.
    """

    __slots__ = ("_units", "conversation", "gone", "overhead", "pinned", "sizes", "total")

    def __init__(
        self,
        conversation: Conversation,
        sizes: Sequence[float],
        overhead: float,
        pinned: Iterable[int] = (),
        gone: Iterable[int] = (),
    ) -> None:
        self.conversation, self.sizes, self.overhead = conversation, sizes, overhead
        self.pinned, self.gone = frozenset(pinned), frozenset(gone)
        self._units: list[int] | None = None
        systems = sum(sizes[index] for index, role in enumerate(conversation.roles) if role == SYSTEM)
        self.total = overhead - systems + sum(sizes) - sum(sizes[index] for index in self.gone)

    def units(self) -> list[int]:
        """The units that are there, oldest first, system messages aside."""
        if self._units is None:
            owner, roles, gone = self.conversation.exchanges.owner, self.conversation.roles, self.gone
            whole = [index for index, first in enumerate(owner) if index == first and roles[index] != SYSTEM]
            self._units = [index for index in whole if index not in gone] if gone else whole
        return self._units

    def size(self, unit: int) -> float:
        """Tokens of a unit."""
        members = self.conversation.exchanges.members.get(unit)
        return self.sizes[unit] if members is None else sum(self.sizes[index] for index in members)

    def ends(self, head: int, tail: int) -> tuple[set[int], set[int]]:
        """The units that the first `head` and the last `tail` neutral messages belong to, the system prompt being the first of them."""
        conversation = self.conversation
        counts = conversation.counts or [1] * len(conversation)
        stops = list(accumulate(counts, initial=len(conversation.head)))
        owner, last = conversation.exchanges.owner, stops[-1] - tail
        first = {owner[index] for index in range(len(conversation)) if stops[index] < head}
        return first, {owner[index] for index in range(len(conversation)) if stops[index + 1] > last}

    def turns(self) -> Iterator[Turn]:
        """The units that are there, turn by turn.  What stands before the first user message is a turn without a question."""
        roles = self.conversation.roles
        question: int | None = None
        rest: list[int] = []
        for unit in self.units():
            if roles[unit] != "user":
                rest.append(unit)
                continue
            if question is not None or rest:
                yield self._turn(question, rest)
            question, rest = unit, []
        if question is not None or rest:
            yield self._turn(question, rest)

    def _turn(self, question: int | None, rest: list[int]) -> Turn:
        plain = (
            bool(rest) and self.conversation.roles[rest[-1]] == "assistant" and rest[-1] not in self.conversation.calls
        )
        return Turn(question, tuple(rest[:-1] if plain else rest), rest[-1] if plain else None)

    def mended(self, dropped: set[int]) -> set[int]:
        """`dropped`, changed so that the history still opens with a user message where it did before.

        What would stand before the first kept user message goes too; where that is pinned, its question comes back (BerriAI/litellm#6660).
        """
        roles = self.conversation.roles
        units = self.units()
        if not units or not _opens_with_user(self.conversation):
            return dropped
        leading: list[int] = []
        for unit in units:
            if unit in dropped:
                continue
            if roles[unit] == "user":
                return dropped | set(leading)
            if unit in self.pinned:
                before = [other for other in units if other in dropped and other < unit and roles[other] == "user"]
                return (dropped - {before[-1]}) | set(leading) if before else dropped
            leading.append(unit)
        return dropped


def _opens_with_user(conversation: Conversation) -> bool:
    return next((role == "user" for role in conversation.roles if role != SYSTEM), False)


def base_pins(conversation: Conversation) -> set[int]:
    """The units that every policy keeps: systems, the last real user message, the newest exchange after it, and what the format fixes."""
    roles, owner = conversation.roles, conversation.exchanges.owner
    pins = {owner[index] for index, role in enumerate(roles) if role == SYSTEM or index in conversation.fixed}
    question = conversation.question()
    start = 0 if question is None else question
    pins.update(owner[start : start + 1])
    after = [index for index in range(start, len(roles)) if roles[index] != SYSTEM]
    pins.update(owner[index] for index in after[-1:])
    batch = [index for index in after if index in conversation.calls][-1:]
    while batch and batch[-1] - 1 in conversation.calls and batch[-1] > start:  # a parallel batch over several items
        batch.append(batch[-1] - 1)
    pins.update(owner[index] for index in batch)
    return pins
