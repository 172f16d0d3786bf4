"""The neutral view of one request's history: what every decision is made on.

It is a view, never a round trip: items stay the caller's own objects, and a neutral message (`{role, content, tool_calls?, tool_call_id?,
name?}`) is built only when somebody asks to see it.  Sizes, digests and pairing need none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, cast

from compacting_client.core.exchanges import Exchanges, pair
from compacting_client.core.imprints import CHAT, Imprint, Plain
from compacting_client.core.offered import tool_names

__all__ = ["OTHER", "SYSTEM", "Contents", "Conversation", "ItemEdit", "Message", "Ours", "Reader", "called"]

Message = dict[str, Any]
"""A neutral message: role is system, user, assistant or tool."""

SYSTEM = "system"
OTHER = "other"


@dataclass(slots=True)
class ItemEdit:
    """Changes of one item: `parts`, number of a neutral tool message -> its new content; texts at start and end, or of an own item before it.

    ``system``: texts at the end of the system prompt, which are counted with this item and change nothing in it.

    ``cleared``: those of the parts of which nothing but that content is left; ``emptied``: numbers of the calls that lose their arguments.
    """

    parts: dict[int, Any] = field(default_factory=dict[int, Any])
    cleared: set[int] = field(default_factory=set[int])
    emptied: set[int] = field(default_factory=set[int])
    start: list[str] = field(default_factory=list[str])
    end: list[str] = field(default_factory=list[str])
    own: list[str] = field(default_factory=list[str])
    system: list[str] = field(default_factory=list[str])

    def hashed(self) -> int:
        """A hash of these changes; texts have theirs already."""
        texts = tuple(map(tuple, (self.start, self.end, self.own, self.system)))
        return hash((repr((self.parts, self.cleared, self.emptied)), texts))

    @property
    def beside(self) -> bool:
        """Whether nothing but the system prompt changes."""
        return not (self.parts or self.emptied or self.start or self.end or self.own)


class Reader(Protocol):
    """How a format shows one item of its history."""

    def neutral(self, item: Any) -> list[Message]:
        """The item as neutral messages: one or more."""
        ...

    def imprint(self, item: Any, role: str) -> tuple[Imprint, int]:
        """The imprint of an item of this neutral role, and the tokens of its media by the provider's formula."""
        ...

    def meaning(self, item: Any) -> Any:
        """What an item says that is no plain text, as JSON-like data: without ids, cache marks and empty fields (DESIGN 4)."""
        ...

    def asked(self, item: Any) -> tuple[str, list[tuple[str, str, Any]]]:
        """What an item of the assistant says in words, and its calls: their ids, as they are paired, tools, and arguments, text or data."""
        ...

    def returned(self, content: Any) -> Any:
        """What a tool returned, of the content of its neutral message: without what the API wraps it in."""
        ...

    def failures(self, item: Any) -> Collection[int]:
        """Which of the item's neutral messages are tool results that the caller marked as errors, in the provider's own way."""
        ...

    def strip(self, item: Any) -> Any:
        """The item without signed thinking: the same object where it has none, None where nothing would be left."""
        ...

    def edited(self, item: Any, edit: ItemEdit) -> Any:
        """A copy of the item with other contents of its tool results, without arguments of some calls, and with texts at its start and end.

        What the provider needs as it was stays: arguments of signed calls, and of those that have no JSON for them; results that load tools.
        """
        ...

    def own(self, texts: Sequence[str]) -> Any:
        """A new user item of these texts."""
        ...


class Ours(NamedTuple):
    """Texts that were inserted into an item here, and sent again by the application; `alone`: there is nothing else in it."""

    texts: tuple[str, ...]
    alone: bool


class Contents(NamedTuple):
    """What a look into the items of a history shows.

    ``imprints[i]``   of item *i*
    ``media``         item index -> tokens of its media, by the provider's formula
    ``calls`` and ``answers``   item index -> tool call ids that it asks for or answers
    ``links``         pairs of items that belong together for another reason
    ``fixed``         items that are never cut, by a rule of the format
    ``rich``          items whose imprint is no text, ascending
    ``counts``        neutral messages per item, or None: one each
    ``thinking``      items that hold signed thinking
    """

    imprints: Sequence[Imprint]
    media: Mapping[int, int]
    calls: Mapping[int, Sequence[str]]
    answers: Mapping[int, Sequence[str]]
    rich: Sequence[int]
    links: Sequence[tuple[int, int]] = ()
    fixed: AbstractSet[int] = frozenset()
    counts: Sequence[int] | None = None
    thinking: frozenset[int] = frozenset()


@dataclass(eq=False)
class Conversation:
    """A history of wire items, and what its format knows of each.

    ``roles[i]``   neutral role of item *i*; an item of only tool results is "tool", one of no known role OTHER
    ``look``       gives the Contents; asked once, where something is to be decided
    ``fits``       whether all items are no more than so many tokens, by a glance; None where it takes a look at each to say
    ``plain``      how an item is written that has a text for an imprint
    ``head``       neutral system messages that the provider keeps outside the history
    ``tools``      the tool definitions as JSON-like data, or None
    ``schema``     what the answer has to look like, as JSON-like data, or None
    ``opens_with_user``   the provider wants a user turn first
    ``binds``      signed thinking is bound to what stood before it when it was made
    ``waits``      why no new edit may be made now, or None
    ``ours``       items with text that was inserted here, as far as they are recognised
    """

    api: str
    model: str
    reader: Reader
    items: list[Any]
    roles: list[str]
    look: Callable[[], Contents]
    fits: Callable[[float], bool | None] = field(default=lambda _: None)
    plain: Plain = CHAT
    head: Sequence[Message] = ()
    tools: Any = None
    schema: Any = None
    opens_with_user: bool = False
    binds: bool = False
    waits: str | None = None
    ours: Mapping[int, Ours] = field(default_factory=dict[int, Ours])
    _names: dict[int, dict[str, str]] = field(default_factory=dict[int, dict[str, str]], init=False)

    @cached_property
    def history(self) -> Sequence[int]:
        """The indexes of the items that are no system messages."""
        roles, systems = self.roles, 0
        while systems < len(roles) and roles[systems] == SYSTEM:
            systems += 1
        if SYSTEM not in roles[systems:]:
            return range(systems, len(roles))
        return [index for index, role in enumerate(roles) if role != SYSTEM]

    @cached_property
    def systems(self) -> Sequence[int]:
        """The indexes of those that are."""
        roles, history = self.roles, self.history
        if isinstance(history, range):
            return range(history.start)
        return [index for index, role in enumerate(roles) if role == SYSTEM]

    @property
    def is_read(self) -> bool:
        """Whether the items were looked into."""
        return "contents" in self.__dict__

    @cached_property
    def contents(self) -> Contents:
        """What a look into the items shows."""
        return self.look()

    @property
    def beside(self) -> list[Any]:
        """What is sent beside the history and the system prompt, as JSON-like data."""
        return [each for each in (self.tools, self.schema) if each is not None]

    @property
    def calls(self) -> Mapping[int, Sequence[str]]:
        """Item index -> tool call ids that it asks for."""
        return self.contents.calls

    @property
    def answers(self) -> Mapping[int, Sequence[str]]:
        """Item index -> tool call ids that it answers."""
        return self.contents.answers

    @property
    def fixed(self) -> AbstractSet[int]:
        """Items that are never cut, by a rule of the format."""
        return self.contents.fixed

    @property
    def counts(self) -> Sequence[int] | None:
        """Neutral messages per item, or None: one each."""
        return self.contents.counts

    @property
    def thinking(self) -> frozenset[int]:
        """Items that hold signed thinking."""
        return self.contents.thinking

    @cached_property
    def _offered(self) -> AbstractSet[str]:
        return tool_names(self.tools)

    def offers(self, tool: str) -> bool:
        """Whether the request lets the model call this tool."""
        return tool in self._offered

    @cached_property
    def exchanges(self) -> Exchanges:
        """The units of the history."""
        return pair(self.calls, self.answers, self.contents.links, size=len(self.roles))

    @cached_property
    def alternates(self) -> bool:
        """Whether user and assistant texts take turns: some servers' templates insist on it."""
        return _alternates(self.roles, self.calls)

    def release(self, needed: Iterable[tuple[int, int]]) -> None:
        """Let go of all items but those [start, stop) that are needed for the account, and of what is as large as they are."""
        self.contents, _ = self.contents._replace(imprints=()), self.exchanges
        kept: list[Any] = [None] * len(self)
        for start, stop in needed:
            kept[start:stop] = self.items[start:stop]
        self.items = kept
        self.look = self.fits = _released

    def __len__(self) -> int:
        return len(self.roles)

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
        return len(self.head) + (len(self.roles) if self.counts is None else sum(self.counts))

    def is_ours(self, index: int) -> bool:
        """Whether an item is nothing but text that was inserted here: it is no user turn."""
        return index in self.ours and self.ours[index].alone

    def question(self) -> int | None:
        """The index of the last real user message, or None."""
        for index in range(len(self.roles) - 1, -1, -1):
            if self.roles[index] == "user" and not self.is_ours(index):
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


def _released(*_: Any) -> Any:
    raise AssertionError("looked into already")


def _alternates(roles: Sequence[str], calls: Mapping[int, Sequence[str]]) -> bool:
    """Whether user and plain assistant items take turns, beginning with the user; calls, results and systems aside."""
    expected = "user"
    for index, role in enumerate(roles):
        if role == "user" or (role == "assistant" and index not in calls):
            if role != expected:
                return False
            expected = "assistant" if role == "user" else "user"
    return True
