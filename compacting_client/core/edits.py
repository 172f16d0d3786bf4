"""What changes in the items that stay: shortened tool results, emptied arguments of calls, and text that a policy inserted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from compacting_client.core.conversation import SYSTEM, Conversation, ItemEdit, Reader

__all__ = ["NO_EDITS", "Edits", "Inserted", "Shortened", "placed", "rendered", "to_system", "weighed"]


_SYSTEM = ("system", "instruction")


@dataclass(frozen=True, slots=True)
class Shortened:
    """A tool result with other content, or a call without its arguments.

    ``kind``: "shortened", by a function: the neutral message number `part` of the item `at` has this content; "cleared": the same, with a
    marker, and nothing of the result is left beside it; "emptied": call number `part` of the item has no arguments any more.
    """

    at: int
    part: int
    content: Any
    kind: Literal["shortened", "cleared", "emptied"] = "shortened"


@dataclass(frozen=True, slots=True)
class Inserted:
    """Text of a policy's own: at the "start" or "end" of the user item `at`, an "own" user item before it, or yet "unplaced" before it.

    "system": at the end of the system prompt, wherever the provider keeps that; `at` is then the first item that is left (see `to_system`).
    "instruction": the same, of a text that the caller asked for: it is no part of what must not get larger.
    ``units``: UTF-16 units of the text's JSON, where that is known.
    """

    at: int
    side: Literal["start", "end", "own", "system", "instruction", "unplaced"]
    text: str
    units: int | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Edits:
    """All changes of one history, by the indexes of its items; in a remembered entry, by positions."""

    shortened: tuple[Shortened, ...] = ()
    inserted: tuple[Inserted, ...] = ()
    _by_item: dict[int, ItemEdit] = field(default_factory=dict[int, ItemEdit], init=False, repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.shortened or self.inserted)

    def places(self, known: Collection[str] = ()) -> set[int]:
        """The items that change, and those that text stands before, but for the instructions in `known`."""
        texts = [each for each in self.inserted if each.side != "instruction" or each.text not in known]
        return {each.at for each in self.shortened} | {each.at for each in texts}

    @property
    def system(self) -> list[str]:
        """The texts that stand at the end of the system prompt, in their order."""
        return [each.text for each in self.inserted if each.side in _SYSTEM]

    @property
    def asked_for(self) -> list[str]:
        """Those of them that the caller asked for."""
        return [each.text for each in self.inserted if each.side == "instruction"]

    def by_item(self) -> dict[int, ItemEdit]:
        """The changes of each item."""
        if self and not self._by_item:
            for change in self.shortened:
                _enter(change, self._by_item.setdefault(change.at, ItemEdit()))
            for text in self.inserted:
                side = "system" if text.side in _SYSTEM else text.side
                getattr(self._by_item.setdefault(text.at, ItemEdit()), side).append(text.text)
        return self._by_item

    def moved(self, where: Callable[[int], int]) -> Edits:
        """The same at other indexes."""
        return Edits(
            tuple(replace(each, at=where(each.at)) for each in self.shortened),
            tuple(replace(each, at=where(each.at)) for each in self.inserted),
        )

    def then(
        self,
        conversation: Conversation,
        gone: AbstractSet[int],
        shortened: Sequence[Shortened] = (),
        inserted: Sequence[Inserted] | None = None,
    ) -> Edits:
        """These with newer ones on top, once the items in `gone` are gone; ``inserted=None`` leaves the inserted texts."""
        changes = [each for each in (*self.shortened, *shortened) if each.at not in gone]
        latest = {(each.at, each.kind == "emptied", each.part): each for each in changes}
        texts = self.inserted if inserted is None else inserted
        return Edits(tuple(latest.values()), placed(conversation, gone, texts))


NO_EDITS = Edits()


def _enter(change: Shortened, edit: ItemEdit) -> None:
    if change.kind == "emptied":
        edit.emptied.add(change.part)
        return
    edit.parts[change.part] = change.content
    if change.kind == "cleared":
        edit.cleared.add(change.part)


def rendered(reader: Reader, item: Any, edit: ItemEdit | None) -> list[Any]:
    """What stands in the place of one item; `item` None: it went, and only what was to stand before it is left."""
    if edit is None:
        return [] if item is None else [item]
    before = [reader.own(edit.own)] if edit.own else []
    if item is None:
        return before
    changes = edit.parts or edit.emptied or edit.start or edit.end
    return [*before, reader.edited(item, edit) if changes else item]


def weighed(reader: Reader, item: Any, edit: ItemEdit) -> list[Any]:
    """What is counted for one item: what stands in its place, and the texts at the end of the system prompt."""
    return [*rendered(reader, item, edit), *([reader.own(edit.system)] if edit.system else [])]


def to_system(conversation: Conversation, text: str) -> Inserted:
    """`text` at the end of the system prompt.  Everything that stands in the history comes after it."""
    return Inserted(conversation.history[0], "system", text)


def placed(conversation: Conversation, gone: AbstractSet[int], texts: Sequence[Inserted]) -> tuple[Inserted, ...]:
    """`texts`, each at a place that strictly alternating templates accept and that is inside no exchange (DESIGN 3.6).

    Before the content of a user item that follows; else at the end of the user item before it; else an item of its own in front of all.
    """
    if all(each.side != "unplaced" and each.at not in gone for each in texts):
        return tuple(texts)
    roles, owner = conversation.roles, conversation.exchanges.owner
    there = [index for index in range(len(roles)) if index not in gone and roles[index] != SYSTEM]
    takes = [index for index in there if roles[index] == "user" and index not in conversation.answers]
    reaches, lowest = dict[int, int](), len(roles)  # item -> how far back the exchanges of it and of later items reach
    for index in reversed(there):
        reaches[index] = lowest = min(lowest, owner[index])
    return tuple(
        each
        if each.side != "unplaced" and each.at not in gone
        else replace(each, at=there[0])
        if each.side in _SYSTEM
        else _placed(each, there, takes, reaches)
        for each in texts
    )


def _placed(each: Inserted, there: Sequence[int], takes: Collection[int], reaches: dict[int, int]) -> Inserted:
    at = each.at + (each.side == "end")
    following = next((index for index in there if index >= at), None)
    while following is not None and reaches[following] < min(at, following):
        at = reaches[following]
        following = next(index for index in there if index >= at)
    if following in takes and following is not None:
        return replace(each, at=following, side="start")
    before = max((index for index in takes if index < at), default=None)
    if before is not None:
        return replace(each, at=before, side="end")
    return replace(each, at=there[0], side="own")
