"""One counter for trigger, cut and report (DESIGN 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from compacting_client.core import calibration, imprints
from compacting_client.core.calibration import EXACT, Scale
from compacting_client.core.conversation import OTHER, SYSTEM, Conversation, Message
from compacting_client.core.edits import Edits, rendered
from compacting_client.core.effects import Ask, Effect
from compacting_client.core.plan import Plan, Stretch, between
from compacting_client.core.prefix import OPENING
from compacting_client.core.recent import Recent, Seen
from compacting_client.core.sizes import Sizes
from compacting_client.core.tokens import dump, of_length, utf16_length
from compacting_client.core.trace import Trace
from compacting_client.errors import PolicyError

__all__ = [
    "Kind",
    "Learned",
    "Measure",
    "Opening",
    "Tokenizer",
    "checked_count",
    "measure",
    "sizes_without_thinking",
]

_MARKS = 8  # lengths up to which a history that was seen can be taken over

Tokens = float
"""Whole numbers, unless the caller's own counter gives others."""

Opening = tuple[Any, ...]
"""The API, and hashes of how a history begins."""

Kind = tuple[str, str, int]
"""API, model, tools and schema: requests that are alike are counted alike."""


class Tokenizer(Protocol):
    """Counts in the place of the estimate."""

    def size(self, imprint: imprints.Imprint, role: str) -> int:
        """Tokens of an item of this neutral role, its media aside."""
        ...

    def weight(self, data: bytes) -> int:
        """Tokens of JSON that stands beside the history."""
        ...


class Learned(Protocol):
    """What is known of how the provider counts."""

    def scale(self, kind: Kind, opening: Opening) -> Scale:
        """That of a conversation that begins so."""
        ...


class Measure:
    """Tokens of each item, and of what is not in the history: as the caller's counter gave them, else estimated once they are asked for.

    ``trace``    what the history is told apart by
    ``resized``  the edits that were measured last, and what came out
    ``kind``, ``opening``   what is known of how the provider counts is found by them
    ``scale``    the provider's tokens for the estimate's
    ``quoted``   whether a text looks like one of ours; None: nobody looked
    """

    __slots__ = (
        "_beside",
        "_counter",
        "_k",
        "_left",
        "_raw",
        "_recent",
        "_seen",
        "_shared",
        "_sizes",
        "_tokenizer",
        "_total",
        "conversation",
        "kind",
        "opening",
        "quoted",
        "resized",
        "scale",
        "trace",
    )

    def __init__(
        self,
        conversation: Conversation,
        recent: Recent | None = None,
        learned: Learned | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self.conversation, self.trace = conversation, Trace(conversation)
        beside = [*map(dump, conversation.beside)]
        self._counter: Callable[[Any], Any] | None = None
        self._tokenizer = tokenizer
        self._beside: Tokens = sum(map(self._weight, [*map(dump, conversation.head), *beside]))
        self._raw: Sequence[Tokens] | None = None
        self._sizes: Sequence[Tokens] | None = None
        self._k = 1.0
        self._left: tuple[Sequence[Stretch], Tokens] | None = None  # what was left last, and without what
        self._total: Tokens | None = None
        self._recent = recent
        self.kind: Kind = conversation.api, conversation.model, hash(tuple(beside))
        self.opening: Opening = (conversation.api, *map(hash, self.trace.opening(OPENING)[0]))
        self.scale = EXACT if learned is None else learned.scale(self.kind, self.opening)
        self.resized: tuple[Edits, dict[int, Tokens]] | None = None
        self.quoted: bool | None = None
        self._seen: Seen | None = None
        self._shared = 0
        if recent is not None and (alike := recent.alike(self.opening)):
            self._resume(alike)

    def _resume(self, alike: Sequence[Seen]) -> None:
        """Take over what is known of a history that this one grew from; nothing from media on, whose data no imprint holds."""
        shared, seen = max(((each.shared(self.trace), each) for each in alike), key=lambda found: found[0])
        self._seen, self._shared = seen, min(shared, seen.plain, self.trace.without_media())

    @property
    def states(self) -> dict[int, Any]:
        """What is known already of the digests of this history, by length."""
        known: Mapping[int, Any] = self._seen.states if self._seen is not None else {}
        return {length: state for length, state in known.items() if length <= self._shared}

    @property
    def _unquoted(self) -> int:
        return min(self._shared, self._seen.unquoted) if self._seen is not None else 0

    @property
    def unquoted(self) -> int:
        """The first item that may be a text which looks like one of ours, as far as is known already."""
        history, known = self.trace.history, self._unquoted
        return history[known] if known < len(history) else len(self.conversation)

    @property
    def raw(self) -> Sequence[Tokens]:
        """Tokens of each item by the estimate alone."""
        if self._raw is None:
            self._raw = self._estimated()
        return self._raw

    @property
    def sizes(self) -> Sequence[Tokens]:
        """Tokens of each item."""
        if self._sizes is None:
            self._sizes = self.raw if self.scale == EXACT else self._scaled()
        return self._sizes

    def of(self, indexes: Sequence[int]) -> list[Tokens]:
        """Tokens of some items."""
        return _of(self.sizes, indexes)

    def left(self, gone: Sequence[Stretch]) -> Tokens:
        """Tokens of the request without the items of these stretches."""
        if not gone:
            return self.total
        if self._left is None or self._left[0] != gone:
            stays = between(gone, len(self.conversation))
            self._left = gone, sum([sum(self.of(range(start, stop))) for start, stop in stays])
        return self.outside + self._left[1]

    @property
    def known(self) -> bool:
        """Whether anything is counted already."""
        return self._raw is not None

    @property
    def total(self) -> Tokens:
        """Tokens of the whole request."""
        if self._total is None:
            self._total = sum(self.sizes) + self.outside
        return self._total

    @property
    def outside(self) -> Tokens:
        """Tokens of the system prompt and the tools that stand beside the history, and of what the provider adds."""
        if self.scale == EXACT:
            return self._beside
        return max(0, round(self.scale.of(self._beside)))

    @property
    def overhead(self) -> Tokens:
        """Tokens of the system prompt, inside the history or not, and of the tools."""
        return self.outside + sum(self.of(self.conversation.systems))

    def exceeds(self, limit: Tokens) -> bool:
        """Whether `total` is more than `limit`; where that is clear at a glance, nothing is counted."""
        clear = self.at_a_glance(limit)
        return self.total > limit if clear is None else clear

    def at_a_glance(self, limit: Tokens) -> bool | None:
        """The same, but None where it is not clear without counting, or next to nothing is left to count."""
        known = self._total is not None or self._counter is not None or self._seen is not None
        if known or (self._raw is not None and self.scale != EXACT):
            return None
        fits = self.conversation.fits(self._within(limit))
        # a tokenizer may find less in a text than the estimate
        return not fits if fits or (fits is False and self._tokenizer is None) else None

    def rescale(self, scale: Scale) -> None:
        """Go by another scale from now on."""
        self.scale, self._sizes, self._total, self._left = scale, None, None, None

    def estimated(
        self, gone: Collection[int] = (), changed: Mapping[int, Tokens] | None = None
    ) -> tuple[Tokens, Tokens]:
        """Text and media, by the estimate alone, of what is left without the items in `gone`; `changed`: item -> its tokens now."""
        if not gone and not changed:
            media = sum(self.conversation.contents.media.values())
            return self._beside + sum(self.raw) - media, media
        absent, changed = set(gone), changed or {}
        there = [index for index in range(len(self.conversation)) if index not in absent]
        sizes = dict(zip(there, _of(self.raw, there), strict=True))
        heavy = {index: tokens for index, tokens in self.conversation.contents.media.items() if index in sizes}
        text = self._beside + sum(sizes.values()) - sum(heavy.values())
        for index, tokens in changed.items():
            if index in sizes:
                text -= sizes[index] - heavy.get(index, 0) - (tokens - heavy.get(index, 0)) / self._k
        return text, sum(heavy.values())

    def counted(self, counter: Callable[[Any], Any]) -> Generator[Effect, Any, None]:
        """Count by the caller's `counter`.  Raises PolicyError for a count that is no number >= 0."""
        conversation = self.conversation
        shown: list[Message] = list(conversation.head)
        shown += [{"role": SYSTEM, "content": dump(each).decode("utf-8", "replace")} for each in conversation.beside]
        outside = len(shown)
        widths: list[int] = []
        for item in conversation.items:
            messages = conversation.reader.neutral(item)
            widths.append(len(messages))
            shown.extend(messages)
        answers = yield Ask("counter", counter, shown)
        tokens = [checked_count(value) for value in answers]
        self._counter, sizes = counter, list[Tokens]()
        self._beside = sum(tokens[:outside])
        start = outside
        for width in widths:
            sizes.append(sum(tokens[start : start + width]))
            start += width
        self._raw = sizes

    def sizes_of(self, items: Sequence[Any]) -> Generator[Effect, Any, Tokens]:
        """Tokens of some items that are not the conversation's own, by the same counter."""
        reader = self.conversation.reader
        if self._counter is None:
            size = imprints.size if self._tokenizer is None else self._tokenizer.size
            found = [reader.imprint(item, OTHER) for item in items]
            text = sum(size(imprint, OTHER) for imprint, _ in found)
            return self.scaled(text, sum(media for _, media in found))
        shown = [message for item in items for message in reader.neutral(item)]
        counted = yield Ask("counter", self._counter, shown)
        return sum(map(checked_count, counted))

    def scaled(self, text: Tokens, media: Tokens) -> Tokens:
        """Tokens of what is so much text and media by the estimate alone."""
        _ = self.sizes  # that they are on one scale
        return (text if self._k == 1.0 else round(text * self._k)) + media

    @property
    def by_estimate(self) -> bool:
        """Whether the caller gave no counter."""
        return self._counter is None and self._tokenizer is None

    def keep(self, states: Mapping[int, Any]) -> None:
        """Let the next request of this conversation have what was measured and digested."""
        if self._recent is None or self._counter is not None or not self.conversation.is_read:
            return
        size = len(self.trace.history)
        known: Mapping[int, int] = self._seen.hashes if self._seen is not None else {}
        # the last message may be another one next time, and an edit further back leaves what stands before it
        lengths = sorted({length for length in (*states, size - 1, size) if length > OPENING})[-_MARKS:]
        if not lengths:
            return
        hashes = {
            length: known[length] if length in known and length <= self._shared else self.trace.sent(length)
            for length in lengths
        }
        kept = {each: states[each] for each in lengths if each in states}
        raw = self._estimated() if self._raw is None else self._raw
        raw = raw.found if isinstance(raw, Sizes) else raw
        unquoted = size if self.quoted is False else self._unquoted
        seen = Seen(hashes, self.trace.placed(raw), kept, self.trace.without_media(), unquoted)
        self._recent.keep(self.opening, seen, self._seen)

    def release(self) -> None:
        """Let go of the memo, which belongs to the client, and of what is as large as the history and needed no more."""
        self._recent = self._seen = None
        self.trace.release()
        if isinstance(self._raw, Sizes):
            self._raw.release()

    def _weight(self, data: bytes) -> int:
        return of_length(utf16_length(data)) if self._tokenizer is None else self._tokenizer.weight(data)

    def _within(self, limit: Tokens) -> Tokens:
        """What `Conversation.fits` is asked for: of a tokenizer, no token is less than a byte."""
        return self.scale.estimate(limit) - self._beside if self._tokenizer is None else (limit - self._beside) / 4

    def _estimated(self) -> Sizes:
        conversation, contents, told = (
            self.conversation,
            self.conversation.contents,
            self.conversation.contents.imprints,
        )
        if self._tokenizer is None:
            count = partial(imprints.sizes, frames=conversation.plain.frames)
        else:
            count = partial(_each, self._tokenizer)
            if conversation.plain is not imprints.CHAT:  # it counts the parts of a message as their JSON
                told = [conversation.reader.imprint(item, OTHER)[0] for item in conversation.items]
        found = Sizes(told, conversation.roles, contents.media, count)
        if self._seen is not None:
            found.take(self._seen.sizes[: self._shared], self.trace.history[: self._shared])
        return found

    def _scaled(self) -> list[Tokens]:
        """The sizes on the provider's scale.  What it takes off for more than stands beside the history, the history is smaller by."""
        text, _ = self.estimated()
        inside = text - self._beside
        left = self.scale.of(text) - self.outside
        self._k = max(0.0, left / inside) if inside else self.scale.k
        return calibration.whole(self.raw, self.conversation.contents.media, self._k)


def _of(sizes: Sequence[Tokens], indexes: Sequence[int]) -> list[Tokens]:
    if isinstance(sizes, Sizes):
        return sizes.of(indexes)
    return [*sizes[indexes.start : indexes.stop]] if isinstance(indexes, range) else [sizes[index] for index in indexes]


def _each(tokenizer: Tokenizer, texts: Sequence[imprints.Imprint], roles: Sequence[str]) -> list[Tokens]:
    return [tokenizer.size(text, role) for text, role in zip(texts, roles, strict=True)]


def measure(
    conversation: Conversation,
    counter: Callable[[Any], Any] | Tokenizer | None,
    recent: Recent | None = None,
    learned: Learned | None = None,
) -> Generator[Effect, Any, Measure]:
    """Measure a conversation, by the caller's `counter` where there is one.  Raises PolicyError as `Measure.counted` does."""
    if counter is None:
        return Measure(conversation, recent, learned)
    if not callable(counter):
        return Measure(conversation, recent, None, counter)
    found = Measure(conversation)
    yield from found.counted(counter)
    return found


def checked_count(value: Any) -> Tokens:
    """What a counter returned.  Raises PolicyError where that is no number >= 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        message = f"counter returned {value!r}; it must return a number of tokens, 0 or more, for every message"
        raise PolicyError(message, "counter")
    return value


def sizes_without_thinking(measured: Measure, plan: Plan) -> Generator[Effect, Any, dict[int, Tokens]]:
    """Tokens of the items that lose their signed thinking under `plan`, once it is gone; what `plan.edits` save in them is not in it."""
    if plan.strip is None:
        return {}
    conversation, absent, left = measured.conversation, set(plan.gone), dict[int, Any]()
    for index in range(*plan.strip):
        item = conversation.items[index]
        without = conversation.reader.strip(item) if index not in absent else item
        if without is not item:
            left[index] = without
    sizes: dict[int, Tokens] = {}
    edits = plan.edits.by_item()
    for index, item in left.items():
        without = yield from measured.sizes_of(rendered(conversation.reader, item, edits.get(index)))
        full = measured.sizes[index]
        if index in edits:
            full = yield from measured.sizes_of(rendered(conversation.reader, conversation.items[index], edits[index]))
        sizes[index] = measured.sizes[index] - max(0, full - without)
    return sizes
