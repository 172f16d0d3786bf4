"""KeepTurns at 1, 3 and 10 turns, over recorded traffic and long conversations, before the independent judge."""

from itertools import product
from typing import Any

import pytest

from compacting_client import KeepTurns
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from tests.policies.holding import gemini_bodies, grows, holds
from tests.shared import judge, long_conversations, params, records

TURNS = (1, 3, 10)
WIRES: dict[str, Any] = {"openai_chat": openai_chat, "anthropic_messages": anthropic_messages}
THINKING: tuple[dict[str, Any], ...] = (
    {},
    {"thinking": {"type": "enabled", "budget_tokens": 1000}},
    {"thinking": {"type": "adaptive"}},
)


@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("api", WIRES)
def test_every_recorded_body_stays_acceptable(api: str, turns: int, remove: bool) -> None:
    """A body that was really sent leaves with its question, and with nothing that the provider would newly refuse."""
    for record in records(api):
        body, flavor = record["request"]["body"], judge().flavor_of(record["host_kind"])
        if all(isinstance(message, dict) for message in body["messages"]):
            holds(WIRES[api], body, KeepTurns(turns, remove_tool_msgs=remove), flavor)


@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize("turns", TURNS)
def test_every_recorded_gemini_body_stays_acceptable(turns: int, remove: bool) -> None:
    """The same in Gemini's shape."""
    for body in gemini_bodies():
        holds(gemini_contents, body, KeepTurns(turns, remove_tool_msgs=remove))


def _native(record: dict, **fields: Any) -> dict[str, Any]:
    tools = [{"name": "x"}]
    return {"model": record["model"], "max_tokens": 1000, "messages": record["messages"], "tools": tools, **fields}


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped")[::6])
def test_long_conversations_grow(record: dict, turns: int) -> None:
    """A long conversation, sent whole at each of its turns, stays acceptable."""
    body = {"model": record["model"], "messages": record["messages"]}
    grows(openai_chat, body, KeepTurns(turns, remove_tool_msgs=turns != 3, slack=turns // 3), step=3)


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native")[::6])
def test_long_conversations_with_signed_thinking_grow(record: dict, turns: int) -> None:
    """The same in Anthropic's shape, on a model that binds thinking."""
    body = _native(record, model="claude-opus-5-1", **THINKING[1])
    grows(anthropic_messages, body, KeepTurns(turns, remove_tool_msgs=turns != 3))


@pytest.mark.full
@pytest.mark.parametrize(("turns", "remove"), list(product(TURNS, (False, True))))
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped"))
def test_every_long_conversation_at_every_prefix(record: dict, turns: int, remove: bool) -> None:
    """Every prefix of every long conversation."""
    body = {"model": record["model"], "messages": record["messages"]}
    grows(openai_chat, body, KeepTurns(turns, remove_tool_msgs=remove))


@pytest.mark.full
@pytest.mark.parametrize(("turns", "remove"), list(product(TURNS, (False, True))))
@pytest.mark.parametrize("thinking", THINKING, ids=["off", "enabled", "adaptive"])
@pytest.mark.parametrize("model", [None, "claude-opus-5-1"])
@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native"))
def test_every_long_native_conversation(
    record: dict, model: str | None, thinking: dict, turns: int, remove: bool
) -> None:
    """Every prefix in Anthropic's shape, on the recorded model and on one that binds thinking, with each way of thinking."""
    fields = {**thinking, **({"model": model} if model else {})}
    grows(anthropic_messages, _native(record, **fields), KeepTurns(turns, remove_tool_msgs=remove))
