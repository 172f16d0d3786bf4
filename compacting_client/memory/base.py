"""What a store has to offer."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from compacting_client.core.prefix import Entry

__all__ = ["KEPT_ENTRIES", "Store"]

KEPT_ENTRIES = 8
"""So many of the newest entries are kept for each opening exchange: forks and policies that share it."""


@runtime_checkable
class Store(Protocol):
    """Keeps the newest entries of conversations.  Calls may come from several threads at once.

    In async clients each call runs in a thread, unless the store says ``blocking = False``.
    """

    def recall(self, key: str) -> list[tuple[Entry, int]]:
        """(entry, how often it was used since), newest first; [] where nothing is known.  One round trip."""
        ...

    def remember(self, key: str, entry: Entry) -> None:
        """Add an entry; the oldest beyond KEPT_ENTRIES go."""
        ...

    def reuse(self, key: str, entry: Entry) -> None:
        """Count one more use of an entry."""
        ...

    def forget(self, key: str | None = None) -> None:
        """Drop what is known of one conversation, or of all."""
        ...
