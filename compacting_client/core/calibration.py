"""How the provider's count follows from the estimate: size = overhead + k x estimate (DESIGN 5).

Media are counted by the provider's own formula, so k is for the rest.  It is learned from what one request of a conversation had more than the
one before, the overhead from the last of them.  An estimate that was right is left as it is, to the unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median
from typing import NamedTuple

__all__ = ["EXACT", "Counted", "Rate", "Scale", "agrees", "due", "measured_against", "rate", "scale_of", "whole"]

FEW = 5
"""So many differences are remembered: the median of a few forgets an odd one, and follows a conversation that changes its language."""

# text of any language and tokenizer lies between: a provider that says otherwise counts something else
_RATES = (0.25, 8.0)
_LEAST = 16  # estimated tokens: the rounding of a smaller difference would teach more than its text
# an estimate that is off by no more is right: nothing would be gained, and the figures stay its own
_RIGHT, _FEW_TOKENS = 0.02, 8
_GROWTH = 0.25  # a prompt that grew by less since it was last compared is predicted well enough


class Scale(NamedTuple):
    """The provider's tokens for the estimate's."""

    k: float = 1.0
    overhead: float = 0.0

    def of(self, text: float, media: float = 0) -> float:
        """The provider's tokens of a whole request."""
        return self.overhead + self.k * text + media

    def estimate(self, tokens: float) -> float:
        """How much text makes so many tokens of the provider's."""
        return (tokens - self.overhead) / self.k


EXACT = Scale()


class Counted(NamedTuple):
    """One request as it was sent: its text and its media by the estimate, and the whole of it by the provider."""

    text: float
    media: float
    prompt: float


@dataclass(frozen=True, slots=True)
class Rate:
    """What one difference taught; `sure`: no media came or went with it."""

    k: float
    sure: bool


def agrees(counted: Counted) -> bool:
    """Whether the estimate was right."""
    estimated = counted.text + counted.media
    return abs(counted.prompt - estimated) <= max(_FEW_TOKENS, _RIGHT * estimated)


def rate(before: Counted, after: Counted) -> Rate | None:
    """What a request taught that only had more than the one before; None where it is too little, or is not explained by its text."""
    text, media = after.text - before.text, after.media - before.media
    if text < _LEAST:
        return None
    k = (after.prompt - before.prompt - media) / text
    if k <= 0:
        return None
    low, high = _RATES
    return Rate(1.0 if agrees(before) and agrees(after) else min(max(k, low), high), media == 0)


def scale_of(rates: Sequence[Rate], last: Counted | None, overheads: Sequence[float]) -> Scale:
    """The scale of a conversation: by its rates and its last count, or, of one that has none, by the least overhead of others of its kind."""
    if not rates:
        return EXACT
    sure = [each.k for each in rates if each.sure]
    k = median(sure or [each.k for each in rates])
    if last is None:
        return Scale(k, max(0.0, min(overheads, default=0.0)))
    if k == 1.0 and agrees(last):
        return EXACT
    return Scale(k, last.prompt - k * last.text - last.media)


def measured_against(scale: Scale, text: float, media: float, prompt: float) -> Scale:
    """The scale by which a request comes to the provider's own count of it."""
    if agrees(Counted(text, media, prompt)):
        return Scale(1.0, prompt - text - media)
    low, high = _RATES
    k = scale.k if scale != EXACT else min(max((prompt - media) / max(1.0, text), low), high)
    return Scale(k, prompt - k * text - media)


def due(rates: Sequence[Rate], last: Counted | None, prompt: float) -> bool:
    """Whether it is worth while to count a request for the sake of this alone."""
    return last is None or len(rates) < 2 or abs(prompt - last.prompt) > _GROWTH * last.prompt


def whole(sizes: Sequence[float], media: Mapping[int, float], k: float) -> list[float]:
    """Each of these sizes, its media aside, k times: whole numbers, of which any number in a row add up to what they should."""
    scaled = [size * k for size in sizes]
    for index, tokens in media.items():
        scaled[index] += tokens * (1 - k)
    return [end - start for start, end in pairwise([0, *map(round, accumulate(scaled))])]
