"""Functions, classes and chains as policies, over recorded traffic and long conversations, on all three APIs, before the independent judge."""

import copy
from dataclasses import dataclass
from typing import Any

import pytest

from compacting_client import Chain, DropOldest, KeepTurns, Policy
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.policies import FunctionPolicy
from tests.driving import Body
from tests.holding import counted, every_body, grows, holds, in_chat, in_gemini, native
from tests.shared import long_conversations, params

WIRES: dict[str, Any] = {wire.API: wire for wire in (openai_chat, anthropic_messages, gemini_contents)}
MANUAL: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 1000}}
BINDING: dict[str, Any] = {"model": "claude-opus-5-1", "thinking": {"type": "adaptive"}}
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


def nothing(_: Messages) -> Messages:
    """Nothing but what has to stay."""
    return []


def every_other(messages: Messages) -> Messages:
    """Copies of every other one: half of every exchange."""
    return copy.deepcopy(messages[::2])


def no_results(messages: Messages) -> Messages:
    """Calls without their results."""
    return [message for message in messages if message["role"] != "tool"]


def no_calls(messages: Messages) -> Messages:
    """Results without their calls."""
    return [message for message in messages if not message.get("tool_calls")]


def no_questions(messages: Messages) -> Messages:
    """Answers to nothing."""
    return [message for message in messages if message["role"] != "user"]


@dataclass(frozen=True)
class LastOf(Policy):
    """A policy of one's own."""

    count: int

    def trim(self, messages: Messages) -> Messages:
        """The last so many, once there are twice as many."""
        return messages if len(messages) < 2 * self.count else messages[-self.count :]


FUNCTIONS = (recent, last_four, short_results, noted, nothing, every_other, no_results, no_calls, no_questions)
USEFUL = 4  # of these functions are written as one would; the others are nonsense that has to be mended
NAMES = (*(function.__name__ for function in FUNCTIONS), "class", "note", "shorten", "turns", "slack", "last")


def policy_of(name: str, size: int) -> Policy:
    """A function, a class or a chain; budgets are shares of the body's size."""
    half, third = (DropOldest(max(1, size // part)) for part in (2, 3))
    others: dict[str, Policy] = {
        "class": LastOf(7),
        "note": Chain(noted, half),
        "shorten": Chain(KeepTurns(3, remove_tool_msgs=True), short_results, half),
        "turns": Chain(KeepTurns(10), third),
        "slack": Chain(KeepTurns(3, remove_tool_msgs=True, slack=2), half),
        "last": Chain(third, KeepTurns(1)),
    }
    return others[name] if name in others else FunctionPolicy(next(each for each in FUNCTIONS if each.__name__ == name))


def sized(wire: Any, body: Body, name: str) -> Policy:
    """The policy for this body."""
    return policy_of(name, counted(wire, body))


each_policy = pytest.mark.parametrize("name", NAMES)
some_policies = pytest.mark.parametrize("name", [*NAMES[:USEFUL], *NAMES[len(FUNCTIONS) :]])


@each_policy
@pytest.mark.parametrize("api", WIRES)
def test_every_recorded_body_stays_acceptable(api: str, name: str) -> None:
    """A body that was really sent leaves with its question, and with nothing that the provider would newly refuse."""
    for body, flavor in every_body(api):
        holds(WIRES[api], body, sized(WIRES[api], body, name), flavor)


@some_policies
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped")[::9])
def test_long_conversations_grow(record: dict, name: str) -> None:
    """A long conversation, sent whole at each of its turns, stays acceptable."""
    body = in_chat(record)
    assert any(report.changed for report in grows(openai_chat, body, sized(openai_chat, body, name), step=4))


@some_policies
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped")[::12])
def test_long_conversations_grow_in_geminis_shape(record: dict, name: str) -> None:
    """The same in Gemini's shape, with signed calls."""
    body = in_gemini(record)
    assert any(report.changed for report in grows(gemini_contents, body, sized(gemini_contents, body, name), step=4))


@some_policies
@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native")[2:3])
def test_long_conversations_with_signed_thinking_grow(record: dict, name: str) -> None:
    """The same in Anthropic's shape, on a model that binds thinking."""
    body = native(record, **BINDING)
    assert any(report.changed for report in grows(anthropic_messages, body, sized(anthropic_messages, body, name)))


@pytest.mark.full
@each_policy
@pytest.mark.parametrize("shape", [in_chat, in_gemini])
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped"))
def test_every_long_conversation_at_every_prefix(record: dict, shape: Any, name: str) -> None:
    """Every prefix of every long conversation, in both shapes."""
    wire, body = (openai_chat if shape is in_chat else gemini_contents), shape(record)
    grows(wire, body, sized(wire, body, name))


@pytest.mark.full
@each_policy
@pytest.mark.parametrize("fields", [MANUAL, BINDING, {**BINDING, **MANUAL}], ids=["manual", "binding", "both"])
@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native"))
def test_every_long_native_conversation(record: dict, fields: dict, name: str) -> None:
    """Every prefix in Anthropic's shape: with thinking `enabled` on the recorded model, and both ways on one that binds it."""
    body = native(record, **fields)
    grows(anthropic_messages, body, sized(anthropic_messages, body, name))
