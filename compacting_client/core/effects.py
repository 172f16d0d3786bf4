"""What the core cannot do itself.  Compaction yields these, and is sent the answers; the shell performs them, sync or async alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from compacting_client.core.prefix import Entry
from compacting_client.core.summaries import Answered, ByModel, SummaryRequest

__all__ = [
    "Ask",
    "Begun",
    "Beside",
    "Claim",
    "Effect",
    "Pause",
    "Publish",
    "Recall",
    "Release",
    "Remember",
    "Reuse",
    "Summarise",
    "Unused",
]


@dataclass(frozen=True, slots=True)
class Ask:
    """Call one of the caller's functions on each of these arguments.  Answer: the list of what it returned.

    `name` is the setting it came from; it stands in the PolicyError if the function raises.
    """

    name: str
    function: Callable[[Any], Any]
    arguments: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Recall:
    """Look a conversation up.  Answer: [(entry, how often it was used), ...], newest first; [] where nothing is known or the store is down."""

    key: str


@dataclass(frozen=True, slots=True)
class Remember:
    """Store a new entry for a conversation, in the place of `replaces` where that is given.  No answer."""

    key: str
    entry: Entry
    replaces: Entry | None = None


@dataclass(frozen=True, slots=True)
class Reuse:
    """Count one more use of an entry.  No answer."""

    key: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class Summarise:
    """Have a summary made, within `timeout` seconds.  Answer: Summarised.

    ``key`` names the conversation in a store.  ``name`` names it more closely, as others may open alike: where a summariser failed, the next
    requests of that name are answered at once, without a text and without an error.  ``answers``: what a model has answered so far, part by part.
    """

    key: str | None
    name: str | None
    summarizer: Callable[[SummaryRequest], Any] | ByModel
    request: SummaryRequest
    timeout: float
    answers: list[Answered] = field(default_factory=list["Answered"], compare=False, repr=False)


class Begun(NamedTuple):
    """A summary to be made beside the requests: how, of which units, what tells those from others, and the settings that it is claimed by."""

    step: Summarise
    units: frozenset[int]
    mark: tuple[int, int]
    settings: str


@dataclass(frozen=True, slots=True)
class Beside:
    """Have a summary made beside the requests: nobody waits for it.  Answer: (units, Summarised) once one is made, else None.

    ``covers(units, mark)``: whether one that is made of that, or is being made, is of use for this history; only if none is, what `begin` gives
    is begun.  ``name`` names the conversation, as for `Summarise`.
    """

    name: str | None
    begin: Callable[[], Begun]
    covers: Callable[[frozenset[int], tuple[int, int]], bool]


@dataclass(frozen=True, slots=True)
class Unused:
    """A summary that was made for this conversation is of no use: its next requests go without, as after a failure.  No answer."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim a piece of work of a conversation, for so many seconds at most.  Answer: Claimed."""

    key: str
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Publish:
    """Let others have what came out of claimed work, for so many seconds.  No answer."""

    key: str
    name: str
    token: str
    text: str = field(repr=False)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Release:
    """Let others have a claim whose work was not done.  No answer."""

    key: str
    name: str
    token: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for so many seconds; no processor or event loop is kept busy.  Answer: the time then, in seconds on a clock that only goes on."""

    seconds: float


Effect = Ask | Recall | Remember | Reuse | Summarise | Beside | Unused | Claim | Publish | Release | Pause
