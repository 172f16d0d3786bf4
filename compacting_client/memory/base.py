"""What a store has to offer."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from compacting_client.core.prefix import Entry

__all__ = ["KEPT_ENTRIES", "Claims", "Store"]

KEPT_ENTRIES = 256
"""So many entries, those used last, are kept for each opening exchange: many a conversation begins with "Hi" and the same greeting.

All of them are read for each request that opens so.  With a summary of 600 tokens in each that is 0.7 MB, and 4 ms in a file or Redis.
"""


@runtime_checkable
class Store(Protocol):
    """Keeps the newest entries of conversations.  Calls may come from several threads at once.

    In async clients each call runs in a thread, unless the store says ``blocking = False``.  A store of one process that is never read by
    another may say ``shared = False``: digests are then made of Python's own string hashes, which is cheaper.  One with the methods
    of `Claims` too lets one worker alone make a summary.
    """

    def recall(self, key: str) -> list[tuple[Entry, int]]:
        """(entry, how often it was used since), the one used last first; [] where nothing is known.  One round trip."""
        ...

    def remember(self, key: str, entry: Entry, replaces: Entry | None = None) -> None:
        """Add an entry, in the place of one that it supersedes; those used longest ago go, beyond KEPT_ENTRIES."""
        ...

    def reuse(self, key: str, entry: Entry) -> None:
        """Count one more use of an entry, which is then the one used last."""
        ...

    def forget(self, key: str | None = None) -> None:
        """Drop what is known of one conversation, or of all."""
        ...


@runtime_checkable
class Claims(Protocol):
    """What a store may offer besides: work on a conversation that is done by one worker, whose result the others are given.

    A claim is one of a conversation (``key``), under a ``name``; `Store.forget` drops it too.
    """

    def claim(self, key: str, name: str, seconds: float) -> tuple[str | None, str | None]:
        """Take a claim that nobody has, for so many seconds: (a new token, None).  (None, the text) where the work is done; else (None, None)."""
        ...

    def publish(self, key: str, name: str, token: str, text: str, seconds: float) -> None:
        """Put a text in the place of the claim that `token` was given for, for so many seconds; nothing, where it is another's by now."""
        ...

    def release(self, key: str, name: str, token: str) -> None:
        """Give back the claim that `token` was given for; nothing, where it is another's by now."""
        ...
