"""What the provider asks of each wire API, and what the APIs share."""

from __future__ import annotations

import abc
import json
import math
import secrets
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from compacting_client.formats.base import Violation
from compacting_client.testing.script import Part, Recorded

__all__ = ["Json", "Problem", "Tokens", "WireApi", "event", "fragments", "items", "new_id", "table"]

Json: TypeAlias = "dict[str, Any]"


class Tokens(NamedTuple):
    """Sizes of one request and its answer.  `prompt` includes `cached`; `answer` includes `thinking`."""

    prompt: int
    cached: int
    answer: int
    thinking: int


class Problem(NamedTuple):
    """An error to be told in a provider's JSON.  Without a message it gets the usual one of its status."""

    status: int
    message: str | None
    where: str | None
    code: str | None
    request_id: str


class WireApi(abc.ABC):
    """One wire format.  Bodies and answers are JSON objects; an answer is made whole and cut up for streaming."""

    name: str
    answers_at: str | tuple[str, ...]  # how the path ends where the model answers
    counts_at: str | None = None  # the same where tokens are counted, if there is such a place

    def body(self, request: Recorded, /) -> Json:
        """The body to judge and answer, with what the API has in the path."""
        return request.body

    @abc.abstractmethod
    def refuse(self, body: Json, /) -> Violation | None:
        """The first thing that the real provider would refuse."""

    @abc.abstractmethod
    def overflow(self, body: Json, tokens: int, window: int, /) -> Violation | None:
        """The refusal of a prompt of this many tokens, where it does not fit the window."""

    @abc.abstractmethod
    def prompt(self, body: Json, /) -> list[Any]:
        """Everything that is counted, in the order the cache sees it: tools, system, messages."""

    def identity(self, item: Any, /) -> Any:
        """What two prompt items must have in common to be one cache entry."""
        return item

    def count(self, tokens: int, /) -> Json:
        """The answer to a request for a token count."""
        return {"input_tokens": tokens}

    @abc.abstractmethod
    def error(self, problem: Problem, /) -> Json:
        """An error in this provider's JSON."""

    @abc.abstractmethod
    def answer(self, body: Json, parts: Sequence[Part], tokens: Tokens, /) -> Json:
        """The whole answer."""

    def streams(self, request: Recorded, /) -> bool:
        """Whether the answer is wanted as server-sent events."""
        return request.body.get("stream") is True

    @abc.abstractmethod
    def stream(self, body: Json, answer: Json, /) -> Iterator[bytes]:
        """The server-sent events of an answer."""


def items(value: Any) -> list[Any]:
    """A list, or nothing where a body holds something else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def table(value: Any) -> Json:
    """A JSON object, or an empty one where a body holds something else."""
    return cast("Json", value) if isinstance(value, dict) else {}


def new_id(prefix: str) -> str:
    """An id that no other answer has."""
    return prefix + secrets.token_hex(12)


def fragments(text: str, most: int = 5) -> list[str]:
    """A text cut into a few pieces of about the same length; none for the empty text."""
    size = max(1, math.ceil(len(text) / most))
    return [text[start : start + size] for start in range(0, len(text), size)]


def event(data: Json, name: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()
