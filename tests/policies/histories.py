"""What the tests of policies that rewrite tool results share: shapes, and what holds over random, recorded and growing histories."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import HealthCheck, settings

from compacting_client import Policy
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.report import Report
from tests.driving import Body, found, history_of, leave, requests_of, session
from tests.holding import counted, every_body, grows, holds, in_chat, native
from tests.strategies import to_anthropic, to_chat, to_gemini

MANUAL: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 1000}}
BINDING: dict[str, Any] = {"model": "claude-opus-5-1", "thinking": {"type": "adaptive"}}
SHAPES: dict[str, Any] = {
    "chat": (openai_chat, to_chat),
    "anthropic": (anthropic_messages, to_anthropic),
    "binding": (anthropic_messages, lambda messages: {**to_anthropic(messages), **BINDING}),
    "gemini": (gemini_contents, to_gemini),
    "gemini, the other spelling": (gemini_contents, partial(to_gemini, snake=True)),
}
WIRES: dict[str, Any] = {wire.API: wire for wire in (openai_chat, anthropic_messages, gemini_contents)}
common = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

Check = Callable[[Any, Body, Body, Any], None]
"""Asserts what has to hold of (wire, the body as written, as sent, the report)."""
Sized = Callable[[int], Policy]
"""Makes a policy for a body of so many tokens."""


def is_sound(shape: tuple[Any, Any], history: list[Any], policy: Policy, check: Check) -> None:
    """One request holds, and the caller's data is unchanged."""
    wire, to_body = shape
    body = to_body(history)
    before = copy.deepcopy(body)
    sent, report = leave(session(policy), wire, body)
    assert body == before
    check(wire, body, sent, report)


def keeps_its_prefix(shape: tuple[Any, Any], history: list[Any], policy: Policy, check: Check) -> None:
    """Every request of a conversation holds; between the steps what is sent begins as the request before did."""
    wire, to_body = shape
    state, last = session(policy), list[Any]()
    for begun in requests_of(history):
        body = to_body(begun)
        sent, report = leave(state, wire, body)
        check(wire, body, sent, report)
        if report.trigger is None:
            assert history_of(sent)[: len(last)] == last
        last = copy.deepcopy(history_of(sent))


def never_raises(history: list[Any], policy: Policy) -> None:
    """A history that no provider takes leaves all the same, no worse than it came."""
    body = to_chat(history)
    sent, _ = leave(session(policy), openai_chat, body)
    assert not found("openai-chat", sent, body)


def recorded_bodies_hold(api: str, sized: Sized) -> None:
    """Each body that was really sent leaves with its question, and with nothing that the provider would newly refuse."""
    for body, flavor in every_body(api):
        holds(WIRES[api], body, sized(counted(WIRES[api], body)), flavor)


def chat_grows(record: dict[str, Any], sized: Sized, *, step: int = 1, shape: Any = in_chat) -> None:
    """A long conversation, sent whole at each of its turns, stays acceptable."""
    wire, body = (openai_chat if shape is in_chat else gemini_contents), shape(record)
    grows(wire, body, sized(counted(wire, body)), step=step)


def native_grows(record: dict[str, Any], sized: Sized, **fields: Any) -> list[Report]:
    """The same in Anthropic's shape, with signed thinking; the reports."""
    body = native(record, **fields)
    return grows(anthropic_messages, body, sized(counted(anthropic_messages, body)))
