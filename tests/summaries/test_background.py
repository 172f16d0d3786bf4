"""`background=True`: a summary is made beside the requests, used from a later one on, and ends with the client."""

import asyncio
import gc
import json
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from compacting_client import Chain, DropOldest, Summarize, compacting, control, memory
from compacting_client.background import Background
from compacting_client.core.effects import Begun, Beside
from compacting_client.formats import openai_chat
from compacting_client.lifecycle import exchange
from compacting_client.session import Session
from compacting_client.settings import Settings
from compacting_client.shell import arun
from compacting_client.summarizers import Attempts, Call
from compacting_client.testing import EventCapture, Provider
from tests.driving import leave, session, size
from tests.strategies import to_chat
from tests.summaries.conversing import SDKS, Sdk, answering, conversing, is_summary_call, messages_of, settled, turn

ROOT = Path(__file__).parents[2]
Messages = list[dict[str, Any]]


def talk(turns: int, name: str = "Ann") -> Messages:
    """So many turns of two messages, about 20 tokens each, and a question."""
    said = [
        [("user", f"{name}: day {n}, " + "wind " * 10), ("assistant", f"FACT-{n} noted, {name}.")] for n in range(turns)
    ]
    pairs = [pair for each in said for pair in each]
    return [{"role": role, "content": text} for role, text in [*pairs, ("user", f"{name}: and now?")]]


class Slow:
    """A summariser that answers when it is let."""

    def __init__(self, answer: Any = "They keep a log.") -> None:
        self.let, self.asked, self.answer = threading.Event(), list[Any](), answer

    def __call__(self, request: Any) -> Any:
        self.asked.append(request)
        assert self.let.wait(10)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def begun(self, times: int = 1) -> int:
        """How often it was asked, once that is so many times: a thread of its own has to come so far."""
        until = time.monotonic() + 10
        while len(self.asked) < times and time.monotonic() < until:
            time.sleep(0.001)
        return len(self.asked)


def test_nobody_waits_and_the_next_request_has_it() -> None:
    """Above 80 % of the limit it is begun; requests leave as they are until it is made; then it is used, though the limit is not reached."""
    slow, events = Slow(), EventCapture()
    state = session(Summarize(summarizer=slow, max_messages=20, keep_recent=4, background=True), on_event=events)
    for turns in (7, 8, 9):  # 15, 17 and 19 messages
        sent, report = leave(state, openai_chat, body := to_chat(talk(turns)))
        assert sent is body
        assert report.reason == ("below trigger" if turns == 7 else "summary under way")
    assert slow.begun() == 1
    assert "summary.created" not in events.names
    slow.let.set()
    settled()
    sent, report = leave(state, openai_chat, to_chat(talk(9)))
    assert report.summary == "They keep a log."
    assert report.trigger == "messages"
    assert len(sent["messages"]) < 10
    shown = str(slow.asked[0].messages)
    assert all(f"FACT-{n} " in shown + str(sent) for n in range(9))
    assert events.names.count("summary.created") == 1
    again, report = leave(state, openai_chat, to_chat(talk(9)))
    assert again["messages"] == sent["messages"]
    assert len(slow.asked) == 1


def test_above_the_limit_the_request_is_cut_for_now_and_no_second_summary_is_begun() -> None:
    """Down to the budget, not remembered.  Where it comes too late to be enough, it is folded into the next; all that was dropped is in one."""
    slow, events = Slow(), EventCapture()
    policy = Summarize(summarizer=slow, max_messages=None, token_budget=500, keep_recent=4, background=True)
    state = session(policy, on_event=events)
    reports = []
    for turns in (10, 14, 20, 30):
        sent, report = leave(state, openai_chat, to_chat(talk(turns)))
        assert size(sent) <= 500
        assert report.fits
        reports.append(report)
    assert {unit.reason for unit in reports[-1].dropped} == {"over the token budget"}
    assert slow.begun() == 1
    assert not {"summary.created", "summary.failed"} & set(events.names)
    slow.let.set()
    settled()
    leave(state, openai_chat, to_chat(talk(30)))
    settled()
    sent, report = leave(state, openai_chat, to_chat(talk(30)))
    assert report.summary == "They keep a log."
    assert report.fits
    assert [request.previous for request in slow.asked] == [None, "They keep a log."]
    shown = [str(request.messages) for request in slow.asked]
    assert not any(f"FACT-{n} " in shown[0] and f"FACT-{n} " in shown[1] for n in range(30))
    assert all(f"FACT-{n} " in shown[0] + shown[1] + str(sent) for n in range(30))


def test_one_that_comes_late_is_used_and_the_rest_is_the_next_ones() -> None:
    """Ten turns came while it was made, more messages than the limit: it stands for what it was made of, and the next one folds it in."""
    slow, events = Slow(), EventCapture()
    state = session(Summarize(summarizer=slow, max_messages=10, keep_recent=3, background=True), on_event=events)
    for _ in range(2):
        assert (
            leave(state, openai_chat, to_chat(talk(6)))[1].reason == "summary under way"
        )  # above the limit, and no budget
    slow.let.set()
    settled()
    sent, report = leave(state, openai_chat, to_chat(talk(16)))
    assert report.summary == "They keep a log."
    assert 10 < len(sent["messages"]) < 31
    leave(state, openai_chat, to_chat(talk(16)))
    settled()
    sent, report = leave(state, openai_chat, to_chat(talk(16)))
    assert len(sent["messages"]) <= 10
    assert [request.previous for request in slow.asked] == [None, "They keep a log."]
    assert "summary.failed" not in events.names


def test_a_failure_beside_the_requests_costs_an_event_and_a_pause() -> None:
    """Told with the next request; five requests go without a new try."""
    slow, events = Slow(RuntimeError("SECRET")), EventCapture()
    slow.let.set()
    policy = Summarize(summarizer=slow, max_messages=20, keep_recent=4, background=True)
    state = session(policy, on_event=events)
    for _ in range(8):
        leave(state, openai_chat, to_chat(talk(9)))
        settled()
    assert [event.error for event in events.named("summary.failed")] == ["RuntimeError"]
    assert len(slow.asked) == 2


def test_a_late_summary_is_given_up() -> None:
    """After `timeout` seconds; the event says so."""
    slow, events = Slow(), EventCapture()
    policy = Summarize(summarizer=slow, max_messages=20, keep_recent=4, background=True, timeout=0.01)
    state = session(policy, on_event=events)
    leave(state, openai_chat, to_chat(talk(9)))
    assert slow.begun() == 1
    threading.Event().wait(0.05)
    leave(state, openai_chat, to_chat(talk(9)))
    assert [event.error for event in events.named("summary.failed")] == ["TimeoutError"]
    slow.let.set()


class Hanging(memory.InProcess):
    """A store whose first claim gets no answer."""

    def __init__(self) -> None:
        super().__init__()
        self.let, self.claims = threading.Event(), 0

    def claim(self, *args: Any, **kwargs: Any) -> Any:
        """As if the network had lost it."""
        self.claims += 1
        if self.claims == 1:
            self.let.wait(20)
        return super().claim(*args, **kwargs)


def test_a_store_that_hangs_costs_one_summary_and_not_all() -> None:
    """Nobody knows what became of the claim: after twice the time it is told as late, and tried again after five requests."""
    store, events = Hanging(), EventCapture()
    writing = lambda _: "They keep a log."  # noqa: E731
    policy = Summarize(summarizer=writing, max_messages=20, keep_recent=4, background=True, timeout=0.05)
    state = session(policy, memory=store, on_event=events)
    for number in range(10):
        leave(state, openai_chat, to_chat(talk(9)))
        threading.Event().wait(1.3 if number == 0 else 0.05)
    store.let.set()
    assert [event.error for event in events.named("summary.failed")] == ["TimeoutError"]
    assert events.named("summary.created")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
async def test_a_task_may_run_before_anybody_knows_it() -> None:
    """Under an eager task factory the summary is begun inside of the call that makes its task."""
    asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009 - unknown to older versions

    async def writes(_: Any) -> str:
        return "They keep a log."

    events = EventCapture()
    policy = Summarize(summarizer=writes, max_messages=20, keep_recent=4, background=True)
    with Provider() as provider:
        inner = openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k")
        client: Any = compacting(inner, policy, on_event=events)
        for _ in range(3):
            await client.chat.completions.create(model="m", messages=talk(9))
            await asyncio.sleep(0.05)
        await inner.close()
    assert events.named("summary.created")
    assert not events.named("summary.failed")


def test_two_clients_on_one_store_make_one_summary() -> None:
    """Begun by both, beside their requests, for the same history: one makes it, the other is given its text, and tells of no summary of its own."""
    store, events = memory.InProcess(), EventCapture()
    slow = Slow()
    policy = Summarize(summarizer=slow, max_messages=20, keep_recent=4, background=True)
    states = [session(policy, memory=store, on_event=events) for _ in range(2)]
    for state in states:
        leave(state, openai_chat, to_chat(talk(9)))
    assert slow.begun() == 1
    slow.let.set()
    settled()
    reports = [leave(state, openai_chat, to_chat(talk(9)))[1] for state in states]
    assert [report.summary for report in reports] == ["They keep a log."] * 2
    assert len(slow.asked) == 1
    assert events.names.count("summary.created") == 1


async def test_a_cancelled_one_gives_its_claim_back() -> None:
    """A client that is closed while it makes a summary leaves it to the next, which does not wait for the end of the claim."""
    store, asked = memory.InProcess(), list[Any]()
    first, second = asyncio.Event(), asyncio.Event()

    async def writes(request: Any) -> str:
        asked.append(request)
        (second if first.is_set() else first).set()
        await asyncio.sleep(60)
        return ""

    policy = Summarize(summarizer=writes, max_messages=20, keep_recent=4, background=True, timeout=300)
    with Provider() as provider:
        for begun in (first, second):
            inner = openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k")
            async with compacting(inner, policy, memory=store) as client:
                await client.chat.completions.create(model="m", messages=talk(9))  # type: ignore[arg-type]
                await asyncio.wait_for(begun.wait(), 10)
    assert len(asked) == 2


def test_another_history_gets_none_of_it() -> None:
    """Conversations that open alike have their own; an edited history is not served with a summary of what it was."""
    slow = Slow()
    state = session(Summarize(summarizer=slow, max_messages=20, keep_recent=4, background=True))
    one, other = talk(9), talk(9)
    other[4] = {"role": "user", "content": "Something else was said here. " + "gale " * 10}
    leave(state, openai_chat, to_chat(one))
    leave(state, openai_chat, to_chat(other))
    assert slow.begun(2) == 2
    slow.let.set()
    settled()
    edited = [*one[:6], {"role": "user", "content": "It was edited here. " * 4}, *one[7:]]
    _, report = leave(state, openai_chat, to_chat(edited))
    assert report.summary is None
    for history, word in ((one, "day 2"), (other, "Something")):
        _, report = leave(state, openai_chat, to_chat(history))
        assert report.summary == "They keep a log."
        assert word in str([request.messages for request in slow.asked])


def test_in_a_chain_the_budget_still_holds() -> None:
    """Nothing is summarised yet: the policy behind it drops."""
    slow = Slow()
    policy = Chain(Summarize(summarizer=slow, max_messages=20, keep_recent=4, background=True), DropOldest(200))
    sent, _ = leave(session(policy), openai_chat, to_chat(talk(30)))
    assert size(sent) <= 200
    assert slow.begun() == 1
    slow.let.set()


def test_a_preview_begins_nothing() -> None:
    """It shows what is sent now."""
    slow = Slow()
    with Provider() as provider, openai.OpenAI(base_url=provider.openai_url, api_key="k") as inner:
        client = compacting(inner, Summarize(summarizer=slow, max_messages=20, background=True))
        control(client).preview(client.chat.completions.create, model="m", messages=talk(12))
    assert not slow.asked


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
def test_a_model_is_asked_beside_the_requests(sdk: Sdk, awaited: bool) -> None:
    """Through each SDK: the request that begins it is answered while the summary is still being written."""
    let = threading.Event()
    written = answering()

    def slowly(request: Any) -> str:
        if is_summary_call(request):
            assert let.wait(10)
        return written(request)

    policy = Summarize(max_messages=12, keep_recent=4, background=True)
    with (
        Provider(default=slowly) as provider,
        conversing(sdk, provider, lambda c: compacting(c, policy), awaited=awaited) as (_, send, pause),
    ):
        history: list[Any] = []
        lengths: list[int] = []
        for number in range(12):
            added = turn(sdk, number)
            send([*history, added[0]])
            sent = [request.body for request in provider.requests if not is_summary_call(request)]
            lengths.append(len(messages_of(sent[-1])))
            history += added
            pause()
            if number == 6:
                let.set()
                while any(is_summary_call(each) and not each.status for each in provider.requests):
                    pause()
                settled()
                for _ in range(20):  # a task has to take the answer in
                    pause()
        assert {request.status for request in provider.requests} == {200}
        assert sum(map(is_summary_call, provider.requests)) >= 1
        assert lengths[:7] == [1, 5, 7, 9, 11, 13, 17]
        assert max(lengths[9:]) < 17
        assert "They keep a ship" in str([request.body for request in provider.requests[-2:]])


@pytest.mark.parametrize("one", [True, False], ids=["one conversation", "all"])
@pytest.mark.parametrize("made", [True, False], ids=["made", "under way"])
@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
def test_what_is_forgotten_is_not_used_when_it_is_made(sdk: Sdk, awaited: bool, made: bool, one: bool) -> None:
    """The summary that was begun before is never in force; the next request begins another one."""
    slow = Slow("SECRET")
    policy = Summarize(summarizer=slow, max_messages=12, keep_recent=4, background=True)
    history = [*(item for number in range(10) for item in turn(sdk, number)), sdk.user("And now?")]
    with (
        Provider() as provider,
        conversing(sdk, provider, lambda c: compacting(c, policy), awaited=awaited) as (client, send, pause),
    ):

        def finish() -> None:
            slow.let.set()
            settled()
            for _ in range(20):
                pause()

        send(history)
        while not slow.asked:
            pause()
        if made:
            finish()
        control(client).forget(history if one else None)
        finish()
        slow.let.clear()
        slow.answer = "known"
        send(history)
        assert "SECRET" not in str(provider.requests[-1].body)
        finish()
        send(history)
        assert "known" in str(provider.requests[-1].body)
        assert len(slow.asked) == 2


@pytest.mark.parametrize("one", [False, True], ids=["all", "one"])
async def test_forgetting_in_a_thread_beside_a_running_loop(tmp_path: Path, one: bool) -> None:
    """As an async client with a store that blocks does: what is under way is cancelled in its own loop, and never used."""
    asked, ended = list[str](), list[str]()
    begun = asyncio.Event()

    async def writes(request: Any) -> str:
        asked.append(request.prompt)
        begun.set()
        try:
            await asyncio.sleep(60 if len(asked) == 1 else 0)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "They keep a log."

    policy = Summarize(summarizer=writes, max_messages=20, keep_recent=4, background=True, timeout=60)
    with Provider() as provider:
        inner = openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k")
        async with compacting(inner, policy, memory=memory.File(tmp_path / "memory.db")) as client:
            call: Any = client.chat.completions.create
            await call(model="m", messages=talk(9))
            await asyncio.wait_for(begun.wait(), 10)
            await asyncio.to_thread(control(client).forget, talk(9) if one else None)
            for _ in range(100):
                if ended:
                    break
                await asyncio.sleep(0.05)
            assert ended == ["cancelled"]
            reports = [control(client).report_for(await call(model="m", messages=talk(9)))]
            assert reports[0] is not None
            assert reports[0].summary is None
    assert len(asked) <= 2


def test_closing_a_sync_client_lets_its_threads_end() -> None:
    """One that is nearly done is over when `close()` returns; one that is not is left to itself."""

    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "compacting_client.summarizer"]

    quick, stuck = Slow(), Slow()
    settled()
    with Provider() as provider:
        for slow, left in ((quick, 0), (stuck, 1)):
            inner = openai.OpenAI(base_url=provider.openai_url, api_key="k")
            client = compacting(inner, Summarize(summarizer=slow, max_messages=20, background=True))
            client.chat.completions.create(model="m", messages=talk(12))  # type: ignore[arg-type]
            assert len(threads()) == 1
            threading.Timer(0.1, quick.let.set).start()
            client.close()
            assert len(threads()) == left
    stuck.let.set()
    settled()


async def test_closing_the_client_cancels_what_is_under_way() -> None:
    """The task is told, and over before `close()` returns; none is left."""
    begun, ended = asyncio.Event(), list[str]()

    async def forever(_: Any) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return ""

    others = asyncio.all_tasks()
    with Provider() as provider:
        inner = openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k")
        policy = Summarize(summarizer=forever, max_messages=20, background=True, timeout=60)
        async with compacting(inner, policy) as client:
            await client.chat.completions.create(model="m", messages=talk(12))  # type: ignore[arg-type]
            await begun.wait()
            assert asyncio.all_tasks() > others
        assert ended == ["cancelled"]
        assert asyncio.all_tasks() == others


async def test_a_client_that_is_dropped_with_a_summary_under_way_warns_of_nothing() -> None:
    """Without `close()`: the task ends with its time or its loop."""
    with Provider() as provider:
        inner = openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k")

        async def forever(_: Any) -> str:
            await asyncio.Event().wait()
            return ""

        policy = Summarize(summarizer=forever, max_messages=20, background=True, timeout=60)
        client = compacting(inner, policy)
        await client.chat.completions.create(model="m", messages=talk(12))  # type: ignore[arg-type]
        await inner.close()
        del client
        gc.collect()


PROGRAM = """
import asyncio, threading
import openai
from compacting_client import Summarize, compacting
from compacting_client.testing import Provider
from tests.summaries.test_background import talk

def blocks(request):
    threading.Event().wait()

async def never(request):
    await asyncio.Event().wait()

async def request(summarizer, provider, close):
    policy = Summarize(summarizer=summarizer, max_messages=20, background=True, timeout=600)
    client = compacting(openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k"), policy)
    await client.chat.completions.create(model="m", messages=talk(12))
    await asyncio.sleep(0)
    if close:
        await client.close()
    return client

def plain(provider):
    policy = Summarize(summarizer=blocks, max_messages=20, background=True, timeout=600)
    client = compacting(openai.OpenAI(base_url=provider.openai_url, api_key="k"), policy)
    client.chat.completions.create(model="m", messages=talk(12))
    return client

def loop_closed(summarizer, provider):
    loop = asyncio.new_event_loop()
    client = loop.run_until_complete(request(summarizer, provider, False))
    loop.close()
    return client

with Provider() as provider:
    kept = {ways}
print("done")
"""
WAYS = {
    "sync clients": ("plain(provider)", "plain(provider).close()"),
    "async clients": (
        "asyncio.run(request(never, provider, False))",
        "asyncio.run(request(blocks, provider, False))",
        "asyncio.run(request(never, provider, True))",
        "loop_closed(never, provider)",
        "loop_closed(blocks, provider)",
        "loop_closed(never, provider) and None",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_end_of_a_loop_and_of_the_process_waits_for_nothing(way: str) -> None:
    """With summarisers that block for ever, closed and not; nothing is warned of or written to stderr."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}
    code = PROGRAM.replace("{ways}", f"[{', '.join(WAYS[way])}]")
    program = [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", "-c", code]
    done = subprocess.run(program, env=environment, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr.decode()) == (0, b"done\n", "")


async def test_conversations_that_open_alike_each_get_their_own() -> None:
    """Thirty at once on one client, all beginning with the same greeting: each is summarised once, and no word of another is sent."""
    asked: list[str] = []

    async def echo(request: Any) -> str:
        asked.append(request.prompt)
        await asyncio.sleep(0.02)
        return " ".join(re.findall(r"SECRET-\d\d", request.prompt)[:1])

    def history(number: int, turns: int) -> Messages:
        pairs = [("user", "Hi"), ("assistant", "Hello! How can I help?")]
        for n in range(turns):
            pairs += [("user", f"SECRET-{number:02}, day {n}: " + "wind " * 9), ("assistant", f"Day {n} noted.")]
        return [{"role": role, "content": text} for role, text in [*pairs, ("user", f"SECRET-{number:02}, and now?")]]

    policy = Summarize(summarizer=echo, max_messages=20, keep_recent=4, background=True)
    with Provider() as provider:
        async with compacting(openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k"), policy) as client:

            async def talk_on(number: int) -> None:
                for turns in (9, 10):
                    await client.chat.completions.create(model="m", messages=history(number, turns))  # type: ignore[arg-type]
                    await asyncio.sleep(0.3)

            await asyncio.gather(*map(talk_on, range(30)))
        bodies = [json.dumps(request.body) for request in provider.requests]
    assert all(len(set(re.findall(r"SECRET-\d\d", body))) == 1 for body in (*bodies, *asked))
    assert len(asked) == 30
    assert sum("earlier_conversation" in body for body in bodies) == 30


@pytest.mark.parametrize("ending", ["cancelled", "closed"])
def test_a_summary_that_ends_with_its_loop_counts_as_failed(ending: str) -> None:
    """An event loop for each request: each loss is told, and the next try is five requests later."""
    asked, events = list[Any](), EventCapture()

    async def never(request: Any) -> str:
        asked.append(request)
        await asyncio.Event().wait()
        return ""

    async def ignored(*_: Any) -> None:
        """What is sent and delivered."""
        await asyncio.sleep(0)

    policy = Summarize(summarizer=never, max_messages=20, keep_recent=4, background=True, timeout=60)
    state = Session(Settings(policy=policy, is_async=True, memory=memory.InProcess(), on_event=events, strict=True))
    for number in range(15):
        loop = asyncio.new_event_loop()
        steps = exchange(state, openai_chat, to_chat(talk(10 + number)))
        loop.run_until_complete(arun(steps, state, ignored, ignored))
        if ending == "cancelled":  # as asyncio.run() ends
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    assert len(asked) == 3
    assert [event.error for event in events.named("summary.failed")] == ["CancelledError", "CancelledError"]


def test_a_conversation_does_not_wait_until_the_summary_of_another_is_begun() -> None:
    """The question for one is long in being written; a request of another leaves meanwhile."""
    inside, let = threading.Event(), threading.Event()
    held = Background()

    def begin() -> Any:
        inside.set()
        assert let.wait(30)
        raise RuntimeError

    def look(name: str) -> None:
        with suppress(RuntimeError):
            held.look(Beside(name, begin if name == "slow" else Begun, lambda *_: False), Call, waiting)  # type: ignore[arg-type]

    waiting = Attempts()
    waiting.failed("quick")
    first, second = (threading.Thread(target=look, args=(name,), daemon=True) for name in ("slow", "quick"))
    first.start()
    assert inside.wait(30)
    second.start()
    second.join(5)
    assert not second.is_alive()
    let.set()
    first.join(30)
