"""ClearToolResults over random, recorded and growing histories, on all three APIs, before the independent judge."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stability import measured
from compacting_client import Chain, ClearToolResults, DropOldest, Policy, memory
from compacting_client.formats import openai_chat
from compacting_client.session import Session
from tests.driving import Body, history_of, leave, session
from tests.holding import assert_question_is_there, assert_sound, in_chat, in_gemini
from tests.policies.histories import (
    BINDING,
    MANUAL,
    SHAPES,
    WIRES,
    chat_grows,
    common,
    is_sound,
    keeps_its_prefix,
    native_grows,
    never_raises,
    recorded_bodies_hold,
)
from tests.policies.test_clear_tool_results import hop
from tests.shared import long_conversations, params
from tests.strategies import chats, odd_chats

each_shape = pytest.mark.parametrize("shape", SHAPES)

alone = st.builds(
    ClearToolResults,
    st.integers(0, 4),
    max_tokens=st.one_of(st.none(), st.integers(20, 600)),
    exclude_tools=st.sampled_from([(), ("f",), ("g", "h*")]),
    clear_inputs=st.booleans(),
    target=st.sampled_from([0.1, 0.5, 1.0]),
)
budgets = st.builds(DropOldest, st.integers(20, 900), keep_tail=st.integers(0, 4))
policies = st.one_of(alone, st.builds(Chain, alone, budgets), st.builds(Chain, budgets, alone))


def result_of(block: Any) -> Any:
    """The content of a tool result, None for other blocks."""
    response = block.get("functionResponse") or block.get("function_response")
    return response["response"] if response else block.get("content") if block.get("type") == "tool_result" else None


def results(body: Body) -> list[Any]:
    """The contents of all tool results of a body, oldest first."""
    told: list[Any] = []
    for message in history_of(body):
        content = message.get("content") or message.get("parts") or ()
        told += [message["content"]] if message["role"] == "tool" else []
        if not isinstance(content, str):
            told += [each for block in content if (each := result_of(block)) is not None]
    return told


def check(wire: Any, body: Body, sent: Body, report: Any) -> None:
    """Accepted, no larger, the account true, the rest of the body untouched."""
    assert_sound(wire, body, sent, report)
    assert_question_is_there(sent, body)
    assert history_of(sent)[-1] is history_of(body)[-1]


@each_shape
@common
@given(history=chats(), policy=policies)
def test_every_request_is_sound(shape: str, history: list, policy: Policy) -> None:
    """The judge finds nothing new, nothing gets larger, the last item is the caller's own, the account adds up, the caller's data is unchanged."""
    is_sound(SHAPES[shape], history, policy, check)


@each_shape
@common
@given(history=chats(), policy=alone)
def test_only_older_results_change(shape: str, history: list, policy: ClearToolResults) -> None:
    """All items are there, in their order; the newest results are as they were, and what changed is a marker."""
    wire, to_body = SHAPES[shape]
    body = to_body(history)
    sent, report = leave(session(policy), wire, body)
    new, old = results(sent), results(body)
    assert len(history_of(sent)) == len(history_of(body))
    assert not report.dropped
    assert len(new) == len(old)
    assert policy.keep == 0 or new[-policy.keep :] == old[-policy.keep :]
    assert all(now == was or "older tool result cleared" in str(now) for now, was in zip(new, old, strict=True))


@each_shape
@common
@given(history=chats(late_systems=False), policy=policies)
def test_a_growing_history_keeps_its_prefix(shape: str, history: list, policy: Policy) -> None:
    """At every request of a conversation; between the steps what is sent begins as the request before did."""
    keeps_its_prefix(SHAPES[shape], history, policy, check)


@common
@given(history=odd_chats(), policy=policies)
def test_odd_histories_never_raise(history: list, policy: Policy) -> None:
    """Results without calls, calls without results and the like are left, or cleared as any other."""
    never_raises(history, policy)


def long_loop(words: int) -> list[Any]:
    """A question, 100 calls with results of so many words, and an answer."""
    steps = [message for number in range(100) for message in hop(number, f"{number} " + "word " * words)]
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Go."},
        *steps,
        {"role": "assistant", "content": "ok"},
    ]


def sending(state: Session) -> Any:
    """What leaves for a list of messages."""
    return lambda messages: leave(state, openai_chat, {"model": "m", "messages": messages})[0]["messages"]


@pytest.mark.parametrize("words", [100, 2000])
@pytest.mark.parametrize("keep", [0, 1, 3, 8, 20])
@pytest.mark.parametrize("budget", [None, 40])
def test_four_fifths_of_a_long_loop_were_sent_before(keep: int, words: int, budget: int | None) -> None:
    """Over 100 calls, whatever is kept; with a budget of so many results too."""
    limit = None if budget is None else budget * words * 5 // 4
    policy = ClearToolResults(keep, max_tokens=limit, clear_inputs=True)
    share, mean = measured(sending(session(policy, memory=memory.InProcess())), long_loop(words))
    assert share >= 0.8
    assert mean < measured(lambda messages: messages, long_loop(words))[1] / 1.2


def policy_of(name: str, size_: int) -> Policy:
    """By name; budgets are shares of the body's size."""
    half, third = max(1, size_ // 2), max(1, size_ // 3)
    return {
        "steps": ClearToolResults(),
        "none": ClearToolResults(0, clear_inputs=True),
        "budget": ClearToolResults(2, max_tokens=half, clear_inputs=True),
        "tight": ClearToolResults(0, max_tokens=third, target=1.0),
        "chain": Chain(ClearToolResults(max_tokens=third, clear_inputs=True), DropOldest(half)),
    }[name]


each_policy = pytest.mark.parametrize("name", ["steps", "none", "budget", "tight", "chain"])


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
    assert any(report.replaced for report in native_grows(record, partial(policy_of, name), **BINDING))


@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native")[2:3])
def test_an_open_thinking_loop_is_left_alone(record: dict) -> None:
    """Where thinking binds and has to open the loop, nothing new is cleared before the loop is over."""
    reports = native_grows(record, lambda _: ClearToolResults(0), **BINDING | MANUAL)
    waited = [report for report in reports if report.reason == "open thinking loop"]
    assert waited
    assert not any(report.trigger for report in waited)


@pytest.mark.full
@each_policy
@pytest.mark.parametrize("shape", [in_chat, in_gemini])
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped"))
def test_every_long_conversation_at_every_prefix(record: dict, shape: Any, name: str) -> None:
    """Every prefix of every long conversation, in both shapes."""
    chat_grows(record, partial(policy_of, name), shape=shape)


@pytest.mark.full
@each_policy
@pytest.mark.parametrize("fields", [MANUAL, BINDING, {**BINDING, **MANUAL}], ids=["manual", "binding", "both"])
@pytest.mark.parametrize("record", params(long_conversations, "anthropic_native"))
def test_every_long_native_conversation(record: dict, fields: dict, name: str) -> None:
    """Every prefix in Anthropic's shape: with thinking `enabled` on the recorded model, and both ways on one that binds it."""
    native_grows(record, partial(policy_of, name), **fields)
