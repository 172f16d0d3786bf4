"""The loopback provider, whatever the wire API: its script, its record, its window, its manners on the network."""

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest

from compacting_client.errors import ConfigError
from compacting_client.testing import EventCapture, Failure, Provider, Recorded, Thinking, ToolCall

CHAT: dict[str, Any] = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hi"}]}
MESSAGES: dict[str, Any] = {
    "model": "claude-sonnet-4-6",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hi"}],
}
WRONG: Any = []


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


def said(client: openai.OpenAI, **more: Any) -> str | None:
    request: dict[str, Any] = {**CHAT, **more}
    return client.chat.completions.create(**request).choices[0].message.content


def post(provider: Provider, path: str, body: bytes, method: str = "POST") -> tuple[int, Any]:
    """One request without an SDK."""
    connection = http.client.HTTPConnection(provider.url.removeprefix("http://"))
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


# ---------------------------------------------------------------------------------------------------- the script


def test_replies_come_in_the_order_they_were_scripted(provider: Provider, chat: openai.OpenAI) -> None:
    """Each reply() is one answer, first in first out, and `pending` counts those left."""
    provider.reply("one")
    provider.reply("two")
    assert (said(chat), provider.pending, said(chat), provider.pending) == ("one", 1, "two", 0)


def test_without_a_script_the_answer_says_how_many_messages_it_saw(provider: Provider, chat: openai.OpenAI) -> None:
    """The same request gets the same text each time."""
    two = [{"role": "system", "content": "Be brief."}, *CHAT["messages"]]
    assert (
        said(chat, messages=two)
        == said(chat, messages=two)
        == "This is the loopback provider; the request had 2 messages."
    )


@pytest.mark.parametrize("answer", ["seen: Hi", ["seen: ", "Hi"], ("seen: Hi",)])
def test_a_callable_answers_what_it_is_shown(provider: Provider, chat: openai.OpenAI, answer: Any) -> None:
    """It gets the recorded request and may return a part or several."""
    shown: list[Recorded] = []

    def respond(request: Recorded) -> Any:
        shown.append(request)
        return answer

    provider.reply(respond)
    assert said(chat) == "seen: Hi"
    assert shown[0].body["messages"] == CHAT["messages"]


def test_a_callable_may_fail_on_purpose_and_by_accident(provider: Provider, chat: openai.OpenAI) -> None:
    """A returned Failure is sent; an exception becomes a 500 that says what was wrong and is not tried again."""
    provider.reply(lambda _: Failure(503, "busy"))
    provider.reply(lambda request: request.body["absent"])
    seven: Any = 7
    provider.reply(lambda _: seven)
    with pytest.raises(openai.InternalServerError, match="busy"):
        said(chat)
    with pytest.raises(openai.InternalServerError, match="KeyError: 'absent'"):
        said(chat.with_options(max_retries=2))
    with pytest.raises(openai.InternalServerError, match="7 is not a str, ToolCall"):
        said(chat)
    assert [request.status for request in provider.requests] == [503, 500, 500]


def test_a_default_answers_once_the_script_is_used_up() -> None:
    """`default=` is asked for every request that no reply is left for."""
    with Provider(default=lambda request: f"{len(request.body['messages'])} so far") as provider:
        provider.reply("scripted")
        with openai.OpenAI(base_url=provider.openai_url, api_key="test") as client:
            assert [said(client), said(client), said(client)] == ["scripted", "1 so far", "1 so far"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Provider(0), "window=0"),
        (lambda: Provider(True), "window=True"),
        (lambda: Provider(window=WRONG), "window=\\[\\]"),
        (lambda: Provider(default=WRONG), "default=\\[\\]"),
        (lambda: Failure(200), "status=200"),
        (lambda: Failure(429, retry_after=-1), "retry_after=-1"),
        (lambda: Provider().reply(WRONG), "not a str"),
        (lambda: Provider().reply("text", Failure(500)), "whole reply"),
        (lambda: Provider().reply(lambda _: "text", "text"), "whole reply"),
    ],
)
def test_a_wrong_setting_is_named(wrong: Any, message: str) -> None:
    """Field and value stand in the error, when the provider or the reply is made."""
    with pytest.raises(ConfigError, match=message):
        wrong()


# ---------------------------------------------------------------------------------------------------- the record


def test_every_post_is_recorded(provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """Path without query, lower-case headers, body, status; of both providers, in their order."""
    chat.chat.completions.create(**CHAT, extra_headers={"X-Trace": "7"}, extra_query={"v": "1"})
    claude.messages.create(**MESSAGES)
    first, second = provider.requests
    assert (first.path, first.body, first.headers["x-trace"], first.status, first.refusal) == (
        "/v1/chat/completions",
        CHAT,
        "7",
        200,
        None,
    )
    assert (second.path, second.body) == ("/v1/messages", MESSAGES)


def test_the_record_is_a_copy(provider: Provider, chat: openai.OpenAI) -> None:
    """What a test does to the list it got changes nothing."""
    said(chat)
    provider.requests.clear()
    assert len(provider.requests) == 1


def test_a_refused_request_is_recorded_and_takes_no_reply(provider: Provider, chat: openai.OpenAI) -> None:
    """The scripted reply waits for the request that is accepted."""
    provider.reply("fine")
    orphan = [*CHAT["messages"], {"role": "tool", "tool_call_id": "call_1", "content": "72"}]
    with pytest.raises(openai.BadRequestError):
        said(chat, messages=orphan)
    assert said(chat) == "fine"
    refused, accepted = provider.requests
    assert refused.refusal is not None
    assert (refused.status, refused.refusal.rule, refused.body["messages"]) == (400, "oc-tool-orphan", orphan)
    assert (accepted.status, accepted.refusal) == (200, None)


def test_many_threads_at_once_each_get_one_reply(provider: Provider, chat: openai.OpenAI) -> None:
    """No reply is given twice or lost, and nothing is missing from the record."""
    for number in range(40):
        provider.reply(f"reply {number}")
    heard: list[str | None] = []
    threads = [threading.Thread(target=lambda: heard.extend(said(chat) for _ in range(4))) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, heard)) == sorted(f"reply {number}" for number in range(40))
    assert [request.status for request in provider.requests] == [200] * 40


async def test_many_tasks_at_once_are_served(provider: Provider) -> None:
    """Fifty requests of one async client run side by side."""
    async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="test") as client:
        answers = await asyncio.gather(*(client.chat.completions.create(**CHAT) for _ in range(50)))
    assert len({answer.id for answer in answers}) == len(provider.requests) == 50


# ---------------------------------------------------------------------------------------------------- failures


def test_a_client_tries_again_after_a_failure(
    provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic
) -> None:
    """`retry_after=0` makes both SDKs try again at once; each attempt is recorded."""
    for _ in range(2):
        provider.reply(Failure(429, retry_after=0))
        provider.reply("second try")
    assert said(chat.with_options(max_retries=1)) == "second try"
    answer = claude.with_options(max_retries=1).messages.create(**MESSAGES)
    assert answer.content[0].to_dict() == {"type": "text", "text": "second try"}
    assert [request.status for request in provider.requests] == [429, 200, 429, 200]
    assert [request.headers["x-stainless-retry-count"] for request in provider.requests] == ["0", "1", "0", "1"]


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/chat/completions", CHAT), ("/v1/messages", MESSAGES)], ids=["openai", "anthropic"]
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_is_json_for_streams_too(provider: Provider, path: str, body: dict[str, Any], stream: bool) -> None:
    """The status and the message are as scripted, whether or not a stream was asked for."""
    provider.reply(Failure(500, "no luck"))
    status, answer = post(provider, path, json.dumps({**body, "stream": stream}).encode())
    assert (status, answer["error"]["message"]) == (500, "no luck")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'{"messages": "text"}', b'{"messages": [1]}'])
def test_a_body_that_is_no_request_is_refused(provider: Provider, path: str, body: bytes) -> None:
    """Bad JSON and wrong shapes get a 400 in JSON, and are recorded."""
    status, answer = post(provider, path, body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert [request.status for request in provider.requests] == [400]


def test_an_unknown_path_is_a_404_that_both_sdks_can_read(
    provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic
) -> None:
    """What this provider does not serve says so, for any method; only POSTs are recorded."""
    with pytest.raises(openai.NotFoundError, match="POST /v1/embeddings is not known"):
        chat.embeddings.create(model="m", input="x")
    with pytest.raises(anthropic.NotFoundError, match="GET /v1/models is not known"):
        claude.models.list()
    assert [(request.path, request.status) for request in provider.requests] == [("/v1/embeddings", 404)]


# ---------------------------------------------------------------------------------------------------- the network


@pytest.mark.parametrize("read", [0, 1, 3])
def test_a_stream_may_be_closed_early(provider: Provider, capfd: pytest.CaptureFixture[str], read: int) -> None:
    """Neither side hangs, nothing is printed, and the next request is answered."""
    with openai.OpenAI(base_url=provider.openai_url, api_key="test") as client:
        for _ in range(5):
            provider.reply("word " * 50_000)
            with client.chat.completions.create(**CHAT, stream=True) as stream:
                for _, _chunk in zip(range(read), stream, strict=False):
                    pass
        provider.reply("still here")
        assert said(client) == "still here"
    assert capfd.readouterr() == ("", "")


def test_connections_are_kept_alive(provider: Provider, claude: anthropic.Anthropic) -> None:
    """Plain answers and fully read streams leave the connection open for the next request."""
    ports: list[Any] = []
    for stream in (False, True, False):
        raw = claude.messages.with_raw_response.create(**MESSAGES, stream=stream)
        raw.http_response.read()
        ports.append(raw.http_response.extensions["network_stream"].get_extra_info("client_addr"))
    assert len(set(ports)) == 1


def test_stop_closes_open_connections(capfd: pytest.CaptureFixture[str]) -> None:
    """A client that was never closed does not hold the provider up, and is told that nobody listens any more."""
    provider = Provider().start()
    client = openai.OpenAI(base_url=provider.openai_url, api_key="test", max_retries=0)
    said(client)
    provider.stop()
    provider.stop()
    with pytest.raises(openai.APIConnectionError):
        said(client)
    client.close()
    assert capfd.readouterr() == ("", "")


def test_a_stopped_provider_starts_again_and_remembers() -> None:
    """Replies and records outlive the port; there is no url in between."""
    provider = Provider()
    provider.reply("later")
    for answer in ("later", "This is the loopback provider; the request had 1 messages."):
        with provider, openai.OpenAI(base_url=provider.openai_url, api_key="test") as client:
            assert said(client) == answer
        with pytest.raises(RuntimeError, match="not running"):
            _ = provider.url
    assert len(provider.requests) == 2


# ---------------------------------------------------------------------------------------------------- parts and events


def test_parts_compare_and_print() -> None:
    """They are values: equal by content, readable in a failed assertion."""
    assert ToolCall("f", {"a": 1}) == ToolCall("f", {"a": 1}) != ToolCall("f")
    assert repr(Thinking("hm")) == "Thinking(text='hm')"


@dataclass(frozen=True)
class Dropped:
    tokens: int
    name: str = "content.dropped"


@dataclass(frozen=True)
class Skipped:
    name: str = "compaction.skipped"


def test_captured_events_are_found_by_name_and_by_class() -> None:
    """A capture is a callback; it keeps order, selects, takes what has no name, and forgets on demand."""
    capture = EventCapture()
    for event in (Dropped(3), Skipped(), Dropped(4), "a report"):
        capture(event)
    assert capture.events == [Dropped(3), Skipped(), Dropped(4), "a report"]
    assert capture.names == ["content.dropped", "compaction.skipped", "content.dropped"]
    assert capture.named("content.dropped") == capture.of(Dropped) == [Dropped(3), Dropped(4)]
    assert repr(capture) == "EventCapture(['content.dropped', 'compaction.skipped', 'content.dropped'])"
    capture.clear()
    assert capture.events == []
