"""Recorded traffic and long conversations, at budgets of 30, 50 and 70 % of their size, before the independent judge."""

import copy
import json
from itertools import product
from typing import Any

import pytest

from compacting_client import DropOldest
from compacting_client.formats import anthropic_messages, openai_chat
from compacting_client.formats.base import Format
from tests.driving import Body, found, leave, question_of, session, share_of
from tests.shared import judge, long_conversations, params, records

SHARES = (0.3, 0.5, 0.7)
ENDS = ((1, 4), (0, 1), (2, 2))
WIRES: dict[str, Format] = {"openai_chat": openai_chat, "anthropic_messages": anthropic_messages}


def _holds(wire: Format, body: Body, flavor: str, **options: object) -> None:
    """All that is promised of one body and one policy."""
    before = copy.deepcopy(body)
    sent, report = leave(session(share_of(body, **options)), wire, body)  # type: ignore[arg-type]
    assert body == before, "the caller's body was changed"
    if report.changed:
        assert len(json.dumps(sent)) < len(json.dumps(body))
    else:
        assert sent is body
    assert not found(wire.API, sent, body, flavor=flavor)
    question = question_of(body)
    assert question is None or any(message is question for message in sent["messages"])


def _readable(record: dict) -> bool:
    return all(isinstance(message, dict) for message in record["request"]["body"]["messages"])


@pytest.mark.parametrize("api", WIRES)
def test_every_recorded_body_stays_acceptable(api: str) -> None:
    """A body that was really sent leaves smaller, with its question, and with nothing that the provider would newly refuse."""
    for record in filter(_readable, records(api)):
        flavor = judge().flavor_of(record["host_kind"])
        for share in SHARES:
            _holds(WIRES[api], record["request"]["body"], flavor, share=share)


@pytest.mark.full
@pytest.mark.parametrize("api", WIRES)
def test_every_recorded_body_under_other_settings(api: str) -> None:
    """The same with other heads, tails and targets."""
    for record in filter(_readable, records(api)):
        flavor = judge().flavor_of(record["host_kind"])
        for share, (head, tail), target in product(SHARES, ENDS, (0.5, 1.0)):
            body = record["request"]["body"]
            _holds(WIRES[api], body, flavor, share=share, keep_head=head, keep_tail=tail, target=target)


@pytest.mark.parametrize("api", WIRES)
def test_below_the_budget_the_same_object_leaves(api: str) -> None:
    """At exactly the budget nothing is touched: the very same body leaves."""
    for record in filter(_readable, records(api)):
        body = record["request"]["body"]
        counted = leave(session(DropOldest(10**9)), WIRES[api], body)[1].tokens_before
        sent, report = leave(session(DropOldest(max(1, counted))), WIRES[api], body)
        assert sent is body
        assert report.fits
        assert not report.dropped


def test_a_body_that_is_no_history_is_left_as_it_is() -> None:
    """A recorded body with strings in the place of messages leaves untouched, with the reason in its report."""
    odd = [record for record in records("anthropic_messages") if not _readable(record)]
    assert odd
    for record in odd:
        sent, report = leave(session(share_of({"messages": []}, 1)), anthropic_messages, record["request"]["body"])
        assert sent is record["request"]["body"]
        assert report.reason == "unreadable"


def _grows(wire: Format, body: Body, share: float, step: int = 1, **options: object) -> tuple[int, int]:
    """Send every prefix at which a model is asked, with one memory; returns (requests, requests changed)."""
    messages = body["messages"]
    state = session(share_of(body, share, **options))
    asked = [n for n in range(1, len(messages) + 1) if n == len(messages) or messages[n]["role"] == "assistant"][::step]
    changed, answered = 0, list[tuple[Body, Any]]()
    for n in asked:
        prefix = {**body, "messages": messages[:n]}
        sent, report = leave(state, wire, prefix)
        changed += report.changed
        assert not found(wire.API, sent, prefix, history=answered)
        if n < len(messages) and wire is anthropic_messages:
            answered.append((sent, messages[n]["content"]))  # thinking is bound to the body that it answered
        assert len(sent["messages"]) <= n
        question = question_of(prefix)
        assert question is None or any(message is question for message in sent["messages"])
    return len(asked), changed


def _anthropic_body(record: dict, **fields: object) -> Body:
    return {
        "model": record["model"],
        "max_tokens": 1000,
        "messages": record["messages"],
        "tools": [{"name": "x"}],
        **fields,
    }


THINKING: tuple[dict[str, object], ...] = (
    {},
    {"thinking": {"type": "enabled", "budget_tokens": 1000}},
    {"thinking": {"type": "adaptive"}},
)


@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped")[::4])
def test_long_conversations_grow(record: dict) -> None:
    """A long tool-using conversation, sent whole at each of its turns, stays acceptable and is really trimmed."""
    requests, changed = _grows(openai_chat, {"model": record["model"], "messages": record["messages"]}, 0.5)
    assert requests > 5
    assert changed > 0


@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native")[::3])
def test_long_conversations_with_signed_thinking_grow(record: dict) -> None:
    """The same in Anthropic's shape, with thinking switched on by hand."""
    assert _grows(anthropic_messages, _anthropic_body(record, **THINKING[1]), 0.5)[1] > 0


@pytest.mark.full
@pytest.mark.parametrize("target", [0.5, 1.0])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped"))
def test_every_long_conversation_at_every_prefix(record: dict, share: float, target: float) -> None:
    """Every prefix of every long conversation."""
    _grows(openai_chat, {"model": record["model"], "messages": record["messages"]}, share, target=target)


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
    fields = {**thinking, **({"model": model} if model else {})}
    _grows(anthropic_messages, _anthropic_body(record, **fields), share, target=target)
