"""Summarize: what is told of a summary, what goes without one, where it stands, and what `remove_tool_msgs` takes away."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compacting_client import Chain, DropOldest, KeepTurns, Summarize
from compacting_client.core.summaries import asked, framed
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.testing import EventCapture
from tests.driving import found, leave, session, size
from tests.strategies import chats, to_anthropic, to_chat, to_gemini
from tests.summaries.conversing import settled

Messages = list[dict[str, Any]]
SHAPES: dict[str, Any] = {
    "chat": (openai_chat, to_chat),
    "anthropic": (anthropic_messages, to_anthropic),
    "gemini": (gemini_contents, to_gemini),
}
LONG = "long " * 3_000


class Writer:
    """A summariser that keeps what it was asked."""

    def __init__(self, text: str = "They spoke.") -> None:
        self.text, self.asked = text, list[Any]()

    def __call__(self, request: Any) -> str:
        self.asked.append(request)
        return self.text


def talk(turns: int, words: int = 8) -> Messages:
    """So many turns, and a question."""
    history: Messages = [{"role": "system", "content": "You help."}]
    for turn in range(turns):
        history.append({"role": "user", "content": f"question {turn} " + "word " * words})
        history.append({"role": "assistant", "content": f"answer {turn} " + "word " * words})
    return [*history, {"role": "user", "content": "and now?"}]


def looped(turns: int) -> Messages:
    """The same with two tool calls, one after the other, in every turn."""
    history: Messages = []
    for turn in range(turns):
        history.append({"role": "user", "content": f"question {turn}"})
        for hop in range(2):
            call = {"id": f"c{turn}-{hop}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            history.append({"role": "assistant", "content": None, "tool_calls": [call]})
            history.append({"role": "tool", "tool_call_id": f"c{turn}-{hop}", "content": f"RESULT-{turn}-{hop}"})
        history.append({"role": "assistant", "content": f"answer {turn}"})
    return [*history, {"role": "user", "content": "and now?"}]


def test_a_summary_that_is_too_large_is_told_as_failed_and_not_made_again_at_once() -> None:
    """Its own reason; no summary in the report; the next try is five requests later."""
    writer, events = Writer(LONG), EventCapture()
    state = session(Summarize(summarizer=writer, max_summary_tokens=9_000), on_event=events)
    for turns in range(20, 27):
        sent, report = leave(state, openai_chat, body := to_chat(talk(turns)))
        assert sent is body
        assert report.summary is None
        assert report.reason == "no summary"
    assert len(writer.asked) == 2
    assert [event.error for event in events.named("summary.failed")] == ["larger", "larger"]
    assert "summary.created" not in events.names


def test_what_the_fallback_drops_was_not_summarised() -> None:
    """The reason of each dropped unit is the budget, where the summary was too large, as where there was none."""
    for writer in (Writer(LONG), Writer("")):
        policy = Summarize(
            summarizer=writer, max_messages=None, token_budget=400, max_summary_tokens=9_000, keep_recent=4
        )
        sent, report = leave(session(policy), openai_chat, to_chat(talk(20)))
        assert size(sent) <= 400
        assert {unit.reason for unit in report.dropped} == {"over the token budget"}


def test_what_a_later_policy_drops_was_not_summarised() -> None:
    """In a chain each unit has the reason of what it stands in: the summary, or nothing."""
    policy = Chain(Summarize(summarizer=Writer("x " * 300), keep_recent=8), DropOldest(320, keep_tail=1))
    _, report = leave(session(policy), openai_chat, to_chat(talk(20)))
    assert {unit.reason for unit in report.dropped} == {"summarised", "older than the kept messages"}
    assert all(unit.last <= 34 for unit in report.dropped if unit.reason == "summarised")


def test_what_a_summary_took_is_in_the_report() -> None:
    """Of the request that made it, or tried to; not of those that use it again.  A function tells no tokens."""
    state = session(Summarize(summarizer=Writer()))
    _, made = leave(state, openai_chat, to_chat(talk(20)))
    _, used = leave(state, openai_chat, to_chat(talk(21)))
    assert made.summary_usage is not None
    assert made.summary_usage.duration_ms >= 0
    assert (made.summary_usage.model, made.summary_usage.cost) == (None, None)
    assert made.as_dict()["summary_usage"]["input_tokens"] is None
    assert "summary by" not in str(made)
    assert used.summary == made.summary
    assert used.summary_usage is None
    _, failed = leave(session(Summarize(summarizer=Writer(""))), openai_chat, to_chat(talk(20)))
    assert failed.summary_usage is not None


def test_nothing_older_is_said() -> None:
    """All that is over the limit is among the newest messages, which stay: no call, and the report says why."""
    writer = Writer()
    policy = Summarize(summarizer=writer, max_messages=5, keep_recent=50)
    sent, report = leave(session(policy), openai_chat, body := to_chat(talk(10)))
    assert sent is body
    assert (report.reason, writer.asked) == ("nothing older", [])


def test_a_model_is_not_asked_for_next_to_nothing() -> None:
    """What has to stay fills the budget: a summary of the little that is older would be made on every turn."""
    writer = Writer()
    state = session(Summarize(summarizer=writer, max_messages=None, token_budget=1_000, keep_recent=0))
    for turns in range(1, 4):
        history = talk(turns, words=2)
        history[0] = {"role": "system", "content": "rules " * 700}
        leave(state, openai_chat, to_chat(history))
    assert not writer.asked


@pytest.mark.parametrize(
    ("settings", "most"),
    [({"max_messages": 10}, 17), ({"max_messages": 8}, 23), ({"max_messages": 5}, 23), ({"keep_recent": 30}, 8)],
)
@pytest.mark.parametrize("background", [False, True])
def test_a_tail_near_the_limit_does_not_cost_a_call_on_every_turn(
    settings: dict[str, Any], most: int, background: bool
) -> None:
    """Half of `max_messages` is replaced at once, or nothing; with the target 1.0 whatever is over the limit, on every turn."""
    writer = Writer()
    state = session(Summarize(summarizer=writer, background=background, **settings))
    for turns in range(1, 51):
        leave(state, openai_chat, to_chat(talk(turns, words=60)))
        settled()
    assert 0 < len(writer.asked) <= most
    if not background:
        state = session(Summarize(summarizer=(each := Writer()), target=1.0, **settings))
        for turns in range(1, 51):
            leave(state, openai_chat, to_chat(talk(turns, words=60)))
        assert len(each.asked) > len(writer.asked)


@pytest.mark.parametrize("shape", SHAPES)
def test_in_the_system_prompt(shape: str) -> None:
    """`summary_role="system"`: at its end, once, folded; the history opens with a question of the user's; it is reported as extended."""
    wire, to_body = SHAPES[shape]
    writer = Writer()
    state = session(Summarize(summarizer=writer, max_messages=12, keep_recent=4, summary_role="system"))
    report: Any = None
    sent: Any = None
    for turns in range(1, 30):
        body = to_body(talk(turns))
        sent, report = leave(state, wire, body)
        assert not found(wire.API, sent, body)
        text = framed("They spoke.").replace("\n", "\\n")
        assert str(sent).count(text) == (1 if report.summary else 0)
    system = sent["messages"][0] if shape == "chat" else sent.get("system") or sent.get("systemInstruction")
    assert "You help." in str(system)
    assert "They spoke." in str(system)
    first = sent["messages"][1] if shape == "chat" else (sent.get("messages") or sent["contents"])[0]
    assert first["role"] == "user"
    assert "They spoke." not in str(first)
    assert ("extended", ("system",)) in [(each.kind, each.roles) for each in report.replaced]
    assert {request.previous for request in writer.asked[1:]} == {"They spoke."}
    assert 1 < len(writer.asked) < 8


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=60, deadline=None)
@given(history=chats(), role=st.sampled_from(["user", "system"]), tools=st.booleans(), limit=st.integers(1, 12))
def test_never_an_assistant_at_the_end(shape: str, history: list, role: Any, tools: bool, limit: int) -> None:
    """Whatever is summarised and wherever it stands: accepted, no larger, and the last item is as the caller's."""
    wire, to_body = SHAPES[shape]
    body = to_body(history)
    policy = Summarize(
        summarizer=Writer("x"), max_messages=limit, keep_recent=1, summary_role=role, remove_tool_msgs=tools
    )
    state = session(policy)
    for _ in range(2):
        sent, report = leave(state, wire, body)
        assert not found(wire.API, sent, body)
        assert report.tokens_after <= report.tokens_before
        before, after = ((each.get("messages") or each["contents"])[-1]["role"] for each in (body, sent))
        assert before == after or after != "assistant"


def test_completed_tool_sequences_go_on_every_request() -> None:
    """Below the limit too, all hops, as in KeepTurns; the final answers stay, and the sequence that is not completed."""
    writer = Writer()
    body = to_chat(looped(3)[:-2])  # the last sequence has no answer yet
    sent, report = leave(session(Summarize(summarizer=writer, remove_tool_msgs=True)), openai_chat, body)
    as_turns, _ = leave(session(KeepTurns(99, remove_tool_msgs=True)), openai_chat, body)
    assert sent == as_turns
    assert [message["role"] for message in sent["messages"]][:5] == ["user", "assistant"] * 2 + ["user"]
    assert (report.trigger, writer.asked) == ("tool_results", [])
    assert {unit.reason for unit in report.dropped} == {"completed tool sequence"}


def test_tool_sequences_in_what_is_summarised_are_shown_to_the_summariser() -> None:
    """Those of a history that is seen for the first time; what is left counts for the limit."""
    writer = Writer()
    policy = Summarize(summarizer=writer, remove_tool_msgs=True, max_messages=8, keep_recent=2)
    leave(session(policy), openai_chat, to_chat(looped(4)))  # 9 messages without tools
    assert "RESULT-0-1" in writer.asked[0].prompt
    calm = Writer()
    policy = Summarize(summarizer=calm, remove_tool_msgs=True, max_messages=9, keep_recent=2)
    leave(session(policy), openai_chat, to_chat(looped(4)))
    assert not calm.asked


WORDS = "word " * 30


@pytest.mark.parametrize("shape", SHAPES)
def test_tool_sequences_that_went_before_are_shown_with_their_answer(shape: str) -> None:
    """Each result of a growing conversation is in the summary that its answer is in, though it went many requests earlier; nearly all in one."""
    wire, to_body = SHAPES[shape]
    writer = Writer("They asked.")
    state = session(Summarize(summarizer=writer, remove_tool_msgs=True, max_messages=12, keep_recent=4))
    for turns in range(1, 40):
        for cut in (4, 2, 0):  # between the calls of the newest turn too
            history = [
                m if m["role"] == "tool" else {**m, "content": f"{m['content']}: " + WORDS} for m in looped(turns)[:-1]
            ]
            leave(state, wire, to_body(history[: len(history) - cut]))
    prompts = [request.prompt for request in writer.asked]
    assert len(prompts) > 4
    summarised = [turn for turn in range(39) if any(f"answer {turn}:" in prompt for prompt in prompts)]
    assert len(summarised) > 30
    shown = [sum(f"RESULT-{turn}-{hop}" in prompt for prompt in prompts) for turn in summarised for hop in range(2)]
    assert all(1 <= times <= 2 for times in shown)
    assert shown.count(2) <= 2 * len(prompts)


def test_pictures_and_seals_are_named_not_quoted() -> None:
    """Base64, signatures and cache marks are no text: the prompt holds their sizes, or nothing; the messages hold all, as copies."""
    data = "QUJD" * 1_000
    content = [
        {"type": "text", "text": "Look:", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        {"type": "thinking", "thinking": "Hm.", "signature": data},
    ]
    message = {"role": "user", "content": content}
    request = asked([message], None, 100, "Summarise.")
    assert len(request.prompt) < 600
    assert "Look:" in request.prompt
    assert "data:image/png;base64" in request.prompt
    assert "(4000 characters)" in request.prompt
    assert "cache_control" not in request.prompt
    assert request.messages[0] == message
    request.messages[0]["content"].clear()
    assert len(content) == 4
