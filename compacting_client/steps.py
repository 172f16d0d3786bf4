"""What the way of a request asks the shell to do, besides the effects of the core; and how such steps are driven."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any

from compacting_client.core.effects import Effect
from compacting_client.events import Event
from compacting_client.report import Report

__all__ = ["Deliver", "Finish", "Send", "Step", "Steps", "Tell", "adriven", "driven"]


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


def driven(steps: Generator[Any, Any, Any], perform: Callable[[Any], Any]) -> Any:
    """What comes of `steps`, each of which is performed; an error is thrown in where it was asked for, a cancellation too."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.throw(error) if error is not None else steps.send(answer)
        except StopIteration as done:
            return done.value
        answer, error = None, None
        try:
            answer = perform(step)
        except BaseException as raised:  # noqa: BLE001
            error = raised


async def adriven(steps: Generator[Any, Any, Any], perform: Callable[[Any], Awaitable[Any]]) -> Any:
    """The same, awaited."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.throw(error) if error is not None else steps.send(answer)
        except StopIteration as done:
            return done.value
        answer, error = None, None
        try:
            answer = await perform(step)
        except BaseException as raised:  # noqa: BLE001 - a cancellation too
            error = raised
