"""A history in two: the earlier turns, and the current run, which is what follows the last question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet

from compacting_client.core.conversation import SYSTEM, Conversation, Message
from compacting_client.core.edits import Inserted
from compacting_client.core.ledger import is_ledger, is_note
from compacting_client.core.view import View

__all__ = ["Stages"]


class Stages:
    """The units of one view, and the texts of a ledger's own that stand in it.  ``stays(conversation, unit)``: units that are kept."""

    def __init__(self, view: View, stays: Callable[[Conversation, int], bool]) -> None:
        self.view, self._stays = view, stays
        self._question = view.conversation.question()
        self._kept: dict[int, bool] = {}

    @property
    def noted(self) -> bool:
        """Whether the earlier turns are a note already."""
        return any(is_note(each.text) and each.at == self._question for each in self.view.edits.inserted)

    @property
    def before(self) -> list[str]:
        """The ledgers that are there."""
        return [each.text for each in self.view.edits.inserted if is_ledger(each.text)]

    def results(self) -> int:
        """The results of the run; of one that is in the ledger already, those behind what was the newest exchange then."""
        conversation, gone = self.view.conversation, self.view.gone
        start = -1 if self._question is None else self._question
        owner = conversation.exchanges.owner
        last = max((index for index in gone if index > start), default=start)
        newest = (
            next((i for i in range(last + 1, len(conversation)) if i in conversation.calls), None)
            if last > start
            else None
        )
        behind = None if newest is None else owner[newest]
        return sum(len(ids) for index, ids in conversation.answers.items() if index > last and owner[index] != behind)

    def older(self) -> set[int]:
        """The units of the run that may go."""
        return {unit for unit in self.view.units() if self._is_run(unit) and self._free(unit)}

    def loop_aside(self) -> set[int]:
        """The same without the tool loop at the end."""
        conversation, loop = self.view.conversation, set[int]()
        for index in range(len(conversation) - 1, -1, -1):
            if not (conversation.roles[index] == "tool" or index in conversation.calls):
                if conversation.roles[index] != SYSTEM:
                    break
                continue
            loop.add(conversation.exchanges.owner[index])
        return self.older() - loop

    def earlier(self) -> set[int]:
        """The units of earlier turns that may go."""
        return {unit for unit in self.view.units() if not self._is_run(unit) and self._free(unit)}

    def lost(self, units: AbstractSet[int], *, noted: bool) -> list[int]:
        """The units that are gone, or go now, and belong into the ledger: those of the run; with `noted` the earlier exchanges too."""
        gone = units | {unit for unit in self.view.gone if self._owner(unit) == unit}
        conversation = self.view.conversation
        return sorted(
            unit
            for unit in gone
            if self._is_run(unit) or (noted and (unit in conversation.calls or unit in conversation.answers))
        )

    def left(self, units: AbstractSet[int], *, noted: bool) -> list[int]:
        """The units that stay, and whose results the ledger need not have."""
        there = (
            unit for unit in self.view.units() if unit not in units and unit in self.view.conversation.exchanges.members
        )
        return [unit for unit in there if noted or self._is_run(unit)]

    def said_before(self, units: AbstractSet[int]) -> Iterator[Message]:
        """The neutral messages of earlier turns that are gone or go now, tools aside."""
        conversation = self.view.conversation
        stop = len(conversation) if self._question is None else self._question
        for index in range(stop):
            away = index in self.view.gone or self._owner(index) in units
            if away and conversation.roles[index] in ("user", "assistant") and index not in conversation.calls:
                yield from conversation.reader.neutral(conversation.items[index])

    def others(self, *, noted: bool) -> tuple[Inserted, ...]:
        """The inserted texts that are to stay: those of other policies, and, unless they are a note now, those in earlier turns."""
        return tuple(
            each
            for each in self.view.edits.inserted
            if not (is_note(each.text) or is_ledger(each.text)) or (not noted and each.at != self._place())
        )

    def note(self, text: str) -> list[Inserted]:
        """A note at its place: before the question, but behind results in the same item."""
        if not text:
            return []
        at = self._place()
        if self._question is None:
            return [Inserted(at, "unplaced", text)]
        return [Inserted(at, "end" if at in self.view.conversation.answers else "start", text)]

    def ledger(self, text: str) -> list[Inserted]:
        """A ledger at its place: the end of the question."""
        return [Inserted(self._place(), "end" if self._question is not None else "unplaced", text)]

    def _place(self) -> int:
        return 0 if self._question is None else self._question

    def _owner(self, index: int) -> int:
        return self.view.conversation.exchanges.owner[index]

    def _is_run(self, unit: int) -> bool:
        """Whether a unit reaches behind the question."""
        return self._question is None or self.view.conversation.exchanges.unit(unit)[-1] > self._question

    def _free(self, unit: int) -> bool:
        if unit in self.view.pinned:
            return False
        if unit not in self._kept:
            self._kept[unit] = self._stays(self.view.conversation, unit)
        return not self._kept[unit]
