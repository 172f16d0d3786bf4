"""Recognise a conversation, and turn what was decided for it into indexes of the present history, and back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import chain
from typing import Any

from compacting_client.core.edits import Edits
from compacting_client.core.effects import Ask, Effect, Recall
from compacting_client.core.measure import Measure
from compacting_client.core.plan import Plan, between, runs, stretches
from compacting_client.core.prefix import OPENING, Chain, Entry, Found, Gap
from compacting_client.errors import PolicyError

__all__ = ["Recognition"]


class Recognition:
    """What is known of one conversation.  Positions count its items that are no system messages.

    ``key`` names the conversation in a store; None where there is nothing to recognise it by.  ``failure``: why the store could not be asked.
    ``lapsed``: what was in force until now, and drops or clears what has to stay.
    """

    __slots__ = (
        "_asked",
        "_chain",
        "_conversation",
        "_gone",
        "_memory_key",
        "_moved",
        "_policy",
        "_portable",
        "_trace",
        "failure",
        "history",
        "key",
        "lapsed",
    )

    def __init__(
        self, measured: Measure, policy: str, memory_key: Callable[[Any], Any] | None, *, portable: bool = True
    ) -> None:
        self._conversation, self._trace = measured.conversation, measured.trace
        self._policy, self._memory_key = policy, memory_key
        self._portable = portable
        self.history = self._trace.history
        self._asked: list[bytes] = []
        self._gone: tuple[Entry, frozenset[int]] | None = None
        self._moved: tuple[Entry, Edits] | None = None
        self._chain = Chain(measured.states if memory_key is None else None)
        self.key: str | None = None
        self.failure: Exception | None = None
        self.lapsed: Found | None = None

    @property
    def states(self) -> Mapping[int, Any]:
        """What is known of the digests, for the next request; nothing where the caller's `memory_key` made them."""
        return self._chain.states if self._memory_key is None else {}

    def opening(self) -> Generator[Effect, Any, str | None]:
        """The key: a digest of the opening exchange."""
        if self.history:
            self.key = yield from self._digest(min(OPENING, len(self.history)))
        return self.key

    def apart(self, items: int) -> Generator[Effect, Any, str | None]:
        """`key`, a colon, and a digest of so many items more: tells most conversations apart that open alike."""
        if self.key is None:
            return None
        digest = yield from self._digest(min(OPENING + items, len(self.history)))
        return f"{self.key}:{digest}"

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

        None where it drops or clears what is pinned now: `lapsed` is that entry then.
        """
        size = len(self.history)
        lengths = {length for entry, _ in entries for length in (entry.length, entry.edited_at) if length <= size}
        digests = dict[int, str]()
        for length in sorted(lengths):
            digests[length] = yield from self._digest(length)
        known = [
            Found(entry, uses, digests.get(entry.edited_at) == entry.edit)
            for entry, uses in entries
            if digests[entry.length] == entry.digest
        ]
        for found in sorted(known, key=lambda each: not each.own):
            if self._applies(found.entry, pinned):
                return found
            self.lapsed = self.lapsed or found
        return None

    def remembered(self, plan: Plan, ages: Mapping[int, int], place: int | None) -> Generator[Effect, Any, Entry]:
        """`plan` as an entry; `ages`: item -> how many requests ago it went, if not now; `place`: where stripping begins, as a position."""
        size = len(self.history)
        gaps = self._gaps(plan, ages)
        edits = plan.edits.moved(self.position) if plan.edits else plan.edits
        ends = [gaps[-1].stop] if gaps else []
        length = max((*ends, *(place + 1 for place in edits.places())), default=min(OPENING, size))
        digest = yield from self._digest(length)
        edit = yield from self._digest(size)
        return Entry(length, digest, gaps, size, edit, self._policy, place, edits)

    def gone(self, entry: Entry) -> frozenset[int]:
        """The indexes of the items that an entry drops."""
        if self._gone is None or self._gone[0] is not entry:
            self._gone = entry, frozenset(chain.from_iterable(self.history[gap.start : gap.stop] for gap in entry.gaps))
        return self._gone[1]

    def edits(self, entry: Entry) -> Edits:
        """What an entry shortens and inserts, by indexes."""
        if self._moved is None or self._moved[0] is not entry:
            self._moved = entry, entry.edits.moved(self.index) if entry.edits else entry.edits
        return self._moved[1]

    def ages(self, entry: Entry, uses: int) -> dict[int, int]:
        """Item -> how many requests ago it went, when `entry` is used for the so-and-so-many-th time."""
        return {index: gap.age + uses for gap in entry.gaps for index in self.history[gap.start : gap.stop]}

    def index(self, position: int) -> int:
        """A position as an index into the conversation's items."""
        return self.history[position] if position < len(self.history) else len(self._conversation)

    def position(self, index: int) -> int:
        """An item's index as a position."""
        return self.history.index(index)

    def _applies(self, entry: Entry, pinned: set[int]) -> bool:
        owner, gone = self._conversation.exchanges.owner, stretches(sorted(self.gone(entry)))
        went = {*chain.from_iterable(owner[start:stop] for start, stop in gone)}
        if not went.isdisjoint(pinned):
            return False
        if any(each.kind != "shortened" and owner[each.at] in pinned for each in self.edits(entry).shortened):
            return False
        # a late result may have joined a unit that went without it: then the entry no longer holds
        return went.isdisjoint(chain.from_iterable(owner[start:stop] for start, stop in between(gone, len(owner))))

    def _gaps(self, plan: Plan, ages: Mapping[int, int]) -> tuple[Gap, ...]:
        """The dropped items as stretches of positions that went at the same time."""
        if not ages:
            return tuple(Gap(start, stop) for start, stop in self._trace.stretches(plan))
        places, age = self._trace.positions(plan.gone), [ages.get(index, 0) for index in plan.gone]
        return tuple(Gap(places[start], places[stop - 1] + 1, age[start]) for start, stop in runs(places, age))

    def _digest(self, length: int) -> Generator[Effect, Any, str]:
        """The digest of the first `length` items."""
        if self._memory_key is not None and length > len(self._asked):
            indexes = self.history[len(self._asked) : length]
            shown = [self._conversation.neutral(index) for index in indexes]
            keys = yield Ask("memory_key", self._memory_key, [message for messages in shown for message in messages])
            for key in keys:
                if not isinstance(key, str):
                    raise PolicyError(
                        f"memory_key returned {key!r}; it must return a string for every message", "memory_key"
                    )
            answers = iter(keys)
            texts = ("\0".join(next(answers) for _ in messages) for messages in shown)
            self._asked += [text.encode("utf-8", "surrogatepass") for text in texts]
        said = self._keyed if self._memory_key else self._trace.said if self._portable else self._trace.hashed
        return self._chain.at(length, said)

    def _keyed(self, start: int, stop: int) -> bytes:
        """What the caller's `memory_key` said of some positions."""
        return b"".join(b"%d:%s" % (len(key), key) for key in self._asked[start:stop])
