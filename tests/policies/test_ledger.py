"""Ledger over a conversation: steps, prefixes, scopes per request, chains, pins, kept tools, failures, budgets, time."""

import asyncio
import json
import time
from typing import Any

import anthropic
import openai
import pytest

from compacting_client import Chain, ClearToolResults, ContentReplaced, DropOldest, Ledger, compacting, control, memory
from compacting_client.formats import openai_chat
from compacting_client.testing import EventCapture, Provider, ToolCall
from tests.driving import found, leave, session, size
from tests.policies.ledgers import (
    Message,
    asks,
    body_of,
    call,
    gives,
    hop,
    ledger,
    loop,
    ours,
    record,
    says,
    user,
    values,
)

SYSTEM: Message = {"role": "system", "content": "Be brief."}


def start(steps: int, **options: Any) -> list[Message]:
    """A question and a loop."""
    return [SYSTEM, user("Q"), *loop(steps, **options)]


def test_it_folds_in_steps_and_only_appends() -> None:
    """At six results, then after six more; between the steps everything stays as it was, and lines are only added."""
    state, steps, before = session(Ledger()), list[int](), ""
    for n in range(1, 31):
        sent, report = ours(Ledger(), start(n), state)
        if report.trigger:
            steps.append(n)
            text = sent["messages"][1]["content"].removesuffix("\n</tool_results>")
            assert text.startswith(before)
            before = text
        assert len(ledger(sent)) == (steps[-1] - 1 if steps else 0)
        assert sent["messages"][-1] == start(n)[-1]
    assert steps == [6, 12, 18, 24, 30]


def test_a_parallel_batch_counts_each_of_its_results() -> None:
    """The newest batch stays whole, and its results do not count for the next step."""
    batch = [asks(*(call(f"b{n}", n=n) for n in range(4))), *(gives(f"b{n}", "x" * 200) for n in range(4))]
    state, messages = session(Ledger()), [SYSTEM, user("Q"), *loop(2), *batch]
    assert ours(Ledger(), messages, state)[1].trigger == "tool_results"
    assert ours(Ledger(), messages, state)[0]["messages"][-5:] == batch
    for more in range(1, 6):
        assert ours(Ledger(), [*messages, *loop(more, 10)], state)[1].trigger is None
    assert ours(Ledger(), [*messages, *loop(6, 10)], state)[1].trigger == "tool_results"


def test_a_value_that_is_out_of_date_leaves_its_line() -> None:
    """A polled status has one line, the last one; all others stay where they are."""
    state = session(Ledger())
    polls = [
        m
        for n in range(18)
        for m in [*hop(f"g{n}", "x" * 100, n=n), *hop(f"s{n}", f"{n}% " + "x" * 100, "status", job=1)]
    ]
    sent: Any = None
    for n in range(2, len(polls) + 1, 2):
        sent, _ = ours(Ledger(), [SYSTEM, user("Q"), *polls[:n]], state)
        assert sum(line["tool"] == "status" for line in ledger(sent)) <= 1
    assert [line["arguments"] for line in ledger(sent)] == [
        {"n": n} for n in range(18)
    ]  # the newest status is verbatim


def test_the_ledger_stays_with_its_question_in_later_turns() -> None:
    """A new question has a run of its own; what was folded before it stays folded, and nothing is repeated."""
    state = session(Ledger())
    first = start(7)
    ours(Ledger(), start(6), state)
    ours(Ledger(), first, state)
    second = [*first, says("answer"), user("Q2")]
    sent, report = ours(Ledger(), second, state)
    assert report.trigger is None
    assert len(record(body_of(sent["messages"][:2]), "tool_results") or ()) == 5
    assert sent["messages"][-1] is second[-1]
    sent, report = ours(Ledger(), [*second, *loop(6, 20)], state)
    assert report.trigger == "tool_results"
    assert [len(record(body_of(sent["messages"][:n]), "tool_results") or ()) for n in (2, len(sent["messages"]))] == [
        5,
        5,
    ]
    assert not found("openai-chat", sent, body_of([*second, *loop(6, 20)]))


def test_above_the_budget_earlier_turns_become_a_note() -> None:
    """And their results lines of the one ledger, those that were folded before too."""
    state = session(Ledger(max_tokens=3_000))
    first = start(7)
    ours(Ledger(), start(6), state)
    history = [*first, says("answer"), user("Q2 " + "word " * 1_500), *loop(3, 20, size=900)]
    sent, report = ours(Ledger(), history, state)
    assert report.fits
    assert report.trigger == "tokens"
    assert [m["role"] for m in sent["messages"]] == ["system", "user", "assistant", "tool"]
    assert record(sent, "earlier_conversation") == [{"user": "Q"}, {"assistant": "answer"}]
    assert [line["arguments"]["id"] for line in ledger(sent)] == [0, 1, 2, 3, 4, 5, 6, 20, 21]


def test_a_budget_leaves_room_for_some_requests() -> None:
    """It shrinks to nine tenths, so that the next step is some requests away; what was hidden stays hidden."""
    policy = Ledger(max_tokens=4_000)
    state, moved, hidden = session(policy), 0, 0
    for n in range(1, 100):
        sent, report = ours(policy, start(n, size=500), state)
        moved += report.trigger is not None
        now = sum("result not shown" in line or "note" in line for line in ledger(sent))
        assert report.fits
        assert now >= min(hidden, 1)
        hidden = now
    assert moved < 40
    assert hidden


def test_where_hiding_is_not_enough_the_oldest_lines_go() -> None:
    """With how many went; the newest stay, and the request fits."""
    sent, report = ours(Ledger("ledger", max_tokens=2_000), start(300))
    assert report.fits
    assert ledger(sent)[0]["note"].endswith("earlier calls are not listed")
    assert ledger(sent)[-1]["arguments"] == {"id": 298}


def test_a_budget_that_cannot_be_met_is_reported() -> None:
    """Every call keeps its line then, as in the reference."""
    sent, report = ours(Ledger("ledger", max_tokens=10), start(40))
    assert not report.fits
    assert len(ledger(sent)) == 39


@pytest.mark.parametrize("policy", [Ledger(), Ledger("ledger"), Ledger(max_tokens=20_000)])
def test_four_fifths_of_a_long_loop_were_sent_before(policy: Ledger) -> None:
    """Over 100 calls, by characters of the wire JSON; and less is sent than without it."""
    state, before, same, whole, full = session(policy), "", 0, 0, 0
    for n in range(1, 101):
        messages = start(n, size=800)
        text = json.dumps(ours(policy, messages, state)[0]["messages"])
        differ = (k for k, (one, other) in enumerate(zip(before, text, strict=False)) if one != other)
        same += next(differ, min(len(before), len(text)))
        whole, full, before = whole + len(text), full + len(json.dumps(messages)), text
    assert same / whole >= 0.8
    assert whole < 0.95 * full


def test_kept_tools_stay_as_they_are() -> None:
    """By name, with `*`; a batch with one of them stays whole."""
    batch = [asks(call("b0", "note_a"), call("b1")), gives("b0", "kept"), gives("b1", "beside")]
    messages = [SYSTEM, user("Q"), *loop(3), *batch, *loop(5, 10)]
    sent, _ = ours(Ledger("ledger", keep_tools=["note_*"]), messages)
    assert sent["messages"][2:5] == batch
    assert len(ledger(sent)) == 7


def test_pinned_exchanges_stay() -> None:
    """And have no line; one that is pinned later comes back."""
    store = memory.InProcess()
    messages = start(8)
    assert len(ledger(ours(Ledger(), messages, memory=store)[0])) == 7
    sent, _ = ours(Ledger(), messages, memory=store, pin=lambda m: str(m["content"]).startswith("r2 "))
    assert messages[6] in sent["messages"]
    assert [line["arguments"]["id"] for line in ledger(sent)] == [0, 1, 3, 4, 5, 6]


def test_a_function_says_what_failed() -> None:
    """Beside what says so itself; shown the neutral tool message."""
    seen = list[Any]()

    def failed(message: Message) -> bool:
        seen.append(message)
        return "404" in message["content"]

    messages = [user("Q"), *hop("a", "good", "read", p=1), *hop("b", "404", "read", p=1), *loop(6)]
    lines = ledger(ours(Ledger(failed=failed), messages)[0])
    assert lines[:2] == [
        {"tool": "read", "arguments": {"p": 1}, "result": "good"},
        {"tool": "read", "arguments": {"p": 1}, "failed": "404"},
    ]
    assert {"role", "content", "tool_call_id"} <= seen[0].keys()


def test_a_later_success_takes_the_place_of_a_failure() -> None:
    """And of the success before it."""
    messages = [
        user("Q"),
        *hop("a", "old", "read", p=1),
        *hop("b", "Error: x", "read", p=1),
        *hop("c", "new", "read", p=1),
        *loop(5),
    ]
    assert values(ours(Ledger(), messages)[0])[0] == "new"
    assert "old" not in json.dumps(ours(Ledger(), messages)[0])


async def test_an_async_function_is_awaited(achat: openai.AsyncOpenAI) -> None:
    """On async clients."""

    async def failed(message: Message) -> bool:
        await asyncio.sleep(0)
        return "r0" in message["content"]

    client = compacting(achat, Ledger(failed=failed))
    report = await control(client).apreview(client.chat.completions.create, **body_of(start(7)))
    assert "failed" in ledger(report.body or {})[0]


def test_advice_is_given_for_tools_that_the_request_offers() -> None:
    """Whatever the shape of its tools; no other text speaks of calling."""
    messages = [user("Q"), *hop("a", "x" * 9_000, "get", k=1), *hop("b", "x" * 9_000, "old", k=1), *loop(5)]
    body = body_of(
        messages, tools=[{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}]
    )
    sent, _ = leave(session(Ledger()), openai_chat, body)
    assert [line["cut"] for line in ledger(sent)[:2]] == [
        "7,000 of 9,000 characters; calling it again returns the rest",
        "7,000 of 9,000 characters",
    ]


def test_attachments_are_counted() -> None:
    """A picture in a result, or in an earlier question, leaves its number."""
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    seen = [{"type": "text", "text": "seen " * 40}, picture]
    messages = [user(seen), says("ok " * 300), user("Q"), asks(call("a")), gives("a", seen), *loop(4)]
    sent, _ = ours(Ledger("ledger"), messages)
    assert record(sent, "earlier_conversation")[0]["attachments not shown"] == 1  # type: ignore[index]
    assert ledger(sent)[0]["attachments not shown"] == 1


def test_the_account_says_what_became_of_it() -> None:
    """Dropped exchanges, an extended question, and reuse afterwards."""
    heard = EventCapture()
    state = session(Ledger(), on_event=heard)
    _, report = ours(Ledger(), start(6), state)
    assert [(each.first, each.last) for each in report.dropped] == [(n, n + 1) for n in range(2, 12, 2)]
    assert {each.reason for each in report.dropped} == {"completed tool sequence"}
    assert [(each.kind, each.first) for each in heard.of(ContentReplaced)] == [("extended", 1)]
    heard.clear()
    _, report = ours(Ledger(), start(7), state)
    assert not heard.of(ContentReplaced)
    assert [each.kind for each in report.reused] == ["cut"]


def test_a_chain_bounds_what_the_ledger_leaves() -> None:
    """What is dropped behind it comes back as no line; the account holds the request against the last budget."""
    history = [
        SYSTEM,
        *(m for n in range(20) for m in (user(f"q{n} " + "word " * 100), says("word " * 100))),
        user("Q"),
        *loop(8),
    ]
    sent, report = ours(Chain(Ledger(), DropOldest(3_000)), history)
    assert report.fits
    assert len(ledger(sent)) == 7
    assert not found("openai-chat", sent, body_of(history))
    sent, report = ours(Chain(ClearToolResults(2), Ledger("scoped")), history)
    assert "q3" not in json.dumps(sent["messages"][-10:]).replace("question", "")


def test_each_stage_has_its_own_scope(provider: Provider, chat: openai.OpenAI) -> None:
    """`using` and `with_policy` change it for some requests; the memory is shared, and decisions of one are not those of another."""
    client = compacting(chat, Ledger("full"))
    writer = control(client).with_policy(Ledger("scoped"))
    messages: Any = [user("before " * 300), says("stage one"), user("Q"), says("PLAN " * 100), *loop(8)]

    def arrived(some: openai.OpenAI) -> Any:
        some.chat.completions.create(model="m", messages=messages)
        return provider.requests[-1].body

    assert arrived(client)["messages"] == messages
    with control(client).using(Ledger("ledger")):
        assert len(ledger(arrived(client))) == 8  # the plan has a line
    scoped = arrived(writer)
    assert scoped["messages"][1:] == messages[4:]
    assert record(scoped, "earlier_conversation")
    assert arrived(client)["messages"] == messages


def test_a_loop_through_the_real_sdk(provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """From the first call to the answer, on two APIs; every request was accepted."""
    client = compacting(chat, Ledger())
    tool: Any = {"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}
    messages: Any = [user("Q")]
    for n in range(20):
        provider.reply(ToolCall("get", {"n": n}))
    provider.reply("Done.")
    while calls := (
        answer := client.chat.completions.create(model="m", messages=messages, tools=[tool]).choices[0].message
    ).tool_calls:
        messages += [answer, *(gives(each.id, "value " * 50) for each in calls)]
    assert answer.content == "Done."
    assert len(ledger(provider.requests[-1].body)) == 17
    also = compacting(claude, Ledger())
    history: Any = [user("Q")]
    for n in range(20):
        provider.reply(ToolCall("get", {"n": n}))
    provider.reply("Done.")
    results: list[Any] = []
    for _ in range(21):
        reply = also.messages.create(
            model="claude-sonnet-4-6",
            max_tokens=9,
            messages=history,
            tools=[{"name": "get", "input_schema": {"type": "object"}}],
        )
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "value " * 50}
            for block in reply.content
            if block.type == "tool_use"
        ]
        history += [{"role": "assistant", "content": reply.content}, user(results)]
    assert not results
    assert {request.status for request in provider.requests} == {200}
    assert len(provider.requests[-1].body["messages"]) == 2 * 4 - 1


@pytest.mark.parametrize(
    "policy", [Ledger(max_tokens=200_000), Ledger("ledger", max_tokens=50_000), Ledger("ledger", max_tokens=1)]
)
def test_its_time_is_linear(policy: Ledger) -> None:
    """With a budget in force, ten times the messages take about ten times as long (SEEDS P19: theirs takes a hundred times as long)."""

    def taken(steps: int) -> float:
        messages, best = start(steps, size=100), float("inf")
        for _ in range(3):
            begun = time.process_time()
            ours(policy, messages)
            best = min(best, time.process_time() - begun)
        return best

    assert taken(5_000) < 40 * taken(500)


@pytest.mark.parametrize("argument", ["1234567890123456789012{}", "0.1000000000000000{}", "90071992547409{}"])
def test_calls_that_differ_in_the_last_of_many_digits_have_a_line_each(argument: str) -> None:
    """An account number is no float."""
    messages = [user("Q")]
    for n in range(10, 18):
        asked = call(f"c{n}")
        asked["function"]["arguments"] = f'{{"account": {argument.format(n)}}}'
        messages += [asks(asked), gives(f"c{n}", f"balance {n}: {n * 17}")]
    sent, _ = ours(Ledger("ledger"), messages)
    assert values(sent) == [f"balance {n}: {n * 17}" for n in range(10, 17)]
    line = next(text for text in sent["messages"][0]["content"].split("\n") if '"balance 12' in text)
    assert f'"arguments":{{"account":{argument.format(12)}}}' in line


def test_lines_go_where_the_budget_is_met_but_not_a_tenth_of_it_is_free() -> None:
    """A long question leaves room for some lines only: they are the newest, and the request fits; or for none, which is no error either."""
    messages = [user("word " * 500), *loop(120, size=300)]
    least = size(body_of([*messages[:1], *messages[-2:]]))
    for budget in range(least + 80, least + 300, 20):
        sent, report = ours(Ledger(max_tokens=budget), messages)
        assert report.fits
        assert least < report.tokens_after <= budget
        assert [line["arguments"]["id"] for line in ledger(sent) if "tool" in line][-1:] in ([], [118])
    assert all(ours(Ledger(max_tokens=budget), messages)[1].changed for budget in range(least + 50, least + 80))


def test_a_value_that_is_out_of_date_goes_at_once_or_with_the_next_step() -> None:
    """In scope "ledger" no call has two values; in "auto" the prompt grows at its end between two steps, however often calls repeat."""
    messages = [user("Q"), *(message for n in range(30) for message in hop(f"c{n}", f"value {n}", id=n % 4))]
    strict, calm = session(Ledger("ledger")), session(Ledger())
    before, kept = "", 0
    for end in range(13, len(messages) + 1, 2):
        sent, _ = ours(Ledger("ledger"), messages[:end], strict)
        newest = json.loads(messages[end - 2]["tool_calls"][0]["function"]["arguments"])
        assert newest not in [line["arguments"] for line in ledger(sent)]
        assert len(ledger(sent)) == 3
        text = json.dumps(ours(Ledger(), messages[:end], calm)[0]["messages"])
        kept, before = kept + text.startswith(before[:-1]), text
    assert kept >= 12
