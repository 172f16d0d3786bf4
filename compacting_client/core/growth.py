"""Whether a plan makes a request larger (DESIGN 3.5)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import reduce
from operator import add
from typing import Any

from compacting_client.core.effects import Effect
from compacting_client.core.measure import Measure
from compacting_client.core.plan import Plan

__all__ = ["larger"]

_AT_ONCE = 256  # items that are counted together


def larger(measured: Measure, plan: Plan, edited: Mapping[int, float]) -> Generator[Effect, Any, bool]:
    """Whether what it adds to items is more than what it drops; `edited`: item -> its tokens then.  Texts that were asked for do not count."""
    sizes, asked_for = measured.sizes, plan.edits.asked_for
    grown = sum(size - sizes[index] for index, size in edited.items())
    if asked_for and grown > 0:
        grown -= yield from measured.sizes_of([measured.conversation.reader.own(asked_for)])
    if grown <= 0:
        return False
    if measured.at_a_glance(measured.left(plan.stretches) + grown):
        return False
    saved = 0.0
    for start in range(0, len(plan.gone), _AT_ONCE):  # the first few items mostly are enough
        saved = reduce(add, measured.of(plan.gone[start : start + _AT_ONCE]), saved)
        if saved >= grown:
            return False
    return True
