"""Recorded traffic and long conversations, at budgets of 30, 50 and 70 % of their size, before the independent judge."""

from itertools import product
from typing import Any

import pytest

from compacting_client.formats import anthropic_messages, openai_chat
from compacting_client.formats.base import Format
from tests.driving import leave, session, share_of
from tests.holding import budget_of, every_body, grows, holds, in_chat, native
from tests.shared import long_conversations, params, records

SHARES = (0.3, 0.5, 0.7)
ENDS = ((1, 4), (0, 1), (2, 2))
WIRES: dict[str, Format] = {"openai-chat": openai_chat, "anthropic-messages": anthropic_messages}


@pytest.mark.parametrize("api", WIRES)
def test_every_recorded_body_stays_acceptable(api: str) -> None:
    """A body that was really sent leaves smaller, with its question, and with nothing that the provider would newly refuse."""
    for (body, flavor), share in product(every_body(api), SHARES):
        holds(WIRES[api], body, share_of(body, share), flavor)


@pytest.mark.full
@pytest.mark.parametrize("api", WIRES)
def test_every_recorded_body_under_other_settings(api: str) -> None:
    """The same with other heads, tails and targets."""
    for (body, flavor), share, (head, tail), target in product(every_body(api), SHARES, ENDS, (0.5, 1.0)):
        holds(WIRES[api], body, share_of(body, share, keep_head=head, keep_tail=tail, target=target), flavor)


@pytest.mark.parametrize("api", WIRES)
def test_below_the_budget_the_same_object_leaves(api: str) -> None:
    """At exactly the budget nothing is touched: the very same body leaves."""
    for body, _ in every_body(api):
        sent, report = leave(session(budget_of(WIRES[api], body, 1)), WIRES[api], body)
        assert sent is body
        assert report.fits
        assert not report.dropped


def test_a_body_that_is_no_history_is_left_as_it_is() -> None:
    """A recorded body with strings in the place of messages leaves untouched, with the reason in its report."""
    bodies = [record["request"]["body"] for record in records("anthropic_messages")]
    odd = [body for body in bodies if any(isinstance(message, str) for message in body["messages"])]
    assert odd
    for body in odd:
        sent, report = leave(session(share_of({"messages": []}, 1)), anthropic_messages, body)
        assert sent is body
        assert report.reason == "unreadable"


THINKING: tuple[dict[str, Any], ...] = (
    {},
    {"thinking": {"type": "enabled", "budget_tokens": 1000}},
    {"thinking": {"type": "adaptive"}},
)


@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped")[::4])
def test_long_conversations_grow(record: dict) -> None:
    """A long tool-using conversation, sent whole at each of its turns, stays acceptable and is really trimmed."""
    body = in_chat(record)
    reports = grows(openai_chat, body, share_of(body, 0.5))
    assert len(reports) > 5
    assert any(report.changed for report in reports)


@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native")[::3])
def test_long_conversations_with_signed_thinking_grow(record: dict) -> None:
    """The same in Anthropic's shape, with thinking switched on by hand."""
    body = native(record, **THINKING[1])
    assert any(report.changed for report in grows(anthropic_messages, body, share_of(body, 0.5)))


@pytest.mark.full
@pytest.mark.parametrize("target", [0.5, 1.0])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped"))
def test_every_long_conversation_at_every_prefix(record: dict, share: float, target: float) -> None:
    """Every prefix of every long conversation."""
    body = in_chat(record)
    grows(openai_chat, body, share_of(body, share, target=target))


@pytest.mark.full
@pytest.mark.parametrize("target", [0.5, 1.0])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("thinking", THINKING, ids=["off", "enabled", "adaptive"])
@pytest.mark.parametrize("model", [None, "claude-opus-5-1"])
@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native"))
def test_every_long_native_conversation(
    record: dict, model: str | None, thinking: dict, share: float, target: float
) -> None:
    """Every prefix in Anthropic's shape, on the recorded model and on one that binds thinking, with each way of thinking."""
    body = native(record, **thinking, **({"model": model} if model else {}))
    grows(anthropic_messages, body, share_of(body, share, target=target))
