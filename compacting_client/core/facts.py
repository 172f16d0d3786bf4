"""What the exchanges of a history found out: each tool call with its result, and what the assistant said between them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import orjson

from compacting_client.core.conversation import Conversation, Message
from compacting_client.core.tokens import dump

__all__ = ["Fact", "Said", "calls_of", "canonical", "facts", "matches", "said", "text_of"]

_FAILED = re.compile(r"\s*(?:error|exception|traceback \(most recent call last\))\s*:", re.IGNORECASE)
_ERROR_KEYS = ("error", "is_error", "isError")


@dataclass(frozen=True, slots=True)
class Fact:
    """One result and the call that it answers.

    ``arguments``: canonical JSON, or the text of arguments that are none; ``message``: the neutral tool message; ``at``: its item.
    """

    tool: str
    arguments: str
    message: Message
    at: int
    failed: bool

    @property
    def key(self) -> tuple[str, str]:
        """The same for every call of the same tool with equal arguments."""
        return self.tool, self.arguments


@dataclass(frozen=True, slots=True)
class Said:
    """What the assistant said between its calls."""

    text: str
    at: int


def facts(conversation: Conversation, units: Iterable[int]) -> Iterator[Fact | Said]:
    """What some units hold, in their order.

    A result that nobody asked for has its call's id for arguments.  It failed if the provider's own mark says so, its JSON has an error key
    with something in it, or its text begins as an error's does.
    """
    reader, items, exchanges = conversation.reader, conversation.items, conversation.exchanges
    answers = conversation.answers
    for unit in units:
        waiting: dict[str, list[tuple[str, str]]] = {}
        for index in exchanges.unit(unit):
            item = items[index]
            marked = reader.failures(item) if index in answers else ()
            for part, message in enumerate(reader.neutral(item)):
                if message["role"] == "tool":
                    yield _fact(message, index, waiting, part in marked)
                elif message["role"] == "assistant":
                    for call, asked in calls_of(message):
                        waiting.setdefault(call, []).append(asked)
                    if text := said(message.get("content")):
                        yield Said(text, index)


def _fact(message: Message, at: int, waiting: dict[str, list[tuple[str, str]]], marked: bool) -> Fact:
    call = str(message.get("tool_call_id"))
    asked = waiting.get(call)
    if asked is None:
        tool, arguments = str(message.get("name") or "?"), call
    else:  # of calls with one id the first; a second answer stays with the last of them
        tool, arguments = asked.pop(0) if len(asked) > 1 else asked[0]
    return Fact(tool, arguments, message, at, marked or _reads_as_failure(message.get("content")))


def judged(found: Sequence[Fact | Said], verdicts: Sequence[Any]) -> list[Fact | Said]:
    """The same with what the caller's own function says of each fact, beside what is known."""
    answers = iter(verdicts)
    return [
        replace(each, failed=True) if isinstance(each, Fact) and next(answers) and not each.failed else each
        for each in found
    ]


def calls_of(message: Message) -> Iterator[tuple[str, tuple[str, str]]]:
    """The id of each call of a neutral message, with its tool and canonical arguments."""
    for call in cast("list[Message]", message.get("tool_calls") or ()):
        function: Any = call.get("function") or call.get("custom") or {}
        given = function.get("arguments", function.get("input"))
        yield str(call.get("id")), (str(function.get("name")), canonical(given))


def canonical(arguments: Any) -> str:
    """Arguments as JSON in one spelling, whatever their key order and white space; text that is no JSON as it is."""
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments or "{}")
        except orjson.JSONDecodeError:
            return str(arguments)
    return dump(arguments).decode("utf-8", "replace")


def _reads_as_failure(content: Any) -> bool:
    """Whether a result is an error by its own words."""
    text = content if isinstance(content, str) else text_of(content)[0]
    if text[:1] == "{" and any(f'"{name}"' in text for name in _ERROR_KEYS):
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return False
        return isinstance(value, dict) and any(cast("dict[str, Any]", value).get(name) for name in _ERROR_KEYS)
    return _FAILED.match(text) is not None


def text_of(content: Any) -> tuple[str, int]:
    """The text of a content, and how many of its blocks are none."""
    if isinstance(content, str):
        return content, 0
    blocks = (
        cast("Sequence[Any]", content) if isinstance(content, (list, tuple)) else [] if content is None else [content]
    )
    texts = [_text(block) for block in blocks]
    return "\n".join(text for text in texts if text is not None), sum(text is None for text in texts)


def said(content: Any) -> str:
    """What a user or an assistant said in words: no thoughts, no media."""
    if isinstance(content, str):
        return content
    return text_of(content)[0].strip() if content else ""


def _text(block: Any) -> str | None:
    """The text of one block; None where it is none, or a thought."""
    if isinstance(block, str):
        return block
    fields = (
        cast("dict[str, Any]", block) if isinstance(block, dict) else vars(block) if hasattr(block, "__dict__") else {}
    )
    text = fields.get("text")
    plain = fields.get("type") in (None, "text", "input_text", "output_text") and not fields.get("thought")
    return text if isinstance(text, str) and plain else None


def matches(name: str, patterns: Collection[str]) -> bool:
    """Whether a tool's name is one of these, ``*`` standing for any text."""
    return any(_pattern(pattern).fullmatch(name) is not None for pattern in patterns)


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*"), re.DOTALL)
