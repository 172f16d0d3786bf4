"""The store in a file: who may read it, how long it keeps things, and what happens to the file under it."""

import gc
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from compacting_client import ConfigError, memory
from compacting_client.core.edits import Edits, Inserted
from compacting_client.core.prefix import Entry
from compacting_client.memory import database
from tests.memory.workers import entry

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions, forks or unlinking of open files")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def lengths(store: Any, key: str = "a") -> list[int]:
    """The entries of a conversation, by their lengths."""
    return [found.length for found, _ in store.recall(key)]


def beside(path: Path) -> dict[str, int]:
    """The files of a store and their modes."""
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}


@contextmanager
def opened(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """The database as another program sees it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@posix
def test_only_its_owner_may_read_it(path: Path) -> None:
    """With any umask, the file and what SQLite puts beside it are made with mode 0600; an existing one gets it."""
    before = os.umask(0)
    try:
        store = memory.File(path)
        assert beside(path) == {}  # made when first needed
        store.remember("a", entry(1))
        assert beside(path) == dict.fromkeys(["memory.db", "memory.db-wal", "memory.db-shm"], 0o600)
        path.chmod(0o644)
        memory.File(path).recall("a")
        assert beside(path)["memory.db"] == 0o600
    finally:
        os.umask(before)


def test_it_outlives_the_object(path: Path) -> None:
    """What one store remembered, a later one knows; the connection is closed with the object, and nothing is left beside the file."""
    store = memory.File(path)
    store.remember("a", entry(1))
    del store
    gc.collect()
    assert set(beside(path)) == {"memory.db"}
    assert lengths(memory.File(str(path))) == [1]


def test_it_is_closed_with_what_holds_it(path: Path) -> None:
    """In a circle of objects, as clients are, too: without a ResourceWarning, which Python 3.13 gives for a connection that is not closed."""
    circle: list[Any] = [memory.File(path)]
    circle[0].remember("a", entry(1))
    circle.append(circle)
    del circle
    gc.collect()
    assert set(beside(path)) == {"memory.db"}


def test_a_thread_takes_its_connection_with_it(path: Path) -> None:
    """Threads that end leave nothing open."""
    store = memory.File(path)
    for _ in range(3):
        thread = threading.Thread(target=store.remember, args=("a", entry(1)))
        thread.start()
        thread.join()
    gc.collect()
    assert set(beside(path)) == {"memory.db"}


def test_an_entry_goes_after_its_last_use(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ttl` seconds after it was remembered or used; a later use does not bring it back, and it is gone from the file."""
    clock = [1000.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    store = memory.File(path, ttl=10)
    store.remember("a", entry(1))
    store.remember("a", entry(2))
    clock[0] += 9
    store.reuse("a", entry(1))
    clock[0] += 1
    assert lengths(store) == [1]
    store.reuse("a", entry(2))
    assert lengths(store) == [1]
    with opened(path) as connection:
        assert connection.execute("SELECT count(*) FROM entries").fetchone() == (1,)
    clock[0] += 9
    assert lengths(store) == []


def test_the_whole_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not among the last uses goes, whatever its conversation."""
    monkeypatch.setattr("compacting_client.memory.file._MOST", 10)
    store = memory.File(path)
    for number in range(20):
        store.remember(f"c{number}", entry(number))
        store.reuse("c0", entry(0))
    with opened(path) as connection:
        assert connection.execute("SELECT count(*) FROM entries").fetchone()[0] <= 10
    assert lengths(store, "c0") == [0]
    assert lengths(store, "c19") == [19]


def test_what_is_forgotten_is_not_in_the_file(path: Path) -> None:
    """Not even as deleted bytes: an entry may hold text of a conversation."""
    texts = {key: f"secret of {key} " * 500 for key in "abc"}
    store = memory.File(path)
    for key, text in texts.items():
        store.remember(key, Entry(1, "d", (), 1, "e", "p", None, Edits((), (Inserted(0, "own", text),))))

    def held() -> set[str]:
        written = b"".join(each.read_bytes() for each in path.parent.iterdir())
        return {key for key in texts if f"secret of {key} ".encode() in written}

    assert held() == {"a", "b", "c"}
    store.forget("a")
    assert held() == {"b", "c"}
    assert len(store.recall("b")) == 1
    store.forget()
    assert held() == set()


FORK = """
import os, sys
from compacting_client import memory
from tests.memory.workers import entry

def lengths():
    return [found.length for found, _ in store.recall("a")]

store = memory.File(sys.argv[1])
store.remember("a", entry(1))
of_parent = store._database._of_thread.opened.connection
child = os.fork()
if child == 0:
    store.remember("a", entry(2))
    assert lengths() == [2, 1]
    assert store._database._of_thread.opened.connection is not of_parent
    of_parent.total_changes  # would raise if it had been closed
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
store.remember("a", entry(3))
assert lengths() == [3, 2, 1]
"""


@posix
def test_a_fork_opens_its_own_connection(path: Path) -> None:
    """Parent and child go on with the same store; the child neither uses nor closes what the parent opened, and its end disturbs nothing."""
    subprocess.run([sys.executable, "-c", FORK, path], cwd=Path(__file__).parents[2], timeout=60, check=True)
    assert lengths(memory.File(path)) == [3, 2, 1]


@posix
@pytest.mark.parametrize("endings", [[""], ["", "-wal", "-shm"]], ids=str)
def test_a_deleted_file_is_made_again(path: Path, endings: list[str]) -> None:
    """Deleted under two stores that use it: both end up in one new, sound file, and what was deleted stays so."""
    one, other = memory.File(path), memory.File(path)
    one.remember("a", entry(1))
    assert lengths(other) == [1]
    for ending in endings:
        Path(f"{path}{ending}").unlink()
    one.remember("a", entry(2))
    other.remember("a", entry(3))  # lets go of the old file, whose name the new one has
    del other
    gc.collect()
    assert lengths(one) == [3, 2]
    with opened(path) as connection:
        assert connection.execute("SELECT count(*) FROM entries").fetchone() == (2,)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_an_empty_file_is_filled(path: Path) -> None:
    """As `tempfile` makes one."""
    path.touch(0o644)
    store = memory.File(path)
    store.remember("a", entry(1))
    assert lengths(store) == [1]


def test_a_file_of_something_else_is_left_alone(path: Path) -> None:
    """Another application's database, or no database at all: an error for each call, and no byte of it changes."""
    with opened(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    text = path.with_name("text.db")
    text.write_text("my notes" * 200, encoding="utf-8")
    for each in (path, text):
        before = each.read_bytes(), each.stat().st_mode
        store = memory.File(each)
        for name, arguments in (("recall", ["a"]), ("remember", ["a", entry(1)]), ("forget", [])):
            with pytest.raises(sqlite3.DatabaseError):
                getattr(store, name)(*arguments)
        assert (each.read_bytes(), each.stat().st_mode) == before


def test_a_later_layout_is_left_alone(path: Path) -> None:
    """A file of a later version of this library is not guessed at."""
    memory.File(path).recall("a")
    with opened(path) as connection:
        connection.execute("PRAGMA user_version = 3")
    with pytest.raises(sqlite3.DatabaseError, match="another path"):
        memory.File(path).recall("a")


def test_it_is_there_again_when_the_lock_is_gone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another program holds locked can be read; writing is an error after a while, and works again later."""
    monkeypatch.setattr(database, "_BUSY", 0.05)
    store = memory.File(path)
    store.remember("a", entry(1))
    with opened(path) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            store.remember("a", entry(2))
        assert lengths(store) == [1]
    store.remember("a", entry(3))
    assert lengths(store) == [3, 1]


def test_entries_of_another_version_are_passed_over(path: Path) -> None:
    """An entry that cannot be read is as if it were not there."""
    store = memory.File(path)
    for number in (1, 2):
        store.remember("a", entry(number))
    with opened(path) as connection:
        connection.execute("""UPDATE entries SET entry = '{"v":9}' WHERE turn = 1""")
    assert lengths(store) == [2]


@pytest.mark.parametrize("wrong", [None, 5, b"memory.db", "", ".", ":memory:", "no/such/folder/memory.db"])
def test_a_wrong_path_is_refused(wrong: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the field; nothing is made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="path"):
        memory.File(wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that changes its folder, as daemons do, goes on with the same file."""
    monkeypatch.chdir(tmp_path)
    store = memory.File("memory.db")
    monkeypatch.chdir("/")
    store.remember("a", entry(1))
    assert (tmp_path / "memory.db").exists()
    assert repr(store) == f"File({str(tmp_path / 'memory.db')!r}, ttl=86400)"
