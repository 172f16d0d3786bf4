"""One decision and one report per call, whatever the SDK does with it: retries, errors, streams that end early."""

import contextlib
import gc
from typing import Any

import anthropic
import openai
import pytest

from compacting_client import BudgetError, Report, compacting, control
from compacting_client.testing import EventCapture, Failure, Provider
from tests.bindings.support import POLICY, chat_request, claude_request, history, is_compacted, params, sent

SOON = Failure(500, retry_after=0)


def test_retries_of_the_openai_sdk_send_one_body(provider: Provider, chat: openai.OpenAI) -> None:
    """500, 500, 200 is one policy run, one event and one report; the same body leaves three times."""
    provider.reply(SOON)
    provider.reply(SOON)
    events, reports = EventCapture(), EventCapture()
    client = compacting(chat, POLICY, on_event=events, on_report=reports).with_options(max_retries=2)
    client.chat.completions.create(**chat_request())
    assert [request.status for request in provider.requests] == [500, 500, 200]
    assert is_compacted(sent(provider, 0), history(system=True))
    assert provider.requests[0].body == provider.requests[1].body == provider.requests[2].body
    assert events.names.count("compaction.applied") == 1
    assert len(reports.events) == 1


async def test_retries_of_the_anthropic_sdk_send_one_body(
    provider: Provider, aclaude: anthropic.AsyncAnthropic
) -> None:
    """The same with an async client, a generator of messages and a stream."""
    provider.reply(SOON)
    provider.reply(SOON)
    events, reports = EventCapture(), EventCapture()
    client = compacting(aclaude, POLICY, on_event=events, on_report=reports).with_options(max_retries=2)
    async for _ in await client.messages.create(**claude_request(iter(history())), stream=True):
        assert reports.events == []
    assert [request.status for request in provider.requests] == [500, 500, 200]
    assert provider.requests[0].body == provider.requests[1].body == provider.requests[2].body
    assert events.names.count("compaction.applied") == 1
    assert len(reports.events) == 1


def test_errors_are_the_sdks_own(provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """The type, the status and the body of an error are those of the plain client, with one report that names it."""
    for plain, call, expected in (
        (chat, lambda c: c.chat.completions.create(**chat_request()), openai.RateLimitError),
        (claude, lambda c: c.messages.create(**claude_request()), anthropic.RateLimitError),
    ):
        reports = EventCapture()
        wrapped = compacting(plain, POLICY, on_report=reports)
        caught = []
        for client in (plain, wrapped):
            provider.reply(Failure(429, "slow down"))
            with pytest.raises(expected, match="slow down") as error:
                call(client)
            caught.append(error.value)
        assert type(caught[0]) is type(caught[1]) is expected
        assert str(caught[0]).partition("req_")[0] == str(caught[1]).partition("req_")[0]
        (report,) = reports.of(Report)
        assert report.error == "RateLimitError"
        assert control(wrapped).last_report is report
        assert report.changed


def test_a_connection_that_fails_is_the_sdks_own_error() -> None:
    """Nobody listens: APIConnectionError, and one report."""
    reports = EventCapture()
    with openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="test", max_retries=0) as plain:
        client = compacting(plain, POLICY, on_report=reports)
        with pytest.raises(openai.APIConnectionError):
            client.chat.completions.create(**chat_request())
    assert [report.error for report in reports.events] == ["APIConnectionError"]


def test_a_request_over_budget_is_reported_once_and_not_sent(provider: Provider, chat: openai.OpenAI) -> None:
    """`on_unfit="raise"`: BudgetError with the report, which `on_report` gets too, once."""
    reports = EventCapture()
    client = compacting(chat, 10, on_unfit="raise", on_report=reports)
    with pytest.raises(BudgetError, match="10") as error:
        client.chat.completions.create(**chat_request())
    assert reports.events == [error.value.report]
    assert not error.value.report.fits
    assert provider.requests == []


# What is left of a stream when its consumer has had enough; each returns when no more is wanted.
def exhausted(client: Any) -> None:
    for _ in client.create(stream=True):
        pass


def never_begun(client: Any) -> None:
    client.create(stream=True).close()


def closed_early(client: Any) -> None:
    stream = client.create(stream=True)
    next(stream)
    stream.close()
    stream.close()


def left_early(client: Any) -> None:
    with client.create(stream=True) as stream:
        for _ in stream:
            break


def raised_inside(client: Any) -> None:
    with contextlib.suppress(LookupError), client.create(stream=True) as stream:
        for _ in stream:
            raise LookupError


def dropped(client: Any) -> None:
    stream = client.create(stream=True)
    next(stream)
    del stream
    gc.collect(1)


def helper_exhausted(client: Any) -> None:
    with client.stream() as stream:
        stream.until_done()


def helper_left_early(client: Any) -> None:
    with client.stream() as stream:
        for _ in stream:
            break


def helper_never_begun(client: Any) -> None:
    with client.stream():
        pass


def raw_and_streamed(client: Any) -> None:
    for _ in client.with_raw_response.create(stream=True).parse():
        pass


def raw_streamed_and_closed(client: Any) -> None:
    client.with_raw_response.create(stream=True).parse().close()


def raw_streamed_and_read_as_bytes(client: Any) -> None:
    client.with_raw_response.create(stream=True).http_response.read()


def streaming_response_parsed(client: Any) -> None:
    with client.with_streaming_response.create() as response:
        response.parse()
        response.parse()


def streaming_response_read(client: Any) -> None:
    with client.with_streaming_response.create() as response:
        response.json()


def streaming_response_ignored(client: Any) -> None:
    with client.with_streaming_response.create():
        pass


def streaming_response_streamed(client: Any) -> None:
    with client.with_streaming_response.create(stream=True) as response:
        for _ in response.parse():
            break


def raw(client: Any) -> None:
    response = client.with_raw_response.create()
    response.parse()
    response.parse()


STREAMS = {
    each.__name__: each
    for each in (
        exhausted,
        never_begun,
        closed_early,
        left_early,
        raised_inside,
        dropped,
        helper_exhausted,
        helper_left_early,
        helper_never_begun,
        raw_and_streamed,
        raw_streamed_and_closed,
        raw_streamed_and_read_as_bytes,
        streaming_response_parsed,
        streaming_response_read,
        streaming_response_ignored,
        streaming_response_streamed,
        raw,
    )
}


class Calls:
    """The calls of one resource with their arguments filled in."""

    def __init__(self, resource: Any, request: Any) -> None:
        self._resource, self._request = resource, request

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._resource, name)
        return (
            Calls(found, self._request) if name.startswith("with_") else lambda **more: found(**self._request, **more)
        )


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize("consume", params(STREAMS))
def test_one_report_however_a_response_ends(chat: openai.OpenAI, claude: anthropic.Anthropic, consume: Any) -> None:
    """`on_report` is called once: at the end of a stream, when it is closed, or when what was read raw is closed."""
    for plain, request in ((chat, chat_request()), (claude, claude_request())):
        reports = EventCapture()
        client: Any = compacting(plain, POLICY, on_report=reports)
        consume(Calls(client.chat.completions if plain is chat else client.messages, request))
        assert len(reports.events) == 1
        gc.collect(1)
        assert len(reports.events) == 1


async def aexhausted(client: Any) -> None:
    async for _ in await client.create(stream=True):
        pass


async def anever_begun(client: Any) -> None:
    await (await client.create(stream=True)).close()


async def aleft_early(client: Any) -> None:
    async with await client.create(stream=True) as stream:
        async for _ in stream:
            break


async def ahelper_left_early(client: Any) -> None:
    async with client.stream() as stream:
        async for _ in stream:
            break


async def ahelper_exhausted(client: Any) -> None:
    async with client.stream() as stream:
        await stream.until_done()


async def astreaming_response_parsed(client: Any) -> None:
    async with client.with_streaming_response.create() as response:
        await response.parse()


async def astreaming_response_ignored(client: Any) -> None:
    async with client.with_streaming_response.create():
        pass


ASYNC_STREAMS = {
    each.__name__: each
    for each in (
        aexhausted,
        anever_begun,
        aleft_early,
        ahelper_left_early,
        ahelper_exhausted,
        astreaming_response_parsed,
        astreaming_response_ignored,
    )
}


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize("consume", params(ASYNC_STREAMS))
async def test_one_report_however_an_async_response_ends(
    achat: openai.AsyncOpenAI, aclaude: anthropic.AsyncAnthropic, consume: Any
) -> None:
    """The same on async clients, the callback awaited."""
    for plain, request in ((achat, chat_request()), (aclaude, claude_request())):
        reports = EventCapture()

        async def keep(report: Any, reports: EventCapture = reports) -> None:
            reports(report)

        client: Any = compacting(plain, POLICY, on_report=keep)
        await consume(Calls(client.chat.completions if plain is achat else client.messages, request))
        assert len(reports.events) == 1
        gc.collect(1)
        assert len(reports.events) == 1


def test_an_error_inside_a_stream_is_reported(claude: anthropic.Anthropic) -> None:
    """A stream that breaks raises the SDK's error from the iterator; the report, handed out once, names it."""
    reports = EventCapture()
    stream = compacting(claude, POLICY, on_report=reports).messages.create(**claude_request(), stream=True)
    process, left = stream._client._process_response_data, [1, 2, 3]

    def broken(**more: Any) -> Any:
        if not left:
            raise ValueError("no JSON")
        left.pop()
        return process(**more)

    stream._client._process_response_data = broken  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="no JSON"):
        list(stream)
    assert [report.error for report in reports.events] == ["ValueError"]


def test_a_dropped_stream_is_closed_at_once(claude: anthropic.Anthropic) -> None:
    """The watch makes no reference cycle: without the garbage collector, a stream that nobody holds is over."""
    reports = EventCapture()
    client = compacting(claude, POLICY, on_report=reports)
    stream = client.messages.create(**claude_request(), stream=True)
    next(stream)
    http = stream.response
    gc.disable()
    try:
        del stream
        assert http.is_closed
        assert len(reports.events) == 1
    finally:
        gc.enable()
