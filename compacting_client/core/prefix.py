"""Recognising a conversation by what it says, and what was decided for it (DESIGN 4).

A digest is chained over the meaning of the history's items, system prompts aside: a clock in the system prompt or a moving cache mark changes
nothing, an edit or a fork of the old part does.  Positions count the items that are no system messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from compacting_client.core.edits import NO_EDITS, Edits

__all__ = ["MARK", "OPENING", "Chain", "Entry", "Found", "Gap"]

OPENING = 2
"""So many items name a conversation: the first message and the answer to it."""

MARK = "inserted text"
"""The policy of an entry that is of no conversation, but tells that a text was inserted here."""

_DIGITS = 32  # hexadecimal ones: 128 bits tell all conversations of a store apart


@dataclass(frozen=True, slots=True)
class Gap:
    """Positions [start, stop) that are gone; `age`: how many requests before the entry was made they went."""

    start: int
    stop: int
    age: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One decision about one conversation.

    It holds while a history begins with the `length` items whose chained digest is `digest`.  `edited_at` is the length of the history when
    it was made, `edit` the digest of all of it: a history that begins so is the one that the entry was made for, another one shares its old
    part only (a fork, or an answer made again).  `place`, where the sent history was first changed: signed thinking in [place, edited_at) is
    stripped.  `policy` is the fingerprint of the policy that made it; `edits`, by positions, what it shortened and inserted.
    """

    length: int
    digest: str
    gaps: tuple[Gap, ...]
    edited_at: int
    edit: str
    policy: str
    place: int | None = None
    edits: Edits = NO_EDITS


@dataclass(frozen=True, slots=True)
class Found:
    """An entry that applies, how often it was used before, and whether it was made for this very history."""

    entry: Entry
    uses: int
    own: bool = True


class Chain:
    """The digests of the growing prefixes of one history, each taken once.  ``states``: what is known of them, by length."""

    __slots__ = ("states",)

    def __init__(self, states: Mapping[int, Any] | None = None) -> None:
        self.states: dict[int, Any] = {0: sha256(), **(states or {})}

    def at(self, length: int, said: Callable[[int, int], bytes]) -> str:
        """The digest of the first `length` items.

        ``said(start, stop)``: what the items [start, stop) say; that of two stretches in a row has to be that of both together.
        """
        state = self.states.get(length)
        if state is None:
            known = max(shorter for shorter in self.states if shorter < length)
            state = self.states[known].copy()
            state.update(said(known, length))
            self.states[length] = state
        digest: str = state.hexdigest()
        return digest[:_DIGITS]
