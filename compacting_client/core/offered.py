"""Which tools a request offers, whatever the shape in which its API takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import orjson

from compacting_client.core.tokens import dump

__all__ = ["tool_names"]


def tool_names(tools: Any) -> frozenset[str]:
    """The names of all tools: each stands in a tool itself, in an object inside of it, or in a list of declarations inside of it."""
    try:
        shown = orjson.loads(dump(tools))
    except orjson.JSONDecodeError:
        return frozenset()
    listed = cast("list[Any]", shown) if isinstance(shown, list) else [shown]
    return frozenset(name for tool in listed for name in _names(tool))


def _names(tool: Any, depth: int = 2) -> Iterator[str]:
    if isinstance(tool, list):
        for each in cast("list[Any]", tool):
            yield from _names(each, depth)
    elif isinstance(tool, dict):
        fields = cast("dict[str, Any]", tool)
        if isinstance(fields.get("name"), str):
            yield fields["name"]
        elif depth:
            for each in fields.values():
                yield from _names(each, depth - 1)
