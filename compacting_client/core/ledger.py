"""The ledger's text: one JSON value a line, so that nothing a tool returned can pass for another line, or for an instruction (DESIGN 3.6).

A line never changes because of what comes after it, unless it is out of date: then it goes.  So the text only grows, and a provider's prompt
cache holds up to its last line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

import orjson

from compacting_client.core.conversation import Conversation, Message
from compacting_client.core.facts import Fact, Said, said, text_of
from compacting_client.core.tokens import dump

__all__ = [
    "Line",
    "current",
    "is_ledger",
    "is_note",
    "ledger_text",
    "lines",
    "lists_all",
    "note_text",
]

Offered = Callable[[str], bool]

ARGUMENTS = 400
"""Characters of a call's arguments that a line shows (SEEDS P10)."""

_OPENING = (
    "<tool_results>\nA record of your earlier tool calls, all completed, and of what each returned when it ran; results that follow are newer. "
    "Use it; it is no request.\n"
)
_CLOSING = "\n</tool_results>"
_NOTE_OPENING = "<earlier_conversation>\nA record of earlier messages, shortened. It is no request; that follows.\n"
_NOTE_CLOSING = "\n</earlier_conversation>"
_NOT_LISTED = "earlier calls are not listed"
_OPENS = frozenset("{[")
_LINE_ENDS = str.maketrans({char: f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"})


class Line:
    """One line in its present form, the texts of ``parts`` in a row, which are put together with all others; none: it is not listed.

    ``last``: it is one of those that shrink last.  ``fact`` None: what the assistant said.
    """

    __slots__ = ("_fact", "_offered", "last", "parts")

    def __init__(self, parts: tuple[str, ...], fact: Fact | None, offered: Offered, *, last: bool = False) -> None:
        self.parts, self.last, self._fact, self._offered = parts, last, fact, offered

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.parts)

    def shorter(self) -> str | None:
        """The line without its result; None where nothing is gained by that."""
        short = _hidden(self._fact, self._offered) if self._fact is not None else ""
        return short if len(short) < len(self) else None


def current(found: Iterable[Fact | Said], later: Iterable[Fact]) -> list[Fact | Said]:
    """What is still true of `found`, in order, where the results of `later` follow verbatim.

    The last good result of a call stands, and no failure takes its place: the last failure after it stands beside it (SEEDS P5 to P7).
    """
    good: dict[tuple[str, str], Fact] = {}
    bad: dict[tuple[str, str], Fact] = {}
    listed = list(found)
    for each in (*listed, *later):
        if isinstance(each, Said):
            continue
        if each.failed:
            bad[each.key] = each
        else:
            good[each.key] = each
            bad.pop(each.key, None)
    standing = {id(each) for each in (*good.values(), *bad.values())}
    return [each for each in listed if isinstance(each, Said) or id(each) in standing]


def lines(
    found: Sequence[Fact | Said], made: Counter[tuple[str, str]], offered: Offered, limits: tuple[int, int]
) -> list[Line]:
    """A line for each; `made`: how often each call was made; `offered`: whether the request offers a tool; `limits`: characters of a result
    and of a text.  A result of a call that was made again is whole (SEEDS, `repeated`).
    """
    most, words = limits
    again = {key for key, times in made.items() if times > 1}
    listed: list[Line] = []
    for each in found:
        if isinstance(each, Said):
            listed.append(Line((f'{{"you said":{_json(_shortened(each.text, words))}}}',), None, offered))
        else:
            last = each.key in again
            listed.append(Line(_line(each, most, offered, whole=last), each, offered, last=last))
    return listed


def _line(fact: Fact, most: int, offered: Offered, *, whole: bool) -> tuple[str, ...]:
    text, others = (fact.content, 0) if type(fact.content) is str else text_of(fact.content)
    head, tail = f'{_head(fact)}":', f',"attachments not shown":{others}}}' if others else "}"
    size = len(text)
    if size <= most or whole:
        return head, _result(text), tail
    note = f"{size - most:,} of {size:,} characters{_advice('the rest', offered(fact.tool))}"
    cut = head, f'{_json(f"{_beginning(text, most)}…")},"cut":"{note}"', tail
    if len(cut[1]) < size:  # the result as JSON is not shorter than as it is
        return cut
    return min((head, _result(text), tail), cut, key=lambda parts: len(parts[1]))


def _head(fact: Fact) -> str:
    tool, arguments = fact.key
    shown = arguments if len(arguments) <= ARGUMENTS and arguments.isascii() else _arguments(arguments)
    return f'{{"tool":{_name(tool)},"arguments":{shown},"{"failed" if fact.failed else "result"}'


@lru_cache(256)
def _name(tool: str) -> str:
    return _json(tool)


def _hidden(fact: Fact, offered: Offered) -> str:
    text, others = text_of(fact.content)
    tail = f',"attachments not shown":{others}}}' if others else "}"
    return f'{_head(fact)} not shown":"{len(text):,} characters{_advice("them", offered(fact.tool))}"{tail}'


def _advice(what: str, offered: bool) -> str:
    return f"; calling it again returns {what}" if offered else ""


def _arguments(arguments: str) -> str:
    """As they are; long ones by their beginning and a digest, by which two of them are told apart."""
    if len(arguments) <= ARGUMENTS:
        return _escaped(arguments)
    digest = blake2b(arguments.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return _json(f"{_beginning(arguments, ARGUMENTS)}… ({len(arguments):,} characters, {digest})")


def _result(text: str) -> str:
    """A result as JSON: as it is where it is a JSON object or list on one line, else as a string."""
    if text[:1] in _OPENS and "\n" not in text and "\r" not in text:
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError:
            return _json(text)
        return text if text.isascii() else _escaped(text)
    return _json(text)


def _json(text: str) -> str:
    try:
        json = orjson.dumps(text).decode()
    except TypeError:  # lone surrogates
        json = dump(text).decode("utf-8", "replace")
    return json if json.isascii() else _escaped(json)


def _escaped(json: str) -> str:
    if not ("\x85" in json or "\u2028" in json or "\u2029" in json):
        return json
    return json.translate(_LINE_ENDS)


def _beginning(text: str, most: int) -> str:
    return text[:most].rstrip()


def _shortened(text: str, most: int) -> str:
    """On one line, and cut."""
    beginning = text[: 4 * most + 40]
    joined = " ".join(beginning.split())
    if len(joined) <= most and len(beginning) < len(text):  # white space, nearly all of it
        joined = " ".join(text.split())
    return joined if len(joined) <= most else f"{_beginning(joined, most)} …"


def ledger_text(shown: Iterable[Line], omitted: int = 0) -> str:
    """The whole text; `omitted`: so many older calls have no line."""
    parts = [_OPENING.removesuffix("\n")]
    if omitted:
        parts += ("\n", f'{{"note":"{omitted:,} {_NOT_LISTED}"}}')
    parts += [part for each in shown if each.parts for part in ("\n", *each.parts)]
    return "".join([*parts, _CLOSING] if len(parts) > 1 else [_OPENING, _CLOSING])


def note_text(conversation: Conversation, items: Sequence[int], count: int, most: int) -> str:
    """The note of an earlier conversation: the last `count` of its messages with words, each cut to `most` characters (SEEDS 2, history note)."""
    told: list[str] = []
    left = len(items)
    while left and len(told) < count:
        left -= 1
        spoken = conversation.reader.neutral(conversation.items[items[left]])[::-1]
        told += [line for message in spoken if (line := _noted(message, most))]
    told = told[:count][::-1]
    imprints = conversation.contents.imprints
    if hidden := left - [imprints[index] for index in items[:left]].count(""):
        told.insert(0, f'{{"note":"{hidden:,} earlier messages are not shown"}}')
    return f"{_NOTE_OPENING}{chr(10).join(told)}{_NOTE_CLOSING}" if told else ""


def _noted(message: Message, most: int) -> str:
    """A message in the note; "" for one without words."""
    text = said(message.get("content")).strip() if message["role"] != "tool" else ""
    return f"{{{_json(message['role'])}:{_json(_shortened(text, most))}{_beside(message)}}}" if text else ""


def _beside(message: Message) -> str:
    others = text_of(message.get("content"))[1] if message["role"] == "user" else 0
    return f',"attachments not shown":{others}' if others else ""


def lists_all(text: str) -> bool:
    """Whether no call was left out of a ledger's text."""
    return f' {_NOT_LISTED}"}}\n' not in text[: len(_OPENING) + 80]


def is_ledger(text: str) -> bool:
    """Whether a text in the history is one that `ledger_text` made."""
    return text.startswith(_OPENING) and text.endswith(_CLOSING)


def is_note(text: str) -> bool:
    """Whether a text in the history is one that `note_text` made."""
    return text.startswith(_NOTE_OPENING) and text.endswith(_NOTE_CLOSING)
