"""What the caller's own functions may do wrong: the request still leaves as the caller wrote it, or in strict, PolicyError is raised."""

import math
import threading
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from compacting_client import (
    BudgetError,
    CompactingError,
    CompactionRejected,
    DropOldest,
    Policy,
    PolicyError,
    compacting,
    control,
    memory,
)
from compacting_client.core.view import Choice
from compacting_client.testing import EventCapture, Provider
from tests.bindings.support import (
    POLICY,
    chat_request,
    history,
    is_compacted,
    params,
    report_of,
    sent,
    tool_history,
)


def raising(_: Any) -> Any:
    raise LookupError("not found")


async def araising(_: Any) -> Any:
    raise LookupError("not found")


async def late(_: Any) -> Any:
    return 1


def awaitable(message: Any) -> Any:
    return late(message)


@dataclass(frozen=True)
class Broken(Policy):
    """A policy whose decision is made by `decide`."""

    decide: Any

    def triggered(self, view: Any) -> bool:
        return True

    def choose(self, view: Any) -> Any:
        return self.decide(view)


def choice(units: Any) -> Any:
    return lambda _: Choice(units, "tokens", 200)


# setting -> (its options, the class of the error that the report names)
BROKEN: dict[str, Any] = {
    "counter raises": ({"counter": raising}, "LookupError"),
    "counter returns NaN": ({"counter": lambda _: math.nan}, "PolicyError"),
    "counter returns infinity": ({"counter": lambda _: math.inf}, "PolicyError"),
    "counter returns text": ({"counter": lambda _: "12"}, "PolicyError"),
    "counter returns None": ({"counter": lambda _: None}, "PolicyError"),
    "counter returns less than 0": ({"counter": lambda _: -1}, "PolicyError"),
    "counter returns a bool": ({"counter": lambda _: True}, "PolicyError"),
    "counter returns something to await": ({"counter": awaitable}, "PolicyError"),
    "pin raises": ({"pin": raising}, "LookupError"),
    "memory_key raises": ({"memory_key": raising}, "LookupError"),
    "memory_key returns None": ({"memory_key": lambda _: None}, "PolicyError"),
    "memory_key returns bytes": ({"memory_key": lambda _: b"key"}, "PolicyError"),
    "policy raises": ({"policy": Broken(raising)}, "LookupError"),
    "policy returns text": ({"policy": Broken(lambda _: "drop all")}, "PolicyError"),
    "policy names units that are not there": ({"policy": Broken(choice(frozenset({10_000})))}, "PolicyError"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_failure_costs_an_event_and_never_the_request(
    provider: Provider, chat: openai.OpenAI, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """The caller's body leaves whole; one event, one error log and one report name the function at fault; nothing is remembered."""
    options: dict[str, Any] = {"policy": POLICY, **BROKEN[name][0]}
    source, error = name.split(maxsplit=1)[0], BROKEN[name][1]
    events, reports, store = EventCapture(), EventCapture(), memory.InProcess()
    client = compacting(chat, on_event=events, on_report=reports, memory=store, **options)
    with caplog.at_level("ERROR", logger="compacting_client"):
        response = client.chat.completions.create(**chat_request())
    assert sent(provider) == history(system=True)
    (rejected,) = events.events
    assert isinstance(rejected, CompactionRejected)
    assert (rejected.rules, rejected.instead) == (("error", source, error), "the request as it came")
    assert [record.getMessage().split()[0] for record in caplog.records] == ["compaction.failed"]
    (report,) = reports.events
    assert report is report_of(client, response)
    assert (report.changed, report.reason, report.error) == (False, f"{source} failed: {error}", None)
    assert (report.fits, report.tokens_before > 400) == (source == "policy", True)  # only POLICY has a budget
    assert report.usage is not None
    assert len(store) == 0


@pytest.mark.parametrize("broken", params(BROKEN))
def test_in_strict_it_is_raised(provider: Provider, chat: openai.OpenAI, broken: Any) -> None:
    """`strict=True`: PolicyError, with the cause behind it; nothing is sent; one report."""
    options: dict[str, Any] = {"policy": POLICY, **broken[0]}
    error = broken[1]
    reports = EventCapture()
    client = compacting(chat, strict=True, on_report=reports, **options)
    with pytest.raises(PolicyError) as raised:
        client.chat.completions.create(**chat_request())
    assert isinstance(raised.value, CompactingError)
    assert error in ("PolicyError", type(raised.value.__cause__).__name__)
    assert "not found" not in str(raised.value)
    assert provider.requests == []
    assert [report.error for report in reports.events] == ["PolicyError"]
    assert control(client).last_report is reports.events[0]


ASYNC_BROKEN: dict[str, Any] = {
    "counter": ({"counter": araising}, "LookupError"),
    "counter returns text": (
        {"counter": lambda message: late(message) if message["role"] == "user" else "x"},
        "PolicyError",
    ),
    "pin": ({"pin": araising}, "LookupError"),
    "memory_key": ({"memory_key": araising}, "LookupError"),
    "memory_key returns a number": ({"memory_key": late}, "PolicyError"),
}


@pytest.mark.parametrize("broken", params(ASYNC_BROKEN))
async def test_async_functions_that_fail(provider: Provider, achat: openai.AsyncOpenAI, broken: Any) -> None:
    """The same on an async client, whose functions are awaited."""
    options, error = broken
    events = EventCapture()
    client = compacting(achat, POLICY, on_event=events, **options)
    await client.chat.completions.create(**chat_request())
    assert sent(provider) == history(system=True)
    assert [(event.rules[0], event.rules[2]) for event in events.of(CompactionRejected)] == [("error", error)]
    with pytest.raises(PolicyError):
        await compacting(achat, POLICY, strict=True, **options).chat.completions.create(**chat_request())
    assert len(provider.requests) == 1


async def test_async_functions_that_work(provider: Provider, achat: openai.AsyncOpenAI) -> None:
    """A counter, a pin and a memory key that are awaited decide as plain ones do."""

    async def counter(message: Any) -> int:
        return len(str(message["content"])) // 4

    async def pin(message: Any) -> bool:
        return message["content"].startswith("2:")

    async def key(message: Any) -> str:
        return str(message["content"])

    plain: Any = {
        "counter": lambda message: len(str(message["content"])) // 4,
        "pin": lambda message: message["content"].startswith("2:"),
        "memory_key": lambda message: str(message["content"]),
    }
    client = compacting(achat, POLICY, counter=counter, pin=pin, memory_key=key)
    first = report_of(client, await client.chat.completions.create(**chat_request()))
    second = report_of(client, await client.chat.completions.create(**chat_request()))
    await compacting(achat, POLICY, **plain).chat.completions.create(**chat_request())
    assert is_compacted(sent(provider, 0), history(system=True))
    assert any(message["content"].startswith("2:") for message in sent(provider, 0))
    assert sent(provider, 0) == sent(provider, 1) == sent(provider, 2)
    assert (first.reused, [item.age for item in second.reused]) == ([], [1])


def test_what_functions_are_shown(chat: openai.OpenAI) -> None:
    """Neutral messages: the system prompt first, the tools to the counter as one system message of their JSON."""
    counted, pinned = [], []

    def counter(message: Any) -> int:
        counted.append(message)
        return 100

    def pin(message: Any) -> None:
        pinned.append(message)

    tools = [{"type": "function", "function": {"name": "look_up"}}]
    compacting(chat, POLICY, counter=counter, pin=pin).chat.completions.create(
        **chat_request(tool_history(turns=2), tools=tools)
    )
    assert [message["role"] for message in counted].count("system") == 2
    assert any('"look_up"' in str(message["content"]) for message in counted if message["role"] == "system")
    assert [message["role"] for message in pinned] == ["user", "assistant", "tool", "assistant"] * 2 + ["user"]
    assert pinned[2] == {"role": "tool", "tool_call_id": "call_0", "content": "word result 0 " * 10, "name": "look_up"}
    assert all("name" not in message for message in counted), "the counter is shown what the wire says"


class Down(memory.InProcess):
    """A store that is down for some of its operations."""

    def __init__(self, *operations: str) -> None:
        super().__init__()
        self._operations = operations

    def _check(self, operation: str) -> None:
        if operation in self._operations:
            raise OSError("connection refused")

    def recall(self, key: str) -> Any:
        self._check("recall")
        return super().recall(key)

    def remember(self, key: str, entry: Any, replaces: Any = None) -> None:
        self._check("remember")
        super().remember(key, entry, replaces)

    def reuse(self, key: str, entry: Any) -> None:
        self._check("reuse")
        super().reuse(key, entry)


class Blocking(Down):
    """The same, run in a thread by async clients."""

    blocking = True


DOWN = [("recall",), ("remember",), ("reuse",), ("recall", "remember", "reuse")]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("operations", DOWN)
def test_a_store_that_is_down_costs_the_memory_alone(
    provider: Provider, chat: openai.OpenAI, operations: tuple[str, ...], strict: bool
) -> None:
    """Every request is compacted and answered, in strict too; each failing operation is one event."""
    events = EventCapture()
    client = compacting(chat, POLICY, memory=Down(*operations), on_event=events, strict=strict)
    for _ in range(2):
        client.chat.completions.create(**chat_request())
    assert [request.status for request in provider.requests] == [200, 200]
    assert all(is_compacted(request.body["messages"], history(system=True)) for request in provider.requests)
    failures = [event.rules for event in events.of(CompactionRejected)]
    assert set(failures) == {("memory", "OSError")}
    assert len(failures) == {"recall": 2, "remember": 2, "reuse": 1, "recall remember reuse": 4}[" ".join(operations)]


@pytest.mark.parametrize("kind", [Down, Blocking])
async def test_a_store_that_is_down_on_an_async_client(
    provider: Provider, achat: openai.AsyncOpenAI, kind: Any
) -> None:
    """The same, whether the store's calls run in the loop or in a thread."""
    client = compacting(achat, POLICY, memory=kind("recall", "remember", "reuse"))
    for _ in range(2):
        await client.chat.completions.create(**chat_request())
    assert all(is_compacted(request.body["messages"], history(system=True)) for request in provider.requests)


class Watched(memory.InProcess):
    """Notes whether it is called from the event loop's own thread."""

    def __init__(self, *, blocking: bool) -> None:
        super().__init__()
        self.blocking = blocking
        self.threads: list[threading.Thread] = []

    def recall(self, key: str) -> Any:
        self.threads.append(threading.current_thread())
        return super().recall(key)


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_blocking_store_is_called_from_a_thread(achat: openai.AsyncOpenAI, blocking: bool) -> None:
    """A store that may block does not hold up the loop, one that does not is called at once; what was stored is found."""
    store = Watched(blocking=blocking)
    client = compacting(achat, POLICY, memory=store)
    reports = [report_of(client, await client.chat.completions.create(**chat_request())) for _ in range(2)]
    assert [len(report.reused) for report in reports] == [0, 1]
    assert len(store.threads) == 2
    assert all((thread is threading.current_thread()) is not blocking for thread in store.threads)


def test_a_request_that_does_not_fit(provider: Provider, chat: openai.OpenAI) -> None:
    """`on_unfit`: "send" sends the best, "raise" raises BudgetError that names the sizes and carries the report; nothing is sent."""
    client = compacting(chat, 20, on_unfit="raise")
    with pytest.raises(BudgetError) as error:
        client.chat.completions.create(**chat_request())
    report = error.value.report
    for part in (str(report.tokens_after), str(report.tokens_before), "budget of 20", "nothing was sent"):
        assert part in str(error.value)
    assert (report.fits, report.error) == (False, "BudgetError")
    assert control(client).last_report is report
    assert provider.requests == []
    compacting(chat, 20).chat.completions.create(**chat_request())
    assert len(provider.requests) == 1


async def test_a_request_that_does_not_fit_on_an_async_client(provider: Provider, achat: openai.AsyncOpenAI) -> None:
    """The same, and a stream is refused before it is opened."""
    client: Any = compacting(achat, DropOldest(20), on_unfit="raise")
    for stream in (False, True):
        with pytest.raises(BudgetError):
            await client.chat.completions.create(**chat_request(), stream=stream)
    assert provider.requests == []


def test_a_request_that_fits_is_sent_with_on_unfit_raise(provider: Provider, chat: openai.OpenAI) -> None:
    """`on_unfit="raise"` does nothing where the cut was enough, nothing was to be cut, or the policy is off."""
    for policy in (POLICY, 10_000, False):
        compacting(chat, policy, on_unfit="raise").chat.completions.create(**chat_request())
    assert [request.status for request in provider.requests] == [200] * 3


def test_pins_hold_what_would_go(provider: Provider, chat: openai.OpenAI) -> None:
    """The exchange that a pinned message belongs to stays whole."""
    messages = tool_history()
    client = compacting(
        chat, POLICY, pin=lambda message: message["role"] == "tool" and "result 1" in message["content"]
    )
    client.chat.completions.create(**chat_request(messages))
    arrived = sent(provider)
    assert messages[6] in arrived
    assert messages[7] in arrived
    assert provider.requests[0].refusal is None
    assert len(arrived) < len(messages)
