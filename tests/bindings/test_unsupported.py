"""What is no client of a supported SDK: an error that says what to pass."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import anthropic
import openai
import pytest

from compacting_client import ConfigError, UnsupportedClientError, compacting, control, is_compacting
from tests.bindings.support import params

PASS = r"pass a client of the OpenAI, Anthropic or Google Gen AI SDK, sync or async, such as OpenAI\(\), AsyncAnthropic\(\) or genai.Client\(\)"


class Wrapper:
    """A library's object around a client, as of instructor or an agent framework."""

    def __init__(self, client: Any) -> None:
        self.client = client


class Hostile:
    """Its attributes raise anything."""

    @property
    def _client(self) -> Any:
        raise RuntimeError("not yet connected")

    client = _client


class Lookalike:
    """Has what a client has, and is none."""

    chat = messages = SimpleNamespace(completions=SimpleNamespace(create=print))

    def request(self, *_: Any) -> None: ...


NO_CLIENTS: dict[str, Any] = {
    "None": lambda: None,
    "text": lambda: "gpt-5",
    "number": lambda: 7,
    "dict": dict,
    "function": lambda: print,
    "mock": MagicMock,
    "mock with a spec": lambda: MagicMock(spec=openai.OpenAI),
    "hostile": Hostile,
    "lookalike": Lookalike,
    "pool": lambda: openai.OpenAI(api_key="test")._client,
}


@pytest.mark.parametrize("make", params(NO_CLIENTS))
def test_what_is_no_client(make: Any) -> None:
    """The error is a TypeError too, and says what to pass; nothing else is known of the object."""
    thing = make()
    with pytest.raises(UnsupportedClientError, match=PASS) as error:
        compacting(thing, 1000)
    assert isinstance(error.value, TypeError)
    assert "wrap the client" not in str(error.value)
    assert not is_compacting(thing)


def test_modules_and_classes_are_named() -> None:
    """`compacting(openai)` and `compacting(OpenAI)` are slips that the message names."""
    openai.api_key = "test"
    try:
        openai._load_client()  # now the module has a client of its own, in an attribute named like that of a resource
        with pytest.raises(UnsupportedClientError, match=rf"the module openai: {PASS}"):
            compacting(openai, 1000)
    finally:
        openai._reset_client()
        openai.api_key = None
    with pytest.raises(UnsupportedClientError, match=rf"the module anthropic: {PASS}"):
        compacting(anthropic, 1000)
    with pytest.raises(UnsupportedClientError, match=rf"the class OpenAI: {PASS}"):
        compacting(openai.OpenAI, 1000)


def test_what_has_a_client_is_told_to_take_a_wrapped_one() -> None:
    """An object around a client, or a resource of it: wrap the client first."""
    for client in (openai.OpenAI(api_key="test"), anthropic.AsyncAnthropic(api_key="test")):
        with pytest.raises(
            UnsupportedClientError, match=r"wrap the client that it belongs to, and take the Wrapper of that"
        ):
            compacting(Wrapper(client), 1000)
    with pytest.raises(UnsupportedClientError, match="wrap the client that it belongs to"):
        compacting(openai.OpenAI(api_key="test").chat.completions, 1000)


def test_a_key_given_by_mistake_is_not_repeated() -> None:
    """The object's text stays out of the message, which may end up in a log."""
    with pytest.raises(UnsupportedClientError) as error:
        compacting("sk-secret", 1000)
    assert "secret" not in str(error.value)


def test_control_takes_only_wrapped_clients() -> None:
    """A plain client, or no client at all, has no handle; the key of a client stays out of the message."""
    for thing in (openai.OpenAI(api_key="sk-secret"), "sk-secret", None, MagicMock()):
        with pytest.raises(UnsupportedClientError, match=r"is not wrapped.*compacting") as error:
            control(thing)
        assert "secret" not in str(error.value)


def test_a_wrong_setting_is_told_before_a_request_is_made() -> None:
    """A ConfigError is a ValueError and a TypeError, for those who catch either."""
    with pytest.raises(ConfigError) as error:
        compacting(openai.OpenAI(api_key="test"), True)
    assert isinstance(error.value, ValueError)
    assert isinstance(error.value, TypeError)
