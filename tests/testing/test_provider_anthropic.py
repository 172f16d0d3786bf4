"""The loopback provider as real Anthropic clients see it."""

import re
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from compacting_client.testing import Failure, Provider, Thinking, ToolCall

ASK: dict[str, Any] = {
    "model": "claude-sonnet-4-6",
    "max_tokens": 1_000,
    "messages": [{"role": "user", "content": "What is the weather in Rome and Oslo?"}],
}
ROME, OSLO = ToolCall("get_weather", {"city": "Rome"}), ToolCall("get_weather", {"city": "Oslo 🏔"})


def asking(**changes: Any) -> dict[str, Any]:
    return {**ASK, **changes}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture
def client(provider: Provider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=provider.anthropic_url, api_key="test", max_retries=0) as made:
        yield made


def answer_of(client: anthropic.Anthropic, streamed: bool, **request: Any) -> Any:
    """The answer, plain or put together by the SDK from a stream."""
    if not streamed:
        return client.messages.create(**request)
    with client.messages.stream(**request) as stream:
        return stream.get_final_message()


def results(answer: Any) -> dict[str, Any]:
    ids = [block.id for block in answer.content if block.type == "tool_use"]
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": each, "content": "24"} for each in ids]}


@pytest.mark.parametrize("streamed", [False, True])
def test_text(provider: Provider, client: anthropic.Anthropic, streamed: bool) -> None:
    """Each text is a block of its own; empty text is none."""
    provider.reply("Sunny in Rome,", "", "24 °C 🌞")
    answer = answer_of(client, streamed, **ASK)
    assert [block.text for block in answer.content if block.type == "text"] == ["Sunny in Rome,", "24 °C 🌞"]
    assert (len(answer.content), answer.stop_reason, answer.model, answer.role) == (
        2,
        "end_turn",
        "claude-sonnet-4-6",
        "assistant",
    )
    assert answer.id.startswith("msg_")


@pytest.mark.parametrize("streamed", [False, True])
def test_thinking_and_tool_calls(provider: Provider, client: anthropic.Anthropic, streamed: bool) -> None:
    """Thinking is signed, calls have object inputs and ids of Anthropic's form, in the order of the script."""
    provider.reply(Thinking("Two cities."), "Let me look.", ROME, OSLO)
    answer = answer_of(client, streamed, **ASK)
    thought, text, rome, oslo = answer.content
    assert (thought.type, text.type, rome.type, oslo.type) == ("thinking", "text", "tool_use", "tool_use")
    assert (thought.thinking, len(thought.signature) > 20) == ("Two cities.", True)
    assert (rome.name, rome.input, oslo.input, answer.stop_reason) == (
        "get_weather",
        {"city": "Rome"},
        {"city": "Oslo 🏔"},
        "tool_use",
    )
    assert rome.id != oslo.id
    assert all(re.fullmatch(r"toolu_[a-zA-Z0-9_-]+", call.id) for call in (rome, oslo))


def test_the_events_of_a_stream(provider: Provider, client: anthropic.Anthropic) -> None:
    """Blocks open empty, fill over several deltas and close, between the message's own events."""
    provider.reply(Thinking("Two cities."), "Let me look.", ROME)
    events = list(client.messages.create(**ASK, stream=True))
    assert [event.type for event in events[:2]] == ["message_start", "content_block_start"]
    assert [event.type for event in events[-3:]] == ["content_block_stop", "message_delta", "message_stop"]
    kinds = [event.delta.type for event in events if event.type == "content_block_delta"]
    assert list(dict.fromkeys(kinds)) == ["thinking_delta", "signature_delta", "text_delta", "input_json_delta"]
    assert min(kinds.count(kind) for kind in set(kinds) - {"signature_delta"}) > 2
    opened = [event.content_block.to_dict() for event in events if event.type == "content_block_start"]
    assert [block["type"] for block in opened] == ["thinking", "text", "tool_use"]
    assert (opened[0]["thinking"], opened[0]["signature"], opened[1]["text"], opened[2]["input"]) == ("", "", "", {})


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("model", ["claude-sonnet-4-6", "claude-sonnet-5-1"])
def test_a_tool_loop(provider: Provider, client: anthropic.Anthropic, streamed: bool, model: str) -> None:
    """The SDK's own blocks, sent back with their results, are accepted, thinking included."""
    for _ in range(3):
        provider.reply(Thinking("Look."), ROME, OSLO)
    provider.reply("24 degrees.")
    messages = list(ASK["messages"])
    for _ in range(3):
        answer = answer_of(client, streamed, **asking(model=model, messages=messages))
        messages += [{"role": "assistant", "content": answer.content}, results(answer)]
    answer = answer_of(client, streamed, **asking(model=model, messages=messages))
    assert answer.stop_reason == "end_turn"


async def test_the_async_client(provider: Provider) -> None:
    """Plain and streamed answers and failures reach an async client as they reach a sync one."""
    for _ in range(3):
        provider.reply(Thinking("Look."), "Let me look.", ROME)
    provider.reply(Failure(529))
    async with anthropic.AsyncAnthropic(base_url=provider.anthropic_url, api_key="test", max_retries=0) as client:
        plain = await client.messages.create(**ASK)
        async with client.messages.stream(**ASK) as stream:
            text = "".join([piece async for piece in stream.text_stream])
        async with await client.messages.create(**ASK, stream=True) as events:
            await anext(aiter(events))
        with pytest.raises(anthropic.APIStatusError) as caught:
            await client.messages.create(**ASK)
    assert [block.type for block in plain.content] == ["thinking", "text", "tool_use"]
    assert (text, caught.value.status_code) == ("Let me look.", 529)


def test_the_beta_resource_is_served_too(provider: Provider, client: anthropic.Anthropic) -> None:
    """`client.beta.messages` asks the same path."""
    provider.reply(ROME)
    answer = client.beta.messages.create(**ASK, betas=["some-beta"])
    assert [block.type for block in answer.content] == ["tool_use"]
    assert [request.path for request in provider.requests] == ["/v1/messages"]


def test_tokens_are_counted_as_usage_counts_them(provider: Provider, client: anthropic.Anthropic) -> None:
    """`count_tokens` says what the request would use; it takes no reply and is recorded."""
    provider.reply("Sunny.")
    tool: Any = {"name": "f", "description": "x" * 400, "input_schema": {"type": "object"}}
    system = "Be brief."
    counted = client.messages.count_tokens(
        model=ASK["model"], messages=ASK["messages"], tools=[tool], system=system
    ).input_tokens
    used = client.messages.create(**ASK, tools=[tool], system=system).usage.input_tokens
    assert counted == used > 100
    assert (provider.pending, len(provider.requests)) == (0, 2)


@pytest.mark.parametrize(
    ("failure", "error", "kind"),
    [
        (Failure(400, "Bad idea."), anthropic.BadRequestError, "invalid_request_error"),
        (Failure(401), anthropic.AuthenticationError, "authentication_error"),
        (Failure(413), anthropic.RequestTooLargeError, "request_too_large"),
        (Failure(418), anthropic.APIStatusError, "invalid_request_error"),
        (Failure(429), anthropic.RateLimitError, "rate_limit_error"),
        (Failure(500), anthropic.InternalServerError, "api_error"),
        (Failure(529, "Full."), anthropic.APIStatusError, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_failures(
    provider: Provider, client: anthropic.Anthropic, failure: Failure, error: type, kind: str, stream: bool
) -> None:
    """Each status becomes the SDK's error of that status, with type, message and request id."""
    provider.reply(failure)
    with pytest.raises(error) as caught:
        client.messages.create(**ASK, stream=stream)
    assert isinstance(caught.value, anthropic.APIStatusError)
    assert isinstance(caught.value.body, dict)
    told = caught.value.body["error"]
    assert (caught.value.status_code, caught.value.type, told["type"]) == (failure.status, kind, kind)
    assert failure.message is None or told["message"] == failure.message
    assert caught.value.request_id == caught.value.body["request_id"]


def turn(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


CALL: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "24"}
UNSIGNED: dict[str, Any] = {"type": "thinking", "thinking": "Hm.", "signature": ""}
TEXT: dict[str, Any] = {"type": "text", "text": "And now?"}


@pytest.mark.parametrize(
    ("messages", "rule", "wording"),
    [
        ([], "an-empty", "at least one message is required"),
        (
            [*ASK["messages"], turn("user", RESULT)],
            "an-orphan",
            "unexpected `tool_use_id` found in `tool_result` blocks: toolu_1",
        ),
        (
            [*ASK["messages"], turn("assistant", CALL), turn("user", TEXT)],
            "an-unanswered",
            "without `tool_result` blocks immediately after",
        ),
        ([*ASK["messages"], turn("assistant", CALL), turn("user", TEXT, RESULT)], "an-result-first", "tool_result"),
        ([turn("user", {"type": "text", "text": ""})], "an-text-empty", "text content blocks must be non-empty"),
        (
            [*ASK["messages"], turn("assistant", UNSIGNED, TEXT), turn("user", TEXT)],
            "an-think-shape",
            "Invalid `signature` in `thinking` block",
        ),
    ],
)
def test_refusals(provider: Provider, client: anthropic.Anthropic, messages: Any, rule: str, wording: str) -> None:
    """A history that Anthropic refuses gets its 400 and its wording, and the broken rule stands in the record."""
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**asking(messages=messages))
    assert wording in caught.value.message
    assert caught.value.type == "invalid_request_error"
    (recorded,) = provider.requests
    assert recorded.refusal is not None
    assert (recorded.refusal.rule, recorded.status) == (rule, 400)


def test_the_window() -> None:
    """Above it the provider says how much was too much, in Anthropic's words; `max_tokens` does not count."""
    with (
        Provider(window=100) as provider,
        anthropic.Anthropic(base_url=provider.anthropic_url, api_key="test") as client,
    ):
        client.messages.create(**ASK)
        with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 100 maximum"):
            client.messages.create(**ASK, system="x" * 400)
        refused = provider.requests[1].refusal
    assert refused is not None
    assert refused.rule == "prompt_too_long"


def test_the_prompt_cache(provider: Provider, client: anthropic.Anthropic) -> None:
    """Tools, system and leading messages of an earlier request are read from the cache, wherever the cache marks stand."""

    def used(*texts: str, system: str = "s" * 400, marked: int | None = None) -> tuple[int, int]:
        messages: list[Any] = [{"role": "user", "content": text} for text in texts]
        if marked is not None:
            marks = {"type": "text", "text": texts[marked], "cache_control": {"type": "ephemeral"}}
            messages[marked] = turn("user", marks)
        usage = client.messages.create(**asking(messages=messages, system=system)).usage
        return usage.cache_read_input_tokens or 0, usage.input_tokens

    read, fresh = used("a" * 400)
    assert (read, fresh > 200) == (0, True)
    assert used("a" * 400)[1] == 0
    read, again = used("a" * 400, "b" * 400)
    assert (read, 100 <= again < 110) == (fresh, True)
    assert used("a" * 400, "b" * 400, marked=0)[1] == 0
    assert used("a" * 400, system="t" * 400)[0] == 0


@pytest.mark.parametrize("streamed", [False, True])
def test_usage_says_the_same_plain_and_streamed(
    provider: Provider, client: anthropic.Anthropic, streamed: bool
) -> None:
    """Input, cache and output tokens arrive at the end of a stream as in a plain answer."""
    provider.reply("x" * 398)
    client.messages.create(**ASK)
    provider.reply("x" * 398)
    usage = answer_of(client, streamed, **ASK).usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (0, 17, 100)
