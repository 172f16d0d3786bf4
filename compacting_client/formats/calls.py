"""Tool calls of chat messages: those of a response, and those of a message without their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from compacting_client.formats.base import Asked, as_dict, get

__all__ = ["asked", "emptied"]

_PLAIN = frozenset({"id", "type", "function", "index"})


def emptied(item: Mapping[str, Any], numbers: AbstractSet[int]) -> dict[str, Any]:
    """The fields of a message that hold its calls, those of these numbers with ``{}`` for arguments.

    A call with a field of its own keeps them: that is where a signature stands, which belongs to the call as it was made.  So do custom tools,
    whose input is no JSON.
    """
    if not item.get("tool_calls"):
        return {"function_call": {**(as_dict(item.get("function_call")) or {}), "arguments": "{}"}}
    calls = list(item["tool_calls"])
    readable = [(place, call) for place, each in enumerate(calls) if (call := as_dict(each)) is not None]
    for number in numbers:
        place, call = readable[number]
        function = as_dict(call.get("function"))
        if function is not None and call.keys() <= _PLAIN:
            calls[place] = {**call, "function": {**function, "arguments": "{}"}}
    return {"tool_calls": calls}


def asked(answer: Any) -> list[Asked]:
    """From a completion, a chunk, or their JSON; a custom tool's input is its arguments."""
    found: list[Asked] = []
    for number, choice in enumerate(get(answer, "choices") or ()):
        message, delta = get(choice, "message"), get(choice, "delta")
        for each in get(message or delta, "tool_calls") or ():
            function = get(each, "function") or get(each, "custom")
            arguments = get(function, "arguments") or get(function, "input")
            slot = None if message is not None else (number, get(each, "index") or 0)
            found.append(Asked(get(each, "id"), get(function, "name"), arguments, slot))
    return found
