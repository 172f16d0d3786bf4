"""A stream that the caller leaves before its end: the report says so, since its usage is then missing or a part, and nothing else tells."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from compacting_client import compacting
from compacting_client.testing import EventCapture, Provider
from tests.bindings.support import POLICY, chat_request, claude_request

APIS = ("openai", "anthropic", "google")
each_api = pytest.mark.parametrize("api", APIS)


class LoopError(Exception):
    """What an application's own code raises."""


def plain(provider: Provider, api: str, *, awaited: bool) -> Any:
    """A client of the SDK."""
    if api == "google":
        made = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=provider.google_url))
        return made.aio if awaited else made
    sdk: Any = openai if api == "openai" else anthropic
    made = getattr(sdk, ("Async" if awaited else "") + ("OpenAI" if api == "openai" else "Anthropic"))
    url = provider.openai_url if api == "openai" else provider.anthropic_url
    return made(base_url=url, api_key="k", max_retries=0)


def begun(client: Any, api: str) -> Any:
    """A stream; to be awaited on async clients."""
    if api == "openai":
        return client.chat.completions.create(**chat_request(), stream=True)
    if api == "anthropic":
        return client.messages.create(**claude_request(), stream=True)
    return client.models.generate_content_stream(model="gemini-2.5-flash", contents="Hi")


def left(stream: Iterator[Any], way: str) -> None:
    """Begin to read, and leave."""
    with suppress(LoopError):
        for _ in stream:
            if way == "break":
                break
            if way == "error":
                raise LoopError
    stream.close()  # type: ignore[attr-defined]


async def aleft(stream: Any, way: str) -> None:
    """The same, awaited."""
    with suppress(LoopError):
        async for _ in stream:
            if way == "break":
                break
            if way == "error":
                raise LoopError
    await (stream.aclose() if hasattr(stream, "aclose") else stream.close())


@pytest.mark.parametrize(("way", "early"), [("break", True), ("error", True), ("whole", False)])
@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@each_api
def test_the_report_says_that_a_stream_was_left(
    provider: Provider, api: str, awaited: bool, way: str, early: bool
) -> None:
    """By `break` or by an error in the loop's body, which is none of the request; `on_report` is told it, once, and `str()` shows it."""
    provider.reply("one two three four five six seven eight")
    reports = EventCapture()
    client: Any = compacting(plain(provider, api, awaited=awaited), POLICY, on_report=reports)

    async def read() -> None:
        async with client:
            await aleft(await begun(client, api), way)

    if awaited:
        asyncio.run(read())
    else:
        with client:
            left(begun(client, api), way)
    (report,) = reports.events
    assert (report.left_early, report.as_dict()["left_early"], report.error) == (early, early, None)
    assert ("left before its end" in str(report)) == early


@pytest.mark.parametrize("way", ["unread", "left", "read", "raw"])
def test_helpers_and_raw_streams(provider: Provider, chat: openai.OpenAI, way: str) -> None:
    """A helper's `with` block that ends without a look, or after one; one that is read; and a raw response that is parsed and left."""
    reports = EventCapture()
    client = compacting(chat, POLICY, on_report=reports)
    if way == "raw":
        stream = client.chat.completions.with_raw_response.create(**chat_request(), stream=True).parse()
        next(iter(stream))
        stream.close()
    else:
        with client.chat.completions.stream(**chat_request()) as events:
            if way == "left":
                next(events)
            if way == "read":
                events.get_final_completion()
    (report,) = reports.events
    assert report.left_early == (way != "read")


def test_the_text_stream_of_anthropic(provider: Provider, claude: anthropic.Anthropic) -> None:
    """Read whole it is no stream that was left; and what `message_start` told of the input stays, where it was."""
    reports = EventCapture()
    client = compacting(claude, POLICY, on_report=reports)
    for stops in (False, True):
        with client.messages.stream(**claude_request()) as stream:
            for _ in stream.text_stream:
                if stops:
                    break
    assert [report.left_early for report in reports.events] == [False, True]
    assert reports.events[1].usage.input_tokens == reports.events[0].usage.input_tokens


async def stalls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that begins a stream, and never goes on."""
    await reader.readuntil(b"\r\n\r\n")
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    writer.write(f"{head}data: {json.dumps(chunk)}\n\n".encode())
    await writer.drain()
    await reader.read()  # the client goes away
    writer.close()
    await writer.wait_closed()


async def test_a_task_that_is_cancelled_while_it_waits_for_a_chunk() -> None:
    """The request ended in the cancellation: `error` names it, as for one that is cancelled before its response."""
    reports, waiting = EventCapture(), asyncio.Event()
    async with await asyncio.start_server(stalls, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        inner = openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
        async with compacting(inner, POLICY, on_report=reports) as client:

            async def read() -> None:
                async for _ in await client.chat.completions.create(**chat_request(), stream=True):
                    waiting.set()

            task = asyncio.create_task(read())
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert [(report.error, report.left_early) for report in reports.events] == [("CancelledError", False)]
