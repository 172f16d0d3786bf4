"""Blocks that a provider signs or pairs: they leave as they came, or not at all."""

import copy
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from compacting_client import DropOldest, control
from compacting_client.testing import Provider, Thinking, ToolCall
from tests.cases.bench import (
    APIS,
    BINDING,
    CHAT,
    CLAUDE,
    OLDER,
    TARGETS,
    Body,
    Line,
    case,
    covers,
    drop_oldest,
    thoughtless,
)
from tests.cases.neighbours import body_of, earlier, later, turn, twice
from tests.cases.sound import Answers, assert_sound, blocks_of, judged
from tests.shared import judge

MakeLine = Callable[..., Line]
Sweep = Callable[[int], range]
each_api = pytest.mark.parametrize("api", APIS)
each_target = pytest.mark.parametrize("target", TARGETS)
MODES_OF_THINKING = ({"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}, {"type": "disabled"}, None)


# ---------------------------------------------------------------------------------------------- thinking


@covers("057")
@each_target
@each_api
def test_a_large_thinking_message_of_the_open_loop_leaves_byte_for_byte(
    api: str, target: float, line: MakeLine
) -> None:
    """The older pair is what goes; block order, text and signature stay (in chat: `reasoning_content`)."""
    body = body_of("057", api)
    for policy in (case("057")["policy"], {**case("057")["policy"], "max_tokens": 10}):
        trip = line(api, drop_oldest(policy, target)).send(body)
        assert_sound(trip)
        assert trip.kept == [2, 3, 4]
        assert json.dumps(trip.messages[1]) == json.dumps(body["messages"][3])
        if api == CHAT:
            assert not judge().check(api, trip.left, original=body, flavor="deepseek")


def thought(step: int, *, redacted: bool = False) -> list[Body]:
    """One step of a loop, thinking first."""
    hidden = {"type": "redacted_thinking", "data": f"hidden{step}"}
    shown = {"type": "thinking", "thinking": f"Step {step}. " * 9, "signature": f"sig-{step}"}
    call = {"type": "tool_use", "id": f"t{step}", "name": "stock", "input": {"n": step}}
    content = [*([hidden, shown] if redacted else [shown]), call]
    result = {"type": "tool_result", "tool_use_id": f"t{step}", "content": "left " * 20}
    return [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]


@covers("057", "159")
@each_target
@pytest.mark.parametrize("shape", ["plain", "redacted", "first step only"])
@pytest.mark.parametrize("thinking", MODES_OF_THINKING, ids=repr)
@pytest.mark.parametrize("model", [OLDER, BINDING])
def test_thinking_is_whole_wherever_the_cut_falls(
    model: str, thinking: Any, shape: str, target: float, line: MakeLine, sweep: Sweep
) -> None:
    """In the open loop, in turns that are over, and in both; bound to what stood before it, or not."""
    loop = [message for step in range(4) for message in thought(step, redacted=shape == "redacted")]
    if shape == "first step only":
        loop = [loop[0], *map(thoughtless, loop[1:])]
    start: list[Body] = [{"role": "user", "content": "Old. " * 20}, *copy.deepcopy(loop)]
    closed = [*start, *turn("All looked up.", "And the rest?")]
    for messages in (start, closed, [*closed, *thought(7), *thought(8)], [*earlier({"messages": closed})["messages"]]):
        body = {
            "model": model,
            "max_tokens": 2048,
            "messages": messages,
            **({"thinking": thinking} if thinking else {}),
        }
        size = int(line(CLAUDE, 1).size(body))
        for budget in sweep(size):
            trip = line(CLAUDE, DropOldest(budget, keep_tail=1, target=target)).send(body)
            assert_sound(trip)
            assert model == BINDING or not trip.report.replaced
            waits = model == BINDING and thinking == MODES_OF_THINKING[0] and messages[-1]["role"] == "user"
            if waits and messages[-1] in loop:
                assert trip.report.reason == "open thinking loop"


@covers("057")
@pytest.mark.parametrize("binding", [None, {"prefix_mismatch_behavior": "drop_block"}], ids=["strict", "drop_block"])
@pytest.mark.parametrize("kind", ["enabled", "adaptive"])
@pytest.mark.parametrize("model", [OLDER, BINDING])
def test_a_loop_that_thinks_is_never_refused(
    model: str, kind: str, binding: Any, line: MakeLine, provider: Provider
) -> None:
    """A provider that signs its thinking for the conversation it answered takes each request of a long run."""
    body: Body = {"model": model, "max_tokens": 4096, "messages": [{"role": "user", "content": "Count the stock."}]}
    body["thinking"] = {"type": kind, **({"budget_tokens": 1024} if kind == "enabled" else {})}
    body["thinking"] |= {"block_binding": binding} if binding and model == BINDING else {}
    wrapped, history, edits = line(CLAUDE, DropOldest(600)), Answers(), 0
    for question, step in itertools.product(range(3), range(6)):
        provider.reply(Thinking(f"Look at {step}. " * 5), ToolCall("stock", {"n": step}) if step < 5 else "Counted.")
        trip = wrapped.send(body)
        assert_sound(trip, history=history)
        history.append((trip.left, [block.model_dump(exclude_none=True) for block in trip.response.content]))
        edits += trip.report.trigger is not None
        said = {"role": "assistant", "content": history[-1][1]}
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "left " * 30}
            for block in history[-1][1]
            if block["type"] == "tool_use"
        ]
        ask = {"role": "user", "content": results or f"And shelf {question}?"}
        body = {**body, "messages": [*body["messages"], said, ask]}
    assert edits, "nothing was ever cut"


@covers("057")
def test_lost_memory_costs_one_more_try_and_no_error(line: MakeLine, provider: Provider) -> None:
    """Bound thinking behind a forgotten cut is refused once; then all of it goes, and the caller gets an answer."""
    messages: list[Body] = [{"role": "user", "content": "Count. " * 40}]
    body: Body = {"model": BINDING, "max_tokens": 4096, "thinking": {"type": "adaptive"}, "messages": messages}
    wrapped = line(CLAUDE, DropOldest(300, keep_head=0, keep_tail=1))
    for step in range(12):
        provider.reply(Thinking(f"Look at {step}. "), "Counted. " * 12)
        trip = wrapped.send(body)
        said = [block.model_dump(exclude_none=True) for block in trip.response.content]
        body = {
            **body,
            "messages": [*body["messages"], {"role": "assistant", "content": said}, {"role": "user", "content": "On."}],
        }
    control(wrapped.client()).forget()
    last = wrapped.send({**body, "messages": body["messages"][-5:]})
    assert last.statuses[-1] == 200
    assert len(last.statuses) <= 2
    assert last.error is None
    assert "compaction.recovered" in last.events.names or last.statuses == [200]


# ---------------------------------------------------------------------------------------------- nothing empty


@covers("060", "159")
@each_target
@each_api
@pytest.mark.parametrize("id_", ["060", "159"])
def test_nothing_empty_and_nothing_of_thinking_alone_is_left(
    id_: str, api: str, target: float, line: MakeLine, sweep: Sweep
) -> None:
    """Wherever a completed tool sequence stands, it goes as a whole: no message is left without content."""
    for model in (OLDER, BINDING):
        body = body_of(id_, api)
        body = {**body, "model": model, **({"thinking": {"type": "adaptive"}} if api == CLAUDE else {})}
        for placed in (body, later(body), earlier(body), twice(body)):
            size = int(line(api, 1).size(placed))
            for budget in sweep(size):
                assert_sound(line(api, DropOldest(budget, keep_head=0, keep_tail=1, target=target)).send(placed))


SCRAPS: dict[str, list[Body]] = {
    "thinking alone": [{"type": "thinking", "thinking": "Hm.", "signature": "s1"}],
    "thinking and a blank": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s1"},
        {"type": "text", "text": "\n"},
    ],
    "redacted alone": [{"type": "redacted_thinking", "data": "x"}],
    "two thoughts": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s1"},
        {"type": "redacted_thinking", "data": "x"},
    ],
}


@covers("159", "060")
@each_target
@pytest.mark.parametrize("model", [OLDER, BINDING])
@pytest.mark.parametrize("scrap", SCRAPS)
def test_an_answer_of_thinking_alone_leaves_no_empty_message(
    scrap: str, model: str, target: float, line: MakeLine, sweep: Sweep
) -> None:
    """An interrupted answer has nothing else; where its thinking has to go, the message goes too."""
    middle: list[Body] = [{"role": "assistant", "content": SCRAPS[scrap]}, {"role": "user", "content": "Go on."}]
    old = [{"role": "user", "content": "Old. " * 30}, {"role": "assistant", "content": "Old. " * 30}]
    messages = [*old, {"role": "user", "content": "Now."}, *middle, *turn("Done.", "Next?")]
    for listed in (messages, messages[:-2], [*messages[:3], middle[0], *messages[5:]]):
        body = {"model": model, "max_tokens": 99, "messages": listed, "thinking": {"type": "adaptive"}}
        size = int(line(CLAUDE, 1).size(body))
        for budget in sweep(size):
            assert_sound(line(CLAUDE, DropOldest(budget, keep_tail=1, target=target)).send(body))


# ---------------------------------------------------------------------------------------------- server tools


def server(kind: str, answer: str, id_: str) -> tuple[Body, Body]:
    """A call of a server tool and its result."""
    call: Body = {"type": kind, "id": id_, "name": "web_search", "input": {"query": "kites"}}
    result: Body = {"type": answer, "tool_use_id": id_, "content": [{"type": "text", "text": "kite " * 20}]}
    if kind == "mcp_tool_use":
        return {**call, "server_name": "birds"}, {**result, "is_error": False}
    return call, {
        **result,
        "content": [{"type": "web_search_result", "title": "t", "url": "u", "encrypted_content": "ZW5j" * 20}],
    }


@covers("099")
@each_target
def test_a_server_tool_spread_over_a_paused_turn_is_one_unit(target: float, line: MakeLine, sweep: Sweep) -> None:
    """Case 099 at every size and place: each result has its call, `encrypted_content` is unchanged."""
    for body in (body_of("099", CLAUDE), earlier(body_of("099", CLAUDE)), twice(body_of("099", CLAUDE))):
        size = int(line(CLAUDE, 1).size(body))
        for budget in sweep(size):
            for head, tail in ((0, 0), (0, 3), (1, 1)):
                trip = line(CLAUDE, DropOldest(budget, keep_head=head, keep_tail=tail, target=target)).send(body)
                assert_sound(trip)
                assert_server_pairs(trip.messages)


@covers("099")
@each_target
@pytest.mark.parametrize(
    ("kind", "answer", "id_"),
    [
        ("server_tool_use", "web_search_tool_result", "srvtoolu_1"),
        ("server_tool_use", "code_execution_tool_result", "srvtoolu_2"),
        ("mcp_tool_use", "mcp_tool_result", "mcptoolu_1"),
    ],
)
@pytest.mark.parametrize("apart", [0, 1, 2])
def test_every_kind_of_server_tool_stays_with_its_result(
    kind: str, answer: str, id_: str, apart: int, target: float, line: MakeLine, sweep: Sweep
) -> None:
    """In one message, over two, or with another message of the paused turn between them."""
    call, result = server(kind, answer, id_)
    said: Body = {"type": "text", "text": "Found kites."}
    contents = {0: [[call, result, said]], 1: [[call], [result, said]], 2: [[call], [said], [result, said]]}[apart]
    items = [{"role": "assistant", "content": content} for content in contents]
    again = json.loads(json.dumps(items).replace("kite", "owl"))
    messages = [{"role": "user", "content": "kites " * 20}, *items, {"role": "user", "content": "owls"}, *again]
    body = {"model": OLDER, "max_tokens": 99, "messages": [*messages, {"role": "user", "content": "compare"}]}
    assert apart == 2 or not judged(CLAUDE, body, body)
    size = int(line(CLAUDE, 1).size(body))
    for budget in sweep(size):
        for head in (0, 1, 2):
            trip = line(CLAUDE, DropOldest(budget, keep_head=head, keep_tail=head, target=target)).send(body)
            assert_sound(trip)
            assert_server_pairs(trip.messages)


@covers("099")
@each_target
def test_calls_made_by_running_code_stay_with_the_code(target: float, line: MakeLine, sweep: Sweep) -> None:
    """Programmatic tool calling: the code, the calls that it makes and their results, and what it returns are one unit."""
    code: Body = {"type": "server_tool_use", "id": "srvtoolu_9", "name": "code_execution", "input": {"code": "look()"}}
    caller = {"type": "code_execution_20250825", "tool_id": "srvtoolu_9"}
    messages: list[Body] = [{"role": "user", "content": "Count."}]
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "look", "input": {"n": n}, "caller": caller} for n in range(3)]
    for n, call in enumerate(calls):
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "seen " * 20}
        messages += [
            {"role": "assistant", "content": [call] if n else [code, call]},
            {"role": "user", "content": [result]},
        ]
    returned = {
        "type": "code_execution_tool_result",
        "tool_use_id": "srvtoolu_9",
        "content": {"type": "x", "stdout": "3"},
    }
    messages += [
        {"role": "assistant", "content": [returned, {"type": "text", "text": "Three."}]},
        *turn("x", "Sure?")[1:],
    ]
    for listed in (messages, [*messages, *turn("Sure. " * 9, "And now?")]):
        body = {"model": OLDER, "max_tokens": 99, "messages": listed, "container": "container_1"}
        for budget in sweep(int(line(CLAUDE, 1).size(body))):
            trip = line(CLAUDE, DropOldest(budget, keep_head=1, keep_tail=1, target=target)).send(body)
            assert_sound(trip)
            assert set(range(1, 8)) <= set(trip.kept) or not set(range(1, 8)) & set(trip.kept)


def assert_server_pairs(messages: list[Body]) -> None:
    """As many results as calls of each id, in whatever message."""
    blocks = [block for message in messages for block in blocks_of(message)]
    calls = [block["id"] for block in blocks if block["type"] in ("server_tool_use", "mcp_tool_use")]
    results = [block["tool_use_id"] for block in blocks if block["type"].endswith("_tool_result")]
    assert sorted(calls) == sorted(results)
