"""ClearToolResults: which results go, what stands in their place, when, and what never changes."""

import copy
import json
from typing import Any

import pytest

from compacting_client import Chain, ClearToolResults, ConfigError, ContentReplaced, DropOldest, KeepTurns, memory
from compacting_client.formats import openai_chat
from compacting_client.testing import EventCapture
from tests.driving import Body, found, leave, session, size
from tests.shared import cases

Message = dict[str, Any]
QUESTION: Message = {"role": "user", "content": "Go on."}


def hop(number: int, result: Any = None, *, tool: str = "read", arguments: str = '{"n": 1}') -> list[Message]:
    """One call and its result of some 1,000 characters."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": arguments}}
    content = f"{number} " + "word " * 200 if result is None else result
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": content},
    ]


def loop(steps: int, *more: Message, **options: Any) -> Body:
    """A question and a tool loop of so many steps."""
    messages: list[Message] = [{"role": "system", "content": "Be brief."}, dict(QUESTION)]
    for number in range(steps):
        messages += hop(number, **options)
    return {"model": "m", "messages": [*messages, *more]}


def results(body: Body) -> list[Any]:
    """The contents of the tool messages."""
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def is_marker(content: Any) -> bool:
    """Whether a result was cleared."""
    return isinstance(content, str) and content.startswith("[older tool result cleared;")


def cleared(policy: Any, body: Body, **settings: Any) -> list[bool]:
    """Which of the results leave as markers."""
    return [is_marker(each) for each in results(leave(session(policy, **settings), openai_chat, body)[0])]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("keep", value) for value in (-1, True, None, 1.5, "3")),
        *(("max_tokens", value) for value in (0, -1, True, 0.7, "9", float("nan"))),
        *(("exclude_tools", value) for value in ("read", None, [1], {"read"}, 5)),
        *(("clear_inputs", value) for value in (1, None, "yes")),
        *(("target", value) for value in (0, 1.5, -0.5, True, None, float("nan"))),
    ],
)
def test_wrong_settings_are_refused(field: str, value: Any) -> None:
    """The error names the field and shows the value."""
    with pytest.raises(ConfigError, match=field) as caught:
        ClearToolResults(**{field: value})
    assert repr(value) in str(caught.value)


def test_a_list_of_tools_is_the_same_setting_as_a_tuple() -> None:
    """Its decisions are remembered for both alike."""
    assert ClearToolResults(exclude_tools=["a"]).fingerprint == ClearToolResults(exclude_tools=("a",)).fingerprint
    assert hash(ClearToolResults(exclude_tools=["a"]))


def test_older_results_give_way_to_a_marker_in_place() -> None:
    """The newest three stay byte for byte, the calls and all else are the caller's own objects, whose data is unchanged."""
    body = loop(13)
    before = copy.deepcopy(body)
    sent, report = leave(session(ClearToolResults()), openai_chat, body)
    assert body == before
    assert [is_marker(each) for each in results(sent)] == [True] * 10 + [False] * 3
    kept = [(new, old) for new, old in zip(sent["messages"], body["messages"], strict=True) if new == old]
    assert all(new is old for new, old in kept)
    assert len(kept) == len(body["messages"]) - 10
    assert not found("openai-chat", sent, body)
    assert (report.trigger, report.policy, report.dropped) == ("tool_results", "ClearToolResults", [])
    assert report.tokens_after == size(sent)
    assert report.messages_after == report.messages_before


def test_without_a_budget_it_acts_in_steps() -> None:
    """Once as many results again as are kept can be cleared, and at least ten; between the steps nothing changes."""
    state, body = session(ClearToolResults(3)), loop(30)
    moved = list[int]()
    for steps in range(1, 31):
        _, report = leave(state, openai_chat, {**body, "messages": body["messages"][: 2 + 2 * steps]})
        moved += [steps] if report.trigger else []
    assert moved == [13, 23]
    assert cleared(ClearToolResults(12), loop(23)) == [False] * 23
    assert cleared(ClearToolResults(12), loop(24)) == [True] * 12 + [False] * 12


def test_with_a_budget_it_acts_above_it_and_goes_down_to_the_target() -> None:
    """Oldest first, no more than the target asks for; up to the budget the very same object leaves."""
    body = loop(12)
    half, report = leave(session(ClearToolResults(max_tokens=size(body) - 1)), openai_chat, body)
    assert report.trigger == "tokens"
    assert report.fits
    assert size(half) <= size(body) / 2
    assert size(half) > size(body) / 2 - 300
    assert [is_marker(each) for each in results(half)] == [True] * 8 + [False] * 4
    deep, _ = leave(session(ClearToolResults(max_tokens=size(body) - 1, target=0.9)), openai_chat, body)
    assert [is_marker(each) for each in results(deep)] == [True] * 2 + [False] * 10
    assert leave(session(ClearToolResults(max_tokens=size(body))), openai_chat, body)[0] is body


def test_what_is_kept_may_be_over_the_budget() -> None:
    """Then the report says that it does not fit; a step that would free less than a tenth of the budget is not made."""
    policy = ClearToolResults(3, max_tokens=800)
    _, report = leave(session(policy), openai_chat, loop(6))
    assert report.replaced
    assert not report.fits
    body = loop(4, result="word " * 40)
    body["messages"][1]["content"] = "long " * 800
    sent, report = leave(session(policy), openai_chat, body)
    assert sent is body
    assert (report.fits, report.reason) == (False, "nothing older")


@pytest.mark.parametrize(
    ("names", "expected"),
    [(("read",), 0), (("re*",), 0), (("*",), 0), (("*ad",), 0), (("rea",), 10), (("Read",), 10), (("[r]ead",), 10)],
)
def test_results_of_excluded_tools_stay(names: tuple[str, ...], expected: int) -> None:
    """By name, with `*` for any text."""
    assert sum(cleared(ClearToolResults(exclude_tools=names), loop(13))) == expected


def test_excluded_results_count_among_the_newest() -> None:
    """`keep` is about the newest results of all tools."""
    messages = [*loop(12)["messages"], *hop(12, tool="note"), *hop(13, tool="note"), *hop(14, tool="note")]
    policy = ClearToolResults(exclude_tools=("note",))
    assert cleared(policy, {"model": "m", "messages": messages}) == [True] * 12 + [False] * 3


def test_the_newest_exchange_stays_even_if_none_is_to_be_kept() -> None:
    """All results of its parallel calls; behind a new question it is an older one."""
    calls = [{**hop(n)[0]["tool_calls"][0]} for n in (50, 51)]
    batch = [{"role": "assistant", "content": None, "tool_calls": calls}, hop(50)[1], hop(51)[1]]
    assert cleared(ClearToolResults(0), loop(12, *batch)) == [True] * 12 + [False] * 2
    assert all(cleared(ClearToolResults(0), loop(12, *batch, {"role": "assistant", "content": "ok"}, QUESTION)))


def test_pinned_results_stay() -> None:
    """What `pin` selects, by its result or by its call; the others go."""
    body = loop(16)
    chosen = (body["messages"][3]["content"], body["messages"][8]["tool_calls"])
    found_ = cleared(
        ClearToolResults(), body, pin=lambda m: m["content"] == chosen[0] or m.get("tool_calls") == chosen[1]
    )
    assert found_ == [False, True, True, False, *[True] * 9, *[False] * 3]


def test_a_result_that_is_pinned_later_comes_back() -> None:
    """What is remembered does not hold against a pin: the decision is made anew, without it."""
    store, body = memory.InProcess(), loop(14)
    assert cleared(ClearToolResults(), body, memory=store)[0]
    first = body["messages"][3]["content"]
    pin = {"pin": lambda message: message["content"] == first}
    assert cleared(ClearToolResults(), body, memory=store, **pin) == [False] + [True] * 10 + [False] * 3


def test_a_conversation_that_goes_back_to_a_cleared_exchange_has_it_whole() -> None:
    """The newest exchange of a branch is never a marker, though it was cleared in the longer history."""
    state, body = session(ClearToolResults()), loop(13)
    assert cleared_in(leave(state, openai_chat, body)[0]) == 10
    branch = {**body, "messages": body["messages"][: 2 + 2 * 10]}
    sent, _ = leave(state, openai_chat, branch)
    assert sent["messages"][-1] == branch["messages"][-1]


def cleared_in(body: Body) -> int:
    """How many results are markers."""
    return sum(map(is_marker, results(body)))


def test_a_result_that_would_not_get_smaller_stays() -> None:
    """Nor do such results count for a step."""
    assert cleared(ClearToolResults(), loop(13, result="Saved.")) == [False] * 13
    some = [
        *loop(9)["messages"],
        *(m for n in range(9, 12) for m in hop(n, "Saved.")),
        *(m for n in (12, 13, 14) for m in hop(n)),
    ]
    assert cleared(ClearToolResults(), {"model": "m", "messages": some}) == [False] * 15
    messages = [*loop(9)["messages"], *hop(9, "Saved."), *(m for n in range(10, 15) for m in hop(n))]
    expected = [True] * 9 + [False] + [True] * 2 + [False] * 3
    assert cleared(ClearToolResults(), {"model": "m", "messages": messages}) == expected


def test_the_marker_reads_as_a_completed_call() -> None:
    """It says that the call completed and how much it returned; no word of a failure, no tool's name, no advice to do anything (cases 069, 165)."""
    content = results(leave(session(ClearToolResults()), openai_chat, loop(13))[0])[0]
    assert content == "[older tool result cleared; the call completed and returned 1002 characters]"
    for case in cases():
        if case["id"] in ("069", "165"):
            sent, _ = leave(session(ClearToolResults(0, max_tokens=1)), openai_chat, case["request"])
            texts = results(case["request"])
            markers = [each for each in results(sent) if is_marker(each)]
            assert markers
            assert all("completed" in each and f"{len(texts[-1])} characters" in each for each in markers)
            assert not any(word in json.dumps(markers) for word in ("error", "fail", "lost", "read_file", "items"))


def test_a_chain_clears_first_and_drops_only_if_that_was_not_enough() -> None:
    """`fits` is then about the last budget."""
    body = loop(12)
    enough = Chain(ClearToolResults(max_tokens=2_000), DropOldest(2_500))
    sent, report = leave(session(enough), openai_chat, body)
    assert not report.dropped
    assert report.replaced
    assert len(sent["messages"]) == len(body["messages"])
    sent, report = leave(session(Chain(ClearToolResults(max_tokens=500), DropOldest(1_500))), openai_chat, body)
    assert report.replaced
    assert not report.dropped
    assert report.tokens_after > 500
    assert report.fits
    sent, report = leave(session(Chain(ClearToolResults(), DropOldest(900))), openai_chat, loop(14))
    assert report.dropped
    assert {each.reason for each in report.dropped} == {"over the token budget"}
    assert report.trigger == "tokens"
    assert not found("openai-chat", sent, loop(14))


def test_functions_behind_it_see_what_is_sent() -> None:
    """Markers and emptied arguments, as plain copies."""
    seen: list[Any] = []

    def look(messages: list[Any]) -> list[Any]:
        seen.extend(copy.deepcopy(messages))
        return messages

    body = loop(13, arguments=json.dumps({"text": "text " * 100}))
    sent, _ = leave(session(Chain(ClearToolResults(clear_inputs=True), look)), openai_chat, body)
    told = [{key: value for key, value in message.items() if key != "name"} for message in seen]
    assert told == sent["messages"]


def test_completed_sequences_may_go_before_it() -> None:
    """What another policy drops is no result any more."""
    body = loop(13, {"role": "assistant", "content": "ok"}, QUESTION)
    sent, report = leave(session(Chain(KeepTurns(9, remove_tool_msgs=True), ClearToolResults(0))), openai_chat, body)
    assert results(sent) == []
    assert not report.replaced


def test_each_cleared_result_is_told_once_with_what_left() -> None:
    """An event of kind `cleared` with the messages, when it goes; the report holds all, and reuse says what it saves."""
    heard = EventCapture()
    state, body = (
        session(ClearToolResults(clear_inputs=True), on_event=heard),
        loop(14, arguments=json.dumps({"t": "x " * 99})),
    )
    leave(state, openai_chat, {**body, "messages": body["messages"][:-2]})
    told = heard.of(ContentReplaced)
    assert [each.first for each in told] == list(range(2, 22))
    assert {(each.kind, each.reason) for each in told} == {("cleared", "older tool result")}
    assert told[1].messages[0]["content"] == body["messages"][3]["content"]
    assert told[0].messages[0]["tool_calls"] == body["messages"][2]["tool_calls"]
    assert all(each.tokens > each.tokens_after for each in told)
    heard.clear()
    sent, report = leave(state, openai_chat, body)
    assert not heard.of(ContentReplaced)
    assert len(report.replaced) == 20
    assert report.trigger is None
    assert report.reused[0].tokens_saved == report.tokens_before - report.tokens_after == size(body) - size(sent)
    assert str(report).splitlines()[1].startswith("  cleared 20 of [2-21] ")


def test_a_counter_of_ones_own_decides_what_is_smaller() -> None:
    """Results are cleared only where it finds the marker smaller."""
    assert cleared(ClearToolResults(), loop(13), counter=lambda message: 1) == [False] * 13
    words = cleared(ClearToolResults(), loop(13), counter=lambda message: len(str(message["content"]).split()))
    assert words == [True] * 10 + [False] * 3
