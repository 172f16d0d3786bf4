"""What a look into Anthropic messages shows: their imprints, calls, results, media and thinking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

from compacting_client.core.conversation import OTHER, SYSTEM, Contents
from compacting_client.core.imprints import Imprint
from compacting_client.core.tokens import dump
from compacting_client.formats import media
from compacting_client.formats.anthropic_messages import thinking
from compacting_client.formats.base import as_dict, get, kind, nested

__all__ = ["SERVER_CALLS", "blocks_of", "imprint", "look", "may_hold_media", "opened", "role_of"]

SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})

_KNOWN = (
    thinking.THINKING | SERVER_CALLS | {"text", "image", "document", "search_result", "tool_use", "container_upload"}
)
_PLAIN = frozenset({"user", "assistant"})
_CALLS = SERVER_CALLS | {"tool_use"}
_MEDIA = frozenset({"image", "document"})


def blocks_of(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The content blocks of a message as plain dicts; a string is one text block.  Not to be changed: they may be the caller's own list."""
    content = item.get("content")
    if type(content) is list:
        blocks = cast("list[Any]", content)
        if all(blocks) and set(map(type, blocks)) <= {dict}:
            return blocks
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, (list, tuple)):
        return []
    return [as_dict(block) or {"type": "", "value": block} for block in cast("Sequence[Any]", content)]


def opened(item: Mapping[str, Any]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The content blocks of a message, and the `kind` of each."""
    content = item.get("content")
    if type(content) is list and set(map(type, cast("list[Any]", content))) == {dict}:
        try:  # plain dicts, what nearly all are
            kinds = tuple([block["type"] for block in cast("list[dict[str, Any]]", content)])
        except KeyError:
            kinds = (None,)
        if set(map(type, kinds)) == {str}:
            return cast("list[dict[str, Any]]", content), cast("tuple[str, ...]", kinds)
    blocks = blocks_of(item)
    return blocks, tuple(map(kind, blocks))


def role_of(item: Mapping[str, Any]) -> str:
    """The neutral role of a message."""
    role = item.get("role")
    if role == "user":
        only_results = type(item.get("content")) is not str and set(opened(item)[1]) == {"tool_result"}
        return "tool" if only_results else "user"
    return role if role in ("assistant", SYSTEM) else OTHER


def imprint(item: Any, role: str) -> tuple[Imprint, int]:
    """The imprint of a message, and the tokens of its media."""
    text = item.get("content")
    if type(text) is str:
        return (text if len(item) == 2 and role in _PLAIN else dump(item)), 0
    light, tokens = _without_media(blocks_of(item))
    return dump({**item, "content": light} if tokens else item), tokens


def may_hold_media(items: Sequence[Any]) -> bool:
    """Whether a message may hold pictures or documents, without a look at each."""
    blocks = nested(items)
    return blocks is None or not _MEDIA.isdisjoint([block.get("type") for block in blocks])


def look(items: Sequence[dict[str, Any]], texts: Sequence[Any], roles: Sequence[str], *, manual: bool) -> Contents:
    """One pass over all that is more than text of a user or an assistant; `manual`: thinking is `enabled` by hand."""
    imprints: list[Any] = list(texts)
    rich = [
        index
        for index, item in enumerate(items)
        if len(item) != 2 or type(texts[index]) is not str or roles[index] not in _PLAIN
    ]
    costs, counts, fixed, thoughts, pairs = dict[int, int](), [1] * len(items), set[int](), set[int](), _Pairs()
    for index in rich:
        item, role = items[index], roles[index]
        if role == OTHER:
            fixed.add(index)
        if type(texts[index]) is str:
            imprints[index] = dump(item)
            continue
        blocks, kinds = opened(item)
        shape = _shape(kinds)
        counts[index] = shape.shown
        if shape.pairs:
            pairs.add(index, blocks, kinds)
        if shape.thinks:
            thoughts.add(index)
        if not shape.known and role != SYSTEM:
            fixed.add(index)
        # most results are plain text
        if shape.media or (shape.results and set(map(type, [block.get("content") for block in blocks])) != {str}):
            imprints[index], tokens = imprint(item, role)
            if tokens:
                costs[index] = tokens
        else:
            imprints[index] = dump(item)
    if manual and (opening := thinking.opening(roles, lambda index: blocks_of(items[index]))) is not None:
        fixed.add(opening)
    links = [*pairs.links, *_neighbours(roles, thoughts)]
    return Contents(
        imprints, costs, pairs.calls, pairs.answers, rich, links, fixed, counts=counts, thinking=frozenset(thoughts)
    )


class _Shape(NamedTuple):
    """What the kinds of the blocks of a message say of it.

    ``shown``    its neutral messages: one for each result, and one for all the rest
    ``known``    whether all of them are known; ``media``, ``results``, ``thinks``: whether there are such
    ``pairs``    whether there are calls or results
    """

    shown: int
    known: bool
    media: bool
    results: bool
    thinks: bool
    pairs: bool


@lru_cache(maxsize=1_000)
def _shape(kinds: tuple[str, ...]) -> _Shape:
    alone, holds = kinds.count("tool_result"), set(kinds)
    results = {what for what in holds if what.endswith("tool_result")}
    return _Shape(
        shown=alone + 1 if alone < len(kinds) else max(1, alone),
        known=holds <= _KNOWN | results,
        media=not holds.isdisjoint(_MEDIA),
        results=bool(results),
        thinks=not holds.isdisjoint(thinking.THINKING),
        pairs=bool(results) or not holds.isdisjoint(_CALLS),
    )


class _Pairs:
    """Collects, item by item, the calls and results that have to find each other."""

    def __init__(self) -> None:
        self.calls: dict[int, list[str]] = {}
        self.answers: dict[int, list[str]] = {}
        self.links: list[tuple[int, int]] = []
        self._servers: dict[str, int] = {}

    def add(self, index: int, blocks: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> None:
        """The blocks of one item, and their kinds."""
        asked: list[str] = []
        for block, what in zip(blocks, kinds, strict=True):
            if what in _CALLS:
                asked.append(str(block.get("id")))
                if what in SERVER_CALLS or "caller" in block:
                    self._link(index, block, what)
            elif what.endswith("tool_result"):
                call = str(block.get("tool_use_id"))
                if call in asked:  # a server tool that ran inside this item
                    asked.remove(call)
                else:
                    self.answers.setdefault(index, []).append(call)
        if asked:
            self.calls[index] = asked

    def _link(self, index: int, block: Mapping[str, Any], what: str) -> None:
        """A call made by running code belongs to the server tool that runs it (programmatic tool calling)."""
        if what in SERVER_CALLS:
            self._servers[str(block.get("id"))] = index
        caller = get(block.get("caller"), "tool_id")
        if isinstance(caller, str) and caller in self._servers:
            self.links.append((self._servers[caller], index))


def _neighbours(roles: Sequence[str], thoughts: set[int]) -> list[tuple[int, int]]:
    """A system item stands after a user turn and before an assistant turn; thinking stays with what it led to in the next item."""
    links: list[tuple[int, int]] = []
    places = range(len(roles) - 1) if SYSTEM in roles else sorted(thoughts)
    for index in places:
        role, after = roles[index], roles[index + 1] if index + 1 < len(roles) else OTHER
        beside_system = after == SYSTEM or (role == SYSTEM and after == "assistant")
        led_to = role == after == "assistant" and index in thoughts
        if beside_system or led_to:
            links.append((index, index + 1))
    return links


def _without_media(blocks: Sequence[Any]) -> tuple[list[Any], int]:
    """The blocks without the data of pictures and documents, and the tokens that those cost."""
    light: list[Any] = []
    tokens = 0
    for each in blocks:
        block = as_dict(each) or {}
        source = as_dict(block.get("source")) or {}
        inner = source if source.get("type") == "content" else block
        if kind(block) in ("image", "document") and source.get("type") in ("base64", "url", "file"):
            tokens += (
                _picture_tokens(source)
                if kind(block) == "image"
                else media.document_tokens(str(source.get("data") or ""))
            )
            light.append({**block, "source": None})
        elif isinstance(inner.get("content"), (list, tuple)) and (
            kind(block) == "document" or kind(block).endswith("tool_result")
        ):
            shown, inside = _without_media(cast("Sequence[Any]", inner["content"]))
            tokens += inside
            changed = {"source": {**source, "content": shown}} if inner is source else {"content": shown}
            light.append({**block, **changed} if inside else each)
        else:
            light.append(each)
    return light, tokens


def _picture_tokens(source: Mapping[str, Any]) -> int:
    """The provider's vision guide: width x height / 750 after fitting into 1,568 pixels; at most about 1,600."""
    size = media.picture_size(str(source.get("data") or "")) if source.get("type") == "base64" else None
    if size is None:
        return 1_600
    scale = min(1.0, 1568 / max(size))
    return min(1_600, max(1, int(size[0] * scale * size[1] * scale / 750)))
