"""One counter for trigger, cut and report (DESIGN 5), and the serialisations that it shares with the digests."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

from compacting_client.core.conversation import SYSTEM, Conversation, Message
from compacting_client.core.edits import Edits, rendered
from compacting_client.core.effects import Ask, Effect
from compacting_client.core.plan import Plan
from compacting_client.core.tokens import dump, dump_each, estimate, of_length, utf16_length
from compacting_client.errors import PolicyError

__all__ = ["Measure", "measure", "resized", "sizes_without_thinking"]

Tokens = float
"""Whole numbers, unless the caller's own counter gives others."""


class Measure:
    """Tokens of each item, and of what is not in the history.

    ``sizes[i]`` tokens of item *i*;  ``overhead`` tokens of the system prompt (inside the history or not) and of the tools.
    """

    __slots__ = ("_counter", "_weighed", "conversation", "overhead", "sizes")

    def __init__(self, conversation: Conversation, counter: Callable[[Any], Any] | None = None) -> None:
        self.conversation, self._counter = conversation, counter
        self._weighed: list[bytes] | None = None
        self.sizes: list[Tokens] = []
        self.overhead: Tokens = 0

    def weighed(self, index: int) -> bytes:
        """The JSON of the item without media."""
        if self._weighed is None:
            return dump(self.conversation.reader.light([self.conversation.items[index]])[0][0])
        return self._weighed[index]

    def release(self) -> None:
        """Let go of the serialisations, which are as large as the history; they are made again where they are asked for."""
        self._weighed = None

    def estimate(self) -> None:
        """Fill in the default estimate."""
        roles = self.conversation.roles
        light, media = self.conversation.reader.light(self.conversation.items)
        self._weighed = dump_each(light)
        self.sizes = [
            (len(data) + 3) >> 2 if data.isascii() else of_length(utf16_length(data)) for data in self._weighed
        ]
        for index, tokens in media.items():
            self.sizes[index] += tokens
        tools = self.conversation.tools
        self.overhead = sum(map(estimate, self.conversation.head)) + (
            of_length(utf16_length(dump(tools))) if tools is not None else 0
        )
        self.overhead += sum(size for size, role in zip(self.sizes, roles, strict=True) if role == SYSTEM)

    def sizes_of(self, items: Sequence[Any]) -> Generator[Effect, Any, Tokens]:
        """Tokens of some items that are not the conversation's own, by the same counter."""
        reader = self.conversation.reader
        if self._counter is None:
            light, media = reader.light(items)
            return sum(map(estimate, light)) + sum(media.values())
        shown = [message for item in items for message in reader.neutral(item)]
        counted = yield Ask("counter", self._counter, shown)
        return sum(map(_checked, counted))

    def meaning(self, index: int) -> bytes:
        """What the item says, with which call of its exchange each of its results answers (DESIGN 4)."""
        conversation = self.conversation
        said = conversation.reader.meaning(conversation.items[index], self.weighed(index))
        answered = conversation.exchanges.position.get(index)
        return said + b"|%s" % repr(answered).encode() if answered and answered != [0] else said


def measure(conversation: Conversation, counter: Any) -> Generator[Effect, Any, Measure]:
    """Count everything, by the caller's `counter` where there is one.  Raises PolicyError for a count that is no number >= 0."""
    found = Measure(conversation, counter)
    if counter is None:
        found.estimate()
        return found
    shown: list[Message] = list(conversation.head)
    if conversation.tools is not None:
        shown.append({"role": SYSTEM, "content": dump(conversation.tools).decode("utf-8", "replace")})
    outside = len(shown)
    widths: list[int] = []
    for index in range(len(conversation)):
        messages = conversation.reader.neutral(conversation.items[index])
        widths.append(len(messages))
        shown.extend(messages)
    counted = yield Ask("counter", counter, shown)
    tokens = [_checked(value) for value in counted]
    found.overhead = sum(tokens[:outside])
    start = outside
    for index, width in enumerate(widths):
        found.sizes.append(sum(tokens[start : start + width]))
        start += width
        if conversation.roles[index] == SYSTEM:
            found.overhead += found.sizes[-1]
    return found


def _checked(value: Any) -> Tokens:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        message = f"counter returned {value!r}; it must return a number of tokens, 0 or more, for every message"
        raise PolicyError(message, "counter")
    return value


def sizes_without_thinking(measured: Measure, plan: Plan) -> Generator[Effect, Any, dict[int, Tokens]]:
    """Tokens of the items that lose their signed thinking under `plan`, once it is gone."""
    if plan.strip is None:
        return {}
    conversation, absent, left = measured.conversation, set(plan.gone), dict[int, Any]()
    for index in range(*plan.strip):
        item = conversation.items[index]
        without = conversation.reader.strip(item) if index not in absent else item
        if without is not item:
            left[index] = without
    sizes: dict[int, Tokens] = {}
    for index, item in left.items():
        size = yield from measured.sizes_of([] if item is None else [item])
        sizes[index] = min(measured.sizes[index], size)
    return sizes


def resized(measured: Measure, edits: Edits) -> Generator[Effect, Any, dict[int, Tokens]]:
    """Tokens of each item that `edits` change, with those of an own item before it.  Raises PolicyError as `measure` does."""
    found: dict[int, Tokens] = {}
    conversation = measured.conversation
    for index, edit in edits.by_item().items():
        found[index] = yield from measured.sizes_of(rendered(conversation.reader, conversation.items[index], edit))
    return found
