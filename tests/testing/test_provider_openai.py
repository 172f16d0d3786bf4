"""The loopback provider as real OpenAI clients see it."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from compacting_client.testing import Failure, Provider, Thinking, ToolCall

ASK: dict[str, Any] = {
    "model": "gpt-5",
    "messages": [{"role": "user", "content": "What is the weather in Rome and Oslo?"}],
}
ROME, OSLO = ToolCall("get_weather", {"city": "Rome"}), ToolCall("get_weather", {"city": "Oslo 🏔"})


def asking(**changes: Any) -> dict[str, Any]:
    return {**ASK, **changes}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture
def client(provider: Provider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=provider.openai_url, api_key="test", max_retries=0) as made:
        yield made


def whole(client: openai.OpenAI, **request: Any) -> ChatCompletion:
    """The answer, put together by the SDK from a stream."""
    with client.chat.completions.stream(**request) as stream:
        for _ in stream:
            pass
        return stream.get_final_completion()


def results(answer: ChatCompletion, *contents: str) -> list[dict[str, Any]]:
    calls = answer.choices[0].message.tool_calls or []
    return [
        {"role": "tool", "tool_call_id": call.id, "content": text} for call, text in zip(calls, contents, strict=True)
    ]


@pytest.mark.parametrize("streamed", [False, True])
def test_text(provider: Provider, client: openai.OpenAI, streamed: bool) -> None:
    """Text comes back as it was scripted, with a finish reason, whole or put together from deltas."""
    provider.reply("Sunny ", "in Rome — 24 °C 🌞")
    answer = whole(client, **ASK) if streamed else client.chat.completions.create(**ASK)
    choice = answer.choices[0]
    assert (choice.message.content, choice.message.role, choice.finish_reason) == (
        "Sunny in Rome — 24 °C 🌞",
        "assistant",
        "stop",
    )
    assert (answer.object, answer.model, answer.id[:9]) == ("chat.completion", "gpt-5", "chatcmpl-")


@pytest.mark.parametrize("streamed", [False, True])
def test_tool_calls(provider: Provider, client: openai.OpenAI, streamed: bool) -> None:
    """Parallel calls beside text have JSON arguments, the finish reason of calls, and ids of their own."""
    provider.reply("Let me look.", ROME, OSLO)
    answer = whole(client, **ASK) if streamed else client.chat.completions.create(**ASK)
    message = answer.choices[0].message
    calls: list[Any] = list(message.tool_calls or [])
    assert (message.content, answer.choices[0].finish_reason) == ("Let me look.", "tool_calls")
    assert [(call.function.name, json.loads(call.function.arguments)) for call in calls] == [
        ("get_weather", {"city": "Rome"}),
        ("get_weather", {"city": "Oslo 🏔"}),
    ]
    assert len({call.id for call in calls}) == 2
    assert all(call.id.startswith("call_") and len(call.id) <= 40 for call in calls)


def test_calls_alone_have_no_text_and_may_have_a_given_id(provider: Provider, client: openai.OpenAI) -> None:
    """As at OpenAI, content is null beside nothing but calls; an id given in the script is used."""
    provider.reply(ToolCall("f", id="call_again"))
    message = client.chat.completions.create(**ASK).choices[0].message
    assert message.content is None
    assert [call.id for call in message.tool_calls or []] == ["call_again"]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop(provider: Provider, client: openai.OpenAI, streamed: bool) -> None:
    """The SDK's own message objects, sent back with their results, are accepted."""
    provider.reply(ROME, OSLO)
    provider.reply("24 and 9 degrees.")
    answer = whole(client, **ASK) if streamed else client.chat.completions.create(**ASK)
    history: list[Any] = [*ASK["messages"], answer.choices[0].message, *results(answer, "24", "9")]
    assert (
        client.chat.completions.create(model="gpt-5", messages=history).choices[0].message.content
        == "24 and 9 degrees."
    )


def test_the_chunks_of_a_stream(provider: Provider, client: openai.OpenAI) -> None:
    """Role first, text and arguments in several pieces, then the finish reason; no usage unless it is asked for."""
    provider.reply("Let me look.", ROME)
    chunks = list(client.chat.completions.create(**ASK, stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert (deltas[0].role, [delta.role for delta in deltas[1:]]) == ("assistant", [None] * (len(chunks) - 1))
    assert len([delta for delta in deltas if delta.content]) > 2
    pieces = [call for delta in deltas for call in delta.tool_calls or []]
    assert (pieces[0].id is not None, [piece.id for piece in pieces[1:]]) == (True, [None] * (len(pieces) - 1))
    assert len(pieces) > 3
    assert [chunk.choices[0].finish_reason for chunk in chunks[-2:]] == [None, "tool_calls"]
    assert len({chunk.id for chunk in chunks}) == 1
    assert [chunk for chunk in chunks if chunk.usage is not None] == []


def test_usage_of_a_stream_is_the_usage_of_the_plain_answer(provider: Provider, client: openai.OpenAI) -> None:
    """With `include_usage` one more chunk without choices carries it; the chunks before hold a null."""
    provider.reply("Sunny.")
    provider.reply("Sunny.")
    plain = client.chat.completions.create(**asking(model="gpt-5-mini")).usage
    *chunks, last = client.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True})
    assert (last.choices, last.usage) == ([], plain)
    assert all(chunk.usage is None and "usage" in chunk.to_dict() for chunk in chunks)


def test_thinking_is_reasoning_content(provider: Provider, client: openai.OpenAI) -> None:
    """Chat servers that show their thinking put it into a field of its own, before the text, and count it."""
    provider.reply(Thinking("Rome is in Italy."), "Sunny.")
    provider.reply(Thinking("Rome is in Italy."), "Sunny.")
    answer = client.chat.completions.create(**ASK)
    message = answer.choices[0].message
    assert (message.content, message.to_dict()["reasoning_content"]) == ("Sunny.", "Rome is in Italy.")
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.reasoning_tokens == 5
    deltas = [chunk.choices[0].delta.to_dict() for chunk in client.chat.completions.create(**ASK, stream=True)]
    assert "".join(str(delta.get("reasoning_content", "")) for delta in deltas) == "Rome is in Italy."


async def test_the_async_client(provider: Provider) -> None:
    """Plain and streamed answers, calls and failures reach an async client as they reach a sync one."""
    for _ in range(2):
        provider.reply("Let me look.", ROME)
    provider.reply(Failure(500))
    async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="test", max_retries=0) as client:
        plain = await client.chat.completions.create(**ASK)
        chunks: list[ChatCompletionChunk] = [
            chunk async for chunk in await client.chat.completions.create(**ASK, stream=True)
        ]
        with pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(**ASK)
    assert plain.choices[0].finish_reason == chunks[-1].choices[0].finish_reason == "tool_calls"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == plain.choices[0].message.content


async def test_an_async_stream_closed_early(provider: Provider) -> None:
    """The next request of the same client is answered."""
    provider.reply("word " * 50_000)
    async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="test", max_retries=0) as client:
        async with await client.chat.completions.create(**ASK, stream=True) as stream:
            await anext(aiter(stream))
        await client.chat.completions.create(**ASK)


@pytest.mark.parametrize(
    ("failure", "error", "code"),
    [
        (Failure(400, "Bad idea."), openai.BadRequestError, None),
        (Failure(400, "Too long.", code="context_length_exceeded"), openai.BadRequestError, "context_length_exceeded"),
        (Failure(401), openai.AuthenticationError, "invalid_api_key"),
        (Failure(418), openai.APIStatusError, None),
        (Failure(429), openai.RateLimitError, "rate_limit_exceeded"),
        (Failure(500), openai.InternalServerError, None),
        (Failure(599), openai.InternalServerError, None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_failures(
    provider: Provider, client: openai.OpenAI, failure: Failure, error: type, code: str | None, stream: bool
) -> None:
    """Each status becomes the SDK's error of that status, with message, code and request id."""
    provider.reply(failure)
    with pytest.raises(error) as caught:
        client.chat.completions.create(**ASK, stream=stream)
    assert isinstance(caught.value, openai.APIStatusError)
    assert (caught.value.status_code, caught.value.code) == (failure.status, code)
    assert failure.message is None or failure.message in caught.value.message
    assert str(caught.value.request_id).startswith("req_")
    assert provider.requests[0].refusal is None


@pytest.mark.parametrize(
    ("messages", "rule", "wording"),
    [
        ([], "oc-empty", "empty array"),
        (
            [*ASK["messages"], {"role": "tool", "tool_call_id": "call_1", "content": "24"}],
            "oc-tool-orphan",
            "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'",
        ),
        (
            [
                *ASK["messages"],
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                },
                {"role": "user", "content": "And?"},
            ],
            "oc-tool-unanswered",
            "did not have response messages: call_1",
        ),
        ([{"role": "user", "content": None}], "oc-content-null", "expected a string, got null"),
    ],
)
def test_refusals(provider: Provider, client: openai.OpenAI, messages: Any, rule: str, wording: str) -> None:
    """A history that OpenAI refuses gets its 400 and its wording, and the broken rule stands in the record."""
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="gpt-5", messages=messages)
    assert wording in caught.value.message
    assert caught.value.type == "invalid_request_error"
    (recorded,) = provider.requests
    assert recorded.refusal is not None
    assert (recorded.refusal.rule, recorded.status) == (rule, 400)


def test_the_window() -> None:
    """Above it the provider says how much was too much, in OpenAI's words; the reserve for the answer counts."""
    with Provider(window=200) as provider, openai.OpenAI(base_url=provider.openai_url, api_key="test") as client:
        answer = client.chat.completions.create(**ASK, max_completion_tokens=150)
        assert answer.usage is not None
        size = answer.usage.prompt_tokens
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(**ASK, max_completion_tokens=200)
        assert caught.value.code == "context_length_exceeded"
        assert (
            f"maximum context length is 200 tokens. However, you requested {size + 200} tokens ({size} in the messages, 200 in"
            in str(caught.value)
        )
        with pytest.raises(openai.BadRequestError, match="maximum context length is 200 tokens"):
            client.chat.completions.create(
                model="gpt-5", messages=[{"role": "user", "content": "x" * 800}], stream=True
            )
        refusals = [request.refusal.rule if request.refusal else None for request in provider.requests]
    assert refusals == [None, "context_length_exceeded", "context_length_exceeded"]


def test_tools_count_and_pictures_do_not_count_by_their_base64(provider: Provider, client: openai.OpenAI) -> None:
    """The prompt's size is a quarter of its JSON, tools included; an inline picture is a flat 1,600 tokens."""

    def size(**more: Any) -> int:
        usage = client.chat.completions.create(**asking(**more)).usage
        assert usage is not None
        return usage.prompt_tokens

    plain = size()
    assert plain == -(-len('{"content":"What is the weather in Rome and Oslo?","role":"user"}') // 4)
    assert size(tools=[{"type": "function", "function": {"name": "f", "description": "x" * 400}}]) > plain + 100
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000_000}}
    assert 1_600 < size(messages=[{"role": "user", "content": [picture]}]) < 1_650


def test_the_prompt_cache(provider: Provider, client: openai.OpenAI) -> None:
    """Leading messages that an earlier request of the same model had are cached; what an edit precedes is not."""

    def cached(*texts: str, model: str = "gpt-5") -> tuple[int, int]:
        messages: Any = [{"role": "user", "content": text} for text in texts]
        usage = client.chat.completions.create(model=model, messages=messages).usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        return usage.prompt_tokens_details.cached_tokens or 0, usage.prompt_tokens

    one, two, three = ("a" * 400, "b" * 400, "c" * 400)
    zero, first = cached(one)
    assert zero == 0
    assert cached(one, two) == (first, 2 * first)
    assert cached(one, two, three)[0] == 2 * first
    assert cached(two, three)[0] == 0
    assert cached(one, three)[0] == first
    assert cached(one, model="gpt-5-mini")[0] == 0
    provider.reply(Failure(500))
    with pytest.raises(openai.InternalServerError):
        cached("new")
    assert cached("new")[0] == 0
