"""Previews: the body as it would be sent and a verdict on each unit; nothing sent, stored or told, nothing changed."""

import copy
import functools
import json
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import TextBlock
from pydantic import BaseModel

from compacting_client import ConfigError, PolicyError, Report, compacting, control
from compacting_client.testing import EventCapture, Provider, Thinking, ToolCall
from tests.bindings.support import (
    CLAUDE,
    POLICY,
    chat_request,
    claude_request,
    history,
    params,
    report_of,
    tool_history,
)


class Place(BaseModel):
    city: str


@anthropic.beta_tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name
    """
    return city


def ask(client: Any, **request: Any) -> str:
    """A function of an application."""
    answer: str = client.chat.completions.create(**request).choices[0].message.content
    return answer


TOOL: Any = {"type": "function", "function": {"name": "look_up", "strict": True, "parameters": {"type": "object"}}}

# (method, further arguments) of a client, each with the call that sends the same
CHAT: dict[str, Any] = {
    "create": (lambda c: c.chat.completions.create, {}, lambda m, r: m(**r)),
    "streamed": (lambda c: c.chat.completions.create, {"stream": True}, lambda m, r: list(m(**r))),
    "stream helper": (lambda c: c.chat.completions.stream, {}, lambda m, r: entered(m(**r))),
    "parse": (lambda c: c.chat.completions.parse, {"tools": [TOOL]}, lambda m, r: m(**r)),
    "beta parse": (lambda c: c.beta.chat.completions.parse, {}, lambda m, r: m(**r)),
    "raw": (lambda c: c.chat.completions.with_raw_response.create, {}, lambda m, r: m(**r)),
    "raw of the client": (lambda c: c.with_raw_response.chat.completions.create, {}, lambda m, r: m(**r)),
    "streaming response": (
        lambda c: c.chat.completions.with_streaming_response.create,
        {},
        lambda m, r: entered(m(**r)),
    ),
    "derived": (lambda c: c.with_options(timeout=30).chat.completions.create, {}, lambda m, r: m(**r)),
    "extra_body": (lambda c: c.chat.completions.create, {"extra_body": {"seed": 7}}, lambda m, r: m(**r)),
    "nulls": (lambda c: c.chat.completions.create, {"stop": None, "extra_body": {"mine": None}}, lambda m, r: m(**r)),
    "a function": (lambda c: functools.partial(ask, c), {}, lambda m, r: m(**r)),
}
MESSAGES: dict[str, Any] = {
    "create": (lambda c: c.messages.create, {}, lambda m, r: m(**r)),
    "streamed": (lambda c: c.messages.create, {"stream": True}, lambda m, r: list(m(**r))),
    "stream helper": (lambda c: c.messages.stream, {}, lambda m, r: entered(m(**r))),
    "parse": (lambda c: c.messages.parse, {}, lambda m, r: m(**r)),
    "beta": (lambda c: c.beta.messages.create, {"betas": ["mine"]}, lambda m, r: m(**r)),
    "beta stream helper": (lambda c: c.beta.messages.stream, {}, lambda m, r: entered(m(**r))),
    "raw": (lambda c: c.messages.with_raw_response.create, {}, lambda m, r: m(**r)),
    "streaming response": (lambda c: c.messages.with_streaming_response.create, {}, lambda m, r: entered(m(**r))),
    "tool_runner": (lambda c: c.beta.messages.tool_runner, {"tools": [weather]}, lambda m, r: m(**r).until_done()),
    "sentinels": (
        lambda c: c.messages.create,
        {"system": anthropic.omit, "tools": anthropic.NOT_GIVEN},
        lambda m, r: m(**r),
    ),
}


def entered(manager: Any) -> None:
    with manager:
        pass


@pytest.fixture
def told() -> EventCapture:
    return EventCapture()


def options(told: EventCapture) -> Any:
    return {"on_event": told, "on_drop": told, "on_reuse": told, "on_report": told}


def check(provider: Provider, client: Any, told: EventCapture, entry: Any, request: Any) -> Report:
    """Preview, check that nothing happened, send the same, and compare."""
    method, more, send = entry
    request = {**request, **more}
    before = copy.deepcopy({name: value for name, value in request.items() if name == "messages"})
    report = control(client).preview(method(client), **request)
    assert provider.requests == []
    assert told.events == []
    assert control(client).last_report is None
    assert {"messages": request["messages"]} == before
    assert report.changed
    again = control(client).preview(method(client), **request)
    assert again.body == report.body
    assert again.reused == []  # nothing was stored
    send(method(client), request)
    assert report.body == provider.requests[0].body
    assert len(told.events) > 0
    return report


@pytest.mark.parametrize("entry", params(CHAT))
def test_of_openai_entry_points(provider: Provider, chat: openai.OpenAI, told: EventCapture, entry: Any) -> None:
    """The body is, key for key, what the same call then sends."""
    check(provider, compacting(chat, POLICY, **options(told)), told, entry, chat_request(tool_history()))


@pytest.mark.parametrize("entry", params(MESSAGES))
def test_of_anthropic_entry_points(
    provider: Provider, claude: anthropic.Anthropic, told: EventCapture, entry: Any
) -> None:
    """The body is, key for key, what the same call then sends."""
    check(provider, compacting(claude, POLICY, **options(told)), told, entry, claude_request())


def test_with_blocks_of_the_sdk(provider: Provider, claude: anthropic.Anthropic, told: EventCapture) -> None:
    """Typed blocks stand in the body as the SDK sends them: with all that was set, nulls too, and without what was parsed."""
    provider.reply(Thinking("hm"), "Let me look.", ToolCall("look_up", {"n": 1}))
    content: Any = claude.messages.create(**claude_request(history(turns=1))).content
    provider.reply('{"city": "Rome"}')
    parsed: Any = claude.messages.parse(**claude_request(history(turns=1)), output_format=Place).content
    assert parsed[0].parsed_output.city == "Rome"
    messages = [
        *history(),
        {"role": "assistant", "content": content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": content[2].id, "content": "found"}]},
        {"role": "assistant", "content": parsed},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": [TextBlock(type="text", text="Yes.", citations=None)]},
        {"role": "user", "content": "And now?"},
    ]
    client = compacting(claude, POLICY)
    report = control(client).preview(client.messages.create, **claude_request(messages))
    client.messages.create(**claude_request(messages))
    assert report.body == provider.requests[-1].body
    assert json.loads(json.dumps(report.body)) == report.body


async def test_each_kind_of_client_has_its_own_preview(chat: openai.OpenAI, achat: openai.AsyncOpenAI) -> None:
    """`preview` on an async client, or of an async function, says what to use, and so does `apreview` on a sync one."""

    async def function() -> None: ...

    client, aclient = compacting(chat, POLICY), compacting(achat, POLICY)
    with pytest.raises(ConfigError, match="use apreview"):
        control(aclient).preview(aclient.chat.completions.create, **chat_request())
    with pytest.raises(ConfigError, match="use apreview"):
        control(client).preview(function)
    with pytest.raises(ConfigError, match=r"use preview\(\)"):
        await control(client).apreview(client.chat.completions.stream, **chat_request())


ASYNC: dict[str, Any] = {
    "create": (lambda c: c.chat.completions.create, {}),
    "streamed": (lambda c: c.chat.completions.create, {"stream": True}),
    "stream helper": (lambda c: c.chat.completions.stream, {}),
    "parse": (lambda c: c.chat.completions.parse, {}),
    "raw": (lambda c: c.chat.completions.with_raw_response.create, {}),
    "streaming response": (lambda c: c.chat.completions.with_streaming_response.create, {}),
    "derived": (lambda c: c.with_options(timeout=30).chat.completions.create, {}),
}


@pytest.mark.parametrize("entry", params(ASYNC))
async def test_of_async_openai_entry_points(
    provider: Provider, achat: openai.AsyncOpenAI, told: EventCapture, entry: Any
) -> None:
    """`apreview` sends nothing, tells nobody, and gives the body that is then sent."""
    client = compacting(achat, POLICY, **options(told))
    method, more = entry
    report = await control(client).apreview(method(client), **chat_request(), **more)
    assert (provider.requests, told.events) == ([], [])
    await client.chat.completions.create(**chat_request())
    assert report.body is not None
    assert report.body["messages"] == provider.requests[0].body["messages"]


AMESSAGES: dict[str, Any] = {
    "create": (lambda c: c.messages.create, {}),
    "stream helper": (lambda c: c.messages.stream, {}),
    "beta stream helper": (lambda c: c.beta.messages.stream, {}),
    "tool_runner": (lambda c: c.beta.messages.tool_runner, {"tools": []}),
}


@pytest.mark.parametrize("entry", params(AMESSAGES))
async def test_of_async_anthropic_entry_points(
    provider: Provider, aclaude: anthropic.AsyncAnthropic, told: EventCapture, entry: Any
) -> None:
    """The same, runners included: their first step is what is previewed."""
    client = compacting(aclaude, POLICY, **options(told))
    method, more = entry
    report = await control(client).apreview(method(client), **claude_request(), **more)
    assert (provider.requests, told.events) == ([], [])
    await client.messages.create(**claude_request())
    assert report.body is not None
    assert report.body["messages"] == provider.requests[0].body["messages"]


def test_verdicts_cover_every_unit(chat: openai.OpenAI) -> None:
    """Each unit once, in order: its place, roles, tokens, and whether it is kept; what is kept is the body."""
    messages = tool_history()
    client = compacting(chat, POLICY)
    report = control(client).preview(client.chat.completions.create, **chat_request(messages))
    assert report.body is not None
    assert [n for unit in report.verdicts for n in range(unit.first, unit.last + 1)] == list(range(len(messages)))
    kept = [messages[n] for unit in report.verdicts if unit.verdict == "kept" for n in range(unit.first, unit.last + 1)]
    assert kept == report.body["messages"]
    assert {unit.verdict for unit in report.verdicts} == {"kept", "dropped"}
    for unit in report.verdicts:
        assert unit.roles == tuple(item["role"] for item in messages[unit.first : unit.last + 1])
    assert sum(unit.tokens for unit in report.verdicts) == report.tokens_before
    assert sum(unit.tokens for unit in report.verdicts if unit.verdict == "kept") == report.tokens_after


def test_of_an_unchanged_request(provider: Provider, chat: openai.OpenAI) -> None:
    """Below the trigger the body is the caller's own; everything is kept."""
    client = compacting(chat, 10_000)
    report = control(client).preview(client.chat.completions.create, **chat_request())
    assert (report.changed, report.reason) == (False, "below trigger")
    client.chat.completions.create(**chat_request())
    assert report.body == provider.requests[0].body
    assert {unit.verdict for unit in report.verdicts} == {"kept"}


def test_reads_the_memory_and_does_not_count_as_a_use(chat: openai.OpenAI) -> None:
    """A remembered cut shows in a preview as used again; its age is not changed by looking."""
    client = compacting(chat, POLICY)
    client.chat.completions.create(**chat_request())
    for _ in range(3):
        report = control(client).preview(client.chat.completions.create, **chat_request())
        assert [item.age for item in report.reused] == [1]
    assert [item.age for item in report_of(client, client.chat.completions.create(**chat_request())).reused] == [1]


def test_is_not_captured_and_no_last_report(chat: openai.OpenAI) -> None:
    """A preview is no request: the account of requests knows nothing of it."""
    client = compacting(chat, POLICY)
    last = report_of(client, client.chat.completions.create(**chat_request()))
    with control(client).capture() as reports:
        control(client).preview(client.chat.completions.create, **chat_request())
    assert reports == []
    assert control(client).last_report is last


def test_under_another_policy(chat: openai.OpenAI) -> None:
    """With `using` and `with_policy` one can look before one leaps."""
    client = compacting(chat, POLICY)
    method: Any = client.chat.completions.create
    with control(client).using(150):
        inside = control(client).preview(method, **chat_request())
    derived = control(client).with_policy(150)
    of_derived = control(client).preview(derived.chat.completions.create, **chat_request())
    outside = control(client).preview(method, **chat_request())
    assert inside.body == of_derived.body != outside.body


def held(client: Any) -> Report:
    thread: Any = {"thread": {"type": "continue", "previous_message_id": "msg_1"}}
    return control(client).preview(client.beta.messages.create, **claude_request(extra_body=thread))


def test_of_what_is_left_alone(provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """Server-held histories and the Responses API: nothing is sent either, and the report says why nothing would be done."""
    report = held(compacting(claude, POLICY))
    assert (report.changed, report.reason) == (False, "the server holds the history")
    client = compacting(chat, POLICY)
    other = control(client).preview(client.responses.create, model="gpt-5", input="Hi")
    assert (other.api, other.changed) == ("openai-responses", False)
    assert other.body == {"model": "gpt-5", "input": "Hi"}
    assert provider.requests == []


def test_of_methods_without_a_history(provider: Provider, claude: anthropic.Anthropic) -> None:
    """A method whose request carries no history, and one that makes no request, are ConfigErrors; nothing is sent."""
    client = compacting(claude, POLICY)
    with pytest.raises(ConfigError, match="carries no history; it was not sent"):
        control(client).preview(client.messages.count_tokens, model=CLAUDE, messages=history())
    with pytest.raises(ConfigError, match="made no request through this client"):
        control(client).preview(len, [])
    assert provider.requests == []


def test_of_another_clients_method(provider: Provider, chat: openai.OpenAI) -> None:
    """The plain client's methods, and those of another wrapped one, would send: they are refused before they do."""
    client, other = compacting(chat, POLICY), compacting(chat, POLICY)
    for stranger in (chat, other):
        for method in (
            stranger.chat.completions.create,
            stranger.chat.completions.with_raw_response.create,
            stranger.with_options,
        ):
            with pytest.raises(ConfigError, match="is not a method of this wrapped client"):
                control(client).preview(method, **chat_request())
    assert provider.requests == []
    report = control(client).preview(lambda: other.chat.completions.create(**chat_request()))
    assert report.changed  # made inside a function, it cannot be refused in advance, and is not sent all the same
    assert provider.requests == []


def test_errors_of_the_caller_and_of_a_strict_policy(provider: Provider, chat: openai.OpenAI) -> None:
    """A wrong argument raises as in a call; in strict a failing function raises PolicyError; nobody is told."""
    told = EventCapture()
    client: Any = compacting(chat, POLICY, strict=True, counter=lambda _: -1, on_report=told, on_event=told)
    with pytest.raises(TypeError):
        control(client).preview(client.chat.completions.create, nonsense=1)
    with pytest.raises(PolicyError):
        control(client).preview(client.chat.completions.create, **chat_request())
    assert told.events == []
    assert provider.requests == []


def test_of_a_result_in_the_place_of_the_method(chat: openai.OpenAI) -> None:
    """`preview(create(...))` has sent the request already; the error says what to write."""
    client = compacting(chat, POLICY)
    for wrong in (client.chat.completions.create(**chat_request()), "create", None):
        with pytest.raises(ConfigError, match="pass the method itself"):
            control(client).preview(wrong)  # type: ignore[arg-type]
