"""The provider's own count of a request, where the budget is near (DESIGN 5)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from compacting_client.core.calibration import measured_against
from compacting_client.core.effects import Ask, Effect
from compacting_client.core.measure import Measure, checked_count
from compacting_client.core.plan import Plan
from compacting_client.core.sent import Known, Trail
from compacting_client.core.view import View
from compacting_client.errors import PolicyError

__all__ = ["NEAR", "asked"]

NEAR = 0.8
"""Of the budget: below that no estimate is so wrong that it would be worth a call."""


def asked(
    measured: Measure, view: View, plan: Plan, counting: Callable[[Plan], Any], known: Sequence[Known]
) -> Generator[Effect, Any, str | None]:
    """Go by the provider's count of what is in the view, which is what leaves under `plan`; the class of the error where it gave none.

    A request that it has counted before is not counted again.
    """
    again = Trail(measured, lambda: plan, known).again
    try:
        prompt = again.prompt if again is not None else checked_count((yield Ask("counter", counting, [plan]))[0])
    except PolicyError as error:
        return type(error.__cause__ or error).__name__
    changed = {
        index: now for index, (now, was) in enumerate(zip(view.sizes, measured.sizes, strict=True)) if now != was
    }
    text, media = measured.estimated(view.gone, changed)
    measured.rescale(measured_against(measured.scale, text, media, prompt))
    return None
