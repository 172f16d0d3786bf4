"""What a client knows of the conversations that it sent last: how the provider counts them, and what each began with.  It holds no text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from compacting_client.core import calibration
from compacting_client.core.calibration import FEW, Counted, Rate, Scale
from compacting_client.core.measure import Kind, Opening
from compacting_client.core.sent import Known, Trail
from compacting_client.formats.base import Usage
from compacting_client.openings import Openings

__all__ = ["Conversations", "Followed"]

_KINDS = 1_000
"""So many kinds of requests are held at most."""


class Conversations:
    """Thread-safe; what was used last is the last to go."""

    def __init__(self) -> None:
        self._known = Openings[Known]()
        self._kinds: OrderedDict[Kind, tuple[tuple[Rate, ...], tuple[float, ...]]] = OrderedDict()
        self._lock = Lock()

    def scale(self, kind: Kind, opening: Opening) -> Scale:
        """How the provider counts a conversation that begins so: as it counted that one, or others of its kind."""
        known = next((each for each in self.alike(opening) if each.compared and each.compared.kind == kind), None)
        if known is not None and known.rates:
            return calibration.scale_of(known.rates, known.counted, ())
        rates, overheads = self._kinds.get(kind, ((), ()))
        return calibration.scale_of(rates, known.counted if known is not None else None, overheads)

    def alike(self, opening: Opening) -> Sequence[Known]:
        """The conversations that begin so, the last one first."""
        return self._known.alike(_first(opening))

    def keep(self, trail: Trail, counted: Counted | None) -> None:
        """Add a request that was answered, with the count that it is compared with."""
        known = trail.then(counted)
        self._known.keep(_first(trail.measured.opening), known, trail.before)
        if counted is not None and known.rates:
            self._learn(trail.measured.kind, known)

    def _learn(self, kind: Kind, known: Known) -> None:
        overhead = calibration.scale_of(known.rates, known.counted, ()).overhead
        with self._lock:
            rates, overheads = self._kinds.pop(kind, ((), ()))
            self._kinds[kind] = (*rates, known.rates[-1])[-FEW:], (*overheads, overhead)[-FEW:]
            while len(self._kinds) > _KINDS:
                self._kinds.popitem(last=False)


def _first(opening: Opening) -> Opening:
    """Of a conversation's first request there is no answer yet to know it by."""
    return opening[:2]


class Followed:
    """One request from its decision to the end of its response.

    ``explained``  whether the provider counts just what is in the body
    ``changed``    gives item -> its tokens, where those changed
    """

    def __init__(
        self,
        conversations: Conversations,
        trail: Trail,
        *,
        calibrates: bool,
        explained: Callable[[], bool],
        changed: Callable[[], Mapping[int, float]],
    ) -> None:
        self.trail = trail
        self._conversations, self._calibrates, self._explained = conversations, calibrates, explained
        self._changed = changed

    def __deepcopy__(self, _: Any) -> Followed:
        """A copy of a report is one of the same request."""
        return self

    def settle(self) -> None:
        """Look at what goes when the conversation is released."""
        self.trail.settle()
        explained = self._explained()
        self._explained = lambda: explained

    def prefix(self) -> float | None:
        """Tokens of the prompt that are the same as in the request before it."""
        return self.trail.prefix(self._changed())

    def over(self, usage: Usage | None) -> None:
        """The response is over; `usage`: what the provider counted, if it said."""
        prompt = usage.input_tokens if usage is not None else 0
        counted = self._counted(prompt) if prompt and self._calibrates else None
        self._conversations.keep(self.trail, counted)

    def _counted(self, prompt: int) -> Counted | None:
        """The request by the estimate too, where it is known or worth while."""
        measured, before = self.trail.measured, self.trail.before
        known = before if before is not None and before.compared and before.compared.kind == measured.kind else None
        wanted = calibration.due(known.rates, known.counted, prompt) if known is not None else True
        if not (measured.known or wanted) or not self._explained():
            return None
        return Counted(*measured.estimated(self.trail.plan().gone, self._changed()), prompt)
