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
