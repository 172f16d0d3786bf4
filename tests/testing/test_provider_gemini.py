"""The loopback provider as real Google Gen AI clients see it."""

from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from compacting_client.testing import Failure, Provider, Thinking, ToolCall

FLASH, PRO = "gemini-2.5-flash", "gemini-3-pro"
ROME, OSLO = ToolCall("get_weather", {"city": "Rome"}), ToolCall("get_weather", {"city": "Oslo 🏔"})


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture
def client(provider: Provider) -> Iterator[genai.Client]:
    with genai.Client(api_key="test", http_options=types.HttpOptions(base_url=provider.google_url)) as made:
        yield made


def ask(client: genai.Client, contents: Any = "Weather?", model: str = FLASH, *, streamed: bool = False) -> list[Any]:
    """The answer, or its chunks."""
    if streamed:
        return list(client.models.generate_content_stream(model=model, contents=contents))
    return [client.models.generate_content(model=model, contents=contents)]


def parts(answers: list[Any]) -> list[Any]:
    return [part for answer in answers for part in answer.candidates[0].content.parts]


@pytest.mark.parametrize("streamed", [False, True])
def test_text_thoughts_and_calls(provider: Provider, client: genai.Client, streamed: bool) -> None:
    """They come back as they were scripted, text in pieces where it is streamed, calls whole."""
    provider.reply(Thinking("Hm."), "Let me look, ", "in both places.", ROME, OSLO)
    answers = ask(client, streamed=streamed)
    got = parts(answers)
    assert "".join(part.text for part in got if part.text and not part.thought) == "Let me look, in both places."
    assert "".join(part.text for part in got if part.thought) == "Hm."
    calls = [part.function_call for part in got if part.function_call]
    assert [(call.name, call.args) for call in calls] == [(each.name, each.arguments) for each in (ROME, OSLO)]
    assert [answer.candidates[0].finish_reason for answer in answers][-1] == types.FinishReason.STOP
    assert (len(answers) > 4) == streamed


@pytest.mark.parametrize("streamed", [False, True])
def test_usage(provider: Provider, client: genai.Client, streamed: bool) -> None:
    """Counts of prompt, thoughts and answer add up; a repeated prompt comes from the cache."""
    for _ in range(2):
        provider.reply(Thinking("Hm."), "Sunny.")
    first, second = (ask(client, streamed=streamed)[-1].usage_metadata for _ in range(2))
    written = first.candidates_token_count + first.thoughts_token_count
    assert first.prompt_token_count + written == first.total_token_count
    assert (first.cached_content_token_count, second.cached_content_token_count) == (None, first.prompt_token_count)


def test_signed_calls_have_to_come_back(provider: Provider, client: genai.Client) -> None:
    """From Gemini 3 on the first call of an answer is signed; without its signature, or with another's, it is refused."""
    provider.reply(ROME, OSLO)
    (answer,) = ask(client, model=PRO)
    content = answer.candidates[0].content
    assert [bool(part.thought_signature) for part in content.parts] == [True, False]
    assert all(part.function_call.id for part in content.parts)
    answered = types.Content(
        role="user",
        parts=[types.Part.from_function_response(name="get_weather", response={"result": n}) for n in (24, 9)],
    )
    history: list[Any] = [types.UserContent("Weather?"), content, answered]
    assert ask(client, history, PRO)
    signature, content.parts[0].thought_signature = content.parts[0].thought_signature, None
    with pytest.raises(errors.ClientError, match="missing a thought_signature"):
        ask(client, history, PRO)
    content.parts[0].thought_signature = signature
    content.parts[0].function_call.name = "another"
    with pytest.raises(errors.ClientError, match="Corrupted thought signature"):
        ask(client, history, PRO)
    assert [each.refusal.rule for each in provider.requests if each.refusal] == ["ge-signature", "ge-signature-edited"]


def test_older_models_sign_nothing(provider: Provider, client: genai.Client) -> None:
    """Neither a signature nor an id, unless the script gives one."""
    provider.reply(ROME, ToolCall("f", id="mine"))
    got = parts(ask(client))
    assert [(part.function_call.id, part.thought_signature) for part in got] == [(None, None), ("mine", None)]


def test_what_is_refused(provider: Provider, client: genai.Client) -> None:
    """With status 400 and the provider's wording, and no reply is used up."""
    provider.reply("later")
    with pytest.raises(errors.ClientError, match="function response turn comes immediately after") as error:
        ask(client, [types.UserContent(types.Part.from_function_response(name="f", response={}))])
    assert (error.value.code, error.value.status) == (400, "INVALID_ARGUMENT")
    assert provider.pending == 1


def test_the_window() -> None:
    """A prompt over the window is refused as the provider says it."""
    with Provider(window=50) as provider:
        options = types.HttpOptions(base_url=provider.google_url)
        with genai.Client(api_key="test", http_options=options) as client:
            with pytest.raises(errors.ClientError, match=r"input token count \(\d+\) exceeds .* allowed \(50\)"):
                ask(client, "word " * 100)
            assert ask(client, "word")


def test_failures(provider: Provider, client: genai.Client) -> None:
    """A scripted failure has the provider's status words."""
    for status, word in ((429, "RESOURCE_EXHAUSTED"), (503, "UNAVAILABLE"), (418, "INVALID_ARGUMENT")):
        provider.reply(Failure(status))
        with pytest.raises(errors.APIError) as error:
            ask(client)
        assert (error.value.code, error.value.status) == (status, word)


def test_token_counts(provider: Provider, client: genai.Client) -> None:
    """Counting takes no reply."""
    provider.reply("later")
    counted = client.models.count_tokens(model=FLASH, contents="word " * 40)
    assert counted.total_tokens is not None
    assert counted.total_tokens > 50
    assert provider.pending == 1


@pytest.mark.parametrize("model", [FLASH, f"publishers/google/models/{FLASH}"])
def test_vertex(provider: Provider, model: str) -> None:
    """The same at the addresses of Vertex."""
    options = types.HttpOptions(base_url=provider.google_url)
    with genai.Client(vertexai=True, api_key="test", http_options=options) as client:
        (answer,) = ask(client, model=model)
    assert answer.model_version == FLASH
    assert provider.requests[0].status == 200
