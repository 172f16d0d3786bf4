"""A long conversation through each of the real SDKs, and what the loopback provider saw of it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
from google import genai

from compacting_client.testing import Provider, Recorded

Json = dict[str, Any]
INSTRUCTED = "Summarise the earlier part of a conversation"


def is_summary_call(request: Recorded) -> bool:
    """Whether a summary is asked for."""
    return INSTRUCTED in json.dumps(request.body)


def answering(summary: str = "They keep a ship's log.", answer: str = "Noted.") -> Callable[[Recorded], str]:
    """What a provider answers, to a request for a summary and to all others."""
    return lambda request: summary if is_summary_call(request) else answer


def messages_of(body: Json) -> list[Any]:
    """The history of a body."""
    found: list[Any] = body.get("messages") or body.get("contents") or []
    return found


@dataclass(frozen=True)
class Sdk:
    """How one SDK is spoken to.  ``chat``: an item of each kind in its own form."""

    name: str
    client: Callable[[Provider], Any]
    aclient: Callable[[Provider], Any]
    call: Callable[[Any, list[Json]], Any]
    user: Callable[[str], Json]
    assistant: Callable[[str], Json]
    tool: Callable[[str, str], list[Json]]
    closing: str = "close"


def _chat_tool(call: str, result: str) -> list[Json]:
    function = {"name": "look_up", "arguments": "{}"}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call, "content": result},
    ]


def _claude_tool(call: str, result: str) -> list[Json]:
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": "look_up", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": result}]},
    ]


def _gemini_tool(_: str, result: str) -> list[Json]:
    return [
        {"role": "model", "parts": [{"function_call": {"name": "look_up", "args": {}}}]},
        {"role": "user", "parts": [{"function_response": {"name": "look_up", "response": {"result": result}}}]},
    ]


def said(role: str) -> Callable[[str], Json]:
    """A message of a role, as two of the SDKs take it."""
    return lambda text: {"role": role, "content": text}


def part(role: str) -> Callable[[str], Json]:
    """The same for the third."""
    return lambda text: {"role": role, "parts": [{"text": text}]}


SDKS = [
    Sdk(
        "openai",
        lambda p: openai.OpenAI(base_url=p.openai_url, api_key="k", max_retries=0),
        lambda p: openai.AsyncOpenAI(base_url=p.openai_url, api_key="k", max_retries=0),
        lambda client, items: client.chat.completions.create(model="gpt-5-mini", messages=items),
        said("user"),
        said("assistant"),
        _chat_tool,
    ),
    Sdk(
        "anthropic",
        lambda p: anthropic.Anthropic(base_url=p.anthropic_url, api_key="k", max_retries=0),
        lambda p: anthropic.AsyncAnthropic(base_url=p.anthropic_url, api_key="k", max_retries=0),
        lambda client, items: client.messages.create(model="claude-sonnet-4-6", max_tokens=50, messages=items),
        said("user"),
        said("assistant"),
        _claude_tool,
    ),
    Sdk(
        "google",
        lambda p: genai.Client(api_key="k", http_options={"base_url": p.google_url}),
        lambda p: genai.Client(api_key="k", http_options={"base_url": p.google_url}).aio,
        lambda client, items: client.models.generate_content(model="gemini-2.5-flash", contents=items),
        part("user"),
        part("model"),
        _gemini_tool,
        closing="aclose",
    ),
]


def settled() -> None:
    """Until no thread of a summariser is left."""
    for thread in threading.enumerate():
        if thread.name == "compacting_client.summarizer":
            thread.join(10)


@contextmanager
def conversing(
    sdk: Sdk, provider: Provider, wrap: Callable[[Any], Any], *, awaited: bool
) -> Generator[tuple[Any, Callable[[list[Json]], Any], Callable[[], None]]]:
    """A wrapped client, a function that sends a history through it, and one that lets others run for a moment; sync or async alike."""
    if not awaited:
        client = wrap(sdk.client(provider))
        try:
            yield client, lambda items: sdk.call(client, items), lambda: time.sleep(0.01)
        finally:
            client.close()
        return
    loop = asyncio.new_event_loop()
    run = loop.run_until_complete
    aclient = run(_in_loop(lambda: wrap(sdk.aclient(provider))))

    async def call(items: list[Json]) -> Any:
        return await sdk.call(aclient, items)

    try:
        yield aclient, lambda items: run(call(items)), lambda: run(asyncio.sleep(0.01))
    finally:
        run(getattr(aclient, sdk.closing)())
        run(loop.shutdown_asyncgens())
        loop.close()


async def _in_loop(make: Callable[[], Any]) -> Any:
    return make()


def turn(sdk: Sdk, number: int, words: int = 8) -> list[Json]:
    """What one turn adds to a history: a question, a tool call with its result in every fifth, an answer."""
    asked = [sdk.user(f"Day {number}: " + "wind " * words)]
    tools = sdk.tool(f"call_{number}", f"RESULT-{number} " + "miles " * words) if number % 5 == 0 else []
    return [*asked, *tools, sdk.assistant(f"FACT-{number} noted.")]
