"""How much of each prompt is an unchanged prefix of the one before: what a provider's prompt cache can use."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
from collections.abc import Callable, Iterator
from statistics import median, quantiles
from typing import Any

import ctx_compact

from bench.workload import SHARED, conversation
from compacting_client import DropOldest, memory
from compacting_client.core.tokens import estimate
from compacting_client.core.view import base_pins
from compacting_client.formats import anthropic_messages, openai_chat
from compacting_client.formats.base import Format
from compacting_client.lifecycle import exchange
from compacting_client.session import Session
from compacting_client.settings import Settings
from compacting_client.shell import run

BUDGET = 3000
TRAFFIC = SHARED.parents[1] / "traffic"
LONG: dict[str, Format] = {"openai_shaped": openai_chat, "anthropic_native": anthropic_messages}

Messages = list[dict[str, Any]]
Trim = Callable[[Messages], Messages]
Make = Callable[[Format, int], Trim]
"""Makes a trimmer for one conversation in one format, with a budget."""


def measured(trim: Trim, messages: Messages) -> tuple[float, float]:
    """(tokens of the unchanged prefixes ÷ tokens sent, tokens of the mean request), over one request before each assistant message."""
    before: Messages = []
    same, sizes = 0, list[int]()
    for n in range(1, len(messages)):
        if messages[n]["role"] != "assistant" or messages[n - 1]["role"] == "assistant":
            continue
        sent = trim(messages[:n])
        sizes.append(sum(map(estimate, sent)))
        for old, new in zip(before, sent, strict=False):
            if old != new:
                break
            same += estimate(new)
        before = sent
    return same / sum(sizes), sum(sizes) / len(sizes)


def ours(wire: Format, budget: int) -> Trim:
    """DropOldest with its remembered cut, through one client."""
    session = Session(Settings(policy=DropOldest(budget), memory=memory.InProcess(), is_async=False))
    sent: list[Messages] = []

    def trim(messages: Messages) -> Messages:
        steps = exchange(session, wire, {"messages": messages})
        run(steps, session, lambda body: sent.append(body["messages"]), lambda *_: None)
        return sent.pop()

    return trim


def reference(_: Format, budget: int) -> Trim:
    """The ctx-compact package: from the middle, oldest first, down to the budget."""
    return lambda messages: list(ctx_compact.compact(messages, max_tokens=budget).messages)


def in_steps(wire: Format, budget: int) -> Trim:
    """The fairest trimmer without a memory: whole exchanges go, oldest first, and what has to stay does stay.

    What goes is at least what is over the budget, rounded up to a multiple of half the budget: the cut is a function of the history alone and
    yet moves seldom.
    """
    step = budget / 2

    def trim(messages: Messages) -> Messages:
        conversation = wire.read({"messages": messages})
        sizes, exchanges, pins = list(map(estimate, messages)), conversation.exchanges, base_pins(conversation)
        goal = math.ceil((sum(sizes) - budget) / step) * step
        gone: set[int] = set()
        for index, first in enumerate(exchanges.owner):
            if goal > 0 and index == first and index not in pins:
                gone.update(exchanges.unit(index))
                goal -= sum(sizes[each] for each in exchanges.unit(index))
        return [message for index, message in enumerate(messages) if index not in gone]

    return trim


def langchain(_: Format, budget: int) -> Trim:
    """`trim_messages` of langchain-core, strategy "last", counting by the same estimate."""
    core: Any = importlib.import_module("langchain_core.messages")
    kinds = {"system": core.SystemMessage, "user": core.HumanMessage, "assistant": core.AIMessage}

    def made(number: int, message: dict[str, Any]) -> Any:
        if message["role"] == "tool":
            return core.ToolMessage("", tool_call_id=message["tool_call_id"], id=str(number))
        return kinds[message["role"]]("", id=str(number))

    def trim(messages: Messages) -> Messages:
        sizes = list(map(estimate, messages))
        left = core.trim_messages(
            [made(number, message) for number, message in enumerate(messages)],
            max_tokens=budget,
            strategy="last",
            include_system=True,
            token_counter=lambda some: sum(sizes[int(each.id)] for each in some),
        )
        return [messages[int(each.id)] for each in left]

    return trim


def trimmers() -> dict[str, Make]:
    """Who is compared, by name."""
    found: dict[str, Make] = {
        "compacting_client, remembered cut": ours,
        "without memory, in steps of half the budget": in_steps,
        "ctx-compact": reference,
    }
    if importlib.util.find_spec("langchain_core"):
        found['langchain-core, trim_messages "last"'] = langchain
    return found


def long_conversations(shape: str) -> list[Messages]:
    """The recorded long conversations of one shape; none where the folder is absent."""
    path = TRAFFIC / f"long_{shape}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line)["messages"] for line in path.read_text(encoding="utf-8").splitlines()]


def long_figures(make: Make, shape: str) -> tuple[list[float], float]:
    """The share of each long conversation, with half of its own size as budget; and the mean request ÷ budget, the median of them."""
    shares, filled = list[float](), list[float]()
    for messages in long_conversations(shape):
        budget = sum(map(estimate, messages)) // 2
        share, mean = measured(make(LONG[shape], budget), messages)
        shares.append(share)
        filled.append(mean / budget)
    return shares, median(filled)


def lines() -> Iterator[str]:
    """The figures, to print."""
    messages = conversation(500)
    yield "Tokens of the unchanged prefix / tokens sent (and mean request / budget: who sends less also remembers less)"
    yield f"  {len(messages)} messages, budget {BUDGET:,}"
    for name, make in trimmers().items():
        share, mean = measured(make(openai_chat, BUDGET), messages)
        yield f"    {name:<43} {share:4.0%}  ({mean / BUDGET:.0%})"
    for shape in LONG:
        count = len(long_conversations(shape))
        yield f"  {count or 'no'} recorded conversations ({shape}), budget half of their size: least, quartile, median"
        for name, make in trimmers().items() if count else ():
            shares, filled = long_figures(make, shape)
            yield f"    {name:<43} {min(shares):4.0%} {quantiles(shares)[0]:4.0%} {median(shares):4.0%}  ({filled:.0%})"
