"""A history in two: the earlier turns, and the current run, which is what follows the last question."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from compacting_client.core.conversation import SYSTEM, Conversation
from compacting_client.core.edits import Inserted
from compacting_client.core.ledger import is_ledger, is_note
from compacting_client.core.view import View

__all__ = ["Stages", "results"]


class Stages:
    """The units of one view, and the texts of a ledger's own that stand in it.

    ``run``, ``earlier``: those of the run and of earlier turns that may go; ``stays(conversation, unit)``: which ones may not.
    """

    def __init__(self, view: View, stays: Callable[[Conversation, int], bool] | None) -> None:
        self.view = view
        self._question = question = view.conversation.question()
        members = view.conversation.exchanges.members
        self._start = start = -1 if question is None else question
        self._behind = {unit for unit in members if unit <= start < members[unit][-1]}  # begun before the question
        free = set(view.units()) - view.pinned
        if stays is not None:
            free -= {unit for unit in free & members.keys() if stays(view.conversation, unit)}
        self.run = {unit for unit in free if unit > start} | (free & self._behind)
        self.earlier = free - self.run

    @property
    def noted(self) -> bool:
        """Whether the earlier turns are a note already."""
        return any(is_note(each.text) and each.at == self._question for each in self.view.edits.inserted)

    @property
    def before(self) -> list[str]:
        """The ledgers that are there."""
        return [each.text for each in self.view.edits.inserted if is_ledger(each.text)]

    def loop_aside(self) -> set[int]:
        """The units of the run that may go, without the tool loop at its end."""
        conversation, loop = self.view.conversation, set[int]()
        for index in range(len(conversation) - 1, -1, -1):
            if conversation.roles[index] == "tool" or index in conversation.calls:
                loop.add(conversation.exchanges.owner[index])
            elif conversation.roles[index] != SYSTEM:
                break
        return self.run - loop

    def lost(self, units: AbstractSet[int], *, noted: bool) -> list[int]:
        """The units that are gone, or go now, and belong into the ledger: those of the run; with `noted` the earlier exchanges too."""
        owner, conversation = self.view.conversation.exchanges.owner, self.view.conversation
        gone = {*units, *(unit for unit in self.view.gone if owner[unit] == unit)}
        if not noted:
            return sorted(unit for unit in gone if unit > self._start or unit in self._behind)
        spoken = conversation.calls.keys() | conversation.answers.keys()
        return sorted(unit for unit in gone if unit > self._start or unit in spoken)

    def left(self, units: AbstractSet[int], *, noted: bool) -> list[int]:
        """The exchanges that stay, and whose results the ledger need not have."""
        there = (
            unit
            for unit in self.view.conversation.exchanges.members
            if unit not in units and unit not in self.view.gone
        )
        return sorted(unit for unit in there if noted or unit > self._start or unit in self._behind)

    def said_before(self, units: AbstractSet[int]) -> list[int]:
        """The items of earlier turns that are gone or go now, tools aside."""
        conversation, gone, calls = self.view.conversation, self.view.gone, self.view.conversation.calls
        roles = conversation.roles[: len(conversation) if self._question is None else self._question]
        owner = conversation.exchanges.owner
        return [
            index
            for index, role in enumerate(roles)
            if role in _SPEAKERS and index not in calls and (owner[index] in units or index in gone)
        ]

    def others(self, *, noted: bool) -> tuple[Inserted, ...]:
        """The inserted texts that are to stay: those of other policies, and, unless they are a note now, those in earlier turns."""
        return tuple(
            each
            for each in self.view.edits.inserted
            if not (is_note(each.text) or is_ledger(each.text)) or (not noted and each.at != self._place)
        )

    def note(self, text: str) -> list[Inserted]:
        """A note at its place: before the question, but behind results in the same item."""
        if not text:
            return []
        at = self._place
        if self._question is None:
            return [Inserted(at, "unplaced", text)]
        return [Inserted(at, "end" if at in self.view.conversation.answers else "start", text)]

    def ledger(self, text: str, units: int) -> list[Inserted]:
        """A ledger at its place: the end of the question."""
        return [Inserted(self._place, "end" if self._question is not None else "unplaced", text, units)]

    @property
    def _place(self) -> int:
        return 0 if self._question is None else self._question


_SPEAKERS = ("user", "assistant")


def results(view: View) -> int:
    """The results of the current run; of one that is in a ledger already, those behind what was the newest exchange then."""
    conversation, gone = view.conversation, view.gone
    start = conversation.question()
    start = -1 if start is None else start
    owner = conversation.exchanges.owner
    last = max(gone, default=-1)
    behind = None
    if last > start:
        newest = next((index for index in range(last + 1, len(conversation)) if index in conversation.calls), None)
        start, behind = last, None if newest is None else owner[newest]
    return sum(len(ids) for index, ids in conversation.answers.items() if index > start and owner[index] != behind)
