"""How much of each prompt is an unchanged prefix of the one before: what a provider's prompt cache can use."""

from __future__ import annotations

from typing import Any

from bench.workload import conversation
from compacting_client import DropOldest, compact, memory
from compacting_client.core.tokens import estimate
from compacting_client.formats import openai_chat
from compacting_client.lifecycle import exchange
from compacting_client.session import Session
from compacting_client.settings import Settings
from compacting_client.shell import run

BUDGET = 3000
Messages = list[dict[str, Any]]


def share(trim: Any, messages: Messages) -> float:
    """Tokens of unchanged prefixes ÷ tokens sent, over one request before each assistant message."""
    before: Messages = []
    same = total = 0
    for n in range(2, len(messages) + 1):
        if n < len(messages) and messages[n]["role"] != "assistant":
            continue
        sent = trim(messages[:n])
        total += sum(map(estimate, sent))
        for old, new in zip(before, sent, strict=False):
            if old != new:
                break
            same += estimate(new)
        before = sent
    return same / total


def ours() -> Any:
    """DropOldest with its remembered cut."""
    session = Session(Settings(policy=DropOldest(BUDGET), memory=memory.InProcess(), is_async=False))
    sent: list[Messages] = []

    def trim(messages: Messages) -> Messages:
        run(
            exchange(session, openai_chat, {"messages": messages}),
            session,
            lambda body: sent.append(body["messages"]),
            lambda *_: None,
        )
        return sent.pop()

    return trim


def figures() -> dict[str, float]:
    """The shares, beside a stateless trimmer that cuts down to the budget each time."""
    messages = conversation(500)
    return {
        "compacting_client, remembered cut": share(ours(), messages),
        "compact(), stateless, down to the budget": share(
            lambda seen: compact(seen, max_tokens=BUDGET).messages, messages
        ),
    }
