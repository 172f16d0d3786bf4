"""What the tests of bindings and of the account share: histories, clients of the loopback provider, and a way to look at what was sent."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from compacting_client import DropOldest, Report, control
from compacting_client.testing import Provider

GPT = "gpt-5"
CLAUDE = "claude-sonnet-4-6"
BUDGET = 400
POLICY = DropOldest(BUDGET)
Json = dict[str, Any]


def history(word: str = "word", turns: int = 6, *, system: bool = False) -> list[Json]:
    """A chat of questions and answers that ends in a question, about 45 tokens a message; six turns exceed the budget."""
    said = [
        {"role": ("user", "assistant")[n % 2], "content": f"{n}: " + f"{word} " * (175 // (len(word) + 1))}
        for n in range(2 * turns - 1)
    ]
    return [{"role": "system", "content": "Be brief."}, *said] if system else said


def tool_history(word: str = "word", turns: int = 6) -> list[Json]:
    """The same as a chat completion with a tool call in every turn."""
    messages: list[Json] = [{"role": "system", "content": "Be brief."}]
    for n in range(turns):
        call = {"id": f"call_{n}", "type": "function", "function": {"name": "look_up", "arguments": f'{{"n": {n}}}'}}
        messages += [
            {"role": "user", "content": f"{n}: {word} " * 10},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{n}", "content": f"{word} result {n} " * 10},
            {"role": "assistant", "content": f"answer {n}"},
        ]
    return [*messages, {"role": "user", "content": f"And now, {word}?"}]


def chat_request(messages: Any = None, **more: Any) -> Json:
    """The arguments of a chat completion with a long history, or with these messages."""
    return {"model": GPT, "messages": history(system=True) if messages is None else messages, **more}


def claude_request(messages: Any = None, **more: Any) -> Json:
    """The arguments of a message with a long history, or with these messages."""
    return {"model": CLAUDE, "max_tokens": 100, "messages": history() if messages is None else messages, **more}


def sent(provider: Provider, index: int = -1) -> Any:
    """The messages of a request as they arrived."""
    return provider.requests[index].body["messages"]


def is_compacted(arrived: Any, messages: list[Json]) -> bool:
    """Whether these are some of the messages, each unchanged and in order, the last one among them."""
    rest = iter(messages)
    return len(arrived) < len(messages) and arrived[-1] == messages[-1] and all(item in rest for item in arrived)


def report_of(client: Any, response: Any) -> Report:
    """The report of what a call returned; there must be one."""
    report = control(client).report_for(response)
    assert report is not None
    return report


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture
def chat(provider: Provider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=provider.openai_url, api_key="test", max_retries=0) as client:
        yield client


@pytest.fixture
def claude(provider: Provider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=provider.anthropic_url, api_key="test", max_retries=0) as client:
        yield client


@pytest.fixture
async def achat(provider: Provider) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="test", max_retries=0) as client:
        yield client


@pytest.fixture
async def aclaude(provider: Provider) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=provider.anthropic_url, api_key="test", max_retries=0) as client:
        yield client


def params(entries: dict[str, Callable[..., Any]]) -> Any:
    """For `parametrize`: each of them, by its name."""
    return [pytest.param(entry, id=name) for name, entry in entries.items()]
