"""KeepTurns beside the MessageContextManager of 10xGraph: the same where none of its defects bites, better where one does."""

import importlib.util
import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compacting_client import Chain, ConfigError, DropOldest, KeepTurns, Policy
from compacting_client.formats import openai_chat
from tests.driving import found, leave, session, size
from tests.policies.test_drop_oldest import loop
from tests.policies.test_keep_turns import says, step, user
from tests.shared import shared_path

Message = dict[str, Any]


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """The real MessageContextManager; needs the wheel (ORACLE_10XGRAPH_WHEEL) or, on Python 3.12, the package."""
    path = shared_path("oracles", "oracle_10xgraph.py")
    spec = importlib.util.spec_from_file_location("oracle_10xgraph", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not os.environ.get("ORACLE_10XGRAPH_WHEEL"):
        try:
            module.backend()
        except (ImportError, SyntaxError, StopIteration, FileNotFoundError):
            pytest.skip(
                "needs 10xgraph==0.10.3: the package (Python 3.12), or its wheel's path in ORACLE_10XGRAPH_WHEEL"
            )
    return module


def body_of(messages: Sequence[Message]) -> dict[str, Any]:
    """A chat body."""
    return {"model": "m", "messages": list(messages)}


def ours(policy: Policy, messages: Sequence[Message], state: Any = None) -> list[Message]:
    """What leaves through this package."""
    return list(leave(state or session(policy), openai_chat, body_of(messages))[0]["messages"])


def said(messages: Sequence[Message]) -> list[Any]:
    """The messages, to compare."""
    return [(m["role"], m.get("content") or "", [call["id"] for call in m.get("tool_calls") or ()]) for m in messages]


def orphans(messages: Sequence[Message]) -> set[str]:
    """The ids of results whose call is not there."""
    calls = {call["id"] for message in messages for call in message.get("tool_calls") or ()}
    return {message["tool_call_id"] for message in messages if message["role"] == "tool"} - calls


# ---------------------------------------------------------------------------------------------- the same


@st.composite
def plain(draw: st.DrawFn, hops: int = 1) -> list[Message]:
    """Turns of at most so many hops, results adjacent, a leading system prompt, ending in a question or an open hop: where no defect bites."""
    messages: list[Message] = [{"role": "system", "content": "s"}] if draw(st.booleans()) else []
    if draw(st.integers(0, 5)) == 0:
        messages.append(says("hello"))
    for n in range(draw(st.integers(0, 8))):
        messages.append(user(f"q{n}"))
        for hop in range(draw(st.integers(0, hops))):
            calls = [f"{name}{n}{hop}" for name in draw(st.sampled_from(["c", "cd", "cde"]))]
            messages += step(*calls, text=draw(st.sampled_from([None, "hm"])))
        if draw(st.booleans()):
            messages.append(says(f"a{n}"))
    messages.append(user("last"))
    return [*messages, *(step("open") if draw(st.booleans()) else [])]


turns = st.integers(1, 6)


@settings(max_examples=300)
@given(messages=plain(), most=turns, slack=st.integers(0, 3), remove=st.booleans())
def test_equals_the_real_manager_on_plain_input(
    reference: ModuleType, messages: list[Message], most: int, slack: int, remove: bool
) -> None:
    """The same messages leave; with slack, as from a manager that waits for so many turns more."""
    asked = sum(message["role"] == "user" for message in messages)
    theirs = most if asked > most + slack else asked
    expected = reference.trim(messages, max_messages=theirs, remove_tool_msgs=remove)["messages"]
    assert said(ours(KeepTurns(most, remove_tool_msgs=remove, slack=slack), messages)) == said(expected)


@settings(max_examples=200)
@given(messages=plain(hops=3), most=turns)
def test_equals_the_real_manager_on_long_tool_loops(reference: ModuleType, messages: list[Message], most: int) -> None:
    """The same for turns of several hops, as long as their tools stay."""
    assert said(ours(KeepTurns(most), messages)) == said(reference.trim(messages, max_messages=most)["messages"])


@settings(max_examples=150)
@given(messages=plain(), most=turns, remove=st.booleans())
def test_equals_the_real_manager_at_every_request_of_a_conversation(
    reference: ModuleType, messages: list[Message], most: int, remove: bool
) -> None:
    """Through one client with its remembered cuts: what it decides on top of them is what the manager decides on the whole history."""
    policy = KeepTurns(most, remove_tool_msgs=remove)
    state = session(policy)
    for n in range(1, len(messages) + 1):
        if n == len(messages) or messages[n]["role"] == "assistant":
            expected = reference.trim(messages[:n], max_messages=most, remove_tool_msgs=remove)["messages"]
            assert said(ours(policy, messages[:n], state)) == said(expected)


# ---------------------------------------------------------------------------------------------- better (SEEDS T7 to T10)


def test_a_result_that_comes_late_keeps_its_call(reference: ModuleType) -> None:
    """T7: the manager sends a result whose call it cut; here the exchange goes whole, or stays whole if it reaches over the cut."""
    call, result = step("1")
    messages = [user("a"), call, user("b"), result, says("c")]
    assert orphans(reference.trim(messages, max_messages=1)["messages"]) == {"1"}
    assert said(ours(KeepTurns(1), messages)) == said(messages)
    messages += [user("d"), says("e")]
    assert orphans(reference.trim(messages, max_messages=2)["messages"]) == {"1"}
    assert said(ours(KeepTurns(2), messages)) == said(messages)
    assert said(ours(KeepTurns(1), messages)) == said(messages[-2:])


@pytest.mark.parametrize("most", [0, -1, float("nan")])
def test_a_senseless_number_of_turns_is_refused(reference: ModuleType, most: Any) -> None:
    """T8: the manager drops the question; here the setting is refused when the policy is made."""
    messages = [{"role": "system", "content": "s"}, user("a"), says("b"), user("the question")]
    assert said(reference.trim(messages, max_messages=most)["messages"]) == said(messages[:1])
    with pytest.raises(ConfigError, match="max_messages"):
        KeepTurns(most)


def test_an_endless_tool_loop_is_trimmed_by_a_budget(reference: ModuleType) -> None:
    """T9: one question and any number of results never trigger the manager; a budget in the chain does, and the question stays."""
    body = loop(60)
    assert not reference.trim(body["messages"], max_messages=1)["replaced"]
    budget = size(body) // 4
    left = ours(Chain(KeepTurns(1), DropOldest(budget)), body["messages"])
    assert size(body_of(left)) <= budget
    assert left[:2] == body["messages"][:2]
    assert left[-1] == body["messages"][-1]
    assert not found("openai-chat", body_of(left), body)


def test_all_hops_of_a_chain_go(reference: ModuleType) -> None:
    """T10: the manager leaves every hop but the last; here the whole chain goes, and its final answer stays in both."""
    hops = [step("1"), step("2", "3"), step("4")]
    messages = [user("q"), *hops[0], *hops[1], *hops[2], says("answer"), user("next")]
    theirs = reference.trim(messages, remove_tool_msgs=True)["messages"]
    assert said(theirs) == said([user("q"), *hops[0], *hops[1], says("answer"), user("next")])
    assert said(ours(KeepTurns(remove_tool_msgs=True), messages)) == said([user("q"), says("answer"), user("next")])


def test_a_late_system_message_keeps_its_place(reference: ModuleType) -> None:
    """The manager moves it to the front when it trims, and so changes the start of the prompt."""
    late = {"role": "system", "content": "late"}
    messages = [{"role": "system", "content": "s"}, user("a"), says("b"), user("c"), late, says("d"), user("e")]
    theirs = reference.trim(messages, max_messages=2)["messages"]
    assert [m["content"] for m in theirs] == ["s", "late", "c", "d", "e"]
    assert [m["content"] for m in ours(KeepTurns(2), messages)] == ["s", "c", "late", "d", "e"]


def test_the_newest_exchange_of_the_current_turn_stays(reference: ModuleType) -> None:
    """What the model was just told is not taken from under its answer, where the manager removes it."""
    messages = [user("q"), *step("1"), says("answer")]
    assert len(reference.trim(messages, remove_tool_msgs=True)["messages"]) == 2
    assert said(ours(KeepTurns(remove_tool_msgs=True), messages)) == said(messages)
