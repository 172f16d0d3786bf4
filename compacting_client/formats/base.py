"""What every wire format offers to the rest, and the few helpers they share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol, cast

import orjson

from compacting_client.core.conversation import Conversation
from compacting_client.core.plan import Plan
from compacting_client.core.tokens import dump
from compacting_client.formats.overflow import TooLong

__all__ = [
    "Asked",
    "Format",
    "Glance",
    "PlainHistory",
    "TooLong",
    "Unreadable",
    "Usage",
    "Violation",
    "as_dict",
    "column",
    "drained",
    "get",
    "given",
    "items_in",
    "kind",
    "nested",
    "plain_history",
    "snapshot",
    "whole",
    "wire_json",
]


class Violation(NamedTuple):
    """One thing a provider would refuse: the rule's id, where it is broken, and the provider's wording."""

    rule: str
    where: str
    message: str


class Usage(NamedTuple):
    """What the provider counted, in its own tokens.  `input_tokens` is the whole prompt, its cached part included."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(slots=True)
class Asked:
    """A tool call of a response, or a piece of one.  ``slot``: pieces of one call have the same; None: it is whole."""

    id: str | None
    tool: str | None
    arguments: Any
    slot: tuple[int, ...] | None = None


class Unreadable(Exception):
    """The body does not have the shape of this API; it is left as it is, and the provider says what is wrong with it."""


class Format(Protocol):
    """One wire API.  Each module (or folder) of this package is one; it imports no SDK."""

    @property
    def API(self) -> str:  # noqa: N802 - a module constant, seen through the protocol
        """Its name in events and reports."""
        ...

    @property
    def FIELD(self) -> str:  # noqa: N802
        """The field of the body that holds the history."""
        ...

    def held(self, body: Mapping[str, Any]) -> str | None:
        """Why this request is to be left alone (the server holds the history), or None."""
        ...

    def read(self, body: Mapping[str, Any], plain: PlainHistory | None = None) -> Conversation:
        """The conversation of a request body; `plain`: what `plain_history` says of it, where it was asked already.  Raises Unreadable."""
        ...

    def write(self, plan: Plan, conversation: Conversation, body: Mapping[str, Any]) -> dict[str, Any]:
        """A new body whose kept items are the caller's own objects."""
        ...

    def check(self, body: Mapping[str, Any]) -> list[Violation]:
        """What the provider would refuse in this body."""
        ...

    def usage(self, answer: Any, so_far: Usage | None = None) -> Usage | None:
        """The usage that a response object, its JSON, or a stream event carries; `so_far` where it says nothing new."""
        ...

    def asked(self, answer: Any) -> list[Asked]:
        """The tool calls of a response object or its JSON, or the pieces of them that a stream event carries."""
        ...

    def reserved(self, body: Mapping[str, Any]) -> int:
        """The tokens that the request asks to keep for the answer; 0 where it does not say."""
        ...

    def refused_binding(self, status: int | None, text: str) -> bool:
        """Whether this error says that signed thinking no longer matches the conversation before it."""
        ...

    def too_long(self, status: int | None, body: Any, code: str | None = None) -> TooLong | None:
        """What this error (its JSON or its text, and its own code) says of the window, if it says that the request is too long."""
        ...


def snapshot(body: Mapping[str, Any], field: str) -> dict[str, Any]:
    """`body` as it is now: its history in a list of its own, to which the caller adds nothing."""
    history = body.get(field)
    return {**body, field: list(cast("Sequence[Any]", history)) if isinstance(history, (list, tuple)) else history}


def column(items: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """One field of each item; None where it has none."""
    try:
        return [item[name] for item in items]
    except KeyError:
        return [item.get(name) for item in items]


def given(value: Any) -> bool:
    """Whether a value is data: neither None nor a sentinel of an SDK (NotGiven, Omit)."""
    return value is not None and type(value).__name__ not in ("NotGiven", "Omit")


def as_dict(value: Any) -> dict[str, Any] | None:
    """A typed object or mapping as a plain dict; the very object where it is one; None for anything else."""
    if type(value) is dict:
        return cast("dict[str, Any]", value)
    if isinstance(value, Mapping):
        return {**cast("Mapping[str, Any]", value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        dumped = dump(mode="json", by_alias=True, exclude_none=True)
        return cast("dict[str, Any]", dumped) if isinstance(dumped, dict) else None
    return None


def drained(body: Mapping[str, Any], *fields: str) -> Mapping[str, Any]:
    """`body` with the iterables of these fields, and of their messages' content, made lists: an iterator is drained here, once.

    The same object where they are lists already; the caller's messages are not changed.
    """
    once: dict[str, Any] = {name: list(body[name]) for name in fields if _is_iterable(body.get(name))}
    for name in fields:
        value = once.get(name, body.get(name))
        if isinstance(value, (list, tuple)) and nested(cast("Sequence[Any]", value)) is None:
            items = cast("Sequence[Any]", value)
            listed = [_with_lists(item) for item in items]
            if any(new is not item for new, item in zip(listed, items, strict=True)):
                once[name] = listed
    return {**body, **once} if once else body


def items_in(body: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    """The items of a history as plain dicts, in a list of our own; their blocks may still be typed objects.  Raises Unreadable."""
    history = body.get(field)
    if not isinstance(history, (list, tuple)):
        raise Unreadable(f"{field} is no list")
    history = cast("Sequence[Any]", history)
    if set(map(type, history)) <= {dict}:
        return list(history)
    items = [as_dict(item) for item in history]
    if None in items:
        raise Unreadable(f"{field}[{items.index(None)}] is no message")
    return cast("list[dict[str, Any]]", items)


class PlainHistory(NamedTuple):
    """A history of which all items are dicts whose content is text or nothing, in a list of our own: the caller's may change at any time."""

    items: list[dict[str, Any]]
    texts: list[str | None]


def plain_history(value: Any) -> PlainHistory | None:
    """What a field of a body holds, if that is such a history."""
    items = list(cast("Sequence[Any]", value)) if isinstance(value, (list, tuple)) else []
    if set(map(type, items)) != {dict}:
        return None
    texts = column(items, "content")
    return PlainHistory(items, texts) if set(map(type, texts)) <= _TEXT else None


def nested(items: Sequence[Any]) -> list[dict[str, Any]] | None:
    """These, the blocks in their contents, and those in theirs, where all are plain dicts whose contents are texts or lists; None for any other."""
    found: list[dict[str, Any]] = []
    for _ in range(_DEPTH):
        if not set(map(type, items)) <= {dict}:
            return None
        found += items
        contents = [item.get("content") for item in items]
        inner = [content for content in contents if type(content) is not str and content is not None]
        if not inner:
            return found
        if set(map(type, inner)) != {list}:
            return None
        items = [*chain.from_iterable(inner)]
    return None


_DEPTH = 3  # messages, their blocks, and what a tool result or a document holds
_AT_ONCE = (
    64  # messages: a buffer for all of a long history would be fetched from the system, and be given back, each time
)
_TEXT = frozenset({str, type(None)})
_READY = frozenset({str, list, tuple, dict, type(None)})


def _is_iterable(value: Any) -> bool:
    """Whether the SDKs would send this as a list, though it is none: an iterator, a deque, a view; no text, no typed object."""
    if type(value) in _READY or isinstance(value, (str, bytes, bytearray, Mapping, list, tuple)):
        return False
    return isinstance(value, Iterable) and not callable(getattr(cast("Any", value), "model_dump", None))


def _with_lists(item: Any) -> Any:
    """An item, or a block of one, with the iterables in its content made lists; the same object where there are none."""
    content = get(item, "content")
    if type(content) is str or content is None:
        return item
    if _is_iterable(content):
        return {**(as_dict(item) or {}), "content": [_with_lists(block) for block in content]}
    if isinstance(content, (list, tuple)):
        blocks = cast("Sequence[Any]", content)
        listed = [_with_lists(block) for block in blocks]
        if any(new is not block for new, block in zip(listed, blocks, strict=True)):
            return {**(as_dict(item) or {}), "content": listed}
    return item


def get(value: Any, name: str) -> Any:
    """A field of a dict or a typed object; None where it has none."""
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else getattr(value, name, None)


def whole(body: Mapping[str, Any], *names: str) -> int:
    """The first of these fields that is a whole number; 0 where none is."""
    return next((size for name in names if type(size := body.get(name)) is int and size > 0), 0)


def kind(block: Any) -> str:
    """The ``type`` of a content block, a dict or a typed object; "" where it has none."""
    found = cast("dict[str, Any]", block).get("type") if type(block) is dict else get(block, "type")
    return found if isinstance(found, str) else ""


class Glance:
    """Whether messages of these contents are no more than so many tokens; None where it takes a look at each to say.  It is not done twice.

    UTF-8 is never shorter than UTF-16, in which the estimate counts, and what is rounded up is less than a token for each; a text has at least
    as many UTF-16 units as it has characters.  ``plain``: the contents are known to be texts or nothing.  ``media``: whether items may hold
    some, which costs other than its JSON; without it contents that are more than texts are not judged.
    """

    __slots__ = ("_contents", "_found", "_items", "_media", "_plain")

    def __init__(
        self,
        items: Sequence[Mapping[str, Any]],
        contents: Sequence[Any],
        *,
        plain: bool = False,
        media: Callable[[], bool] = lambda: True,
    ) -> None:
        self._items, self._contents, self._plain, self._media = items, contents, plain, media
        self._found: tuple[float, float] | None = None

    def __call__(self, tokens: float) -> bool | None:
        """Whether they surely are, or surely are not."""
        if self._found is None:
            self._found = self._bounds(tokens)
        least, most = self._found
        return False if least > tokens else True if most <= tokens else None

    def _bounds(self, tokens: float) -> tuple[float, float]:
        """What they are at least and at most: the one that is worth finding out."""
        contents = self._contents
        try:
            if not self._plain and not set(map(type, contents)) <= _TEXT:
                return (-math.inf, math.inf) if self._media() else self._of_json(4 * tokens)
            step = max(1, len(contents) // 64)
            if sum([len(text) for text in contents[::step] if text]) * step > 4 * tokens:
                return self._characters(4 * tokens + 4) / 4 - 1, math.inf
            return -math.inf, sum(map(len, self._serialised())) / 4 + len(self._items)
        except TypeError:  # lone surrogates, typed objects inside
            return -math.inf, math.inf

    def _characters(self, enough: float) -> int:
        """How many characters the contents have; once they are `enough`, the rest is not counted."""
        contents, found = self._contents, 0
        for start in range(0, len(contents), _AT_ONCE):
            texts: Sequence[str | None] = contents[start : start + _AT_ONCE]
            found += sum(map(len, filter(None, texts)))
            if found > enough:
                break
        return found

    def _of_json(self, units: float) -> tuple[float, float]:
        """The bounds of items that are no more than their JSON, beside so many units of UTF-16."""
        items = self._items
        step = max(1, len(items) // 64)
        if len(orjson.dumps(items[::step])) * step <= units:
            return -math.inf, sum(map(len, self._serialised())) / 4 + len(items)
        characters = 0
        for piece in self._serialised():
            # of the list it has brackets, and a comma less than items
            characters += (len(piece) if piece.isascii() else len(piece.decode())) - _AT_ONCE - 1
            if characters > units:
                break
        return characters / 4, math.inf

    def _serialised(self) -> Iterator[bytes]:
        """Their JSON, in pieces.  Raises TypeError where it cannot be made."""
        items = self._items
        return (orjson.dumps(items[start : start + _AT_ONCE]) for start in range(0, len(items), _AT_ONCE))


def wire_json(body: Any) -> Any:
    """A body as it is sent: typed objects with what was set in them, without the sentinels of the SDKs."""
    return json.loads(dump(_plain(body)).decode("utf-8", "surrogatepass"))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        return {name: _plain(each) for name, each in fields.items() if each is None or given(each)}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in cast("Sequence[Any]", value)]
    model_dump: Any = getattr(value, "model_dump", None)
    return model_dump(mode="json", by_alias=True, exclude_unset=True) if callable(model_dump) else value
