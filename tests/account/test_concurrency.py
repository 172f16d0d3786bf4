"""Many conversations at once on one client: none sees another's history, report or memory (DESIGN 3.10)."""

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import openai
import pytest

from compacting_client import Report, compacting, control
from compacting_client.testing import EventCapture, Provider, Recorded
from tests.bindings.support import POLICY, chat_request, claude_request, history, report_of

WORKERS = 50
WORD = re.compile(r"topic\d+x")


def words(value: Any) -> set[str]:
    """The topics that occur in anything."""
    return set(WORD.findall(str(value)))


def topic(number: int) -> str:
    return f"topic{number}x"


def answer(request: Recorded) -> str:
    """The provider answers with the topics that it was told of."""
    return " ".join(sorted(words(request.body)))


@pytest.fixture
def provider() -> Any:
    with Provider(default=answer) as running:
        yield running


def check(word: str, response_text: str, report: Report, *, reused: bool) -> None:
    """One conversation's response and report are its own."""
    assert response_text == word
    assert report.changed
    assert words(report.dropped) == set()
    assert words([unit.messages for unit in report.dropped]) == {word}
    assert bool(report.reused) is reused


def check_all(provider: Provider, events: EventCapture, reports: list[Report], turns: int) -> None:
    """No body and no event holds two topics; every request has its own report and its own events."""
    assert len(provider.requests) == turns * WORKERS
    for request in provider.requests:
        assert len(words(request.body)) == 1
    for event in events.events:
        assert len(words(getattr(event, "messages", ""))) <= 1
    ids = [report.request_id for report in reports]
    assert len(set(ids)) == turns * WORKERS
    by_request: dict[str, set[str]] = {name: set() for name in ids}
    for event in events.events:
        by_request[event.request_id] |= words(getattr(event, "messages", ""))
    assert all(len(found) <= 1 for found in by_request.values())


def test_threads(provider: Provider, chat: openai.OpenAI) -> None:
    """Fifty threads, two turns each: bodies, responses, reports and memory stay apart; each thread's last report is its own."""
    events = EventCapture()
    client = compacting(chat, POLICY, on_event=events)
    together = threading.Barrier(WORKERS)

    def converse(number: int) -> list[Report]:
        word, reports = topic(number), []
        together.wait(30)
        for turn in range(2):
            messages = history(word, turns=6 + turn, system=True)
            response = client.chat.completions.create(**chat_request(messages))
            report = report_of(client, response)
            check(word, str(response.choices[0].message.content), report, reused=turn > 0)
            assert control(client).last_report is report
            reports.append(report)
        return reports

    with ThreadPoolExecutor(WORKERS) as pool:
        reports = [report for made in pool.map(converse, range(WORKERS)) for report in made]
    check_all(provider, events, reports, turns=2)


async def test_tasks(provider: Provider, aclaude: anthropic.AsyncAnthropic) -> None:
    """Fifty tasks, half of them streamed, with async callbacks and functions that give way to the others at every step."""
    events = EventCapture()

    async def keep(event: Any) -> None:
        await asyncio.sleep(0)
        events(event)

    async def pin(_: Any) -> bool:
        await asyncio.sleep(0)
        return False

    client = compacting(aclaude, POLICY, on_event=keep, pin=pin)

    async def converse(number: int) -> list[Report]:
        word, reports = topic(number), []
        for turn in range(2):
            request = claude_request(history(word, turns=6 + turn))
            if number % 2:
                async with client.messages.stream(**request) as stream:
                    text = await stream.get_final_text()
                report = report_of(client, stream)
            else:
                message: Any = await client.messages.create(**request)
                text, report = message.content[0].text, report_of(client, message)
            check(word, text, report, reused=turn > 0)
            assert control(client).last_report is report
            assert report.usage is not None
            reports.append(report)
        return reports

    with control(client).capture() as captured:
        made = await asyncio.gather(*map(converse, range(WORKERS)))
    reports = [report for each in made for report in each]
    assert {id(report) for report in captured} == {id(report) for report in reports}
    check_all(provider, events, reports, turns=2)


def test_one_conversation_from_many_threads(provider: Provider, chat: openai.OpenAI) -> None:
    """The same history sent at once from many threads leaves as the same body every time, and is remembered once."""
    client = compacting(chat, POLICY)
    client.chat.completions.create(**chat_request(history(topic(0), system=True)))

    def ask(_: int) -> Report:
        return report_of(client, client.chat.completions.create(**chat_request(history(topic(0), system=True))))

    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(ask, range(24)))
    assert len({str(request.body["messages"]) for request in provider.requests}) == 1
    assert all(report.reused for report in reports)
    assert len(control(client)._session.settings.memory.recall(_only_key(client))) == 1


def _only_key(client: Any) -> str:
    store: Any = control(client)._session.settings.memory
    (key,) = store._kept
    return str(key)
