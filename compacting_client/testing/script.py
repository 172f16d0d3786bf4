"""What a test says the model answers, and what it finds recorded afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from compacting_client.errors import ConfigError
from compacting_client.formats.base import Violation

__all__ = ["Failure", "Part", "Recorded", "Script", "Thinking", "ToolCall", "checked"]


@dataclass(frozen=True)
class ToolCall:
    """The model calls a tool.  Without an `id` each answer gets a new one, in the form of its provider."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str | None = None


@dataclass(frozen=True)
class Thinking:
    """The model thinks aloud: a signed thinking block at Anthropic, `reasoning_content` in a chat completion."""

    text: str


@dataclass(frozen=True)
class Failure:
    """An HTTP error in the provider's own JSON, instead of an answer.

    status: 400 to 599.  message: a usual one for that status when absent.  retry_after: seconds the client is told to
    wait, 0 for at once.  code: `error.code` of OpenAI, such as "context_length_exceeded".  body: the JSON of another server's error, or its
    text (""; none at all), in place of the provider's own.
    """

    status: int
    message: str | None = None
    retry_after: float | None = None
    code: str | None = None
    body: Mapping[str, Any] | str | None = None

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ConfigError(f"Failure(status={self.status!r}): an HTTP error status is 400 to 599")
        if self.retry_after is not None and not self.retry_after >= 0:
            raise ConfigError(f"Failure(retry_after={self.retry_after!r}): seconds, 0 or more, or None")


@dataclass(frozen=True)
class Recorded:
    """One POST that arrived, refused ones too.

    path: without the query.  query: as sent, without the "?".  headers: names in lower case.  body: the JSON object; {} where it was none.
    status: the HTTP status it was answered with; 0 while it is being answered.
    refusal: the rule it broke (`rule`, `where`, `message`), None where it broke none; a scripted Failure is no refusal.
    """

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    status: int = 0
    refusal: Violation | None = None
    query: str = ""


Part: TypeAlias = "str | ToolCall | Thinking"
Script: TypeAlias = "Callable[[Recorded], Part | Failure | Sequence[Part]]"


def checked(parts: Sequence[object], where: str) -> tuple[Part, ...] | Failure | Script:
    """One reply as given by a caller: its parts, or the one Failure or callable that stands alone.  Raises ConfigError."""
    alone = [part for part in parts if isinstance(part, Failure) or callable(part)]
    if alone and len(parts) > 1:
        raise ConfigError(f"{where}: a Failure or a callable is a whole reply, it cannot stand beside other parts")
    if alone:
        return cast("Failure | Script", alone[0])
    for part in parts:
        if not isinstance(part, str | ToolCall | Thinking):
            raise ConfigError(f"{where}: {part!r} is not a str, ToolCall, Thinking, Failure or callable")
    return cast("tuple[Part, ...]", tuple(parts))
