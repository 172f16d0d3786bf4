"""What happened to a request, as data: one frozen dataclass per event, the same keys in logs, callbacks and `as_dict()` (DESIGN 7).

No event carries text of the conversation but ``messages``, which stays out of `repr`, `as_dict()` and logs unless ``log_content=True``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, cast

__all__ = [
    "CompactionApplied",
    "CompactionRecovered",
    "CompactionRejected",
    "CompactionSkipped",
    "ContentDropped",
    "ContentReplaced",
    "ContentReused",
    "Event",
    "Level",
    "SummaryCreated",
    "SummaryFailed",
]

Level = Literal["debug", "info", "warning", "error"]
Messages = tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Event:
    """The root of all events.  ``name`` is stable; ``request_id`` is the same in every event of one request, and in its report."""

    name: ClassVar[str]
    level: ClassVar[Level]
    request_id: str

    def as_dict(self, *, content: bool = False) -> dict[str, Any]:
        """``name`` and the fields, as JSON-like data; with the ``messages`` only if `content`."""
        shown = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "messages"}
        messages = getattr(self, "messages", None)
        if content and messages is not None:  # typed objects may be in them
            shown["messages"] = json.loads(json.dumps(messages, default=_plain))
        return {
            "name": self.name,
            **{
                key: list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
                for key, value in shown.items()
            },
        }


def _plain(value: Any) -> Any:
    dumped = getattr(value, "model_dump", None)
    return dumped(mode="json", exclude_none=True) if callable(dumped) else repr(value)


@dataclass(frozen=True, kw_only=True)
class CompactionSkipped(Event):
    """The request was looked at and left as it was.  ``reason`` says why."""

    name: ClassVar[str] = "compaction.skipped"
    level: ClassVar[Level] = "debug"
    api: str
    model: str
    policy: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class CompactionApplied(Event):
    """The request was changed.  Tokens as counted here; messages are neutral messages; ``target`` in tokens; ``duration_ms`` inside this library."""

    name: ClassVar[str] = "compaction.applied"
    level: ClassVar[Level] = "info"
    api: str
    model: str
    policy: str
    trigger: str | None
    tokens_before: float
    tokens_after: float
    messages_before: int
    messages_after: int
    fits: bool
    target: float | None
    duration_ms: float


@dataclass(frozen=True, kw_only=True)
class ContentDropped(Event):
    """One unit is absent from the request.

    ``first`` and ``last``: the indexes, in the caller's list, of its first and last item; ``roles`` and ``tools``: of its neutral messages;
    ``digest``: of what it says; ``since``: how many requests ago it went (0: now).  An event is sent when it goes; `Report.dropped` holds all.
    """

    name: ClassVar[str] = "content.dropped"
    level: ClassVar[Level] = "debug"
    first: int
    last: int
    roles: tuple[str, ...]
    tools: tuple[str, ...]
    tokens: float
    digest: str
    reason: str
    since: int = 0
    messages: Messages = field(repr=False, compare=False, default=())


@dataclass(frozen=True, kw_only=True)
class ContentReplaced(Event):
    """One item left with other content.

    ``kind``: "stripped" (its signed thinking was removed), "shortened" (a tool result has other content), "cleared" (an older tool result gave
    way to a marker, or the arguments of its call were emptied), "extended" (a policy's text stands at its start or end, or, with ``roles``
    ("system",) and ``tokens`` 0, at the end of the system prompt), "inserted" (a policy's text stands before it, as a user message of its own;
    ``tokens`` is 0 then); ``tokens_after``: of what stands in its place.
    """

    name: ClassVar[str] = "content.replaced"
    level: ClassVar[Level] = "debug"
    kind: str
    first: int
    last: int
    roles: tuple[str, ...]
    tools: tuple[str, ...]
    tokens: float
    tokens_after: float
    digest: str
    reason: str
    messages: Messages = field(repr=False, compare=False, default=())


@dataclass(frozen=True, kw_only=True)
class ContentReused(Event):
    """Something remembered was used again.

    ``kind``: "cut", or "summary" where one is in force; or "tool_result", which answered a call of ``tool`` again: that saves the call, and no
    tokens.  ``age``: requests since it was made; ``tokens_saved``: what it kept out of this request.
    """

    name: ClassVar[str] = "content.reused"
    level: ClassVar[Level] = "debug"
    kind: str
    age: int
    tokens_saved: float
    tool: str | None = None


@dataclass(frozen=True, kw_only=True)
class SummaryCreated(Event):
    """A summary was made.  ``tokens``: of its text, by the default estimate; ``duration_ms``: what it took.

    ``model`` and the tokens that it read and wrote, in its own count: None where a function of the caller's made it, or nothing was said.
    """

    name: ClassVar[str] = "summary.created"
    level: ClassVar[Level] = "info"
    tokens: float
    duration_ms: float
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class SummaryFailed(Event):
    """A summariser failed, or what it wrote is of no use; the request leaves without a summary.

    ``error``: the class of its error; "TimeoutError"; "NoText" where there is none in its answer, "Refusal", "ToolCall", "Truncated" (before any
    text) where the answer says why; "larger" where the summary is no smaller than what it stands for; the rule that the request would break
    with it.  The others as in `SummaryCreated`.
    """

    name: ClassVar[str] = "summary.failed"
    level: ClassVar[Level] = "warning"
    error: str
    duration_ms: float
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class CompactionRecovered(Event):
    """The provider refused; the request was changed, sent once more and accepted.

    ``cause``: "too long" or "thinking bound elsewhere"; ``window``: the limit that the provider named, in its tokens, or None.
    """

    name: ClassVar[str] = "compaction.recovered"
    level: ClassVar[Level] = "warning"
    cause: str
    window: int | None = None


@dataclass(frozen=True, kw_only=True)
class CompactionRejected(Event):
    """Something did not work out.  ``instead``: what was done.

    ``rules``: those that a plan broke; "error" or "memory" and the class of the error; "budget", where nothing was sent; "too long", where no
    shorter request helped; "truncated", where the provider read far less than was sent.
    """

    name: ClassVar[str] = "compaction.rejected"
    level: ClassVar[Level] = "warning"
    rules: tuple[str, ...]
    instead: str
