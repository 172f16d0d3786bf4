"""What is the caller's: lists and dicts that stay as they are, sentinels, iterators."""

import asyncio
import copy
import time
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest

from compacting_client import DropOldest, compacting
from compacting_client.testing import Failure, Provider, Recorded
from tests.cases.bench import APIS, CHAT, CLAUDE, Body, Line, covers, method, plain, report_of
from tests.cases.neighbours import body_of, later

MakeLine = Callable[..., Line]
each_api = pytest.mark.parametrize("api", APIS)
SMALL = DropOldest(60, keep_head=1, keep_tail=2)


def long(api: str) -> Body:
    """A history over every small budget, with an exchange in its middle."""
    return later(body_of("053", api))


def full(api: str) -> Body:
    """A body with nested data in every argument."""
    body = long(api)
    schema = {"type": "object", "properties": {"x": {"enum": ["A", "B"]}}}
    if api == CHAT:
        body["tools"] = [{"type": "function", "function": {"name": "price", "parameters": schema}}]
        return {**body, "metadata": {"run": "1"}, "stop": ["x"]}
    body["tools"] = [{"name": "price", "input_schema": schema, "cache_control": {"type": "ephemeral"}}]
    return {**body, "system": [{"type": "text", "text": "s"}], "stop_sequences": ["x"], "metadata": {"user_id": "1"}}


@covers("096")
@pytest.mark.parametrize("ending", ["success", "refused", "broken", "retried", "a callback interrupts"])
@pytest.mark.parametrize("mode", ["sync", "stream"])
@each_api
def test_the_callers_objects_come_out_as_they_went_in(
    api: str, mode: str, ending: str, line: MakeLine, provider: Provider
) -> None:
    """Deep equal, the same lists with the same elements, however the call ends."""
    body = full(api)
    snapshot, members = copy.deepcopy(body), _members(body)

    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    if ending in ("refused", "broken", "retried"):
        provider.reply(Failure({"refused": 400, "broken": 500, "retried": 500}[ending], retry_after=0))
    options = {"on_drop": interrupt} if ending.startswith("a callback") else {}
    client = line(api, SMALL, **options).client().with_options(max_retries=int(ending == "retried"))
    try:
        response = method(client, api)(**body, **({"stream": True} if mode == "stream" else {}))
        assert ending in ("success", "retried")
        _ = list(response) if mode == "stream" else None
    except (openai.APIStatusError, anthropic.APIStatusError, KeyboardInterrupt):
        assert ending not in ("success", "retried")
    assert body == snapshot
    assert _members(body) == members
    assert provider.pending == 0


def _members(value: Any) -> list[int]:
    """The identity of every list and dict, and of what they hold."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [id(value), *(each for item in inner for each in _members(item))]


@covers("096")
@each_api
def test_a_cancelled_call_leaves_the_callers_objects_alone(api: str, provider: Provider) -> None:
    """The task is cancelled while the provider thinks: it ends cancelled, nothing is changed, and the next call works."""
    body = full(api)
    snapshot, members = copy.deepcopy(body), _members(body)

    def slow(_: Recorded) -> str:
        time.sleep(0.4)
        return "too late"

    async def cancel() -> None:
        async with compacting(plain(provider, api, asynchronous=True), SMALL) as client:
            provider.reply(slow)
            task = asyncio.create_task(method(client, api)(**body))
            await asyncio.sleep(0.15)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            response = await method(client, api)(**body)
            assert report_of(client, response).reused == [], "remembered what no provider accepted"

    asyncio.run(cancel())
    assert body == snapshot
    assert _members(body) == members


# ---------------------------------------------------------------------------------------------- sentinels


def sentinels(api: str) -> Body:
    """Arguments that say: not given."""
    sdk: Any = openai if api == CHAT else anthropic
    absent: Body = {"tools": sdk.NOT_GIVEN, "stream": sdk.NOT_GIVEN, "metadata": sdk.omit, "tool_choice": sdk.omit}
    return {**absent, **({"max_tokens": sdk.omit, "stop": sdk.NOT_GIVEN} if api == CHAT else {"system": sdk.omit})}


@covers("153")
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("api", "place"),
    [(api, place) for api in APIS for place in ("arguments", "extra_body", "a block")],
)
def test_sentinels_count_as_absent_and_are_passed_on(
    api: str, place: str, asynchronous: bool, provider: Provider
) -> None:
    """The same request as from a plain client, and the same figures as without them."""
    base = long(api)
    if api == CLAUDE:
        base.pop("system")
    given: Body = copy.deepcopy(base)
    if place == "arguments":
        given |= {name: value for name, value in sentinels(api).items() if name not in base}
    elif place == "extra_body":
        given["tools"] = full(api)["tools"]
        given["extra_body"] = {"tools": openai.omit if api == CHAT else anthropic.omit}
    else:
        block = {"type": "text", "text": "x", "citations": openai.omit if api == CHAT else anthropic.omit}
        given["messages"][-1] = {"role": "user", "content": [block]}
        base["messages"][-1] = {"role": "user", "content": [{"type": "text", "text": "x"}]}

    async def call(client: Any, body: Body) -> Any:
        response = method(client, api)(**body)
        return await response if asynchronous else response

    async def both(inner: Any) -> None:
        await call(inner, given)
        untouched = provider.requests[-1].body
        await call(compacting(inner, 10**6), given)
        assert provider.requests[-1].body == untouched
        reports = [report_of(client, await call(client, body)) for client, body in _small(inner, given, base)]
        assert reports[0].changed
        figures = ("tokens_before", "tokens_after", "tokens_overhead", "messages_after")
        assert [getattr(reports[0], name) for name in figures] == [getattr(reports[1], name) for name in figures]

    asyncio.run(closing(both, provider, api, asynchronous))


async def closing(function: Callable[..., Any], provider: Provider, api: str, asynchronous: bool) -> Any:
    """What an async function makes of a client, which is closed behind it if it is async."""
    inner = plain(provider, api, asynchronous=asynchronous)
    if not asynchronous:
        return await function(inner)
    async with inner:
        return await function(inner)


def _small(inner: Any, *bodies: Body) -> list[tuple[Any, Body]]:
    return [(compacting(inner, SMALL), body) for body in bodies]


# ---------------------------------------------------------------------------------------------- iterators


@covers("163")
@pytest.mark.parametrize("way", ["method", "post"])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("budget", [10**6, 60])
@each_api
def test_iterators_are_drained_once_and_retried_whole(
    api: str, budget: int, asynchronous: bool, way: str, provider: Provider
) -> None:
    """Messages and tools from generators: all of them arrive, and a retry of the SDK sends the same body."""
    body, policy = full(api), DropOldest(budget, keep_head=1, keep_tail=2)
    expected = compacting(plain(provider, api), policy)
    method(expected, api)(**body)
    wanted = provider.requests[-1].body
    drawn: list[int] = []

    def messages() -> Any:
        for index, message in enumerate(body["messages"]):
            drawn.append(index)
            yield message

    async def call(inner: Any) -> None:
        client = compacting(inner.with_options(max_retries=2), policy)
        lazy = {**body, "messages": messages(), "tools": iter(body["tools"])}
        provider.reply(Failure(500, retry_after=0))
        path = "/chat/completions" if api == CHAT else "/v1/messages"
        made = method(client, api)(**lazy) if way == "method" else client.post(path, body=lazy, cast_to=object)
        _ = await made if asynchronous else made

    known = len(provider.requests)
    asyncio.run(closing(call, provider, api, asynchronous))
    arrived = provider.requests[known:]
    assert [request.status for request in arrived] == [500, 200]
    assert [request.body for request in arrived] == [wanted, wanted]
    assert drawn == list(range(len(body["messages"])))
    assert (len(wanted["messages"]) < len(body["messages"])) == (budget == 60)
