"""Ledger over random, recorded and growing histories, on all three APIs, before the independent judge."""

import copy
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compacting_client import Chain, ClearToolResults, DropOldest, Ledger, Policy
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from tests.driving import Body, history_of
from tests.holding import assert_question_is_there, assert_sound, in_chat, in_gemini
from tests.policies import histories
from tests.policies.histories import (
    BINDING,
    MANUAL,
    WIRES,
    chat_grows,
    common,
    is_sound,
    keeps_its_prefix,
    native_grows,
    never_raises,
    recorded_bodies_hold,
)
from tests.policies.ledgers import distinct
from tests.shared import long_conversations, params
from tests.strategies import chats, odd_chats, to_anthropic, to_chat, to_gemini

SHAPES: dict[str, Any] = histories.SHAPES | {
    "chat, distinct calls": (openai_chat, lambda messages: distinct(to_chat(copy.deepcopy(messages)))),
    "anthropic, distinct calls": (anthropic_messages, lambda messages: distinct(to_anthropic(messages))),
    "binding, distinct calls": (anthropic_messages, lambda messages: distinct({**to_anthropic(messages), **BINDING})),
    "gemini, distinct calls": (gemini_contents, lambda messages: distinct(to_gemini(messages))),
}
SCOPES = ("full", "auto", "ledger", "scoped")
each_shape = pytest.mark.parametrize("shape", SHAPES)

alone = st.builds(
    Ledger,
    st.sampled_from(SCOPES),
    after_tool_results=st.integers(1, 4),
    keep_result_chars=st.sampled_from([0, 20, 2000]),
    max_tokens=st.one_of(st.none(), st.integers(20, 900)),
    history_messages=st.integers(0, 4),
    history_chars=st.sampled_from([0, 20, 400]),
    keep_tools=st.sampled_from([(), ("f",), ("g", "h*")]),
)
budgets = st.builds(DropOldest, st.integers(20, 900), keep_tail=st.integers(0, 4))
policies = st.one_of(alone, st.builds(Chain, alone, budgets), st.builds(Chain, st.just(ClearToolResults(0)), alone))


def check(wire: Any, body: Body, sent: Body, report: Any) -> None:
    """Accepted, no larger, the account true, the question and the newest item there."""
    assert_sound(wire, body, sent, report)
    assert_question_is_there(sent, body)
    newest, last = history_of(sent)[-1], history_of(body)[-1]
    assert newest is last or last.get("role") == "user"  # the question itself may have a ledger at its end


@each_shape
@common
@given(history=chats(), policy=policies)
def test_every_request_is_sound(shape: str, history: list, policy: Policy) -> None:
    """The judge finds nothing new, nothing gets larger, the account adds up, the caller's data is unchanged."""
    is_sound(SHAPES[shape], history, policy, check)


@each_shape
@common
@given(history=chats(late_systems=False), policy=policies)
def test_a_growing_history_keeps_its_prefix(shape: str, history: list, policy: Policy) -> None:
    """At every request of a conversation; between the steps what is sent begins as the request before did."""
    keeps_its_prefix(SHAPES[shape], history, policy, check)


@common
@given(history=odd_chats(), policy=policies)
def test_odd_histories_never_raise(history: list, policy: Policy) -> None:
    """Results without calls, calls without results and the like are left, or become lines as any other."""
    never_raises(history, policy)


def policy_of(name: str, size_: int) -> Policy:
    """By name; budgets are shares of the body's size."""
    half, third = max(1, size_ // 2), max(1, size_ // 3)
    return {
        "auto": Ledger(),
        "ledger": Ledger("ledger", keep_result_chars=300),
        "scoped": Ledger("scoped"),
        "budget": Ledger(after_tool_results=3, max_tokens=half),
        "tight": Ledger("ledger", max_tokens=third, keep_result_chars=0),
        "chain": Chain(Ledger(max_tokens=half), DropOldest(third)),
    }[name]


each_policy = pytest.mark.parametrize("name", ["auto", "ledger", "scoped", "budget", "tight", "chain"])


@each_policy
@pytest.mark.parametrize("api", WIRES)
def test_every_recorded_body_stays_acceptable(api: str, name: str) -> None:
    """A body that was really sent leaves with its question, and with nothing that the provider would newly refuse."""
    recorded_bodies_hold(api, partial(policy_of, name))


@each_policy
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped")[::9])
def test_long_conversations_grow(record: dict, name: str) -> None:
    """A long conversation, sent whole at each of its turns, stays acceptable."""
    chat_grows(record, partial(policy_of, name), step=4)


@each_policy
@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native")[2:3])
def test_long_conversations_with_signed_thinking_grow(record: dict, name: str) -> None:
    """The same in Anthropic's shape, on a model that binds thinking."""
    assert any(report.changed for report in native_grows(record, partial(policy_of, name), **BINDING))


@pytest.mark.full
@each_policy
@pytest.mark.parametrize("shape", [in_chat, in_gemini])
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped"))
def test_every_long_conversation_at_every_prefix(record: dict, shape: Any, name: str) -> None:
    """Every prefix of every long conversation, in both shapes."""
    chat_grows(record, partial(policy_of, name), shape=shape)


@pytest.mark.full
@each_policy
@pytest.mark.parametrize(
    "fields", [{}, MANUAL, BINDING, {**BINDING, **MANUAL}], ids=["plain", "manual", "binding", "both"]
)
@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native"))
def test_every_long_native_conversation(record: dict, fields: dict, name: str) -> None:
    """Every prefix in Anthropic's shape: as recorded, with thinking `enabled`, and both ways on a model that binds it."""
    native_grows(record, partial(policy_of, name), **fields)
