"""Ways to count that have a name: ``counter="tiktoken"`` and ``counter="provider"``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from compacting_client.core.imprints import Imprint
from compacting_client.errors import ConfigError

__all__ = ["BY_PROVIDER", "TextEncoding", "Tiktoken", "counter_of"]

BY_PROVIDER = "provider"
VOCABULARY = "o200k_base"
"""That of the models that `tiktoken` was made for, the older ones aside."""

MESSAGE_TOKENS = 4
"""Around the text of a message: its start, its role, its end (the cookbook's "How to count tokens with tiktoken": three, and the role)."""


class TextEncoding(Protocol):
    """A `tiktoken.Encoding`."""

    def encode_ordinary(self, text: str) -> list[int]:
        """The tokens of a text."""
        ...


@dataclass(frozen=True)
class Tiktoken:
    """Counts text by a vocabulary of `tiktoken`, media by the provider's formula; the calls and parts of a message as their JSON."""

    encoding: TextEncoding

    def size(self, imprint: Imprint, role: str) -> int:  # noqa: ARG002 - every role is one token
        """Tokens of one message, its media aside."""
        text = (
            imprint.decode("utf-8", "replace")
            if type(imprint) is bytes
            else imprint[0]
            if type(imprint) is tuple
            else imprint
        )
        return MESSAGE_TOKENS + self._tokens(str(text))

    def weight(self, data: bytes) -> int:
        """Tokens of the JSON of a system prompt, or of the tools."""
        return self._tokens(data.decode("utf-8", "replace"))

    def _tokens(self, text: str) -> int:
        return len(self.encoding.encode_ordinary(text))


def counter_of(value: Any) -> Any:
    """The counter that a setting stands for: a function, None, `BY_PROVIDER`, or a `Tiktoken`.  Raises ConfigError."""
    if value == "tiktoken":
        return Tiktoken(_vocabulary())
    if value == BY_PROVIDER:
        return BY_PROVIDER
    if not callable(value) and callable(getattr(value, "encode_ordinary", None)):
        return Tiktoken(value)
    if value is None or callable(value) or isinstance(value, Tiktoken):
        return value
    raise ConfigError(f'counter must be a function or None, not {value!r}; "tiktoken" and "provider" are known by name')


def _vocabulary() -> Any:
    """Raises ConfigError where the package, or its vocabulary, cannot be had."""
    try:
        import tiktoken
    except ImportError as error:
        raise ConfigError(
            'counter="tiktoken" needs the package tiktoken: pip install "compacting-client[tiktoken]"'
        ) from error
    try:
        return tiktoken.get_encoding(VOCABULARY)
    except Exception as error:
        raise ConfigError(
            f'counter="tiktoken" needs the vocabulary {VOCABULARY}, which could not be had ({type(error).__name__}): tiktoken downloads it '
            "once; without a network set TIKTOKEN_CACHE_DIR to a folder that has it, or pass an encoding of your own (counter=encoding)"
        ) from error
