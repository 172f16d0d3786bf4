"""What an application holds in its hands: async methods, typed messages, its own lists, sentinels, iterators, wrapped clients."""

import asyncio
import gc
import inspect
import json
import warnings
from collections.abc import Callable
from typing import Any

import openai
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from pydantic import BaseModel

from compacting_client import DropOldest, compacting, control, is_compacting
from compacting_client.testing import EventCapture, Provider, ToolCall
from tests.cases.bench import APIS, CHAT, CLAUDE, MODES, OLDER, Body, Line, covers, method, plain, report_of
from tests.cases.neighbours import body_of, in_api, later
from tests.cases.sound import assert_sound, calls_of

MakeLine = Callable[..., Line]
each_api = pytest.mark.parametrize("api", APIS)
SMALL = DropOldest(60, keep_head=1, keep_tail=2)


def long(api: str) -> Body:
    """A history over every small budget, with an exchange in its middle."""
    return later(body_of("053", api))


# ---------------------------------------------------------------------------------------------- async


@covers("071")
@each_api
@pytest.mark.parametrize("asynchronous", [False, True])
def test_every_method_is_async_where_the_sdks_own_is(api: str, asynchronous: bool, provider: Provider) -> None:
    """`iscoroutinefunction` gives the same answer for a wrapped client as for a plain one."""
    inner = plain(provider, api, asynchronous=asynchronous)
    wrapped = compacting(inner, SMALL)
    paths = ["request", "post", "get", "with_options", "copy", "close"]
    home = "chat.completions" if api == CHAT else "messages"
    paths += [
        f"{home}.{name}" for name in ("create", "stream", "with_raw_response.create", "with_streaming_response.create")
    ]
    for path in paths:
        one, other = (_reach(client, path) for client in (inner, wrapped))
        for asked in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isfunction):
            if asked is not inspect.isfunction:
                assert asked(one) == asked(other), path
        assert inspect.signature(one) == inspect.signature(other), path
    if asynchronous:
        asyncio.run(inner.close())


def _reach(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = getattr(value, name)
    return value


@covers("071")
@each_api
def test_gathered_calls_are_awaited_and_answered(api: str, provider: Provider) -> None:
    """Five calls at once: five SDK responses, no coroutine left over, a report for each."""

    async def five() -> list[Any]:
        async with compacting(plain(provider, api, asynchronous=True), SMALL) as client:
            responses = await asyncio.gather(*(method(client, api)(**long(api)) for _ in range(5)))
            assert all(report_of(client, each).changed for each in responses)
            return responses

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        responses = asyncio.run(five())
        gc.collect()
    assert not [each for each in seen if "never awaited" in str(each.message)]
    assert not any(map(inspect.isawaitable, responses))
    assert {type(each) for each in responses} <= {ChatCompletion, Message}


# ---------------------------------------------------------------------------------------------- typed messages


class Note(BaseModel):
    """An application's own message."""

    role: str
    content: Any


def answered(provider: Provider, api: str, shape: str) -> list[Any]:
    """A question, the SDK's own answer with a call in it, its result, and what comes next."""
    provider.reply("Let me look.", ToolCall("look", {"at": "shelf " * 40}, id="call_1"))
    asked: Body = {"role": "user", "content": "How many? " * 20}
    body = {"model": OLDER, "max_tokens": 99, "messages": [asked]}
    response = method(plain(provider, api), api)(**body)
    question: Any = {"role": "user", "content": "And the others?"}
    if shape == "own model":
        asked, question = Note(**asked), Note(**question)  # type: ignore[assignment]
    if api == CLAUDE:
        said: Any = {"role": "assistant", "content": response.content}
        result: Body = {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "four"}],
        }
        return [asked, said, result, question]
    said = response.choices[0].message
    if shape == "typed calls":
        said = {"role": "assistant", "content": said.content, "tool_calls": said.tool_calls}
    return [asked, said, {"role": "tool", "tool_call_id": "call_1", "content": "four"}, question]


@covers("086")
@pytest.mark.parametrize("shape", ["as returned", "typed calls", "own model"])
@pytest.mark.parametrize("mode", MODES)
@each_api
def test_typed_messages_are_read_like_dicts_and_leave_as_they_are(
    api: str, mode: str, shape: str, line: MakeLine, provider: Provider
) -> None:
    """Under budget the same request as from a plain client; over budget the call's group is found in the objects."""
    messages = answered(provider, api, shape)
    typed = [each for each in messages if isinstance(each, BaseModel)]
    before = [(id(each), each.model_dump()) for each in typed]
    body = {"model": OLDER, "max_tokens": 99, "messages": messages}
    method(plain(provider, api), api)(**body)
    untouched = provider.requests[-1].body["messages"]

    def send(policy: DropOldest) -> tuple[list[Any], Any]:
        trip = line(api, policy, mode).send(body)
        return trip.messages, trip.report

    left, report = send(DropOldest(10**6))
    assert left == untouched
    assert not report.changed
    size = int(report.tokens_before)
    for budget, tail in ((size - 1, 1), (size - 1, 3), (30, 1), (1, 4)):
        left, report = send(DropOldest(budget, keep_head=0, keep_tail=tail))
        assert [message for message in untouched if message in left] == left
        assert left[-1] == untouched[-1]
        assert sum(map(len, map(calls_of, left))) in (0, 1)
        assert (untouched[1] in left) == (untouched[2] in left)
        assert report.changed == (left != untouched)
    assert report.changed, "the group was not found"
    assert before == [(id(each), each.model_dump()) for each in typed]


# ---------------------------------------------------------------------------------------------- wrapping twice


@covers("091")
@pytest.mark.parametrize("way", ["twice", "three times", "derived", "with a policy", "derived and wrapped again"])
@each_api
def test_wrapping_again_replaces_and_never_stacks(api: str, way: str, provider: Provider) -> None:
    """One compaction and one set of events for a request, those of the outermost policy; the inner client keeps its own."""
    inner_events, events, body = EventCapture(), EventCapture(), long(api)
    once = compacting(plain(provider, api), DropOldest(1, keep_tail=1), on_event=inner_events)
    outer = {
        "twice": lambda: compacting(once, SMALL, on_event=events),
        "three times": lambda: compacting(compacting(once, 10), SMALL, on_event=events),
        "derived": lambda: compacting(once.with_options(max_retries=1), SMALL, on_event=events),
        "with a policy": lambda: compacting(control(once).with_policy(5), SMALL, on_event=events),
        "derived and wrapped again": lambda: compacting(
            compacting(once, 7).copy(), SMALL, on_event=events
        ).with_options(),
    }[way]()
    known = len(provider.requests)
    response = method(outer, api)(**body)
    assert len(provider.requests) == known + 1
    assert events.names.count("compaction.applied") == 1
    assert inner_events.names == []
    assert control(outer).policy == SMALL
    assert control(once).policy == DropOldest(1, keep_tail=1)
    assert control(outer).report_for(response) is not None
    assert type(outer) is type(once) is type(plain(provider, api))
    assert not is_compacting(plain(provider, api))
    method(once, api)(**body)
    assert inner_events.names.count("compaction.applied") == 1
    assert events.names.count("compaction.applied") == 1


# ---------------------------------------------------------------------------------------------- features that stand in the way

HELD = "the server holds the history"
FEATURES: dict[str, tuple[str, Body]] = {
    "tools of unknown kind": (CHAT, {"tools": [{"type": "hologram", "name": "h", "defer_loading": True}]}),
    "custom tools": (CHAT, {"tools": [{"type": "custom", "custom": {"name": "c"}}]}),
    "web search": (CHAT, {"web_search_options": {}}),
    "a prediction": (CHAT, {"prediction": {"type": "content", "content": "x"}}),
    "store": (CHAT, {"store": True}),
    "server tools": (CLAUDE, {"tools": [{"type": "web_search_20250305", "name": "web_search", "defer_loading": True}]}),
    "a container": (CLAUDE, {"extra_body": {"container": "container_1"}}),
    "mcp servers": (CLAUDE, {"extra_body": {"mcp_servers": [{"type": "url", "url": "https://x", "name": "x"}]}}),
    "context management": (
        CLAUDE,
        {"extra_body": {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}},
    ),
}


@covers("084")
@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_in_the_request_does_not_switch_compaction_off(feature: str, line: MakeLine) -> None:
    """Whatever else a request holds, its history is compacted, and the rest of it leaves as it came."""
    api, more = FEATURES[feature]
    body = {**long(api), **more}
    trip = line(api, SMALL).send(body)
    extra = body.pop("extra_body", {})
    trip.body = {**body, **extra}
    assert_sound(trip)
    assert trip.report.changed


ALONE: dict[str, tuple[str, str, Body]] = {
    "previous response": (CHAT, "/responses", {"previous_response_id": "resp_1", "input": "word " * 200}),
    "a conversation": (CHAT, "/responses", {"conversation": "conv_1", "input": "word " * 200}),
    "a prompt": (CHAT, "/responses", {"prompt": {"id": "p_1"}, "input": "word " * 200}),
    "plain responses": (CHAT, "/responses", {"input": [{"role": "user", "content": "word " * 200}]}),
    "a continued thread": (CLAUDE, "/v1/messages", {"thread": {"type": "continue", "id": "t"}}),
    "compaction by the server": (
        CLAUDE,
        "/v1/messages",
        {"context_management": {"edits": [{"type": "compact_20260112"}]}},
    ),
    "middle-out": (CHAT, "/chat/completions", {"transforms": ["middle-out"]}),
}


@covers("084")
@pytest.mark.parametrize("why", ALONE)
def test_a_request_that_is_left_alone_says_so(why: str, line: MakeLine, provider: Provider) -> None:
    """No silence: an event with a reason, a report, and the body as it came."""
    api, path, more = ALONE[why]
    body = {**({} if path == "/responses" else in_api(long(api), api, api)), **more}
    wrapped = line(api, SMALL)
    provider.reply("ok")
    known = len(provider.requests)
    try:
        wrapped.client().post(path, body=body, cast_to=object)
    except openai.NotFoundError:
        assert path == "/responses"
    assert provider.requests[known].body == json.loads(json.dumps(body))
    (skipped,) = wrapped.events.events
    assert skipped.name == "compaction.skipped"
    assert skipped.reason
    assert skipped.request_id
    report = control(wrapped.client()).last_report
    assert report is not None
    assert report.reason == skipped.reason
    while provider.pending:
        method(plain(provider, api), api)(model=OLDER, max_tokens=1, messages=[{"role": "user", "content": "x"}])
