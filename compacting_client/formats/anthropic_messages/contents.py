"""What a look into Anthropic messages shows: their imprints, calls, results, media and thinking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from compacting_client.core.conversation import OTHER, SYSTEM, Contents
from compacting_client.core.imprints import Imprint
from compacting_client.core.tokens import dump
from compacting_client.formats import media
from compacting_client.formats.anthropic_messages import thinking
from compacting_client.formats.base import as_dict, get, kind

__all__ = ["MEDIA_MARKS", "SERVER_CALLS", "blocks_of", "imprint", "look", "role_of"]

SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
MEDIA_MARKS = (b'"source"',)
"""What the JSON of messages with pictures or documents has in it."""

_KNOWN = (
    thinking.THINKING | SERVER_CALLS | {"text", "image", "document", "search_result", "tool_use", "container_upload"}
)
_PLAIN = frozenset({"user", "assistant"})
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


def role_of(item: Mapping[str, Any]) -> str:
    """The neutral role of a message."""
    role = item.get("role")
    if role == "user":
        blocks = blocks_of(item) if type(item.get("content")) is not str else ()
        return "tool" if blocks and all([kind(block) == "tool_result" for block in blocks]) else "user"
    return role if role in ("assistant", SYSTEM) else OTHER


def imprint(item: Any, role: str) -> tuple[Imprint, int]:
    """The imprint of a message, and the tokens of its media."""
    text = item.get("content")
    if type(text) is str:
        return (text if len(item) == 2 and role in _PLAIN else dump(item)), 0
    light, tokens = _without_media(blocks_of(item))
    return dump({**item, "content": light} if tokens else item), tokens


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
        blocks = blocks_of(item)
        kinds = [kind(block) for block in blocks]
        holds = set(kinds)
        pairs.add(index, blocks, kinds)
        counts[index] = _count(kinds)
        if holds & thinking.THINKING:
            thoughts.add(index)
        if role != SYSTEM and not all([what in _KNOWN or what.endswith("tool_result") for what in holds]):
            fixed.add(index)
        if _may_show(blocks, holds):
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
            if what == "tool_use" or what in SERVER_CALLS:
                asked.append(str(block.get("id")))
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


def _count(kinds: Sequence[str]) -> int:
    """How many neutral messages blocks of these kinds make: one for each result, and one for all the rest."""
    results = kinds.count("tool_result")
    return results + 1 if results < len(kinds) else max(1, results)


def _may_show(blocks: Sequence[Mapping[str, Any]], kinds: set[str]) -> bool:
    """Whether there may be media in these blocks of these kinds."""
    if kinds & _MEDIA:
        return True
    results = any([what.endswith("tool_result") for what in kinds])
    return results and not all([type(block.get("content")) is str for block in blocks])


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
