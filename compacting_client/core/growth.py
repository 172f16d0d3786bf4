"""Whether a plan makes a request larger (DESIGN 3.5)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from itertools import accumulate
from typing import Any

from compacting_client.core.effects import Effect
from compacting_client.core.measure import Measure
from compacting_client.core.plan import Plan

__all__ = ["larger"]


def larger(measured: Measure, plan: Plan, edited: Mapping[int, float]) -> Generator[Effect, Any, bool]:
    """Whether what it adds to items is more than what it drops; `edited`: item -> its tokens then.  Texts that were asked for do not count."""
    sizes, asked_for = measured.sizes, plan.edits.asked_for
    grown = sum(size - sizes[index] for index, size in edited.items())
    if asked_for and grown > 0:
        grown -= yield from measured.sizes_of([measured.conversation.reader.own(asked_for)])
    if grown <= 0:
        return False
    saved = accumulate(map(sizes.__getitem__, plan.gone), initial=0.0)
    return not any(each >= grown for each in saved)  # the first few items mostly are enough
