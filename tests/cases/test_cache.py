"""Prompt caches: marks are never added, and what was sent stays the beginning of what is sent next."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from compacting_client import DropOldest
from tests.cases.bench import APIS, CHAT, CLAUDE, OLDER, TARGETS, Body, Line, covers
from tests.cases.neighbours import body_of, earlier, growing, later, twice
from tests.cases.sound import assert_sound, blocks_of, whole

MakeLine = Callable[..., Line]
Sweep = Callable[[int], range]
each_api = pytest.mark.parametrize("api", APIS)
each_target = pytest.mark.parametrize("target", TARGETS)
MARK = {"cache_control": {"type": "ephemeral"}}


def marks(body: Body) -> int:
    """How many cache marks a body has."""
    return json.dumps(body).count('"cache_control"')


@covers("027")
@each_target
@each_api
def test_cache_marks_are_never_added(api: str, target: float, line: MakeLine, sweep: Sweep) -> None:
    """As many as came or fewer, on the blocks that had them; at most four, and in the order of their lives."""
    body = body_of("027", api)
    longer = json.loads(json.dumps(body).replace('"ephemeral"', '"ephemeral", "ttl": "1h"', 2))
    for placed in (body, later(body), earlier(body), longer):
        size = int(line(api, 1).size(placed))
        for budget in (*sweep(size), 60):
            for tail in (0, 3):
                trip = line(api, DropOldest(budget, keep_tail=tail, target=target)).send(placed)
                assert_sound(trip)
                assert marks(trip.left) <= min(marks(placed), 4)
                assert all(message in placed["messages"] for message in trip.messages)


def chats(api: str, turns: int, words: int) -> list[Body]:
    """A long talk; every third question is answered with a tool's help."""
    messages: list[Body] = [{"role": "system", "content": "Be kind."}] if api == CHAT else []
    for n in range(turns):
        messages += [
            {"role": "user", "content": f"{n} " + "ask " * words},
            {"role": "assistant", "content": f"{n} " + "say " * words},
        ]
    return [*messages, {"role": "user", "content": "last"}]


@covers("021", "027")
@pytest.mark.parametrize("change", ["nothing", "a clock in the system prompt", "a mark on the newest message"])
@pytest.mark.parametrize("target", [0.7, 0.5])
@each_api
def test_the_cut_stands_still_until_the_budget_is_reached_again(
    api: str, target: float, change: str, line: MakeLine
) -> None:
    """What was sent is the beginning of what is sent next; fewer than one request in five moves the cut."""
    talk: Body = {"model": OLDER, "max_tokens": 99, "messages": chats(api, 20, 35)}
    wrapped = line(api, DropOldest(1000, keep_head=1, keep_tail=2, target=target))
    before, moved, reused, count = list[Any](), 0, 0, 0
    for count, step in enumerate(growing(talk), 1):
        trip = wrapped.send(changed(step, api, change, count))
        assert_sound(trip)
        sent = [_unmarked(message) for message in trip.messages if message["role"] != "system"]
        stands = sent[: len(before)] == before
        assert stands == (trip.report.trigger is None), "moved below the budget"
        assert trip.report.trigger is None or trip.report.tokens_after <= 1000 * target
        moved, before = moved + (not stands), sent
        reused += bool(trip.report.reused)
    assert 0 < moved < count / 5
    assert reused


def changed(step: Body, api: str, change: str, count: int) -> Body:
    """A request as an application makes it that writes the time into its prompt, or marks its newest message."""
    messages = copy.deepcopy(step["messages"])
    if change.startswith("a mark"):
        messages[-1]["content"] = [{"type": "text", "text": messages[-1]["content"], **MARK}]
    if change.startswith("a clock") and api == CHAT:
        messages[0]["content"] = f"It is {count} o'clock."
    more = {"system": f"It is {count} o'clock."} if change.startswith("a clock") and api == CLAUDE else {}
    return {**step, "messages": messages, **more}


def _unmarked(message: Body) -> Body:
    """A message in one spelling: blocks, without marks."""
    blocks = [{name: value for name, value in block.items() if name not in MARK} for block in blocks_of(message)]
    return {**message, "content": blocks}


@covers("021", "027")
@pytest.mark.parametrize("marked", [False, True])
@each_api
def test_a_tool_loop_does_not_move_the_cut_at_each_step(api: str, marked: bool, line: MakeLine) -> None:
    """The same in a tool loop: the requests come after every tool result, and may bear a mark on the newest."""
    body = body_of("116", api)
    talk = twice(twice(body))
    wrapped = line(api, DropOldest(int(line(api, 1).size(talk) * 0.4), keep_tail=1, target=0.1))
    steps, before, moved = list(growing(talk)), list[Any](), 0
    for step in steps:
        trip = wrapped.send(marked_at_its_end(step) if marked else step)
        assert_sound(trip)
        assert whole(step["messages"], set(trip.kept)) == set(trip.kept)
        sent = [_unmarked(message) for message in trip.messages]
        moved, before = moved + (sent[: len(before)] != before), sent
    assert 0 < moved < len(steps) / 5


def marked_at_its_end(body: Body) -> Body:
    """Cache marks on the last blocks of the last four messages, as caching guides advise."""
    return {**body, "messages": [*body["messages"][:-4], *map(marked_message, body["messages"][-4:])]}


def marked_message(message: Body) -> Body:
    """A message with a mark on its last block; one without content as it is."""
    blocks = [{**block} for block in blocks_of(message)]
    return {**message, "content": [*blocks[:-1], {**blocks[-1], **MARK}]} if blocks else message
