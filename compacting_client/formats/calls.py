"""Tool calls of chat messages: what they are, what they say, those of a response, and those of a message without their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import NoneType
from typing import Any, cast

import orjson

from compacting_client.formats import canonical
from compacting_client.formats.base import Asked, as_dict, get

__all__ = ["asked", "call_ids", "calls_of", "emptied", "function_of", "meant_calls"]

_PLAIN = frozenset({"id", "type", "function", "index"})


def calls_of(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tool calls of an assistant message, a `function_call` of the older kind included."""
    asked = item.get("tool_calls")
    if isinstance(asked, (list, tuple)) and asked:
        calls = [call for each in cast("Sequence[Any]", asked) if (call := as_dict(each)) is not None]
        return [call if type(call.get("function")) in (dict, NoneType) else _plain_call(call) for call in calls]
    older = as_dict(item.get("function_call"))
    return [{"id": f"function:{older.get('name')}", "type": "function", "function": older}] if older else []


def meant_calls(item: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The tool and the arguments of each call."""
    try:  # plain dicts and JSON, what nearly all calls are
        meant: list[tuple[Any, Any]] = []
        for call in item["tool_calls"]:
            function = call["function"]
            meant.append((function["name"], orjson.loads(function["arguments"])))
        if meant:
            return meant
    except (KeyError, TypeError, orjson.JSONDecodeError):
        pass
    functions = [function_of(call) for call in calls_of(item)]
    return [(each.get("name"), canonical.arguments(each.get("arguments"))) for each in functions]


def _plain_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call whose function is a typed object, or nothing that could be one."""
    return {**call, "function": as_dict(call.get("function")) or {}}


def call_ids(item: Mapping[str, Any]) -> list[str]:
    """The id of each call."""
    try:  # plain dicts, what nearly all calls are
        ids = [str(call["id"]) for call in item.get("tool_calls") or ()]
    except (KeyError, TypeError):
        ids = []
    return ids or [str(call.get("id")) for call in calls_of(item)]


def function_of(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """The name and the arguments of a call; of a custom tool, its input."""
    custom = as_dict(call.get("custom"))
    if custom is not None:
        return {"name": custom.get("name"), "arguments": custom.get("input")}
    return as_dict(call.get("function")) or {}


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
    for choice in get(answer, "choices") or ():
        message, delta = get(choice, "message"), get(choice, "delta")
        for each in get(message or delta, "tool_calls") or ():
            function = get(each, "function") or get(each, "custom")
            arguments = get(function, "arguments") or get(function, "input")
            slot = None if message is not None else (get(choice, "index") or 0, get(each, "index") or 0)
            found.append(Asked(get(each, "id"), get(function, "name"), arguments, slot))
    return found
