"""Has summaries made: within a time limit, and not again at once where one failed (DESIGN 3.7)."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from compacting_client.core.effects import Summarise
from compacting_client.core.summaries import Summarised

__all__ = ["NOT_ASKED", "Attempts", "asummarised", "summarised"]

NOT_ASKED = Summarised(None, 0.0)
"""No summary, and no failure."""

_PAUSE = 5  # requests of a conversation that go without a summary after one failed
_CONVERSATIONS = 1_000


class Attempts:
    """Which conversations wait after a failure, and for how many requests.  Thread-safe."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def waits(self, key: str | None) -> bool:
        """Whether this request goes without a try; one fewer then waits."""
        with self._lock:
            left = self._waiting.pop(key, 0) if key is not None else 0
            if key is not None and left > 1:
                self._waiting[key] = left - 1
            return left > 0

    def failed(self, key: str | None) -> None:
        """Wait from now on."""
        with self._lock:
            if key is not None:
                self._waiting[key] = _PAUSE
            while len(self._waiting) > _CONVERSATIONS:
                self._waiting.popitem(last=False)


def summarised(step: Summarise, attempts: Attempts) -> Summarised:
    """A summary, or why there is none.  The function runs in a thread of its own, which nobody waits for once the time is over."""
    if attempts.waits(step.key):
        return NOT_ASKED
    started, found = time.perf_counter(), list[Any]()
    context = copy_context()

    def work() -> None:
        try:
            found.append(_plain(context.run(step.summarizer, step.request)))
        except BaseException as error:  # noqa: BLE001 - told to the caller, who waits
            found.append(error)

    thread = threading.Thread(target=work, name="compacting_client.summarizer", daemon=True)
    thread.start()
    thread.join(step.timeout)
    answer = found[0] if found else TimeoutError(f"no summary within {step.timeout} s")
    return _told(step, attempts, answer, started)


async def asummarised(step: Summarise, attempts: Attempts) -> Summarised:
    """The same on an async client: async functions are awaited, plain ones run in a thread.  A cancellation passes through."""
    if attempts.waits(step.key):
        return NOT_ASKED
    started = time.perf_counter()
    try:
        answer = await asyncio.wait_for(_awaited(step.summarizer, step.request), step.timeout)
    except Exception as error:  # noqa: BLE001 - whatever a summariser raises: the request goes out without
        answer = error
    return _told(step, attempts, answer, started)


async def _awaited(function: Callable[[Any], Any], request: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(request)
    answer = await asyncio.to_thread(function, request)
    return await answer if inspect.isawaitable(answer) else answer


def _plain(value: Any) -> Any:
    if inspect.isawaitable(value):
        getattr(value, "close", lambda: None)()  # or Python warns that it was never awaited
        raise TypeError("summarizer returned something to await; pass a plain function, or wrap the SDK's async client")
    return value


def _told(step: Summarise, attempts: Attempts, answer: Any, started: float) -> Summarised:
    spent = (time.perf_counter() - started) * 1000
    if isinstance(answer, (KeyboardInterrupt, SystemExit)):
        raise answer
    if isinstance(answer, str) and answer.strip():
        return Summarised(answer, spent)
    attempts.failed(step.key)
    return Summarised(None, spent, type(answer).__name__ if isinstance(answer, BaseException) else "NoText")
