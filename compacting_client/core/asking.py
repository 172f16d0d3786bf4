"""The provider's own count of a request, where the budget is near (DESIGN 5)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from compacting_client.core.calibration import measured_against
from compacting_client.core.effects import Ask, Effect
from compacting_client.core.measure import Measure, Opening, checked_count
from compacting_client.core.plan import Plan
from compacting_client.core.sent import Known, Trail
from compacting_client.core.view import View
from compacting_client.errors import PolicyError

__all__ = ["NEAR", "Asking"]

NEAR = 0.8
"""Of the budget: below that no estimate is so wrong that it would be worth a call."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How the provider is asked.  ``counting`` is given the plan under which a request leaves; ``alike`` finds the conversations that begin so."""

    counting: Callable[[Plan], Any]
    alike: Callable[[Opening], Sequence[Known]]

    def wanted(self, view: View, budget: float | None) -> bool:
        """Whether what is in the view comes near the budget."""
        return budget is not None and view.exceeds(NEAR * budget)

    def asked(self, measured: Measure, view: View, plan: Plan) -> Generator[Effect, Any, str | None]:
        """Go by the provider's count of what is in the view, which is what leaves under `plan`; the class of the error where it gave none.

        A request that it has counted before is not counted again.
        """
        again = Trail(measured, lambda: plan, self.alike(measured.opening)).again
        try:
            prompt = (
                again.prompt if again is not None else checked_count((yield Ask("counter", self.counting, [plan]))[0])
            )
        except PolicyError as error:
            return type(error.__cause__ or error).__name__
        both = enumerate(zip(view.sizes, measured.sizes, strict=True))
        text, media = measured.estimated(view.gone, {index: now for index, (now, was) in both if now != was})
        measured.rescale(measured_against(measured.scale, text, media, prompt))
        return None
