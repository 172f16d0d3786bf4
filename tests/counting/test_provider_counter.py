"""``counter="provider"``: the provider's own counting call, made with the client that was wrapped, where the budget is near."""

from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from anthropic.lib.bedrock import AnthropicBedrock

from compacting_client import ConfigError, DropOldest, compacting, control
from compacting_client.testing import EventCapture, Provider
from tests.counting.conversations import CLAUDE, GEMINI, MODELS, MODES, called, client_of, reports_of, talk

MakeProvider = Callable[..., Provider]
each_api = pytest.mark.parametrize("api", [CLAUDE, GEMINI])


def counts(provider: Provider) -> list[Any]:
    """The counting calls that arrived."""
    return [request for request in provider.requests if request.path.endswith(("count_tokens", ":countTokens"))]


@pytest.mark.parametrize("mode", MODES)
@each_api
async def test_near_the_budget_the_figure_is_the_providers_own(
    api: str, mode: str, counting_provider: MakeProvider
) -> None:
    """Already with the first request, tools and system prompt included; the budget is held against it, where the estimate would have let
    the request pass."""
    provider, body = counting_provider(api), talk(api, "JSON", 8, tools=True)
    (alone,) = await reports_of(counting_provider(api), api, mode, DropOldest(1_000_000), [body])
    assert alone.usage is not None
    budget = int(alone.tokens_before) + 50
    assert alone.usage.input_tokens > budget
    (report,) = await reports_of(provider, api, mode, DropOldest(budget), [body], counter="provider")
    assert len(counts(provider)) == 1
    assert report.tokens_before == alone.usage.input_tokens
    assert report.trigger == "tokens"
    assert report.usage is not None
    assert report.tokens_after == pytest.approx(report.usage.input_tokens, rel=0.05)
    assert report.usage.input_tokens <= budget


@each_api
async def test_far_from_the_budget_nothing_is_asked(api: str, counting_provider: MakeProvider) -> None:
    """Below four fifths of it by the estimate; from there on the provider is asked, once for each request."""
    provider, body = counting_provider(api), talk(api, "English", 4)
    (alone,) = await reports_of(counting_provider(api), api, "sync", DropOldest(1_000_000), [body])
    for share, calls in ((0.5, 0), (0.75, 0), (0.85, 1), (1.5, 2)):
        await reports_of(
            provider, api, "sync", DropOldest(int(alone.tokens_before / share)), [body], counter="provider"
        )
        assert len(counts(provider)) == calls


@each_api
async def test_the_same_request_is_not_counted_twice(api: str, counting_provider: MakeProvider) -> None:
    """What was answered once is known from its usage."""
    provider = counting_provider(api)
    body = talk(api, "English", 6)
    policy = DropOldest(100_000, target=1.0)
    (whole,) = await reports_of(counting_provider(api), api, "sync", policy, [body])
    assert whole.usage is not None
    budget = DropOldest(int(whole.usage.input_tokens * 1.1))
    reports = await reports_of(provider, api, "sync", budget, [body, body, body], counter="provider")
    assert len(counts(provider)) == 1
    assert {report.tokens_before for report in reports} == {whole.usage.input_tokens}


@each_api
def test_a_preview_asks_nobody(api: str, counting_provider: MakeProvider) -> None:
    """Nothing is sent by it."""
    provider = counting_provider(api)
    with client_of(provider, api) as plain:
        client = compacting(plain, 500, counter="provider")
        method = client.models.generate_content if api == GEMINI else client.messages.create
        report = control(client).preview(method, model=MODELS[api], **talk(api, "English", 6))
    assert report.changed
    assert provider.requests == []


def unreachable(request: Any) -> None:
    """A network on which only the counting calls fail."""
    if request.url.path.endswith("count_tokens"):
        raise ConnectionError


async def aunreachable(request: Any) -> None:
    """The same, awaited."""
    unreachable(request)


def test_a_count_that_fails_costs_an_event(counting_provider: MakeProvider, caplog: pytest.LogCaptureFixture) -> None:
    """The estimate decides then, also with ``strict=True``; the log has it as a warning, and nobody asks a second time."""
    provider, events = counting_provider(CLAUDE, lambda text: len(text) // 4), EventCapture()
    pool = anthropic.DefaultHttpxClient(event_hooks={"request": [unreachable]})
    body = talk(CLAUDE, "English", 6)
    with anthropic.Anthropic(base_url=provider.anthropic_url, api_key="test", http_client=pool) as plain:
        client = compacting(plain, DropOldest(600), counter="provider", strict=True, on_event=events)
        response = called(client, CLAUDE, "sync", body)
        report = control(client).report_for(response)
    assert report is not None
    assert report.changed
    (rejected,) = events.named("compaction.rejected")
    assert rejected.rules == ("error", "counter", "APIConnectionError")
    assert rejected.instead == "counted by the estimate"
    assert [record.levelname for record in caplog.records if "rejected" in record.getMessage()] == ["WARNING"]
    assert report.fits


async def test_a_count_that_fails_on_an_async_client_costs_an_event(counting_provider: MakeProvider) -> None:
    """The same, awaited."""
    provider, events = counting_provider(CLAUDE), EventCapture()
    pool = anthropic.DefaultAsyncHttpxClient(event_hooks={"request": [aunreachable]})
    async with anthropic.AsyncAnthropic(base_url=provider.anthropic_url, api_key="test", http_client=pool) as plain:
        client = compacting(plain, DropOldest(600), counter="provider", strict=True, on_event=events)
        response = await called(client, CLAUDE, "async", talk(CLAUDE, "English", 6))
        assert response.content
    assert [event.rules for event in events.named("compaction.rejected")] == [
        ("error", "counter", "APIConnectionError")
    ]


def test_openai_has_no_such_call() -> None:
    """Told when wrapping, with what to do."""
    for client in (openai.OpenAI(api_key="test"), openai.AsyncOpenAI(api_key="test")):
        with pytest.raises(ConfigError, match=r'counter="provider": the API of \w+ has no call that counts a chat'):
            compacting(client, 400, counter="provider")


def test_bedrock_has_no_such_call() -> None:
    """Its client refuses to count."""
    client = AnthropicBedrock(aws_region="eu-west-1", aws_access_key="a", aws_secret_key="b")
    with pytest.raises(ConfigError, match='counter="provider"'):
        compacting(client, 400, counter="provider")


@each_api
def test_a_count_has_what_its_request_has_of_its_own(api: str, counting_provider: MakeProvider) -> None:
    """Headers, and at Anthropic the query: a gateway lets nobody in, or bills nobody, without them."""
    provider, body = counting_provider(api), talk(api, "English", 4)
    headers = {"x-tenant": "7"}
    if api == CLAUDE:
        body |= {"extra_headers": headers, "extra_query": {"tenant": "seven"}}
    else:
        body["config"] = {**body.get("config", {}), "http_options": {"headers": headers}}
    with client_of(provider, api) as plain:
        called(compacting(plain, DropOldest(10), counter="provider"), api, "sync", body)
    counted, *_ = counts(provider)
    assert counted.headers["x-tenant"] == "7"
    assert counted.query == ("tenant=seven" if api == CLAUDE else "")
