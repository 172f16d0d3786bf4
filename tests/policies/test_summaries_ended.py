"""Where a summary fails or its request is cancelled: one event, one pause of one conversation, and no claim that holds others up."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from compacting_client import Summarize, compacting, control, memory
from compacting_client.formats import openai_chat
from compacting_client.testing import EventCapture, Provider
from tests.driving import leave, session
from tests.policies.test_summarize import Messages, Writer, talk
from tests.strategies import to_chat
from tests.summaries.conversing import settled

TEXT = "They spoke of trains."


def greeted(name: str, turns: int) -> Messages:
    """A conversation that opens as all others do."""
    opening = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello! How can I help?"}]
    return [*opening, *({**message, "content": f"{name}, {message['content']}"} for message in talk(turns)[1:])]


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("keep_head", [0, 8])
def test_a_failure_pauses_the_conversation_that_it_was_of_and_no_other(background: bool, keep_head: int) -> None:
    """Others that begin with the same messages, or with those that are kept at their head, go on with their summaries."""

    def write(request: Any) -> str:
        if "Ann," in request.prompt:
            raise ValueError
        return TEXT

    writer = Writer(write)
    state = session(Summarize(summarizer=writer, keep_head=keep_head, max_messages=20, background=background))
    samples = [{"role": role, "content": f"sample {n}"} for n in range(3) for role in ("user", "assistant")]
    reports: dict[str, Any] = {}
    for number in range(5):
        for name in ("Ann", "Bob", "Cem"):
            history = greeted(name, 12 + number)
            shown = [*history[:2], *(samples if keep_head else ()), *history[2:]]
            _, reports[name] = leave(state, openai_chat, to_chat(shown))
            settled()
    assert [bool(reports[name].summary) for name in ("Ann", "Bob", "Cem")] == [False, True, True]
    assert sum("Ann," in request.prompt for request in writer.asked) == 1


async def test_a_cancellation_that_comes_as_the_summary_ends_is_none_the_less_one() -> None:
    """In whichever turn of the loop it comes, the request ends with it, and nothing is sent."""
    with Provider() as provider:
        async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k") as inner:
            for turns in range(4):
                begun, text = asyncio.Event(), asyncio.get_running_loop().create_future()

                async def write(_: Any, begun: asyncio.Event = begun, text: asyncio.Future[str] = text) -> str:
                    begun.set()
                    return await text

                client: Any = compacting(inner, Summarize(summarizer=write))
                task = asyncio.create_task(client.chat.completions.create(model="m", messages=talk(20)))
                await begun.wait()
                text.set_result(TEXT)
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        assert not provider.requests


async def test_a_cancelled_request_ends_its_summariser() -> None:
    """And waits until it is over."""
    begun, ended = asyncio.Event(), list[str]()

    async def write(_: Any) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.append("cleaned up")
        return ""

    with Provider() as provider:
        async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k") as inner:
            client: Any = compacting(inner, Summarize(summarizer=write))
            task = asyncio.create_task(client.chat.completions.create(model="m", messages=talk(20)))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ended == ["cleaned up"]


@pytest.mark.parametrize("awaited", [False, True], ids=["plain function", "async function"])
@pytest.mark.parametrize("error", [StopIteration, asyncio.CancelledError, GeneratorExit, RuntimeError])
async def test_whatever_a_summariser_raises_costs_an_event_at_once(awaited: bool, error: type[BaseException]) -> None:
    """A cancellation that nobody asked for too, and what no future can carry: the request leaves, and its time is not waited for."""

    def raises(_: Any) -> str:
        raise error

    async def araises(_: Any) -> str:
        raise error

    events = EventCapture()
    with Provider() as provider:
        async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k") as inner:
            policy = Summarize(summarizer=araises if awaited else raises, timeout=60)
            client: Any = compacting(inner, policy, on_event=events, strict=True)
            await asyncio.wait_for(client.chat.completions.create(model="m", messages=talk(20)), 30)
        assert len(provider.requests) == 1
    (failed,) = events.named("summary.failed")
    expected = "RuntimeError" if awaited and error is StopIteration else error.__name__  # a coroutine cannot raise that
    assert failed.error == expected


@pytest.mark.parametrize("times", [1, 2], ids=["cancelled", "cancelled twice"])
@pytest.mark.parametrize("at", ["claim", "publish"])
async def test_a_request_that_is_cancelled_while_its_store_is_asked_leaves_no_claim(
    at: str, times: int, tmp_path: Path
) -> None:
    """What the thread is given after that is given back, and a text that is made is there for the next request."""
    begun, let, asked = threading.Event(), threading.Event(), list[Any]()

    class Slow(memory.File):
        """Takes its time with one thing."""

        def __getattribute__(self, name: str) -> Any:
            method = super().__getattribute__(name)
            return self._slowly(method) if name == at and not let.is_set() else method

        def _slowly(self, method: Any) -> Any:
            def work(*args: Any) -> Any:
                done = method(*args) if at == "claim" else None
                begun.set()
                assert let.wait(30)
                return done if at == "claim" else method(*args)

            return work

    async def write(request: Any) -> str:
        asked.append(request)
        return TEXT

    with Provider() as provider:
        async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k") as inner:
            policy = Summarize(summarizer=write, timeout=20)
            client: Any = compacting(inner, policy, memory=Slow(tmp_path / "memory.db"), strict=True)
            task = asyncio.create_task(client.chat.completions.create(model="m", messages=talk(20)))
            assert await asyncio.to_thread(begun.wait, 30)
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0.01)
            let.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not provider.requests
            response = await client.chat.completions.create(model="m", messages=talk(20))
            report = control(client).report_for(response)
    assert report is not None
    assert report.summary == TEXT
    assert len(asked) == 1


async def test_a_request_that_is_cancelled_while_its_text_waits_for_a_thread_publishes_it(tmp_path: Path) -> None:
    """The threads of the loop are busy: the next request has the text all the same, and waits for no claim."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    let, made, asked = threading.Event(), asyncio.Event(), list[Any]()

    async def write(request: Any) -> str:
        asked.append(request)
        asyncio.get_running_loop().run_in_executor(None, let.wait, 30)
        made.set()
        return TEXT

    with Provider() as provider:
        async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k") as inner:
            policy = Summarize(summarizer=write, timeout=20)
            client: Any = compacting(inner, policy, memory=memory.File(tmp_path / "memory.db"), strict=True)
            task = asyncio.create_task(client.chat.completions.create(model="m", messages=talk(20)))
            await made.wait()
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.sleep(0.01)
            let.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            await client.chat.completions.create(model="m", messages=talk(20))
            report = control(client).last_report
    assert report is not None
    assert report.summary == TEXT
    assert len(asked) == 1


def test_an_interrupt_while_a_text_is_published_gives_the_claim_back() -> None:
    """As one while it is made."""

    class Interrupted(memory.InProcess):
        """The signal comes while the store is told."""

        def publish(self, key: str, name: str, token: str, text: str, seconds: float) -> None:
            raise KeyboardInterrupt

    store = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        leave(session(Summarize(summarizer=Writer()), memory=store), openai_chat, to_chat(talk(20)))
    assert not store._claims
