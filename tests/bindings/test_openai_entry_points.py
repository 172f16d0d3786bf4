"""OpenAI: whichever way a chat completion leaves the SDK, it leaves compacted."""

from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from pydantic import BaseModel

from compacting_client import compacting, is_compacting
from compacting_client.testing import Provider, ToolCall
from tests.bindings.support import GPT, POLICY, chat_request, history, is_compacted, params, sent


class Answer(BaseModel):
    text: str


TOOL: Any = openai.pydantic_function_tool(Answer)


def helper(completions: Any, request: Any) -> None:
    with completions.stream(**request) as stream:
        stream.until_done()


def streaming_response(view: Any, request: Any) -> None:
    with view.create(**request) as response:
        response.parse()


def lines(view: Any, request: Any) -> None:
    with view.create(**request, stream=True) as response:
        list(response.iter_lines())


ENTRIES = {
    "create": lambda c, r: c.chat.completions.create(**r),
    "tuple": lambda c, r: c.chat.completions.create(**{**r, "messages": tuple(r["messages"])}),
    "generator": lambda c, r: c.chat.completions.create(**{**r, "messages": (each for each in r["messages"])}),
    "streamed": lambda c, r: list(c.chat.completions.create(**r, stream=True)),
    "stream helper": lambda c, r: helper(c.chat.completions, r),
    "beta stream helper": lambda c, r: helper(c.beta.chat.completions, r),
    "parse": lambda c, r: c.chat.completions.parse(**r, tools=[TOOL]),
    "beta parse": lambda c, r: c.beta.chat.completions.parse(**r, tools=[TOOL]),
    "raw": lambda c, r: c.chat.completions.with_raw_response.create(**r).parse(),
    "raw of the client": lambda c, r: c.with_raw_response.chat.completions.create(**r).parse(),
    "raw parse": lambda c, r: c.chat.completions.with_raw_response.parse(**r, tools=[TOOL]).parse(),
    "raw and streamed": lambda c, r: list(c.chat.completions.with_raw_response.create(**r, stream=True).parse()),
    "streaming response": lambda c, r: streaming_response(c.chat.completions.with_streaming_response, r),
    "streaming response of the client": lambda c, r: streaming_response(c.with_streaming_response.chat.completions, r),
    "streamed streaming response": lambda c, r: lines(c.chat.completions.with_streaming_response, r),
    "with_options": lambda c, r: c.with_options(timeout=30).chat.completions.create(**r),
    "a copy of a copy": lambda c, r: c.copy().copy().chat.completions.create(**r),
    "raw of a derived client": lambda c, r: c.with_options(timeout=30).with_raw_response.chat.completions.create(**r),
    "post": lambda c, r: c.post("/chat/completions", body=r, cast_to=ChatCompletion),
    "extra_body": lambda c, r: c.chat.completions.create(
        model=GPT, messages=[{"role": "user", "content": "no"}], extra_body={"messages": r["messages"]}
    ),
    "an empty extra_body": lambda c, r: c.chat.completions.create(**r, extra_body={}),
}


@pytest.mark.parametrize("call", params(ENTRIES))
def test_every_way_of_a_sync_client_is_compacted(provider: Provider, chat: openai.OpenAI, call: Any) -> None:
    """Each of them sends one request, with the same messages as a plain `create` would."""
    request = chat_request()
    call(compacting(chat, POLICY), request)
    assert len(provider.requests) == 1
    assert is_compacted(sent(provider), request["messages"])
    compacting(chat, POLICY).chat.completions.create(**request)
    assert sent(provider, 0) == sent(provider, 1)


async def ahelper(client: Any, request: Any) -> None:
    async with client.chat.completions.stream(**request) as stream:
        await stream.until_done()


async def astreaming_response(view: Any, request: Any) -> None:
    async with view.create(**request) as response:
        await response.parse()


async def astreamed(stream: Any) -> None:
    async for _ in await stream:
        pass


async def araw_streamed(raw: Any) -> None:
    async for _ in (await raw).parse():
        pass


ASYNC_ENTRIES = {
    "create": lambda c, r: c.chat.completions.create(**r),
    "generator": lambda c, r: c.chat.completions.create(**{**r, "messages": (each for each in r["messages"])}),
    "streamed": lambda c, r: astreamed(c.chat.completions.create(**r, stream=True)),
    "stream helper": ahelper,
    "parse": lambda c, r: c.chat.completions.parse(**r, tools=[TOOL]),
    "beta parse": lambda c, r: c.beta.chat.completions.parse(**r, tools=[TOOL]),
    "raw": lambda c, r: c.chat.completions.with_raw_response.create(**r),
    "raw of the client": lambda c, r: c.with_raw_response.chat.completions.create(**r),
    "raw and streamed": lambda c, r: araw_streamed(c.chat.completions.with_raw_response.create(**r, stream=True)),
    "streaming response": lambda c, r: astreaming_response(c.chat.completions.with_streaming_response, r),
    "streaming response of the client": lambda c, r: astreaming_response(c.with_streaming_response.chat.completions, r),
    "with_options": lambda c, r: c.with_options(timeout=30).chat.completions.create(**r),
    "a copy of a copy": lambda c, r: c.copy().copy().chat.completions.create(**r),
    "post": lambda c, r: c.post("/chat/completions", body=r, cast_to=ChatCompletion),
    "extra_body": lambda c, r: c.chat.completions.create(
        model=GPT, messages=[{"role": "user", "content": "no"}], extra_body={"messages": r["messages"]}
    ),
}


@pytest.mark.parametrize("call", params(ASYNC_ENTRIES))
async def test_every_way_of_an_async_client_is_compacted(
    provider: Provider, achat: openai.AsyncOpenAI, call: Any
) -> None:
    """Each of them sends one request, with the same messages as a plain `create` would."""
    request = chat_request()
    await call(compacting(achat, POLICY), request)
    assert len(provider.requests) == 1
    assert is_compacted(sent(provider), request["messages"])
    await compacting(achat, POLICY).chat.completions.create(**request)
    assert sent(provider, 0) == sent(provider, 1)


def test_dicts_and_objects_of_the_sdk_mixed(provider: Provider, chat: openai.OpenAI) -> None:
    """Assistant messages as the SDK returned them, tool calls among them, are dropped with their results and kept whole."""
    client = compacting(chat, 300)
    messages: list[Any] = []
    for turn in range(5):
        provider.reply(ToolCall("look_up", {"turn": turn}))
        messages.append({"role": "user", "content": f"{turn}: " + "question " * 20})
        called = client.chat.completions.create(model=GPT, messages=messages).choices[0].message
        assert type(called) is ChatCompletionMessage
        assert called.tool_calls is not None
        messages += [called, {"role": "tool", "tool_call_id": called.tool_calls[0].id, "content": "result " * 20}]
        messages.append(client.chat.completions.create(model=GPT, messages=messages).choices[0].message)
    assert [request.refusal for request in provider.requests] == [None] * 10
    arrived = sent(provider)
    assert len(arrived) < len(messages) - 1
    assert arrived[-2:] == [messages[-3].to_dict(), messages[-2]]


def test_what_extra_body_omits_is_not_sent(provider: Provider, chat: openai.OpenAI) -> None:
    """`extra_body` merged by the wrapper keeps the SDK's own rule: an `omit` takes the field away."""
    request = chat_request(temperature=0.5, extra_body={"temperature": openai.omit, "seed": 7})
    compacting(chat, POLICY).chat.completions.create(**request)
    assert is_compacted(sent(provider), request["messages"])
    assert provider.requests[0].body.keys() == {"model", "messages", "seed"}


def test_a_derived_client_is_wrapped_and_has_its_own_options(provider: Provider, chat: openai.OpenAI) -> None:
    """`with_options` gives a wrapped client, whose headers go out, whose memory is that of the first."""
    client = compacting(chat, POLICY)
    derived = client.with_options(default_headers={"x-mine": "yes"})
    assert is_compacting(derived)
    assert type(derived) is openai.OpenAI
    derived.chat.completions.create(**chat_request())
    longer = [*history(system=True), {"role": "assistant", "content": "Hm."}, {"role": "user", "content": "And?"}]
    client.chat.completions.create(**chat_request(longer))
    assert provider.requests[0].headers["x-mine"] == "yes"
    assert "x-mine" not in provider.requests[1].headers
    assert sent(provider, 1)[:-2] == sent(provider, 0)


def test_a_subclass_whose_with_options_calls_copy_is_compacted_once(provider: Provider) -> None:
    """Where one deriving method calls the other, the client that comes out goes through one session, with one event."""

    class Mine(openai.OpenAI):
        def with_options(self, **options: Any) -> Any:
            return self.copy(**options)

    names: list[str] = []
    with Mine(base_url=provider.openai_url, api_key="test") as plain:
        client = compacting(plain, POLICY, on_event=lambda event: names.append(event.name))
        client.with_options(timeout=30).chat.completions.create(**chat_request())
    assert names.count("compaction.applied") == 1


def test_a_body_that_is_no_object_is_passed_on(provider: Provider, chat: openai.OpenAI) -> None:
    """What is posted without a JSON object reaches the provider as it is, and is accounted for as unreadable."""
    reasons: list[str] = []
    client = compacting(chat, POLICY, on_report=lambda report: reasons.append(str(report.reason)))
    with pytest.raises(openai.BadRequestError):
        client.post("/chat/completions", body=[1, 2], cast_to=object)
    assert reasons == ["unreadable"]
    assert len(provider.requests) == 1
