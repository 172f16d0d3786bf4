"""Chat completions through OpenAI's SDK."""

from __future__ import annotations

import inspect
import json
from functools import partial
from typing import Any

import openai
from openai.lib.streaming.chat import ChatCompletionStreamState
from pydantic import BaseModel

from cassettes import journey
from cassettes.scenarios.base import Outcome, Play, Scenario, Server, Texts, rewriting, shortened
from compacting_client import Chain, DropOldest, KeepTurns, Summarize, control

MODEL = journey.GPT
Messages = list[Any]


class Stay(BaseModel):
    """What is asked for by a schema."""

    city: str
    nights: int
    reason: str


TOOL: Any = {
    "type": "function",
    "function": {
        "name": "look_up_parcel",
        "description": "What the depot knows of a parcel.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    },
}


def _opened() -> Messages:
    return [{"role": "system", "content": journey.SYSTEM}]


def _asked(city: str) -> Any:
    return {"role": "user", "content": journey.question(city)}


def chat(client: openai.OpenAI, outcome: Outcome) -> None:
    """A chat, city by city; the whole history goes with each request, as in all of these."""
    messages = _opened()
    for city in journey.CITIES:
        messages.append(_asked(city))
        response = client.chat.completions.create(model=MODEL, messages=messages)
        messages.append(response.choices[0].message)
        outcome.texts.append(response.choices[0].message.content or "")


def helper(client: openai.OpenAI, outcome: Outcome) -> None:
    """The same through the SDK's stream helper."""
    messages = _opened()
    for city in journey.CITIES:
        messages.append(_asked(city))
        with client.chat.completions.stream(model=MODEL, messages=messages) as stream:
            outcome.events += sum(event.type == "content.delta" for event in stream)
            answer = stream.get_final_completion().choices[0].message
        messages.append({"role": "assistant", "content": answer.content})
        outcome.texts.append(answer.content or "")


def parse(client: openai.OpenAI, outcome: Outcome) -> None:
    """Each answer by a schema."""
    messages = _opened()
    for city in journey.CITIES:
        messages.append(_asked(city))
        response = client.chat.completions.parse(model=MODEL, messages=messages, response_format=Stay)
        answer = response.choices[0].message
        assert isinstance(answer.parsed, Stay)
        messages.append({"role": "assistant", "content": answer.content})
        outcome.texts.append(f"{answer.parsed.city}: {answer.parsed.nights} nights")


async def streamed(client: openai.AsyncOpenAI, outcome: Outcome) -> None:
    """The chat, streamed and async."""
    messages = _opened()
    for city in journey.CITIES:
        messages.append(_asked(city))
        text = ""
        async with await client.chat.completions.create(
            model=MODEL, messages=messages, stream=True, stream_options={"include_usage": True}
        ) as stream:
            async for chunk in stream:
                outcome.events += 1
                text += "".join(choice.delta.content or "" for choice in chunk.choices)
        messages.append({"role": "assistant", "content": text})
        outcome.texts.append(text)


def _carried_out(answer: Any, outcome: Outcome) -> Messages:
    """The answer, and the results of the calls in it."""
    return [
        answer,
        *(
            {
                "role": "tool",
                "tool_call_id": call.id,
                "content": outcome.look_up(**json.loads(call.function.arguments)),
            }
            for call in answer.tool_calls or ()
        ),
    ]


def _answered(client: openai.OpenAI, messages: Messages, outcome: Outcome) -> None:
    """Tool calls until there is an answer."""
    while True:
        response = client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL])
        answer = response.choices[0].message
        messages += _carried_out(answer, outcome)
        if not answer.tool_calls:
            outcome.texts.append(answer.content or "")
            return


def tools(client: openai.OpenAI, outcome: Outcome) -> None:
    """One question, and tool calls, some of them parallel."""
    _answered(client, [*_opened(), {"role": "user", "content": journey.ASKED}], outcome)


async def atools(client: openai.AsyncOpenAI, outcome: Outcome) -> None:
    """The same, async."""
    messages: Messages = [*_opened(), {"role": "user", "content": journey.ASKED}]
    while not outcome.texts:
        response = await client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL])
        answer = response.choices[0].message
        messages += _carried_out(answer, outcome)
        if not answer.tool_calls:
            outcome.texts.append(answer.content or "")


async def tools_streamed(client: openai.AsyncOpenAI, outcome: Outcome) -> None:
    """The same as a stream of chunks, put together by the SDK."""
    messages: Messages = [*_opened(), {"role": "user", "content": journey.ASKED}]
    while not outcome.texts:
        whole = ChatCompletionStreamState()
        async for chunk in await client.chat.completions.create(
            model=MODEL, messages=messages, tools=[TOOL], stream=True, stream_options={"include_usage": True}
        ):
            outcome.events += 1
            whole.handle_chunk(chunk)
        answer = whole.get_final_completion().choices[0].message
        messages += _carried_out(answer, outcome)
        if not answer.tool_calls:
            outcome.texts.append(answer.content or "")


def window(client: openai.OpenAI, outcome: Outcome) -> None:
    """A server with a context window, which calls the tool in every turn; at the end the same history without a policy."""
    messages = _opened()
    for city in journey.CITIES[:8]:
        messages.append(_asked(city))
        _answered(client, messages, outcome)
    messages.append(_asked(journey.CITIES[8]))
    with control(client).using(False):
        try:
            client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL])
        except openai.BadRequestError as error:
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
    return Scenario(f"openai-{name}", "openai-chat", server, partial(_connect, play), "/v1", policy, play, texts, stops)


def _connect(play: Play, url: str) -> Any:
    sdk = openai.AsyncOpenAI if inspect.iscoroutinefunction(play) else openai.OpenAI
    return sdk(base_url=url, api_key="test", max_retries=0)


FOUND = (journey.FOUND,)
STAYS = tuple(f"{city}: 2 nights" for city in journey.CITIES)
SCENARIOS = (
    _scenario("chat", chat, DropOldest(600)),
    _scenario("stream", streamed, DropOldest(600)),
    _scenario("stream-helper", helper, KeepTurns(3, slack=2)),
    _scenario("parse", parse, Chain(KeepTurns(5, slack=2), DropOldest(700)), texts=STAYS),
    _scenario("tools", tools, DropOldest(700), texts=FOUND),
    _scenario("tools-async", atools, shortened, texts=FOUND),
    _scenario("window", window, DropOldest(540), server="llmock", texts=None),
    _scenario("summarize", chat, Summarize(journey.SUMMARISING[0], max_messages=10, keep_recent=4)),
    _scenario(
        "summarize-stream",
        streamed,
        Summarize(max_messages=None, token_budget=600, keep_recent=4, max_summary_tokens=100, target=0.8),
    ),
    *rewriting(_scenario, tools, tools_streamed, window),
)
