"""The conversations that are measured: the shared generator where it is there, a smaller one of the same shape otherwise."""

from __future__ import annotations

import importlib.util
import json
import random
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared" / "bench" / "workload.py"
WORDS = [
    "request",
    "token",
    "budget",
    "cache",
    "policy",
    "summary",
    "window",
    "stream",
    "error",
    "deploy",
    "worker",
    "column",
    "commit",
    "review",
    "fixture",
]


def conversation(size: int) -> list[dict[str, Any]]:
    """About `size` messages: a system prompt, and turns of which some call a tool; some 400 characters each."""
    if SHARED.exists():
        spec = importlib.util.spec_from_file_location("shared_workload", SHARED)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return list(module.conversation(size))
    return _own(size)


def as_anthropic(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Chat messages as Anthropic messages: results of one step are blocks of one message; system messages stand outside."""
    made: list[dict[str, Any]] = []
    for message in messages:
        role, text = message["role"], message["content"]
        if role == "system":
            continue
        if role == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": text}
            _answered(made, "content", result)
        elif calls := message.get("tool_calls"):
            uses = [{"type": "tool_use", "id": call["id"], **_named(call, "input")} for call in calls]
            made.append({"role": role, "content": [*([{"type": "text", "text": text}] if text else []), *uses]})
        else:
            made.append({"role": role, "content": text})
    return made


def as_gemini(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Chat messages as Gemini contents: the same, and calls have no ids."""
    made: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for message in messages:
        role, text = message["role"], message["content"]
        if role == "system":
            continue
        said = [{"text": text}] if text else []
        if role == "tool":
            response = {"name": names[message["tool_call_id"]], "response": {"result": text}}
            _answered(made, "parts", {"functionResponse": response})
            continue
        calls = message.get("tool_calls") or []
        names.update({call["id"]: call["function"]["name"] for call in calls})
        parts = [*said, *({"functionCall": _named(call, "args")} for call in calls)]
        made.append({"role": "model" if role == "assistant" else role, "parts": parts})
    return made


def _named(call: dict[str, Any], arguments: str) -> dict[str, Any]:
    function = call["function"]
    return {"name": function["name"], arguments: json.loads(function["arguments"])}


def _answered(made: list[dict[str, Any]], field: str, result: dict[str, Any]) -> None:
    """Put a result beside those of the same step, or into a message of its own."""
    last = made[-1]
    if last["role"] == "user" and isinstance(last[field], list) and "text" not in last[field][0]:
        last[field].append(result)
    else:
        made.append({"role": "user", field: [result]})


def _own(size: int) -> list[dict[str, Any]]:
    rng = random.Random(20261130)

    def prose(words: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(words))

    messages: list[dict[str, Any]] = [{"role": "system", "content": prose(120)}]
    while len(messages) < size:
        messages.append({"role": "user", "content": prose(35)})
        if rng.random() < 0.4:
            call = f"call_{len(messages)}"
            function = {"name": "search", "arguments": json.dumps({"query": prose(5)})}
            messages.append(
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": call, "type": "function", "function": function}],
                }
            )
            messages.append({"role": "tool", "tool_call_id": call, "content": prose(90)})
        messages.append({"role": "assistant", "content": prose(60)})
    return messages
