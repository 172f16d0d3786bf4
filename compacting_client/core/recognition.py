"""Recognise a conversation, and turn what was decided for it into indexes of the present history, and back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from compacting_client.core.conversation import SYSTEM, Conversation
from compacting_client.core.edits import Edits
from compacting_client.core.effects import Ask, Effect, Recall
from compacting_client.core.measure import Measure
from compacting_client.core.plan import Plan
from compacting_client.core.prefix import OPENING, Chain, Entry, Found, Gap
from compacting_client.errors import PolicyError

__all__ = ["Recognition"]


class Recognition:
    """What is known of one conversation.  Positions count its items that are no system messages.

    ``key`` names the conversation in a store; None where there is nothing to recognise it by.  ``failure``: why the store could not be asked.
    ``lapsed``: what was in force until now, and drops what has to stay.
    """

    __slots__ = (
        "_chain",
        "_conversation",
        "_measured",
        "_memory_key",
        "_policy",
        "failure",
        "history",
        "key",
        "lapsed",
    )

    def __init__(
        self, conversation: Conversation, measured: Measure, policy: str, memory_key: Callable[[Any], Any] | None
    ) -> None:
        self._conversation, self._measured = conversation, measured
        self._policy, self._memory_key = policy, memory_key
        self.history = [index for index, role in enumerate(conversation.roles) if role != SYSTEM]
        self._chain = Chain()
        self.key: str | None = None
        self.failure: Exception | None = None
        self.lapsed: Found | None = None

    def opening(self) -> Generator[Effect, Any, str | None]:
        """The key: a digest of the opening exchange."""
        length = min(OPENING, len(self.history))
        if length:
            yield from self._extend(self._chain, length, range(1, length + 1))
            self.key = self._chain.at(length)
        return self.key

    def entries(self) -> Generator[Effect, Any, list[tuple[Entry, int]]]:
        """What this policy stored for a conversation that opens like this one, newest first."""
        key = yield from self.opening()
        if key is None:
            return []
        try:
            stored: list[tuple[Entry, int]] = yield Recall(key)
            mine = [(entry, uses) for entry, uses in stored if entry.policy == self._policy]
        except Exception as error:  # noqa: BLE001 - a store that is down costs an event, never the request
            self.failure = error
            return []
        return [(entry, uses) for entry, uses in mine if entry.length <= len(self.history)]

    def match(self, entries: Sequence[tuple[Entry, int]], pinned: set[int]) -> Generator[Effect, Any, Found | None]:
        """The newest entry that was made for this history; else the newest whose old part this history shares.

        None where it drops what is pinned now: `lapsed` is that entry then.
        """
        size = len(self.history)
        marks = {length for entry, _ in entries for length in (entry.length, entry.edited_at) if length <= size}
        if marks:
            yield from self._extend(self._chain, max(marks), marks)
        known = [
            Found(entry, uses, entry.edited_at <= size and self._chain.at(entry.edited_at) == entry.edit)
            for entry, uses in entries
            if self._chain.at(entry.length) == entry.digest
        ]
        for found in sorted(known, key=lambda each: not each.own):
            if self._applies(found.entry, pinned):
                return found
            self.lapsed = self.lapsed or found
        return None

    def remembered(self, plan: Plan, ages: dict[int, int], place: int | None) -> Generator[Effect, Any, Entry]:
        """`plan` as an entry; `ages`: unit -> how many requests ago it went; `place`: where stripping begins, as a position."""
        owner, size = self._conversation.exchanges.owner, len(self.history)
        gaps = self._gaps((index, ages.get(owner[index], 0)) for index in plan.gone)
        edits = plan.edits.moved(self.position) if plan.edits else plan.edits
        ends = [gaps[-1].stop] if gaps else []
        length = max((*ends, *(place + 1 for place in edits.places())), default=min(OPENING, size))
        chain = self._chain if self._chain.at(length) is not None or length > self._chain.length else Chain()
        yield from self._extend(chain, size, (length, size))
        return Entry(length, str(chain.at(length)), gaps, size, str(chain.at(size)), self._policy, place, edits)

    def items(self, entry: Entry) -> list[int]:
        """The indexes of the items that an entry drops."""
        return [self.history[place] for gap in entry.gaps for place in range(gap.start, gap.stop)]

    def edits(self, entry: Entry) -> Edits:
        """What an entry shortens and inserts, by indexes."""
        return entry.edits.moved(self.index) if entry.edits else entry.edits

    def ages(self, entry: Entry, uses: int) -> dict[int, int]:
        """Unit -> how many requests ago it went, when `entry` is used for the so-and-so-many-th time."""
        owner, history = self._conversation.exchanges.owner, self.history
        return {owner[history[place]]: gap.age + uses for gap in entry.gaps for place in range(gap.start, gap.stop)}

    def index(self, position: int) -> int:
        """A position as an index into the conversation's items."""
        return self.history[position] if position < len(self.history) else len(self._conversation)

    def position(self, index: int) -> int:
        """An item's index as a position."""
        return self.history.index(index)

    def _applies(self, entry: Entry, pinned: set[int]) -> bool:
        exchanges, dropped = self._conversation.exchanges, set(self.items(entry))
        units = {exchanges.owner[index] for index in dropped}
        # a late result may have joined a unit that went without it: then the entry no longer holds
        return not units & pinned and all(dropped.issuperset(exchanges.unit(unit)) for unit in units)

    def _gaps(self, gone: Iterable[tuple[int, int]]) -> tuple[Gap, ...]:
        places = {index: place for place, index in enumerate(self.history)}
        gaps: list[Gap] = []
        for index, age in gone:
            place = places[index]
            if gaps and gaps[-1].stop == place and gaps[-1].age == age:
                gaps[-1] = Gap(gaps[-1].start, place + 1, age)
            else:
                gaps.append(Gap(place, place + 1, age))
        return tuple(gaps)

    def _extend(self, chain: Chain, length: int, marks: Iterable[int]) -> Generator[Effect, Any, None]:
        """Chain the meanings of the items up to position `length`."""
        indexes = self.history[chain.length : length]
        if self._memory_key is None:
            chain.extend(map(self._measured.meaning, indexes), tuple(marks))
            return
        shown = [self._conversation.neutral(index) for index in indexes]
        keys = yield Ask("memory_key", self._memory_key, [message for messages in shown for message in messages])
        for key in keys:
            if not isinstance(key, str):
                raise PolicyError(
                    f"memory_key returned {key!r}; it must return a string for every message", "memory_key"
                )
        answers = iter(keys)
        chain.extend(
            ("\0".join(next(answers) for _ in messages).encode("utf-8", "surrogatepass") for messages in shown),
            tuple(marks),
        )
