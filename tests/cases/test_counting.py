"""One figure for trigger, cut and report: everything that is sent counts, and pictures by what a model reads of them."""

import copy
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from compacting_client import DropOldest, compact
from tests.cases.bench import (
    APIS,
    CHAT,
    CLAUDE,
    MODES,
    OLDER,
    TARGETS,
    Body,
    Line,
    case,
    covers,
    drop_oldest,
    method,
    weight,
)
from tests.cases.neighbours import body_of, earlier, later, to_claude, turn, twice
from tests.cases.sound import assert_sound, neutral_count, weight_of
from tests.cases.test_every_body import BODIES, DROPPING

MakeLine = Callable[..., Line]
each_api = pytest.mark.parametrize("api", APIS)
each_target = pytest.mark.parametrize("target", TARGETS)
COUNTED = tuple(id_ for id_ in BODIES if id_ != "062")


# ---------------------------------------------------------------------------------------------- the estimate


@covers(*COUNTED)
@each_api
@pytest.mark.parametrize("id_", COUNTED)
def test_the_estimate_is_the_seeds_to_the_unit(id_: str, api: str, line: MakeLine) -> None:
    """Messages, system prompt and tools, each by a quarter of its JSON; as the case counted its messages."""
    found = case(id_)
    if api != found["api"] and "server_tool_use" in json.dumps(found["request"]):
        pytest.skip("chat completions know no server tools")
    body = body_of(id_, api)
    assert line(api, 1).size(body) == weight_of(body)
    if api == found["api"]:
        assert sum(map(weight, body["messages"])) == found["estimate_before"]


SEEDED = tuple(id_ for id_ in (*DROPPING, "141") if id_ not in ("014", "057", "077", "099", "116", "125"))


@covers(*SEEDED)
@pytest.mark.parametrize("id_", SEEDED)
def test_the_plain_function_keeps_what_the_seed_kept(id_: str) -> None:
    """`compact()` is a drop-in for ctx-compact on every chat case that drops."""
    found = case(id_)
    policy, seed, messages = found["policy"], found["seed_compact"], found["request"]["messages"]
    ends = {name: policy[name] for name in ("keep_head", "keep_tail")}
    result = compact(messages, max_tokens=policy["max_tokens"], **ends)
    assert [id(message) for message in result.messages] == [id(messages[index]) for index in seed["kept"]]
    assert (result.tokens_before, result.tokens_after, result.fits) == (seed["before"], seed["after"], seed["fits"])


@covers("029")
@each_target
@each_api
def test_the_arguments_of_a_call_count(api: str, target: float, line: MakeLine) -> None:
    """A payload in a call's arguments starts the compaction, and goes with its result as one unit."""
    body = body_of("029", api)
    if api == CLAUDE:  # the question in an item of its own, or it would keep the exchange that it shares its item with
        results, question = body["messages"][-1]["content"]
        body["messages"][-1:] = [{"role": "user", "content": [results]}, {"role": "user", "content": [question]}]
    trip = line(api, drop_oldest(case("029")["policy"], target)).send(body)
    assert_sound(trip)
    assert trip.report.tokens_before > 9000
    assert trip.report.fits
    assert trip.kept in (([0, 4], [0, 1, 4]) if api == CHAT else ([3], [0, 3]))


LARGE = "chapter text " * 800
PAYLOADS: dict[str, tuple[str, Body]] = {
    "arguments": (
        CHAT,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": json.dumps({"x": LARGE})}}
            ],
        },
    ),
    "custom input": (
        CHAT,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": LARGE}}],
        },
    ),
    "older function call": (
        CHAT,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": LARGE}},
    ),
    "reasoning": (CHAT, {"role": "assistant", "content": "ok", "reasoning_content": LARGE}),
    "refusal": (CHAT, {"role": "assistant", "content": None, "refusal": LARGE}),
    "part": (CHAT, {"role": "user", "content": [{"type": "text", "text": LARGE}]}),
    "input": (
        CLAUDE,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {"x": LARGE}}]},
    ),
    "thinking": (CLAUDE, {"role": "assistant", "content": [{"type": "thinking", "thinking": LARGE, "signature": "s"}]}),
    "result parts": (
        CLAUDE,
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": LARGE}]}],
        },
    ),
    "text document": (
        CLAUDE,
        {
            "role": "user",
            "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": LARGE}}],
        },
    ),
    "search result": (
        CLAUDE,
        {
            "role": "user",
            "content": [
                {"type": "search_result", "source": "u", "title": "t", "content": [{"type": "text", "text": LARGE}]}
            ],
        },
    ),
    "unknown block": (CLAUDE, {"role": "assistant", "content": [{"type": "hologram", "data": LARGE}]}),
}


@covers("029", "146")
@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_place_of_a_text_is_overlooked(payload: str, line: MakeLine) -> None:
    """Wherever a large text stands in a message, it counts in full."""
    api, message = PAYLOADS[payload]
    body = {"model": OLDER, "max_tokens": 9, "messages": [{"role": "user", "content": "q"}, message, *turn("a", "b")]}
    assert weight(LARGE) <= line(api, 1).size(body) <= weight(LARGE) + 90


@covers("029")
@each_api
def test_tools_and_system_prompt_count_and_show_as_a_figure_of_their_own(api: str, line: MakeLine) -> None:
    """Definitions of tools can be most of a request: they start the compaction, and leave unchanged."""
    function = {"name": "device", "parameters": {"type": "object", "description": "controls a device " * 40}}
    chat: Body = {"model": "gpt-4o-mini", "tools": [{"type": "function", "function": function}] * 9}
    lamp = {"role": "user", "content": "Lamp on."}
    chat["messages"] = [{"role": "system", "content": "Home bot."}, lamp, *turn("Done. " * 20, "Heater?")]
    body = chat if api == CHAT else to_claude(chat)
    alone = line(api, 1).size({**body, "tools": []})
    trip = line(api, DropOldest(int(alone) + 100, keep_tail=1)).send(body)
    assert_sound(trip)
    assert trip.left["tools"] == body["tools"]
    assert trip.report.tokens_before == alone - weight([]) + weight(body["tools"])
    assert trip.report.tokens_overhead >= weight(body["tools"]) > alone
    assert trip.report.changed
    assert not trip.report.fits


# ---------------------------------------------------------------------------------------------- the account


@covers("042")
@each_target
@each_api
def test_every_figure_agrees_with_what_left(
    api: str, target: float, line: MakeLine, caplog: pytest.LogCaptureFixture
) -> None:
    """Report, events, log and callback tell the same numbers as the body, the messages that went with a pair included."""
    logger, dropped = logging.getLogger("cases.account"), list[Any]()
    caplog.set_level(logging.DEBUG, logger.name)
    for body in (body_of("042", api), later(body_of("042", api)), twice(body_of("042", api))):
        size = int(line(api, 1).size(body))
        for budget in (60, size // 2, size - 1, 20):
            caplog.clear()
            dropped.clear()
            policy = DropOldest(budget, keep_head=2, keep_tail=2, target=target)
            trip = line(api, policy, logger=logger, on_drop=dropped.append).send(body)
            assert_sound(trip)
            gone = sum(neutral_count(body["messages"][index]) for index in trip.missing)
            report = trip.report
            assert (
                sum(len(each.messages) for each in report.dropped)
                == gone
                == sum(len(each.messages) for each in dropped)
            )
            assert report.tokens_before == weight_of(body)
            assert report.tokens_after == weight_of(trip.left)
            assert sum(each.tokens for each in dropped) == weight_of(body) - weight_of(trip.left)
            assert report.messages_after == len(trip.messages) if api == CHAT else True
            told = [record.__dict__["fields"] for record in caplog.records if "applied" in record.getMessage()]
            assert [(each["tokens_after"], each["messages_after"]) for each in told] == [
                (report.tokens_after, report.messages_after) for _ in told
            ]
            assert len(told) == report.changed
            assert report.as_dict()["tokens_after"] == report.tokens_after
            assert not report.changed or f"{report.tokens_before} -> {report.tokens_after} tokens" in str(report)


@covers("129")
@each_target
@each_api
def test_a_compacted_request_is_smaller(api: str, target: float, line: MakeLine) -> None:
    """Never larger than it came, and smaller wherever anything went."""
    for body in (body_of("129", api), later(body_of("129", api)), twice(body_of("129", api))):
        size = int(line(api, 1).size(body))
        for budget in (1, size // 9, size // 2, size - 1):
            trip = line(api, DropOldest(budget, keep_tail=1, target=target)).send(body)
            assert_sound(trip)
            smaller = len(json.dumps(trip.messages)) < len(json.dumps(body["messages"]))
            assert smaller == trip.report.changed == (trip.report.tokens_after < trip.report.tokens_before)


# ---------------------------------------------------------------------------------------------- own counters


def by_script(message: Body) -> int:
    """One token for each CJK character, one for four others: the counter of case 077."""
    content = message["content"]
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    wide = sum("\u2e80" <= each <= "\uffef" for each in text)
    return wide + -(-(len(text) - wide) // 4)


async def aby_script(message: Body) -> int:
    """The same, awaited."""
    return by_script(message)


@covers("077")
@each_target
@each_api
@pytest.mark.parametrize("mode", MODES)
def test_an_own_counter_decides_trigger_cut_and_totals(mode: str, api: str, target: float, line: MakeLine) -> None:
    """By it the history is too large where the estimate alone would have let it pass; the totals are its own."""
    body, policy = body_of("077", api), drop_oldest(case("077")["policy"], target)
    assert not line(api, policy, mode).send(body).report.changed
    trip = line(api, policy, mode, counter=aby_script if "async" in mode else by_script).send(body)
    first = body["messages"][0] if api == CHAT else {"content": body["system"]}
    rest = body["messages"][1:] if api == CHAT else body["messages"]
    counted = [
        by_script({"content": "".join(b["text"] for b in m["content"]) if api == CLAUDE else m["content"]})
        for m in rest
    ]
    assert trip.report.tokens_before == by_script(first) + sum(counted) >= 580
    assert trip.report.fits
    assert trip.report.tokens_after <= 400
    gone = trip.missing
    assert (1 if api == CHAT else 0) in gone
    if target == 1.0:
        assert trip.kept == ([0, 2, 3] if api == CHAT else [2])
    assert sum(each.tokens for each in trip.report.dropped) == trip.report.tokens_before - trip.report.tokens_after


@covers("077")
@each_api
def test_an_own_counter_sees_neutral_messages_and_the_tools(api: str, line: MakeLine) -> None:
    """Role and content as the seeds have them, whatever the API; each message once a request, the tools as one more."""
    body = body_of("053", api)
    body["tools"] = [{"type": "function", "function": {"name": "price", "parameters": {}}}]
    if api == CLAUDE:
        body["tools"] = [{"name": "price", "input_schema": {"type": "object"}}]
    seen: list[Any] = []

    def counter(message: Body) -> int:
        seen.append(copy.deepcopy(message))
        return 1

    trip = line(api, 10**6, counter=counter).send(body)
    assert [message["role"] for message in seen if "price" not in str(message.get("content"))] == [
        "system", "user", "assistant", "tool", "tool", "tool", "assistant", "user"
    ]  # fmt: skip
    assert len(seen) == 9 == trip.report.tokens_before
    assert trip.report.messages_before == 8


@covers("146")
@each_target
@each_api
def test_content_in_parts_is_cut_like_content_in_a_string(
    api: str, target: float, line: MakeLine, caplog: pytest.LogCaptureFixture
) -> None:
    """Lists are counted and grouped like strings: the same messages stay, and nothing fails in the log."""
    parts = body_of("146", api)
    strings = {**parts, "messages": [{**m, "content": _string(m["content"])} for m in parts["messages"]]}
    policy = {**case("146")["policy"], "keep_head": 0}
    for place in (lambda body: body, earlier, later):
        for counter in (None, lambda message: 1 + len(message["content"]) // 4):
            kept = []
            for body in (parts, strings):
                wrapped = line(api, drop_oldest(policy, target), counter=counter)
                with caplog.at_level(logging.DEBUG):
                    trip = wrapped.send(place(body))
                assert_sound(trip)
                assert trip.report.fits
                kept.append(trip.kept)
            assert counter is None or kept[0] == kept[1]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def _string(content: Any) -> Any:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


@covers("144")
@each_api
@pytest.mark.parametrize("mode", MODES)
def test_a_request_that_fits_leaves_as_it_came(mode: str, api: str, line: MakeLine) -> None:
    """Trailing tool messages included; nothing is dropped, and the account says why nothing was done."""
    body = body_of("144", api)
    for target in TARGETS:
        wrapped = line(api, drop_oldest(case("144")["policy"], target), mode)
        for _ in range(2):
            trip = wrapped.send(body)
            assert_sound(trip)
            assert trip.messages == body["messages"]
            assert trip.report.dropped == []
            assert trip.events.names == ["compaction.skipped"]


@covers("144")
@each_api
def test_the_very_same_objects_leave_where_nothing_changes(api: str, line: MakeLine) -> None:
    """The options that the SDK made for the request are those that it sends, not even a copy of them."""
    body = body_of("144", api)
    wrapped = line(api, 10**6).client()
    made, left = list[Any](), list[Any]()
    inner, outer = type(wrapped).request, wrapped.request

    def leaves(self: Any, cast_to: Any, options: Any, **more: Any) -> Any:
        left.append(options)
        return inner(self, cast_to, options, **more)

    def arrives(cast_to: Any, options: Any, **more: Any) -> Any:
        made.append(options)
        return outer(cast_to, options, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(wrapped), "request", leaves)
        patch.setitem(vars(wrapped), "request", arrives)
        method(wrapped, api)(**body)
    assert len(made) == len(left) == 1
    assert made[0] is left[0]
