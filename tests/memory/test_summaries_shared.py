"""Workers with one conversation on one store: one summary for each prefix, and whatever happens to a worker or the store, requests go on."""

import asyncio
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import openai
import pytest

from compacting_client import Summarize, compacting, control, memory
from compacting_client.testing import EventCapture, Provider
from tests.bindings.support import chat, provider, sent
from tests.memory.servers import RedisServer
from tests.memory.workers import in_processes, summarise, summarise_beside, summarise_without_room
from tests.policies.test_summarize import Messages, Writer, talk

__all__ = ["chat", "provider"]

TEXT = "They spoke of trains."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the workers leave their traces."""
    found = tmp_path / "traces"
    found.mkdir()
    return found


def made(folder: Path) -> list[str]:
    """The prefixes that were summarised, once for each call."""
    return [file.name.split("-")[1] for file in folder.glob("made-*")]


def together(place: str, url: str, folder: Path, workers: int, histories: list[Messages]) -> list[Any]:
    """What became of the requests of so many workers, made at one moment."""
    calls = [(place, url, folder, workers, histories[number % len(histories)], 60.0) for number in range(workers)]
    found = in_processes(summarise, calls, workers, "spawn" if sys.platform == "win32" else "forkserver")
    for each in folder.glob("ready-*"):
        each.unlink()
    return found


def test_workers_make_one_summary_for_each_prefix(
    provider: Provider, place: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    """Two processes on a file, twenty on a server: the same conversation at the same moment, one call; all send the same."""
    workers = 20 if "://" in place else 2
    found = together(place, provider.openai_url, folder, workers, [talk(20)])
    assert len(made(folder)) == 1
    assert [each.summary for each in found] == [TEXT] * workers
    assert sum("summary.created" in each.events for each in found) == 1
    assert not any("compaction.rejected" in each.events for each in found)
    assert all(sent(provider, number) == sent(provider, 0) for number in range(workers))


def test_workers_make_one_summary_in_the_background_too(provider: Provider, place: str, folder: Path) -> None:
    """Two processes begin one for the same history: the other waits beside its requests, and is given the text."""
    calls = [(place, provider.openai_url, folder, 2, talk(20))] * 2
    found = in_processes(summarise_beside, calls)
    assert len(made(folder)) == 1
    assert [each.summary for each in found] == [TEXT] * 2
    assert sum("summary.created" in each.events for each in found) == 1
    assert not any("compaction.rejected" in each.events for each in found)


def test_two_conversations_at_once_are_two_summaries(provider: Provider, place: str, folder: Path) -> None:
    """Four workers, two prefixes; what is there already is then used by a worker that starts later."""
    histories = [talk(20), talk(21)]
    together(place, provider.openai_url, folder, 4, histories)
    assert len(made(folder)) == len(set(made(folder))) == 2
    (later,) = in_processes(summarise, [(place, provider.openai_url, folder, 1, histories[0], 60.0)])
    assert (later.summary, later.reused) == (TEXT, True)
    assert len(made(folder)) == 2


async def test_many_tasks_on_a_shared_store_make_one_summary_each(
    provider: Provider, opened: Callable[..., Any]
) -> None:
    """A hundred requests of ten conversations on one client, whose store is asked in threads."""
    asked: list[str] = []

    async def write(request: Any) -> str:
        asked.append(request.prompt)
        await asyncio.sleep(0.1)
        return TEXT

    async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k", max_retries=5) as inner:
        policy = Summarize(summarizer=write, max_messages=20, keep_recent=4, timeout=60)
        client: Any = compacting(inner, policy, memory=opened(), strict=True)
        calls = [
            client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": f"n{n % 10}"}, *talk(20)[2:]]
            )
            for n in range(100)
        ]
        reports = [control(client).report_for(answer) for answer in await asyncio.gather(*calls)]
    assert len(asked) == len(set(asked)) == 10
    assert [report.summary for report in reports if report is not None] == [TEXT] * 100


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="needs a signal that nothing can catch")
def test_a_worker_that_is_killed_while_others_wait(provider: Provider, place: str, folder: Path) -> None:
    """They wait for the end of its claim; then one of them makes the summary, and both have it."""
    (folder / "hang").touch()
    arguments = (place, provider.openai_url, folder, 1, talk(20), 12.0)
    victim = get_context("spawn").Process(target=summarise, args=arguments)
    victim.start()
    while not made(folder):
        time.sleep(0.01)
    with ThreadPoolExecutor(1) as aside:
        waiting = aside.submit(in_processes, summarise, [(*arguments[:5], 60.0)] * 2)
        while len(list(folder.glob("ready-*"))) < 3:
            time.sleep(0.01)
        victim.kill()
        victim.join()
        (folder / "hang").unlink()
        found = waiting.result(60)
    assert len(provider.requests) == 2
    assert [each.summary for each in found] == [TEXT, TEXT]
    assert len(made(folder)) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs a signal that nothing can catch")
def test_a_killed_worker_holds_nobody_up(provider: Provider, place: str, folder: Path) -> None:
    """It dies with the claim in its hands: the others go on, and once the claim has ended one of them makes the summary."""
    (folder / "hang").touch()
    arguments = (place, provider.openai_url, folder, 1, talk(20), 1.5)
    victim = get_context("spawn").Process(target=summarise, args=arguments)
    victim.start()
    while not made(folder):
        time.sleep(0.01)
        assert victim.is_alive()
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    (folder / "hang").unlink()
    known = len(provider.requests)
    found = in_processes(summarise, [arguments] * 2, at_once=2)
    assert len(provider.requests) == known + 2  # whether they took the claim over or went without
    (last,) = in_processes(summarise, [arguments])
    assert last.summary == TEXT
    assert len(made(folder)) == 2
    assert all(each.summary == TEXT or "summary.failed" in each.events for each in found)


def test_a_server_that_goes_away_while_somebody_waits(provider: Provider, own_server: RedisServer) -> None:
    """Whoever waits makes the summary itself, and an event says why; nothing is lost in either request."""
    begun, go_on, events = threading.Event(), threading.Event(), EventCapture()

    def first(_: Any) -> str:
        begun.set()
        assert go_on.wait(30)
        return TEXT

    writer = Writer(lambda _: first(_) if not begun.is_set() else TEXT)
    with openai.OpenAI(base_url=provider.openai_url, api_key="k", max_retries=0) as inner:
        client: Any = compacting(
            inner, Summarize(summarizer=writer, timeout=30), memory=memory.Redis(own_server.url), on_event=events
        )
        threads = [threading.Thread(target=ask, args=(client,)) for _ in range(2)]
        threads[0].start()
        assert begun.wait(30)
        threads[1].start()
        while own_server.client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0) < 5:
            time.sleep(0.01)  # the second one is waiting by then
        own_server.stop()
        threads[1].join(30)
        go_on.set()
        threads[0].join(30)
    assert len(writer.asked) == 2
    assert sent(provider, 0) == sent(provider, 1)
    assert TEXT in sent(provider, 0)[1]["content"]
    assert "summarised without a claim" in [event.instead for event in events.named("compaction.rejected")]


def ask(client: Any, messages: Messages | None = None) -> Any:
    """The report of one request."""
    return control(client).report_for(client.chat.completions.create(model="m", messages=messages or talk(20)))


def stopped(place: str, server: RedisServer | None) -> Any:
    """A store that is not there."""
    if server is None:
        Path(place).mkdir()
        return None
    server.client.config_set("maxclients", 1)
    return lambda: server.client.config_set("maxclients", 10000)


def garbled(place: str, server: RedisServer | None) -> Any:
    """A store that holds nothing but garbage, at every place."""
    if server is None:
        for ending in ("", "-wal", "-shm"):
            Path(place + ending).unlink(missing_ok=True)
        Path(place).write_bytes(b"SQLite format 3\0" + b"\xff" * 8000)
        return None
    for key in list(server.client.scan_iter()):
        server.client.delete(key)
        server.client.set(key, "garbage")
    return None


@pytest.mark.parametrize("breaks", [stopped, garbled])
def test_a_broken_store_costs_events(
    provider: Provider, chat: openai.OpenAI, request: pytest.FixtureRequest, place: str, breaks: Callable[..., Any]
) -> None:
    """A summary is made and sent, and told to be remembered by nobody; as after a failure, it is made again five requests later."""
    server = request.getfixturevalue("server") if "://" in place else None
    writer, events = Writer(TEXT), EventCapture()
    store = memory.Redis(place) if server else memory.File(place)
    client: Any = compacting(chat, Summarize(summarizer=writer), memory=store, on_event=events, strict=True)
    if breaks is garbled:
        ask(client)
        assert len(writer.asked) == 1
        assert not events.named("compaction.rejected")
    mended = breaks(place, server)
    try:
        before = len(writer.asked)
        for number in range(7):
            events.clear()
            made = number in (0, 6)
            assert ask(client).summary == (TEXT if made else None)
            assert len(writer.asked) == before + 1 + number // 6
            failed = [event.instead for event in events.named("compaction.rejected")]
            assert "summarised without a claim" in failed
            assert ("nothing remembered" in failed) is made
    finally:
        if mended:
            mended()


def test_garbage_among_the_values_is_passed_over(
    provider: Provider, chat: openai.OpenAI, request: pytest.FixtureRequest, place: str
) -> None:
    """Rows and fields that are no entry and no claim: the summary is made again, and remembered again."""
    server = request.getfixturevalue("server") if "://" in place else None
    writer, events = Writer(TEXT), EventCapture()
    store = memory.Redis(place) if server else memory.File(place)
    client: Any = compacting(chat, Summarize(summarizer=writer), memory=store, on_event=events, strict=True)
    ask(client)
    if server is not None:
        for key in list(server.client.scan_iter()):
            for name, value in server.client.hgetall(key).items():
                if (
                    name == "turn"
                ):  # a number that is none breaks the conversation until its end, and each request says so
                    continue
                turn = ":".join(value.split(":")[: 2 if key.endswith("/claims") else 3])
                server.client.hset(key, name, f"{turn}:\x01garbage")
    else:
        with closing(sqlite3.connect(place)) as connection, connection:
            connection.execute("UPDATE entries SET entry = x'00ff', uses = 'many'")
            connection.execute("UPDATE claims SET text = x'00ff'")
    assert ask(client).summary == TEXT
    assert len(writer.asked) == 2
    assert ask(client).reused
    assert not events.named("compaction.rejected")


def test_a_full_server_costs_events(provider: Provider, chat: openai.OpenAI, server: RedisServer) -> None:
    """One that evicts nothing refuses the claim: the summary is made and sent without; it is remembered where there is room for that."""
    writer, events = Writer(TEXT), EventCapture()
    client: Any = compacting(chat, Summarize(summarizer=writer), memory=memory.Redis(server.url), on_event=events)
    server.client.config_set("maxmemory-policy", "noeviction")
    server.client.config_set("maxmemory", 1)
    try:
        assert [ask(client).summary for _ in range(2)] == [TEXT, TEXT]
    finally:
        server.client.config_set("maxmemory", 0)
    failed = [(event.rules, event.instead) for event in events.named("compaction.rejected")]
    assert (("memory", "OutOfMemoryError"), "summarised without a claim") in failed
    assert len(provider.requests) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
@pytest.mark.parametrize("filled", ["from the start", "later"])
def test_a_full_disk_costs_events(provider: Provider, tmp_path: Path, folder: Path, filled: str) -> None:
    """A process that can write nothing summarises and sends all the same."""
    place, history = str(tmp_path / "memory.db"), talk(20)
    if filled == "later":
        memory.File(place).recall("a")
    (found,) = in_processes(summarise_without_room, [(place, provider.openai_url, folder, history)])
    assert found.summary == TEXT
    assert found.events.count("compaction.rejected") >= 2
    assert TEXT in sent(provider)[1]["content"]
