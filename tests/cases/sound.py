"""What is true of every request that left, whatever the case."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from compacting_client import DropOldest
from tests import shared as material
from tests.cases.bench import CHAT, CLAUDE, Body, Trip, thoughtless, weight

Answers = list[tuple[Body, list[Any]]]
"""Bodies that were really sent earlier in a conversation, each with the content that came back."""


def assert_sound(trip: Trip, *, history: Answers | None = None) -> None:
    """One request left; the provider takes it as it took the original; nothing vital is gone; the account is true."""
    left, body = trip.left, trip.body
    assert {**left, "messages": None} == {**body, "messages": None, **_added(trip)}, "more than the history changed"
    original = judged(trip.api, body, body)
    found = judged(trip.api, left, body, history) - original
    assert not found
    if not material.judge().check(trip.api, body, original=body):
        assert trip.statuses == [200], trip.error
        assert "compaction.rejected" not in trip.events.names, "a plan that its own check refused"
    assert weight(left["messages"]) <= weight(body["messages"])
    assert_vital_is_there(trip)
    assert_account(trip)


def _added(trip: Trip) -> Body:
    """What the SDK puts into a streamed request."""
    return {"stream": True} if trip.left.get("stream") else {}


def judged(
    api: str, body: Body, original: Body, history: Answers | None = None, flavor: str = "openai"
) -> Counter[str]:
    """The rules that a body breaks, each with how often; on Anthropic also what only some of its hosts refuse."""
    judge = material.judge()
    how: dict[str, Any] = {"original": original, "flavor": flavor}
    found = judge.check(api, body, history=history, **how)
    if api == CLAUDE:
        found = [*found, *judge.warnings(api, body, history=history, **how)]
    return Counter(each.rule for each in found)


def new_violations(trip: Trip, flavor: str) -> Counter[str]:
    """The rules that the body which left breaks more often than the caller's, on a server of this flavor."""
    original = judged(trip.api, trip.body, trip.body, flavor=flavor)
    return judged(trip.api, trip.left, trip.body, flavor=flavor) - original


def assert_vital_is_there(trip: Trip) -> None:
    """The system messages, the last question, and the newest exchange after it."""
    vital = vital_of(trip.body)
    assert vital <= set(trip.kept), f"lost: {sorted(vital - set(trip.kept))} of {trip.kept}"
    made = [message for message in trip.messages if message not in trip.body["messages"]]
    texts = [block["text"] for message in made for block in blocks_of(message) if block.get("type") == "text"]
    assert all(text.strip() for text in texts), "an empty text"
    assert all(blocks_of(m) or m.get("tool_calls") for m in made), "a message without content"
    assert all(thoughtless(m)["content"] or m.get("tool_calls") for m in made), "nothing but thinking"


def vital_of(body: Body) -> set[int]:
    """The indexes of what every policy keeps, whole exchanges: systems, the question, the newest exchange after it, the last item."""
    messages = body["messages"]
    vital = {i for i, message in enumerate(messages) if message["role"] in ("system", "developer")}
    question = question_of(body)
    vital |= {len(messages) - 1, *(() if question is None else (question,))}
    vital |= set([i for i, message in enumerate(messages) if calls_of(message) and i > (question or 0)][-1:])
    return whole(messages, vital)


def whole(messages: list[Body], indexes: set[int]) -> set[int]:
    """These messages with all that they call or answer: each result belongs to the nearest unanswered call of its id before it."""
    groups = [{index} for index in range(len(messages))]
    for index, message in enumerate(messages):
        for call in answers_of(message):
            before = range(index - 1, -1, -1)
            asked = next(
                (i for i in before if calls_of(messages[i]).count(call) > _answered(messages, i, index, call)), None
            )
            if asked is not None:
                joined = groups[asked] | groups[index]
                for each in joined:
                    groups[each] = joined
    return {each for index in indexes for each in groups[index]}


def _answered(messages: list[Body], asked: int, before: int, call: str) -> int:
    """How many answers to a call there were already, up to the next call of the same id."""
    count = 0
    for message in messages[asked + 1 : before]:
        if call in calls_of(message):
            return count
        count += answers_of(message).count(call)
    return count


def question_of(body: Body) -> int | None:
    """The index of the last real user message."""
    for index in range(len(body["messages"]) - 1, -1, -1):
        message = body["messages"][index]
        if message["role"] == "user" and any(b.get("type") != "tool_result" for b in blocks_of(message)):
            return index
    return None


def blocks_of(message: Body) -> list[Body]:
    """The content of a message as blocks."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def calls_of(message: Body) -> list[str]:
    """The ids of the calls that a message makes."""
    made = [block["id"] for block in blocks_of(message) if block.get("type") == "tool_use"]
    return made + [call["id"] for call in message.get("tool_calls", ())]


def answers_of(message: Body) -> list[str]:
    """The ids of the calls that a message answers."""
    made = [block["tool_use_id"] for block in blocks_of(message) if block.get("type") == "tool_result"]
    return made + ([message["tool_call_id"]] if message["role"] == "tool" else [])


def neutral_count(message: Body) -> int:
    """How many neutral messages a message is."""
    results = sum(block.get("type") == "tool_result" for block in blocks_of(message))
    return results + 1 if results < len(blocks_of(message)) else max(1, results)


def assert_account(trip: Trip) -> None:
    """Report and events say what happened, and agree with each other."""
    report, missing = trip.report, trip.missing
    assert report.changed == bool(missing or report.replaced)
    assert report.messages_before - report.messages_after == sum(
        neutral_count(trip.body["messages"][index]) for index in missing
    )
    assert sum(len(each.roles) for each in report.dropped) == report.messages_before - report.messages_after
    ends = {index for each in report.dropped for index in (each.first, each.last)}
    assert ends <= {*missing}
    assert missing == [] or ends
    freed = sum(each.tokens for each in report.dropped)
    freed += sum(each.tokens - each.tokens_after for each in report.replaced)
    assert report.tokens_before - report.tokens_after == freed
    if isinstance(trip.policy, DropOldest):
        assert report.fits == (report.tokens_after <= (trip.policy.budget or 0))
    names = Counter(trip.events.names)
    assert names["compaction.applied"] == report.changed
    assert names["compaction.skipped"] == (not report.changed)
    assert names["content.dropped"] == sum(each.since == 0 for each in report.dropped)
    assert {event.request_id for event in trip.events.events} == {report.request_id}
    for applied in trip.events.named("compaction.applied"):
        fields = ("tokens_before", "tokens_after", "messages_before", "messages_after", "fits", "trigger")
        assert all(getattr(applied, name) == getattr(report, name) for name in fields)
    assert report.changed or (report.reason and report.reason in str(report))


def assert_fits_if_it_can(trip: Trip) -> None:
    """Where what has to stay is within the budget, the request is."""
    assert isinstance(trip.policy, DropOldest)
    stays, items = vital_of(trip.body) | head_of(trip), trip.body["messages"]
    if trip.api == CLAUDE and any(message["role"] == "system" for message in items):
        return  # a system message in the middle holds its neighbours: more has to stay than is counted here
    first = min(stays, default=0)
    if (
        trip.api == CLAUDE and items and items[first]["role"] == "assistant"
    ):  # its question stays, as a user turn comes first
        stays |= set([index for index in range(first) if items[index]["role"] == "user"][-1:])
    least = weight_outside(trip.body) + sum(weight(items[index]) for index in stays)
    assert trip.report.fits or least > (trip.policy.budget or 0), f"{trip.report.tokens_after}, though {least} would do"


def assert_no_more_than_asked(trip: Trip) -> None:
    """Dropping ends at the target: with the turn that went last, it was not yet reached."""
    assert isinstance(trip.policy, DropOldest)
    outside = 1 if trip.body.get("system") or trip.body["messages"][0]["role"] in ("system", "developer") else 0
    if not trip.missing or trip.policy.target == 1.0 or trip.policy.keep_head > outside:
        return  # at target=1.0 what has lost its question goes as well; a head that tears a turn has a test of its own
    items = trip.body["messages"]
    last = trip.missing[-1]
    start = max((index for index in range(last + 1) if items[index]["role"] == "user"), default=0)
    back = sum(each.tokens for each in trip.report.dropped if each.last >= start)
    assert trip.report.tokens_after + back > trip.policy.target * (trip.policy.budget or 0)


def head_of(trip: Trip) -> set[int]:
    """The messages that `keep_head` keeps."""
    assert isinstance(trip.policy, DropOldest)
    head, counted = set[int](), 1 if trip.body.get("system") else 0
    for index, message in enumerate(trip.body["messages"]):
        if counted >= trip.policy.keep_head:
            break
        head.add(index)
        counted += neutral_count(message)
    return whole(trip.body["messages"], head)


def weight_outside(body: Body) -> int:
    """Tokens of the system prompt and the tools, where they are not in the history."""
    system = body.get("system")
    text = system if isinstance(system, str) else "\n".join(block["text"] for block in system or ())
    return (weight({"role": "system", "content": text}) if text else 0) + (
        weight(body["tools"]) if body.get("tools") else 0
    )


def weight_of(body: Body) -> int:
    """Tokens of a body without pictures."""
    return weight_outside(body) + sum(map(weight, body["messages"]))


def has_media(body: Body) -> bool:
    """Whether pictures are counted by another formula."""
    return "image" in json.dumps(body)


__all__ = ["CHAT", "Answers", "assert_fits_if_it_can", "assert_sound", "new_violations", "weight_of"]
