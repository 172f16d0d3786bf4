"""What `File` and `Redis` have in common: they answer as `InProcess` does, and may be shared."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compacting_client import ConfigError, memory
from compacting_client.memory import database
from tests.memory.test_serial import entries
from tests.memory.workers import entry, in_processes, write

keys = st.sampled_from(["a", "b"])
calls = st.lists(
    st.tuples(st.just("remember"), keys, st.integers(0, 4), st.none() | st.integers(0, 4))
    | st.tuples(st.just("reuse"), keys, st.integers(0, 4))
    | st.tuples(st.just("forget"), st.none() | keys),
    max_size=20,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=calls, known=st.lists(entries, min_size=5, max_size=5))
def test_it_answers_as_the_store_in_the_process(opened: Callable[..., Any], calls: list[Any], known: list[Any]) -> None:
    """After any calls, both know the same entries, in the same order, used as often."""
    known = [replace(each, length=number) for number, each in enumerate(known)]
    expected, store, other = memory.InProcess(), opened(), opened()
    store.forget()
    for name, key, *numbers in calls:
        arguments = [known[number] if number is not None else None for number in numbers]
        for each in (expected, store):
            getattr(each, name)(key, *arguments)
    for key in "ab":
        assert other.recall(key) == expected.recall(key)


def test_the_entries_used_last_are_kept(opened: Callable[..., Any]) -> None:
    """256 for one opening; one that is used stays."""
    store = opened()
    for number in range(256):
        store.remember("a", entry(number))
    store.reuse("a", entry(0))
    for number in range(256, 274):
        store.remember("a", entry(number))
    assert [found.length for found, _ in store.recall("a")] == [*range(273, 255, -1), 0, *range(255, 18, -1)]


def test_nothing_is_lost_among_processes(place: str, opened: Callable[..., Any]) -> None:
    """Four processes write into the same conversations at once: every entry is there, each use counted."""
    in_processes(write, [(place, worker, 20) for worker in range(4)], at_once=4)
    for number in range(20):
        found = opened().recall(f"c{number}")
        assert {each.length: uses for each, uses in found} == dict.fromkeys(range(4), 4)


def test_nothing_is_lost_among_threads(opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads begin at once on a store that nobody used before."""
    monkeypatch.setattr(database, "_BUSY", 60)
    store, together = opened(), threading.Barrier(8)

    def work(number: int) -> None:
        together.wait(30)
        for _ in range(10):
            store.remember("a", entry(number))
            store.reuse("a", entry(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert {each.length: uses for each, uses in store.recall("a")} == dict.fromkeys(range(8), 1)


def test_it_says_that_it_is_shared_and_blocks(opened: Callable[..., Any]) -> None:
    """Digests have to be portable, async clients have to use threads."""
    assert (opened().shared, opened().blocking) == (True, True)
    assert isinstance(opened(), memory.Store)


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "9", None])
def test_a_wrong_ttl_is_refused(opened: Callable[..., Any], value: Any) -> None:
    """The error names the field."""
    with pytest.raises(ConfigError, match="ttl"):
        opened(ttl=value)
