"""One counter for trigger, cut and report (DESIGN 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from compacting_client.core import imprints
from compacting_client.core.conversation import OTHER, SYSTEM, Conversation, Message
from compacting_client.core.edits import Edits, rendered
from compacting_client.core.effects import Ask, Effect
from compacting_client.core.plan import Plan
from compacting_client.core.prefix import OPENING
from compacting_client.core.recent import Recent, Seen
from compacting_client.core.tokens import dump, estimate
from compacting_client.core.trace import Trace
from compacting_client.errors import PolicyError

__all__ = ["Measure", "measure", "resized", "sizes_without_thinking"]

_MARKS = 8  # lengths up to which a history that was seen can be taken over

Tokens = float
"""Whole numbers, unless the caller's own counter gives others."""


class Measure:
    """Tokens of each item, and of what is not in the history: as the caller's counter gave them, else estimated once they are asked for.

    ``outside``  tokens of the system prompt and the tools that stand beside the history
    ``trace``    what the history is told apart by
    """

    __slots__ = (
        "_counter",
        "_opening",
        "_recent",
        "_seen",
        "_shared",
        "_sizes",
        "_total",
        "_within",
        "conversation",
        "outside",
        "trace",
    )

    def __init__(self, conversation: Conversation, recent: Recent | None = None) -> None:
        self.conversation, self.trace = conversation, Trace(conversation)
        tools = conversation.tools
        self.outside: Tokens = sum(map(estimate, conversation.head)) + (estimate(tools) if tools is not None else 0)
        self._counter: Callable[[Any], Any] | None = None
        self._sizes: list[Tokens] | None = None
        self._total: Tokens | None = None
        self._recent = recent
        self._opening = conversation.api, *map(hash, self.trace.opening(OPENING)[0])
        self._within = math.inf  # no more tokens than this, as far as is known
        self._seen: Seen | None = None
        self._shared = 0
        if recent is not None and (alike := recent.alike(self._opening)):
            self._resume(alike)

    def _resume(self, alike: Sequence[Seen]) -> None:
        """Take over what is known of a history that this one grew from; nothing from media on, whose data no imprint holds."""
        shared, seen = max(((each.shared(self.trace), each) for each in alike), key=lambda found: found[0])
        self._seen, self._shared = seen, min(shared, self.trace.without_media())

    @property
    def states(self) -> dict[int, Any]:
        """What is known already of the digests of this history, by length."""
        known: Mapping[int, Any] = self._seen.states if self._seen is not None else {}
        return {length: state for length, state in known.items() if length <= self._shared}

    @property
    def sizes(self) -> list[Tokens]:
        """Tokens of each item."""
        if self._sizes is None:
            self._sizes = self._estimated()
        return self._sizes

    @property
    def known(self) -> bool:
        """Whether the sizes are counted already."""
        return self._sizes is not None

    @property
    def total(self) -> Tokens:
        """Tokens of the whole request."""
        if self._total is None:
            self._total = self.outside + sum(self.sizes)
        return self._total

    @property
    def overhead(self) -> Tokens:
        """Tokens of the system prompt, inside the history or not, and of the tools."""
        sizes, roles = self.sizes, self.conversation.roles
        if SYSTEM not in roles:
            return self.outside
        return self.outside + sum(size for size, role in zip(sizes, roles, strict=True) if role == SYSTEM)

    def exceeds(self, limit: Tokens) -> bool:
        """Whether `total` is more than `limit`; where it clearly is not, nothing is counted."""
        if self._sizes is not None or self._seen is not None:
            return self.total > limit
        if limit < self._within and self.conversation.fits(limit - self.outside):
            self._within = limit
        return self._within > limit and self.total > limit

    def counted(self, counter: Callable[[Any], Any]) -> Generator[Effect, Any, None]:
        """Count by the caller's `counter`.  Raises PolicyError for a count that is no number >= 0."""
        conversation = self.conversation
        shown: list[Message] = list(conversation.head)
        if conversation.tools is not None:
            shown.append({"role": SYSTEM, "content": dump(conversation.tools).decode("utf-8", "replace")})
        outside = len(shown)
        widths: list[int] = []
        for item in conversation.items:
            messages = conversation.reader.neutral(item)
            widths.append(len(messages))
            shown.extend(messages)
        answers = yield Ask("counter", counter, shown)
        tokens = [_checked(value) for value in answers]
        self._counter, self._sizes = counter, []
        self.outside = sum(tokens[:outside])
        start = outside
        for width in widths:
            self._sizes.append(sum(tokens[start : start + width]))
            start += width

    def sizes_of(self, items: Sequence[Any]) -> Generator[Effect, Any, Tokens]:
        """Tokens of some items that are not the conversation's own, by the same counter."""
        reader = self.conversation.reader
        if self._counter is None:
            found = [reader.imprint(item, OTHER) for item in items]
            return sum(imprints.size(imprint, OTHER) + media for imprint, media in found)
        shown = [message for item in items for message in reader.neutral(item)]
        counted = yield Ask("counter", self._counter, shown)
        return sum(map(_checked, counted))

    def keep(self, states: Mapping[int, Any]) -> None:
        """Let the next request of this conversation have what was measured and digested."""
        if self._recent is None or self._counter is not None or self._sizes is None:
            return
        size = len(self.trace.history)
        known: Mapping[int, int] = self._seen.hashes if self._seen is not None else {}
        # the last message may be another one next time, and an edit further back leaves what stands before it
        lengths = sorted({length for length in (*states, size - 1, size) if length > OPENING})[-_MARKS:]
        hashes = {
            length: known[length] if length in known and length <= self._shared else self.trace.sent(length)
            for length in lengths
        }
        seen = Seen(hashes, self.trace.placed(self._sizes), {each: states[each] for each in lengths if each in states})
        self._recent.keep(self._opening, seen, self._seen)

    def _estimated(self) -> list[Tokens]:
        trace, contents = self.trace, self.conversation.contents
        if self._seen is None:
            found = imprints.sizes(contents.imprints, self.conversation.roles)
        else:
            known = self._seen.sizes[: self._shared]
            found = trace.spread([*known, *imprints.sizes(*trace.texts(self._shared))])
        for index, tokens in contents.media.items():
            found[index] += tokens
        return found


def measure(
    conversation: Conversation, counter: Callable[[Any], Any] | None, recent: Recent | None = None
) -> Generator[Effect, Any, Measure]:
    """Measure a conversation, by the caller's `counter` where there is one.  Raises PolicyError as `Measure.counted` does."""
    found = Measure(conversation, recent)
    if counter is not None:
        yield from found.counted(counter)
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
