"""Events and callbacks: what is told, in which order, to whom, and that telling never harms a request."""

import dataclasses
import functools
import json
from typing import Any

import anthropic
import openai
import pytest

from compacting_client import (
    CompactionApplied,
    CompactionRecovered,
    CompactionRejected,
    CompactionSkipped,
    ConfigError,
    ContentDropped,
    ContentReplaced,
    ContentReused,
    Event,
    SummaryCreated,
    SummaryFailed,
    compacting,
)
from compacting_client.testing import EventCapture, Failure, Provider, Thinking, ToolCall
from tests.bindings.support import (
    BUDGET,
    GPT,
    POLICY,
    chat_request,
    claude_request,
    history,
    report_of,
    sent,
    tool_history,
)

KEYS: dict[Any, tuple[str, str, str]] = {
    CompactionSkipped: ("compaction.skipped", "debug", "api model policy reason"),
    CompactionApplied: (
        "compaction.applied",
        "info",
        "api model policy trigger tokens_before tokens_after messages_before messages_after fits target duration_ms",
    ),
    ContentDropped: ("content.dropped", "debug", "first last roles tools tokens digest reason since"),
    ContentReplaced: ("content.replaced", "debug", "kind first last roles tools tokens tokens_after digest reason"),
    ContentReused: ("content.reused", "debug", "kind age tokens_saved tool"),
    SummaryCreated: ("summary.created", "info", "tokens duration_ms model input_tokens output_tokens"),
    SummaryFailed: ("summary.failed", "warning", "error duration_ms model input_tokens output_tokens"),
    CompactionRecovered: ("compaction.recovered", "warning", "cause window"),
    CompactionRejected: ("compaction.rejected", "warning", "rules instead"),
}


def test_names_levels_and_keys() -> None:
    """The names are stable; keys are the same in `as_dict()`, logs and the dataclass; `messages` only on request."""
    assert set(Event.__subclasses__()) == set(KEYS)
    for kind, (name, level, keys) in KEYS.items():
        assert (kind.name, kind.level) == (name, level)
        fields = [each.name for each in dataclasses.fields(kind)]
        assert [each for each in fields if each != "messages"] == ["request_id", *keys.split()]
        event = kind(**dict.fromkeys(fields, ("x",)))
        assert list(event.as_dict()) == ["name", "request_id", *keys.split()]
        assert set(event.as_dict(content=True)) - set(event.as_dict()) <= {"messages"}
        with pytest.raises(dataclasses.FrozenInstanceError):
            event.request_id = "other"


def test_the_order_of_events(provider: Provider, chat: openai.OpenAI) -> None:
    """First what was done, then each unit that went, oldest first; later what was used again; all before the request leaves."""
    events = EventCapture()
    client = compacting(chat, POLICY, on_event=events)
    told_before: list[int] = []

    def answer(_: Any) -> str:
        told_before.append(len(events.events))
        return "ok"

    provider.reply(answer)
    first = client.chat.completions.create(**chat_request(tool_history()))
    dropped = events.of(ContentDropped)
    assert events.names == ["compaction.applied", *["content.dropped"] * len(dropped)]
    assert told_before == [len(events.events)]
    assert [unit.first for unit in dropped] == sorted(unit.first for unit in dropped)
    assert {event.request_id for event in events.events} == {report_of(client, first).request_id}
    events.clear()
    second = client.chat.completions.create(**chat_request(tool_history()))
    assert events.names == ["compaction.applied", "content.reused"]
    assert {event.request_id for event in events.events} == {report_of(client, second).request_id}
    events.clear()
    client.chat.completions.create(**chat_request(history(turns=1)))
    assert events.names == ["compaction.skipped"]


def test_what_the_events_say(provider: Provider, chat: openai.OpenAI) -> None:
    """Figures, roles, tools and index ranges are those of the history and of what arrived."""
    messages = tool_history()
    events = EventCapture()
    client = compacting(chat, POLICY, on_event=events)
    client.chat.completions.create(**chat_request(messages))
    (applied,) = events.of(CompactionApplied)
    assert (applied.api, applied.model, applied.policy, applied.trigger) == ("openai-chat", GPT, "DropOldest", "tokens")
    assert (applied.messages_before, applied.messages_after) == (len(messages), len(sent(provider)))
    assert applied.tokens_before > BUDGET >= applied.tokens_after
    assert (applied.fits, applied.target) == (True, BUDGET / 2)
    assert applied.duration_ms > 0
    absent = [index for index, message in enumerate(messages) if message not in sent(provider)]
    dropped = events.of(ContentDropped)
    assert sorted(n for unit in dropped for n in range(unit.first, unit.last + 1)) == absent
    for unit in dropped:
        items = messages[unit.first : unit.last + 1]
        assert unit.roles == tuple(item["role"] for item in items)
        assert unit.tools == tuple("look_up" for item in items if item.get("tool_calls"))
        assert (unit.reason, unit.since) == ("over the token budget", 0)
        assert [message["content"] for message in unit.messages] == [item["content"] for item in items]
    assert sum(unit.tokens for unit in dropped) == applied.tokens_before - applied.tokens_after
    assert len({unit.digest for unit in dropped}) == len(dropped)
    events.clear()
    client.chat.completions.create(**chat_request(messages))
    (reused,) = events.of(ContentReused)
    assert (reused.kind, reused.age) == ("cut", 1)
    assert reused.tokens_saved == applied.tokens_before - applied.tokens_after


def test_stripped_thinking_is_told(provider: Provider, claude: anthropic.Anthropic) -> None:
    """On a model that binds thinking, what is removed from kept items is `content.replaced`, with its text for the callback."""
    model = "claude-opus-5-1"
    messages: list[Any] = []
    for n in range(8):
        provider.reply(Thinking("thought " * 15), f"answer {n}")
        messages.append({"role": "user", "content": f"{n}: " + "question " * 20})
        answer = claude.messages.create(**claude_request(messages, model=model))
        messages.append({"role": "assistant", "content": answer.content})
    messages.append({"role": "user", "content": "And now?"})
    events = EventCapture()
    client = compacting(claude, 600, on_event=events)
    report = report_of(client, client.messages.create(**claude_request(messages, model=model)))
    replaced = events.of(ContentReplaced)
    assert replaced
    assert replaced == report.replaced
    for event in replaced:
        assert (event.kind, event.roles) == ("stripped", ("assistant",))
        assert event.tokens_after < event.tokens
        assert "thought" in json.dumps(event.messages)
        answer = messages[event.first]["content"][-1].text
        assert {"role": "assistant", "content": [{"type": "text", "text": answer}]} in sent(provider)


def test_special_callbacks_get_their_events(chat: openai.OpenAI) -> None:
    """`on_drop` and `on_reuse` get what `on_event` gets of their kind; `on_report` gets the report, once each."""
    everything, drops, reuses, reports = EventCapture(), EventCapture(), EventCapture(), EventCapture()
    client = compacting(chat, POLICY, on_event=everything, on_drop=drops, on_reuse=reuses, on_report=reports)
    responses = [client.chat.completions.create(**chat_request()) for _ in range(2)]
    assert drops.events == everything.of(ContentDropped) != []
    assert reuses.events == everything.of(ContentReused) != []
    assert reports.events == [report_of(client, response) for response in responses]


@pytest.mark.parametrize("name", ["on_drop", "on_reuse"])
def test_a_special_callback_alone_is_enough(chat: openai.OpenAI, name: str) -> None:
    """Without `on_event` and without a log, unit events are still made for whoever asked for them."""
    events = EventCapture()
    callbacks: Any = {name: events}
    client = compacting(chat, POLICY, **callbacks)
    for _ in range(2):
        client.chat.completions.create(**chat_request())
    assert set(events.names) == {"content.dropped" if name == "on_drop" else "content.reused"}


def test_a_refusal_by_the_provider_is_recovered_and_told(provider: Provider, claude: anthropic.Anthropic) -> None:
    """Thinking bound elsewhere: one event says that the request was sent once more."""
    provider.reply(Thinking("thought"), "answer")
    model = "claude-opus-5-1"
    answer = claude.messages.create(**claude_request(history(turns=1), model=model))
    messages = [
        *history("other", turns=1),
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": "And?"},
    ]
    events, reports = EventCapture(), EventCapture()
    client = compacting(claude, 10_000, on_event=events, on_report=reports)
    client.messages.create(**claude_request(messages, model=model))
    assert [request.status for request in provider.requests[1:]] == [400, 200]
    (recovered,) = events.of(CompactionRecovered)
    assert recovered.cause == "thinking bound elsewhere"
    assert len(reports.events) == 1
    off = compacting(claude, 10_000, recover=False)
    with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
        off.messages.create(**claude_request(messages, model=model))


class Boom:
    """A callback that raises every time, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _: Any) -> None:
        self.calls += 1
        raise LookupError("archive is full")


def test_callbacks_that_raise_harm_nobody(
    provider: Provider, chat: openai.OpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    """Each failure is logged once; later callbacks and later events still come; the request leaves as it would have."""
    boom, drops, reports = Boom(), EventCapture(), EventCapture()
    client = compacting(chat, POLICY, on_event=boom, on_drop=drops, on_report=reports)
    with caplog.at_level("ERROR", logger="compacting_client"):
        client.chat.completions.create(**chat_request())
    assert len(sent(provider)) < len(history(system=True))
    assert boom.calls == 1 + len(drops.events) > 1
    assert len(reports.events) == 1
    failures = [record.getMessage() for record in caplog.records]
    assert len(failures) == boom.calls
    assert all(text.startswith("callback.failed callback='on_event' error='LookupError'") for text in failures)


@pytest.mark.parametrize("name", ["on_event", "on_drop", "on_reuse", "on_report"])
@pytest.mark.parametrize("stream", [False, True])
def test_any_callback_may_raise(chat: openai.OpenAI, name: str, stream: bool) -> None:
    """Whichever it is, plain or streamed, the response arrives whole."""
    boom = Boom()
    callbacks: Any = {name: boom}
    client: Any = compacting(chat, POLICY, **callbacks)
    for _ in range(2):
        response = client.chat.completions.create(**chat_request(), stream=stream)
        assert len(list(response)) > 0
    assert boom.calls > 0


async def test_async_callbacks_are_awaited(achat: openai.AsyncOpenAI) -> None:
    """On an async client a callback may be a coroutine function, a callable object, a partial, or plain; in order, each once."""
    seen: list[str] = []

    async def note(kind: str, _: Any) -> None:
        seen.append(kind)

    class Asynchronous:
        async def __call__(self, event: Any) -> None:
            await note("event", event)

    client = compacting(
        achat,
        POLICY,
        on_event=Asynchronous(),
        on_drop=functools.partial(note, "drop"),
        on_report=lambda report: note("report", report),
    )
    await client.chat.completions.create(**chat_request())
    assert seen[:3] == ["event", "event", "drop"]
    assert seen[-1] == "report"
    assert seen.count("report") == 1


async def test_async_callbacks_that_raise_harm_nobody(
    achat: openai.AsyncOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    """The same as with plain ones."""

    async def boom(_: Any) -> None:
        raise LookupError

    client = compacting(achat, POLICY, on_event=boom, on_report=boom)
    with caplog.at_level("ERROR", logger="compacting_client"):
        await client.chat.completions.create(**chat_request())
    assert {record.getMessage() for record in caplog.records} == {
        "callback.failed callback='on_event' error='LookupError'",
        "callback.failed callback='on_report' error='LookupError'",
    }


@pytest.mark.parametrize("name", ["counter", "memory_key", "pin", "on_event", "on_drop", "on_reuse", "on_report"])
def test_an_async_function_on_a_sync_client_is_refused(chat: openai.OpenAI, name: str) -> None:
    """It could never be awaited: told when wrapping, with the name of the setting."""

    async def function(_: Any) -> int:
        return 1

    class Asynchronous:
        async def __call__(self, _: Any) -> int:
            return 1

    for given in (function, Asynchronous(), functools.partial(function)):
        settings: Any = {name: given}
        with pytest.raises(ConfigError, match=f"{name} is async, but the client is not"):
            compacting(chat, POLICY, **settings)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_interrupts_pass_through_callbacks(chat: openai.OpenAI, stop: type[BaseException]) -> None:
    """Ctrl-C inside a callback, a pin or a counter is no failure to be logged: it ends the call."""

    def interrupt(_: Any) -> Any:
        raise stop

    for name in ("on_event", "pin", "counter", "on_report"):
        settings: Any = {name: interrupt}
        with pytest.raises(stop):
            compacting(chat, POLICY, **settings).chat.completions.create(**chat_request())


def test_an_event_of_a_failed_call_is_told_all_the_same(provider: Provider, chat: openai.OpenAI) -> None:
    """Events tell what left; that the provider then failed is in the report."""
    events, reports = EventCapture(), EventCapture()
    provider.reply(Failure(500))
    with pytest.raises(openai.InternalServerError):
        compacting(chat, POLICY, on_event=events, on_report=reports).chat.completions.create(**chat_request())
    assert events.names[0] == "compaction.applied"
    assert [report.error for report in reports.events] == ["InternalServerError"]


def test_tools_of_any_shape_are_named(provider: Provider, chat: openai.OpenAI) -> None:
    """Tool names stand in the events; arguments and results do not, but in `messages`."""
    provider.reply(ToolCall("look_up", {"secret": "yes"}))
    events = EventCapture()
    compacting(chat, POLICY, on_event=events).chat.completions.create(**chat_request(tool_history("secret")))
    told = json.dumps([event.as_dict() for event in events.events]) + repr(events.events)
    assert "look_up" in told
    assert "secret" not in told
    assert "secret" in json.dumps([event.as_dict(content=True) for event in events.events])
