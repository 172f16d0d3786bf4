"""What the core cannot do itself.  Compaction yields these, and is sent the answers; the shell performs them, sync or async alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from compacting_client.core.prefix import Entry
from compacting_client.core.summaries import SummaryRequest

__all__ = ["Ask", "Claim", "Effect", "Pause", "Publish", "Recall", "Release", "Remember", "Reuse", "Summarise"]


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

    ``key`` names the conversation: where a summariser failed, the next requests of it are answered at once, without a text and without an error.
    """

    key: str | None
    summarizer: Callable[[SummaryRequest], Any]
    request: SummaryRequest
    timeout: float


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


Effect = Ask | Recall | Remember | Reuse | Summarise | Claim | Publish | Release | Pause
