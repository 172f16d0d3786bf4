"""KeepTurns: what a turn is, where the cut falls, slack, and removed tool sequences."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compacting_client import ConfigError, KeepTurns
from compacting_client.formats import anthropic_messages, openai_chat
from tests.driving import found, leave, session
from tests.policies.test_drop_oldest import loop, names, talk
from tests.strategies import chats, to_anthropic

Message = dict[str, Any]


def user(text: str) -> Message:
    """A question."""
    return {"role": "user", "content": text}


def says(text: str) -> Message:
    """A plain answer."""
    return {"role": "assistant", "content": text}


def step(*ids: str, text: str | None = None) -> list[Message]:
    """One hop: calls and their results."""
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    results = [{"role": "tool", "tool_call_id": i, "content": f"r{i}"} for i in ids]
    return [{"role": "assistant", "content": text, "tool_calls": calls}, *results]


def kept(policy: KeepTurns, *messages: Message, **options: Any) -> list[int]:
    """Which messages leave."""
    body = {"model": "m", "messages": list(messages)}
    sent, _ = leave(session(policy, **options), openai_chat, body)
    return [index for index, message in enumerate(messages) if any(message is each for each in sent["messages"])]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("max_messages", value) for value in (0, -1, True, 1.5, float("nan"), None, "3")),
        *(("slack", value) for value in (-1, False, 0.5, None)),
        *(("remove_tool_msgs", value) for value in (1, None, "yes")),
    ],
)
def test_wrong_settings_are_refused(field: str, value: Any) -> None:
    """Where 10xGraph would drop the question (0, -1) or fail later, the field is named at once (SEEDS T8)."""
    with pytest.raises(ConfigError, match=field):
        KeepTurns(**{field: value})


def test_the_last_turns_stay() -> None:
    """The last so many user messages and all that follows the oldest of them; the report names the trigger."""
    body = talk(5)
    sent, report = leave(session(KeepTurns(2)), openai_chat, body)
    assert names(sent) == ["be", "q4", "a4", "last"]
    assert report.trigger == "turns"
    assert report.fits
    assert {unit.reason for unit in report.dropped} == {"older than the kept turns"}


def test_within_the_limit_the_same_object_leaves() -> None:
    """Up to the limit nothing is touched, whatever stands before the first user message."""
    body: dict[str, Any] = {"model": "m", "messages": [says("hello"), *talk(2, system=False)["messages"]]}
    assert leave(session(KeepTurns(3)), openai_chat, body)[0] is body
    assert kept(KeepTurns(2), *body["messages"]) == [3, 4, 5]


def test_systems_keep_their_place() -> None:
    """A late system message stays where it stands instead of moving to the front."""
    messages = [user("a"), {"role": "system", "content": "late"}, says("b"), user("c"), says("d"), user("e")]
    assert kept(KeepTurns(1), *messages) == [1, 5]
    assert kept(KeepTurns(2), *messages) == [1, 3, 4, 5]


def test_slack_lets_the_cut_rest() -> None:
    """With slack the cut moves once in slack + 1 turns, and the sent prefix is the same in between."""
    state, whole, cuts, before = session(KeepTurns(3, slack=4)), talk(30)["messages"], [], list[Any]()
    for n in range(2, len(whole) + 1, 2):
        sent, report = leave(state, openai_chat, {"model": "m", "messages": whole[:n]})
        turns = sum(message["role"] == "user" for message in sent["messages"])
        assert 3 <= turns <= 7 or n < 14
        if report.trigger:
            cuts.append(n // 2)
            assert turns == 3
        else:
            assert sent["messages"][: len(before)] == before
        before = sent["messages"]
    assert cuts == [8, 13, 18, 23, 28]


def test_a_result_that_comes_late_stays_with_its_call() -> None:
    """An exchange that reaches over the cut is kept whole, where 10xGraph sends the result alone (SEEDS T7)."""
    call, result = step("1")
    messages = [user("a"), says("b"), user("c"), call, user("d"), result, says("e"), user("f")]
    assert {3, 5} <= set(kept(KeepTurns(2), *messages))
    assert kept(KeepTurns(1), *messages) == [7]


def test_a_pinned_turn_is_no_reason_to_cut_again() -> None:
    """A pinned old message keeps its turn's question and answer, and the trigger counts the others only."""
    body = talk(6)
    state = session(KeepTurns(2, slack=1), pin=lambda message: str(message["content"]).startswith("a1"))
    sent, _ = leave(state, openai_chat, body)
    assert names(sent) == ["be", "q1", "a1", "q5", "a5", "last"]
    body["messages"] += [says("fine"), user("more")]
    sent, report = leave(state, openai_chat, body)
    assert report.trigger is None
    assert names(sent) == ["be", "q1", "a1", "q5", "a5", "last", "fine", "more"]


def test_a_tool_loop_is_one_turn() -> None:
    """However long a loop is, it belongs to its question: for that there is a budget beside the turns (SEEDS T9)."""
    body = loop(40)
    assert leave(session(KeepTurns(1)), openai_chat, body)[0] is body


def test_all_hops_of_a_completed_chain_go_and_the_answer_stays() -> None:
    """The whole chain goes, with the text beside its calls; 10xGraph removes only the last hop (SEEDS T10)."""
    chain = [user("q"), *step("1", text="Let me see."), *step("2", "3"), says("answer"), user("next")]
    assert kept(KeepTurns(9, remove_tool_msgs=True), *chain) == [0, 6, 7]


@pytest.mark.parametrize(
    ("messages", "expected"),
    {
        "no answer yet": ([user("q"), *step("1"), *step("2")], [0, 1, 2, 3, 4]),
        "a user message in it": ([user("q"), *step("1"), user("wait"), says("ok"), user("go")], [0, 1, 2, 3, 4, 5]),
        "a system message in it": (
            [user("q"), *step("1"), {"role": "system", "content": "s"}, says("ok"), user("go")],
            [0, 1, 2, 3, 4, 5],
        ),
        "the newest exchange": ([user("q"), *step("1"), *step("2"), says("answer")], [0, 1, 2, 3, 4, 5]),
        "a call without result": ([user("q"), step("1")[0], says("answer"), user("go")], [0, 2, 3]),
        "two sequences": ([user("q"), *step("1"), says("a"), *step("2"), says("b"), user("go")], [0, 3, 6, 7]),
        "an open one after a closed one": ([user("q"), *step("1"), says("a"), *step("2")], [0, 3, 4, 5]),
    }.values(),
    ids=lambda value: None,
)
def test_what_is_a_completed_sequence(messages: list[Message], expected: list[int]) -> None:
    """Only calls and results between a question and a plain answer; the newest exchange of the current turn stays (DESIGN 3.2)."""
    assert kept(KeepTurns(9, remove_tool_msgs=True), *messages) == expected


def test_sequences_go_on_every_request_and_stay_gone() -> None:
    """Below the turn limit too, with their own trigger; what went before is reused."""
    state = session(KeepTurns(9, remove_tool_msgs=True))
    messages = [user("q"), *step("1"), says("a"), user("r")]
    sent, report = leave(state, openai_chat, {"model": "m", "messages": messages})
    assert (len(sent["messages"]), report.trigger) == (3, "tool_results")
    messages += [*step("2"), says("b"), user("s")]
    sent, report = leave(state, openai_chat, {"model": "m", "messages": messages})
    assert [message["content"] for message in sent["messages"]] == ["q", "a", "r", "b", "s"]
    assert {unit.since for unit in report.dropped} == {0, 1}
    sent, report = leave(state, openai_chat, {"model": "m", "messages": [*messages, says("c"), user("t")]})
    assert report.trigger is None
    assert len(sent["messages"]) == 7


def test_a_pinned_hop_keeps_its_chain() -> None:
    """The whole chain or none of it."""
    chain = [user("q"), *step("1"), *step("2"), says("answer"), user("next")]
    policy = KeepTurns(9, remove_tool_msgs=True)
    assert kept(policy, *chain, pin=lambda message: message.get("tool_call_id") == "1") == [0, 1, 2, 3, 4, 5, 6]


def test_on_anthropic_results_that_share_an_item_with_a_question_stay() -> None:
    """An item of a result and the next question is a user turn; its call stays with it."""
    ask = {"type": "tool_use", "id": "1", "name": "f", "input": {}}
    both = [{"type": "tool_result", "tool_use_id": "1", "content": "r"}, {"type": "text", "text": "and then?"}]
    messages = [
        user("a"),
        says("b"),
        user("q"),
        {"role": "assistant", "content": [ask]},
        {"role": "user", "content": both},
    ]
    body: dict[str, Any] = {"model": "claude-sonnet-5", "max_tokens": 9, "messages": [*messages, says("x"), user("y")]}
    for policy in (KeepTurns(2), KeepTurns(2, remove_tool_msgs=True)):
        sent, _ = leave(session(policy), anthropic_messages, body)
        assert sent["messages"] == body["messages"][2:]
    sent, _ = leave(session(KeepTurns(9, remove_tool_msgs=True)), anthropic_messages, body)
    assert sent is body


@settings(max_examples=150, deadline=None)
@given(history=chats(), turns=st.sampled_from([1, 2, 3, 10]), remove=st.booleans(), slack=st.integers(0, 3))
@pytest.mark.parametrize("shape", ["chat", "anthropic"])
def test_never_more_turns_than_asked_for(shape: str, history: list, turns: int, remove: bool, slack: int) -> None:
    """After a cut so many turns are left, on both APIs, and the judge finds nothing new."""
    wire: Any = openai_chat if shape == "chat" else anthropic_messages
    body = {"model": "m", "messages": history} if shape == "chat" else to_anthropic(history)
    sent, report = leave(session(KeepTurns(turns, remove_tool_msgs=remove, slack=slack)), wire, body)
    assert not found(wire.API, sent, body)
    if report.trigger == "turns" and shape == "chat":
        assert sum(message["role"] == "user" for message in sent["messages"]) == turns
