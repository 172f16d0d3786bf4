"""What a call gives back is the SDK's own, and the account is found by it: reports and their usage."""

import json
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion

from compacting_client import compacting, control
from compacting_client.formats.base import Usage
from compacting_client.testing import Provider, ToolCall
from tests.bindings.support import POLICY, chat_request, claude_request, report_of

WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}


def usage_of(provider: Provider, client: Any, response: Any) -> Usage:
    """The usage in the report of a response, checked against what the provider counted: the request as it arrived."""
    report = report_of(client, response)
    usage = report.usage
    assert usage is not None
    messages = provider.requests[-1].body["messages"]
    size = len(json.dumps(messages, separators=(",", ":"), ensure_ascii=False)) // 4
    assert 0.9 * size <= usage.input_tokens <= 1.1 * size
    assert usage.output_tokens > 0
    assert report.changed
    return usage


def test_plain_responses(provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """The very types of the SDK, the usage that stands in them, and the report found by the object."""
    client = compacting(chat, POLICY)
    completion = client.chat.completions.create(**chat_request())
    assert type(completion) is ChatCompletion
    assert completion.usage is not None
    assert usage_of(provider, client, completion) == Usage(
        completion.usage.prompt_tokens, 0, completion.usage.completion_tokens
    )
    also = compacting(claude, POLICY)
    message = also.messages.create(**claude_request())
    assert type(message) is Message
    assert usage_of(provider, also, message) == Usage(message.usage.input_tokens, 0, message.usage.output_tokens)


def test_each_response_has_its_own_report(chat: openai.OpenAI) -> None:
    """Reports are told apart by the objects, and another object has none."""
    client = compacting(chat, POLICY)
    responses = [client.chat.completions.create(**chat_request()) for _ in range(3)]
    reports = [report_of(client, response) for response in responses]
    assert len({report.request_id for report in reports}) == 3
    assert control(client).last_report is reports[-1]
    for other in (None, "text", 7, object(), {}, chat, responses[0].choices[0], responses[0].model_copy()):
        assert control(client).report_for(other) is None


class Hostile:
    @property
    def response(self) -> Any:
        raise RuntimeError("not now")


def test_report_for_asks_any_object(chat: openai.OpenAI) -> None:
    """An object whose properties raise has no report, and breaks nothing."""
    assert control(compacting(chat, POLICY)).report_for(Hostile()) is None


def test_streams_of_the_openai_sdk(provider: Provider, chat: openai.OpenAI) -> None:
    """The report is there with the stream; the usage at its end, where the caller asked for it; nothing is added to the request."""
    client: Any = compacting(chat, POLICY)
    plain = client.chat.completions.create(**chat_request(), stream=True)
    assert type(plain) is openai.Stream
    assert report_of(client, plain).changed
    text = "".join(chunk.choices[0].delta.content or "" for chunk in plain)
    assert text.startswith("This is the loopback provider")
    assert report_of(client, plain).usage is None
    assert "stream_options" not in provider.requests[-1].body
    counted = client.chat.completions.create(**chat_request(**WITH_USAGE))
    assert report_of(client, counted).usage is None
    with counted as entered:
        assert entered is counted
        chunks = list(counted)
    assert usage_of(provider, client, counted).input_tokens == chunks[-1].usage.prompt_tokens


def test_streams_of_the_anthropic_sdk(provider: Provider, claude: anthropic.Anthropic) -> None:
    """Usage comes with the first event and is complete with the last."""
    client = compacting(claude, POLICY)
    stream = client.messages.create(**claude_request(), stream=True)
    assert type(stream) is anthropic.Stream
    assert next(stream).type == "message_start"
    first = report_of(client, stream).usage
    assert first is not None
    assert [event.type for event in stream][-1] == "message_stop"
    assert usage_of(provider, client, stream).output_tokens > first.output_tokens


async def test_async_streams(provider: Provider, achat: openai.AsyncOpenAI, aclaude: anthropic.AsyncAnthropic) -> None:
    """The same on async clients, by iteration and with `async with`."""
    client: Any = compacting(achat, POLICY)
    stream = await client.chat.completions.create(**chat_request(**WITH_USAGE))
    assert type(stream) is openai.AsyncStream
    async with stream as entered:
        assert entered is stream
        async for _ in stream:
            pass
    usage_of(provider, client, stream)
    also = compacting(aclaude, POLICY)
    events = await also.messages.create(**claude_request(), stream=True)
    assert type(events) is anthropic.AsyncStream
    assert (await anext(events)).type == "message_start"
    async for _ in events:
        pass
    usage_of(provider, also, events)


def test_stream_helpers(provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """The helpers' own methods work, and their reports are found by the helper."""
    client = compacting(chat, POLICY)
    with client.chat.completions.stream(**chat_request(), stream_options={"include_usage": True}) as stream:
        assert type(stream).__name__ == "ChatCompletionStream"
        assert any(event.type == "content.delta" for event in stream)
        final = stream.get_final_completion()
    assert final.usage is not None
    assert usage_of(provider, client, stream).input_tokens == final.usage.prompt_tokens
    also = compacting(claude, POLICY)
    with also.messages.stream(**claude_request()) as messages:
        assert type(messages).__name__ == "MessageStream"
        assert "".join(messages.text_stream).startswith("This is the loopback provider")
        message = messages.get_final_message()
    assert usage_of(provider, also, messages).output_tokens == message.usage.output_tokens


async def test_async_stream_helpers(
    provider: Provider, achat: openai.AsyncOpenAI, aclaude: anthropic.AsyncAnthropic
) -> None:
    """The same, awaited, with a tool call in the stream."""
    call = ToolCall("look_up", {"n": 1})
    provider.reply(call)
    client = compacting(achat, POLICY)
    async with client.chat.completions.stream(**chat_request(), stream_options={"include_usage": True}) as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].message.tool_calls is not None
    usage_of(provider, client, stream)
    provider.reply(call)
    also = compacting(aclaude, POLICY)
    async with also.messages.stream(**claude_request()) as messages:
        message = await messages.get_final_message()
    assert message.stop_reason == "tool_use"
    usage_of(provider, also, messages)


def test_raw_responses(provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """A raw response, and what it is parsed into, have one report, whose usage is there at once."""
    client = compacting(chat, POLICY)
    raw = client.chat.completions.with_raw_response.create(**chat_request())
    assert type(raw).__name__ == "LegacyAPIResponse"
    usage_of(provider, client, raw)
    parsed = raw.parse()
    assert type(parsed) is ChatCompletion
    assert raw.parse() is parsed
    assert report_of(client, parsed) is report_of(client, raw)
    also = compacting(claude, POLICY)
    response = also.messages.with_raw_response.create(**claude_request())
    assert response.headers["request-id"]
    usage_of(provider, also, response)
    message = response.parse()
    assert type(message) is Message
    assert report_of(also, message) is report_of(also, response)


async def test_async_raw_responses(
    provider: Provider, achat: openai.AsyncOpenAI, aclaude: anthropic.AsyncAnthropic
) -> None:
    """The same on async clients, where `parse` is a coroutine in one SDK and none in the other."""
    client: Any = compacting(achat, POLICY)
    raw = await client.chat.completions.with_raw_response.create(**chat_request())
    usage_of(provider, client, raw)
    assert report_of(client, raw.parse()) is report_of(client, raw)
    also: Any = compacting(aclaude, POLICY)
    response = await also.messages.with_raw_response.create(**claude_request())
    usage_of(provider, also, response)
    assert report_of(also, await response.parse()) is report_of(also, response)


def test_streaming_responses(provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """`with_streaming_response`: the usage is there once the body was read, by whichever method."""
    client: Any = compacting(chat, POLICY)
    with client.chat.completions.with_streaming_response.create(**chat_request()) as response:
        assert type(response).__name__ == "APIResponse"
        assert report_of(client, response).usage is None
        parsed = response.parse()
        usage_of(provider, client, response)
        assert report_of(client, parsed) is report_of(client, response)
    also: Any = compacting(claude, POLICY)
    with also.messages.with_streaming_response.create(**claude_request()) as response:
        assert response.json()["type"] == "message"
    usage_of(provider, also, response)
    with also.messages.with_streaming_response.create(**claude_request()) as response:
        assert "".join(response.iter_text()).startswith("{")
    assert report_of(also, response).changed


async def test_async_streaming_responses(provider: Provider, aclaude: anthropic.AsyncAnthropic) -> None:
    """The same, awaited; lines of a stream can be read raw."""
    client: Any = compacting(aclaude, POLICY)
    async with client.messages.with_streaming_response.create(**claude_request()) as response:
        message = await response.parse()
    usage_of(provider, client, response)
    assert report_of(client, message) is report_of(client, response)
    async with client.messages.with_streaming_response.create(**claude_request(), stream=True) as response:
        lines = [line async for line in response.iter_lines()]
    assert "event: message_stop" in lines


def test_raw_and_streamed(provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """A stream made of a raw response has the raw response's report, filled in at its end."""
    client: Any = compacting(chat, POLICY)
    raw = client.chat.completions.with_raw_response.create(**chat_request(**WITH_USAGE))
    stream = raw.parse()
    assert type(stream) is openai.Stream
    assert report_of(client, stream) is report_of(client, raw)
    assert list(stream)
    usage_of(provider, client, raw)
    also: Any = compacting(claude, POLICY)
    response = also.messages.with_raw_response.create(**claude_request(), stream=True)
    events = response.parse()
    assert report_of(also, events) is report_of(also, response)
    assert [event.type for event in events][-1] == "message_stop"
    usage_of(provider, also, response)


def test_on_report_gets_the_usage(chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """Whichever way a response was read, its usage is in the report by the time that `on_report` is called."""
    usages: list[Any] = []
    client: Any = compacting(chat, POLICY, on_report=lambda report: usages.append(report.usage))
    also: Any = compacting(claude, POLICY, on_report=lambda report: usages.append(report.usage))
    client.chat.completions.create(**chat_request())
    client.chat.completions.with_raw_response.create(**chat_request())
    list(client.chat.completions.create(**chat_request(**WITH_USAGE)))
    list(client.chat.completions.with_raw_response.create(**chat_request(**WITH_USAGE)).parse())
    with client.chat.completions.with_streaming_response.create(**chat_request()) as response:
        response.parse()
    with also.messages.with_streaming_response.create(**claude_request()) as response:
        response.read()
    with also.messages.stream(**claude_request()) as stream:
        stream.until_done()
    assert len(usages) == 7
    assert all(usage is not None and usage.output_tokens > 1 for usage in usages)


@pytest.mark.parametrize("to", [dict, str, object])
def test_a_type_that_cannot_be_referenced_weakly_has_no_report(chat: openai.OpenAI, to: Any) -> None:
    """`cast_to` a plain type works; its report is the last one."""
    client = compacting(chat, POLICY)
    response = client.post("/chat/completions", body=chat_request(), cast_to=to)
    assert isinstance(response, to)
    assert control(client).report_for(response) is None
    report = control(client).last_report
    assert report is not None
    assert report.changed
