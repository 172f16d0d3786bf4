"""What one request sent, in a few numbers: whether the next one begins with the same prompt, and what it had more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from compacting_client.core import calibration
from compacting_client.core.calibration import FEW, Counted, Rate
from compacting_client.core.measure import Kind, Measure
from compacting_client.core.plan import Plan, Stretch

__all__ = ["Known", "Sent", "Trail"]


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as it left, by the positions of the caller's history; it holds no text.

    ``beside``  a hash of the system prompt and the tools
    ``length``, ``hash``   of the history as the caller wrote it; ``but_last``: a hash of it without its last message, which may be another
                next time (a question that is asked again, or stored without what an application had added to it)
    ``gone``    the stretches of it that were dropped
    ``changed`` position -> a hash of what was changed there
    """

    kind: Kind
    beside: int
    length: int
    hash: int
    but_last: int
    gone: tuple[Stretch, ...]
    changed: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one conversation: its last request, the last that was compared with the provider's count, what the last few taught."""

    sent: Sent
    compared: Sent | None = None
    counted: Counted | None = None
    rates: tuple[Rate, ...] = ()

    def then(self, sent: Sent, counted: Counted, *, grown: bool) -> Known:
        """With one more request; `grown`: it only had more than the one compared last."""
        same = self.compared is not None and self.compared.kind == sent.kind
        taught = calibration.rate(self.counted, counted) if same and grown and self.counted is not None else None
        rates = (*(self.rates if same else ()), *((taught,) if taught is not None else ()))
        return Known(sent, sent, counted, rates[-FEW:])


class Trail:
    """One request beside those that were sent before it.  ``known``: of the conversations that begin like this one, the last one first.

    What takes a look at the items is done once: when it is asked for, or by `settle`.
    """

    def __init__(self, measured: Measure, plan: Callable[[], Plan], known: Sequence[Known] = ()) -> None:
        self.measured, self.plan, self._known = measured, plan, known

    def settle(self) -> None:
        """Let go of what is as large as the history."""
        _ = self.sent, self.same, self.grown

    @cached_property
    def before(self) -> Known | None:
        """The conversation that this request goes on with."""
        shared = [(self._shared(each.sent), each) for each in self._known]
        length, found = max(shared, key=lambda each: each[0], default=(0, None))
        return found if length else None

    @cached_property
    def sent(self) -> Sent:
        """What is sent."""
        measured, plan = self.measured, self.plan()
        changed = {index: edit.hashed() for index, edit in plan.edits.by_item().items()}
        if plan.strip is not None:
            thinking = measured.conversation.thinking.difference(plan.gone)
            changed.update(dict.fromkeys(thinking.intersection(range(*plan.strip)), 0))
        length, hashed = len(measured.trace.history), measured.trace.sent
        where = measured.trace.history.index
        return Sent(
            measured.kind,
            self._beside(),
            length,
            hashed(length),
            hashed(max(0, length - 1)),
            tuple(measured.trace.stretches(plan)),
            {where(index): what for index, what in changed.items() if index in measured.trace.history},
        )

    @cached_property
    def same(self) -> int | None:
        """So many positions of the caller's history were sent before, as they are now; None where no request is known that this goes on from;
        -1 where even the system prompt or the tools are others.
        """
        return None if self.before is None else self._same(self.before.sent)

    @cached_property
    def grown(self) -> bool:
        """Whether it only has more than the request that was compared with the provider's count, or another last message."""
        compared = self.before.compared if self.before is not None else None
        return compared is not None and self._same(compared) >= max(1, compared.length - 1)

    @property
    def again(self) -> Counted | None:
        """The provider's count of this very request, where it was sent before."""
        known = self.before
        if known is None or known.compared is None or known.compared.length != self.sent.length:
            return None
        return known.counted if self._same(known.compared) == self.sent.length else None

    def prefix(self, left: Mapping[int, float]) -> float | None:
        """Tokens of the prompt that are the same as in the request before; `left`: item -> its tokens, where those changed."""
        if self.same is None:
            return None
        if self.same < 0:
            return 0
        measured, gone = self.measured, set(self.plan().gone)
        indexes = measured.trace.history[: self.same]
        sizes = measured.sizes
        return measured.overhead + sum(left.get(index, sizes[index]) for index in indexes if index not in gone)

    def then(self, counted: Counted | None) -> Known:
        """What is known of the conversation with this request in it."""
        before = self.before or Known(self.sent)
        if counted is None:
            return replace(before, sent=self.sent)
        return before.then(self.sent, counted, grown=self.grown)

    def _shared(self, other: Sent) -> int:
        """So many positions of its history are the caller's own now too."""
        trace = self.measured.trace
        if other.length > len(trace.history):
            return 0
        if trace.sent(other.length) == other.hash:
            return other.length
        return other.length - 1 if trace.sent(other.length - 1) == other.but_last else 0

    def _same(self, other: Sent) -> int:
        now = self.sent
        if (now.kind, now.beside) != (other.kind, other.beside):
            return -1
        differ = [
            place for place in {*now.changed, *other.changed} if now.changed.get(place) != other.changed.get(place)
        ]
        differ += _difference(now.gone, other.gone)
        return min([self._shared(other), *differ])

    def _beside(self) -> int:
        conversation = self.measured.conversation
        imprints = conversation.contents.imprints
        return hash((repr(conversation.head), *[imprints[index] for index in conversation.systems]))


def _difference(one: Sequence[Stretch], other: Sequence[Stretch]) -> list[int]:
    """The first position that only one of them has; none where they are alike."""
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            return [min(mine[1], theirs[1]) if mine[0] == theirs[0] else min(mine[0], theirs[0])]
    longer = one[len(other) :] or other[len(one) :]
    return [longer[0][0]] if longer else []
