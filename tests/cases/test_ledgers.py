"""The cases that name a ledger, word for word and as whole kinds; pins and parallel calls under every scope of it."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compacting_client import Chain, ClearToolResults, DropOldest, Ledger, Policy, compacting, control
from compacting_client.core.tokens import estimate
from compacting_client.formats import openai_chat
from compacting_client.testing import Provider, ToolCall
from tests.cases.bench import APIS, MODES, Body, Line, case, covers
from tests.cases.neighbours import body_of as in_api
from tests.cases.sound import answers_of, calls_of, judged
from tests.driving import found, leave, session
from tests.holding import assert_question_is_there
from tests.policies.ledgers import asks, body_of, call, gives, hop, ledger, loop, says, user, values
from tests.strategies import SHAPES, chats

MakeLine = Callable[..., Line]
SCOPES: Any = ("auto", "ledger", "scoped")
each_scope = pytest.mark.parametrize("scope", SCOPES)
common = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def policy_of(id_: str, scope: Any = "ledger", **more: Any) -> Ledger:
    """The case's own policy; its settings name no scope: with "auto" an earlier turn would stay as it is."""
    given_ = {name: value for name, value in case(id_)["policy"].items() if name != "type"}
    return Ledger(scope, **{**given_, **more})


def run(id_: str, scope: Any = "ledger", **more: Any) -> tuple[Body, Body, Any]:
    """The body of a case, what left for it under its policy, and the report; sound for the judge, and no larger."""
    body = case(id_)["request"]
    sent, report = leave(session(policy_of(id_, scope, **more)), openai_chat, body)
    assert not found("openai-chat", sent, body)
    assert_question_is_there(sent, body)
    assert report.tokens_after <= report.tokens_before
    return body, sent, report


def in_the_run(id_: str) -> Body:
    """The case with its exchanges in the current run, and three more behind them."""
    messages = case(id_)["request"]["messages"]
    exchanges = [m for m in messages if m["role"] == "tool" or m.get("tool_calls")]
    return body_of(
        [*messages[:2], *exchanges, *loop(3, 90)],
        **{k: v for k, v in case(id_)["request"].items() if k not in ("model", "messages")},
    )


@covers("051")
@pytest.mark.parametrize("place", [*range(1_995, 2_004)])
def test_a_cut_never_splits_a_character(place: int) -> None:
    """An emoji at every place around the cut: what leaves is UTF-8, and the note gives the original length."""
    body = in_the_run("051")
    body["messages"][3]["content"] = "x" * place + "📥👩‍👩‍👧" + " tail" * 400
    size = len(body["messages"][3]["content"])
    sent, report = leave(session(policy_of("051")), openai_chat, body)
    assert report.changed
    json.dumps(sent, ensure_ascii=False).encode()
    assert f"of {size:,} characters" in ledger(sent)[0]["cut"]


@covers("051", "069", "101", "139", "165")
@each_scope
@pytest.mark.parametrize("id_", ["051", "069", "101", "139", "165"])
def test_the_cases_word_for_word_are_sound(id_: str, scope: Any) -> None:
    """With the case's own settings, in every scope, with tools and without."""
    run(id_, scope)
    body = case(id_)["request"]
    names = {each["function"]["name"] for m in body["messages"] for each in m.get("tool_calls") or ()}
    tools = [{"type": "function", "function": {"name": name}} for name in sorted(names)]
    sent, _ = leave(session(policy_of(id_, scope)), openai_chat, {**body, "tools": tools})
    assert not found("openai-chat", sent, body)


@covers("069")
def test_a_shortened_result_says_that_the_call_completed() -> None:
    """How much was cut, and, since the request offers the tool, that calling it again returns the rest; no word of a loss."""
    body = case("069")["request"]
    tools = [{"type": "function", "function": {"name": "read_file"}}]
    sent, _ = leave(session(policy_of("069")), openai_chat, {**body, "tools": tools})
    assert "all completed" in str(sent["messages"])
    assert [line["cut"] for line in ledger(sent)] == [
        "1,400 of 1,500 characters; calling it again returns the rest"
    ] * 4
    assert not any(word in str(sent["messages"]) for word in ("lost", "error", "missing", "removed"))
    hidden, _ = leave(session(policy_of("069", max_tokens=250)), openai_chat, {**body, "tools": tools})
    assert {line["result not shown"] for line in ledger(hidden)} == {"1,500 characters; calling it again returns them"}


@covers("069")
def test_a_cleared_result_says_so_too() -> None:
    """The marker of ClearToolResults."""
    sent, _ = leave(session(ClearToolResults(0, max_tokens=1)), openai_chat, case("069")["request"])
    assert all("the call completed" in m["content"] for m in sent["messages"] if m["role"] == "tool")


@covers("101")
def test_one_line_with_the_last_value() -> None:
    """Whatever the key order and white space of the arguments; the case's own body, and longer."""
    _, sent, report = run("101")
    if report.changed:
        assert values(sent) == ["done"]
    spellings = ['{"id": 7, "of": "x"}', '{"of":"x","id":7}', ' { "id" : 7 ,"of":"x"}\n']
    calls: list[Any] = [
        {"id": f"j{n}", "type": "function", "function": {"name": "job_status", "arguments": each}}
        for n, each in enumerate(spellings)
    ]
    states = ["queued", "running", "done"]
    polled = [
        m
        for each, state in zip(calls, states, strict=True)
        for m in (asks(each), gives(each["id"], state + " " + "x" * 300))
    ]
    sent, _ = leave(session(Ledger("ledger")), openai_chat, body_of([user("wait"), *polled, says("ok"), user("so?")]))
    assert [each.split()[0] for each in values(sent)] == ["done"]
    assert len(ledger(sent)) == 1


@covers("101")
def test_no_call_is_answered_again_unless_it_is_named() -> None:
    """`reuse_results` is off, and names tools."""
    body = case("101")["request"]
    for policy, expected in (
        (policy_of("101"), 0),
        (policy_of("101", reuse_results=["get_*"]), 0),
        (policy_of("101", reuse_results=["job_*"]), 1),
    ):
        with Provider() as provider, openai.OpenAI(base_url=provider.openai_url, api_key="k") as inner:
            client = compacting(inner, policy)
            provider.reply(ToolCall("job_status", {"id": 7}))
            response = client.chat.completions.create(**{**body, "messages": body["messages"][:-1]})
            assert len(control(client).reusable(response)) == expected


@covers("129")
def test_the_ledger_is_smaller_than_what_it_replaces() -> None:
    """At most 200 characters of the result and the note of the cut; fewer tokens than before."""
    body, sent, report = run("129")
    (line,) = ledger(sent)
    whole = body["messages"][3]["content"]
    assert (line["tool"], line["arguments"]) == ("fetch", {"u": "a"})
    assert len(line["result"]) <= 201
    assert whole.startswith(line["result"][:-1])
    assert f"{len(whole) - 200:,} of {len(whole):,} characters" in line["cut"]
    assert report.tokens_after < report.tokens_before
    assert report.tokens_after == sum(map(estimate, sent["messages"]))


@covers("129")
@common
@given(history=chats(), scope=st.sampled_from(SCOPES), keep=st.integers(0, 500))
def test_no_view_is_larger_than_the_request(history: list, scope: Any, keep: int) -> None:
    """In any shape, of any history, whatever is kept of a result."""
    for wire, to_body in SHAPES.values():
        sent, report = leave(
            session(Ledger(scope, after_tool_results=1, keep_result_chars=keep)), wire, to_body(history)
        )
        assert report.tokens_after <= report.tokens_before
        assert report.changed == (report.tokens_after < report.tokens_before)
        assert not found(wire.API, sent, to_body(history))


@covers("139")
def test_arguments_of_kept_calls_are_as_they_were() -> None:
    """They still parse; a ledger shows them cut, as a text that says how long they were."""
    body = in_the_run("139")
    sent, _ = leave(session(policy_of("139")), openai_chat, body)
    kept = [each for m in sent["messages"] for each in m.get("tool_calls") or ()]
    given_ = [each for m in body["messages"] for each in m.get("tool_calls") or ()]
    assert kept
    assert all(each in given_ and isinstance(json.loads(each["function"]["arguments"]), dict) for each in kept)
    assert (
        f"… ({len(json.dumps(json.loads(given_[0]['function']['arguments']), separators=(',', ':'))):,} characters"
        in ledger(sent)[0]["arguments"]
    )


@covers("165")
def test_no_text_gives_advice_about_a_tool_that_is_not_there() -> None:
    """The ledger is data about calls that were made; it advises nothing, and adds no tool."""
    for body in (case("165")["request"], in_the_run("165")):
        sent, _ = leave(session(policy_of("165")), openai_chat, body)
        assert "tools" not in sent
        assert "calling it again" not in str(sent)
    _, sent, _ = run("165")
    assert {**sent, "messages": 0} == {**case("165")["request"], "messages": 0}


# ---------------------------------------------------------------------------------------------- pins and parallel calls


def whole_exchanges(body: Body) -> bool:
    """Whether every call has its results and every result its call."""
    asked, answered = Counter[str](), Counter[str]()
    for message in body["messages"]:
        asked.update(calls_of(message))
        answered.update(answers_of(message))
    return asked == answered


@covers("010", "011", "053", "054", "049", "001", "002")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("id_", ["001", "010", "049", "053", "054"])
def test_every_scope_keeps_the_question_and_whole_batches(id_: str, api: str, mode: str, line: MakeLine) -> None:
    """Through the real SDKs, plain, awaited and streamed: accepted, the question and the newest item there, no half exchange."""
    body = in_api(id_, api)
    policies: list[Policy] = [Ledger(scope, after_tool_results=1, keep_result_chars=20) for scope in SCOPES]
    policies += [Ledger(max_tokens=100), Chain(Ledger("ledger"), DropOldest(200))]
    for policy in policies:
        trip = line(api, policy, mode).send(body)
        assert trip.error is None
        assert not judged(api, trip.left, body) - judged(api, body, body)
        assert_question_is_there(trip.left, body)
        assert trip.messages[-1] == body["messages"][-1] or trip.messages[-1]["role"] == "user"
        assert trip.report.tokens_after <= trip.report.tokens_before


@covers("053", "054")
@each_scope
@pytest.mark.parametrize("width", [2, 3, 8])
def test_a_parallel_batch_is_folded_whole(scope: Any, width: int) -> None:
    """Each of its calls has a line, or all of them are there; the newest one stays whole, whatever the order of its results."""

    def batch(name: str) -> list[Body]:
        ids = [f"{name}{n}" for n in range(width)]
        results = [gives(each, f"{each} " + "x" * 200) for each in ids]
        return [asks(*(call(each, id=each) for each in ids)), *results[::-1]]

    body = body_of([user("Q"), *batch("a"), *batch("b"), *batch("c")])
    sent, report = leave(session(Ledger(scope, after_tool_results=1)), openai_chat, body)
    assert whole_exchanges(sent)
    assert sent["messages"][-1 - width :] == body["messages"][-1 - width :]
    if scope != "scoped":
        assert report.changed
        assert [line["arguments"]["id"] for line in ledger(sent)] == [
            f"{name}{n}" for name in "ab" for n in reversed(range(width))
        ]


@covers("010", "011")
@each_scope
@pytest.mark.parametrize("chosen", range(2, 12))
def test_what_is_pinned_stays_in_every_scope(scope: Any, chosen: int) -> None:
    """Any one message of the loop, with its exchange, in its place; and it has no line."""
    messages = [
        user("before " * 200),
        says("ok"),
        user("Q"),
        *(m for n in range(6) for m in hop(f"c{n}", f"r{n} " + "x" * 200, id=n)),
    ]
    pinned = messages[chosen]
    sent, _ = leave(
        session(
            Ledger(scope, after_tool_results=1),
            pin=lambda m: m.get("content") == pinned["content"] and m.get("tool_calls") == pinned.get("tool_calls"),
        ),
        openai_chat,
        body_of(messages),
    )
    assert whole_exchanges(sent)
    assert any(pinned is m or str(pinned["content"]) in str(m["content"]) for m in sent["messages"])
    assert not found("openai-chat", sent, body_of(messages))
