"""Recognising a conversation by what it says, and what was decided for it (DESIGN 4).

A digest is chained over the meaning of the history's items, system prompts aside: a clock in the system prompt or a moving cache mark changes
nothing, an edit or a fork of the old part does.  Positions count the items that are no system messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from compacting_client.core.edits import NO_EDITS, Edits

__all__ = ["OPENING", "Chain", "Entry", "Found", "Gap"]

OPENING = 2
"""So many items name a conversation: the first message and the answer to it."""


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
    """The digests of the growing prefixes of one history.  `meanings[n]` is what item *n* says."""

    __slots__ = ("_digests", "_hash", "_length")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._digests: dict[int, str] = {}
        self._length = 0

    @property
    def length(self) -> int:
        """How many items are chained so far."""
        return self._length

    def extend(self, meanings: Iterable[bytes], mark: Sequence[int] = ()) -> None:
        """Chain further items; digests are taken where the prefix has one of the lengths in `mark`, and at the end."""
        update, length, marks = self._hash.update, self._length, frozenset(mark)
        for meaning in meanings:
            update(b"%d:" % len(meaning))
            update(meaning)
            length += 1
            if length in marks:
                self._digests[length] = self._hash.hexdigest()
        self._length = length
        self._digests[length] = self._hash.hexdigest()

    def at(self, length: int) -> str | None:
        """The digest of the first `length` items; None where it was not taken."""
        return self._digests.get(length)
