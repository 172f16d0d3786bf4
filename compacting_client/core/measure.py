"""One counter for trigger, cut and report (DESIGN 5), and the serialisations that it shares with the digests."""

from __future__ import annotations

import math
from collections.abc import Generator
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

    __slots__ = ("_conversation", "_weighed", "overhead", "sizes")

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._weighed: list[bytes] | None = None
        self.sizes: list[Tokens] = []
        self.overhead: Tokens = 0

    def weighed(self, index: int) -> bytes:
        """The JSON of the item without media."""
        if self._weighed is None:
            return dump(self._conversation.reader.light([self._conversation.items[index]])[0][0])
        return self._weighed[index]

    def release(self) -> None:
        """Let go of the serialisations, which are as large as the history; they are made again where they are asked for."""
        self._weighed = None

    def estimate(self) -> None:
        """Fill in the default estimate."""
        roles = self._conversation.roles
        light, media = self._conversation.reader.light(self._conversation.items)
        self._weighed = dump_each(light)
        self.sizes = [
            (len(data) + 3) >> 2 if data.isascii() else of_length(utf16_length(data)) for data in self._weighed
        ]
        for index, tokens in media.items():
            self.sizes[index] += tokens
        tools = self._conversation.tools
        self.overhead = sum(map(estimate, self._conversation.head)) + (
            of_length(utf16_length(dump(tools))) if tools is not None else 0
        )
        self.overhead += sum(size for size, role in zip(self.sizes, roles, strict=True) if role == SYSTEM)

    def size_of(self, item: Any) -> int:
        """The default estimate of one item."""
        light, media = self._conversation.reader.light([item])
        return estimate(light[0]) + sum(media.values())

    def meaning(self, index: int) -> bytes:
        """What the item says, with which call of its exchange each of its results answers (DESIGN 4)."""
        conversation = self._conversation
        said = conversation.reader.meaning(conversation.items[index], self.weighed(index))
        answered = conversation.exchanges.position.get(index)
        return said + b"|%s" % repr(answered).encode() if answered and answered != [0] else said


def measure(conversation: Conversation, counter: Any) -> Generator[Effect, Any, Measure]:
    """Count everything, by the caller's `counter` where there is one.  Raises PolicyError for a count that is no number >= 0."""
    found = Measure(conversation)
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


def sizes_without_thinking(measured: Measure, conversation: Conversation, plan: Plan) -> dict[int, Tokens]:
    """Tokens of the items that lose their signed thinking under `plan`, once it is gone."""
    if plan.strip is None:
        return {}
    absent, smaller = set(plan.gone), dict[int, Tokens]()
    for index in range(*plan.strip):
        item = conversation.items[index]
        left = conversation.reader.strip(item) if index not in absent else item
        if left is item:
            continue
        cut = measured.size_of(item) - (measured.size_of(left) if left is not None else 0)
        smaller[index] = max(0, measured.sizes[index] - cut)
    return smaller


def resized(
    measured: Measure, conversation: Conversation, edits: Edits, counter: Any
) -> Generator[Effect, Any, dict[int, Tokens]]:
    """Tokens of each item that `edits` change, with those of an own item before it.  Raises PolicyError as `measure` does."""
    found: dict[int, Tokens] = {}
    for index, edit in edits.by_item().items():
        items = rendered(conversation.reader, conversation.items[index], edit)
        if counter is None:
            found[index] = sum(map(measured.size_of, items))
        else:
            shown = [message for item in items for message in conversation.neutral(index, item)]
            counted = yield Ask("counter", counter, shown)
            found[index] = sum(_checked(value) for value in counted)
    return found
