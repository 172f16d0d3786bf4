"""The default store: in this process, the conversations used last."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from secrets import token_hex
from threading import Lock
from time import monotonic

from compacting_client.core.claims import Claimed
from compacting_client.core.prefix import MARK, Entry
from compacting_client.memory.base import KEPT_ENTRIES
from compacting_client.validation import whole_number

__all__ = ["InProcess"]

_MARKS = 8  # of inserted texts, for each conversation: a new summary leaves the mark of the old one behind


@dataclass(slots=True)
class _Kept:
    entry: Entry
    uses: int = 0


@dataclass(slots=True)
class _Held:
    """A claim; `ends` on the monotonic clock."""

    token: str
    ends: float
    text: str | None = None


class InProcess:
    """Remembers up to `max_conversations` (int >= 1), the least recently used going first.  Thread-safe.  Raises ConfigError."""

    blocking = False
    shared = False

    def __init__(self, max_conversations: int = 1000) -> None:
        self._limit = whole_number("max_conversations", max_conversations, at_least=1)
        self._kept: OrderedDict[str, list[_Kept]] = OrderedDict()
        self._marks: OrderedDict[str, list[_Kept]] = OrderedDict()
        self._claims: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"InProcess(max_conversations={self._limit})"

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, key: str) -> list[tuple[Entry, int]]:
        """The entries of a conversation, the one used last first."""
        with self._lock:
            place = self._place(key)
            if key not in place:
                return []
            place.move_to_end(key)
            return [(kept.entry, kept.uses) for kept in place[key]]

    def remember(self, key: str, entry: Entry, replaces: Entry | None = None) -> None:
        """Add an entry in front of the others."""
        is_mark = entry.policy == MARK
        place, most = (self._marks, _MARKS * self._limit) if is_mark else (self._kept, self._limit)
        with self._lock:
            others = [kept for kept in place.get(key, ()) if kept.entry not in (entry, replaces)]
            place[key] = [_Kept(entry), *others][:KEPT_ENTRIES]
            place.move_to_end(key)
            while len(place) > most:
                place.popitem(last=False)

    def reuse(self, key: str, entry: Entry) -> None:
        """Count one more use, and put it in front."""
        with self._lock:
            kept = self._place(key).get(key, [])
            for index, each in enumerate(kept):
                if each.entry == entry:
                    each.uses += 1
                    kept.insert(0, kept.pop(index))
                    break

    def _place(self, key: str) -> OrderedDict[str, list[_Kept]]:
        return self._marks if key in self._marks else self._kept

    def forget(self, key: str | None = None) -> None:
        """Forget one conversation, or all."""
        with self._lock:
            if key is None:
                self._kept.clear()
                self._marks.clear()
                self._claims.clear()
                return
            self._place(key).pop(key, None)
            for claim in [claim for claim in self._claims if claim[0] == key]:
                del self._claims[claim]

    def claim(self, key: str, name: str, seconds: float) -> Claimed:
        """Take a claim, or learn what came out of it."""
        with self._lock:
            now = monotonic()
            held = self._claims.get((key, name))
            if held is not None and held.ends > now:
                return Claimed(text=held.text)
            self._claims[key, name] = held = _Held(token_hex(8), now + seconds)
            self._claims.move_to_end((key, name))
            while len(self._claims) > self._limit or next(iter(self._claims.values())).ends <= now:
                self._claims.popitem(last=False)
            return Claimed(held.token)

    def publish(self, key: str, name: str, token: str, text: str, seconds: float) -> None:
        """Put a text in the place of a claim."""
        with self._lock:
            held = self._claims.get((key, name))
            if held is not None and held.token == token:
                held.text, held.ends = text, monotonic() + seconds

    def release(self, key: str, name: str, token: str) -> None:
        """Give a claim back."""
        with self._lock:
            held = self._claims.get((key, name))
            if held is not None and held.token == token and held.text is None:
                del self._claims[key, name]
