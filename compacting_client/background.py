"""The summaries that are made beside the requests of a client: begun by one, used by a later one, ended with the client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from compacting_client.core.effects import Begun, Beside
from compacting_client.core.summaries import Summarised
from compacting_client.summarizers import AsyncCall, Attempts, Call

__all__ = ["Background"]

_CONVERSATIONS, _EACH = 1_000, 100
"""So many are held at most; conversations that open alike share what is held for each."""
_MOMENT = 1.0  # seconds that closing a client may take for all threads together


@dataclass(frozen=True, slots=True)
class _Job:
    """A summary being made, and of what.  ``key`` names its conversation in a store."""

    key: str | None
    units: frozenset[int]
    mark: tuple[int, int]
    call: Call | AsyncCall


class _Held:
    """What is under way for one conversation, and its lock: nobody else waits while a summary is begun."""

    def __init__(self) -> None:
        self.jobs: list[_Job] = []
        self.lock = threading.Lock()


class Background:
    """Thread-safe; the oldest go first where there are too many."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._lock = threading.Lock()

    def look(
        self, beside: Beside, start: Callable[[Begun], Call | AsyncCall], attempts: Attempts
    ) -> tuple[frozenset[int], Summarised] | None:
        """What is made by now; where nothing of use is under way, `start` begins it.  None: not yet."""
        key = beside.name
        if key is None:
            return None
        with self._lock:
            held = self._held.setdefault(key, _Held())
        with held.lock:
            mine = next((job for job in held.jobs if beside.covers(job.units, job.mark)), None)
            if mine is None and not attempts.waits(key):
                begun = beside.begin()
                held.jobs.append(_Job(begun.step.key, begun.units, begun.mark, start(begun)))
            over = mine is not None and mine.call.over()
            held.jobs = [job for job in held.jobs if not over or job is not mine][-_EACH:]
            self._keep(key, held)
        return (mine.units, mine.call.told(attempts)) if mine is not None and over else None

    def forget(self, key: str | None = None) -> None:
        """Drop what was made, or is being made, for one conversation, or for all of them: it is never used, and where it can be, cancelled."""
        with self._lock:
            jobs = [job for held in self._held.values() for job in held.jobs if key in (None, job.key)]
            for held in self._held.values():
                held.jobs = [job for job in held.jobs if key not in (None, job.key)]
        for job in jobs:
            job.call.end()

    def _keep(self, key: str, held: _Held) -> None:
        """Hold a conversation as the newest one, as long as something is under way for it."""
        with self._lock:
            self._held.pop(key, None)
            if held.jobs:
                self._held[key] = held
            while len(self._held) > _CONVERSATIONS:
                for job in self._held.popitem(last=False)[1].jobs:
                    job.call.end()

    def end(self) -> list[asyncio.Future[None]]:
        """Forget all, and cancel what is under way; what async clients have to await.  Threads have a moment to end by themselves."""
        with self._lock:
            calls = [job.call for held in self._held.values() for job in held.jobs]
            self._held.clear()
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
