"""The meaning of JSON-like content: what two spellings of the same message have in common (DESIGN 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import orjson

__all__ = ["arguments", "content", "fields"]

_EMPTY: tuple[Any, ...] = (None, "", [], {})
_NOT_MEANING = frozenset({"cache_control", "id", "status", "tool_call_id", "tool_use_id", "type", "index"})


def content(value: Any) -> Any:
    """Text, or a list of blocks, without cache marks, ids and empty fields; one text block is the same as its string."""
    if not isinstance(value, (list, tuple)):
        return value
    blocks = [block(each) for each in cast("Sequence[Any]", value)]
    return blocks[0] if len(blocks) == 1 and isinstance(blocks[0], str) else blocks


def block(value: Any) -> Any:
    """One block of a content list."""
    if not isinstance(value, dict):
        return value
    fields_ = cast("dict[str, Any]", value)
    if fields_.get("type") == "text" and not fields_.get("citations"):
        return fields_.get("text")
    return {"type": fields_.get("type"), **fields(fields_)}


def fields(value: dict[str, Any], *apart: str) -> dict[str, Any]:
    """The fields that carry meaning, but for those named `apart`."""
    return {
        name: content(each) if name == "content" else each
        for name, each in value.items()
        if name not in _NOT_MEANING and name not in apart and each not in _EMPTY
    }


def arguments(text: Any) -> Any:
    """Call arguments as data, whatever the key order and white space of their JSON; text that is no JSON as it is."""
    if not isinstance(text, str):
        return text
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
