"""Calls and responses of Gemini contents, which have no ids as a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

from compacting_client.formats.gemini_contents.parts import TEXT_ALONE, field, parts_of

__all__ = ["Pairs"]


class _Call(NamedTuple):
    """A call that waits for its response: its turn, its id where it has one, its tool, and what it is paired by."""

    turn: int
    id: str | None
    name: str
    key: str


class Pairs:
    """Calls and responses of a history, paired once somebody asks.  ``kinds``: of the parts of each content, as `kinds_in` has them."""

    def __init__(
        self, items: Sequence[Mapping[str, Any]], kinds: Sequence[Sequence[str]], roles: Sequence[str]
    ) -> None:
        self._history: tuple[Any, ...] = items, kinds, roles

    @property
    def calls(self) -> Mapping[int, Sequence[str]]:
        """Index of a content -> what its calls are paired by."""
        return self._paired[0].calls

    @property
    def answers(self) -> Mapping[int, Sequence[str]]:
        """Index of a content -> what its responses are paired by."""
        return self._paired[0].answers

    def keys(self, item: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[str]]:
        """What the calls and the responses of this very content are paired by."""
        return self._paired[1].get(id(item), ((), ()))

    @cached_property
    def _paired(self) -> tuple[_Pairing, Mapping[int, tuple[Sequence[str], Sequence[str]]]]:
        """All of them by index, and by the identity of a content."""
        items, kinds, roles = self._history
        self._history = ()  # a report may be kept for long
        found, keys, last = _Pairing(), dict[int, tuple[Sequence[str], Sequence[str]]](), 0
        for index, each in enumerate(kinds):
            if each is TEXT_ALONE or ("functionCall" not in each and "functionResponse" not in each):
                continue
            # a turn goes on as long as nobody but the model speaks
            found.add(index, parts_of(items[index]), each, begins=roles[last:index].count("assistant") < index - last)
            last = index
            keys[id(items[index])] = found.calls.get(index, ()), found.answers.get(index, ())
        return found, keys


class _Pairing:
    """Pairs by id where both have one, else by name and order, as the API does it."""

    def __init__(self) -> None:
        self.calls: dict[int, list[str]] = {}
        self.answers: dict[int, list[str]] = {}
        self._waiting: list[_Call] = []
        self._ids: set[str] = set()
        self._turn = 0

    def add(self, index: int, parts: Sequence[Mapping[str, Any]], kinds: Sequence[str], *, begins: bool) -> None:
        """One content with calls or responses; `begins`: a turn of calls in it is a new one."""
        self._turn += begins
        for part, what in zip(parts, kinds, strict=True):
            if what in ("functionCall", "functionResponse"):
                data = part.get(what) or field(part, what)
                fields = cast("Mapping[str, Any]", data if isinstance(data, (dict, Mapping)) else {})
                own = fields.get("id")
                add = self._ask if what == "functionCall" else self._answer
                add(index, str(own) if own else None, str(fields.get("name")))

    def _ask(self, index: int, own: str | None, name: str) -> None:
        asked = self.calls.setdefault(index, [])
        key = own or f"call_{index}_{len(asked)}"
        asked.append(key)
        self._ids.add(key)
        self._waiting.append(_Call(self._turn, own, name, key))

    def _answer(self, index: int, own: str | None, name: str) -> None:
        given = self.answers.setdefault(index, [])
        found = self._match(own, name)
        if found is not None:
            self._waiting.remove(found)
        given.append(found.key if found is not None else own or f"response_{index}_{len(given)}")

    def _match(self, own: str | None, name: str) -> _Call | None:
        waiting = self._waiting
        if own in self._ids:  # of a call that waits, or was answered already
            return next((call for call in reversed(waiting) if call.id == own), None)
        if len(waiting) < 2:
            return waiting[0] if waiting else None
        latest = [call for call in waiting if call.turn == waiting[-1].turn]
        return next((call for call in latest if call.name == name), latest[0])
