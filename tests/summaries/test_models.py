"""Which model is asked for a summary, with which client, in which words."""

import asyncio
import copy
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from compacting_client import Chain, ConfigError, DropOldest, Summarize, compacting, control
from compacting_client.testing import Failure, Provider, Recorded
from tests.summaries.at_home import client_of
from tests.summaries.conversing import SDKS, Sdk, answering, conversing, is_summary_call, turn

SDK = {sdk.name: sdk for sdk in SDKS}
USED = {"openai": "gpt-5-mini", "anthropic": "claude-sonnet-4-6", "google": "gemini-2.5-flash"}
PATHS = {"openai": "/chat/completions", "anthropic": "/v1/messages", "google": ":generateContent"}
both = pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
each_sdk = pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A provider; no SDK finds a key in the environment."""
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    with Provider(default=answering()) as running:
        yield running


def keys(monkeypatch: pytest.MonkeyPatch, provider: Provider) -> None:
    """Each SDK finds its key and the loopback provider in the environment."""
    for name, value in {
        "OPENAI_API_KEY": "found",
        "OPENAI_BASE_URL": provider.openai_url,
        "ANTHROPIC_API_KEY": "found",
        "ANTHROPIC_BASE_URL": provider.anthropic_url,
        "GEMINI_API_KEY": "found",
        "GOOGLE_GEMINI_BASE_URL": provider.google_url,
    }.items():
        monkeypatch.setenv(name, value)


def long_history(sdk: Sdk, words: int = 8) -> list[Any]:
    """Enough for a summary, tool results among it."""
    return [item for number in range(20) for item in turn(sdk, number, words)] + [sdk.user("And now?")]


def send(sdk: Sdk, client: Any, awaited: bool) -> Any:
    """One long request; the report."""

    async def asend() -> Any:
        await sdk.call(client, long_history(sdk))
        report = control(client).last_report
        await getattr(client, sdk.closing)()
        return report

    if awaited:
        return asyncio.run(asend())
    sdk.call(client, long_history(sdk))
    report = control(client).last_report
    client.close()
    return report


def summary_call(provider: Provider) -> Recorded:
    """The one request for a summary."""
    (found,) = [request for request in provider.requests if is_summary_call(request)]
    assert found.status == 200
    return found


def model_of(request: Recorded) -> str:
    return request.body.get("model") or request.path.rpartition("/")[2].partition(":")[0]


@both
@each_sdk
def test_without_a_name_the_requests_own_model_is_asked(provider: Provider, sdk: Sdk, awaited: bool) -> None:
    """With the same client, once, as one question of the user; what it read and wrote is in the report."""
    inner = (sdk.aclient if awaited else sdk.client)(provider)
    report = send(sdk, compacting(inner, Summarize()), awaited)
    asked = summary_call(provider)
    assert model_of(asked) == USED[sdk.name]
    assert asked.path.endswith(PATHS[sdk.name])
    assert "RESULT-5" in str(asked.body)
    assert report.summary == "They keep a ship's log."
    usage = report.summary_usage
    assert usage.model == USED[sdk.name]
    assert usage.input_tokens > 500
    assert usage.output_tokens > 0
    assert usage.duration_ms > 0
    assert f"summary by {USED[sdk.name]}: {usage.input_tokens} tokens read" in str(report)


@both
@each_sdk
def test_any_name_is_sent_on_a_client_with_a_host_of_its_own(provider: Provider, sdk: Sdk, awaited: bool) -> None:
    """It is never left, whatever the name looks like, and needs no other key; the name is sent as it is written."""
    for name in ("claude-haiku-4-5", "gpt-5-nano", "gemini-2.5-flash", "openai:gpt-5-nano", "llama3:8b"):
        inner = (sdk.aclient if awaited else sdk.client)(provider)
        send(sdk, compacting(inner, Summarize(name)), awaited)
        asked = provider.requests[-2]
        assert is_summary_call(asked)
        assert asked.path.endswith(PATHS[sdk.name])
        assert asked.body.get("model", name) == name
        assert name.partition(":")[0] in asked.path + str(asked.body.get("model"))


ELSEWHERE = [
    ("openai", "claude-haiku-4-5", "anthropic", "claude-haiku-4-5"),
    ("openai", "gemini-2.5-flash", "google", "gemini-2.5-flash"),
    ("openai", "google:gemma-3", "google", "gemma-3"),
    ("openai", "my-own-model", "openai", "my-own-model"),
    ("openai", "openai:gpt-5-nano", "openai", "gpt-5-nano"),
    ("anthropic", "gpt-5-nano", "openai", "gpt-5-nano"),
    ("anthropic", "o3-mini", "openai", "o3-mini"),
    ("anthropic", "openai:ft:gpt-4o:me::1", "openai", "ft:gpt-4o:me::1"),
    ("google", "claude-haiku-4-5", "anthropic", "claude-haiku-4-5"),
    ("google", "anthropic:any", "anthropic", "any"),
    ("google", "gemini-2.5-pro", "google", "gemini-2.5-pro"),
]


@both
@pytest.mark.parametrize(("home", "name", "asked_with", "sent"), ELSEWHERE)
def test_a_name_of_another_provider_is_asked_with_its_sdk(
    monkeypatch: pytest.MonkeyPatch,
    provider: Provider,
    home: str,
    name: str,
    asked_with: str,
    sent: str,
    awaited: bool,
) -> None:
    """By the name's form, or as it is written before a colon; the client is built from the environment, and closed with the first."""
    keys(monkeypatch, provider)
    with monkeypatch.context() as at_home:
        for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
            at_home.delenv(variable)
        inner = client_of(home, provider, awaited=awaited)
    report = send(SDK[home], compacting(inner, Summarize(name)), awaited)
    asked = summary_call(provider)
    assert asked.path.endswith(PATHS[asked_with])
    assert model_of(asked) == sent
    assert any("found" in value for value in asked.headers.values()) == (home != asked_with)
    assert report.summary_usage.model == sent


def test_only_what_every_model_takes_is_sent(monkeypatch: pytest.MonkeyPatch, provider: Provider) -> None:
    """No temperature; `max_completion_tokens` where it is known to be taken, never `max_tokens`, which reasoning models refuse; room to think."""
    bodies: dict[str, Any] = {}
    for name in ("openai", "anthropic", "google"):
        send(SDK[name], compacting(client_of(name, provider, awaited=False), Summarize()), False)
        bodies[name] = provider.requests[-2].body
    assert bodies["openai"].keys() == {"model", "messages", "max_completion_tokens"}
    assert bodies["anthropic"].keys() == {"model", "messages", "max_tokens"}
    assert bodies["google"].keys() == {"contents", "generationConfig"}
    assert bodies["google"]["generationConfig"].keys() == {"maxOutputTokens"}
    assert bodies["openai"]["max_completion_tokens"] >= 8_000
    assert bodies["google"]["generationConfig"]["maxOutputTokens"] >= 8_000
    assert [message["role"] for message in bodies["openai"]["messages"]] == ["user"]


@both
def test_responses_are_asked_for_a_summary(provider: Provider, awaited: bool) -> None:
    """`api_style="responses"`: through that API, which is told to store nothing; the request itself goes its own way."""
    sdk = SDK["openai"]
    inner = (sdk.aclient if awaited else sdk.client)(provider)
    report = send(sdk, compacting(inner, Summarize(api_style="responses")), awaited)
    asked = summary_call(provider)
    assert asked.path == "/v1/responses"
    assert asked.body.keys() == {"model", "input", "store"}
    assert asked.body["store"] is False
    assert report.summary == "They keep a ship's log."
    assert report.summary_usage.input_tokens > 500
    assert provider.requests[-1].path == "/v1/chat/completions"


CLAUDE, GPT = Summarize("claude-haiku-4-5"), Summarize("gpt-5-nano")


def test_a_missing_key_is_told_when_wrapping(provider: Provider) -> None:
    """By `compacting`, `with_policy` and `using`, inside a chain too; the error names the variable to set."""
    inner = openai.OpenAI(api_key="k")
    for policy in (CLAUDE, Chain(CLAUDE, DropOldest(1_000))):
        with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
            compacting(inner, policy)
        with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
            control(compacting(inner)).with_policy(policy)
        with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"), control(compacting(inner)).using(policy):
            pass
    with pytest.raises(ConfigError, match="GEMINI_API_KEY"):
        compacting(inner, Summarize("gemini-2.5-flash"))
    for other in (anthropic.AsyncAnthropic(api_key="k"), genai.Client(api_key="k")):
        with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
            compacting(other, GPT)


def test_a_missing_sdk_is_told_when_wrapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra to install."""
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ConfigError, match=r"compacting-client\[anthropic\]"):
        compacting(openai.OpenAI(api_key="k"), CLAUDE)


def test_a_client_of_another_provider_is_built_once(monkeypatch: pytest.MonkeyPatch, provider: Provider) -> None:
    """For all clients that are derived from one."""
    keys(monkeypatch, provider)
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    made: list[Any] = []
    build = openai.OpenAI.__init__

    def noted(self: Any, **kwargs: Any) -> None:
        made.append(self)
        build(self, **kwargs)

    monkeypatch.setattr(openai.OpenAI, "__init__", noted)
    client = compacting(client_of("anthropic", provider, awaited=False), GPT)
    for other in (client, control(client).with_policy(GPT), client.with_options(max_retries=1)):
        SDK["anthropic"].call(other, long_history(SDK["anthropic"]))
    assert len(made) == 1
    client.close()
    assert made[0].is_closed()


def test_a_derived_client_asks_with_its_own_options(provider: Provider) -> None:
    """`with_options` gives another client: the summary is asked of that one, at its address, with its headers."""
    client = compacting(SDKS[0].client(provider), Summarize()).with_options(default_headers={"x-team": "log"})
    SDKS[0].call(client, long_history(SDKS[0]))
    assert summary_call(provider).headers["x-team"] == "log"
    client.close()


@both
@each_sdk
def test_the_wrapped_client_itself_may_summarise(provider: Provider, sdk: Sdk, awaited: bool) -> None:
    """A function that asks with the wrapped client does not call itself: its own long request leaves as it is."""
    asked: list[Any] = []

    def question(request: Any) -> Any:
        asked.append(request)
        return [*long_history(sdk), sdk.assistant("Yes?"), sdk.user(request.prompt)]

    def plain(request: Any) -> str:
        sdk.call(client, question(request))
        return "by itself"

    async def acall(request: Any) -> str:
        await sdk.call(client, question(request))
        return "by itself"

    policy = Summarize(summarizer=acall if awaited else plain)
    client = compacting((sdk.aclient if awaited else sdk.client)(provider), policy)
    report = send(sdk, client, awaited)
    assert len(asked) == 1
    assert len(provider.requests) == 2
    assert "FACT-0 " in str(provider.requests[0].body)
    assert report.summary == "by itself"


@each_sdk
def test_what_does_not_fit_the_summarisers_window_is_summarised_in_parts(provider: Provider, sdk: Sdk) -> None:
    """Each part is told the summary of those before it; every message, and each half of one that is too large, is in one of them."""
    client = compacting(sdk.client(provider), Summarize(max_messages=8, keep_recent=2), windows={"*": 1_000})
    huge = "".join(f"MARK-{n} " for n in range(600))
    history = [sdk.user(huge), sdk.assistant("Aye."), *long_history(sdk)]
    with control(client).capture() as reports:
        sdk.call(client, history)
    calls = [str(request.body) for request in provider.requests if is_summary_call(request)]
    assert len(calls) > 3
    assert all(len(call) < 4_000 for call in calls)
    assert ["They keep a ship" in call for call in calls] == [False] + [True] * (len(calls) - 1)
    shown = "".join(calls)
    assert all(f"MARK-{n} " in shown for n in range(0, 600, 50))
    assert all(f"FACT-{n} " in shown for n in range(15))
    usage = reports[0].summary_usage
    assert usage is not None
    assert (usage.input_tokens or 0) > 1_000
    client.close()


@both
@each_sdk
def test_a_summariser_that_says_too_long_is_asked_in_parts(sdk: Sdk, awaited: bool) -> None:
    """Its window is learned from its refusal; the second try is made of parts that fit."""
    with Provider(window=1_000, default=answering()) as small:
        inner = (sdk.aclient if awaited else sdk.client)(small)
        policy = Summarize(max_messages=8, keep_recent=2)
        report = send(sdk, compacting(inner, policy), awaited)
        calls = [request for request in small.requests if is_summary_call(request)]
    assert [request.status for request in calls] == [400, *[200] * (len(calls) - 1)]
    assert len(calls) > 2
    assert report.summary == "They keep a ship's log."


@both
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("model", ["gpt-4", "o9-mini"])
def test_the_room_for_the_answer_is_a_part_of_the_window(model: str, given: bool, awaited: bool) -> None:
    """Question and answer fit in together, at once where the window is known; what a refusal teaches is true of all requests."""
    history = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"m{n} " + "x" * 150} for n in range(129)]

    def ask(client: Any, items: Any) -> Any:
        return client.chat.completions.create(model=model, messages=items)

    sdk = replace(SDK["openai"], call=lambda client, _: ask(client, history))
    with Provider(window=8_192, default=answering()) as small:
        inner = client_of("openai", small, awaited=awaited)
        client = compacting(inner, Summarize(), windows={model: 8_192} if given else None)
        report = send(sdk, client, awaited)
        calls = [request for request in small.requests if is_summary_call(request)]
    assert sum(request.status != 200 for request in calls) <= (0 if given else 1)
    assert len(calls) > 1
    assert report.summary == "They keep a ship's log."
    learned = control(client)._session.windows.learned("openai-chat", model)
    assert learned is None or learned.size > 7_000


SYSTEMS: dict[str, Any] = {
    "openai": lambda client, items: client.chat.completions.create(
        model="gpt-5-mini", messages=[{"role": "system", "content": "Be brief."}, *items]
    ),
    "anthropic": lambda client, items: client.messages.create(
        model="claude-sonnet-4-6", max_tokens=50, system="Be brief.", messages=items
    ),
    "google": lambda client, items: client.models.generate_content(
        model="gemini-2.5-flash", contents=items, config={"system_instruction": "Be brief."}
    ),
    "google, extra body": lambda client, items: client.models.generate_content(
        model="gemini-2.5-flash",
        contents=items,
        config={"http_options": {"extra_body": {"systemInstruction": {"parts": [{"text": "Be brief."}]}}}},
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_summary_in_the_system_prompt_leaves_through_the_sdk(provider: Provider, name: str) -> None:
    """Behind the caller's own, and nowhere else; the caller's arguments are as they were."""
    sdk = SDK[name.partition(",")[0]]
    client = compacting(sdk.client(provider), Summarize(summary_role="system"))
    history = long_history(sdk)
    SYSTEMS[name](client, history)
    body = provider.requests[-1].body
    items = body.get("messages") or body["contents"]
    system = items[0] if sdk.name == "openai" else body.get("system") or body["systemInstruction"]
    assert str(system).index("Be brief.") < str(system).index("They keep a ship")
    assert str(body).count("They keep a ship") == 1
    assert history == long_history(sdk)
    client.close()


@both
def test_a_summary_in_parts_ends_with_its_time(awaited: bool) -> None:
    """No part is asked for once it is over; what the others took is told all the same."""
    written, asked = answering(), list[str]()

    def slowly(request: Recorded) -> str:
        if is_summary_call(request):
            asked.append(request.path)
            time.sleep(0.4 if len(asked) > 1 else 0)
        return written(request)

    def wrap(inner: Any) -> Any:
        policy = Summarize(max_messages=8, keep_recent=2, max_summary_tokens=100, timeout=0.7)
        return compacting(inner, policy, windows={"*": 600})

    sdk = SDK["openai"]
    with Provider(default=slowly) as slow, conversing(sdk, slow, wrap, awaited=awaited) as (client, call, _):
        with control(client).capture() as reports:
            call(long_history(sdk, words=100))
        for thread in threading.enumerate():
            if thread.name == "compacting_client.summarizer":
                thread.join(10)
    usage = reports[0].summary_usage
    assert len(asked) <= 3
    assert reports[0].summary is None
    assert usage is not None
    assert (usage.input_tokens or 0) > 100
    assert (usage.output_tokens or 0) > 0


OWN = {"x-tenant": "7", "Authorization": "Bearer seven", "Idempotency-Key": "once"}


def with_headers(name: str) -> Sdk:
    """An SDK whose requests have headers and a query of their own."""

    def call(client: Any, items: list[Any]) -> Any:
        own: dict[str, Any] = {"extra_headers": OWN, "extra_query": {"tenant": "seven"}}
        if name == "openai":
            return client.chat.completions.create(model="gpt-5-mini", messages=items, **own)
        return client.messages.create(model="claude-sonnet-4-6", max_tokens=50, messages=items, **own)

    return replace(SDK[name], call=call)


@both
@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_summary_is_asked_with_the_headers_and_the_query_of_its_request(
    provider: Provider, name: str, awaited: bool
) -> None:
    """They may say who pays, or who may ask; but not the one that tells this request from others."""
    sdk = with_headers(name)
    send(sdk, compacting((sdk.aclient if awaited else sdk.client)(provider), Summarize()), awaited)
    asked = summary_call(provider)
    assert (asked.headers["x-tenant"], asked.headers["authorization"]) == ("7", "Bearer seven")
    assert asked.headers.get("idempotency-key") != "once"
    assert "tenant=seven" in asked.query
    assert "tenant=seven" in provider.requests[-1].query


@both
@pytest.mark.parametrize("typed", [False, True], ids=["a dict", "typed"])
def test_a_summary_of_gemini_is_asked_with_the_options_of_its_request(
    provider: Provider, typed: bool, awaited: bool
) -> None:
    """Headers and place, but neither its body nor its time; another request has none of them, and the caller's options are as they were."""
    options: Any = {
        "headers": dict(OWN),
        "timeout": 70_000,
        "extra_body": {"labels": {"of": "it"}},
        "api_version": "v9",
    }
    given = types.HttpOptions(**options) if typed else options
    before = copy.deepcopy(given)

    def call(client: Any, items: list[Any]) -> Any:
        config = {"http_options": given}
        return client.models.generate_content(model="gemini-2.5-flash", contents=items, config=config)

    sdk = SDK["google"]
    client = compacting((sdk.aclient if awaited else sdk.client)(provider), Summarize())
    send(replace(sdk, call=call), client, awaited)
    asked, whole = summary_call(provider), provider.requests[-1]
    assert (asked.headers["x-tenant"], asked.headers["authorization"]) == ("7", "Bearer seven")
    assert asked.headers.get("idempotency-key") != "once"
    assert asked.path.startswith("/v9/")
    assert (whole.headers["x-server-timeout"], asked.headers["x-server-timeout"]) == ("70", "30")
    assert ("labels" in whole.body, "labels" in asked.body) == (True, False)
    assert given == before


def test_the_next_request_of_gemini_has_nothing_of_the_one_before(provider: Provider) -> None:
    """Options are those of one request, not of the client."""
    sdk = SDK["google"]
    client = compacting(sdk.client(provider), Summarize())
    for number, options in enumerate(({"headers": OWN}, None)):
        items = [sdk.user(f"{number}"), *long_history(sdk)]
        client.models.generate_content(model="gemini-2.5-flash", contents=items, config={"http_options": options})
    client.close()
    first, second = (request.headers for request in provider.requests if is_summary_call(request))
    assert ("x-tenant" in first, "x-tenant" in second) == (True, False)


@both
def test_another_provider_is_told_nothing_of_the_request(
    monkeypatch: pytest.MonkeyPatch, provider: Provider, awaited: bool
) -> None:
    """They hold keys of the first one."""
    keys(monkeypatch, provider)
    monkeypatch.delenv("OPENAI_BASE_URL")
    client = compacting(client_of("openai", provider, awaited=awaited), Summarize("claude-haiku-4-5"))
    send(with_headers("openai"), client, awaited)
    asked = summary_call(provider)
    assert "x-tenant" not in asked.headers
    assert "seven" not in str(asked)


def test_what_a_first_try_took_is_told_where_a_later_part_of_it_was_too_long() -> None:
    """The second try is made of smaller parts; the tokens of all answers are added up."""
    asked = list[str]()

    def reply(request: Recorded) -> Any:
        if is_summary_call(request):
            asked.append(request.path)
        message = "This model's maximum context length is 1000 tokens. However, your messages resulted in 1400 tokens."
        return Failure(400, message, code="context_length_exceeded") if len(asked) == 2 else "Noted."

    sdk = SDK["openai"]
    with Provider(default=reply) as small:
        client = compacting(sdk.client(small), Summarize(max_messages=8, keep_recent=2), windows={"*": 1_500})
        with control(client).capture() as reports:
            sdk.call(client, long_history(sdk, words=100))
        calls = [request.status for request in small.requests if is_summary_call(request)]
        client.close()
    assert calls[:3] == [200, 400, 200]
    taken, once = reports[0].summary_usage, reports[0].usage
    assert taken is not None
    assert once is not None
    assert taken.output_tokens == calls.count(200) * once.output_tokens
