"""What a policy decides on: the units that are there, their sizes, and which of them have to stay."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, Protocol

from compacting_client.core.conversation import SYSTEM, Conversation
from compacting_client.core.edits import NO_EDITS, Edits, Inserted, Shortened
from compacting_client.core.effects import Effect
from compacting_client.core.plan import Stretch, stretches
from compacting_client.core.summaries import Summarised
from compacting_client.core.turns import Turns
from compacting_client.errors import PolicyError

__all__ = ["Choice", "Resize", "Sizes", "View", "base_pins"]

Resize = Callable[[Edits], Generator[Effect, Any, Mapping[int, float]]]
"""The sizes of the items that some edits change."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a policy wants: the units to drop (each by its first item), why it acted, and what it aimed at (tokens).

    ``shortened``: tool results with other content, calls without arguments.  ``inserted``: all texts that stand in the history from now on;
    None: those that did.
    ``summary``: the one that was made for it, or failed to be, and ``summarised``: the units that it stands for.  ``lasting``: whether later
    requests are to begin with it too.  ``why``: what the report says where nothing is changed.
    """

    units: frozenset[int]
    trigger: str
    target: float | None = None
    shortened: tuple[Shortened, ...] = ()
    inserted: tuple[Inserted, ...] | None = None
    summary: Summarised | None = None
    lasting: bool = True
    summarised: frozenset[int] = frozenset()
    why: str = "nothing older"

    def __bool__(self) -> bool:
        return bool(self.units or self.shortened) or self.inserted is not None

    def then(self, later: Choice) -> Choice:
        """Both, the later one on top; the trigger is that of the first which drops something, as the account of what went is told by it."""
        return replace(
            later,
            units=self.units | later.units,
            trigger=self.trigger if self.units or not later.units else later.trigger,
            shortened=(*self.shortened, *later.shortened),
            inserted=self.inserted if later.inserted is None else later.inserted,
            summary=later.summary or self.summary,
            summarised=self.summarised | later.summarised,
            lasting=self.lasting and later.lasting,
        )


class Sizes(Protocol):
    """The sizes of a conversation's items, counted where they are asked for."""

    @property
    def conversation(self) -> Conversation:
        """Whose items."""
        ...

    @property
    def sizes(self) -> Sequence[float]:
        """Tokens of each item."""
        ...

    @property
    def total(self) -> float:
        """Tokens of the whole request."""
        ...

    def of(self, indexes: Sequence[int]) -> list[float]:
        """Tokens of some items."""
        ...

    def left(self, gone: Sequence[Stretch]) -> float:
        """Tokens of the request without the items of these stretches."""
        ...

    @property
    def overhead(self) -> float:
        """Tokens of the system prompt and the tools."""
        ...

    def exceeds(self, limit: float) -> bool:
        """Whether `total` is more than `limit`."""
        ...

    @property
    def by_estimate(self) -> bool:
        """Whether sizes are whole numbers, and not the caller's own."""
        ...


class Known(Protocol):
    """How a conversation is recognised."""

    @property
    def key(self) -> str | None:
        """Names it in a store, where it can be recognised."""
        ...

    def apart(self, items: int) -> Generator[Effect, Any, str | None]:
        """Names it by so many items more than `key` does."""
        ...


class View:
    """The present state of one history.  A unit is named by the index of its first item.

    ``sizes[i]`` tokens of item *i*; ``overhead`` tokens of the system prompt and the tools; ``total`` tokens of all that is still there;
    ``gone`` item indexes that are gone already; ``pinned`` units that stay, whatever the policy says; ``edits`` what was shortened and inserted;
    ``known`` names the conversation, where it can be recognised.
    """

    __slots__ = (
        "_changed",
        "_latest",
        "_measured",
        "_resize",
        "_sizes",
        "_total",
        "_units",
        "conversation",
        "edits",
        "gone",
        "known",
        "pinned",
    )

    def __init__(  # noqa: PLR0917 - made in two places
        self,
        measured: Sizes,
        pinned: Iterable[int] = (),
        gone: Iterable[int] = (),
        edits: Edits = NO_EDITS,
        changed: Mapping[int, float] | None = None,
        resize: Resize | None = None,
        known: Known | None = None,
    ) -> None:
        self._measured, self.conversation = measured, measured.conversation
        self.pinned, self.gone = frozenset(pinned), frozenset(gone)
        self.edits, self._changed, self._resize, self.known = edits, changed, resize, known
        self._sizes: Sequence[float] | None = None
        self._latest: tuple[frozenset[int], frozenset[int]] | None = (
            None  # units that were dropped last, and what was gone then
        )
        self._units: list[int] | None = None
        self._total: float | None = None

    @property
    def sizes(self) -> Sequence[float]:
        """Tokens of each item."""
        if self._changed is None:
            return self._measured.sizes
        if self._sizes is None:
            self._sizes = self._of(range(len(self.conversation)))
        return self._sizes

    @property
    def key(self) -> str | None:
        """Names the conversation in a store."""
        return self.known.key if self.known is not None else None

    @property
    def overhead(self) -> float:
        """Tokens of the system prompt and the tools."""
        return self._measured.overhead

    @property
    def total(self) -> float:
        """Tokens of all that is still there."""
        if self._total is None:
            edited = [*(self.edits.places() - self.gone)] if self._changed is not None else []
            now, before = self._of(edited), self._measured.of(edited)
            more = sum([size - was for size, was in zip(now, before, strict=True)])
            self._total = self._measured.left(stretches(sorted(self.gone))) + more
        return self._total

    def exceeds(self, limit: float) -> bool:
        """Whether `total` is more than `limit`; nothing is counted where that is clear at a glance."""
        untouched = not self.gone and self._changed is None
        return self._measured.exceeds(limit) if untouched else self.total > limit

    def holding(self, units: Iterable[int]) -> View:
        """The same with some more units pinned."""
        return View(
            self._measured, self.pinned.union(units), self.gone, self.edits, self._changed, self._resize, self.known
        )

    def units(self) -> list[int]:
        """The units that are there, oldest first, system messages aside."""
        if self._units is None:
            owner, history, gone = self.conversation.exchanges.owner, self.conversation.history, self.gone
            if isinstance(history, range):  # a unit is first met at its first item
                found = dict.fromkeys(owner[history.start : history.stop])
                self._units = [unit for unit in found if unit not in gone] if gone else [*found]
            else:
                self._units = [index for index in history if owner[index] == index and index not in gone]
        return self._units

    def weights(self, units: Sequence[int] | None = None) -> dict[int, float]:
        """Tokens of each of some units, or of all that are there."""
        units = self.units() if units is None else units
        members = self.conversation.exchanges.members
        found = dict(zip(units, self._of(units), strict=True))
        joined = [unit for unit in units if unit in members]
        sizes = iter(self._of([index for unit in joined for index in members[unit]]))
        for unit in joined:
            found[unit] = sum(islice(sizes, len(members[unit])))
        return found

    def turn_weights(self, turns: Turns) -> list[float]:
        """Tokens of each of some turns."""
        units, members = turns.units, self.conversation.exchanges.members
        if not units:
            return []
        joined = [members[unit] for unit in units if unit in members]
        start, stop = units[0], max(units[-1] + 1, joined[-1][-1] + 1 if joined else 0)
        apart = all(each[-1] - each[0] < len(each) for each in joined)  # no unit is interrupted by another
        # how fractions of a caller's counter are rounded depends on the order of their sums
        if not (apart and self._measured.by_estimate) or stop - start != len(units) + sum(map(len, joined)) - len(
            joined
        ):
            weights = self.weights(units)
            return [sum([weights[unit] for unit in turn]) for turn in turns]
        sizes, ends = self._of(range(start, stop)), [*(turn[0] - start for turn in turns), stop - start]
        return [sum(sizes[first:end]) for first, end in pairwise(ends)]

    def weight(self, units: AbstractSet[int]) -> float:
        """Tokens of some units together."""
        return sum(self._of([*self.conversation.exchanges.items(units)]))

    def _of(self, indexes: Sequence[int]) -> list[float]:
        """Tokens of some items."""
        sizes, changed = self._measured.of(indexes), self._changed
        return [changed.get(*each) for each in zip(indexes, sizes, strict=True)] if changed else sizes

    def after(self, choice: Choice) -> Generator[Effect, Any, View]:
        """What `choice` leaves."""
        if self._latest is None or self._latest[0] is not choice.units:
            self._latest = choice.units, self.gone | self.conversation.exchanges.items(choice.units)
        gone = self._latest[1]
        edits = self.edits.then(self.conversation, gone, choice.shortened, choice.inserted)
        changed = self._changed
        if self._resize is not None and edits != self.edits:
            changed = yield from self._resize(edits)
        return View(self._measured, self.pinned, gone, edits, changed, self._resize, self.known)

    def settled(self, choice: Any) -> Choice | None:
        """A policy's answer without what is pinned, mended for a provider that wants a user turn first.  Raises PolicyError for what is none."""
        if choice is None:
            return None
        if not isinstance(choice, Choice):
            raise PolicyError(f"choose() returned {choice!r}; it must return a Choice or None")
        if unknown := choice.units.difference(self.units()):
            raise PolicyError(f"choose() named units that are not there: {sorted(unknown)}")
        units: AbstractSet[int] = choice.units - self.pinned
        texts = self.edits.inserted if choice.inserted is None else choice.inserted
        if self.conversation.opens_with_user and not any(each.side == "own" for each in texts):
            units = self.mended({*units})
        return replace(choice, units=frozenset(units))

    def ends(self, head: int, tail: int) -> tuple[set[int], set[int]]:
        """The units that the first `head` and the last `tail` neutral messages belong to, the system prompt being the first of them."""
        conversation = self.conversation
        owner, counts, size = conversation.exchanges.owner, conversation.counts, len(conversation)
        first, last = set[int](), set[int]()
        index, seen = 0, len(conversation.head)
        while index < size and seen < head:
            first.add(owner[index])
            seen += 1 if counts is None else counts[index]
            index += 1
        index, seen = size - 1, 0
        while index >= 0 and seen < tail:
            last.add(owner[index])
            seen += 1 if counts is None else counts[index]
            index -= 1
        return first, last

    def turns(self) -> Turns:
        """The units that are there, turn by turn: a user message and what follows it.  What stands before the first one is a turn too."""
        roles, units = self.conversation.roles, self.units()
        return Turns.beginning(units, [place for place, unit in enumerate(units) if roles[unit] == "user"])

    def whole_turns(self, goal: float) -> set[int]:
        """The units of the oldest turns that may go whole, down to `goal` tokens."""
        left, found, turns = self.total, set[int](), self.turns()
        for turn, weight in zip(turns, self.turn_weights(turns), strict=True):
            if left > goal and not self.pinned.intersection(turn):
                found.update(turn)
                left -= weight
        return found

    def inner(self, turn: Sequence[int]) -> Sequence[int]:
        """A turn without its question and its answer, a final plain text."""
        roles, last = self.conversation.roles, turn[-1]
        start = 1 if roles[turn[0]] == "user" else 0
        plain = len(turn) > start and roles[last] == "assistant" and last not in self.conversation.calls
        return turn[start : -1 if plain else None]

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
                return dropped | set(leading) if leading else dropped
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
    pins = {owner[index] for index in conversation.fixed}
    pins.update(owner[index] for index in conversation.systems)
    question = conversation.question()
    start = 0 if question is None else question
    if question is not None or not conversation.is_ours(start):
        pins.update(owner[start : start + 1])
    after = [index for index in range(start, len(roles)) if roles[index] != SYSTEM]
    pins.update(owner[index] for index in after[-1:])
    batch = [index for index in after if index in conversation.calls][-1:]
    while batch and batch[-1] - 1 in conversation.calls and batch[-1] > start:  # a parallel batch over several items
        batch.append(batch[-1] - 1)
    pins.update(owner[index] for index in batch)
    return pins
