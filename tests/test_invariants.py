"""What is true of every history and every setting (DESIGN 3), under Hypothesis."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compacting_client import DropOldest
from compacting_client.formats import openai_chat
from tests.driving import found, leave, question_of, requests_of, session, share_of, size
from tests.strategies import SHAPES, chats, odd_chats, policies_options, to_chat

both = pytest.mark.parametrize("shape", SHAPES)
budget_shares = st.floats(0.05, 1.2)
common = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def same_objects(kept: list[Any], given_: list[Any]) -> bool:
    """Whether `kept` is a subsequence of `given_`, by identity."""
    rest = iter(given_)
    return all(any(each is other for other in rest) for each in kept)


@both
@common
@given(history=chats(), share=budget_shares, options=policies_options)
def test_accepted_before_is_accepted_after(shape: str, history: list, share: float, options: dict) -> None:
    """What the provider accepts stays accepted: the judge finds nothing new, and nothing gets larger."""
    wire, to_body = SHAPES[shape]
    body = to_body(history)
    sent, report = leave(session(share_of(body, share, **options)), wire, body)
    assert not found(wire.API, sent, body)
    assert size(sent) <= size(body)
    assert report.tokens_after == size(sent)
    assert report.tokens_before == size(body)


@both
@common
@given(history=st.one_of(chats(), odd_chats()), share=budget_shares, options=policies_options)
def test_kept_items_are_the_callers_own_in_their_order(shape: str, history: list, share: float, options: dict) -> None:
    """Every kept item is the caller's object, in its place; the caller's body is unchanged; unchanged bodies leave as the same object."""
    wire, to_body = SHAPES[shape]
    body = to_body(history if shape == "chat" else _translatable(history))
    before = copy.deepcopy(body)
    sent, report = leave(session(share_of(body, share, **options)), wire, body)
    assert body == before
    assert same_objects(sent[wire.FIELD], body[wire.FIELD])
    assert (sent is body) == (not report.changed)
    assert {name: value for name, value in sent.items() if name != wire.FIELD} == {
        name: value for name, value in body.items() if name != wire.FIELD
    }


def _translatable(history: list) -> list:
    """The part of an odd history that Anthropic's shape can say."""
    kept: list[Any] = []
    for message in history:
        text = message.get("content")
        if (
            message["role"] == "critic"
            or not isinstance(text, (str, type(None)))
            or (message["role"] == "tool" and not kept)
        ):
            continue
        kept.append(message)
    return kept or [{"role": "user", "content": "x"}]


@both
@common
@given(history=chats(), share=budget_shares, options=policies_options)
def test_pins_stay(shape: str, history: list, share: float, options: dict) -> None:
    """Systems, the question, the newest exchange, the head and what `pin` selects are never dropped (the tail may, at last)."""
    wire, to_body = SHAPES[shape]
    body = to_body(history)
    first = next(m for m in body[wire.FIELD] if m["role"] == "user")
    marked = first["content"] if shape == "chat" else (first.get("content") or first["parts"])[-1]["text"]
    sent, _ = leave(
        session(share_of(body, share, **options), pin=lambda message: message["content"] == marked), wire, body
    )
    question = question_of(body)
    assert any(message is question for message in sent[wire.FIELD])
    assert sent[wire.FIELD][-1] is body[wire.FIELD][-1]
    assert any(message is first for message in sent[wire.FIELD])
    systems = [m for m in body[wire.FIELD] if m["role"] in ("system", "developer")]
    assert [m for m in sent[wire.FIELD] if m["role"] in ("system", "developer")] == systems


@both
@common
@given(history=chats(), share=budget_shares, options=policies_options)
def test_the_account_adds_up(shape: str, history: list, share: float, options: dict) -> None:
    """Tokens and messages of what was dropped are exactly the difference between before and after (microsoft/autogen#8070)."""
    wire, to_body = SHAPES[shape]
    body = to_body(history)
    _, report = leave(session(share_of(body, share, **options)), wire, body)
    assert report.tokens_before - report.tokens_after == sum(unit.tokens for unit in report.dropped)
    assert report.messages_before - report.messages_after == sum(len(unit.roles) for unit in report.dropped)
    assert all(len(unit.messages) == len(unit.roles) for unit in report.dropped)


@both
@common
@given(history=chats(), budget=st.integers(20, 800), options=policies_options)
def test_a_growing_history_keeps_its_cut(shape: str, history: list, budget: int, options: dict) -> None:
    """While a history grows, what is gone stays gone, and the sent prefix changes only when a new cut is made."""
    wire, to_body = SHAPES[shape]
    state = session(DropOldest(budget, **options))
    gone: list[Any] = []
    for begun in requests_of(history):
        body = to_body(begun)
        sent, report = leave(state, wire, body)
        assert not found(wire.API, sent, body)
        absent = [unit.digest for unit in report.dropped]
        assert absent[: len(gone)] == gone or set(gone) <= set(absent)
        assert report.trigger is not None or absent == gone, "the cut moved without a trigger"
        gone = absent


@common
@given(history=odd_chats(), share=budget_shares, options=policies_options)
def test_odd_histories_never_raise_and_never_get_worse(history: list, share: float, options: dict) -> None:
    """Faults of the caller are cut like anything else, or left: no exception, and nothing that was not refused before."""
    body = to_chat(history)
    sent, _ = leave(session(share_of(body, share, **options)), openai_chat, body)
    assert not found("openai-chat", sent, body)


@common
@given(history=chats(late_systems=False), share=budget_shares, tail=st.integers(0, 6))
def test_alternating_turns_stay_alternating(history: list, share: float, tail: int) -> None:
    """Strict chat templates (vllm-project/vllm#6862) accept the result where they accepted the input.

    Only a head that splits a turn could force half of it out: here the head is the system prompt.
    """
    body = to_chat(history)
    if found("openai-chat", body, body, flavor="template"):
        return
    head = 1 if history[0]["role"] in ("system", "developer") else 0
    sent, _ = leave(session(share_of(body, share, keep_head=head, keep_tail=tail)), openai_chat, body)
    assert not found("openai-chat", sent, body, flavor="template")
