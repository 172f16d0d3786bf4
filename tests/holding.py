"""What holds of one body, and of one growing conversation, under any policy."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from compacting_client import DropOldest, Policy
from compacting_client.formats.base import Format
from compacting_client.report import Report
from tests.driving import Body, found, history_of, leave, question_of, session, size
from tests.shared import Record, judge, records
from tests.strategies import to_gemini

RECORDED = {
    "openai-chat": "openai_chat",
    "anthropic-messages": "anthropic_messages",
    "gemini": "gemini_generate",
}
"""The file of recorded traffic of each API."""


def every_body(api: str) -> Iterator[tuple[Body, str]]:
    """The recorded bodies of an API that hold a readable history, each with the flavor of the server that it was sent to."""
    for record in records(RECORDED[api]):
        body = body_of(record)
        if all(isinstance(message, dict) for message in history_of(body)):
            yield body, judge().flavor_of(record["host_kind"])


def body_of(record: Record) -> Body:
    """The body of a record; Gemini's has its model in the path."""
    request = record["request"]
    gemini = "contents" in request["body"]
    return (
        {**request["body"], "model": request["path"].rpartition("/")[2].partition(":")[0]}
        if gemini
        else request["body"]
    )


def in_chat(record: Record) -> Body:
    """A long conversation of OpenAI's shape as a body."""
    return {"model": record["model"], "messages": record["messages"]}


def in_gemini(record: Record) -> Body:
    """The same in Gemini's shape, with signed calls."""
    texts = [{**m, "content": m["content"] if isinstance(m["content"], str) else None} for m in record["messages"]]
    return to_gemini(texts)


def native(record: Record, **fields: Any) -> Body:
    """A long conversation of Anthropic's shape as a body."""
    given = {"model": record["model"], "messages": record["messages"], "max_tokens": 1000, "tools": [{"name": "x"}]}
    return {**given, **fields}


def counted(wire: Format, body: Body) -> int:
    """Tokens of a body as they are counted for a budget."""
    return int(leave(session(DropOldest(10**9)), wire, body)[1].tokens_before)


def budget_of(wire: Format, body: Body, share: float, **options: Any) -> DropOldest:
    """DropOldest with a budget of this share of the body's size."""
    return DropOldest(max(1, int(counted(wire, body) * share)), **options)


def holds(wire: Format, body: Body, policy: Policy, flavor: str = "openai", **options: Any) -> tuple[Body, Report]:
    """Send a body: the caller's is unchanged, nothing is newly refused, the question is there, nothing got larger."""
    before = copy.deepcopy(body)
    sent, report = leave(session(policy, **options), wire, body)
    assert body == before, "the caller's body was changed"
    if report.changed:
        assert len(json.dumps(sent)) < len(json.dumps(body))
    else:
        assert sent is body
    assert not found(wire.API, sent, body, flavor=flavor)
    assert_question_is_there(sent, body)
    if not report.replaced:
        assert_only_dropped(sent, body)
    return sent, report


def asked(body: Body) -> list[int]:
    """The lengths at which the model is asked: before each of its messages, and at the end."""
    messages = history_of(body)
    answers = [n for n in range(1, len(messages)) if messages[n]["role"] in ("assistant", "model")]
    return [*answers, len(messages)]


def grows(wire: Format, body: Body, policy: Policy, step: int = 1) -> list[Report]:
    """Send every prefix at which a model is asked, with one memory; the report of each.  Thinking is judged by the bodies that it answered."""
    messages = history_of(body)
    answered = {n: messages[n].get("content") or messages[n].get("parts") for n in asked(body)[:-1]}
    prefixes = [{**body, wire.FIELD: messages[:n]} for n in asked(body)[::step]]
    return resends(wire, prefixes, policy, [answered.get(n) for n in asked(body)[::step]])


def resends(
    wire: Format, bodies: list[Body], policy: Policy, answers: list[Any], flavor: str = "openai", **options: Any
) -> list[Report]:
    """Send the bodies of one conversation through one client; `answers[n]` is what came back to the *n*-th.  The report of each."""
    state, reports, answered = session(policy, **options), list[Report](), list[tuple[Body, Any]]()
    for body, answer in zip(bodies, answers, strict=True):
        sent, report = leave(state, wire, body)
        assert not found(wire.API, sent, body, history=answered, flavor=flavor)
        if isinstance(answer, list):  # content blocks or parts; a text binds nothing
            answered.append((sent, answer))
        assert_question_is_there(sent, body)
        assert report.tokens_after <= report.tokens_before
        if not report.replaced:
            assert_only_dropped(sent, body)
        reports.append(report)
    return reports


def assert_only_dropped(sent: Body, body: Body) -> None:
    """What left are the caller's own objects, in their order, the question among them."""
    rest, question = iter(history_of(body)), question_of(body)
    assert all(any(message is each for each in rest) for message in history_of(sent))
    assert question is None or any(message is question for message in history_of(sent))


def assert_sound(wire: Format, body: Body, sent: Body, report: Report) -> None:
    """Accepted, no larger, the account true, the rest of the body untouched."""
    assert not found(wire.API, sent, body)
    assert size(sent) <= size(body)
    assert (report.tokens_before, report.tokens_after) == (size(body), size(sent))
    freed = sum(each.tokens for each in report.dropped)
    freed += sum(each.tokens - each.tokens_after for each in report.replaced)
    assert report.tokens_before - report.tokens_after == freed
    assert (sent is body) == (not report.changed)
    assert {**sent, wire.FIELD: 0} == {**body, wire.FIELD: 0}


def assert_question_is_there(sent: Body, body: Body) -> None:
    """The caller's own last question, or one that has its texts inside; all its blocks, where it has no text."""
    question = question_of(body)
    if question is not None and not any(message is question for message in history_of(sent)):
        texts = [text for message in history_of(sent) for text in texts_of(message)]
        blocks = [block for message in history_of(sent) for block in blocks_of(message)]
        assert all(block in blocks for block in blocks_of(question))
        assert all(any(text in each for each in texts) for text in texts_of(question))


def blocks_of(message: Body) -> list[Any]:
    """The blocks of a message; none where it is a mere text."""
    content = message.get("content") or message.get("parts") or []
    return [] if isinstance(content, str) else list(content)


def texts_of(message: Body) -> list[str]:
    """The texts of a message."""
    content = message.get("content") or message.get("parts") or []
    return [content] if isinstance(content, str) else [block["text"] for block in content if block.get("text")]
