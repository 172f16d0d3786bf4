"""The caller's own data comes out of every call as it went in: success, refusal, cancellation."""

import asyncio
import copy
from typing import Any

import anthropic
import openai
import pytest

from compacting_client import compacting, control
from compacting_client.testing import EventCapture, Failure, Provider, ToolCall
from tests.bindings.support import (
    GPT,
    POLICY,
    chat_request,
    claude_request,
    history,
    is_compacted,
    report_of,
    sent,
    tool_history,
)

TOOL = {"name": "look_up", "description": "Looks up.", "input_schema": {"type": "object"}}


def rich_history() -> list[Any]:
    """Anthropic messages with nested blocks of every common kind, unknown fields and cache marks."""
    messages: list[Any] = []
    for n in range(6):
        block = {"type": "text", "text": f"{n}: " + "word " * 20, "cache_control": {"type": "ephemeral"}, "mine": [n]}
        call = {"type": "tool_use", "id": f"toolu_{n}", "name": "look_up", "input": {"n": n, "deep": {"list": [1, 2]}}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": [{"type": "text", "text": "found"}]}
        messages += [
            {"role": "user", "content": [block if n == 5 else {**block, "cache_control": None}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": "done"},
        ]
    return [*messages, {"role": "user", "content": "And now?"}]


def requests() -> list[Any]:
    """(which client, arguments) for both SDKs."""
    return [
        ("chat", chat_request(tool_history(), tools=[{"type": "function", "function": {"name": "look_up"}}])),
        ("claude", claude_request(rich_history(), tools=[TOOL], system=[{"type": "text", "text": "Be brief."}])),
    ]


def call(client: Any, request: Any, **more: Any) -> Any:
    resource = client.chat.completions if hasattr(client, "chat") else client.messages
    return resource.create(**request, **more)


@pytest.mark.parametrize("which", [0, 1], ids=["openai", "anthropic"])
def test_data_is_equal_before_and_after(
    provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic, which: int
) -> None:
    """A success, a stream, a preview and a provider's error leave every nested list and dict as it was, the same objects."""
    name, request = requests()[which]
    client: Any = compacting(chat if name == "chat" else claude, POLICY)
    before, items = copy.deepcopy(request), list(request["messages"])
    call(client, request)
    assert len(sent(provider)) < len(request["messages"])
    list(call(client, request, stream=True))
    control(client).preview(client.chat.completions.create if name == "chat" else client.messages.create, **request)
    provider.reply(Failure(400, "no"))
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)):
        call(client, request)
    assert request == before
    assert all(one is other for one, other in zip(request["messages"], items, strict=True))


def test_objects_of_the_sdk_are_not_changed(provider: Provider, claude: anthropic.Anthropic) -> None:
    """Typed blocks are sent as they are, and are equal afterwards."""
    client = compacting(claude, 200)
    provider.reply("Let me look.", ToolCall("look_up", {"n": 1}))
    content = client.messages.create(**claude_request(history(turns=1))).content
    call_id: Any = content[1].id  # type: ignore[union-attr]
    messages = [
        *history(turns=4),
        {"role": "assistant", "content": content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "found"}]},
    ]
    before = copy.deepcopy(content)
    client.messages.create(**claude_request(messages))
    assert content == before
    assert sent(provider)[-2]["content"] == [block.to_dict() for block in content]
    assert len(sent(provider)) < len(messages)


async def test_cancellation_passes_through_and_stores_nothing(
    provider: Provider, aclaude: anthropic.AsyncAnthropic
) -> None:
    """A cancelled request raises CancelledError, is reported, changes no data, and is forgotten: the next one decides anew."""
    arrived, go = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(_: Any) -> str:
        loop.call_soon_threadsafe(arrived.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(5)
        return "late"

    provider.reply(slow)
    events, reports = EventCapture(), EventCapture()
    client = compacting(aclaude, POLICY, on_event=events, on_report=reports)
    request = claude_request()
    before = copy.deepcopy(request)
    task = asyncio.create_task(client.messages.create(**request))
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    assert request == before
    assert [cancelled.error for cancelled in reports.events] == ["CancelledError"]
    report = report_of(client, await client.messages.create(**request))
    assert report.reused == []
    assert report.trigger == "tokens"
    assert events.names.count("content.reused") == 0
    assert sent(provider, 0) == sent(provider, 1)


@pytest.mark.parametrize("kind", ["chat", "responses"])
async def test_a_coroutine_that_is_thrown_away(achat: openai.AsyncOpenAI, kind: str) -> None:
    """A call that is closed while it waits, as an event loop does at its end, goes quietly, whatever callbacks there are."""
    begun = asyncio.Event()

    async def never(*_: Any, **__: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    async def report(_: Any) -> None:
        await asyncio.sleep(0)

    achat.request = never  # type: ignore[method-assign]
    client: Any = compacting(achat, POLICY, on_report=report)
    calls = {"chat": client.chat.completions.create(**chat_request()), "responses": client.responses.create(input="Hi")}
    call = calls.pop(kind)
    calls.popitem()[1].close()
    call.send(None)
    assert begun.is_set()
    call.close()


async def test_cancellation_while_a_stream_is_read(provider: Provider, achat: openai.AsyncOpenAI) -> None:
    """A stream whose reader is cancelled gives its one report; CancelledError is not turned into anything else."""
    reports = EventCapture()
    client = compacting(achat, POLICY, on_report=reports)
    begun = asyncio.Event()

    async def read() -> None:
        async with await client.chat.completions.create(**chat_request(), stream=True) as stream:
            async for _ in stream:
                begun.set()
                await asyncio.sleep(60)

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(reports.events) == 1


def test_a_failed_request_stores_nothing(provider: Provider, chat: openai.OpenAI) -> None:
    """What the provider refused is not remembered: the next request decides anew, and only then is the cut reused."""
    client = compacting(chat, POLICY)
    provider.reply(Failure(400, "no"))
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(**chat_request())
    first = report_of(client, client.chat.completions.create(**chat_request()))
    second = report_of(client, client.chat.completions.create(**chat_request()))
    assert (first.reused, first.trigger) == ([], "tokens")
    assert [item.age for item in second.reused] == [1]


def test_a_generator_of_messages_is_drained_once(provider: Provider, chat: openai.OpenAI) -> None:
    """Nothing is asked of it twice, and nothing is lost."""
    taken: list[int] = []

    def messages() -> Any:
        for n, message in enumerate(history(system=True)):
            taken.append(n)
            yield message

    made: Any = messages()
    compacting(chat, POLICY).chat.completions.create(model=GPT, messages=made)
    assert taken == list(range(len(history(system=True))))
    assert is_compacted(sent(provider), history(system=True))


def test_sentinels_of_the_openai_sdk(provider: Provider, chat: openai.OpenAI) -> None:
    """`NOT_GIVEN` and `omit` as arguments leave the request as if they were not there."""
    request = chat_request(tools=openai.NOT_GIVEN, temperature=openai.omit)
    compacting(chat, POLICY).chat.completions.create(**request)
    assert provider.requests[0].body.keys() == {"model", "messages"}


def test_strings_and_other_shapes_reach_the_provider(provider: Provider, claude: anthropic.Anthropic) -> None:
    """A history that cannot be read is sent as it came; the provider's own error reaches the caller, the report says why."""
    client: Any = compacting(claude, 1)
    for messages in ("just text", {"role": "user"}, [1, 2], [None]):
        kinds: list[type[BaseException]] = []
        for each in (claude, client):
            with pytest.raises((anthropic.AnthropicError, TypeError, AttributeError)) as error:
                each.messages.create(**claude_request(messages))
            kinds.append(type(error.value))
        assert kinds[0] is kinds[1]
        report = control(client).last_report
        assert report is not None
        assert report.reason == "unreadable"
        assert [request.body["messages"] for request in provider.requests[-2:]] == [messages, messages]
