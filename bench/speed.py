"""What a request costs inside the library, as a share of `json.dumps` of the same messages: CPU time, best of several."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from bench.workload import conversation
from compacting_client import DropOldest, memory
from compacting_client.core.tokens import estimate
from compacting_client.formats import openai_chat
from compacting_client.lifecycle import exchange
from compacting_client.session import Session
from compacting_client.settings import Settings
from compacting_client.shell import run


def _session(budget: int) -> Session:
    return Session(Settings(policy=DropOldest(budget), memory=memory.InProcess(), is_async=False))


def _leave(session: Session, messages: list[dict[str, Any]]) -> None:
    run(
        exchange(session, openai_chat, {"model": "m", "messages": messages}),
        session,
        lambda body: body,
        lambda *_: None,
    )


def _cpu(work: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def figures(size: int) -> dict[str, float]:
    """The ratios for a conversation of so many messages."""
    messages = [*conversation(size), {"role": "user", "content": "go on"}]
    grown = [*messages, {"role": "assistant", "content": "done"}, {"role": "user", "content": "and now?"}]
    repeats = max(5, 20_000 // size)
    unit = _cpu(lambda: json.dumps(messages), repeats)
    budget = sum(map(estimate, messages)) // 2
    warm = _session(budget)
    _leave(warm, messages)
    return {
        "cold": _cpu(lambda: _leave(_session(budget), messages), repeats) / unit,
        "grown by a turn": _cpu(lambda: _leave(warm, grown), repeats) / unit,
        "below the trigger": _cpu(lambda: _leave(_session(10**9), messages), repeats) / unit,
    }
