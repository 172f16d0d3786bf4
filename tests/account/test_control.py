"""`control(client)`: policies in force, the last report, captures, forgetting."""

import asyncio
import threading
from contextlib import suppress
from typing import Any

import anthropic
import openai
import pytest

from compacting_client import Control, DropOldest, Report, compacting, control, is_compacting, memory
from compacting_client.errors import ConfigError
from compacting_client.testing import EventCapture, Provider
from tests.bindings.support import (
    GPT,
    POLICY,
    chat_request,
    claude_request,
    history,
    is_compacted,
    report_of,
    sent,
)


def test_the_policy_in_force(chat: openai.OpenAI) -> None:
    """As given, the number as DropOldest, `False` as None."""
    assert control(compacting(chat, POLICY)).policy is POLICY
    assert control(compacting(chat, 500)).policy == DropOldest(500)
    assert control(compacting(chat, False)).policy is None
    assert type(control(compacting(chat, 500))) is Control


def test_using_another_policy_for_a_while(provider: Provider, chat: openai.OpenAI) -> None:
    """`using` holds inside, for derived clients too, nests, ends with an error, and does not touch other clients."""
    client, other = compacting(chat, POLICY), compacting(chat, POLICY)
    handle = control(client)
    with handle.using(False):
        assert handle.policy is None
        client.with_options(timeout=30).chat.completions.create(**chat_request())
        assert sent(provider) == history(system=True)
        with handle.using(300):
            assert handle.policy == DropOldest(300)
        assert handle.policy is None
        other.chat.completions.create(**chat_request())
        assert is_compacted(sent(provider), history(system=True))
    with pytest.raises(LookupError), handle.using(False):
        raise LookupError
    assert handle.policy is POLICY
    client.chat.completions.create(**chat_request())
    assert is_compacted(sent(provider), history(system=True))


async def test_using_holds_in_tasks_made_inside_only(provider: Provider, achat: openai.AsyncOpenAI) -> None:
    """A task created inside takes the policy along; one created before does not get it."""
    client = compacting(achat, POLICY)
    go = asyncio.Event()

    async def call(start: asyncio.Event | None = None) -> Report:
        if start is not None:
            await start.wait()
        return report_of(client, await client.chat.completions.create(**chat_request()))

    before = asyncio.create_task(call(go))
    with control(client).using(False):
        inside = asyncio.create_task(call(go))
        go.set()
        assert (await inside).reason == "off"
        assert (await before).policy == "DropOldest"
    assert len(provider.requests) == 2


def test_with_policy_derives_a_client(provider: Provider, chat: openai.OpenAI) -> None:
    """A client of the same type under another policy; both go on; memory is shared, entries are told apart by policy."""
    store = memory.InProcess()
    client = compacting(chat, POLICY, memory=store)
    derived = control(client).with_policy(150)
    assert type(derived) is openai.OpenAI
    assert is_compacting(derived)
    assert (control(client).policy, control(derived).policy) == (POLICY, DropOldest(150))
    reports = [report_of(client, each.chat.completions.create(**chat_request())) for each in (client, derived) * 2]
    assert control(client).last_report is reports[-1]
    assert [len(report.reused) for report in reports] == [0, 0, 1, 1]
    assert len(store) == 1
    assert sent(provider, 0) == sent(provider, 2)
    assert sent(provider, 1) == sent(provider, 3)
    assert len(sent(provider, 1)) < len(sent(provider, 0))


@pytest.mark.parametrize("wrong", [True, "1000", 1.7, 0, [POLICY]])
def test_wrong_policies_are_refused_everywhere(chat: openai.OpenAI, wrong: Any) -> None:
    """`using` and `with_policy` check as `compacting` does, before anything is in force."""
    handle = control(compacting(chat, POLICY))
    with pytest.raises(ConfigError):
        handle.using(wrong)
    with pytest.raises(ConfigError):
        handle.with_policy(wrong)
    assert handle.policy is POLICY


def test_the_last_report_is_that_of_this_thread(chat: openai.OpenAI) -> None:
    """None before the first request; another thread has its own; errors count too."""
    client = compacting(chat, POLICY)
    assert control(client).last_report is None
    response = client.chat.completions.create(**chat_request())
    mine = report_of(client, response)
    others: list[Report | None] = []

    def work() -> None:
        others.append(control(client).last_report)
        client.chat.completions.create(**chat_request(history("other", system=True)))
        others.append(control(client).last_report)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert others[0] is None
    assert others[1] is not None
    assert control(client).last_report is mine
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=GPT, messages=[])
    last = control(client).last_report
    assert last is not None
    assert last.error == "BadRequestError"


async def test_the_last_report_is_that_of_this_task(achat: openai.AsyncOpenAI) -> None:
    """A task sees its own requests; those of tasks that it gathers stay with them."""
    client = compacting(achat, POLICY)

    async def call(word: str) -> bool:
        response = await client.chat.completions.create(**chat_request(history(word, system=True)))
        await asyncio.sleep(0)
        return control(client).last_report is report_of(client, response)

    assert await asyncio.gather(*(call(f"word{n}") for n in range(10))) == [True] * 10
    assert control(client).last_report is None
    assert await call("here")
    assert control(client).last_report is not None


async def test_capture_collects_across_gathered_tasks(achat: openai.AsyncOpenAI) -> None:
    """All reports made inside, those of gathered tasks and of derived clients; none from before, after, or another client."""
    client, other = compacting(achat, POLICY), compacting(achat, POLICY)
    await client.chat.completions.create(**chat_request())
    with control(client).capture() as reports:
        assert reports == []
        responses = await asyncio.gather(
            *(each.chat.completions.create(**chat_request()) for each in (client, client.with_options(timeout=30)) * 5)
        )
        await other.chat.completions.create(**chat_request())
        with control(client).capture() as inner:
            responses.append(await client.chat.completions.create(**chat_request()))
    await client.chat.completions.create(**chat_request())
    assert len(reports) == 11
    assert {id(report) for report in reports} == {id(report_of(client, response)) for response in responses}
    assert inner == reports[-1:]


def test_capture_ends_with_an_error(provider: Provider, chat: openai.OpenAI) -> None:
    """What was made until the error is there, the failed request's report included."""
    client = compacting(chat, POLICY)
    with suppress(openai.BadRequestError), control(client).capture() as reports:
        client.chat.completions.create(**chat_request())
        client.chat.completions.create(model=GPT, messages=[])
    assert [report.error for report in reports] == [None, "BadRequestError"]
    client.chat.completions.create(**chat_request())
    assert len(reports) == 2
    assert len(provider.requests) == 3


def test_forgetting_one_conversation(chat: openai.OpenAI) -> None:
    """`forget(messages)` forgets what opens like these, however it went on, and leaves the others."""
    client = compacting(chat, POLICY)
    one, other = history("one", system=True), history("two", system=True)
    for messages in (one, other):
        client.chat.completions.create(**chat_request(messages))
    control(client).forget(iter(one[:4]))
    reports = [report_of(client, client.chat.completions.create(**chat_request(each))) for each in (one, other)]
    assert [len(report.reused) for report in reports] == [0, 1]


def test_forgetting_all(claude: anthropic.Anthropic) -> None:
    """`forget()` forgets every conversation of the family of clients."""
    client = compacting(claude, POLICY)
    for word in ("one", "two"):
        client.messages.create(**claude_request(history(word)))
    control(client.with_options(timeout=30)).forget()
    for word in ("one", "two"):
        assert report_of(client, client.messages.create(**claude_request(history(word)))).reused == []


def test_forgetting_goes_by_the_memory_key(chat: openai.OpenAI) -> None:
    """Where `memory_key` recognises messages, it names the conversation to be forgotten."""
    client = compacting(chat, POLICY, memory_key=lambda message: message["content"][:2])
    client.chat.completions.create(**chat_request(history("one", system=True)))
    control(client).forget(history("two", system=True))
    assert report_of(client, client.chat.completions.create(**chat_request(history("one", system=True)))).reused == []


def test_what_cannot_be_forgotten(chat: openai.OpenAI, achat: openai.AsyncOpenAI) -> None:
    """What is no list of messages, and what only an async `memory_key` could recognise, is a ConfigError."""

    async def key(message: Any) -> str:
        return str(message)

    for wrong in ([], "text", [1, 2]):
        with pytest.raises(ConfigError, match="messages must be the list that"):
            control(compacting(chat, POLICY)).forget(wrong)
    handle = control(compacting(achat, POLICY, memory_key=key))
    with pytest.raises(ConfigError, match="cannot await memory_key"):
        handle.forget(history())
    handle.forget()


def test_a_handle_is_made_anew_each_time(chat: openai.OpenAI) -> None:
    """`control(client)` holds no state: any two handles of a client say the same."""
    events = EventCapture()
    client = compacting(chat, POLICY, on_event=events)
    client.chat.completions.create(**chat_request())
    assert control(client).last_report is control(client).last_report is not None
