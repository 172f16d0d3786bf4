"""Signed thinking: which conversation each thinking block of this provider belongs to.

From Claude 5.1 on a signature covers everything before its block: system, tools, messages.  What does not count: cache
marks, borders between messages of one role, text written as a string or as one text block, fields spelled out as null.  Of the
thinking before the block the oldest may be gone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from compacting_client.formats.base import Violation
from compacting_client.testing.tokens import canonical
from compacting_client.testing.wire import Json, items, table

__all__ = ["Signatures", "bare", "binds"]

VERSION = re.compile(r"claude-(?:[a-z]+-)*(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
THINKING = ("thinking", "redacted_thinking")


def binds(model: Any) -> bool:
    """Whether a model of this name binds its thinking: Claude 5.1 and later."""
    found = VERSION.search(str(model))
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (5, 1)


def bare(item: Any) -> Any:
    """A message, system prompt or list of tools in the one spelling of all that mean the same."""
    if isinstance(item, dict) and "role" in item:
        message = cast("Json", item)
        return _unmarked({**message, "content": _blocks(message.get("content"))})
    return _unmarked(_blocks(item))


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("Json", value)
    return {name: _unmarked(each) for name, each in fields.items() if name != "cache_control" and each is not None}


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else items(content)


class _Place(NamedTuple):
    """A thinking block and what stands before it."""

    where: str
    block: Json
    message: int
    visible: str  # digest of system, tools and all blocks but thinking
    thoughts: tuple[str, ...]  # the thinking, oldest first


def _places(body: Json) -> Iterator[_Place]:
    """All readable thinking of a body, first to last."""
    digest = hashlib.sha256(_encoded([bare(body.get("system")), bare(body.get("tools"))]))
    thoughts: tuple[str, ...] = ()
    for i, message in enumerate(map(table, items(body.get("messages")))):
        for j, block in enumerate(map(table, bare(message.get("content")))):
            if block.get("type") not in THINKING:
                digest.update(_encoded([message.get("role"), block]))
                continue
            if block["type"] == "thinking":
                yield _Place(f"messages.{i}.content.{j}", block, i, digest.hexdigest(), thoughts)
            thoughts = (*thoughts, canonical(block))


def _encoded(value: Any) -> bytes:
    return canonical(value).encode("utf-8", "surrogatepass")


class Signatures:
    """Every signature this provider gave, with what it covers."""

    def __init__(self) -> None:
        self._given: dict[str, tuple[bool, _Place]] = {}

    def bind(self, body: Json, content: list[Json]) -> None:
        """Remember the thinking in the content that answers a body."""
        messages = items(body.get("messages"))
        whole = {**body, "messages": [*messages, {"role": "assistant", "content": content}]}
        for place in _places(whole):
            if place.message == len(messages):
                self._given[place.block["signature"]] = binds(body.get("model")), place

    def refuse(self, body: Json) -> Violation | None:
        """The first thinking block of a request that was altered, or that stands in another conversation than it was signed for."""
        behavior = table(table(body.get("thinking")).get("block_binding")).get("prefix_mismatch_behavior")
        strict = binds(body.get("model")) and behavior != "drop_block"
        for place in _places(body):
            signature = place.block.get("signature")
            invalid = f"{place.where}: Invalid `signature` in `thinking` block"
            if not isinstance(signature, str) or not signature:
                return Violation("an-think-shape", place.where, invalid)
            bound, signed = self._given.get(signature, (False, place))
            if place.block.get("thinking") != signed.block.get("thinking"):
                return Violation("an-think-edited", place.where, invalid)
            if strict and bound and not _stands(place, signed):
                hint = (
                    "The block is bound to a different conversation. Remove the block, or set "
                    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
                )
                return Violation("an-think-bound", place.where, f"{invalid}. {hint}")
        return None


def _stands(now: _Place, signed: _Place) -> bool:
    left = len(signed.thoughts) - len(now.thoughts)
    return now.visible == signed.visible and left >= 0 and signed.thoughts[left:] == now.thoughts
