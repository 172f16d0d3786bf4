"""Messages through Anthropic's SDK."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import anthropic
from anthropic import beta_async_tool, beta_tool

from cassettes import journey
from cassettes.scenarios.base import Outcome, Play, Scenario, Server, Texts, last_six, rewriting
from compacting_client import Chain, DropOldest, KeepTurns, Summarize, control

MODEL = journey.CLAUDE
THINKS, BINDS = journey.THINKING
Messages = list[Any]

TOOL: Any = {
    "name": "look_up_parcel",
    "description": "What the depot knows of a parcel.",
    "input_schema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
}
ASKED: Messages = [{"role": "user", "content": journey.ASKED}]
ALWAYS: Any = {"model": MODEL, "max_tokens": 200, "system": journey.SYSTEM}


def _asked(city: str) -> Any:
    return {"role": "user", "content": journey.question(city)}


def _text(content: Any) -> str:
    return "".join(block.text for block in content if block.type == "text")


def chat(client: anthropic.Anthropic, outcome: Outcome) -> None:
    """A chat, city by city; the whole history goes with each request, as in all of these."""
    messages: Messages = []
    for city in journey.CITIES:
        messages.append(_asked(city))
        response = client.messages.create(**ALWAYS, messages=messages)
        messages.append({"role": "assistant", "content": response.content})
        outcome.texts.append(_text(response.content))


async def helper(client: anthropic.AsyncAnthropic, outcome: Outcome) -> None:
    """The same through the SDK's stream helper, async."""
    messages: Messages = []
    for city in journey.CITIES:
        messages.append(_asked(city))
        async with client.messages.stream(**ALWAYS, messages=messages) as stream:
            async for _ in stream.text_stream:
                outcome.events += 1
            answer = await stream.get_final_message()
        messages.append({"role": "assistant", "content": answer.content})
        outcome.texts.append(_text(answer.content))


def streamed(client: anthropic.Anthropic, outcome: Outcome) -> None:
    """The same as a stream of events."""
    messages: Messages = []
    for city in journey.CITIES:
        messages.append(_asked(city))
        text = ""
        with client.messages.create(**ALWAYS, messages=messages, stream=True) as stream:
            for event in stream:
                outcome.events += 1
                if event.type == "content_block_delta" and event.delta.type == "text_delta":
                    text += event.delta.text
        messages.append({"role": "assistant", "content": text})
        outcome.texts.append(text)


def _carried_out(content: Any, outcome: Outcome) -> Messages:
    """The answer, and one item with the results of the calls in it."""
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": outcome.look_up(**block.input)}
        for block in content
        if block.type == "tool_use"
    ]
    return [{"role": "assistant", "content": content}, *([{"role": "user", "content": results}] if results else [])]


def tools(client: anthropic.Anthropic, outcome: Outcome, **request: Any) -> None:
    """One question, and tool calls, some of them parallel, until there is an answer."""
    messages = [*ASKED]
    while not outcome.texts:
        response = client.messages.create(**{**ALWAYS, **request}, tools=[TOOL], messages=messages)
        messages += _carried_out(response.content, outcome)
        if response.stop_reason != "tool_use":
            outcome.texts.append(_text(response.content))


def tools_streamed(client: anthropic.Anthropic, outcome: Outcome) -> None:
    """The same through the SDK's stream helper."""
    messages = [*ASKED]
    while not outcome.texts:
        with client.messages.stream(**ALWAYS, tools=[TOOL], messages=messages) as stream:
            outcome.events += sum(1 for _ in stream)
            answer = stream.get_final_message()
        messages += _carried_out(answer.content, outcome)
        if answer.stop_reason != "tool_use":
            outcome.texts.append(_text(answer.content))


async def _answered(client: anthropic.AsyncAnthropic, messages: Messages, outcome: Outcome, **request: Any) -> None:
    """Tool calls until there is an answer, async."""
    while True:
        response = await client.messages.create(**{**ALWAYS, **request}, tools=[TOOL], messages=messages)
        messages += _carried_out(response.content, outcome)
        if response.stop_reason != "tool_use":
            outcome.texts.append(_text(response.content))
            return


async def atools(client: anthropic.AsyncAnthropic, outcome: Outcome, **request: Any) -> None:
    """The question, async."""
    await _answered(client, [*ASKED], outcome, **request)


def runner(client: anthropic.Anthropic, outcome: Outcome) -> None:
    """The SDK's own loop; without `thread` it sends the whole history each time."""
    tool = beta_tool(outcome.tool)
    running = client.beta.messages.tool_runner(**ALWAYS, messages=ASKED, tools=[tool], thread=False)
    outcome.texts.append(_text(running.until_done().content))


async def arunner(client: anthropic.AsyncAnthropic, outcome: Outcome) -> None:
    """The same, async and streamed."""

    @beta_async_tool
    async def look_up_parcel(number: int) -> str:
        """What the depot knows of a parcel."""
        return outcome.look_up(number)

    running: Any = client.beta.messages.tool_runner(
        **ALWAYS, messages=ASKED, tools=[look_up_parcel], thread=False, stream=True
    )
    text = ""
    async for stream in running:
        async for _ in stream:
            outcome.events += 1
        text = _text((await stream.get_final_message()).content)
    outcome.texts.append(text)


async def window(client: anthropic.AsyncAnthropic, outcome: Outcome) -> None:
    """A server with a context window, which calls the tool in every turn; at the end the same history without a policy."""
    messages: Messages = []
    for city in journey.CITIES[:8]:
        messages.append(_asked(city))
        await _answered(client, messages, outcome)
    messages.append(_asked(journey.CITIES[8]))
    with control(client).using(False):
        try:
            await client.messages.create(**ALWAYS, messages=messages, tools=[TOOL])
        except anthropic.BadRequestError as error:
            outcome.refusals.append(str(error))


def _scenario(
    name: str,
    play: Play,
    policy: Any,
    *,
    server: Server = "aimock",
    texts: Texts = journey.ANSWERS,
    stops: int = journey.STOPS,
) -> Scenario:
    prefix = {"aimock": "", "llmock": "/anthropic"}[server]
    connect = partial(_connect, play)
    return Scenario(f"anthropic-{name}", "anthropic-messages", server, connect, prefix, policy, play, texts, stops)


def _connect(play: Play, url: str) -> Any:
    sdk = anthropic.AsyncAnthropic if inspect.iscoroutinefunction(play) else anthropic.Anthropic
    return sdk(base_url=url, api_key="test", max_retries=0)


FOUND = (journey.FOUND,)
SCENARIOS = (
    _scenario("chat", chat, DropOldest(600)),
    _scenario("stream", streamed, Chain(KeepTurns(5, slack=2), DropOldest(700))),
    _scenario("stream-helper", helper, DropOldest(600)),
    _scenario("tools", tools, last_six, texts=FOUND),
    _scenario(
        "tools-thinking",
        partial(tools, model=THINKS, thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2048),
        DropOldest(800),
        texts=FOUND,
    ),
    _scenario(  # the model binds its thinking to what stood before it
        "tools-bound-thinking",
        partial(atools, model=BINDS, thinking={"type": "adaptive"}),
        DropOldest(800),
        texts=FOUND,
    ),
    _scenario("tool-runner", runner, DropOldest(600), texts=FOUND),
    _scenario("tool-runner-async", arunner, DropOldest(800, target=1.0), texts=FOUND),
    _scenario("window", window, KeepTurns(2, slack=2, remove_tool_msgs=True), server="llmock", texts=None),
    _scenario("summarize", chat, Summarize(journey.SUMMARISING[2], max_messages=10, keep_recent=4)),
    _scenario(
        "summarize-stream",
        helper,
        Summarize(
            max_messages=None,
            token_budget=600,
            keep_recent=4,
            max_summary_tokens=100,
            target=0.8,
            summary_role="system",
        ),
    ),
    *rewriting(_scenario, atools, tools_streamed, window),
)
