"""Ties a report to what a call returned, and sees the end of streams, without changing the object's type.

Streams: their own chunks are watched through an instance-level iterator; nothing is added to the request.
"""

from __future__ import annotations

import functools
import inspect
import json
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from compacting_client.formats.base import Format, Usage
from compacting_client.report import Report
from compacting_client.session import Session
from compacting_client.shell import afinish, finish

__all__ = ["adeliver", "deliver"]


def deliver(session: Session, wire: Format | None, response: Any, report: Report) -> None:
    """Tie the report to a response, a raw response or a stream; finish it now, or at the stream's end."""
    session.reports.attach(response, report)
    if _is_stream(response):
        session.reports.attach(response.response, report)  # the SDKs' stream helpers share it
        _watch(wire, response, report, _once(functools.partial(finish, session, report)))
        return
    report.usage = _usage(wire, response)
    if _is_raw(response):
        _watch_parse(session, wire, response, report)
    finish(session, report)


async def adeliver(session: Session, wire: Format | None, response: Any, report: Report) -> None:
    """The same for async clients."""
    session.reports.attach(response, report)
    if _is_stream(response):
        session.reports.attach(response.response, report)
        _awatch(wire, response, report, _once(functools.partial(afinish, session, report)))
        return
    report.usage = _usage(wire, response)
    if _is_raw(response):
        _watch_parse(session, wire, response, report)
    await afinish(session, report)


def _is_stream(response: Any) -> bool:
    return hasattr(response, "__stream__") and hasattr(response, "response")


def _is_raw(response: Any) -> bool:
    return hasattr(response, "http_response") and callable(getattr(response, "parse", None))


def _usage(wire: Format | None, response: Any) -> Usage | None:
    if wire is None or not _is_raw(response):
        return wire.usage(response) if wire is not None else None
    if not getattr(response.http_response, "is_closed", False):  # not read yet: parsing it will tell
        return None
    try:
        return wire.usage(json.loads(response.http_response.content))
    except Exception:  # noqa: BLE001 - a body without usage (a stream, say) is no error
        return None


def _once(function: Callable[[], Any]) -> Callable[[], Any]:
    """A function that does its work the first time it is called, and nothing after that."""
    left = [function]
    return lambda: left.pop()() if left else None


def _watch(wire: Format | None, stream: Any, report: Report, end: Callable[[], None]) -> None:
    """Replace a sync stream's iterator by one that reads the usage on the way, and calls `end` however it ends."""
    inner = stream._iterator  # noqa: SLF001 - the SDKs have no public one

    def watched() -> Iterator[Any]:
        try:
            for chunk in inner:
                _note(wire, chunk, report)
                yield chunk
        except Exception as error:
            report.error = type(error).__name__
            raise
        finally:
            end()

    reference = weakref.ref(stream)

    def close() -> None:
        _close(reference)
        end()

    stream.__dict__["_iterator"] = watched()
    stream.__dict__["close"] = functools.wraps(type(stream).close)(close)


def _awatch(wire: Format | None, stream: Any, report: Report, end: Callable[[], Awaitable[None] | None]) -> None:
    inner = stream._iterator  # noqa: SLF001

    async def ended() -> None:
        if (done := end()) is not None:
            await done

    async def watched() -> AsyncIterator[Any]:
        try:
            async for chunk in inner:
                _note(wire, chunk, report)
                yield chunk
        except Exception as error:
            report.error = type(error).__name__
            raise
        finally:
            await ended()

    reference = weakref.ref(stream)

    async def close() -> None:
        await _close(reference)
        await ended()

    stream.__dict__["_iterator"] = watched()
    stream.__dict__["close"] = functools.wraps(type(stream).close)(close)


def _close(reference: weakref.ref[Any]) -> Any:
    stream = reference()  # held weakly: an abandoned stream still closes its connection when it is collected
    return type(stream).close(stream) if stream is not None else None


def _note(wire: Format | None, chunk: Any, report: Report) -> None:
    if wire is not None:
        report.usage = wire.usage(chunk, report.usage)


def _watch_parse(session: Session, wire: Format | None, raw: Any, report: Report) -> None:
    """What a raw response is parsed into has the same report, and fills in its usage."""
    original = type(raw).parse

    def noted(value: Any) -> Any:
        if session.reports.of(value) is not None:
            return value
        session.reports.attach(value, report)
        if not _is_stream(value):
            report.usage = _usage(wire, value) or report.usage
        elif hasattr(value, "__anext__"):
            _awatch(wire, value, report, lambda: None)
        else:
            _watch(wire, value, report, lambda: None)
        return value

    @functools.wraps(original)
    async def aparse(**kwargs: Any) -> Any:
        return noted(await original(raw, **kwargs))

    @functools.wraps(original)
    def parse(**kwargs: Any) -> Any:
        return noted(original(raw, **kwargs))

    raw.__dict__["parse"] = aparse if inspect.iscoroutinefunction(original) else parse
