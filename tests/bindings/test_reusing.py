"""Known tool results: which calls of a response have one, and tools that answer from them, through the real SDKs."""

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from anthropic import beta_async_tool, beta_tool
from google import genai
from google.genai import types

from compacting_client import Chain, ConfigError, ContentReused, DropOldest, Ledger, compacting, control
from compacting_client.answers import Answer
from compacting_client.formats import openai_chat
from compacting_client.testing import EventCapture, Provider, ToolCall
from tests.bindings.support import CLAUDE, GPT

Json = dict[str, Any]
REUSE = Ledger(reuse_results=["look_*"])
TOOL: Any = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
FLASH = "gemini-2.5-flash"


def hop(id_: str, content: str, tool: str = "look_up", arguments: str = '{"id": 1}') -> list[Json]:
    """One call and its result, as chat messages."""
    call = {"id": id_, "type": "function", "function": {"name": tool, "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id_, "content": content},
    ]


def run_so_far(*hops: list[Json]) -> list[Json]:
    """A question and some hops."""
    return [{"role": "user", "content": "Who?"}, *(message for each in hops for message in each)]


def ask(client: Any, messages: list[Json], **more: Any) -> Any:
    """One chat completion."""
    return client.chat.completions.create(model=GPT, messages=messages, tools=[TOOL], **more)


def test_the_calls_with_a_known_result_are_named(provider: Provider, chat: openai.OpenAI) -> None:
    """Of a parallel batch those with equal arguments, whatever their spelling; with the result and its age in requests."""
    client = compacting(chat, REUSE)
    provider.reply(
        ToolCall("look_up", {"id": 1}, id="again"),
        ToolCall("look_up", {"id": 2}, id="new"),
        ToolCall("status", {"id": 1}, id="other"),
    )
    response = ask(client, run_so_far(hop("a", "Ada", arguments='{ "id":1.0 }'), hop("s", "busy", "status")))
    found = control(client).reusable(response)
    assert {call: (each.content, each.age) for call, each in found.items()} == {"again": ("Ada", 1)}


def test_the_last_good_result_of_this_run_counts(provider: Provider, chat: openai.OpenAI) -> None:
    """No failure, nothing of an earlier turn, and of two results the later one (case 101: nothing that is not named)."""
    client, handle = compacting(chat, REUSE), control(compacting(chat, REUSE))
    histories = [
        (run_so_far(hop("a", "old"), hop("b", "new"), hop("c", "Error: down")), "new"),
        (run_so_far(hop("a", "Error: down")), None),
        ([*run_so_far(hop("a", "old")), {"role": "assistant", "content": "."}, {"role": "user", "content": "?"}], None),
        (run_so_far(hop("a", "busy", "status")), None),
    ]
    handle = control(client)
    for history, expected in histories:
        provider.reply(ToolCall("look_up", {"id": 1}, id="x"), ToolCall("status", {"id": 1}, id="y"))
        found = handle.reusable(ask(client, history))
        assert {call: each.content for call, each in found.items()} == ({"x": expected} if expected else {})


def test_results_that_are_in_the_ledger_are_known_too(provider: Provider, chat: openai.OpenAI) -> None:
    """Whole, though the ledger cut them; and in a chain as alone."""
    policy = Chain(Ledger("ledger", keep_result_chars=10, reuse_results=True), DropOldest(10_000))
    client = compacting(chat, policy)
    provider.reply(ToolCall("get", {"n": 0}, id="x"))
    history = run_so_far(*(hop(f"c{n}", f"{n} " + "word " * 200, "get", json.dumps({"n": n})) for n in range(8)))
    response = ask(client, history)
    report = control(client).report_for(response)
    assert report is not None
    assert report.dropped
    assert control(client).reusable(response)["x"].content == history[2]["content"]
    assert control(client).reusable(response)["x"].age == 7


def test_nothing_is_known_without_the_setting(provider: Provider, chat: openai.OpenAI) -> None:
    """It is off by default; objects that no call returned have nothing."""
    client = compacting(chat, Ledger())
    provider.reply(ToolCall("look_up", {"id": 1}, id="x"))
    assert control(client).reusable(ask(client, run_so_far(hop("a", "Ada")))) == {}
    assert control(client).reusable(object()) == {}


@pytest.mark.parametrize("way", ["stream", "helper", "raw", "raw stream"])
def test_streams_and_raw_responses_of_openai(provider: Provider, chat: openai.OpenAI, way: str) -> None:
    """Once they were read."""
    client: Any = compacting(chat, REUSE)
    provider.reply(ToolCall("look_up", {"id": 2}, id="new"), ToolCall("look_up", {"id": 1}, id="again"))
    request: Json = {"model": GPT, "messages": run_so_far(hop("a", "Ada")), "tools": [TOOL]}
    if way == "stream":
        response = client.chat.completions.create(**request, stream=True)
        list(response)
    elif way == "helper":
        with client.chat.completions.stream(**request) as response:
            list(response)
    elif way == "raw":
        response = client.chat.completions.with_raw_response.create(**request)
    else:
        response = client.chat.completions.with_raw_response.create(**request, stream=True)
        list(response.parse())
    assert {call: each.content for call, each in control(client).reusable(response).items()} == {"again": "Ada"}


def test_what_a_stream_helper_of_openai_makes_of_its_stream(provider: Provider, chat: openai.OpenAI) -> None:
    """The object of `get_final_completion()`, beside another stream with the same calls, and by a copy; a chunk of it has none."""
    client: Any = compacting(chat, REUSE)
    request: Json = {"model": GPT, "tools": [TOOL]}
    finals, open_, chunks = list[Any](), list[Any](), list[Any]()
    for name in ("Ada", "Bob"):
        provider.reply(ToolCall("look_up", {"id": 1}, id="again"), ToolCall("look_up", {"id": 2}, id="new"))
        with client.chat.completions.stream(**request, messages=run_so_far(hop("a", name))) as stream:
            chunks += [event.chunk for event in stream if event.type == "chunk"]
            finals.append(stream.get_final_completion())
            open_.append(stream)
    for final, name in zip(finals, ("Ada", "Bob"), strict=True):
        for value in (final, final.model_copy(), final.model_dump()):
            found = control(client).reusable(value)
            assert {call: each.content for call, each in found.items()} == {"again": name}
    assert [control(client).reusable(each) for each in chunks] == [{}] * len(chunks)
    other = finals[0].model_copy(update={"id": "another"})
    assert control(client).reusable(other) == {}


def test_each_choice_of_a_stream_has_its_own_calls() -> None:
    """Pieces are put together by the choice that they say, not by where they stand in their chunk."""
    whole = Answer({})
    for choice, pieces in ((0, ('{"id"', ": 1}")), (1, ('{"id"', ": 2}"))):
        for piece in pieces:
            call = {"index": 0, "id": f"c{choice}", "function": {"name": "look_up", "arguments": piece}}
            whole.add(openai_chat, {"choices": [{"index": choice, "delta": {"tool_calls": [call]}}]})
    assert [(call, arguments) for call, _, arguments in whole.calls()] == [("c0", '{"id": 1}'), ("c1", '{"id": 2}')]


def claude_run(content: str) -> list[Json]:
    """A question and a hop, as Anthropic's messages."""
    return [
        {"role": "user", "content": "Who?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"id": 1}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": content}]},
    ]


@pytest.mark.parametrize("way", ["plain", "stream", "helper", "raw"])
def test_messages_and_streams_of_anthropic(provider: Provider, claude: anthropic.Anthropic, way: str) -> None:
    """The arguments come in pieces."""
    client: Any = compacting(claude, REUSE)
    provider.reply(
        "Let me see.", ToolCall("look_up", {"id": 2}, id="toolu_2"), ToolCall("look_up", {"id": 1}, id="toolu_3")
    )
    tool = {"name": "look_up", "input_schema": {"type": "object"}}
    request: Json = {"model": CLAUDE, "max_tokens": 100, "messages": claude_run("Ada"), "tools": [tool]}
    if way == "plain":
        response = client.messages.create(**request)
    elif way == "stream":
        response = client.messages.create(**request, stream=True)
        list(response)
    elif way == "helper":
        with client.messages.stream(**request) as response:
            list(response)
    else:
        response = client.messages.with_raw_response.create(**request)
    assert {call: each.content for call, each in control(client).reusable(response).items()} == {"toolu_3": "Ada"}


def test_what_a_stream_helper_of_anthropic_makes_of_its_stream(provider: Provider, claude: anthropic.Anthropic) -> None:
    """The object of `get_final_message()`; the event that begins its message has none of its calls."""
    client: Any = compacting(claude, REUSE)
    provider.reply(ToolCall("look_up", {"id": 2}, id="toolu_2"), ToolCall("look_up", {"id": 1}, id="toolu_3"))
    tool = {"name": "look_up", "input_schema": {"type": "object"}}
    request: Json = {"model": CLAUDE, "max_tokens": 100, "messages": claude_run("Ada"), "tools": [tool]}
    with client.messages.stream(**request) as stream:
        events = list(stream)
        final = stream.get_final_message()
    assert {call: each.content for call, each in control(client).reusable(final).items()} == {"toolu_3": "Ada"}
    assert {len(control(client).reusable(event)) for event in events} == {0}


def test_failures_that_anthropic_marks_are_not_reused(provider: Provider, claude: anthropic.Anthropic) -> None:
    """`is_error` says so, whatever the text."""
    client: Any = compacting(claude, REUSE)
    messages = claude_run("no such person")
    messages[-1]["content"][0]["is_error"] = True
    provider.reply(ToolCall("look_up", {"id": 1}, id="toolu_3"))
    tool = {"name": "look_up", "input_schema": {"type": "object"}}
    response = client.messages.create(model=CLAUDE, max_tokens=100, messages=messages, tools=[tool])
    assert control(client).reusable(response) == {}


@pytest.fixture
def gemini(provider: Provider) -> Iterator[genai.Client]:
    """A client of the loopback provider."""
    with genai.Client(api_key="test", http_options=types.HttpOptions(base_url=provider.google_url)) as client:
        yield client


@pytest.mark.parametrize("streams", [False, True])
def test_responses_and_streams_of_gemini(provider: Provider, gemini: genai.Client, streams: bool) -> None:
    """What the tool returned is what a `result` alone holds; a call without an id is named by its number."""
    client = compacting(gemini, REUSE)
    provider.reply(ToolCall("look_up", {"id": 2}), ToolCall("look_up", {"id": 1}))
    contents: Any = [
        {"role": "user", "parts": [{"text": "Who?"}]},
        {"role": "model", "parts": [{"function_call": {"name": "look_up", "args": {"id": 1}}}]},
        {"role": "user", "parts": [{"function_response": {"name": "look_up", "response": {"result": "Ada"}}}]},
    ]
    tool: Any = {"function_declarations": [{"name": "look_up"}]}
    request: Json = {"model": FLASH, "contents": contents, "config": {"tools": [tool]}}
    if streams:
        response: Any = client.models.generate_content_stream(**request)
        assert sum(len(chunk.function_calls or ()) for chunk in response) == 2
    else:
        response = client.models.generate_content(**request)
    assert {call: each.content for call, each in control(client).reusable(response).items()} == {"call_1": "Ada"}


def test_each_reuse_is_told_once(provider: Provider, chat: openai.OpenAI, caplog: pytest.LogCaptureFixture) -> None:
    """An event of kind `tool_result` with the tool, a log line, and `on_reuse`; asking again tells nothing new."""
    heard, called = EventCapture(), list[Any]()
    with caplog.at_level(logging.DEBUG, logger="compacting_client"):
        client = compacting(chat, REUSE, on_event=heard, on_reuse=called.append)
        provider.reply(ToolCall("look_up", {"id": 1}, id="x"))
        response = ask(client, run_so_far(hop("a", "Ada")))
        control(client).reusable(response)
        control(client).reusable(response)
    told = heard.of(ContentReused)
    report = control(client).report_for(response)
    assert report is not None
    assert [(each.kind, each.tool, each.age, each.request_id) for each in told] == [
        ("tool_result", "look_up", 0, report.request_id)
    ]
    assert called == told
    assert sum("content.reused" in line.getMessage() and "look_up" in line.getMessage() for line in caplog.records) == 1
    assert "Ada" not in caplog.text


def test_a_wrapped_tool_answers_in_a_loop_by_hand(provider: Provider, chat: openai.OpenAI) -> None:
    """It runs once; the second call has what the first returned; other arguments run."""
    client, ran = compacting(chat, REUSE), list[int]()

    def look_up(id: int) -> str:  # noqa: A002 - the tool's argument
        ran.append(id)
        return f"person {id}"

    tool = control(client).reusing(look_up)
    for number in (1, 1, 2, 1):
        provider.reply(ToolCall("look_up", {"id": number}))
    provider.reply("Done.")
    messages = run_so_far()
    while calls := (answer := ask(client, messages).choices[0].message).tool_calls:
        messages.append(answer.model_dump(exclude_none=True))
        results = [tool(**json.loads(call.function.arguments)) for call in calls]
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": text}
            for call, text in zip(calls, results, strict=True)
        ]
    assert ran == [1, 2]
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["person 1", "person 1", "person 2", "person 1"]


def test_equal_calls_of_one_response_both_run(provider: Provider, chat: openai.OpenAI) -> None:
    """What counts is the history of the request."""
    client, ran = compacting(chat, REUSE), list[int]()
    tool = control(client).reusing(lambda id: ran.append(int(id)), name="look_up")  # noqa: A006
    provider.reply(ToolCall("look_up", {"id": 1}), ToolCall("look_up", {"id": 1}))
    ask(client, run_so_far())
    tool(id=1)
    tool(id=1)
    assert ran == [1, 1]


def test_a_tool_that_returns_data_has_it_back_as_data(provider: Provider, chat: openai.OpenAI) -> None:
    """The history has its JSON."""
    client, ran = compacting(chat, REUSE), list[int]()

    def look_up(id: int) -> dict[str, Any]:  # noqa: A002
        ran.append(id)
        return {"person": id}

    tool = control(client).reusing(look_up)
    provider.reply(ToolCall("look_up", {"id": 1}))
    ask(client, run_so_far())
    first = tool(1)
    ask(client, run_so_far(hop("a", json.dumps(first))))
    assert tool(1) == first
    assert ran == [1]


async def test_async_tools_and_callbacks(provider: Provider, achat: openai.AsyncOpenAI) -> None:
    """They are awaited; a plain tool beside async callbacks is refused, since nobody would await them."""
    told, ran = list[Any](), list[int]()

    async def reused(event: Any) -> None:
        told.append(event)

    client = compacting(achat, REUSE, on_reuse=reused)

    async def look_up(id: int) -> str:  # noqa: A002
        ran.append(id)
        return "never"

    tool = control(client).reusing(look_up)
    provider.reply(ToolCall("look_up", {"id": 1}, id="x"))
    messages: Any = run_so_far(hop("a", "Ada"))
    response = await client.chat.completions.create(model=GPT, messages=messages, tools=[TOOL])
    assert await tool(1) == "Ada"
    assert ran == []
    assert len(told) == 1
    assert control(client).reusable(response)["x"].content == "Ada"
    await asyncio.sleep(0.01)  # plain code cannot wait for them: they have a task of their own
    assert len(told) == 2
    with pytest.raises(ConfigError, match="make it async"):
        control(client).reusing(lambda id: id, name="look_up")  # noqa: A006


def test_what_is_no_function_is_refused(chat: openai.OpenAI) -> None:
    """Nor a function without a name."""
    handle: Any = control(compacting(chat, REUSE))
    for value in (None, 5, "look_up"):
        with pytest.raises(ConfigError, match="reusing"):
            handle.reusing(value)


def test_a_lambda_needs_a_name(provider: Provider, chat: openai.OpenAI) -> None:
    """No call of a model is of a tool "<lambda>": without `name=` nothing could ever be found; with it, it is."""
    client = compacting(chat, REUSE)
    with pytest.raises(ConfigError, match="name="):
        control(client).reusing(lambda **given: str(given))
    tool = control(client).reusing(lambda **given: f"ran {given}", name="look_up")
    ask(client, run_so_far(hop("a", "Ada")))
    assert tool(id=1) == "Ada"


def test_a_tool_that_the_policy_does_not_reuse_is_warned_of(
    provider: Provider, chat: openai.OpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    """When it is wrapped: another policy, and another tool; not an error, as a later policy may name it, and then it answers."""
    client = compacting(chat, Ledger())
    tools: list[Any] = []

    def look_up(**given: int) -> str:
        return f"ran {given}"

    def wrapped(handle: Any, **options: Any) -> list[str]:
        caplog.clear()
        tools.append(handle.reusing(look_up, **options))
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    with caplog.at_level(logging.WARNING, logger="compacting_client"):
        (said,) = wrapped(control(client))
        assert said.startswith("reusing.never tool='look_up' policy='Ledger'")
        assert len(wrapped(control(compacting(chat, False)))) == 1
        named = Chain(Ledger(reuse_results=["look_*"]), DropOldest(10_000))
        assert len(wrapped(control(compacting(chat, named)), name="status")) == 1
        assert wrapped(control(compacting(chat, named))) == []
        assert wrapped(control(compacting(chat, Ledger(reuse_results=True)))) == []
        with control(client).using(named):
            assert wrapped(control(client)) == []
            ask(client, run_so_far(hop("a", "Ada")))
            assert tools[0](id=1) == "Ada"


def test_the_tool_runner_of_anthropic(provider: Provider, claude: anthropic.Anthropic) -> None:
    """Its tools are wrapped before they are decorated; the schema is that of the function."""
    client, ran = compacting(claude, REUSE), list[int]()

    def look_up(id: int) -> str:  # noqa: A002
        """Look a person up.

        Args:
            id: the number
        """
        ran.append(id)
        return f"person {id}"

    for number in (1, 1, 2):
        provider.reply(ToolCall("look_up", {"id": number}))
    provider.reply("Done.")
    tool = beta_tool(control(client).reusing(look_up))
    assert tool.to_dict() == beta_tool(look_up).to_dict()
    runner = client.beta.messages.tool_runner(
        model=CLAUDE, max_tokens=100, messages=[{"role": "user", "content": "Who?"}], tools=[tool], thread=False
    )
    assert [block.text for block in runner.until_done().content if block.type == "text"] == ["Done."]
    assert ran == [1, 2]
    assert "person 1" in json.dumps(provider.requests[-1].body["messages"][4])


async def test_the_async_tool_runner_of_anthropic(provider: Provider, aclaude: anthropic.AsyncAnthropic) -> None:
    """The same, awaited."""
    client, ran = compacting(aclaude, REUSE), list[int]()

    async def look_up(id: int) -> str:  # noqa: A002
        """Look a person up."""
        ran.append(id)
        return f"person {id}"

    for number in (1, 1):
        provider.reply(ToolCall("look_up", {"id": number}))
    provider.reply("Done.")
    runner = client.beta.messages.tool_runner(
        model=CLAUDE,
        max_tokens=100,
        messages=[{"role": "user", "content": "Who?"}],
        tools=[beta_async_tool(control(client).reusing(look_up))],
        thread=False,
    )
    await runner.until_done()
    assert ran == [1]


def test_automatic_function_calling_of_gemini(provider: Provider, gemini: genai.Client) -> None:
    """The loop runs inside the SDK."""
    client, ran = compacting(gemini, REUSE), list[int]()

    def look_up(id: int) -> str:  # noqa: A002
        """Look a person up."""
        ran.append(id)
        return f"person {id}"

    for number in (1, 1, 2, 2):
        provider.reply(ToolCall("look_up", {"id": number}))
    provider.reply("Done.")
    config = types.GenerateContentConfig(tools=[control(client).reusing(look_up)])
    assert client.models.generate_content(model=FLASH, contents="Who?", config=config).text == "Done."
    assert ran == [1, 2]
    contents = provider.requests[-1].body["contents"]
    told = [part["functionResponse"]["response"] for c in contents for part in c["parts"] if "functionResponse" in part]
    assert told == [{"result": f"person {n}"} for n in (1, 1, 2, 2)]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_automatic_function_calling_of_gemini_on_async_clients(
    provider: Provider, gemini: genai.Client, kind: str
) -> None:
    """Plain tools run in a thread there, which has the context of the call."""
    client, ran = compacting(gemini, REUSE), list[int]()

    def look_up(id: int) -> str:  # noqa: A002
        """Look a person up."""
        ran.append(id)
        return f"person {id}"

    async def alook_up(id: int) -> str:  # noqa: A002
        """Look a person up."""
        return look_up(id)

    alook_up.__name__ = "look_up"
    tool: Any = control(client).reusing(look_up if kind == "sync" else alook_up)
    for number in (1, 1):
        provider.reply(ToolCall("look_up", {"id": number}))
    provider.reply("Done.")
    config = types.GenerateContentConfig(tools=[tool])
    async with client.aio as aio:
        response = await aio.models.generate_content(model=FLASH, contents="Who?", config=config)
    assert response.text == "Done."
    assert ran == [1]


def test_text_that_looks_like_a_wrapped_result_is_text(provider: Provider, chat: openai.OpenAI) -> None:
    """Only what an API wraps by itself is unwrapped."""
    client = compacting(chat, REUSE)
    provider.reply(ToolCall("look_up", {"id": 1}, id="x"))
    response = ask(client, run_so_far(hop("a", '{"result": 5}')))
    assert control(client).reusable(response)["x"].content == '{"result": 5}'


def test_calls_that_share_an_id_are_left_out(provider: Provider, chat: openai.OpenAI) -> None:
    """Which of them a result is for, nobody could say."""
    client = compacting(chat, REUSE)
    calls = [ToolCall("look_up", {"id": n}, id=id_) for n, id_ in ((1, "same"), (2, "same"), (1, "other"))]
    provider.reply(*calls)
    response = ask(client, run_so_far(hop("a", "Ada"), hop("b", "Bob", arguments='{"id": 2}')))
    assert [*control(client).reusable(response)] == ["other"]
