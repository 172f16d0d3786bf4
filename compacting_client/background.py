"""The summaries that are made beside the requests of a client: begun by one, used by a later one, ended with the client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from compacting_client.core.effects import Beside, Summarise
from compacting_client.core.summaries import Summarised
from compacting_client.summarizers import AsyncCall, Attempts, Call

__all__ = ["Background"]

_CONVERSATIONS, _EACH = 1_000, 100
"""So many are held at most; conversations that open alike share what is held for each."""
_MOMENT = 1.0  # seconds that closing a client may take for all threads together


@dataclass(frozen=True, slots=True)
class _Job:
    """A summary being made, and of what."""

    units: frozenset[int]
    mark: tuple[int, int]
    call: Call | AsyncCall


class Background:
    """Thread-safe; the oldest go first where there are too many."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, list[_Job]] = OrderedDict()
        self._lock = threading.Lock()

    def look(
        self, beside: Beside, start: Callable[[Summarise], Call | AsyncCall], attempts: Attempts
    ) -> tuple[frozenset[int], Summarised] | None:
        """What is made by now; where nothing of use is under way, `start` begins it.  None: not yet."""
        key = beside.name
        if key is None:
            return None
        with self._lock:
            jobs = self._jobs.pop(key, [])
            mine = next((job for job in jobs if beside.covers(job.units, job.mark)), None)
            if mine is None and not attempts.waits(key):
                step, units, mark = beside.begin()
                jobs.append(_Job(units, mark, start(step)))
            over = mine is not None and mine.call.over()
            jobs = [job for job in jobs if not over or job is not mine][-_EACH:]
            if jobs:
                self._jobs[key] = jobs
            while len(self._jobs) > _CONVERSATIONS:
                for job in self._jobs.popitem(last=False)[1]:
                    job.call.end()
        return (mine.units, mine.call.told(attempts)) if mine is not None and over else None

    def forget(self, key: str | None = None) -> None:
        """Drop what was made, or is being made, for one conversation, or for all of them: it is never used, and where it can be, cancelled."""
        with self._lock:
            keys = list(self._jobs) if key is None else [key]
            calls = [job.call for each in keys for job in self._jobs.pop(each, ())]
        for call in calls:
            call.end()

    def end(self) -> list[asyncio.Future[None]]:
        """Forget all, and cancel what is under way; what async clients have to await.  Threads have a moment to end by themselves."""
        with self._lock:
            calls = [job.call for each in self._jobs.values() for job in each]
            self._jobs.clear()
        until = time.monotonic() + _MOMENT
        for call in calls:
            if isinstance(call, Call):
                call.settle(until - time.monotonic())
        return [future for call in calls if (future := call.end()) is not None]

    async def aend(self) -> None:
        """`end`, until all is over."""
        running = asyncio.get_running_loop()
        mine = [future for future in self.end() if future.get_loop() is running]
        await asyncio.gather(*mine, return_exceptions=True)
