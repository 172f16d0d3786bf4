"""The real Google Gen AI SDK against the loopback provider: every way a request leaves, and what comes back."""

import asyncio
import base64
import copy
import gc
import inspect
import pickle
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from compacting_client import (
    BudgetError,
    ConfigError,
    DropOldest,
    Report,
    UnsupportedClientError,
    compacting,
    control,
    is_compacting,
)
from compacting_client.bindings import google_requests
from compacting_client.testing import EventCapture, Failure, Provider, ToolCall
from tests.bindings.support import params, report_of
from tests.driving import session

FLASH = "gemini-2.5-flash"
PRO = "gemini-3-pro"
POLICY = DropOldest(400)
Json = dict[str, Any]


def history(turns: int = 6) -> list[Json]:
    """Questions and answers that end in a question, about 50 tokens each; six turns exceed the budget."""
    return [
        {"role": ("user", "model")[n % 2], "parts": [{"text": f"{n}: " + "word " * 35}]} for n in range(2 * turns - 1)
    ]


def connect(provider: Provider, **more: Any) -> genai.Client:
    options = types.HttpOptions(base_url=provider.google_url, **more.pop("http", {}))
    return genai.Client(api_key="test", http_options=options, **more)


def sent(provider: Provider, index: int = -1) -> list[Json]:
    contents: list[Json] = provider.requests[index].body["contents"]
    return contents


def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture
def client(provider: Provider) -> Iterator[genai.Client]:
    with compacting(connect(provider), POLICY) as wrapped:
        yield wrapped


@pytest.fixture
async def aio(client: genai.Client) -> AsyncIterator[Any]:
    async with client.aio as wrapped:
        yield wrapped


def plain(client: Any, **how: Any) -> Any:
    return client.models.generate_content(model=FLASH, contents=history(), **how)


def streamed(client: Any) -> Any:
    stream = client.models.generate_content_stream(model=FLASH, contents=history())
    assert "".join(chunk.text or "" for chunk in stream).startswith("This is")
    return stream


def chat(client: Any) -> Any:
    talk = client.chats.create(model=FLASH, history=history()[:-1])
    answer = talk.send_message("and now?")
    assert len(talk.get_history()) == 12  # the SDK's own history stays whole
    return answer


def chat_streamed(client: Any) -> Any:
    talk = client.chats.create(model=FLASH, history=history()[:-1])
    stream = talk.send_message_stream("and now?")
    assert list(stream)
    assert len(talk.get_history()) > 11
    assert talk.get_history()[0].parts[0].text.startswith("0: ")
    return stream


def typed(client: Any) -> Any:
    contents = [types.Content.model_validate(each) for each in history()]
    return client.models.generate_content(model=FLASH, contents=contents)


def configured(client: Any) -> Any:
    return plain(client, config={"system_instruction": "Be brief.", "temperature": 0.5})


ENTRIES: dict[str, Callable[[Any], Any]] = {
    "plain": plain,
    "streamed": streamed,
    "chat": chat,
    "chat, streamed": chat_streamed,
    "typed": typed,
    "config": configured,
    "tuple": lambda client: client.models.generate_content(model=FLASH, contents=tuple(history())),
    "copy": lambda client: plain(copy.copy(client)),
    "derived": lambda client: plain(control(client).with_policy(DropOldest(399))),
    "models kept": lambda client: client.models.generate_content(model=f"models/{FLASH}", contents=history()),
}


@pytest.mark.parametrize("entry", params(ENTRIES))
def test_every_way_a_request_leaves(provider: Provider, client: genai.Client, entry: Callable[[Any], Any]) -> None:
    """It arrives compacted, each content as the SDK would send it; what is returned has its report, with the provider's usage."""
    returned = entry(client)
    arrived = sent(provider)
    assert 1 < len(arrived) < 11
    assert arrived[0]["role"] == "user"
    assert all(content in [*history(), {"role": "user", "parts": [{"text": "and now?"}]}] for content in arrived)
    report = report_of(client, returned)
    assert (report.api, report.model, report.changed) == ("gemini", FLASH, True)
    assert report.usage is not None
    assert report.usage.input_tokens == pytest.approx(
        report.tokens_after, abs=3
    )  # rounded once there, per content here
    assert report.usage.output_tokens > 5
    assert [request.refusal for request in provider.requests] == [None]


async def _astreamed(aio: Any) -> Any:
    stream = await aio.models.generate_content_stream(model=FLASH, contents=history())
    assert [chunk async for chunk in stream]
    return stream


async def _achat_streamed(aio: Any) -> Any:
    stream = await aio.chats.create(model=FLASH, history=history()[:-1]).send_message_stream("and now?")
    assert [chunk async for chunk in stream]
    return stream


ASYNC_ENTRIES: dict[str, Callable[[Any], Any]] = {
    "plain": lambda aio: aio.models.generate_content(model=FLASH, contents=history()),
    "streamed": _astreamed,
    "chat": lambda aio: aio.chats.create(model=FLASH, history=history()[:-1]).send_message("and now?"),
    "chat, streamed": _achat_streamed,
}


@pytest.mark.parametrize("entry", params(ASYNC_ENTRIES))
async def test_every_way_an_async_request_leaves(provider: Provider, aio: Any, entry: Callable[[Any], Any]) -> None:
    """The same on `client.aio`."""
    returned = await entry(aio)
    assert 1 < len(sent(provider)) < 11
    report = report_of(aio, returned)
    assert report.changed
    assert report.usage is not None
    assert report.usage.output_tokens > 5


PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CONTENTS: dict[str, tuple[Any, int]] = {
    "text": ("Hello", 1),
    "part": (types.Part.from_text(text="Hello"), 1),
    "picture": (types.Part.from_bytes(data=PICTURE, mime_type="image/png"), 1),
    "content": (types.Content(role="user", parts=[types.Part.from_text(text="Hello")]), 1),
    "dict": ({"role": "user", "parts": [{"text": "Hello"}]}, 1),
    "texts": (["Hello", "there"], 1),
    "mixed": (["Hello", types.Part.from_bytes(data=PICTURE, mime_type="image/png"), {"text": "there"}], 1),
    "contents and dicts": (
        [types.UserContent("a"), types.ModelContent("b"), {"role": "user", "parts": [{"text": "c"}]}],
        3,
    ),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_all_that_contents_may_be(provider: Provider, client: genai.Client, name: str) -> None:
    """Below the budget exactly what the plain client sends leaves, and is counted."""
    contents, number = CONTENTS[name]
    answer = client.models.generate_content(model=FLASH, contents=contents)
    with connect(provider) as unwrapped:
        unwrapped.models.generate_content(model=FLASH, contents=contents)
    assert sent(provider, 0) == sent(provider, 1)
    report = report_of(client, answer)
    assert (report.changed, report.messages_before, report.reason) == (False, number, "below trigger")
    if name == "picture":
        assert 258 < report.tokens_before < 280


@pytest.mark.parametrize("stream", [False, True])
def test_automatic_function_calling(provider: Provider, client: genai.Client, stream: bool) -> None:
    """Each hop is compacted and reported by itself; calls keep their signatures; the last report belongs to the answer."""
    provider.reply(ToolCall("weather", {"city": "Rome"}), ToolCall("weather", {"city": "Oslo"}))
    provider.reply("Sunny in both.")
    call = client.models.generate_content_stream if stream else client.models.generate_content
    with control(client).capture() as reports:
        returned: Any = call(model=PRO, contents=history(), config={"tools": [weather]})
        text = "".join(chunk.text or "" for chunk in returned) if stream else returned.text
    assert text == "Sunny in both."
    assert [request.refusal for request in provider.requests] == [None, None]
    assert [report.changed for report in reports] == [True, True]
    assert report_of(client, returned) is reports[-1]
    answers = [part["functionResponse"]["response"] for part in sent(provider)[-1]["parts"]]
    assert answers == [{"result": "sunny in Rome"}, {"result": "sunny in Oslo"}]
    called = next(content for content in sent(provider) if "functionCall" in content["parts"][0])
    assert "thoughtSignature" in called["parts"][0]


async def test_automatic_function_calling_in_an_async_chat(provider: Provider, aio: Any) -> None:
    """The same through `client.aio.chats`, whose own history stays whole."""
    provider.reply(ToolCall("weather", {"city": "Rome"}))
    provider.reply("Sunny.")
    talk = aio.chats.create(model=PRO, history=history()[:-1], config={"tools": [weather]})
    answer = await talk.send_message("Weather?")
    assert (answer.text, len(provider.requests)) == ("Sunny.", 2)
    assert all(len(sent(provider, n)) < 11 for n in (0, 1))
    assert report_of(aio, answer).changed
    assert len(talk.get_history()) == 14


def test_a_growing_chat(provider: Provider, client: genai.Client) -> None:
    """A growing chat keeps its cut, and the provider reads it from its cache."""
    talk = client.chats.create(model=FLASH)
    cached = 0
    for n in range(14):
        answer = talk.send_message(f"{n}: " + "word " * 35)
        usage = report_of(client, answer).usage
        assert usage is not None
        cached += usage.cached_tokens > usage.input_tokens / 2
    assert len(talk.get_history()) == 28
    assert max(len(sent(provider, n)) for n in range(14)) < 16
    assert cached > 5
    assert not [request for request in provider.requests if request.refusal]


@pytest.mark.parametrize("more", [{"vertexai": True}, {"http": {"api_version": "v1alpha"}}])
def test_vertex_and_other_versions(provider: Provider, more: Json) -> None:
    """The model stands at the end of whatever path."""
    with compacting(connect(provider, **more), POLICY) as client:
        assert report_of(client, plain(client)).model == FLASH
    assert len(sent(provider)) < 11
    assert provider.requests[0].path.endswith(f"models/{FLASH}:generateContent")


def test_usage_of_a_stream_that_is_left_early(provider: Provider) -> None:
    """The report is finished once, when the stream is closed, with the usage so far."""
    reports = EventCapture()
    client = compacting(connect(provider), POLICY, on_report=reports)
    stream = client.models.generate_content_stream(model=FLASH, contents=history())
    assert control(client).report_for(stream) is None  # as in the SDK nothing was sent yet
    assert provider.requests == []
    next(stream)
    report = report_of(client, stream)
    assert reports.events == []
    stream.close()  # type: ignore[attr-defined]
    assert reports.events == [report]
    assert report.usage is not None
    client.close()


def test_errors_are_the_sdks_own(provider: Provider, client: genai.Client) -> None:
    """An error passes as it is, in a stream too, and stands in the report."""
    for call in (client.models.generate_content, client.models.generate_content_stream):
        provider.reply(Failure(400, "no such thing"))
        with pytest.raises(errors.ClientError, match="no such thing") as error:
            list(call(model=FLASH, contents=history()))
        assert error.value.code == 400
        report = control(client).last_report
        assert report is not None
        assert report.error == "ClientError"


def test_one_decision_whatever_the_retries(provider: Provider) -> None:
    """The SDK's retries lie below: one report, the same body each time."""
    retry = types.HttpRetryOptions(attempts=3, initial_delay=0.01, max_delay=0.02)
    with compacting(connect(provider, http={"retry_options": retry}), POLICY) as client:
        provider.reply(Failure(503))
        provider.reply(Failure(503))
        with control(client).capture() as reports:
            plain(client)
    assert len(reports) == 1
    assert len(provider.requests) == 3
    assert sent(provider, 0) == sent(provider, 1) == sent(provider, 2)


def test_what_carries_no_history_is_left_alone(provider: Provider, client: genai.Client) -> None:
    """Token counts measure what they are given; what is cached on the server is left alone, and said so."""
    client.models.count_tokens(model=FLASH, contents=history())
    assert len(sent(provider)) == 11
    assert control(client).last_report is None
    answer = plain(client, config={"cached_content": "cachedContents/1"})
    assert report_of(client, answer).reason == "the server holds the history"
    assert len(sent(provider)) == 11
    original = connect(provider)
    assert compacting(original, POLICY).caches is original.caches
    assert compacting(original, POLICY).batches is original.batches


def test_interactions_are_left_alone_and_reported(provider: Provider, client: genai.Client) -> None:
    """An API that is not read yet passes by with a report that says so."""
    if not hasattr(client, "interactions"):
        pytest.skip("this version of the SDK has no interactions")
    with pytest.raises(Exception, match="404"):  # the loopback provider does not know them
        client.interactions.create(model=FLASH, input="Hello")
    report = control(client).last_report
    assert report is not None
    assert (report.api, report.reason) == ("gemini-interactions", "this API is not supported in this version")
    assert provider.requests[-1].body["input"] == "Hello"


def test_extra_body_wins_and_is_compacted(provider: Provider, client: genai.Client) -> None:
    """The SDK puts `extra_body` over the request: its contents are the ones that leave, so they are the ones that are cut."""
    options = types.HttpOptions(extra_body={"contents": history(), "labels": {"a": "b"}})
    config = types.GenerateContentConfig(http_options=options)
    answer = client.models.generate_content(model=FLASH, contents="x", config=config)
    assert report_of(client, answer).changed
    assert len(sent(provider)) < 11
    assert provider.requests[-1].body["labels"] == {"a": "b"}
    assert options.extra_body is not None
    assert len(options.extra_body["contents"]) == 11


def test_the_callers_data_stays(client: genai.Client) -> None:
    """Lists, dicts and typed contents are as they were."""
    mixed: list[Any] = [types.Content.model_validate(history()[0]), *history()[1:]]
    before = copy.deepcopy(mixed)
    client.models.generate_content(model=FLASH, contents=mixed)
    assert mixed == before


def test_it_is_the_clients_type(provider: Provider) -> None:
    """`isinstance` holds; resources, chats and answers are the SDK's own; signatures too."""
    original = connect(provider)
    client = compacting(original, POLICY)
    assert isinstance(client, genai.Client)
    assert type(client.models) is type(original.models)
    assert type(client.chats.create(model=FLASH)) is type(original.chats.create(model=FLASH))
    assert type(plain(client)) is types.GenerateContentResponse
    assert inspect.isgenerator(client.models.generate_content_stream(model=FLASH, contents="x"))
    assert inspect.signature(client.models.generate_content) == inspect.signature(original.models.generate_content)
    assert inspect.iscoroutinefunction(client.aio.models.generate_content)
    assert client.models is client.models
    assert client.aio is client.aio
    assert is_compacting(client)
    assert is_compacting(client.aio)
    assert not is_compacting(original)
    assert "generate_content" not in vars(original.models)
    assert client != original
    assert {client: 1, original: 2} == {original: 2, client: 1}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_in_one_expression(provider: Provider) -> None:
    """The plain SDK closes its connections too early here; a wrapped client lives as long as its resources."""
    assert compacting(connect(provider), POLICY).models.generate_content(model=FLASH, contents="x").text
    talk = compacting(connect(provider), POLICY).chats.create(model=FLASH)
    gc.collect()
    assert talk.send_message("x").text
    assert asyncio.run(
        compacting(connect(provider), POLICY).aio.models.generate_content(model=FLASH, contents="x")
    ).text
    gc.collect()  # nobody closed the async side


def test_a_wrapped_client_is_let_go(provider: Provider) -> None:
    """Nothing of ours keeps the client, or a response, alive: both go at once, without a garbage collection."""
    gc.disable()
    try:
        original = connect(provider)
        client = compacting(original, POLICY)
        response, stream = plain(client), streamed(client)
        talk = client.chats.create(model=FLASH)
        assert list(talk.send_message_stream("x"))
        gone = [weakref.ref(each) for each in (original, response, stream, talk)]
        del original, client, response, stream, talk
        assert [each() for each in gone] == [None] * 4
    finally:
        gc.enable()


def test_copies(provider: Provider) -> None:
    """A copy compacts; what the plain client refuses, the wrapped one refuses with the same error."""
    client = compacting(connect(provider), POLICY)
    assert is_compacting(copy.copy(client))
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(client)
    with pytest.raises(TypeError, match="pickle"):
        copy.deepcopy(client)


def test_closing(provider: Provider) -> None:
    """`with` gives the wrapped client; closing it closes the original, as for a client of its own."""
    original = connect(provider)
    with compacting(original, POLICY) as client:
        assert is_compacting(client)
        plain(client)
    with pytest.raises(RuntimeError, match="closed"):
        plain(original)


def test_wrapping_again_replaces_every_option(provider: Provider) -> None:
    """The new policy alone is in force, on the async side too."""
    seen = EventCapture()
    first = compacting(connect(provider), POLICY, on_event=seen)
    again = compacting(first, False)
    plain(again)
    assert len(sent(provider)) == 11
    assert seen.events == []
    assert control(again.aio).policy is None
    plain(first)
    assert len(sent(provider)) < 11


def test_an_async_side_wrapped_alone(provider: Provider) -> None:
    """`compacting(client.aio)` takes async functions, which the client of both kinds cannot."""
    client, dropped = connect(provider), EventCapture()

    async def archive(event: object) -> None:
        dropped(event)

    with pytest.raises(ConfigError, match="on_drop is async"):
        compacting(client, POLICY, on_drop=archive)

    async def ask() -> None:
        async with compacting(client.aio, POLICY, on_drop=archive) as aio:
            await aio.models.generate_content(model=FLASH, contents=history())

    asyncio.run(ask())
    assert dropped.events


def test_control(provider: Provider, client: genai.Client) -> None:
    """Previews of every kind send nothing; `using`, `with_policy` and `forget` work as for the other SDKs."""
    handle = control(client)
    past: list[Any] = history()[:-1]
    talk = client.chats.create(model=FLASH, history=past)
    for preview in (
        handle.preview(client.models.generate_content, model=FLASH, contents=history()),
        handle.preview(client.models.generate_content_stream, model=FLASH, contents=history()),
        handle.preview(talk.send_message, "and now?"),
        handle.preview(talk.send_message_stream, "and now?"),
    ):
        assert preview.changed
        assert preview.body is not None
        assert len(preview.body["contents"]) < 11
    assert len(talk.get_history()) == 10
    for refused in (client.models.count_tokens, connect(provider).models.generate_content, client.caches.get):
        with pytest.raises(ConfigError):
            handle.preview(refused, model=FLASH, contents=history())
    assert provider.requests == []
    with handle.using(False):
        plain(client)
    assert len(sent(provider)) == 11
    plain(client)
    assert report_of(client, plain(client)).trigger is None  # the cut is remembered
    handle.forget(history())
    assert report_of(client, plain(client)).trigger == "tokens"
    strict = handle.with_policy(DropOldest(10))
    before = len(sent(provider))
    plain(strict)
    assert len(sent(provider)) < before


async def test_async_previews(provider: Provider, aio: Any) -> None:
    """The same for what is awaited; `preview` says which one to use."""
    talk = aio.chats.create(model=FLASH, history=history()[:-1])
    for method, args, kwargs in (
        (aio.models.generate_content, (), {"model": FLASH, "contents": history()}),
        (aio.models.generate_content_stream, (), {"model": FLASH, "contents": history()}),
        (talk.send_message, ("and now?",), {}),
        (talk.send_message_stream, ("and now?",), {}),
    ):
        assert (await control(aio).apreview(method, *args, **kwargs)).changed
    with pytest.raises(ConfigError, match="apreview"):
        control(aio).preview(aio.models.generate_content, model=FLASH, contents=history())
    assert provider.requests == []


async def test_concurrent_requests_have_their_own_reports(aio: Any) -> None:
    """Gathered calls on one client never see each other's reports."""

    async def ask(turns: int) -> tuple[int, float]:
        answer = await aio.models.generate_content(model=FLASH, contents=history(turns))
        return 2 * turns - 1, report_of(aio, answer).messages_before

    assert all(asked == told for asked, told in await asyncio.gather(*map(ask, range(1, 9))))


def test_a_budget_that_cannot_be_met(provider: Provider) -> None:
    """`on_unfit="raise"` sends nothing."""
    with compacting(connect(provider), DropOldest(5), on_unfit="raise") as client, pytest.raises(BudgetError):
        plain(client)
    assert provider.requests == []


def test_a_failure_inside_never_sends_uncompacted(
    provider: Provider, client: genai.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy falls back to the wrapped object for an AttributeError; here that would be a request nobody looked at."""

    def broken(*_: object) -> None:
        raise AttributeError("slipped")

    monkeypatch.setattr("compacting_client.bindings.google._models", broken)
    with pytest.raises(RuntimeError, match="models"):
        plain(compacting(client, POLICY))
    assert provider.requests == []
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = client.nothing_like_it  # type: ignore[attr-defined]


def test_what_is_no_client(client: genai.Client) -> None:
    """A resource is told to take a wrapped client; the module is named."""
    with pytest.raises(UnsupportedClientError, match="wrap the client that it belongs to"):
        compacting(client.models, POLICY)
    with pytest.raises(UnsupportedClientError, match=r"the module google\.genai"):
        compacting(genai, POLICY)


def test_the_account_survives_an_answer_that_is_no_json() -> None:
    """Usage only serves the account: a chunk that cannot be read costs nothing."""
    report = Report(request_id="1", api="gemini", model=FLASH, policy="off", log_content=False)
    google_requests._note(session(POLICY), report, types.HttpResponse(body='{"usageMetadata": '))
    assert report.usage is None
