"""One history as imprints: made once, measured, told apart by, and compared with."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

from compacting_client.core.conversation import Conversation
from compacting_client.core.imprints import CHAT, Imprint
from compacting_client.core.plan import Plan, Stretch, stretches
from compacting_client.core.prefix import OPENING
from compacting_client.core.tokens import dump, dump_all

__all__ = ["Trace"]

T = TypeVar("T")

_AT_ONCE = 128  # positions that are hashed together: of a history, several beginnings are asked for


class Trace:
    """The imprints of a conversation by position: positions count the items that are no system messages (DESIGN 4: a clock in the system
    prompt is no change).

    ``history``   position -> item index
    """

    def __init__(self, conversation: Conversation) -> None:
        self.conversation, self.history = conversation, conversation.history
        self._sent: dict[int, int] = {}
        self._chunks: list[int] = []

    def sent(self, length: int) -> int:
        """A hash of what the first positions send: imprints hold all of it but the data of media."""
        if length not in self._sent:
            whole = length // _AT_ONCE
            for start in range(len(self._chunks) * _AT_ONCE, whole * _AT_ONCE, _AT_ONCE):
                self._chunks.append(self._chunk(start, start + _AT_ONCE))
            self._sent[length] = hash((*self._chunks[:whole], self._chunk(whole * _AT_ONCE, length)))
        return self._sent[length]

    def release(self) -> None:
        """Let go of what is as large as the history; lengths that were asked for are known."""
        self._chunks = []
        for name in ("_hashes", "_rich"):
            self.__dict__.pop(name, None)

    def _chunk(self, start: int, stop: int) -> int:
        rich = self._rich[bisect_left(self._rich, start) : bisect_left(self._rich, stop)]
        return hash((*self._hashes[start:stop], tuple(rich)))  # a text and the same bytes have one hash

    @cached_property
    def _hashes(self) -> list[int]:
        """Of each position, by its role and its imprint."""
        texts, roles = self.texts()
        return [*map(hash, zip(roles, texts, strict=True))]

    @cached_property
    def _rich(self) -> Sequence[int]:
        """The positions that are more than a text, ascending."""
        history, rich = self.history, self.conversation.contents.rich
        if isinstance(history, range):
            systems = history.start
            return [index - systems for index in rich[bisect_left(rich, systems) :]]
        found = set(history)
        return self.positions([index for index in rich if index in found])

    def placed(self, values: Sequence[T], start: int = 0, stop: int | None = None) -> Sequence[T]:
        """Those of `values`, one for each item, that belong to the positions [start, stop)."""
        where = self.history[start:stop]
        if isinstance(where, range):
            return values[where.start : where.stop]
        return [values[index] for index in where]

    def positions(self, indexes: Sequence[int]) -> Sequence[int]:
        """Items by their indexes as positions."""
        if isinstance(self.history, range):
            systems = self.history.start
            return [index - systems for index in indexes]
        places = {index: place for place, index in enumerate(self.history)}
        return [places[index] for index in indexes]

    def stretches(self, plan: Plan) -> list[Stretch]:
        """What a plan drops, as stretches of positions."""
        if isinstance(self.history, range):
            systems = self.history.start
            return [(start - systems, stop - systems) for start, stop in plan.stretches]
        return stretches(self.positions(plan.gone))

    def texts(self, start: int = 0, stop: int | None = None) -> tuple[Sequence[Imprint], Sequence[str]]:
        """The imprints and the roles of the positions [start, stop)."""
        conversation = self.conversation
        return self.placed(conversation.contents.imprints, start, stop), self.placed(conversation.roles, start, stop)

    def opening(self, length: int) -> tuple[Sequence[Imprint], Sequence[str]]:
        """`texts` of the first positions, without a look into the others."""
        items, roles = self.placed(self.conversation.items, 0, length), self.placed(self.conversation.roles, 0, length)
        imprint = self.conversation.reader.imprint
        return [imprint(item, role)[0] for item, role in zip(items, roles, strict=True)], roles

    def without_media(self) -> int:
        """How many positions stand before the first item with media."""
        first = min(self.conversation.contents.media, default=len(self.conversation))
        return len(self.history) if first == len(self.conversation) else sum(index < first for index in self.history)

    def said(self, start: int, stop: int) -> bytes:
        """What positions [start, stop) say; that of two stretches in a row is that of both together."""
        texts, roles = self.opening(stop) if start == 0 and stop <= OPENING else self.texts(start, stop)
        meanings: list[Any] = list(zip(roles, texts, strict=True))
        plain = self.conversation.plain
        for place, (index, text) in enumerate(zip(self.history[start:stop], texts, strict=True)):
            if type(text) is not str:
                said, answered = self._meant(index, text)
                meanings[place] = [said, answered] if answered else said
            elif plain is not CHAT:
                meanings[place] = plain.said(*meanings[place])
        return dump_all(meanings) + b"," if meanings else b""

    def hashed(self, start: int, stop: int) -> bytes:
        """The same in hashes of this process: texts keep theirs, so it costs next to nothing."""
        conversation, indexes = self.conversation, self.history[start:stop]
        items, roles = conversation.items, conversation.roles
        if start == 0 and stop <= OPENING:
            texts, told = self.opening(stop)
            hashes, position = [*map(hash, zip(told, texts, strict=True))], dict[int, list[int]]()
            rich: Sequence[int] = [place for place, text in enumerate(texts) if type(text) is not str]
        else:
            texts, position = self.texts(start, stop)[0], conversation.exchanges.position
            hashes, rich = self._hashes[start:stop], self._rich
            rich = [place - start for place in rich[bisect_left(rich, start) : bisect_left(rich, stop)]]
        meaning = conversation.reader.meaning
        for place in rich:
            text, index = texts[place], indexes[place]
            if type(text) is tuple:  # most results are plain: what `_meant` says of those, in place
                hashed = hash(("tool", text[0]))
                hashes[place] = hash((hashed, *position[index])) if index in position else hashed
            else:
                said = meaning(items[index])  # all spellings of a plain text mean the same pair
                pair = cast("Sequence[Any]", said)
                plain = type(said) is tuple and len(pair) == 2 and type(pair[0]) is type(pair[1]) is str
                hashes[place] = hashed = hash(tuple(pair) if plain else dump(said))
                if index in position and roles[index] != "assistant":  # that answers only its own server tools
                    hashes[place] = hash((hashed, *position[index]))
        return struct.pack(f"{len(hashes)}q", *hashes)

    def meaning(self, index: int) -> Any:
        """What an item says, as JSON-like data: with which call of its exchange each of its results answers, without ids (DESIGN 4)."""
        conversation = self.conversation
        item, role = conversation.items[index], conversation.roles[index]
        imprint, _ = conversation.reader.imprint(item, role)
        if type(imprint) is str:
            return conversation.plain.said(role, imprint)
        said, answered = self._meant(index, imprint)
        return [said, answered] if answered else said

    def _meant(self, index: int, imprint: Imprint) -> tuple[Any, Sequence[int]]:
        conversation, plain = self.conversation, self.conversation.plain
        said = (
            ("tool", imprint[0]) if type(imprint) is tuple else conversation.reader.meaning(conversation.items[index])
        )
        if plain is not CHAT and type(said) is tuple:  # another spelling of a plain text
            said = plain.said(*cast("tuple[str, str]", said))
        # an assistant answers only its own server tools, and a look at the opening alone pairs nothing
        answers = conversation.roles[index] != "assistant"
        return said, conversation.exchanges.position.get(index, ()) if answers else ()
