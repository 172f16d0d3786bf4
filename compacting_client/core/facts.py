"""What the exchanges of a history found out: each tool call with its result, and what the assistant said between them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import orjson

from compacting_client.core.conversation import Conversation, Message, Reader
from compacting_client.core.numbers import exact
from compacting_client.core.tokens import dump

__all__ = ["Fact", "Said", "asked_in", "canonical", "facts", "matches", "said", "text_of"]

_FAILED = re.compile(r"\s*(?:error|exception|traceback \(most recent call last\))\s*:", re.IGNORECASE)
_BEGINS = frozenset("{ \t\r\neEtT")
_TEXTS = (None, "text", "input_text", "output_text")
_ERROR_KEYS = ("error", "is_error", "isError")
_ERROR_ENDS = 'rror"'  # of all of them: most results are ruled out by one look


class Fact(NamedTuple):
    """One result and the call that it answers.

    ``key``: the tool, and the arguments as canonical JSON: the same for equal calls; ``content``: as the neutral message has it; ``call``: its
    id; ``at``: its item.
    """

    key: tuple[str, str]
    content: Any
    call: str
    at: int
    failed: bool

    @property
    def message(self) -> Message:
        """The neutral tool message."""
        return {"role": "tool", "tool_call_id": self.call, "name": self.tool, "content": self.content}

    @property
    def tool(self) -> str:
        """Its name."""
        return self.key[0]


class Said(NamedTuple):
    """What the assistant said between its calls."""

    text: str
    at: int


def facts(conversation: Conversation, units: Iterable[int]) -> list[Fact | Said]:
    """What some units hold, in their order.

    A result that nobody asked for has its call's id for arguments.  It failed if the provider's own mark says so, its JSON has an error key
    with something in it, or its text begins as an error's does.
    """
    reader, items, exchanges = conversation.reader, conversation.items, conversation.exchanges
    calls, answers, imprints = conversation.calls, conversation.answers, conversation.contents.imprints
    roles = conversation.roles
    found: list[Fact | Said] = []
    for unit in units:
        waiting: dict[str, list[tuple[str, str]]] = {}
        for index in exchanges.unit(unit):
            if index in calls or roles[index] == "assistant":
                text, asked = reader.asked(items[index])
                for call, tool, arguments in asked:
                    key = tool, canonical(arguments)
                    if call in waiting:
                        waiting[call].append(key)
                    else:
                        waiting[call] = [key]
                if text:
                    found.append(Said(text, index))
            if index not in answers:
                continue
            imprint = imprints[index]
            if type(imprint) is tuple and roles[index] == "tool":  # most results are plain
                content, call = imprint
                key = _answered(waiting, call, None)
                found.append(Fact(key, content, call, index, content[:1] in _BEGINS and _reads_as_failure(content)))
                continue
            found += _returned(reader, items[index], index, waiting)
    return found


def _returned(reader: Reader, item: Any, at: int, waiting: dict[str, list[tuple[str, str]]]) -> Iterator[Fact]:
    """The results of one item of any shape."""
    marked = reader.failures(item)
    results = [message for message in reader.neutral(item) if message["role"] == "tool"]
    for part, message in enumerate(results):
        call, name = str(message.get("tool_call_id")), message.get("name")
        content = reader.returned(message.get("content"))
        failed = part in marked or _reads_as_failure(content)
        yield Fact(_answered(waiting, call, name), content, call, at, failed)


def _answered(waiting: dict[str, list[tuple[str, str]]], call: str, name: Any) -> tuple[str, str]:
    """The key of the call that a result answers: of calls with one id the first; a second answer stays with the last of them."""
    asked = waiting.get(call)
    if asked is None:
        return str(name or "?"), canonical(f"call {call}")
    return asked.pop(0) if len(asked) > 1 else asked[0]


def judged(found: Sequence[Fact | Said], verdicts: Sequence[Any]) -> list[Fact | Said]:
    """The same with what the caller's own function says of each fact, beside what is known."""
    answers = iter(verdicts)
    return [
        each._replace(failed=True) if isinstance(each, Fact) and next(answers) and not each.failed else each
        for each in found
    ]


def asked_in(message: Message) -> tuple[str, list[tuple[str, str, Any]]]:
    """What a neutral message of the assistant says in words, and its calls: their ids, tools and arguments."""
    if message["role"] != "assistant":
        return "", []
    found: list[tuple[str, str, Any]] = []
    for call in cast("list[Message]", message.get("tool_calls") or ()):
        function: Any = call.get("function") or call.get("custom") or {}
        given = function.get("arguments", function.get("input"))
        found.append((str(call.get("id")), str(function.get("name")), given))
    return said(message.get("content")), found


def canonical(arguments: Any) -> str:
    """Arguments as JSON in one spelling, whatever their key order and white space; text that is no JSON as a JSON string."""
    value = arguments
    if isinstance(arguments, str):
        try:
            value = exact(arguments or "{}")
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()  # what `dump` says of nearly all
        except (TypeError, ValueError):  # no JSON, or nested too deep
            pass
    return dump(value).decode("utf-8", "replace")


def _reads_as_failure(content: Any) -> bool:
    """Whether a result is an error by its own words."""
    text = content if isinstance(content, str) else text_of(content)[0]
    if text[:1] not in _BEGINS:
        return False
    if text[:1] == "{":
        if not (_ERROR_ENDS in text and any(f'"{name}"' in text for name in _ERROR_KEYS)):
            return False  # no white space, and no word that begins an error
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
    shown: Any = cast("Any", block) if isinstance(block, dict) else getattr(block, "__dict__", {})
    fields = cast("dict[str, Any]", shown)
    text = fields.get("text")
    plain = fields.get("type") in _TEXTS and not fields.get("thought")
    return text if isinstance(text, str) and plain else None


def matches(name: str, patterns: Collection[str]) -> bool:
    """Whether a tool's name is one of these, ``*`` standing for any text."""
    return any(_pattern(pattern).fullmatch(name) is not None for pattern in patterns)


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*"), re.DOTALL)
