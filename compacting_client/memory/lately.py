"""Entries by conversation, those used last: of so many conversations, and so many entries of all of them together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from compacting_client.core.prefix import Entry
from compacting_client.memory.base import KEPT_ENTRIES

__all__ = ["Lately"]


@dataclass(slots=True, eq=False)
class _Kept:
    key: str
    entry: Entry
    uses: int = 0


class Lately:
    """At most `conversations`, each with KEPT_ENTRIES, and `entries` in all; what was used longest ago goes.  Not thread-safe."""

    def __init__(self, conversations: int, entries: int) -> None:
        self._conversations, self._entries = conversations, entries
        self._lists: OrderedDict[str, list[_Kept]] = OrderedDict()
        self._used: OrderedDict[_Kept, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._lists)

    def __iter__(self) -> Iterator[str]:
        return iter(self._lists)

    def __contains__(self, key: str) -> bool:
        return key in self._lists

    def recall(self, key: str) -> list[tuple[Entry, int]]:
        """The entries of a conversation and their uses, the one used last first; the conversation is then the one used last."""
        if key not in self._lists:
            return []
        self._lists.move_to_end(key)
        return [(kept.entry, kept.uses) for kept in self._lists[key]]

    def remember(self, key: str, entry: Entry, replaces: Entry | None) -> None:
        """An entry in front of the others, in the place of another."""
        before = self._lists.get(key, [])
        stay = [kept for kept in before if kept.entry not in (entry, replaces)][: KEPT_ENTRIES - 1]
        new = _Kept(key, entry)
        for gone in set(before).difference(stay):
            del self._used[gone]
        self._lists[key], self._used[new] = [new, *stay], None
        self._lists.move_to_end(key)
        while len(self._lists) > self._conversations:
            self.forget(next(iter(self._lists)))
        while len(self._used) > self._entries:
            self._drop(next(iter(self._used)))

    def reuse(self, key: str, entry: Entry) -> None:
        """One more use of an entry, which is then in front."""
        listed = self._lists.get(key, [])
        for index, kept in enumerate(listed):
            if kept.entry == entry:
                kept.uses += 1
                listed.insert(0, listed.pop(index))
                self._used.move_to_end(kept)
                break

    def forget(self, key: str) -> None:
        """No entry of a conversation any more."""
        for kept in self._lists.pop(key, ()):
            del self._used[kept]

    def clear(self) -> None:
        """No entry at all."""
        self._lists.clear()
        self._used.clear()

    def _drop(self, kept: _Kept) -> None:
        listed = self._lists[kept.key]
        listed.remove(kept)
        del self._used[kept]
        if not listed:
            del self._lists[kept.key]
