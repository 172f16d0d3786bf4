"""The SQLite file of a store: made for its owner alone, opened once by each thread, never used across a fork.

Sources of the rules: https://www.sqlite.org/howtocorrupt.html, https://www.sqlite.org/wal.html, https://www.sqlite.org/pragma.html.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Database"]

_APPLICATION = 0x636D7074  # "cmpt": in the header of the file, so that no other application's database is written to
_BUSY = 2.0  # seconds to wait for another writer; each holds the file for less than a millisecond
_BESIDE = ("-wal", "-shm", "-journal")  # what SQLite puts beside the file

_inherited: list[sqlite3.Connection] = []  # of the parent process: even closing them here could harm it


class _Opened:
    """A connection, the process that made it, and the file that it was made to.  It is closed when this is let go of."""

    __slots__ = ("__weakref__", "connection", "file", "process")

    def __init__(self, connection: sqlite3.Connection, file: tuple[int, int] | None) -> None:
        self.connection, self.file, self.process = connection, file, os.getpid()
        finalize(
            self, _let_go, connection, self.process
        )  # as __del__ it would come after the connection's own, which warns


def _let_go(connection: sqlite3.Connection, process: int) -> None:
    if process == os.getpid():
        connection.close()
    else:
        _inherited.append(connection)


class Database:
    """The file at `path`, whose tables the statements of `layout` make; `version` is the number of that layout.

    Connections are opened when first needed, after an error, and where the file has become another one; they are closed with their thread or
    with this object.  Methods raise sqlite3.Error and OSError.
    """

    def __init__(self, path: Path, layout: str, version: int) -> None:
        self.path = path
        self._layout, self._version = layout, version
        self._of_thread = threading.local()

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection, None, None]:
        """The connection of the calling thread."""
        opened: _Opened | None = getattr(self._of_thread, "opened", None)
        if opened is None or opened.process != os.getpid() or opened.file != _identity(self.path):
            opened = None
            self._of_thread.opened = None  # the old one is closed first
            self._of_thread.opened = opened = self._open()
        try:
            yield opened.connection
        except BaseException:
            opened = None
            self._of_thread.opened = None  # whatever state it is in, an open transaction included
            raise

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection, None, None]:
        """The same in a transaction, which an exception rolls back."""
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    def _open(self) -> _Opened:
        import sqlite3  # some builds of Python have none

        self._make()
        # closed by whichever thread lets go of the store last; otherwise used by the one that opened it
        connection = sqlite3.connect(self.path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = ON")  # what is forgotten is overwritten
            self._check(connection)
            for ending in ("", *_BESIDE):
                with suppress(FileNotFoundError):
                    Path(f"{self.path}{ending}").chmod(0o600)
        except BaseException:
            connection.close()
            raise
        return _Opened(connection, _identity(self.path))

    def _check(self, connection: sqlite3.Connection) -> None:
        """Raises sqlite3.DatabaseError for a database of something else."""
        import sqlite3

        marks = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        if marks != [_APPLICATION, self._version]:
            raise sqlite3.DatabaseError("the file is no store of this version of compacting_client; give another path")

    def _make(self) -> None:
        """Put a finished database in its place where there is none: nobody ever sees half of one, or one that others may read."""
        import sqlite3

        if _filled(self.path):
            return
        with _alone(self.path.parent):
            if _filled(self.path):
                return
            for ending in _BESIDE:  # of a file that was deleted: they would be taken for the new one's
                Path(f"{self.path}{ending}").unlink(missing_ok=True)
            handle, name = tempfile.mkstemp(prefix=f"{self.path.name}.", dir=self.path.parent)  # mode 0600
            os.close(handle)
            try:
                with closing(sqlite3.connect(name, isolation_level=None)) as connection:
                    connection.execute("PRAGMA journal_mode = WAL")
                    marks = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {self._version};"
                    connection.executescript(f"BEGIN; {self._layout}; {marks} COMMIT")
                Path(name).replace(self.path)
            finally:
                Path(name).unlink(missing_ok=True)


def _filled(path: Path) -> bool:
    """Whether there is a file with something in it.  It is not opened: closing it would release SQLite's locks in this process."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    """Tells a file from one that has taken its place."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _alone(folder: Path) -> Generator[None, None, None]:
    """One process and thread at a time.  On Windows, where files in use cannot be deleted or replaced, nobody has to wait."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
