"""What is true of every history (DESIGN 3), for turns, chains and functions, under Hypothesis."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compacting_client import Chain, DropOldest, KeepTurns, Policy
from compacting_client.formats import openai_chat
from compacting_client.policies import FunctionPolicy
from tests.driving import found, leave, requests_of, session
from tests.holding import assert_question_is_there, assert_sound
from tests.strategies import SHAPES, chats, odd_chats, to_chat

both = pytest.mark.parametrize("shape", SHAPES)
common = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

turns = st.builds(KeepTurns, st.integers(1, 4), remove_tool_msgs=st.booleans(), slack=st.integers(0, 2))
budgets = st.builds(DropOldest, st.integers(20, 900), keep_tail=st.integers(0, 4), target=st.sampled_from([0.5, 1.0]))


class Slicing:
    """Keeps some of the messages by a pattern; copies or not; may cut results short and put a line in front of one."""

    def __init__(self, keeps: list[bool], copies: bool, cuts: bool, note: int | None) -> None:
        self.keeps, self.copies, self.cuts, self.note = keeps, copies, cuts, note

    def __call__(self, messages: list[Any]) -> list[Any]:
        """The messages that stay."""
        kept = [each for n, each in enumerate(messages) if self.keeps[n % len(self.keeps)]]
        kept = copy.deepcopy(kept) if self.copies else kept
        if self.cuts:
            kept = [{**m, "content": m["content"][:3]} if m["role"] == "tool" else m for m in kept]
        spare = sum(len(m["content"] or "") for m in messages) - sum(len(m["content"] or "") for m in kept)
        if self.note is not None and spare > 400 and not any(m["content"] == "note" for m in messages):
            kept.insert(min(self.note, len(kept)), {"role": "user", "content": "note"})
        return kept


functions = st.builds(
    Slicing,
    st.lists(st.booleans(), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 9)),
).map(FunctionPolicy)
policies = st.one_of(
    turns,
    functions,
    st.lists(st.one_of(turns, budgets, functions), min_size=1, max_size=3).map(lambda some: Chain(*some)),
)


def check(wire: Any, body: dict[str, Any], sent: dict[str, Any], report: Any) -> None:
    """Accepted, no larger, pins there, account true, the rest of the body untouched."""
    assert_sound(wire, body, sent, report)
    systems = [m for m in body[wire.FIELD] if m["role"] in ("system", "developer")]
    assert [m for m in sent[wire.FIELD] if m["role"] in ("system", "developer")] == systems
    assert_question_is_there(sent, body)
    assert sent[wire.FIELD][-1]["role"] == body[wire.FIELD][-1]["role"]


@both
@common
@given(history=chats(), policy=policies)
def test_any_policy_leaves_a_sound_request(shape: str, history: list, policy: Policy) -> None:
    """The judge finds nothing new, nothing gets larger, the pins are there, the account adds up, the caller's data is unchanged."""
    wire, to_body = SHAPES[shape]
    body = to_body(history)
    before = copy.deepcopy(body)
    sent, report = leave(session(policy), wire, body)
    assert body == before
    check(wire, body, sent, report)


@both
@common
@given(history=chats(), policy=policies)
def test_any_policy_over_a_growing_history(shape: str, history: list, policy: Policy) -> None:
    """The same at every request of a conversation; without a trigger the sent prefix is that of the request before."""
    wire, to_body = SHAPES[shape]
    state, last = session(policy), list[Any]()
    for begun in requests_of(history):
        body = to_body(begun)
        sent, report = leave(state, wire, body)
        check(wire, body, sent, report)
        if report.trigger is None and "system" not in [m["role"] for m in history]:
            assert sent[wire.FIELD][: len(last)] == last
        last = copy.deepcopy(sent[wire.FIELD])


@common
@given(
    history=odd_chats(),
    policy=st.one_of(turns, st.lists(st.one_of(turns, budgets), min_size=1).map(lambda p: Chain(*p))),
)
def test_odd_histories_never_raise(history: list, policy: Policy) -> None:
    """Faults of the caller are cut like anything else, or left."""
    body = to_chat(history)
    sent, _ = leave(session(policy), openai_chat, body)
    assert not found("openai-chat", sent, body)


@common
@given(history=odd_chats(), count=st.integers(0, 12))
def test_a_slice_of_an_odd_history_never_raises(history: list, count: int) -> None:
    """The last so many messages of anything."""
    body = to_chat(history)
    sent, _ = leave(session(FunctionPolicy(lambda messages: messages[-count:])), openai_chat, body)
    assert not found("openai-chat", sent, body)


@common
@given(history=chats(late_systems=False), policy=turns)
def test_turns_stay_alternating(history: list, policy: Policy) -> None:
    """Strict chat templates accept what KeepTurns leaves where they accepted the input."""
    body = to_chat(history)
    if not found("openai-chat", body, body, flavor="template"):
        sent, _ = leave(session(policy), openai_chat, body)
        assert not found("openai-chat", sent, body, flavor="template")
