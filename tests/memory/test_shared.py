"""Conversations of several processes on one store, with the real SDK against the provider of the tests."""

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from compacting_client import DropOldest, compacting, control, memory
from compacting_client.core.edits import Edits, Shortened
from compacting_client.testing import EventCapture, Provider
from tests.bindings.support import achat, chat, chat_request, history, provider, sent
from tests.memory.servers import RedisServer
from tests.memory.workers import BUDGET, ask, ask_without_room, in_processes

__all__ = ["achat", "chat", "provider"]


def asked(client: Any, messages: list[Any]) -> Any:
    """The report of one request."""
    return control(client).report_for(client.chat.completions.create(**chat_request(messages)))


def longer(messages: list[Any]) -> list[Any]:
    """The history one turn later."""
    return [*messages, {"role": "assistant", "content": "fine"}, {"role": "user", "content": "more"}]


def test_another_process_uses_the_cut(provider: Provider, place: str) -> None:
    """The cut that was decided here holds in a worker that is started later, whose request begins with the same messages."""
    messages = history()
    first = ask(place, provider.openai_url, messages)
    (second,) = in_processes(ask, [(place, provider.openai_url, longer(messages))])
    assert first[0] > 0
    assert first[1:] == ([], [])
    assert second == (first[0], ["cut"], [])
    begun = sent(provider, 0)
    assert sent(provider, 1)[: len(begun)] == begun


def test_a_cut_of_one_client_holds_in_another(
    provider: Provider, chat: openai.OpenAI, opened: Callable[..., Any]
) -> None:
    """Two clients, each with a store of its own at one place; what one forgets, the other has forgotten."""
    one, other = (compacting(chat, DropOldest(BUDGET), memory=opened(), strict=True) for _ in range(2))
    messages = history()
    assert not asked(one, messages).reused
    assert [each.age for each in asked(other, messages).reused] == [1]
    assert [each.age for each in asked(one, messages).reused] == [2]
    control(one).forget(messages)
    assert not asked(other, messages).reused
    control(other).forget()
    assert not asked(one, messages).reused


async def test_async_clients_share_it_too(
    provider: Provider, achat: openai.AsyncOpenAI, opened: Callable[..., Any]
) -> None:
    """Their calls run in threads."""
    messages = history()
    for reused in (0, 1, 1):
        client = compacting(achat, DropOldest(BUDGET), memory=opened(), strict=True)
        response = await client.chat.completions.create(**chat_request(messages))
        report = control(client).report_for(response)
        assert report is not None
        assert len(report.reused) == reused
    assert sent(provider, 0) == sent(provider, 1) == sent(provider, 2)


def shorten(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A policy that shortens tool results and says so."""
    return [
        {**each, "content": "(shortened)"} if each["role"] == "tool" and each["content"] != "(shortened)" else each
        for each in messages
    ]


def test_what_was_shortened_is_kept_too(chat: openai.OpenAI, provider: Provider, opened: Callable[..., Any]) -> None:
    """The texts that a policy put in the place of others come out of the store as they went in."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "result " * 50},
        {"role": "assistant", "content": "so"},
        {"role": "user", "content": "and?"},
    ]
    for reused in (0, 1):
        client = compacting(chat, shorten, memory=opened(), strict=True)
        assert len(asked(client, copy.deepcopy(messages)).reused) == reused
    assert sent(provider, 0)[2]["content"] == sent(provider, 1)[2]["content"] == "(shortened)"
    store = opened()
    (entry,) = [entry for entry, _ in store.recall(control(client)._key(_chat_format(), messages) or "")]
    assert entry.edits == Edits((Shortened(2, 0, "(shortened)"),))


def _chat_format() -> Any:
    from compacting_client.formats import openai_chat

    return openai_chat


@pytest.fixture
def events() -> EventCapture:
    return EventCapture()


def failures(events: EventCapture) -> list[tuple[str, str]]:
    """What the memory could not do, as told since the last time."""
    found = [(event.rules[1], event.instead) for event in events.named("compaction.rejected")]
    events.clear()
    return found


def test_a_server_that_goes_away_costs_events(
    provider: Provider, chat: openai.OpenAI, own_server: RedisServer, events: EventCapture
) -> None:
    """Requests go on, compacted; once it is back, so is the memory."""
    client = compacting(chat, DropOldest(BUDGET), memory=memory.Redis(own_server.url), on_event=events, strict=True)
    messages = history()
    asked(client, messages)
    assert asked(client, messages).reused
    assert failures(events) == []
    own_server.stop()
    report = asked(client, messages)
    assert report.changed
    assert not report.reused
    assert failures(events) == [
        ("ConnectionError", "decided without memory"),
        ("ConnectionError", "nothing remembered"),
    ]
    own_server.start()
    assert not asked(client, messages).reused
    assert asked(client, messages).reused
    assert failures(events) == []


def test_a_broken_file_costs_events(
    provider: Provider, chat: openai.OpenAI, tmp_path: Path, events: EventCapture
) -> None:
    """Requests go on, compacted; once somebody deletes it, the memory is back."""
    path = tmp_path / "memory.db"
    client = compacting(chat, DropOldest(BUDGET), memory=memory.File(path), on_event=events, strict=True)
    messages = history()
    asked(client, messages)
    for each in tmp_path.iterdir():
        each.unlink()
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 8000)
    assert asked(client, messages).changed
    assert [instead for _, instead in failures(events)] == ["decided without memory", "nothing remembered"]
    path.unlink()
    assert not asked(client, messages).reused
    assert asked(client, messages).reused
    assert failures(events) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_full_disk_costs_an_event(provider: Provider, tmp_path: Path) -> None:
    """A process that can write nothing sends its requests all the same, compacted."""
    place, messages = str(tmp_path / "memory.db"), history()
    (rules,) = in_processes(ask_without_room, [(place, provider.openai_url, messages)])
    assert [rule[0] for rule in rules] == ["memory", "memory"]
    assert len(provider.requests) == 1
    assert len(sent(provider)) < len(messages)
