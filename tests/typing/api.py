"""What users' type checkers see.  Checked by `make check` with mypy and pyright, both strict; nothing here is run."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from anthropic import Anthropic, AnthropicFoundry, AsyncAnthropic
from openai import AsyncAzureOpenAI, AsyncOpenAI, AzureOpenAI, OpenAI
from openai.types.chat import ChatCompletion
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from typing_extensions import assert_type

from compacting_client import (
    BudgetError,
    Chain,
    ClearToolResults,
    CompactingError,
    CompactionApplied,
    CompactionRecovered,
    CompactionRejected,
    CompactionSkipped,
    ConfigError,
    ContentDropped,
    ContentReplaced,
    ContentReused,
    Control,
    DropOldest,
    Event,
    Ledger,
    Policy,
    PolicyError,
    Report,
    Reused,
    Summarize,
    UnsupportedClientError,
    compacting,
    control,
    is_compacting,
    memory,
    presets,
)
from compacting_client.testing import EventCapture, Provider, Recorded


class Mine(OpenAI):
    """A user's own client."""


def the_type_of_the_client_is_kept() -> None:
    """Whatever client goes in comes out, under every kind of policy."""
    assert_type(compacting(OpenAI(), 1000), OpenAI)
    assert_type(compacting(AsyncOpenAI(), DropOldest(1000)), AsyncOpenAI)
    assert_type(compacting(OpenAI(), ClearToolResults(exclude_tools=["read_*"])), OpenAI)
    assert_type(compacting(OpenAI(), Summarize("gpt-5-nano", api_style="chat", background=True)), OpenAI)
    assert_type(compacting(AsyncAnthropic(), Summarize(summarizer=lambda request: request.prompt)), AsyncAnthropic)
    Summarize(summary_role="assistant")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(compacting(AzureOpenAI(), False), AzureOpenAI)
    assert_type(compacting(AsyncAzureOpenAI(), None), AsyncAzureOpenAI)
    assert_type(compacting(Anthropic()), Anthropic)
    assert_type(compacting(AsyncAnthropic(), 1000), AsyncAnthropic)
    assert_type(compacting(AnthropicFoundry(), 1000), AnthropicFoundry)
    assert_type(compacting(Mine(), 1000), Mine)
    assert_type(compacting(compacting(OpenAI(), 1000), 2000), OpenAI)
    assert_type(compacting(OpenAI(), 1000).with_options(timeout=3), OpenAI)


def calls_keep_their_types(client: OpenAI) -> None:
    """What a call returns is typed as by the SDK."""
    wrapped = compacting(client, 1000)
    completion = wrapped.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "Hi"}])
    assert_type(completion, ChatCompletion)
    assert_type(control(wrapped).report_for(completion), Report | None)


def callbacks_are_typed(client: OpenAI) -> None:
    """Each callback is given its own kind of event; plain and async functions, lambdas and objects fit."""

    def dropped(event: ContentDropped) -> None:
        assert_type(event.messages, tuple[dict[str, Any], ...])

    def reused(event: ContentReused) -> int:
        return event.age

    async def report(made: Report) -> None:
        assert_type(made.dropped, list[ContentDropped])

    def pin(message: dict[str, Any]) -> bool:
        return bool(message["content"])

    compacting(client, 1000, on_event=print, on_drop=dropped, on_reuse=reused, on_report=report, pin=pin)
    compacting(client, 1000, on_event=EventCapture(), counter=lambda message: len(str(message)), memory_key=str)
    compacting(client, 1000, memory=memory.InProcess(max_conversations=10), on_unfit="raise", strict=True)


def stores_fit(client: OpenAI, server: Redis, path: Path) -> None:
    """Each store of the library is a Store; a file is given as text or path, a server as URL or client."""
    compacting(client, 1000, memory=memory.File("memory.db"))
    compacting(client, 1000, memory=memory.File(path, ttl=3600))
    compacting(client, 1000, memory=memory.Redis("redis://localhost", ttl=3600, namespace="app"))
    compacting(client, 1000, memory=memory.Redis(server))
    stores: list[memory.Store] = [memory.InProcess(), memory.File("memory.db"), memory.Redis(server)]
    assert_type(stores[0].forget(), None)


def the_handle_is_typed(client: AsyncAnthropic) -> None:
    """`control` knows the client's type, and gives it back."""
    handle = control(client)
    assert_type(handle, Control[AsyncAnthropic])
    assert_type(handle.policy, Policy | None)
    assert_type(handle.last_report, Report | None)
    assert_type(handle.with_policy(1000), AsyncAnthropic)
    assert_type(handle.using(1000), AbstractContextManager[None])
    assert_type(is_compacting(client), bool)
    with handle.capture() as reports:
        assert_type(reports, list[Report])


async def previews_are_reports(client: OpenAI, aclient: AsyncOpenAI) -> None:
    """Both previews give a report."""
    assert_type(control(client).preview(client.chat.completions.create, model="gpt-5", messages=[]), Report)
    assert_type(await control(aclient).apreview(aclient.chat.completions.create, model="gpt-5"), Report)


def known_results_are_typed(client: OpenAI) -> None:
    """A wrapped tool keeps its type; presets are policies."""

    def look_up(number: int) -> str:
        return str(number)

    handle = control(compacting(client, Ledger("auto", reuse_results=["look_*"], failed=lambda message: False)))
    assert_type(handle.reusable(object()), dict[str, Reused])
    assert_type(handle.reusing(look_up)(number=1), str)
    assert_type(presets.managed(keep_result_chars=9), Chain)
    assert_type(presets.verify(), Chain)


def events_are_told_apart(event: Event) -> str:
    """`isinstance` narrows an event to its class."""
    if isinstance(event, CompactionApplied):
        assert_type(event.fits, bool)
        assert_type(event.trigger, str | None)
    if isinstance(event, (ContentDropped, ContentReplaced)):
        assert_type(event.tools, tuple[str, ...])
    if isinstance(event, CompactionRejected):
        assert_type(event.rules, tuple[str, ...])
    if isinstance(event, CompactionRecovered):
        assert_type(event.window, int | None)
    if isinstance(event, CompactionSkipped):
        assert_type(event.reason, str)
    assert_type(event.as_dict(), dict[str, Any])
    return event.name


def errors_are_what_they_say(error: BudgetError) -> None:
    """All errors have one root; a BudgetError carries its report."""
    assert_type(error.report, Report)
    policy = PolicyError("counter raised", "counter")
    assert_type(policy.source, str)
    roots: list[CompactingError] = [error, policy, ConfigError(), UnsupportedClientError()]
    builtin: tuple[ValueError, TypeError, TypeError] = (ConfigError(), ConfigError(), UnsupportedClientError())
    assert_type(len(roots) + len(builtin), int)


def the_provider_of_tests_is_typed() -> None:
    """`testing` serves users' own tests."""
    answer: Callable[[Recorded], str] = lambda request: str(request.body)  # noqa: E731
    with Provider(window=8_000, default=answer) as provider:
        assert_type(provider, Provider)
        assert_type(provider.requests, list[Recorded])
        assert_type(provider.openai_url, str)


# What must not pass: an unused ignore is an error in both checkers, so each line proves that it is refused.
def wrong_settings_are_refused(client: OpenAI, aserver: AsyncRedis) -> None:
    """A text as budget, a misspelt option, a function of the wrong kind, an unknown choice, an asyncio client of a store."""
    compacting(client, "1000")  # type: ignore[arg-type]
    compacting(client, 1000, on_unfit="drop")  # type: ignore[arg-type]
    compacting(client, 1000, on_droped=print)  # type: ignore[call-arg]
    compacting(client, 1000, memory=dict)  # type: ignore[arg-type]
    memory.Redis(aserver)  # type: ignore[arg-type]
    memory.File(b"memory.db")  # type: ignore[arg-type]
    compacting(client, 1000, pin=lambda: True)  # type: ignore[arg-type, misc]
    DropOldest(1000, 2)  # type: ignore[call-arg]
    Ledger("all")  # type: ignore[arg-type]
    Ledger("auto", 6)  # type: ignore[call-arg]
    control(client).reusing("look_up")  # type: ignore[type-var]
    ClearToolResults(3, 1000)  # type: ignore[call-arg]
    ClearToolResults(max_tokens="1000")  # type: ignore[arg-type]
