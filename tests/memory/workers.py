"""What the tests let other processes do: each is started anew (spawn), knows nothing of the test, and makes its own store."""

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from compacting_client import DropOldest, compacting, control, memory
from compacting_client.core.prefix import Entry, Gap
from compacting_client.memory import database

BUDGET = 400


def entry(number: int, policy: str = "p") -> Entry:
    """Some entry."""
    return Entry(number, str(number), (Gap(0, number),), number, "", policy)


def store_at(place: str) -> Any:
    """The store of a process."""
    return memory.Redis(place) if "://" in place else memory.File(place)


def in_processes(work: Callable[..., Any], calls: Iterable[tuple[Any, ...]], at_once: int = 2) -> list[Any]:
    """What `work` returned for each of the calls, made in other processes."""
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn")) as pool:
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
