"""What responses ask for, beside what was known when their requests left; only where the policy reuses results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from compacting_client.core.reuse import Known, key_of
from compacting_client.formats.base import Asked, Format, get
from compacting_client.report import Report

__all__ = ["Answer", "Answers"]


@dataclass(slots=True)
class Answer:
    """One response.  ``known``: the results that its request had; ``told``: the ids of the calls of which an event was sent."""

    known: Known
    told: set[str] = field(default_factory=set[str])
    _named: Any = None
    _asked: list[Asked] = field(default_factory=list[Asked])

    def add(self, wire: Format, answer: Any) -> None:
        """Take over the calls of a response, or the pieces of them that a chunk of it has."""
        self._named = self._named or get(answer, "id") or get(get(answer, "message"), "id")
        for piece in wire.asked(answer):
            begun = next((each for each in self._asked if piece.slot is not None and each.slot == piece.slot), None)
            if begun is None:
                self._asked.append(piece)
            else:
                begun.id, begun.tool = begun.id or piece.id, begun.tool or piece.tool
                begun.arguments = f"{begun.arguments or ''}{piece.arguments or ''}"

    def calls(self) -> Iterator[tuple[str, str, Any]]:
        """The id, the tool and the arguments of each; one without an id has its number among the calls."""
        for number, each in enumerate(self._asked):
            if each.tool:
                yield each.id or f"call_{number}", each.tool, each.arguments

    def is_of(self, other: Answer) -> bool:
        """Whether both are of one response: the provider gave them one id, and they have the same calls, all of them."""
        return self._named is not None and self._named == other._named and self._spelled() == other._spelled()

    def _spelled(self) -> Counter[Any]:
        return Counter((call, key_of(tool, arguments)) for call, tool, arguments in self.calls())


class Answers:
    """The responses whose reports somebody still has.  ``telling``: tasks that tell of them."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Report, Answer] = WeakKeyDictionary()
        self.telling: set[Any] = set()

    def expect(self, report: Report, known: Known) -> None:
        """A request left, with these results in its history."""
        if known:
            self._kept[report] = Answer(known)

    def note(self, report: Report, wire: Format, answer: Any) -> None:
        """Take in a response, its JSON, or a chunk of it."""
        found = self._kept.get(report)
        if found is not None:
            found.add(wire, answer)

    def of(self, report: Report | None) -> Answer | None:
        """The response of a request; None where nothing was known."""
        return self._kept.get(report) if report is not None else None

    def alike(self, wires: Iterable[Format], value: Any) -> Report | None:
        """The report of the one response that `value` is a copy of, or was made of; None where none is, or more than one could be."""
        found = list[Report]()
        for wire in wires:
            told = Answer({})
            with suppress(TypeError, AttributeError, ValueError):  # it may be anything
                told.add(wire, value)
            reports = [each for ref in self._kept.keyrefs() if (each := ref()) is not None] if any(told.calls()) else []
            found += [each for each in reports if (kept := self._kept.get(each)) is not None and kept.is_of(told)]
        return found[0] if len(found) == 1 else None
