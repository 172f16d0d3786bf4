"""Summarize beside the SummaryContextManager of 10xGraph: the same where none of its defects bites, better where one does (T7 to T10: KeepTurns)."""

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compacting_client import Summarize
from compacting_client.core.tokens import estimate
from compacting_client.formats import openai_chat
from tests.driving import found, leave, session, size
from tests.policies.test_drop_oldest import loop
from tests.policies.test_keep_turns import says, step, user
from tests.policies.test_keep_turns_reference import body_of, orphans, reference, said
from tests.policies.test_summarize import Writer

__all__ = ["reference"]

Message = dict[str, Any]
SYSTEM: Message = {"role": "system", "content": "s"}
WORDS = "word " * 60  # longer than a frame, so that a summary of one message is smaller than that


def ours(policy: Summarize, messages: list[Message], state: Any = None) -> tuple[list[Message], Any]:
    """What leaves through this package, the summary taken out of it again; and the report."""
    sent, report = leave(state or session(policy), openai_chat, body_of(messages))
    given_texts = {str(message.get("content")) for message in messages}
    shown: list[Message] = []
    for message in sent["messages"]:
        content = str(message.get("content") or "")
        if "<earlier_conversation>" in content:
            before, _, rest = content.partition("<earlier_conversation>")
            content = (before + rest.partition("</earlier_conversation>")[2]).strip("\n")
            assert content in given_texts
        shown.append({**message, "content": content})
    return shown, report


# ---------------------------------------------------------------------------------------------- the same


@st.composite
def plain(draw: st.DrawFn) -> list[Message]:
    """Questions and answers of text, a leading system prompt, ending in a question."""
    messages = [SYSTEM] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(0, 14))):
        messages += [user(f"q{turn} {WORDS}"), says(f"a{turn} {WORDS}")]
    return [*messages, user(f"last {WORDS}")]


recents = st.integers(0, 4).map(lambda turns: 2 * turns + 1)
"""Tails that begin with a question: an answer in front of one would stand behind our summary without its question."""


class Asked(list[str]):
    """What the manager asks for, and an answer."""

    def __call__(self, prompt: str) -> str:
        self.append(prompt)
        return "SUM"


def theirs_of(messages: list[Message], most: int) -> int:
    """Their limit counts the system prompt, ours does not (T11)."""
    return most + sum(message["role"] == "system" for message in messages)


@settings(max_examples=300, deadline=None)
@given(messages=plain(), most=st.integers(1, 20), recent=recents)
def test_equals_the_real_manager_on_plain_input(
    reference: ModuleType, messages: list[Message], most: int, recent: int
) -> None:
    """The same messages stay, the same are shown to the summariser, and it is asked in the same requests."""
    asked = Asked()
    options = {"max_messages": theirs_of(messages, most), "keep_recent": recent}
    expected = reference.summarize(messages, asked, **options)
    left, report = ours(
        Summarize(summarizer=(writer := Writer("SUM")), max_messages=most, keep_recent=recent, target=1.0), messages
    )
    assert said(left) == said(expected["messages"])
    assert report.summary == expected["context_summary"]
    assert len(writer.asked) == len(asked)
    for request, prompt in zip(writer.asked, asked, strict=True):
        told = [(message["role"], message["content"].split()[0]) for message in request.messages]
        lines = [line for line in prompt.split("\n") if line.startswith(("USER: ", "ASSISTANT: "))]
        assert told == [(role.lower(), text.split()[0]) for role, _, text in (line.partition(": ") for line in lines)]


@settings(max_examples=100, deadline=None)
@given(messages=plain(), most=st.integers(1, 12), recent=recents)
def test_equals_the_real_manager_at_every_request_of_a_conversation(
    reference: ModuleType, messages: list[Message], most: int, recent: int
) -> None:
    """They keep a state that grows by each turn, here the whole history is sent each time: the same is left, after as many calls."""
    writer, calls = Writer("SUM"), Asked()
    policy = Summarize(summarizer=writer, max_messages=most, keep_recent=recent, target=1.0)
    state, context, summary, known = session(policy), list[Message](), None, 0
    for length in range(1, len(messages) + 1):
        if messages[length - 1]["role"] != "user":
            continue
        context, known = [*context, *messages[known:length]], length
        limit = theirs_of(messages, most)
        kept = reference.summarize(
            context,
            calls,
            context_summary=summary,
            max_messages=limit,
            keep_recent=recent,
        )
        context, summary = kept["messages"], kept["context_summary"]
        left, report = ours(policy, messages[:length], state)
        assert said(left) == said(context)
        assert len(writer.asked) == len(calls)
        assert bool(report.summary) == bool(summary)


@pytest.mark.parametrize("answer", ["", None, RuntimeError("down")])
def test_without_a_budget_a_failure_leaves_the_history_in_both(reference: ModuleType, answer: Any) -> None:
    """Nothing is lost, and no error text is sent."""
    messages = [SYSTEM, *(m for n in range(12) for m in (user(f"q{n} {WORDS}"), says(f"a{n} {WORDS}"))), user("last")]

    def fail(_: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert said(reference.summarize(messages, fail, max_messages=5)["messages"]) == said(messages)
    left, report = ours(Summarize(summarizer=Writer(answer), max_messages=5), messages)
    assert said(left) == said(messages)
    assert report.summary is None


# ---------------------------------------------------------------------------------------------- better


def test_an_exchange_is_summarised_whole(reference: ModuleType) -> None:
    """T1: the manager splits by index and sends a result whose call went; here the split snaps to the exchange."""
    messages = [SYSTEM, user(f"q {WORDS}"), *step("1"), says(f"a {WORDS}"), user("q2")]
    theirs = reference.summarize(messages, lambda _: "SUM", max_messages=3, keep_recent=3)["messages"]
    assert orphans(theirs) == {"1"}
    left, report = ours(Summarize(summarizer=Writer("SUM"), max_messages=3, keep_recent=3), messages)
    assert not orphans(left)
    assert report.summary == "SUM"


def test_the_task_of_a_long_loop_stays(reference: ModuleType) -> None:
    """T2: the manager summarises the task itself away; here the last user message stays verbatim, and comes first."""
    messages = loop(20)["messages"]
    theirs = reference.summarize(messages, lambda _: "SUM", max_messages=10, keep_recent=4)["messages"]
    assert "the task" not in [message["content"] for message in theirs]
    left, report = ours(Summarize(summarizer=Writer("SUM"), max_messages=10, keep_recent=4), messages)
    assert [message["role"] for message in left[:2]] == ["system", "user"]
    assert report.summary == "SUM"


def test_results_are_counted_and_shown(reference: ModuleType) -> None:
    """T3: the manager counts results as nothing and does not show them; here they trigger, and the summariser reads the fact."""
    call, result = step("1")
    result = {**result, "content": "SECRET FACT 42 " + "x" * 14_000}
    messages = [SYSTEM, user("q"), call, result, says("a"), user("q2"), says("a2"), user("q3")]
    expected = reference.summarize(messages, lambda _: "SUM", max_messages=None, token_budget=100, keep_recent=2)
    assert expected["prompt"] is None
    assert expected["estimate"] < 100
    forced = reference.summarize(messages, lambda _: "SUM", max_messages=1, keep_recent=2)
    assert "SECRET FACT 42" not in forced["prompt"]
    policy = Summarize(summarizer=(writer := Writer("SUM")), max_messages=None, token_budget=100, keep_recent=2)
    _, report = ours(policy, messages)
    assert "SECRET FACT 42" in writer.asked[0].prompt
    assert report.fits


def test_the_summary_is_folded_bounded_and_counted(reference: ModuleType) -> None:
    """T4: the manager appends for ever; here the old one is in the new one, which is never longer than its bound."""
    long = "sum " * 600
    messages, summary, context = [SYSTEM], None, [SYSTEM]
    policy = Summarize(summarizer=(writer := Writer(long)), max_messages=30, max_summary_tokens=600)
    state = session(policy)
    report: Any = None
    for turn in range(150):
        new = [user(f"q{turn} {WORDS}"), says(f"a{turn} {WORDS}")]
        messages, context = [*messages, *new], [*context, *new]
        kept = reference.summarize(context, lambda _: long, context_summary=summary)
        context, summary = kept["messages"], kept["context_summary"]
        _, report = ours(policy, [*messages, user("last")], state)
    assert summary is not None
    assert estimate(summary) > 5_000
    assert estimate(report.summary) <= 600
    assert writer.asked[-1].previous is not None
    assert writer.asked[-1].previous.startswith("sum sum")


def test_a_tail_above_the_budget_does_not_cost_a_call_on_every_turn(reference: ModuleType) -> None:
    """T5: the manager never gets under the budget and calls each time; here the tail shrinks too, down to the target."""
    messages, context, calls = [SYSTEM], [SYSTEM], Asked()
    policy = Summarize(
        summarizer=(writer := Writer("SUM")), max_messages=None, token_budget=800, keep_recent=12, max_summary_tokens=50
    )
    state = session(policy)
    for turn in range(40):
        new = [user(f"q{turn} {WORDS}"), says(f"a{turn} {WORDS}")]
        messages, context = [*messages, *new], [*context, *new]
        context = reference.summarize(
            context,
            calls,
            max_messages=None,
            token_budget=800,
            keep_recent=12,
        )["messages"]
        _, report = ours(policy, [*messages, user("last")], state)
        assert report.fits
    assert len(calls) > 30
    assert len(writer.asked) < 15


def test_the_history_begins_with_the_user_and_systems_stay(reference: ModuleType) -> None:
    """T6: the manager sends its summary as an assistant turn in front, and late systems move; here it is the user's text at the cut."""
    late = {"role": "system", "content": "late"}
    turns = [m for n in range(10) for m in (user(f"q{n} {WORDS}"), says(f"a{n} {WORDS}"))]
    messages = [SYSTEM, *turns[:18], late, *turns[18:], user("last")]
    result = reference.summarize(messages, lambda _: "SUM", max_messages=5, keep_recent=3)
    assert reference.wire([], result)[0]["role"] == "assistant"
    sent, _ = leave(
        session(Summarize(summarizer=Writer("SUM"), max_messages=5, keep_recent=3)), openai_chat, body_of(messages)
    )
    assert [message["role"] for message in sent["messages"]] == ["system", "system", "user", "assistant", "user"]
    assert sent["messages"][1] is late
    assert "SUM" in sent["messages"][2]["content"]
    assert not found("openai-chat", sent, body_of(messages), flavor="template")


def test_system_messages_are_no_reason_for_a_summary(reference: ModuleType) -> None:
    """T11: the manager counts them, and summarises on every request whatever it does; here they do not count, and stay."""
    messages = [*({**SYSTEM, "content": f"rule {n} {WORDS}"} for n in range(31)), user("q"), says("a"), user("q2")]
    context, calls = messages, Asked()
    for _ in range(3):
        result = reference.summarize(context, calls, keep_recent=0)
        context = [*result["messages"], user("next")]
    assert len(calls) == 3
    left, report = ours(Summarize(summarizer=(writer := Writer("SUM")), keep_recent=0), messages)
    assert said(left) == said(messages)
    assert not writer.asked
    assert report.reason == "below trigger"


def test_a_summariser_that_is_down_does_not_send_the_request_over_its_budget(reference: ModuleType) -> None:
    """T12: the manager leaves all of it; here what is older is dropped down to the budget, and an event says so."""
    messages = [SYSTEM, *(m for n in range(12) for m in (user(f"q{n} {WORDS}"), says(f"a{n} {WORDS}"))), user("last")]

    def down(_: str) -> str:
        raise RuntimeError("down")

    expected = reference.summarize(messages, down, max_messages=None, token_budget=500, keep_recent=2)
    assert said(expected["messages"]) == said(messages)
    policy = Summarize(summarizer=Writer(RuntimeError("down")), max_messages=None, token_budget=500, keep_recent=2)
    left, report = ours(policy, messages)
    assert size(body_of(left)) <= 500
    assert report.fits
    assert left[-1] == messages[-1]
