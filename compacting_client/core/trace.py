"""One history as imprints: made once, measured, told apart by, and compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from compacting_client.core import imprints
from compacting_client.core.conversation import SYSTEM, Conversation
from compacting_client.core.imprints import Imprint
from compacting_client.core.tokens import dump

__all__ = ["Trace"]

T = TypeVar("T")


class Trace:
    """The imprints of a conversation's items.  Positions count the items that are no system messages (DESIGN 4: a clock in the prompt is no change).

    ``imprints[i]``   of item *i*
    ``media``         item index -> tokens of its media, by the provider's formula
    ``history``       position -> item index
    """

    __slots__ = ("conversation", "history", "imprints", "media")

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.imprints, self.media = conversation.reader.imprints(conversation.items, conversation.roles)
        self.history: Sequence[int] = _history(conversation.roles)

    def placed(self, values: Sequence[T], start: int = 0, stop: int | None = None) -> Sequence[T]:
        """Those of `values`, one for each item, that belong to the positions [start, stop)."""
        where = self.history[start:stop]
        if isinstance(where, range):
            return values[where.start : where.stop]
        return [values[index] for index in where]

    def texts(self, start: int = 0, stop: int | None = None) -> tuple[Sequence[Imprint], Sequence[str]]:
        """The imprints and the roles of the positions [start, stop)."""
        return self.placed(self.imprints, start, stop), self.placed(self.conversation.roles, start, stop)

    def without_media(self) -> int:
        """How many positions stand before the first item with media."""
        if not self.media:
            return len(self.history)
        first = min(self.media)
        return sum(index < first for index in self.history)

    def opening(self) -> tuple[Any, ...]:
        """What tells conversations apart at a glance: the first two items."""
        return self.conversation.api, *map(hash, self.texts(0, 2)[0])

    def units(self) -> int:
        """About how many characters the texts have."""
        return sum([len(imprint) for imprint in self.imprints if type(imprint) is str])

    def spread(self, sizes: list[float]) -> list[float]:
        """`sizes` by position as sizes by item, those of the system messages between them."""
        roles, count = self.conversation.roles, len(self.imprints)
        systems = [index for index, role in enumerate(roles) if role == SYSTEM]
        beside = imprints.sizes([self.imprints[index] for index in systems], [roles[index] for index in systems])
        if isinstance(self.history, range):
            return [*beside, *sizes]
        found = [0.0] * count
        for index, size in (*zip(systems, beside, strict=True), *zip(self.history, sizes, strict=True)):
            found[index] = size
        return found

    def release(self) -> None:
        """Let go of the JSON; of what it weighs is left."""
        self.imprints = imprints.weighed(self.imprints)

    def said(self, start: int, stop: int) -> bytes:
        """What positions [start, stop) say; that of two stretches in a row is that of both together."""
        texts, roles = self.texts(start, stop)
        meanings: list[Any] = list(zip(roles, texts, strict=True))
        for place, text in enumerate(texts):
            if type(text) is not str:
                meanings[place] = self.meaning(self.history[start + place])
        return dump(meanings)[1:-1] + b"," if meanings else b""

    def meaning(self, index: int) -> Any:
        """What an item says, as JSON-like data: with which call of its exchange each of its results answers, without ids (DESIGN 4)."""
        imprint, conversation = self.imprints[index], self.conversation
        if type(imprint) is str:
            return conversation.roles[index], imprint
        said = ("tool", imprint[0]) if type(imprint) is tuple else conversation.reader.meaning(conversation.items[index])
        answered = conversation.exchanges.position.get(index)
        return (said, answered) if answered and answered != [0] else said


def _history(roles: Sequence[str]) -> Sequence[int]:
    systems = 0
    while systems < len(roles) and roles[systems] == SYSTEM:
        systems += 1
    if SYSTEM not in roles[systems:]:
        return range(systems, len(roles))
    return [index for index, role in enumerate(roles) if role != SYSTEM]
