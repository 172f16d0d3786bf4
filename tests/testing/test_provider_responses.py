"""The loopback provider as OpenAI Responses: the real SDK reads what it answers."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from compacting_client.testing import Failure, Provider, Thinking, ToolCall


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture
def client(provider: Provider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=provider.openai_url, api_key="test", max_retries=0) as made:
        yield made


def test_a_text_with_its_usage(provider: Provider, client: openai.OpenAI) -> None:
    """From a string or from items; instructions count as input."""
    for given in ("Hi", [{"role": "user", "content": "Hi"}]):
        provider.reply("Hello.")
        request: dict[str, Any] = {"model": "gpt-5", "input": given, "instructions": "Be brief. " * 20}
        response = client.responses.create(**request)
        assert (response.output_text, response.status) == ("Hello.", "completed")
        assert response.usage is not None
        assert response.usage.input_tokens > 50
        assert response.usage.output_tokens > 0


def test_thoughts_and_calls(provider: Provider, client: openai.OpenAI) -> None:
    """In the order in which the provider gives them."""
    provider.reply(ToolCall("look_up", {"day": 1}), Thinking("Hm."))
    response = client.responses.create(model="gpt-5", input="Hi")
    assert [item.type for item in response.output] == ["reasoning", "function_call"]
    call = response.output[1]
    assert call.type == "function_call"
    assert (call.name, call.arguments) == ("look_up", '{"day": 1}')


def test_a_stream(provider: Provider, client: openai.OpenAI) -> None:
    """Its pieces are the text; its last event is the whole response."""
    provider.reply("Hello, and good day.")
    with client.responses.stream(model="gpt-5", input="Hi") as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        whole = stream.get_final_response()
    assert len(pieces) > 1
    assert "".join(pieces) == whole.output_text == "Hello, and good day."


def test_refusals(client: openai.OpenAI) -> None:
    """A scripted failure, a request without input, and one that is too long, as the SDK's own errors."""
    with Provider(window=100) as small:
        small.reply(Failure(429))
        wrong: dict[str, Any] = {"model": "gpt-5", "input": []}
        other = client.with_options(base_url=small.openai_url)
        with pytest.raises(openai.RateLimitError):
            other.responses.create(model="gpt-5", input="Hi")
        with pytest.raises(openai.BadRequestError, match="Missing required parameter"):
            other.responses.create(**wrong)
        with pytest.raises(openai.BadRequestError, match="exceeds the context window") as refused:
            other.responses.create(model="gpt-5", input="word " * 500)
        assert refused.value.code == "context_length_exceeded"
