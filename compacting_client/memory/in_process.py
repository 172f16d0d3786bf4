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
from compacting_client.memory.lately import Lately
from compacting_client.validation import whole_number

__all__ = ["InProcess"]

_MARKS = 8  # of inserted texts, for each conversation: a new summary leaves the mark of the old one behind
_ENTRIES = (
    10  # for each conversation, on average: openings are shared by branches, and by conversations that begin alike
)


@dataclass(slots=True)
class _Held:
    """A claim; `ends` on the monotonic clock."""

    token: str
    ends: float
    text: str | None = None


class InProcess:
    """Remembers up to `max_conversations` (int >= 1), the least recently used going first.  Thread-safe.  Raises ConfigError.

    Conversations that open alike are one here, with KEPT_ENTRIES at most; all entries together are ten times `max_conversations` at most, or
    KEPT_ENTRIES where that is more.
    """

    blocking = False
    shared = False

    def __init__(self, max_conversations: int = 1000) -> None:
        self._limit = whole_number("max_conversations", max_conversations, at_least=1)
        self._kept = Lately(self._limit, max(_ENTRIES * self._limit, KEPT_ENTRIES))
        self._marks = Lately(_MARKS * self._limit, _MARKS * self._limit)
        self._claims: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"InProcess(max_conversations={self._limit})"

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, key: str) -> list[tuple[Entry, int]]:
        """The entries of a conversation, the one used last first."""
        with self._lock:
            return self._place(key).recall(key)

    def remember(self, key: str, entry: Entry, replaces: Entry | None = None) -> None:
        """Add an entry in front of the others."""
        with self._lock:
            (self._marks if entry.policy == MARK else self._kept).remember(key, entry, replaces)

    def reuse(self, key: str, entry: Entry) -> None:
        """Count one more use, and put it in front."""
        with self._lock:
            self._place(key).reuse(key, entry)

    def _place(self, key: str) -> Lately:
        return self._marks if key in self._marks else self._kept

    def forget(self, key: str | None = None) -> None:
        """Forget one conversation, or all."""
        with self._lock:
            if key is None:
                self._kept.clear()
                self._marks.clear()
                self._claims.clear()
                return
            self._place(key).forget(key)
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
