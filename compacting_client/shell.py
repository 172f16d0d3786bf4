"""Drives the way of a request: performs its steps, sync in `run`, async in `arun`.  All logic is in the generator."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from compacting_client import account
from compacting_client.core.claims import UNCLAIMED, Claimed, once
from compacting_client.core.effects import (
    Ask,
    Begun,
    Beside,
    Claim,
    Pause,
    Publish,
    Recall,
    Release,
    Remember,
    Reuse,
    Summarise,
    Unused,
)
from compacting_client.errors import PolicyError
from compacting_client.events import ContentDropped, ContentReused, Event
from compacting_client.report import Report
from compacting_client.session import Session
from compacting_client.steps import Deliver, Finish, Send, Step, Steps, Tell, adriven, driven
from compacting_client.summarizers import NOT_ASKED, AsyncCall, Call, amade, asummarised, made, summarised

__all__ = ["aask", "afinish", "arun", "ask", "finish", "run"]

Stored = Recall | Remember | Reuse | Claim | Publish | Release | Pause


def run(steps: Steps, session: Session, send: Callable[[Any], Any], deliver: Callable[[Any, Report], None]) -> Any:
    """Drive `steps` on a sync client.  `send` sends a body; `deliver` ties a report to the response, and finishes it in time."""

    def perform(step: Step) -> Any:
        match step:
            case Send(body):
                return send(body)
            case Deliver(response, report):
                deliver(response, report)
            case Ask():
                return [_plain(step, _call(step, argument)) for argument in step.arguments]
            case Tell() | Finish():
                for name, callback, event in _listeners(session, step):
                    _guard(session, name, callback, event)
            case Summarise():
                with session.unwatched():
                    return NOT_ASKED if session.previews() else summarised(session.ready(step), session.attempts)
            case Beside() | Unused():
                return _beside(session, step, _begun)
            case Recall() | Remember() | Reuse() | Claim() | Publish() | Release() | Pause():
                return _stored(session, step)
        return None

    return driven(steps, perform)


async def arun(
    steps: Steps,
    session: Session,
    send: Callable[[Any], Awaitable[Any]],
    deliver: Callable[[Any, Report], Awaitable[None]],
) -> Any:
    """Drive `steps` on an async client; async callables are awaited, stores that may block run in a thread."""

    async def perform(step: Step) -> Any:
        match step:
            case Send(body):
                return await send(body)
            case Deliver(response, report):
                await deliver(response, report)
            case Ask():
                return [await _acall(step, argument) for argument in step.arguments]
            case Tell() | Finish():
                for name, callback, event in _listeners(session, step):
                    await _aguard(session, name, callback, event)
            case Summarise():
                with session.unwatched():
                    if session.previews():
                        return NOT_ASKED
                    return await asummarised(session.ready(step), session.attempts)
            case Beside() | Unused():
                return _beside(session, step, _abegun)
            case Recall() | Remember() | Reuse() | Claim() | Publish() | Release() | Pause():
                return await _astored(session, step)
        return None

    return await adriven(steps, perform)


def ask(steps: Steps, session: Session) -> Any:
    """Drive steps that only ask the caller's functions, or tell them something."""
    return run(steps, session, _nothing, _nothing)


async def aask(steps: Steps, session: Session) -> Any:
    """The same on an async client."""
    return await arun(steps, session, _anothing, _anothing)


def _nothing(*_: Any) -> None:
    """Where nothing is sent, there is nothing to send or deliver with."""


async def _anothing(*_: Any) -> None:
    """The same."""


def finish(session: Session, report: Report) -> None:
    """The request is over: what its usage teaches, and `on_report`."""
    report.ended()
    for name, callback, event in _listeners(session, _afterwards(session, report)):
        _guard(session, name, callback, event)
    if session.settings.on_report is not None:
        _guard(session, "on_report", session.settings.on_report, report)


async def afinish(session: Session, report: Report) -> None:
    """The request is over: what its usage teaches, and `on_report`."""
    report.ended()
    for name, callback, event in _listeners(session, _afterwards(session, report)):
        await _aguard(session, name, callback, event)
    if session.settings.on_report is not None:
        await _aguard(session, "on_report", session.settings.on_report, report)


def _afterwards(session: Session, report: Report) -> Tell:
    """What is only known once the provider has said what it read; a counter of the caller's may count in other tokens."""
    event = account.truncated(report) if session.settings.counter is None else None
    return Tell([event] if event is not None else [])


def _call(step: Ask, argument: Any) -> Any:
    try:
        return step.function(argument)
    except Exception as error:
        raise PolicyError(f"{step.name} raised {type(error).__name__}", step.name) from error


async def _acall(step: Ask, argument: Any) -> Any:
    value = _call(step, argument)
    if not inspect.isawaitable(value):
        return value
    try:
        return await value
    except Exception as error:
        raise PolicyError(f"{step.name} raised {type(error).__name__}", step.name) from error


def _plain(step: Ask, value: Any) -> Any:
    if inspect.isawaitable(value):
        getattr(value, "close", lambda: None)()  # or Python warns that it was never awaited
        message = f"{step.name} returned something to await; pass a plain function, or wrap the SDK's async client"
        raise PolicyError(message, step.name)
    return value


def _listeners(session: Session, step: Tell | Finish) -> list[tuple[str, Callable[[Any], Any], Any]]:
    """Who is to be told what; the log is written here, at once.  A preview tells nobody."""
    if session.previews():
        return []
    settings = session.settings
    if isinstance(step, Finish):
        return [("on_report", settings.on_report, step.report)] if settings.on_report is not None else []
    told: list[tuple[str, Callable[[Any], Any], Any]] = []
    for event in step.events:
        _log(session, event)
        special = "on_drop" if isinstance(event, ContentDropped) else "on_reuse"
        names = ("on_event", special) if isinstance(event, (ContentDropped, ContentReused)) else ("on_event",)
        told += [(name, callback, event) for name in names if (callback := getattr(settings, name)) is not None]
    return told


def _log(session: Session, event: Event) -> None:
    if session.log.hears(event.level):
        fields = event.as_dict(content=session.settings.log_content)
        session.log.write(event.level, fields.pop("name"), fields)


def _guard(session: Session, name: str, callback: Callable[[Any], Any], argument: Any) -> None:
    try:
        value = callback(argument)
        if inspect.isawaitable(value):
            getattr(value, "close", lambda: None)()
            raise TypeError(f"{name} returned something to await on a sync client")  # noqa: TRY301 - reported like any failure
    except Exception as error:  # noqa: BLE001 - an observer's failure is logged, never raised (DESIGN 3.7)
        _callback_failed(session, name, error)


async def _aguard(session: Session, name: str, callback: Callable[[Any], Any], argument: Any) -> None:
    try:
        value = callback(argument)
        if inspect.isawaitable(value):
            await value
    except Exception as error:  # noqa: BLE001
        _callback_failed(session, name, error)


def _callback_failed(session: Session, name: str, error: Exception) -> None:
    exc_info = error if session.settings.log_content else None  # its text may quote the conversation
    fields = {"callback": name, "error": type(error).__name__}
    session.log.write("error", "callback.failed", fields, exc_info=exc_info)


def _beside(
    session: Session, step: Beside | Unused, start: Callable[[Session, Summarise, str], Call | AsyncCall]
) -> Any:
    """What was made beside earlier requests; or that a summary is not to be made again at once.  In a preview nothing of that."""
    if session.previews():
        return None
    if isinstance(step, Unused):
        return session.attempts.failed(step.name)

    def begin(begun: Begun) -> Call | AsyncCall:
        with session.unwatched():
            return start(session, session.ready(begun.step), begun.settings)

    return session.background.look(step, begin, session.attempts)


def _begun(session: Session, step: Summarise, settings: str) -> Call:
    """A summary that is begun in a thread, by one worker alone as any other."""

    def work(begins: Callable[[], None]) -> Any:
        def perform(each: Any) -> Any:
            if not isinstance(each, Summarise):
                return _stored(session, each)
            begins()
            return made(each, session.attempts)

        return driven(once(step, settings), perform)

    return Call(step, work)


def _abegun(session: Session, step: Summarise, settings: str) -> AsyncCall:
    """The same in a task."""

    async def work(begins: Callable[[], None]) -> Any:
        async def perform(each: Any) -> Any:
            if not isinstance(each, Summarise):
                return await _astored(session, each)
            begins()
            return await amade(each, session.attempts)

        return await adriven(once(step, settings), perform)

    return AsyncCall(step, work)


async def _astored(session: Session, step: Stored) -> Any:
    """The same; a store that may block is asked in a thread."""
    if isinstance(step, Pause) and step.seconds:
        await asyncio.sleep(step.seconds)
        step = Pause(0)
    if isinstance(step, Pause) or not session.settings.blocking:
        return _stored(session, step)
    asked = asyncio.to_thread(_stored, session, step)
    if not isinstance(step, (Claim, Publish, Release)):
        return await asked
    asking = asyncio.ensure_future(asked)
    try:  # a thread goes on: the claim that it gets or gives back must not be lost with the request
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        await asyncio.shield(_settled(session, step, asking))  # even where the task is cancelled once more
        raise


async def _settled(session: Session, step: Claim | Publish | Release, asking: asyncio.Future[Any]) -> None:
    """The end of what a cancelled request had asked of its store; a claim that it was given is another's to take."""
    with suppress(Exception):  # a store that is down: the claim expires
        claimed = await asking
        if isinstance(step, Claim) and claimed.token:
            await asyncio.to_thread(_stored, session, Release(step.key, step.name, claimed.token))


def _stored(session: Session, step: Stored) -> Any:
    """Ask or tell the memory, or wait for it to change."""
    store = session.settings.memory
    match step:
        case Recall(key):
            return store.recall(key)
        case Remember(key, entry, replaces):
            store.remember(key, entry, replaces)
        case Reuse(key, entry):
            store.reuse(key, entry)
        case Pause(seconds):
            if seconds:
                time.sleep(seconds)
            return time.monotonic()
        case _:
            return _claimed(session, step)
    return None


def _claimed(session: Session, step: Claim | Publish | Release) -> Claimed | None:
    """Ask or tell the memory about a claim, where it keeps any."""
    claims = session.claims()
    if claims is None:
        return UNCLAIMED
    match step:
        case Claim(key, name, seconds):
            return Claimed(*claims.claim(key, name, seconds))
        case Publish(key, name, token, text, seconds):
            try:
                claims.publish(key, name, token, text, seconds)
            except Exception:
                raise
            except BaseException:  # interrupted
                claims.release(key, name, token)
                raise
        case Release(key, name, token):
            claims.release(key, name, token)
    return None
