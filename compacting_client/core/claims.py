"""One worker makes a summary, the others wait for its text (DESIGN 4).

A claim names what is to be summarised: the settings, the old summary and the very messages.  Whoever gets it from the store makes the summary
and publishes the text under the claim at once, so that nobody waits for the whole answer, and a request that fails then loses nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from compacting_client.core.effects import Claim, Effect, Pause, Publish, Release, Summarise
from compacting_client.core.summaries import Summarised, bounded

__all__ = ["UNCLAIMED", "Claimed", "once"]

_GRACE = 1.0  # seconds that a claim outlives the time which its summary may take
_LONGEST = 3600.0  # seconds: no claim of a dead worker stands for longer
_KEPT = 600.0  # seconds that a published text can be had: by then the request that it was made for has been accepted, or sent again
_FIRST_PAUSE, _LAST_PAUSE, _GROWTH = 0.02, 0.25, 1.5  # seconds between two looks at another's claim


class Claimed(NamedTuple):
    """What a store says of a claim: its `token`, where it is the caller's now; the `text`, where that is made; neither, where another has it."""

    token: str | None = None
    text: str | None = None


UNCLAIMED = Claimed("")
"""Nobody keeps claims here: whoever asks makes the summary."""


def once(step: Summarise, settings: str) -> Generator[Effect, Any, Summarised]:
    """A summary that one worker alone makes; the others are given its text.  ``settings``: what tells its maker from others.

    Whoever has waited for as long as a summary may take gets none.  A store that is down is done without, and `unclaimed` says so.
    """
    made: Summarised
    if step.key is None:
        made = yield step
        return made
    name = _name(settings, step)
    started: float = yield Pause(0)
    try:
        claimed = yield from _awaited(step, name, started + step.timeout)
    except Exception as error:  # noqa: BLE001 - a store that is down costs an event, never the summary
        made = yield step
        return replace(made, unclaimed=type(error).__name__)
    if claimed.text is not None:
        return Summarised(claimed.text, 0.0, shared=True)
    if claimed.token is None:
        now: float = yield Pause(0)
        return Summarised(None, (now - started) * 1000, TimeoutError.__name__)
    return (yield from _made(step, name, claimed.token))


def _name(settings: str, step: Summarise) -> str:
    said = f"{len(settings)}:{settings}{step.request.prompt}"
    return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _awaited(step: Summarise, name: str, until: float) -> Generator[Effect, Any, Claimed]:
    """The claim, or the text of whoever has it; neither, if that took too long.  A claim that was released or has expired is taken."""
    assert step.key is not None
    seconds = min(step.timeout, _LONGEST) + _GRACE
    pause = _FIRST_PAUSE
    while True:
        claimed: Claimed = yield Claim(step.key, name, seconds)
        if claimed != Claimed():
            return claimed
        now: float = yield Pause(0)
        if now >= until:
            return claimed
        yield Pause(min(pause, until - now))
        pause = min(pause * _GROWTH, _LAST_PAUSE)


def _made(step: Summarise, name: str, token: str) -> Generator[Effect, Any, Summarised]:
    """The summary, published; where there is none, a cancellation included, the claim is another's to take."""
    assert step.key is not None
    release = Release(step.key, name, token)
    try:
        made: Summarised = yield step
    except GeneratorExit:  # thrown away while it waits: nothing can be asked for any more, and the claim expires
        raise
    except BaseException:
        yield from _told(release, token)
        raise
    text = bounded(made.text, step.request.max_tokens)
    failed = yield from _told(Publish(step.key, name, token, text, _KEPT) if text else release, token)
    return replace(made, unclaimed=failed)


def _told(step: Publish | Release, token: str) -> Generator[Effect, Any, str | None]:
    """The class of the error, where the store could not be told."""
    if not token:
        return None
    try:
        yield step
    except Exception as error:  # noqa: BLE001
        return type(error).__name__
    return None
