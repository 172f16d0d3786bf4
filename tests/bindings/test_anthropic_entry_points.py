"""Anthropic: whichever way a message leaves the SDK, it leaves compacted, once."""

from typing import Any

import anthropic
import pytest
from anthropic.types import Message
from pydantic import BaseModel

from compacting_client import compacting, is_compacting
from compacting_client.testing import Provider, ToolCall
from tests.bindings.support import CLAUDE, POLICY, claude_request, history, is_compacted, params, sent


class Answer(BaseModel):
    text: str


@anthropic.beta_tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name
    """
    return f"It is sunny in {city}."


@anthropic.beta_async_tool
async def aweather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name
    """
    return f"It is sunny in {city}."


def helper(messages: Any, request: Any) -> None:
    with messages.stream(**request) as stream:
        stream.get_final_message()


def streaming_response(view: Any, request: Any) -> None:
    with view.create(**request) as response:
        response.parse()


def middleware(request: Any, call_next: Any) -> Any:
    return call_next(request)


ENTRIES = {
    "create": lambda c, r: c.messages.create(**r),
    "tuple": lambda c, r: c.messages.create(**{**r, "messages": tuple(r["messages"])}),
    "generator": lambda c, r: c.messages.create(**{**r, "messages": (each for each in r["messages"])}),
    "streamed": lambda c, r: list(c.messages.create(**r, stream=True)),
    "stream helper": lambda c, r: helper(c.messages, r),
    "parse": lambda c, r: c.messages.parse(**r),
    "raw": lambda c, r: c.messages.with_raw_response.create(**r).parse(),
    "raw of the client": lambda c, r: c.with_raw_response.messages.create(**r).parse(),
    "raw and streamed": lambda c, r: list(c.messages.with_raw_response.create(**r, stream=True).parse()),
    "streaming response": lambda c, r: streaming_response(c.messages.with_streaming_response, r),
    "streaming response of the client": lambda c, r: streaming_response(c.with_streaming_response.messages, r),
    "beta create": lambda c, r: c.beta.messages.create(**r),
    "beta streamed": lambda c, r: list(c.beta.messages.create(**r, stream=True)),
    "beta stream helper": lambda c, r: helper(c.beta.messages, r),
    "beta parse": lambda c, r: c.beta.messages.parse(**r),
    "beta raw": lambda c, r: c.beta.messages.with_raw_response.create(**r).parse(),
    "with_options": lambda c, r: c.with_options(timeout=30).messages.create(**r),
    "a copy of a copy": lambda c, r: c.copy().copy().messages.create(**r),
    "with_middleware": lambda c, r: c.with_middleware(middleware).messages.create(**r),
    "post": lambda c, r: c.post("/v1/messages", body=r, cast_to=Message),
    "extra_body": lambda c, r: c.messages.create(
        **{**r, "messages": [{"role": "user", "content": "no"}]}, extra_body={"messages": r["messages"]}
    ),
}


@pytest.mark.parametrize("call", params(ENTRIES))
def test_every_way_of_a_sync_client_is_compacted(provider: Provider, claude: anthropic.Anthropic, call: Any) -> None:
    """Each of them sends one request, with the same messages as a plain `create` would."""
    request = claude_request()
    call(compacting(claude, POLICY), request)
    assert len(provider.requests) == 1
    assert is_compacted(sent(provider), request["messages"])
    compacting(claude, POLICY).messages.create(**request)
    assert sent(provider, 0) == sent(provider, 1)


async def ahelper(messages: Any, request: Any) -> None:
    async with messages.stream(**request) as stream:
        await stream.get_final_message()


async def astreaming_response(view: Any, request: Any) -> None:
    async with view.create(**request) as response:
        await response.parse()


async def astreamed(stream: Any) -> None:
    async for _ in await stream:
        pass


async def araw_streamed(raw: Any) -> None:
    async for _ in await (await raw).parse():
        pass


async def amiddleware(request: Any, call_next: Any) -> Any:
    return await call_next(request)


ASYNC_ENTRIES = {
    "create": lambda c, r: c.messages.create(**r),
    "generator": lambda c, r: c.messages.create(**{**r, "messages": (each for each in r["messages"])}),
    "streamed": lambda c, r: astreamed(c.messages.create(**r, stream=True)),
    "stream helper": lambda c, r: ahelper(c.messages, r),
    "parse": lambda c, r: c.messages.parse(**r),
    "raw": lambda c, r: c.messages.with_raw_response.create(**r),
    "raw of the client": lambda c, r: c.with_raw_response.messages.create(**r),
    "raw and streamed": lambda c, r: araw_streamed(c.messages.with_raw_response.create(**r, stream=True)),
    "streaming response": lambda c, r: astreaming_response(c.messages.with_streaming_response, r),
    "streaming response of the client": lambda c, r: astreaming_response(c.with_streaming_response.messages, r),
    "beta create": lambda c, r: c.beta.messages.create(**r),
    "beta streamed": lambda c, r: astreamed(c.beta.messages.create(**r, stream=True)),
    "beta stream helper": lambda c, r: ahelper(c.beta.messages, r),
    "beta parse": lambda c, r: c.beta.messages.parse(**r),
    "with_options": lambda c, r: c.with_options(timeout=30).messages.create(**r),
    "a copy of a copy": lambda c, r: c.copy().copy().messages.create(**r),
    "with_middleware": lambda c, r: c.with_middleware(amiddleware).messages.create(**r),
    "post": lambda c, r: c.post("/v1/messages", body=r, cast_to=Message),
    "extra_body": lambda c, r: c.messages.create(
        **{**r, "messages": [{"role": "user", "content": "no"}]}, extra_body={"messages": r["messages"]}
    ),
}


@pytest.mark.parametrize("call", params(ASYNC_ENTRIES))
async def test_every_way_of_an_async_client_is_compacted(
    provider: Provider, aclaude: anthropic.AsyncAnthropic, call: Any
) -> None:
    """Each of them sends one request, with the same messages as a plain `create` would."""
    request = claude_request()
    await call(compacting(aclaude, POLICY), request)
    assert len(provider.requests) == 1
    assert is_compacted(sent(provider), request["messages"])
    await compacting(aclaude, POLICY).messages.create(**request)
    assert sent(provider, 0) == sent(provider, 1)


def test_a_users_middleware_sees_the_compacted_request(provider: Provider, claude: anthropic.Anthropic) -> None:
    """Middleware of the SDK stands behind the wrapper, given before or after wrapping."""
    seen: list[Any] = []

    def look(request: Any, call_next: Any) -> Any:
        seen.append(request.options.json_data["messages"])
        return call_next(request)

    compacting(claude, POLICY).with_middleware(look).messages.create(**claude_request())
    compacting(claude.with_middleware(look), POLICY).messages.create(**claude_request())
    assert seen == [sent(provider, 0), sent(provider, 1)]
    assert is_compacted(seen[0], history())


def test_dicts_and_blocks_of_the_sdk_mixed(provider: Provider, claude: anthropic.Anthropic) -> None:
    """`response.content` handed back as it came, tool calls in it, is dropped with its results or kept whole."""
    client = compacting(claude, 300)
    messages: list[Any] = []
    for turn in range(5):
        provider.reply("Let me look.", ToolCall("look_up", {"turn": turn}))
        messages.append({"role": "user", "content": f"{turn}: " + "question " * 20})
        called: Any = client.messages.create(**claude_request(messages)).content
        assert not any(isinstance(block, dict) for block in called)
        messages += [
            {"role": "assistant", "content": called},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": called[1].id, "content": "result " * 20}],
            },
        ]
        answer = client.messages.create(**claude_request(messages))
        messages.append({"role": "assistant", "content": answer.content})
    assert [request.refusal for request in provider.requests] == [None] * 10
    arrived = sent(provider)
    assert len(arrived) < len(messages) - 1
    assert arrived[-1] == messages[-2]
    assert arrived[-2] == {"role": "assistant", "content": [block.to_dict() for block in messages[-3]["content"]]}


class TestToolRunner:
    """`tool_runner`, which sends by itself."""

    def test_a_thread_is_compacted_when_created_and_never_when_continued(
        self, provider: Provider, claude: anthropic.Anthropic
    ) -> None:
        """The first request holds the whole history and is cut; the next one holds only what is new, and stays whole."""
        provider.reply(ToolCall("weather", {"city": "Rome"}))
        provider.reply("Sunny.")
        compacting(claude, POLICY).beta.messages.tool_runner(**claude_request(), tools=[weather]).until_done()
        first, second = (request.body for request in provider.requests)
        assert first["thread"]["type"] == "create"
        assert is_compacted(first["messages"], history())
        assert second["thread"]["type"] == "continue"
        (result,) = second["messages"]
        assert result["content"][0]["type"] == "tool_result"

    def test_without_a_thread_every_step_is_compacted(self, provider: Provider, claude: anthropic.Anthropic) -> None:
        """`thread=False` resends the history, and each request is cut alike, with the tool exchange in it."""
        provider.reply(ToolCall("weather", {"city": "Rome"}))
        provider.reply("Sunny.")
        client = compacting(claude, POLICY)
        answer = client.beta.messages.tool_runner(**claude_request(), tools=[weather], thread=False).until_done()
        assert answer.content[0].text == "Sunny."  # type: ignore[union-attr]
        assert [request.status for request in provider.requests] == [200, 200]
        first, second = sent(provider, 0), sent(provider, 1)
        assert is_compacted(first, history())
        assert second[: len(first)] == first
        assert len(second) == len(first) + 2

    async def test_on_an_async_client(self, provider: Provider, aclaude: anthropic.AsyncAnthropic) -> None:
        """The same with `thread=False`, awaited."""
        provider.reply(ToolCall("aweather", {"city": "Rome"}))
        provider.reply("Sunny.")
        runner = compacting(aclaude, POLICY).beta.messages.tool_runner(
            **claude_request(), tools=[aweather], thread=False
        )
        await runner.until_done()
        assert [request.status for request in provider.requests] == [200, 200]
        assert is_compacted(sent(provider, 0), history())
        assert sent(provider, 1)[:-2] == sent(provider, 0)

    def test_streamed(self, provider: Provider, claude: anthropic.Anthropic) -> None:
        """A streaming runner is compacted in every step too."""
        provider.reply(ToolCall("weather", {"city": "Rome"}))
        provider.reply("Sunny.")
        client: Any = compacting(claude, POLICY)
        runner = client.beta.messages.tool_runner(**claude_request(), tools=[weather], thread=False, stream=True)
        for stream in runner:
            stream.get_final_message()
        assert [request.status for request in provider.requests] == [200, 200]
        assert is_compacted(sent(provider, 0), history())


def test_with_middleware_gives_a_wrapped_client(claude: anthropic.Anthropic) -> None:
    """It derives through `copy`, so the session goes along."""
    derived = compacting(claude, POLICY).with_middleware(middleware)
    assert is_compacting(derived)
    assert type(derived) is anthropic.Anthropic


def test_iterators_are_drained_once_and_reach_the_provider(provider: Provider, claude: anthropic.Anthropic) -> None:
    """`tools` and `system` as iterators are counted and still sent, whether the request is cut or not."""
    tool = {"name": "look_up", "description": "Looks up.", "input_schema": {"type": "object"}}
    system = {"type": "text", "text": "Be brief."}
    for messages in (history(), history(turns=1)):
        request: Any = claude_request(iter(messages), tools=iter([tool]), system=iter([system]))
        compacting(claude, POLICY).messages.create(**request)
    for request in provider.requests:
        assert request.body["tools"] == [tool]
        assert request.body["system"] == [system]
    assert is_compacted(sent(provider, 0), history())
    assert sent(provider, 1) == history(turns=1)


def test_sentinels_are_not_data(provider: Provider, claude: anthropic.Anthropic) -> None:
    """`omit` and `NOT_GIVEN` as arguments leave the request as if they were not there."""
    request = claude_request(system=anthropic.omit, tools=anthropic.NOT_GIVEN, metadata=anthropic.omit)
    compacting(claude, POLICY).messages.create(**request)
    assert provider.requests[0].body.keys() == {"model", "max_tokens", "messages"}
    assert provider.requests[0].body["model"] == CLAUDE
    assert is_compacted(sent(provider), history())
