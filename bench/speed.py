"""What is timed: the way of one request inside the library, beside `json.dumps` of the same messages and beside other trimmers."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Callable
from functools import cache, partial
from itertools import count
from typing import Any, NamedTuple

import ctx_compact

from bench.workload import as_anthropic, as_gemini, conversation
from compacting_client import DropOldest, Ledger, Policy, memory
from compacting_client.core.tokens import estimate
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.formats.base import Format, Usage
from compacting_client.lifecycle import exchange
from compacting_client.report import Report
from compacting_client.session import Session
from compacting_client.settings import Settings
from compacting_client.shell import finish, run

SIZES = (1_000, 10_000)
UNIT = "json.dumps"
Messages = list[dict[str, Any]]

timed: dict[tuple[str, int], float] = {}
"""CPU seconds of each work on each size, the best round."""


class Shape(NamedTuple):
    """How an API writes a conversation: its format, and what it makes of chat messages, in a list of its own."""

    wire: Format
    of: Callable[[Messages], Messages]

    def body(self, history: Messages) -> dict[str, Any]:
        """A request with these items."""
        return {"model": "m", self.wire.FIELD: history}


CHAT = Shape(openai_chat, list)
SHAPES = {"Anthropic": Shape(anthropic_messages, as_anthropic), "Gemini": Shape(gemini_contents, as_gemini)}


@cache
def messages(size: int) -> Messages:
    """A conversation of so many messages that ends with a question."""
    return [*conversation(size), {"role": "user", "content": "go on"}]


def json_dumps(size: int, *, shape: Shape = CHAT) -> Callable[[], object]:
    """The unit."""
    history = shape.of(messages(size))
    return lambda: json.dumps(history)


def cold(size: int, *, answered: bool = False, shape: Shape = CHAT) -> Callable[[], object]:
    """A client's first request, at twice its budget: read, recall, measure, cut, write, check, report, events."""
    history, policy = shape.of(messages(size)), DropOldest(_half(size))
    return lambda: _leave(_session(policy), history, answered, shape)


def grown(size: int, *, answered: bool = False, shape: Shape = CHAT) -> Callable[[], object]:
    """The same conversation, a turn longer with every round: the remembered cut is found again."""
    return _growing(size, DropOldest(_half(size)), answered, shape)


def below(size: int, *, answered: bool = False, shape: Shape = CHAT) -> Callable[[], object]:
    """Below the trigger, with nothing remembered, a turn longer with every round."""
    return _growing(size, DropOldest(10**9), answered, shape)


def folded(size: int) -> Callable[[], object]:
    """The same as `cold` with a ledger: all earlier turns become a note and their results lines of it."""
    history, policy = messages(size), Ledger(max_tokens=_half(size))
    return lambda: _leave(_session(policy), history)


def folded_and_grown(size: int) -> Callable[[], object]:
    """The same as `grown`: the ledger is found again."""
    return _growing(size, Ledger(max_tokens=_half(size)))


def _growing(size: int, policy: Policy, answered: bool = False, shape: Shape = CHAT) -> Callable[[], object]:
    history, session = shape.of(messages(size)), _session(policy)
    _leave(session, history, answered, shape)
    turns = count()

    def work() -> None:
        turn = next(turns)
        history.extend(
            shape.of(
                [{"role": "assistant", "content": f"done {turn}"}, {"role": "user", "content": f"and now? {turn}"}]
            )
        )
        _leave(session, history, answered, shape)

    return work


def reference(size: int) -> Callable[[], object]:
    """ctx-compact, down to the same budget."""
    history, budget = messages(size), _half(size)
    return lambda: ctx_compact.compact(history, max_tokens=budget)


def langchain(size: int) -> Callable[[], object]:
    """`trim_messages` of langchain-core, strategy "last", by its own approximate count, on messages that are converted already."""
    core: Any = importlib.import_module("langchain_core.messages")
    converted, budget = core.convert_to_messages(messages(size)), _half(size)
    counter = importlib.import_module("langchain_core.messages.utils").count_tokens_approximately
    return lambda: core.trim_messages(
        converted, max_tokens=budget, strategy="last", include_system=True, token_counter=counter
    )


def works() -> dict[str, Callable[[int], Callable[[], object]]]:
    """What is timed, by name; each makes what is to be run, for a number of messages."""
    found: dict[str, Callable[[int], Callable[[], object]]] = {
        UNIT: json_dumps,
        "cold": cold,
        "grown by a turn": grown,
        "below the trigger": below,
        "cold, and the end of its response": partial(cold, answered=True),
        "grown, and the end of its response": partial(grown, answered=True),
        "below, and the end of its response": partial(below, answered=True),
        "Ledger, cold": folded,
        "Ledger, grown by a turn": folded_and_grown,
        "ctx-compact": reference,
    }
    for name, shape in SHAPES.items():
        found[unit_of(f"{name}, ")] = partial(json_dumps, shape=shape)
        found[f"{name}, cold"] = partial(cold, shape=shape)
        found[f"{name}, grown by a turn"] = partial(grown, shape=shape)
        found[f"{name}, below the trigger"] = partial(below, shape=shape)
    if importlib.util.find_spec("langchain_core"):
        found["langchain-core"] = langchain
    return found


def unit_of(name: str) -> str:
    """What the CPU time of a work is divided by: `json.dumps` of the same items."""
    shape = name.partition(",")[0]
    return f"{shape}, {UNIT}" if shape in SHAPES else UNIT


def _half(size: int) -> int:
    return sum(map(estimate, messages(size))) // 2


def _session(policy: Policy) -> Session:
    return Session(Settings(policy=policy, memory=memory.InProcess(), is_async=False))


def _leave(session: Session, history: Messages, answered: bool = False, shape: Shape = CHAT) -> None:
    """The way out; and, where it is `answered`, what is learned from the usage that the response ends with."""

    def deliver(_: object, report: Report) -> None:
        if answered:
            report.usage = Usage(110 * len(history), 0, 100)  # about what it is counted as
            finish(session, report)

    run(exchange(session, shape.wire, shape.body(history)), session, lambda sent: sent, deliver)
