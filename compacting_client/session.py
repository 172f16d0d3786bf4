"""What one wrapped client and those derived from it share: settings, memory, reports, and what is in force in this context.

Nothing here is global: scopes and last reports live in context variables, keyed by the session they belong to.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from compacting_client.answers import Answers
from compacting_client.background import Background
from compacting_client.conversations import Conversations
from compacting_client.core.effects import Summarise
from compacting_client.core.summaries import Answered, ByModel, SummaryRequest
from compacting_client.events import Level
from compacting_client.logs import Log
from compacting_client.memory.base import Claims
from compacting_client.policies import Policy
from compacting_client.recent import Recent
from compacting_client.report import Report
from compacting_client.settings import Settings
from compacting_client.summarizers import Attempts
from compacting_client.windows import Windows

__all__ = ["Asker", "Scope", "Session"]

Asker = Callable[[ByModel, "Session", list[Answered]], Callable[[SummaryRequest], Any]]
"""Gives the function that asks a model for a summary, awaited or not as the client is; each answer is added to the list at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """One `with` block of a control handle.  ``policy``: a one-tuple, where another policy is in force."""

    session: Session
    policy: tuple[Policy | None] | None = None
    reports: list[Report] | None = None
    preview: bool = False


_scopes: ContextVar[tuple[Scope, ...]] = ContextVar("compacting_client.scopes", default=())
_last: ContextVar[Mapping[Session, Report] | None] = ContextVar("compacting_client.last", default=None)


class Session:
    """The state behind a wrapped client.  `derive` gives one that shares memory and reports.

    ``background``  the summaries that are under way;  ``helpers``  the clients of other providers that were built for summaries, by the
    provider's name and whether they are async
    """

    __slots__ = (
        "__weakref__",
        "_family",
        "answers",
        "asker",
        "attempts",
        "background",
        "conversations",
        "helpers",
        "log",
        "recent",
        "reports",
        "settings",
        "unread",
        "windows",
    )

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.log = Log(settings.logger)
        self.reports, self.answers = Reports(), Answers()
        self.recent, self.attempts, self.unread = Recent(), Attempts(), Unread()
        self.windows = Windows(settings.windows)
        self.conversations = Conversations()
        self.background, self.helpers = Background(), dict[tuple[str, bool], Any]()
        self.asker: Asker | None = None
        self._family = self

    def on(self, asker: Asker) -> Session:
        """The same session for one client, whose models are asked by `asker`."""
        other = copy(self)
        other.asker = asker
        return other

    def ready(self, step: Summarise) -> Summarise:
        """`step` with a function to call."""
        if not isinstance(step.summarizer, ByModel) or self.asker is None:
            return step
        return replace(step, summarizer=self.asker(step.summarizer, self, step.answers))

    def derive(self, policy: Policy | None, *, is_async: bool | None = None) -> Session:
        """The same session under another policy, or for a client whose calls are awaited."""
        awaited = self.settings.is_async if is_async is None else is_async
        other = copy(self)  # all that is known is shared
        other.settings = replace(self.settings, policy=policy, is_async=awaited)
        return other

    def policy(self) -> Policy | None:
        """The policy in force here and now; None is off."""
        for scope in reversed(_scopes.get()):
            if scope.session is self._family and scope.policy is not None:
                return scope.policy[0]
        return self.settings.policy

    def previews(self) -> bool:
        """Whether this call is a preview: nothing may be sent or stored, by whatever wrapped client."""
        return any(scope.preview for scope in _scopes.get())

    def claims(self) -> Claims | None:
        """Where work is claimed; None where the memory keeps no claims, and in a preview, which stores nothing."""
        return None if self.previews() else self.settings.claims

    def unwatched(self) -> AbstractContextManager[None]:
        """In force while a function of the caller's makes a summary: its own requests through this client leave as they are."""
        return self.scope(policy=(None,))

    def related(self, other: Session) -> bool:
        """Whether both come from one call of `compacting()`."""
        return self._family is other._family

    @contextmanager
    def scope(
        self, *, policy: tuple[Policy | None] | None = None, reports: list[Report] | None = None, preview: bool = False
    ) -> Generator[None]:
        """Put something in force for this context and the tasks that are created in it."""
        token = _scopes.set((*_scopes.get(), Scope(self._family, policy, reports, preview)))
        try:
            yield
        finally:
            _scopes.reset(token)

    def keep(self, report: Report) -> None:
        """Make `report` the last one of this context, and hand it to the captures around it; a preview's is neither."""
        if self.previews():
            return
        before = _last.get()
        kept: WeakKeyDictionary[Session, Report] = WeakKeyDictionary()
        if before and (len(before) > 1 or self._family not in before):  # nearly always there is one client in a context
            kept.update(before)
        kept[self._family] = report
        _last.set(kept)
        for scope in _scopes.get():
            if scope.session is self._family and scope.reports is not None:
                scope.reports.append(report)

    def last_report(self) -> Report | None:
        """The last report of this thread or task."""
        return (_last.get() or {}).get(self._family)

    def hears(self, level: Level, *callbacks: str) -> bool:
        """Whether anybody wants events of this level: one of these callbacks, `on_event`, or the log."""
        settings = self.settings
        if settings.on_event is not None or any(getattr(settings, name) is not None for name in callbacks):
            return True
        return self.log.hears(level)


class Unread:
    """Reports whose figures nobody has read: they still hold what is not counted of the history.  Those before the last few are counted."""

    def __init__(self) -> None:
        self._waiting: deque[weakref.ref[Report]] = deque()

    def add(self, report: Report) -> None:
        """One more; an older one that somebody keeps is counted, and lets its history go."""
        self._waiting.append(weakref.ref(report))
        while len(self._waiting) > _UNREAD:
            older = self._waiting.popleft()()
            if older is not None:
                older.settle()


_UNREAD = 16


class Reports:
    """Which report belongs to which returned object, as long as that object lives."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[Any], Report]] = {}

    def attach(self, response: Any, report: Report) -> None:
        """Remember the report of an object; objects that cannot be referenced weakly are passed over."""
        key = id(response)
        try:
            self._kept[key] = (weakref.ref(response, lambda _: self._kept.pop(key, None)), report)
        except TypeError:
            return

    def of(self, response: Any) -> Report | None:
        """The report of an object that a call returned, or of one that shares its HTTP response (the SDKs' stream helpers)."""
        for name in ("", "response", "_response"):
            try:
                candidate = getattr(response, name) if name else response
            except Exception:  # noqa: BLE001, S112 - a property of a stranger's object may raise anything
                continue
            found = self._kept.get(id(candidate))
            if found is not None and found[0]() is candidate:
                return found[1]
        return None
