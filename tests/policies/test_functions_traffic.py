"""Functions and chains as policies, over recorded traffic and long conversations, before the independent judge."""

from typing import Any

import pytest

from compacting_client import Chain, DropOldest, KeepTurns, Policy
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.policies import FunctionPolicy
from tests.driving import size
from tests.policies.holding import gemini_bodies, grows, holds
from tests.shared import judge, long_conversations, params, records

WIRES: dict[str, Any] = {"openai_chat": openai_chat, "anthropic_messages": anthropic_messages}
Messages = list[dict[str, Any]]


def recent(messages: Messages) -> Messages:
    """The last ten, once there are more than twenty."""
    return messages if len(messages) <= 20 else messages[-10:]


def last_four(messages: Messages) -> Messages:
    """Always the last four."""
    return messages[-4:]


def short_results(messages: Messages) -> Messages:
    """No tool result of more than 200 characters, the newest aside."""

    def short(message: dict[str, Any]) -> dict[str, Any]:
        content = message["content"]
        long = message["role"] == "tool" and isinstance(content, str) and len(content) > 200
        return {**message, "content": content[:150] + " [cut]"} if long else message

    return [*map(short, messages[:-1]), *messages[-1:]]


def noted(messages: Messages) -> Messages:
    """The last six, with a line in the place of the others."""
    if len(messages) <= 12:
        return messages
    line = {"role": "user", "content": f"({len(messages) - 6} messages are left out)"}
    return [line, *messages[-6:]]


FUNCTIONS = (recent, last_four, short_results, noted)


def each_policy(body: dict[str, Any]) -> list[Policy]:
    """The functions alone, and in chains."""
    alone: list[Policy] = [FunctionPolicy(function) for function in FUNCTIONS]
    budget = DropOldest(max(1, size(body) // 2))
    return [*alone, Chain(noted, budget), Chain(KeepTurns(3, remove_tool_msgs=True), short_results, budget)]


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("api", WIRES)
def test_every_recorded_body_stays_acceptable(api: str, number: int) -> None:
    """A body that was really sent leaves with its question, and with nothing that the provider would newly refuse."""
    for record in records(api):
        body, flavor = record["request"]["body"], judge().flavor_of(record["host_kind"])
        if all(isinstance(message, dict) for message in body["messages"]):
            holds(WIRES[api], body, each_policy(body)[number], flavor, strict=False)


@pytest.mark.parametrize("number", range(6))
def test_every_recorded_gemini_body_stays_acceptable(number: int) -> None:
    """The same in Gemini's shape."""
    for body in gemini_bodies():
        holds(gemini_contents, body, each_policy(body)[number], strict=False)


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped")[::9])
def test_long_conversations_grow(record: dict, number: int) -> None:
    """A long conversation, sent whole at each of its turns, stays acceptable."""
    body = {"model": record["model"], "messages": record["messages"]}
    assert any(report.changed for report in grows(openai_chat, body, each_policy(body)[number], step=4))


def _native(record: dict, model: str | None) -> dict[str, Any]:
    thinking = {"type": "adaptive"}
    fields = {"model": model or record["model"], "messages": record["messages"], "thinking": thinking}
    return {"max_tokens": 1000, "tools": [{"name": "x"}], **fields}


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native")[:1])
def test_long_conversations_with_signed_thinking_grow(record: dict, number: int) -> None:
    """The same in Anthropic's shape, on a model that binds thinking."""
    body = _native(record, "claude-opus-5-1")
    assert any(report.changed for report in grows(anthropic_messages, body, each_policy(body)[number]))


@pytest.mark.full
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped"))
def test_every_long_conversation_at_every_prefix(record: dict, number: int) -> None:
    """Every prefix of every long conversation."""
    body = {"model": record["model"], "messages": record["messages"]}
    grows(openai_chat, body, each_policy(body)[number])


@pytest.mark.full
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("model", [None, "claude-opus-5-1"])
@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native"))
def test_every_long_native_conversation(record: dict, model: str | None, number: int) -> None:
    """Every prefix in Anthropic's shape, on the recorded model and on one that binds thinking."""
    body = _native(record, model)
    grows(anthropic_messages, body, each_policy(body)[number])
