"""Ties a report to what a call returned, and sees the end of it, without changing any object's type.

A plain response is over when it is there.  A stream is over when its iterator ends, a raw response when it was read; both when their HTTP
response is closed.  Nothing is added to the request.
"""

from __future__ import annotations

import functools
import inspect
import json
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from compacting_client.formats.base import Format
from compacting_client.report import Report
from compacting_client.session import Session
from compacting_client.shell import afinish, finish

__all__ = ["adeliver", "deliver"]


def deliver(session: Session, wire: Format | None, response: Any, report: Report) -> None:
    """Tie the report to a response, and finish it now or once the response is over."""
    watch = _Watch(session, wire, report)
    if not watch.begin(response):
        finish(session, report)


async def adeliver(session: Session, wire: Format | None, response: Any, report: Report) -> None:
    """The same for async clients."""
    watch = _AsyncWatch(session, wire, report)
    if not watch.begin(response):
        await afinish(session, report)


class _Watch:
    """Follows one response of a sync client."""

    READ, CLOSE = "read", "close"

    def __init__(self, session: Session, wire: Format | None, report: Report) -> None:
        self._session, self._wire, self._report = session, wire, report
        self._over = self._reads = False
        self._streams = False  # and not yet read to the end
        self._chunks: Callable[[], Any] = lambda: None

    def begin(self, response: Any) -> bool:
        """Tie the report to the response; False where nothing is left to wait for."""
        self._session.reports.attach(response, self._report)
        if _is_stream(response):
            self._stream(response)
            return True
        http = _http(response)
        if http is None:
            self._note(response)
            return False
        self._parsing(response)
        if getattr(http, "is_closed", True):
            self._note(_content(http))
            return False
        self._reading(http)  # `with_streaming_response`, or raw and streamed
        self._closing(http)
        return True

    def _busy(self) -> bool:
        """Whether it is being read just now: its HTTP response closes itself then, before all is taken in."""
        chunks = self._chunks()
        return self._reads or getattr(chunks, "gi_running", False) or getattr(chunks, "ag_running", False)

    def _note(self, answer: Any) -> None:
        """Take over the usage and the calls of an answer, its JSON, or a chunk of it."""
        if self._wire is not None:
            self._report.usage = self._wire.usage(answer, self._report.usage)
            self._session.answers.note(self._report, self._wire, answer)

    def _stream(self, stream: Any) -> None:
        """Watch a stream's own chunks.  The SDKs' stream helpers read the same ones, and share its HTTP response."""
        self._session.reports.attach(stream.response, self._report)
        self._streams = True
        chunks: Any = self._watched(stream._iterator)
        stream.__dict__["_iterator"] = chunks
        self._chunks = weakref.ref(chunks)  # no cycle: a stream that is dropped is closed at once
        if self.CLOSE not in stream.response.__dict__:
            self._closing(stream.response)

    def _parsing(self, raw: Any) -> None:
        """What a raw response is parsed into has the same report."""
        parse = raw.parse

        def noted(value: Any) -> Any:
            if self._session.reports.of(value) is self._report:
                return value  # parsed before
            self._session.reports.attach(value, self._report)
            if _is_stream(value):
                self._stream(value)
            return value

        @functools.wraps(parse)
        def parsed(**kwargs: Any) -> Any:
            return noted(parse(**kwargs))

        @functools.wraps(parse)
        async def aparsed(**kwargs: Any) -> Any:
            return noted(await parse(**kwargs))

        raw.__dict__["parse"] = aparsed if inspect.iscoroutinefunction(parse) else parsed

    def _ends(self) -> bool:
        """Whether the request is over now, for the first time; what is left of a stream then, nobody reads."""
        first, self._over = not self._over, True
        if first and self._streams and self._report.error is None:
            self._report.left_early = True
        return first

    def _end(self) -> Any:
        if self._ends():
            finish(self._session, self._report)

    def _watched(self, chunks: Any) -> Iterator[Any]:
        try:
            for chunk in chunks:
                self._note(chunk)
                yield chunk
            self._streams = False
        except GeneratorExit:
            raise
        except BaseException as error:
            self._report.error = type(error).__name__
            raise
        finally:
            self._end()

    def _reading(self, http: Any) -> None:
        """See that an HTTP response is read whole."""
        read = getattr(http, self.READ)

        @functools.wraps(read)
        def whole() -> Any:
            self._reads = True
            try:
                return read()
            finally:
                self._reads = False
                self._note(_content(http))
                self._end()

        http.__dict__[self.READ] = whole

    def _closing(self, http: Any) -> None:
        """See that an HTTP response is closed from outside."""
        close = getattr(http, self.CLOSE)

        @functools.wraps(close)
        def closed() -> None:
            try:
                close()
            finally:
                if not self._busy():
                    self._end()

        http.__dict__[self.CLOSE] = closed


class _AsyncWatch(_Watch):
    """Follows one response of an async client."""

    READ, CLOSE = "aread", "aclose"

    async def _end(self) -> None:
        if self._ends():
            await afinish(self._session, self._report)

    async def _watched(self, chunks: Any) -> AsyncIterator[Any]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            async for chunk in chunks:
                self._note(chunk)
                yield chunk
            self._streams = False
        except GeneratorExit:
            raise
        except BaseException as error:
            self._report.error = type(error).__name__
            raise
        finally:
            await self._end()

    def _reading(self, http: Any) -> None:
        read = getattr(http, self.READ)

        @functools.wraps(read)
        async def whole() -> Any:
            self._reads = True
            try:
                return await read()
            finally:
                self._reads = False
                self._note(_content(http))
                await self._end()

        http.__dict__[self.READ] = whole

    def _closing(self, http: Any) -> None:
        close = getattr(http, self.CLOSE)

        @functools.wraps(close)
        async def closed() -> None:
            try:
                await close()
            finally:
                if not self._busy():
                    await self._end()

        http.__dict__[self.CLOSE] = closed


def _is_stream(response: Any) -> bool:
    return hasattr(response, "__stream__") and hasattr(response, "response")


def _http(response: Any) -> Any:
    """The HTTP response behind a raw one; None for all else."""
    return getattr(response, "http_response", None) if callable(getattr(response, "parse", None)) else None


def _content(http: Any) -> Any:
    """The JSON of an HTTP response; None where it was not read, or is none (a stream, say)."""
    try:
        return json.loads(http.content)
    except Exception:  # noqa: BLE001 - it only serves the account
        return None
