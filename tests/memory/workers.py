"""What the tests let other processes do: each is started anew (spawn), knows nothing of the test, and makes its own store."""

import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from compacting_client import DropOldest, Summarize, compacting, control, memory
from compacting_client.core.prefix import Entry, Gap
from compacting_client.memory import database

BUDGET = 400


class Summed(NamedTuple):
    """What came out of one request with a summary: the text in force, whether it left changed, the names of the events, whether it was reused."""

    summary: str | None
    changed: bool
    events: list[str]
    reused: bool


def entry(number: int, policy: str = "p") -> Entry:
    """Some entry."""
    return Entry(number, str(number), (Gap(0, number),), number, "", policy)


def store_at(place: str) -> Any:
    """The store of a process."""
    return memory.Redis(place) if "://" in place else memory.File(place)


def in_processes(
    work: Callable[..., Any], calls: Iterable[tuple[Any, ...]], at_once: int = 2, start: str = "spawn"
) -> list[Any]:
    """What `work` returned for each of the calls, made in other processes; "forkserver" imports the SDK once for all of them."""
    context: Any = get_context(start)
    if start == "forkserver":
        context.set_forkserver_preload(["openai", __name__])
    with ProcessPoolExecutor(at_once, mp_context=context) as pool:
        return [each.result(120) for each in [pool.submit(work, *call) for call in calls]]


def write(place: str, worker: int, conversations: int) -> None:
    """One entry of its own in each conversation, used four times."""
    database._BUSY = 60  # slow disks of other people's machines are not what is tested
    store = store_at(place)
    for number in range(conversations):
        store.remember(f"c{number}", entry(worker))
        for _ in range(4):
            store.reuse(f"c{number}", entry(worker))


def ask(place: str, url: str, messages: list[dict[str, Any]]) -> tuple[int, list[str], list[Any]]:
    """One request of a wrapped client: how many messages were dropped, what was reused, and the events of the memory."""
    import openai  # the other workers need not wait for it

    events: list[Any] = []
    with openai.OpenAI(base_url=url, api_key="test", max_retries=0) as plain:
        client = compacting(plain, DropOldest(BUDGET), memory=store_at(place), strict=True, on_event=events.append)
        request: Any = {"model": "gpt-5", "messages": messages}
        answer = client.chat.completions.create(**request)
        report = control(client).report_for(answer)
    assert report is not None
    failed = [event.rules for event in events if event.name == "compaction.rejected"]
    return report.messages_before - report.messages_after, [each.kind for each in report.reused], failed


def ask_without_room(place: str, url: str, messages: list[dict[str, Any]]) -> list[Any]:
    """The memory's events of a request whose process may write no byte into any file, as if the disk were full."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    return ask(place, url, messages)[2]


_folder = Path()  # where a worker of the tests of summaries leaves its traces


def write_summary(request: Any) -> str:
    """A summariser that every process knows by the same name.  It leaves a trace, and takes so long that others have to wait."""
    name = f"made-{sha256(request.prompt.encode()).hexdigest()[:16]}-{os.getpid()}"
    (_folder / name).touch()
    while (_folder / "hang").exists():
        time.sleep(0.01)
    time.sleep(0.3)
    return "They spoke of trains."


def summarise(place: str, url: str, folder: Path, together: int, messages: list[Any], timeout: float) -> Summed:
    """One request of a wrapped client, at the same moment as those of the other workers."""
    global _folder  # noqa: PLW0603 - a summariser that processes share is a function of a module
    import openai

    _folder = folder
    events: list[Any] = []
    policy = Summarize(summarizer=write_summary, max_messages=20, keep_recent=4, timeout=timeout)
    with openai.OpenAI(base_url=url, api_key="test", max_retries=0) as plain:
        client: Any = compacting(plain, policy, memory=store_at(place), strict=True, on_event=events.append)
        (folder / f"ready-{os.getpid()}").touch()
        while len(list(folder.glob("ready-*"))) < together:
            time.sleep(0.005)
        report = control(client).report_for(client.chat.completions.create(model="gpt-5", messages=messages))
    assert report is not None
    return Summed(report.summary, report.changed, [event.name for event in events], bool(report.reused))


def summarise_beside(place: str, url: str, folder: Path, together: int, messages: list[Any]) -> Summed:
    """Two requests of a wrapped client, the second one once the summary that the first began in the background is there."""
    global _folder  # noqa: PLW0603 - as above
    import openai

    _folder = folder
    events: list[Any] = []
    policy = Summarize(summarizer=write_summary, max_messages=20, keep_recent=4, timeout=60, background=True)
    with openai.OpenAI(base_url=url, api_key="test", max_retries=0) as plain:
        client: Any = compacting(plain, policy, memory=store_at(place), strict=True, on_event=events.append)
        (folder / f"ready-{os.getpid()}").touch()
        while len(list(folder.glob("ready-*"))) < together:
            time.sleep(0.005)
        client.chat.completions.create(model="gpt-5", messages=messages)
        for thread in threading.enumerate():
            if thread.name == "compacting_client.summarizer":
                thread.join(60)
        report = control(client).report_for(client.chat.completions.create(model="gpt-5", messages=messages))
    assert report is not None
    return Summed(report.summary, report.changed, [event.name for event in events], bool(report.reused))


def summarise_without_room(place: str, url: str, folder: Path, messages: list[Any]) -> Summed:
    """The same in a process that may write no byte into any file."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    return summarise(place, url, folder, 1, messages, 5)
