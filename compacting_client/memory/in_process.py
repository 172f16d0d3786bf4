"""The default store: in this process, the conversations used last."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from compacting_client.core.prefix import Entry
from compacting_client.memory.base import KEPT_ENTRIES
from compacting_client.validation import whole_number

__all__ = ["InProcess"]


@dataclass(slots=True)
class _Kept:
    entry: Entry
    uses: int = 0


class InProcess:
    """Remembers up to `max_conversations` (int >= 1), the least recently used going first.  Thread-safe.  Raises ConfigError."""

    blocking = False
    shared = False

    def __init__(self, max_conversations: int = 1000) -> None:
        self._limit = whole_number("max_conversations", max_conversations, at_least=1)
        self._kept: OrderedDict[str, list[_Kept]] = OrderedDict()
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"InProcess(max_conversations={self._limit})"

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, key: str) -> list[tuple[Entry, int]]:
        """The entries of a conversation, the one used last first."""
        with self._lock:
            if key not in self._kept:
                return []
            self._kept.move_to_end(key)
            return [(kept.entry, kept.uses) for kept in self._kept[key]]

    def remember(self, key: str, entry: Entry, replaces: Entry | None = None) -> None:
        """Add an entry in front of the others."""
        with self._lock:
            others = [kept for kept in self._kept.get(key, ()) if kept.entry not in (entry, replaces)]
            self._kept[key] = [_Kept(entry), *others][:KEPT_ENTRIES]
            self._kept.move_to_end(key)
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)

    def reuse(self, key: str, entry: Entry) -> None:
        """Count one more use, and put it in front."""
        with self._lock:
            kept = self._kept.get(key, [])
            for index, each in enumerate(kept):
                if each.entry == entry:
                    each.uses += 1
                    kept.insert(0, kept.pop(index))
                    break

    def forget(self, key: str | None = None) -> None:
        """Forget one conversation, or all."""
        with self._lock:
            if key is None:
                self._kept.clear()
            else:
                self._kept.pop(key, None)
