"""What the way of a request asks the shell to do, besides the effects of the core."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from compacting_client.core.effects import Effect
from compacting_client.events import Event
from compacting_client.report import Report

__all__ = ["Deliver", "Finish", "Send", "Step", "Steps", "Tell"]


@dataclass(frozen=True, slots=True)
class Send:
    """Send this body.  Answer: the SDK's own response; its errors are thrown in."""

    body: Any


@dataclass(frozen=True, slots=True)
class Deliver:
    """Tie the report to the response; it is finished then, or when the response's stream ends."""

    response: Any
    report: Report


@dataclass(frozen=True, slots=True)
class Tell:
    """Hand events to the log and the callbacks."""

    events: list[Event]


@dataclass(frozen=True, slots=True)
class Finish:
    """The request is over without a response: `on_report`."""

    report: Report


Step = Effect | Send | Deliver | Tell | Finish
Steps = Generator[Step, Any, Any]
