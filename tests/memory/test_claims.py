"""Claims: one has it, the others are told; it ends with its time, with its text, or when it is given back."""

import json
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from compacting_client import memory
from compacting_client.core.claims import UNCLAIMED, Claimed
from tests.memory.servers import RedisServer
from tests.memory.workers import entry

Open = Callable[..., Any]


@pytest.fixture(params=["process", "file", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """`make()`: a store at one place, as each worker has its own; the one of the process is the same each time."""
    if request.param == "process":
        inside = memory.InProcess()
        return lambda **_: inside
    if request.param == "file":
        return lambda **options: memory.File(tmp_path / "memory.db", **options)
    url: str = request.getfixturevalue("server").url
    return lambda **options: memory.Redis(url, **options)


def test_one_of_many_gets_it(make: Open) -> None:
    """Sixteen threads with stores of their own ask at once; another name, and another conversation, are claims of their own."""
    stores = [make() for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda store: store.claim("c", "n", 60), stores))
    assert sum(each.token is not None for each in found) == 1
    assert all(each == Claimed() for each in found if each.token is None)
    assert make().claim("c", "m", 60).token
    assert make().claim("d", "n", 60).token


def test_what_came_out_of_it_is_told(make: Open) -> None:
    """Whatever text it is: lone surrogates, control characters, a text that looks like a claim, an empty one."""
    for number, text in enumerate(["plain", "列車 🎉", "\ud800", "\0\n:", "ab:99999999999999:x", '"', ""]):
        name = str(number)
        token = make().claim("c", name, 60).token
        make().publish("c", name, token, text, 60)
        assert make().claim("c", name, 60) == Claimed(text=text)
        make().release("c", name, token)  # too late
        assert make().claim("c", name, 60) == Claimed(text=text)


def test_a_claim_that_is_given_back_is_free(make: Open) -> None:
    """Only whoever has it can give it back, or publish under it."""
    store = make()
    first = store.claim("c", "n", 60).token
    for stranger in ("0123456789abcdef", ""):
        store.release("c", "n", stranger)
        store.publish("c", "n", stranger, "not mine", 60)
        assert store.claim("c", "n", 60) == Claimed()
    store.release("c", "n", first)
    second = store.claim("c", "n", 60).token
    assert second not in (None, first)
    store.publish("c", "n", first, "too late", 60)
    assert store.claim("c", "n", 60) == Claimed()


def test_a_claim_of_a_dead_worker_ends(make: Open) -> None:
    """And so does a text; others of the conversation stay."""
    store = make()
    assert store.claim("c", "other", 60).token
    store.claim("c", "n", 0.05)
    time.sleep(0.06)
    token = make().claim("c", "n", 60).token
    assert token
    store.publish("c", "n", token, "text", 0.05)
    time.sleep(0.06)
    assert make().claim("c", "n", 60).token
    assert store.claim("c", "other", 60) == Claimed()


def test_they_are_forgotten_with_their_conversation(make: Open) -> None:
    """Text that is published afterwards is not kept."""
    store = make()
    for key in (None, "c"):
        tokens = {name: store.claim("c", name, 60).token for name in "ab"}
        store.publish("c", "a", tokens["a"], "text", 60)
        store.claim("d", "a", 60)
        make().forget(key)
        store.publish("c", "b", tokens["b"], "text", 60)
        assert all(make().claim("c", name, 60).token for name in "ab")
        assert (make().claim("d", "a", 60).token is None) == (key == "c")
        make().forget()


def test_entries_and_claims_do_not_disturb_each_other(make: Open) -> None:
    """Of one conversation, in any order."""
    store = make()
    token = store.claim("c", "n", 60).token
    store.remember("c", entry(1))
    store.publish("c", "n", token, "text", 60)
    for number in range(2, 264):
        store.remember("c", entry(number))
    assert store.claim("c", "n", 60) == Claimed(text="text")
    assert len(store.recall("c")) == 256


def test_the_process_keeps_so_many() -> None:
    """Those that were claimed last, and none that has ended."""
    store = memory.InProcess(max_conversations=3)
    for number in range(5):
        store.claim(str(number), "n", 60)
    assert len(store._claims) == 3
    store.forget()
    store.claim("a", "n", 0.01)
    time.sleep(0.02)
    store.claim("b", "n", 60)
    assert list(store._claims) == [("b", "n")]


def test_the_end_of_the_store_is_that_of_a_text(opened: Open) -> None:
    """What is published for longer than the ttl goes with it."""
    store = opened(ttl=1)
    store.publish("c", "n", store.claim("c", "n", 60).token, "text", 600)
    time.sleep(1.05)
    assert store.claim("c", "n", 60).token


def test_garbage_in_a_server_keeps_nobody_waiting(server: RedisServer) -> None:
    """Values of no form are taken over; a text that is none is made again."""
    store = memory.Redis(server.url)
    ends = str(int(time.time() * 1000) + 60_000)
    values = {
        "none": "\1\2",
        "number": "7",
        "text": f"ab:{ends}:" + "\1",
        "other": f"ab:{ends}:" + json.dumps({"a": 1}),
    }
    server.client.hset("compacting:c/claims", mapping=values)
    assert store.claim("c", "text", 60) == store.claim("c", "other", 60) == UNCLAIMED
    assert store.claim("c", "none", 60).token
    assert store.claim("c", "number", 60).token


def test_the_hash_of_the_claims_goes_with_the_last_of_them(server: RedisServer) -> None:
    """Nothing is left in the server."""
    store: Any = memory.Redis(server.url)
    store.publish("c", "n", store.claim("c", "n", 0.1).token, "text", 0.2)
    assert server.client.keys() == ["compacting:c/claims"]
    time.sleep(0.25)
    assert server.client.keys() == []


def test_a_text_that_has_ended_leaves_the_file(tmp_path: Path) -> None:
    """With the next thing that is written, whatever it is; overwritten, as all that is deleted."""
    store: Any = memory.File(tmp_path / "memory.db")
    for write in (lambda: store.remember("d", entry(1)), lambda: store.claim("d", "n", 60)):
        store.publish("c", "n", store.claim("c", "n", 60).token, "SECRET", 0.05)
        time.sleep(0.06)
        write()
        with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
            assert not connection.execute("SELECT * FROM claims WHERE key = 'c'").fetchall()
