"""The neighbours of a case: the same on the other API, at another place of the history, and as it grows."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator

from tests.cases.bench import CHAT, CLAUDE, OLDER, Body, case

DATA_URL = re.compile(r"data:(?P<type>[^;]+);base64,(?P<data>.*)", re.DOTALL)
SINCE_SYSTEMS = "claude-opus-4-8"
"""The first model that takes system messages inside a history."""


def body_of(id_: str, api: str) -> Body:
    """The request of a case, as it is given or as the other API spells it."""
    found = case(id_)
    return in_api(found["request"], found["api"], api)


def in_api(body: Body, given: str, wanted: str) -> Body:
    """A body of one API as one of another."""
    if given == wanted:
        return copy.deepcopy(body)
    return to_claude(body) if wanted == CLAUDE else to_chat(body)


def to_claude(body: Body) -> Body:
    """Chat completions -> messages.  Results share one user item, and the question after them stands in the same."""
    system: list[str] = []
    messages: list[Body] = []
    for message in copy.deepcopy(body["messages"]):
        role = message["role"]
        if role in ("system", "developer") and not messages:
            system.append(message["content"])
        elif role in ("system", "developer"):
            messages.append({"role": "system", "content": message["content"]})
        elif role == "tool":
            _add(messages, "user", [_result(message)])
        else:
            _add(messages, role, _blocks(message))
    models = OLDER if all(each["role"] != "system" for each in messages) else SINCE_SYSTEMS
    made: Body = {"model": models, "max_tokens": 512, "messages": _systems_after_users(messages)}
    if system:
        made["system"] = "\n".join(system)
    if body.get("tools"):
        made["tools"] = [
            {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in body["tools"]
        ]
    return made


def to_chat(body: Body) -> Body:
    """Messages -> chat completions.  Cache marks stay on their parts, thinking becomes `reasoning_content`."""
    messages: list[Body] = []
    if body.get("system"):
        messages.append({"role": "system", "content": copy.deepcopy(body["system"])})
    for message in copy.deepcopy(body["messages"]):
        blocks = message["content"]
        if isinstance(blocks, str):
            messages.append(message)
            continue
        messages += [
            {"role": "tool", "tool_call_id": block["tool_use_id"], "content": block["content"]}
            for block in blocks
            if block["type"] == "tool_result"
        ]
        if rest := [block for block in blocks if block["type"] != "tool_result"]:
            messages.append(_said(message["role"], rest))
    return {"model": "gpt-4o-mini", "messages": messages}


def _said(role: str, blocks: list[Body]) -> Body:
    texts = [block for block in blocks if block["type"] == "text"]
    made: Body = {"role": role, "content": texts or None}
    if thoughts := [block["thinking"] for block in blocks if block["type"] == "thinking"]:
        made["reasoning_content"] = "\n".join(thoughts)
    if calls := [block for block in blocks if block["type"] == "tool_use"]:
        made["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["input"])},
            }
            for call in calls
        ]
    return made


def _add(messages: list[Body], role: str, blocks: list[Body]) -> None:
    """Into the last item where it has the same role and holds results, else as an item of its own."""
    last = messages[-1] if messages else None
    if last and last["role"] == role == "user" and last["content"][0]["type"] == "tool_result":
        last["content"] += blocks
    else:
        messages.append({"role": role, "content": blocks})


def _result(message: Body) -> Body:
    return {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}


def _blocks(message: Body) -> list[Body]:
    content = message.get("content") or []
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks = [_picture(part) if part["type"] == "image_url" else part for part in parts]
    for call in message.get("tool_calls", ()):
        function = call["function"]
        blocks.append(
            {
                "type": "tool_use",
                "id": call["id"],
                "name": function["name"],
                "input": json.loads(function["arguments"]),
            }
        )
    return blocks


def _picture(part: Body) -> Body:
    found = DATA_URL.match(part["image_url"]["url"])
    assert found is not None
    source = {"type": "base64", "media_type": found["type"], "data": found["data"]}
    return {"type": "image", "source": source}


def _systems_after_users(messages: list[Body]) -> list[Body]:
    """A system item stands behind the user item that follows it, the only place where this API takes it."""
    for index in range(len(messages) - 1):
        if messages[index]["role"] == "system" and messages[index + 1]["role"] == "user":
            messages[index], messages[index + 1] = messages[index + 1], messages[index]
    return messages


# ---------------------------------------------------------------------------------------------- places


def as_given(body: Body) -> Body:
    """The case itself."""
    return body


def earlier(body: Body) -> Body:
    """The case at the end of a longer history."""
    start = _systems(body)
    old = [{"role": "user", "content": "Do you deliver?"}, {"role": "assistant", "content": "On weekdays. " * 6}]
    return {**body, "messages": [*body["messages"][:start], *old, *body["messages"][start:]]}


def later(body: Body) -> Body:
    """The case at the start of a longer history."""
    return {**body, "messages": [*body["messages"], *turn("That is settled. " * 4, "What is left to do?")]}


def twice(body: Body) -> Body:
    """The case in the middle, and once more after it, under the same ids."""
    again = copy.deepcopy(body["messages"][_systems(body) :])
    return later({**body, "messages": [*body["messages"], {"role": "assistant", "content": "Well."}, *again]})


def turn(answer: str, question: str) -> list[Body]:
    """An answer to what came before, and the next question."""
    return [{"role": "assistant", "content": answer}, {"role": "user", "content": question}]


PLACES: tuple[Callable[[Body], Body], ...] = (as_given, earlier, later, twice)


def growing(body: Body) -> Iterator[Body]:
    """The requests of an application that made this history: it calls wherever the model is to answer."""
    messages = body["messages"]
    for length in range(1, len(messages) + 1):
        asks = messages[length - 1]["role"] in ("user", "tool")
        follows = messages[length]["role"] if length < len(messages) else "assistant"
        if asks and follows == "assistant":
            yield {**body, "messages": messages[:length]}


def _systems(body: Body) -> int:
    """How many leading messages are system messages."""
    roles = [message["role"] for message in body["messages"]]
    return next((index for index, role in enumerate(roles) if role not in ("system", "developer")), len(roles))


def has_neighbour(body: Body, api: str) -> bool:
    """Whether the other API can say it: server tools are Anthropic's."""
    return api == CLAUDE or "server_tool_use" not in json.dumps(body)


__all__ = [
    "CHAT",
    "PLACES",
    "SINCE_SYSTEMS",
    "as_given",
    "body_of",
    "earlier",
    "growing",
    "has_neighbour",
    "in_api",
    "later",
    "turn",
    "twice",
]
