"""What the account does to a program: observers that fail, secrets in logs, concurrent calls, and facts that must not vanish."""

import asyncio
import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from compacting_client import ConfigError, DropOldest, compacting, control
from compacting_client.testing import EventCapture, Failure, Provider
from tests.cases.bench import (
    APIS,
    BINDING,
    CHAT,
    CLAUDE,
    MODES,
    OLDER,
    Body,
    Line,
    covers,
    drop_oldest,
    method,
    plain,
    report_of,
)
from tests.cases.neighbours import body_of, in_api, later, turn
from tests.cases.sound import assert_sound

MakeLine = Callable[..., Line]
each_api = pytest.mark.parametrize("api", APIS)
SMALL = DropOldest(60, keep_head=1, keep_tail=2)
CALLBACKS = ("on_event", "on_drop", "on_reuse", "on_report")


def long(api: str) -> Body:
    """A history with an exchange, from which one unit goes under the small policy."""
    return later(body_of("053", api))


# ---------------------------------------------------------------------------------------------- observers


@covers("081")
@pytest.mark.parametrize("name", CALLBACKS)
@pytest.mark.parametrize(
    ("mode", "asynchronous"),
    [("sync", False), ("stream", False), ("async", False), ("async", True), ("async stream", True)],
)
@each_api
def test_an_observer_that_raises_breaks_nothing(
    api: str, mode: str, name: str, asynchronous: bool, line: MakeLine, caplog: pytest.LogCaptureFixture
) -> None:
    """The request is sent and returned, each failure is logged once, and the other callbacks still run."""
    failed, heard = list[Any](), {each: EventCapture() for each in CALLBACKS if each != name}

    def fails(event: Any) -> None:
        failed.append(event)
        raise ValueError("the dashboard is down")

    async def afails(event: Any) -> None:
        fails(event)

    wrapped = line(api, SMALL, mode, **{name: afails if asynchronous else fails, **heard})
    with caplog.at_level(logging.ERROR, "compacting_client"):
        for body in (long(api), {**long(api), "messages": [*long(api)["messages"], *turn("a", "b")]}):
            trip = wrapped.send(body)
            assert trip.statuses == [200]
            assert trip.response is not None
    assert failed
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(logged) == len(failed)
    assert all("ValueError" in record.getMessage() and name in record.getMessage() for record in logged)
    assert all(capture.events for capture in heard.values())


@covers("081")
@pytest.mark.parametrize("name", CALLBACKS)
@each_api
def test_an_async_observer_on_a_sync_client_is_refused_when_wrapping(api: str, name: str, provider: Provider) -> None:
    """Nobody would await it: a ConfigError that names the setting; so for an object with an async `__call__`."""

    async def watch(_: Any) -> None: ...

    class Watch:
        async def __call__(self, _: Any) -> None: ...

    for observer in (watch, Watch()):
        setting: dict[str, Any] = {name: observer}
        with pytest.raises(ConfigError, match=name):
            compacting(plain(provider, api), SMALL, **setting)


@covers("081")
@pytest.mark.parametrize("name", CALLBACKS)
@each_api
def test_an_interrupt_in_an_observer_passes(api: str, name: str, line: MakeLine) -> None:
    """KeyboardInterrupt and cancellation are no failures of an observer; the client works again afterwards."""

    def interrupt(_: Any) -> None:
        if raising:
            raise raising[-1]

    raising: list[BaseException] = [KeyboardInterrupt()]
    wrapped = line(api, SMALL, **{name: interrupt})
    bodies = [long(api), {**long(api), "messages": [*long(api)["messages"], *turn("a", "b")]}]

    def call() -> None:
        for body in bodies:
            method(wrapped.client(), api)(**body)

    with pytest.raises(KeyboardInterrupt):
        call()
    raising.clear()
    call()

    async def cancelled() -> None:
        async with line(api, SMALL, "async", **{name: interrupt}).client() as client:
            for body in bodies:
                await method(client, api)(**body)

    raising.append(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())


# ---------------------------------------------------------------------------------------------- concurrent calls


def wordy(number: int, api: str) -> Body:
    """A conversation about its own word, which opens like all others."""
    messages: list[Body] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "Hello"},
        *turn("Hi.", "Go."),
    ]
    for n in range(4):
        messages += turn(f"word-{number:03} " * (3 + n), f"more of word-{number:03}?")
    return in_api({"model": "gpt-4o-mini", "messages": messages}, CHAT, api)


@covers("162")
@pytest.mark.parametrize("mode", ["threads", "tasks", "threads, streamed"])
@each_api
def test_fifty_calls_at_once_see_nothing_of_each_other(api: str, mode: str, provider: Provider) -> None:
    """Each body, report and event holds one word, and the events of a request carry its id."""
    events = EventCapture()
    known = len(provider.requests)
    if mode == "tasks":
        answers = asyncio.run(_gathered(provider, api, events))
    else:
        client = compacting(plain(provider, api), SMALL, on_event=events)

        def call(number: int) -> tuple[int, Any]:
            body = wordy(number, api)
            response = method(client, api)(**body, **({"stream": True} if "streamed" in mode else {}))
            _ = list(response) if "streamed" in mode else None
            report = report_of(client, response)
            assert control(client).last_report is report
            return number, report

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(call, [*range(50), *range(50)]))
    bodies = [_words(request.body) for request in provider.requests[known:]]
    assert sorted(word for words in bodies for word in words) == sorted(f"{n:03}" for n in [*range(50)] * 2)
    assert all(len(words) == 1 for words in bodies)
    ids = {report.request_id: number for number, report in answers}
    assert len(ids) == 100
    firsts = dict(reversed(answers))
    assert all(report.reused == [] for report in firsts.values()), "the cut of another conversation"
    for number, report in answers:
        assert report.changed
        assert _words([event.messages for event in report.dropped]) == {f"{number:03}"}
    for event in events.events:
        assert event.request_id in ids
        if words := _words(getattr(event, "messages", ())):
            assert words == {f"{ids[event.request_id]:03}"}


async def _gathered(provider: Provider, api: str, events: EventCapture) -> list[Any]:
    async with compacting(plain(provider, api, asynchronous=True), SMALL, on_event=events) as client:

        async def call(number: int) -> tuple[int, Any]:
            response = await method(client, api)(**wordy(number, api))
            return number, report_of(client, response)

        with control(client).capture() as captured:
            answers = [*await asyncio.gather(*map(call, range(50))), *await asyncio.gather(*map(call, range(50)))]
        assert {id(report) for report in captured} == {id(report) for _, report in answers}
        return answers


def _words(value: Any) -> set[str]:
    return {part[:3] for part in json.dumps(value).split("word-")[1:]}


@covers("162", "021")
@pytest.mark.parametrize("many", [8, 50])
@each_api
def test_conversations_that_open_alike_keep_their_cuts(api: str, many: int, line: MakeLine) -> None:
    """Many runs of one task text, in turns on one client: each finds its own cut again, fewer than one in five moves."""
    wrapped, before, moved = line(api, DropOldest(1000, keep_tail=2)), dict[int, list[Any]](), 0
    for step in range(26):
        for number in range(many):
            messages: list[Body] = [
                {"role": "user", "content": "Review the change."},
                *turn("Which one?", f"{number}."),
            ]
            for n in range(step):
                messages += turn(f"{number}-{n} " + "say " * 35, f"{number}-{n} " + "ask " * 35)
            trip = wrapped.send({"model": OLDER, "max_tokens": 9, "messages": messages})
            moved += trip.messages[: len(before.get(number, ()))] != before.get(number, [])
            before[number] = trip.messages
    assert 0 < moved < 26 * many / 5


# ---------------------------------------------------------------------------------------------- facts


@covers("118")
@pytest.mark.parametrize("target", [1.0, 0.5])
@pytest.mark.parametrize("mode", MODES)
@each_api
def test_no_fact_vanishes_between_two_compactions(api: str, mode: str, target: float, line: MakeLine) -> None:
    """What the first kept, the second keeps or hands over: each fact was sent, or told to the callback exactly once."""
    archive, told = list[Any](), list[int]()
    wrapped = line(api, DropOldest(200, keep_tail=4, target=target), mode, on_drop=archive.append)
    messages: list[Body] = [{"role": "user", "content": "FACT-100 is the first."}]
    for _ in range(15):
        body = in_api({"model": OLDER, "max_tokens": 9, "messages": messages}, api, api)
        trip = wrapped.send(body)
        assert_sound(trip)
        facts = {f"FACT-{100 + n}" for n in range(len(messages))}
        sent, handed = _facts(trip.messages), [fact for event in archive for fact in _facts(event.messages)]
        assert sent | set(handed) == facts
        assert not sent & set(handed)
        assert len(handed) == len(set(handed))
        absent = [fact for event in trip.report.dropped for fact in _facts(event.messages)]
        assert sorted(absent) == sorted(facts - sent), "the report lists all that is absent"
        told.append(len(handed))
        count = len(messages) + 100
        messages = [*messages, *turn(f"FACT-{count} is noted. " * 2, f"FACT-{count + 1} is next. " * 2)]
    assert len(set(told)) > 2, "one compaction only"


def _facts(value: Any) -> set[str]:
    return {f"FACT-{part[:3]}" for part in json.dumps(value).split("FACT-")[1:]}


@covers("006")
@pytest.mark.parametrize("mode", MODES)
@each_api
def test_ten_large_messages_and_a_small_budget_cost_one_pass(api: str, mode: str, line: MakeLine) -> None:
    """The counter sees each message once, one request is made, and the event says that it is still over the budget."""
    counted: list[Any] = []

    def counter(message: Body) -> int:
        counted.append(message["role"])
        return 100

    messages: list[Body] = [{"role": "user", "content": "0"}]
    for n in range(5):
        messages += turn(str(n), str(n))
    body: Body = {"model": OLDER, "max_tokens": 9, "messages": messages[1:] if api == CHAT else messages[:-2]}
    trip = line(api, DropOldest(90, keep_tail=2), mode, counter=counter).send(body)
    assert trip.statuses == [200]
    assert len(counted) == len(body["messages"])
    assert trip.report.fits is False
    assert [event.fits for event in trip.events.named("compaction.applied")] == [False]


@covers("042", "159")
def test_a_message_that_is_absent_is_reported_as_dropped(line: MakeLine) -> None:
    """`dropped` lists everything that is absent from the request, also what stripping its thinking left empty."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s1"}
    messages: list[Body] = [
        {"role": "user", "content": "Old. " * 30},
        {"role": "assistant", "content": "Old. " * 30},
        {"role": "user", "content": "Now."},
        {"role": "assistant", "content": [thought]},
        {"role": "user", "content": "Go on."},
    ]
    body = {"model": BINDING, "max_tokens": 99, "messages": messages, "thinking": {"type": "adaptive"}}
    trip = line(CLAUDE, DropOldest(80, keep_head=0, keep_tail=3)).send(body)
    assert_sound(trip)
    assert trip.kept == [2, 4]
    assert [(each.first, each.last) for each in trip.report.dropped] == [(0, 0), (1, 1), (3, 3)]


@covers("081", "005")
@each_api
def test_a_report_comes_after_a_refusal_too(api: str, line: MakeLine, provider: Provider) -> None:
    """The provider's own error reaches the caller, and the account of the request names it."""
    reports: list[Any] = []
    provider.reply(Failure(400, "no"))
    trip = line(api, drop_oldest({"max_tokens": 60, "keep_head": 1, "keep_tail": 2}), on_report=reports.append).send(
        long(api)
    )
    assert trip.error is not None
    assert [report.error for report in reports] == [type(trip.error).__name__]
    assert reports[0].changed
