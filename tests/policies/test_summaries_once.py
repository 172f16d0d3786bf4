"""One summary for each prefix, however many requests ask for it at once; whoever waits is not held up for longer than a summary may take."""

import asyncio
import re
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from compacting_client import Summarize, SummaryCreated, SummaryFailed, compacting, control, memory
from compacting_client.core.claims import Claimed
from compacting_client.formats import openai_chat
from compacting_client.testing import EventCapture, Provider
from tests.driving import leave, session
from tests.policies.test_summarize import Messages, Writer, talk
from tests.strategies import to_chat

TEXT = "They spoke of trains."


def told(events: list[Any], kind: type) -> list[Any]:
    """The events of a kind."""
    return [event for event in events if isinstance(event, kind)]


def slow(_: Any) -> str:
    """Takes so long that everybody who asks at the same moment has to wait."""
    time.sleep(0.3)
    return TEXT


def at_once(work: Any, count: int) -> list[Any]:
    """What `work(number)` returned in so many threads that begin together."""
    together = threading.Barrier(count)

    def begin(number: int) -> Any:
        together.wait(30)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def test_threads_with_one_conversation_make_one_summary() -> None:
    """Twelve requests at once: one calls, all send the same; the next request uses what is remembered."""
    writer, events = Writer(slow), list[Any]()
    state = session(Summarize(summarizer=writer), on_event=events.append)
    sent = at_once(lambda _: leave(state, openai_chat, to_chat(talk(20)))[0]["messages"], 12)
    assert len(writer.asked) == 1
    assert len(told(events, SummaryCreated)) == 1
    assert all(each == sent[0] for each in sent)
    assert "They spoke of trains." in sent[0][1]["content"]
    assert leave(state, openai_chat, to_chat(talk(20)))[1].reused
    assert len(writer.asked) == 1


def test_each_prefix_has_its_own() -> None:
    """Requests of different lengths, and forks, do not wait for one another's text."""

    def write(request: Any) -> str:
        time.sleep(0.1)
        return f"of {len(request.messages)} {request.messages[-1]}"[:40]

    writer = Writer(write)
    state = session(Summarize(summarizer=writer))
    histories = [talk(18), talk(19), talk(20)]
    histories[2][3] = {"role": "user", "content": "something else " * 20}
    at_once(lambda number: leave(state, openai_chat, to_chat(histories[number % 3])), 9)
    assert len(writer.asked) == 3
    assert len({request.prompt for request in writer.asked}) == 3


def test_other_settings_have_their_own() -> None:
    """Two summarisers on one store never answer for each other."""
    store, writers = memory.InProcess(), (Writer("of one"), Writer("of the other"))
    texts = [
        leave(session(Summarize(summarizer=writer), memory=store), openai_chat, to_chat(talk(20)))[1].summary
        for writer in writers
    ]
    assert texts == ["of one", "of the other"]


def test_a_request_that_fails_does_not_lose_its_summary() -> None:
    """The provider refused what it was made for: nothing was remembered, and yet the next try calls nobody."""
    writer = Writer()
    state = session(Summarize(summarizer=writer))

    def refuse(_: Any) -> None:
        raise RuntimeError("500")

    with pytest.raises(RuntimeError, match="500"):
        leave(state, openai_chat, to_chat(talk(20)), refuse)
    _, report = leave(state, openai_chat, to_chat(talk(20)))
    assert report.summary == "They spoke of trains."
    assert not report.reused
    assert len(writer.asked) == 1


def test_forgotten_is_forgotten() -> None:
    """The text under a claim too."""
    writer = Writer()
    store = memory.InProcess()
    with Provider() as provider, openai.OpenAI(base_url=provider.openai_url, api_key="k") as inner:
        client: Any = compacting(inner, Summarize(summarizer=writer), memory=store)
        for forget in (None, talk(20), None):
            client.chat.completions.create(model="m", messages=talk(20))
            control(client).forget(forget)
            assert not store._claims
    assert len(writer.asked) == 3


def test_whoever_waits_for_too_long_goes_on_without() -> None:
    """Another worker has the claim and never comes back: the request leaves within the budget, an event says so, the next one tries itself."""
    writer, events, store = Writer(), list[Any](), memory.InProcess()
    policy = Summarize(summarizer=writer, max_messages=None, token_budget=600, keep_recent=4, timeout=0.2)

    class Taken(memory.InProcess):
        """Claims that somebody else has."""

        def claim(self, key: str, name: str, seconds: float) -> Claimed:
            assert seconds >= policy.timeout
            return Claimed()

    state = session(policy, memory=Taken(), on_event=events.append)
    for _ in range(2):
        events.clear()
        _, report = leave(state, openai_chat, to_chat(talk(20)))
        assert report.fits
        assert report.summary is None
        assert [event.error for event in told(events, SummaryFailed)] == ["TimeoutError"]
    assert not writer.asked
    assert leave(session(policy, memory=store), openai_chat, to_chat(talk(20)))[1].summary


def test_the_claim_of_a_dead_worker_is_taken_over() -> None:
    """Whoever comes later finds that it has ended, and makes the summary."""

    class Dead(memory.InProcess):
        """Of a worker that dies: its claims end soon, and it gives nothing back."""

        def claim(self, key: str, name: str, seconds: float) -> Claimed:
            return super().claim(key, name, 0.1)

        def release(self, key: str, name: str, token: str) -> None:
            """Dead already."""

    def die(_: Any) -> str:
        raise KeyboardInterrupt

    writer, store = Writer(die), Dead()
    policy = Summarize(summarizer=writer, timeout=5)
    with pytest.raises(KeyboardInterrupt):
        leave(session(policy, memory=store), openai_chat, to_chat(talk(20)))
    assert len(store._claims) == 1
    writer.answer = TEXT
    assert leave(session(policy, memory=store), openai_chat, to_chat(talk(20)))[1].summary == TEXT
    assert len(writer.asked) == 2


def test_an_interrupt_gives_the_claim_back() -> None:
    """It reaches the caller, and nothing is stored."""

    def interrupted(_: Any) -> str:
        raise KeyboardInterrupt

    store = memory.InProcess()
    with pytest.raises(KeyboardInterrupt):
        leave(session(Summarize(summarizer=interrupted), memory=store), openai_chat, to_chat(talk(20)))
    assert not store._claims
    assert not len(store)


def test_a_failed_summary_holds_nobody_up() -> None:
    """The others are told at once that there is none to wait for, and none of them fails."""

    def fail(_: Any) -> str:
        time.sleep(0.2)
        return ""

    writer, events = Writer(fail), list[Any]()
    policy = Summarize(summarizer=writer, max_messages=None, token_budget=600, keep_recent=4, timeout=60)
    state = session(policy, on_event=events.append)
    reports = at_once(lambda _: leave(state, openai_chat, to_chat(talk(20)))[1], 5)
    assert all(report.fits and report.summary is None for report in reports)
    assert len(writer.asked) == len(told(events, SummaryFailed)) == 1


def test_a_store_without_claims_works_as_it_did() -> None:
    """Four methods are all that a store needs."""

    class Plain:
        """Forwards what every store has."""

        blocking = shared = False

        def __init__(self) -> None:
            inner = memory.InProcess()
            self.recall, self.remember, self.reuse, self.forget = (
                inner.recall,
                inner.remember,
                inner.reuse,
                inner.forget,
            )

    writer = Writer()
    state = session(Summarize(summarizer=writer), memory=Plain())
    for reused in (False, True):
        _, report = leave(state, openai_chat, to_chat(talk(20)))
        assert bool(report.reused) is reused
    assert len(writer.asked) == 1


def test_a_store_of_ones_own_may_keep_claims() -> None:
    """Three methods more, which give and take plain tuples and texts."""

    class Own(memory.InProcess):
        """Says the same in plain tuples."""

        def claim(self, key: str, name: str, seconds: float) -> Any:
            return tuple(super().claim(key, name, seconds))

    writer = Writer(slow)
    state = session(Summarize(summarizer=writer), memory=Own())
    sent = at_once(lambda _: leave(state, openai_chat, to_chat(talk(20)))[0]["messages"], 4)
    assert len(writer.asked) == 1
    assert all(each == sent[0] for each in sent)


@pytest.mark.parametrize("broken", ["claim", "publish", "release", "all"])
def test_a_store_that_fails_costs_an_event(broken: str) -> None:
    """The summary is made and sent all the same; where nothing came of it, the request goes on as it would have."""

    class Broken(memory.InProcess):
        """Cannot do one thing."""

        def __getattribute__(self, name: str) -> Any:
            if name == broken or (broken == "all" and name in ("recall", "remember", "claim", "publish", "release")):
                return self._fail
            return super().__getattribute__(name)

        def _fail(self, *_: Any) -> None:
            raise OSError("down")

    events = EventCapture()
    writer = Writer("" if broken == "release" else "They spoke.")
    state = session(Summarize(summarizer=writer), memory=Broken(), on_event=events)
    _, report = leave(state, openai_chat, to_chat(talk(20)))
    assert bool(report.summary) is (broken != "release")
    failed = [(event.rules, event.instead) for event in events.named("compaction.rejected")]
    assert (("memory", "OSError"), "summarised without a claim") in failed
    assert len(failed) == (3 if broken == "all" else 1)
    assert len(writer.asked) == 1


@pytest.mark.parametrize("kind", ["process", "file"])
async def test_a_cancelled_request_gives_its_claim_back_and_stores_nothing(kind: str, tmp_path: Path) -> None:
    """The next request makes the summary at once, and does not wait for the cancelled one; also where the store is asked in threads."""
    store: Any = memory.InProcess() if kind == "process" else memory.File(tmp_path / "memory.db")
    begun, claims = asyncio.Event(), list[tuple[str, str]]()
    claim = store.claim

    def noted(key: str, name: str, seconds: float) -> Any:
        claims.append((key, name))
        return claim(key, name, seconds)

    store.claim = noted

    async def never(_: Any) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    with Provider() as provider:
        async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k") as inner:
            client: Any = compacting(inner, Summarize(summarizer=never), memory=store)
            task = asyncio.create_task(client.chat.completions.create(model="m", messages=talk(20)))
            await begun.wait()
            assert claim(*claims[0], 60) == Claimed()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert claim(*claims[0], 60).token
        assert not store.recall(claims[0][0])
        assert not provider.requests


def test_a_preview_claims_nothing() -> None:
    """And it stores nothing, nor does it wait for anybody."""
    writer, store = Writer(), memory.InProcess()
    with Provider() as provider, openai.OpenAI(base_url=provider.openai_url, api_key="k") as inner:
        client: Any = compacting(inner, Summarize(summarizer=writer), memory=store)
        for _ in range(2):
            control(client).preview(client.chat.completions.create, model="m", messages=talk(20))
    assert not writer.asked
    assert not store._claims
    assert not len(store)


async def test_a_cancelled_waiter_leaves_the_claim_alone() -> None:
    """Whoever makes the summary goes on."""
    store, writer = memory.InProcess(), Writer(slow)
    with Provider() as provider:
        async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k") as inner:
            client: Any = compacting(inner, Summarize(summarizer=writer), memory=store)
            tasks = [
                asyncio.create_task(client.chat.completions.create(model="m", messages=talk(20))) for _ in range(3)
            ]
            await asyncio.sleep(0.1)
            tasks[1].cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(each, asyncio.CancelledError) for each in done] == [False, True, False]
        assert len(writer.asked) == 1
        assert len(provider.requests) == 2


def conversation(number: int) -> Messages:
    """One of many, with a secret word of its own in every message; every second one begins as others do."""
    secret = f"SECRET-{number:03}"
    return [
        {"role": "user", "content": f"Hi, {secret}" if number % 2 else "Hi"},
        {"role": "assistant", "content": "Hello"},
        *({**message, "content": f"{secret} {message['content']}"} for message in talk(12)[1:]),
    ]


def assert_nothing_crossed(provider: Provider, requests: int) -> None:
    """All requests arrived, and each holds words of one conversation alone."""
    bodies = [str(request.body) for request in provider.requests]
    words = Counter(frozenset(re.findall(r"SECRET-\d{3}", body)) for body in bodies)
    assert len(bodies) == requests
    assert all(len(found) == 1 for found in words)


@pytest.mark.parametrize("kind", ["async function", "plain function", "the wrapped client"])
async def test_500_requests_of_50_conversations_at_once(kind: str) -> None:
    """One summary for each conversation, no cross-talk, no lost update, no recursion, no deadlock; the loop is never blocked."""
    asked: list[str] = []

    async def awaited(request: Any) -> str:
        asked.append(request.prompt)
        await asyncio.sleep(0.01)
        return "in short: " + request.messages[-1]["content"][:10]

    def plain(request: Any) -> str:
        asked.append(request.prompt)
        return "in short: " + request.messages[-1]["content"][:10]

    async def by_client(request: Any) -> str:
        asked.append(request.prompt)
        answer = await client.chat.completions.create(
            model="m", messages=[*conversation_of(request), {"role": "user", "content": request.prompt}]
        )
        return str(answer.choices[0].message.content)

    def conversation_of(request: Any) -> Messages:
        """So long that it would be summarised itself, were it not our own traffic."""
        return conversation(int(request.messages[-1]["content"][7:10]))

    summarizer: Any = {"async function": awaited, "plain function": plain, "the wrapped client": by_client}[kind]
    store, policy = memory.InProcess(), Summarize(summarizer=summarizer, max_messages=20, keep_recent=4, timeout=120)
    inner_calls = 50 if kind == "the wrapped client" else 0
    with Provider(default=lambda request: re.findall(r"SECRET-\d{3}", str(request.body))[0]) as provider:
        async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k", max_retries=5) as inner:
            client: Any = compacting(inner, policy, memory=store, strict=True)
            calls = [
                client.chat.completions.create(model="m", messages=conversation(n % 50), timeout=120)
                for n in range(500)
            ]
            answers = await asyncio.wait_for(asyncio.gather(*calls), 300)
            assert [answer.choices[0].message.content for answer in answers] == [
                f"SECRET-{n % 50:03}" for n in range(500)
            ]
            assert len(asked) == len(set(asked)) == 50
            assert_nothing_crossed(provider, 500 + inner_calls)
            for n, answer in enumerate(answers):
                report = control(client).report_for(answer)
                assert report is not None
                assert f"SECRET-{n % 50:03}" in (report.summary or "")
            known = len(provider.requests)
            again = [client.chat.completions.create(model="m", messages=conversation(n)) for n in range(50)]
            for answer in await asyncio.gather(*again):
                report = control(client).report_for(answer)
                assert report is not None
                assert report.reused
            assert len(asked) == 50
            assert len(provider.requests) == known + 50


async def test_a_model_is_asked_once_for_each_prefix() -> None:
    """Without a function too; the tokens of the question are told where it was asked."""
    events = EventCapture()
    with Provider(default=lambda _: TEXT) as provider:
        async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k", max_retries=5) as inner:
            client: Any = compacting(inner, Summarize(max_messages=20, keep_recent=4), strict=True, on_event=events)
            calls = (client.chat.completions.create(model="m", messages=conversation(n % 4)) for n in range(40))
            reports = [control(client).report_for(answer) for answer in await asyncio.gather(*calls)]
        assert len(provider.requests) == 44
    told = [report for report in reports if report is not None]
    assert [report.summary for report in told] == [TEXT] * 40
    assert sum(report.summary_usage is not None for report in told) == 4
    assert len(events.named("summary.created")) == 4
    assert all(event.input_tokens for event in events.named("summary.created"))


def test_a_wrapped_client_in_threads_as_its_own_summariser() -> None:
    """Sync too: each conversation once, and no lock is held while the summary is made."""
    asked: list[str] = []

    def by_client(request: Any) -> str:
        asked.append(request.prompt)
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": request.prompt}])
        return str(answer.choices[0].message.content)

    with Provider() as provider, openai.OpenAI(base_url=provider.openai_url, api_key="k", max_retries=5) as inner:
        client: Any = compacting(inner, Summarize(summarizer=by_client, timeout=60), strict=True)
        at_once(lambda n: client.chat.completions.create(model="m", messages=conversation(n % 4) + talk(12)[1:]), 24)
        assert len(asked) == len(set(asked)) == 4
        assert len(provider.requests) == 28
