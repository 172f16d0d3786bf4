"""Has summaries made: within a time limit, and not again at once where one failed (DESIGN 3.7)."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import replace
from functools import partial
from typing import Any

from compacting_client.core.effects import Summarise
from compacting_client.core.summaries import Answered, ByModel, Summarised, SummaryRequest
from compacting_client.validation import is_async

__all__ = ["NOT_ASKED", "AsyncCall", "Attempts", "Call", "amade", "asummarised", "made", "summarised"]

NOT_ASKED = Summarised(None, 0.0)
"""No summary, and no failure."""

_PAUSE = 5  # requests of a conversation that go without a summary after one failed
_CONVERSATIONS = 1_000
_MOMENT = 1.0  # seconds that a cancelled summariser has to clean up


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


class Call:
    """One summary being made, in a thread of its own: no function of the caller's can hold up a request or the end of the process.

    ``work``: makes it, and calls what it is given once it begins to, if it has to wait before; else the function of `step` does.
    """

    def __init__(self, step: Summarise, work: Callable[[Callable[[], None]], Any] | None = None) -> None:
        self._step, self._started, self._waits = _told_by(step), time.perf_counter(), work is not None
        self._made = self._started
        self._found: list[Any] = []
        self._thread = threading.Thread(
            target=self._work,
            args=(work or partial(_alone, step), copy_context()),
            name="compacting_client.summarizer",
            daemon=True,
        )
        self._thread.start()

    def _work(self, work: Callable[[Callable[[], None]], Any], context: Context) -> None:
        try:
            self._found.append(context.run(work, self._begin))
        except BaseException as error:  # noqa: BLE001 - told to the caller, who waits
            self._found.append(error)

    def _begin(self) -> None:
        self._started, self._waits = time.perf_counter(), False

    def over(self) -> bool:
        """Whether it is made, or its time is over."""
        now = time.perf_counter()
        late = now - self._made > _at_most(self._step) if self._waits else now - self._started > self._step.timeout
        return bool(self._found) or late

    def wait(self) -> None:
        """Until it is over."""
        self._thread.join(self._step.timeout)

    def told(self, attempts: Attempts) -> Summarised:
        """What came of it."""
        return _told(self._step, attempts, self._found[0] if self._found else _late(self._step), self._started)

    def end(self) -> None:
        """Nobody wants it any more.  A thread cannot be stopped: it ends with its function, and does not keep the process."""

    def settle(self, seconds: float) -> None:
        """Let it come to its end, for so many seconds at most."""
        if self._thread is not threading.current_thread():
            self._thread.join(max(0.0, seconds))


class AsyncCall:
    """The same in a task.  It ends with its loop."""

    def __init__(self, step: Summarise, work: Callable[[Callable[[], None]], Coroutine[Any, Any, Any]]) -> None:
        self._step, self._started, self._late = _told_by(step), time.perf_counter(), False
        self._task = asyncio.ensure_future(work(self._begin))  # and no `wait_for`, which makes a task of its own
        # a loop that is closed without a word to its tasks is no reason for a warning about one that nobody waits for
        self._task._log_destroy_pending = False  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        self._limit(self._task, _at_most(step))

    def _begin(self) -> None:
        task = asyncio.current_task()  # a loop may begin it before `__init__` knows it
        if task is not None:
            self._limit(task, self._step.timeout)

    def _limit(self, task: asyncio.Future[Any], seconds: float) -> None:
        timer = task.get_loop().call_later(seconds, self._give_up)
        task.add_done_callback(lambda _: timer.cancel())

    def _give_up(self) -> None:
        self._late = True
        self._task.cancel()

    def over(self) -> bool:
        """Whether it is made, or its time is over, or its loop: then nothing can come of it any more."""
        return self._task.done() or self._task.get_loop().is_closed()

    def told(self, attempts: Attempts) -> Summarised:
        """What came of it."""
        late = self._late and self._task.cancelled()
        answer = _late(self._step) if late else _of_task(self._task)
        return _told(self._step, attempts, answer, self._started)

    def end(self) -> asyncio.Future[Any] | None:
        """Cancel it; what is to be awaited until it is over."""
        loop = self._task.get_loop()
        if self._task.done() or loop.is_closed():
            return None
        loop.call_soon_threadsafe(self._task.cancel)
        return self._task


def _at_most(step: Summarise) -> float:
    """Seconds for all of it: to wait for another worker's summary takes one `timeout`, to make one another; a store may hang."""
    return 2 * step.timeout + _MOMENT


def summarised(step: Summarise, attempts: Attempts) -> Summarised:
    """A summary, or why there is none.  The function runs in a thread of its own, which nobody waits for once the time is over."""
    if attempts.waits(step.name):
        return NOT_ASKED
    call = Call(step)
    call.wait()
    return call.told(attempts)


async def asummarised(step: Summarise, attempts: Attempts) -> Summarised:
    """The same on an async client: async functions are awaited, plain ones run in a thread.  A cancellation passes through."""
    if attempts.waits(step.name):
        return NOT_ASKED
    started = time.perf_counter()
    task = asyncio.ensure_future(_outcome(step))
    try:  # no `wait_for`: up to Python 3.11 it swallows a cancellation that comes when the task has just ended
        await asyncio.wait({task}, timeout=step.timeout)
        answer = _of_task(task) if task.done() else _late(step)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_MOMENT)
    return _told(step, attempts, answer, started)


def made(step: Summarise, attempts: Attempts) -> Summarised:
    """The same in this very thread, however long it takes."""
    started = time.perf_counter()
    try:
        answer = _answer(step)
    except BaseException as error:  # noqa: BLE001
        answer = error
    return _told(step, attempts, answer, started)


async def amade(step: Summarise, attempts: Attempts) -> Summarised:
    """The same in this very task."""
    started = time.perf_counter()
    return _told(step, attempts, await _outcome(step), started)


def _of_task(task: asyncio.Task[Any]) -> Any:
    """What became of a task that is over.  Cancelled, or left in a loop that is closed, is an error like others: whoever asks was not."""
    if task.cancelled() or not task.done():
        return asyncio.CancelledError()
    error = task.exception()
    return task.result() if error is None else error


async def _outcome(step: Summarise) -> Any:
    """What the function returned, or the error that it raised."""
    try:
        function = _function(step)
        answer = await (function(step.request) if is_async(function) else _in_thread(function, step.request))
        return await answer if inspect.isawaitable(answer) else answer
    except Exception as error:  # noqa: BLE001 - whatever a summariser raises: the request goes out without
        return error


def _in_thread(function: Callable[[Any], Any], request: Any) -> asyncio.Future[Any]:
    """Of its own, and a daemon: the loop's executor would be waited for when the loop ends.  An error is its answer: a future takes not all."""
    loop, context = asyncio.get_running_loop(), copy_context()
    future: asyncio.Future[Any] = loop.create_future()

    def work() -> None:
        try:
            answer = context.run(function, request)
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            answer = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(answer))

    threading.Thread(target=work, name="compacting_client.summarizer", daemon=True).start()
    return future


def _told_by(step: Summarise) -> Summarise:
    """What is needed once it is over: nobody may ask for what came of it, and the messages are large."""
    return replace(step, request=_NOTHING)


_NOTHING = SummaryRequest((), None, 1, "")


def _late(step: Summarise) -> TimeoutError:
    return TimeoutError(f"no summary within {step.timeout} s")


def _function(step: Summarise) -> Callable[[Any], Any]:
    if isinstance(step.summarizer, ByModel):
        raise TypeError(f"nobody can ask {step.summarizer} here")
    return step.summarizer


def _alone(step: Summarise, _: Callable[[], None]) -> Any:
    """What need not wait."""
    return _answer(step)


def _answer(step: Summarise) -> Any:
    value = _function(step)(step.request)
    if inspect.isawaitable(value):
        getattr(value, "close", lambda: None)()  # or Python warns that it was never awaited
        raise TypeError("summarizer returned something to await; pass a plain function, or wrap the SDK's async client")
    return value


def _tokens(answers: list[Answered]) -> dict[str, int | None]:
    """What a model read and wrote for all of them, where it told any of it."""
    names = ("input_tokens", "output_tokens")
    told = {name: [n for each in answers if (n := getattr(each, name)) is not None] for name in names}
    return {name: sum(counts) if counts else None for name, counts in told.items()}


def _told(step: Summarise, attempts: Attempts, answer: Any, started: float) -> Summarised:
    if isinstance(answer, Summarised):
        return answer
    spent = (time.perf_counter() - started) * 1000
    if isinstance(answer, (KeyboardInterrupt, SystemExit)):
        raise answer
    counts: dict[str, Any] = {}
    error = type(answer).__name__ if isinstance(answer, BaseException) else "NoText"
    if step.answers:  # also where the last one never came
        counts = {"model": step.answers[-1].model, **_tokens(step.answers)}
    if isinstance(answer, Answered):
        answer, error = answer.text, answer.error or error
    if isinstance(answer, str) and answer.strip():
        return Summarised(answer, spent, **counts)
    attempts.failed(step.name)
    return Summarised(None, spent, error, **counts)
