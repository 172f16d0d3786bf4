"""The neutral view of one request's history: what every decision is made on.

It is a view, never a round trip: items stay the caller's own objects, and a neutral message (`{role, content, tool_calls?, tool_call_id?,
name?}`) is built only when somebody asks to see it.  Sizes, digests and pairing need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from compacting_client.core.exchanges import Exchanges, pair

__all__ = ["SYSTEM", "Conversation", "ItemEdit", "Message", "Reader", "called"]

Message = dict[str, Any]
"""A neutral message: role is system, user, assistant or tool."""

SYSTEM = "system"


@dataclass(slots=True)
class ItemEdit:
    """Changes of one item: `parts`, number of a neutral tool message -> its new content; texts at start and end, or of an own item before it."""

    parts: dict[int, Any] = field(default_factory=dict[int, Any])
    start: list[str] = field(default_factory=list[str])
    end: list[str] = field(default_factory=list[str])
    own: list[str] = field(default_factory=list[str])


class Reader(Protocol):
    """How a format shows one item of its history."""

    def neutral(self, item: Any) -> list[Message]:
        """The item as neutral messages: one or more."""
        ...

    def light(self, items: Sequence[Any]) -> tuple[list[Any], dict[int, int]]:
        """The items without the data of their media, and the tokens of those that have some, by the provider's formula."""
        ...

    def meaning(self, item: Any, weighed: bytes) -> bytes:
        """What the item says, without ids, cache marks and empty fields (DESIGN 4); `weighed`: the JSON of its light form."""
        ...

    def strip(self, item: Any) -> Any:
        """The item without signed thinking: the same object where it has none, None where nothing would be left."""
        ...

    def edited(self, item: Any, edit: ItemEdit) -> Any:
        """A copy of the item with other contents of its tool results, and with texts at its start and end."""
        ...

    def own(self, texts: Sequence[str]) -> Any:
        """A new user item of these texts."""
        ...


class Conversation:
    """A history of wire items, and what its format knows of each.

    ``roles[i]``   neutral role of item *i*; an item of only tool results is "tool"
    ``calls`` and ``answers``   item index -> tool call ids that it asks for or answers
    ``links``      pairs of items that belong together for another reason
    ``counts``     neutral messages per item, or None: one each
    ``head``       neutral system messages that the provider keeps outside the history
    ``tools``      the tool definitions as JSON-like data, or None
    ``fixed``      items that are never cut, by a rule of the format
    ``opens_with_user``   the provider wants a user turn first
    ``alternates``        user and assistant texts take turns: some servers' templates insist on it
    ``thinking``   items that hold signed thinking
    ``binds``      signed thinking is bound to what stood before it when it was made
    ``waits``      why no new edit may be made now, or None
    """

    __slots__ = (
        "_names",
        "alternates",
        "answers",
        "api",
        "binds",
        "calls",
        "counts",
        "exchanges",
        "fixed",
        "head",
        "items",
        "links",
        "model",
        "opens_with_user",
        "reader",
        "roles",
        "thinking",
        "tools",
        "waits",
    )

    def __init__(
        self,
        *,
        api: str,
        model: str,
        reader: Reader,
        items: Sequence[Any],
        roles: list[str],
        calls: Mapping[int, Sequence[str]],
        answers: Mapping[int, Sequence[str]],
        links: Sequence[tuple[int, int]] = (),
        counts: Sequence[int] | None = None,
        head: Sequence[Message] = (),
        tools: Any = None,
        fixed: frozenset[int] = frozenset(),
        opens_with_user: bool = False,
        thinking: frozenset[int] = frozenset(),
        binds: bool = False,
        waits: str | None = None,
    ) -> None:
        self.api, self.model, self.reader = api, model, reader
        self.items, self.roles = items, roles
        self.calls, self.answers, self.links = calls, answers, links
        self.counts, self.head, self.tools, self.fixed = counts, head, tools, fixed
        self.opens_with_user, self.thinking, self.binds, self.waits = opens_with_user, thinking, binds, waits
        self.exchanges: Exchanges = pair(calls, answers, links, size=len(items))
        self._names: dict[int, dict[str, str]] = {}
        self.alternates = _alternates(roles, calls)

    def __len__(self) -> int:
        return len(self.items)

    def neutral(self, index: int, edited: Any = None) -> list[Message]:
        """The neutral messages of item `index`, or of its `edited` form; a tool result is given the ``name`` of its tool, which it does not say."""
        messages = self.reader.neutral(self.items[index] if edited is None else edited)
        if index in self.answers:
            names = self._tool_names(self.exchanges.owner[index])
            for message in messages:
                if message["role"] == "tool" and message.get("tool_call_id") in names:
                    message.setdefault("name", names[message["tool_call_id"]])
        return messages

    def _tool_names(self, unit: int) -> dict[str, str]:
        """Tool names by call id, within one unit."""
        if unit not in self._names:
            asked = [index for index in self.exchanges.unit(unit) if index in self.calls]
            messages = [message for index in asked for message in self.reader.neutral(self.items[index])]
            self._names[unit] = {call: name for message in messages for call, name in called(message)}
        return self._names[unit]

    def messages(self) -> list[Message]:
        """The whole history as neutral messages, the system prompt first."""
        return [*self.head, *(message for index in range(len(self.items)) for message in self.neutral(index))]

    def count(self) -> int:
        """How many neutral messages there are."""
        return len(self.head) + (len(self.items) if self.counts is None else sum(self.counts))

    def question(self) -> int | None:
        """The index of the last real user message, or None."""
        for index in range(len(self.roles) - 1, -1, -1):
            if self.roles[index] == "user":
                return index
        return None


def called(message: Message) -> list[tuple[str, str]]:
    """The id and the tool's name of each call of a neutral message."""
    calls: list[Message] = message.get("tool_calls") or []
    found: list[tuple[str, str]] = []
    for call in calls:
        function = call.get("function") or call.get("custom")
        name = cast("Message", function).get("name") if isinstance(function, dict) else None
        if isinstance(name, str):
            found.append((str(call.get("id")), name))
    return found


def _alternates(roles: Sequence[str], calls: Mapping[int, Sequence[str]]) -> bool:
    """Whether user and plain assistant items take turns, beginning with the user; calls, results and systems aside."""
    expected = "user"
    for index, role in enumerate(roles):
        if role == "user" or (role == "assistant" and index not in calls):
            if role != expected:
                return False
            expected = "assistant" if role == "user" else "user"
    return True
