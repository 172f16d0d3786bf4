"""KeepTurns at 1, 3 and 10 turns over recorded traffic and long conversations, on all three APIs, before the independent judge."""

from typing import Any

import pytest

from compacting_client import KeepTurns
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from tests.holding import every_body, grows, holds, in_chat, in_gemini, native
from tests.shared import long_conversations, params

TURNS = (1, 3, 10)
POLICIES = [
    KeepTurns(turns, remove_tool_msgs=remove, slack=slack)
    for turns in TURNS
    for remove, slack in ((False, 0), (True, 0), (False, 2), (True, 2))
]
WIRES: dict[str, Any] = {wire.API: wire for wire in (openai_chat, anthropic_messages, gemini_contents)}
THINKING: tuple[dict[str, Any], ...] = (
    {},
    {"thinking": {"type": "enabled", "budget_tokens": 1000}},
    {"thinking": {"type": "adaptive"}},
)
each_policy = pytest.mark.parametrize("policy", POLICIES, ids=str)
some_policies = pytest.mark.parametrize("policy", POLICIES[::5], ids=str)


@each_policy
@pytest.mark.parametrize("api", WIRES)
def test_every_recorded_body_stays_acceptable(api: str, policy: KeepTurns) -> None:
    """A body that was really sent leaves with its question, and with nothing that the provider would newly refuse."""
    for body, flavor in every_body(api):
        holds(WIRES[api], body, policy, flavor)


@some_policies
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped")[::6])
def test_long_conversations_grow(record: dict, policy: KeepTurns) -> None:
    """A long conversation, sent whole at each of its turns, stays acceptable."""
    grows(openai_chat, in_chat(record), policy, step=3)


@some_policies
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped")[::8])
def test_long_conversations_grow_in_geminis_shape(record: dict, policy: KeepTurns) -> None:
    """The same in Gemini's shape, with signed calls."""
    grows(gemini_contents, in_gemini(record), policy, step=3)


@some_policies
@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native")[::6])
def test_long_conversations_with_signed_thinking_grow(record: dict, policy: KeepTurns) -> None:
    """The same in Anthropic's shape, on a model that binds thinking."""
    grows(anthropic_messages, native(record, model="claude-opus-5-1", **THINKING[1]), policy)


@pytest.mark.full
@each_policy
@pytest.mark.parametrize("shape", [in_chat, in_gemini])
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped"))
def test_every_long_conversation_at_every_prefix(record: dict, shape: Any, policy: KeepTurns) -> None:
    """Every prefix of every long conversation, in both shapes."""
    grows(openai_chat if shape is in_chat else gemini_contents, shape(record), policy)


@pytest.mark.full
@pytest.mark.parametrize("policy", [each for each in POLICIES if each.remove_tool_msgs or not each.slack], ids=str)
@pytest.mark.parametrize("thinking", THINKING, ids=["off", "enabled", "adaptive"])
@pytest.mark.parametrize("model", [None, "claude-opus-5-1"])
@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native"))
def test_every_long_native_conversation(record: dict, model: str | None, thinking: dict, policy: KeepTurns) -> None:
    """Every prefix in Anthropic's shape, on the recorded model and on one that binds thinking, with each way of thinking."""
    grows(anthropic_messages, native(record, **thinking, **({"model": model} if model else {})), policy)
