"""A store in a file: it outlives the process, and all processes of one machine can share it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from compacting_client.core.claims import Claimed
from compacting_client.core.prefix import Entry
from compacting_client.errors import ConfigError
from compacting_client.memory.base import KEPT_ENTRIES
from compacting_client.memory.database import Database
from compacting_client.memory.serial import claimed, decoded, encoded, name_of
from compacting_client.validation import whole_number

if TYPE_CHECKING:
    import sqlite3

__all__ = ["File"]

_MOST = 100_000  # an entry that was not among the last so many uses of the file goes

# turn: one counter over all entries, taken anew with each use; expires: unix time in seconds; text: JSON, once it is made
_LAYOUT = """
    CREATE TABLE entries (
        turn INTEGER PRIMARY KEY, key TEXT NOT NULL, name TEXT NOT NULL, entry TEXT NOT NULL, uses INTEGER NOT NULL, expires REAL NOT NULL
    );
    CREATE UNIQUE INDEX by_name ON entries (key, name);
    CREATE INDEX by_end ON entries (expires);
    CREATE TABLE claims (
        key TEXT NOT NULL, name TEXT NOT NULL, token TEXT NOT NULL, text TEXT, expires REAL NOT NULL, PRIMARY KEY (key, name)
    ) WITHOUT ROWID;
    CREATE INDEX by_claims_end ON claims (expires);
"""


class File:
    """Remembers in an SQLite database at `path`, on a local disk; the folder must exist, the file is made when first needed, with mode 0600.

    An entry goes `ttl` seconds (int >= 1) after its last use, or when 100,000 uses of others came since.  Safe with threads, processes and
    forks.  Raises ConfigError; the methods raise sqlite3.Error or OSError, which in a request costs an event.
    """

    blocking: Final = True
    shared: Final = True

    def __init__(self, path: str | os.PathLike[str], ttl: int = 86400) -> None:
        self._ttl = whole_number("ttl", ttl, at_least=1)
        self._database = Database(_checked(path), _LAYOUT, version=2)

    def __repr__(self) -> str:
        return f"File({str(self._database.path)!r}, ttl={self._ttl})"

    def recall(self, key: str) -> list[tuple[Entry, int]]:
        """The entries of a conversation, the one used last first."""
        query = "SELECT entry, uses FROM entries WHERE key = ? AND expires > ? ORDER BY turn DESC LIMIT ?"
        with self._database.reading() as connection:
            rows = connection.execute(query, (key, time.time(), KEPT_ENTRIES)).fetchall()
        return [(entry, uses) for text, uses in rows if (entry := decoded(text)) is not None]

    def remember(self, key: str, entry: Entry, replaces: Entry | None = None) -> None:
        """Add an entry in front of the others."""
        text = encoded(entry)
        name, old = name_of(text), name_of(encoded(replaces)) if replaces is not None else None
        with self._database.writing() as connection:
            turn, expires = self._use(connection)
            connection.execute("DELETE FROM entries WHERE key = ? AND name IN (?, ?)", (key, name, old))
            connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, 0, ?)", (turn, key, name, text, expires))
            kept = "SELECT turn FROM entries WHERE key = ? ORDER BY turn DESC LIMIT ?"
            connection.execute(
                f"DELETE FROM entries WHERE key = ? AND turn NOT IN ({kept})",  # noqa: S608 - a constant
                (key, key, KEPT_ENTRIES),
            )

    def reuse(self, key: str, entry: Entry) -> None:
        """Count one more use, and put it in front."""
        name = name_of(encoded(entry))
        with self._database.writing() as connection:
            turn, expires = self._use(connection)
            connection.execute(
                "UPDATE entries SET turn = ?, expires = ?, uses = uses + 1 WHERE key = ? AND name = ?",
                (turn, expires, key, name),
            )

    def forget(self, key: str | None = None) -> None:
        """Forget one conversation, or all; nothing of it is left in the file."""
        with self._database.writing() as connection:
            if key is None:
                connection.execute("DELETE FROM entries")
                connection.execute("DELETE FROM claims")
            else:
                connection.execute("DELETE FROM entries WHERE key = ?", (key,))
                connection.execute("DELETE FROM claims WHERE key = ?", (key,))
        with self._database.reading() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def claim(self, key: str, name: str, seconds: float) -> Claimed:
        """Take a claim, or learn what came out of it."""
        query = "SELECT text FROM claims WHERE key = ? AND name = ? AND expires > ?"
        with self._database.reading() as connection:  # whoever waits looks often, and keeps no writer waiting
            row = connection.execute(query, (key, name, time.time())).fetchone()
        if row is None:
            with self._database.writing() as connection:
                now, token = time.time(), token_hex(8)
                row = connection.execute(query, (key, name, now)).fetchone()
                if row is None:
                    connection.execute("DELETE FROM claims WHERE expires <= ?", (now,))
                    connection.execute(
                        "INSERT INTO claims VALUES (?, ?, ?, NULL, ?)", (key, name, token, now + seconds)
                    )
                    return Claimed(token)
        return claimed(row[0])

    def publish(self, key: str, name: str, token: str, text: str, seconds: float) -> None:
        """Put a text in the place of a claim."""
        change = "UPDATE claims SET text = ?, expires = ? WHERE key = ? AND name = ? AND token = ?"
        with self._database.writing() as connection:
            connection.execute(change, (json.dumps(text), time.time() + min(seconds, self._ttl), key, name, token))

    def release(self, key: str, name: str, token: str) -> None:
        """Give a claim back."""
        change = "DELETE FROM claims WHERE key = ? AND name = ? AND token = ? AND text IS NULL"
        with self._database.writing() as connection:
            connection.execute(change, (key, name, token))

    def _use(self, connection: sqlite3.Connection) -> tuple[int, float]:
        """The turn and the end of what is used now; what has expired goes."""
        now = time.time()
        turn: int = connection.execute("SELECT coalesce(max(turn), 0) + 1 FROM entries").fetchone()[0]
        connection.execute("DELETE FROM entries WHERE expires <= ? OR turn <= ?", (now, turn - _MOST))
        connection.execute("DELETE FROM claims WHERE expires <= ?", (now,))
        return turn, now + self._ttl


def _checked(path: Any) -> Path:
    """`path`, absolute: the process may change its folder.  Raises ConfigError."""
    try:
        found = Path(path).absolute()
    except TypeError:
        raise ConfigError(f"path must be the path of a file, not {path!r}") from None
    if found.name == ":memory:":
        raise ConfigError("path must be the path of a file; memory.InProcess() remembers in the process")
    if found.is_dir() or not found.parent.is_dir():
        raise ConfigError(f"path must be the path of a file, in a folder that exists, not {path!r}")
    return found
