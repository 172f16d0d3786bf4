"""What holds of one body, and of one growing conversation, under any policy."""

import copy
import json
from typing import Any

from compacting_client import Policy
from compacting_client.formats import anthropic_messages
from compacting_client.formats.base import Format
from compacting_client.report import Report
from tests.driving import Body, found, history_of, leave, question_of, session
from tests.shared import records


def gemini_bodies() -> list[Body]:
    """The recorded bodies of Gemini, with the model that stands in their path."""
    return [
        {**each["request"]["body"], "model": each["request"]["path"].rpartition("/")[2].partition(":")[0]}
        for each in records("gemini_generate")
    ]


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
    return sent, report


def grows(wire: Format, body: Body, policy: Policy, step: int = 1) -> list[Report]:
    """Send every prefix at which a model is asked, with one memory; the report of each."""
    messages, state, reports = history_of(body), session(policy), list[Report]()
    asked = [n for n in range(1, len(messages) + 1) if n == len(messages) or messages[n]["role"] == "assistant"][::step]
    answered = list[tuple[Body, Any]]()
    for n in asked:
        prefix = {**body, wire.FIELD: messages[:n]}
        sent, report = leave(state, wire, prefix)
        assert not found(wire.API, sent, prefix, history=answered)
        if n < len(messages) and wire is anthropic_messages:
            answered.append((sent, messages[n]["content"]))
        assert_question_is_there(sent, prefix)
        assert report.tokens_after <= report.tokens_before
        reports.append(report)
    return reports


def assert_question_is_there(sent: Body, body: Body) -> None:
    """The caller's own last question, or one that has its texts inside."""
    question = question_of(body)
    if question is not None and not any(message is question for message in history_of(sent)):
        texts = [text for message in history_of(sent) for text in texts_of(message)]
        assert texts_of(question)
        assert all(any(text in each for each in texts) for text in texts_of(question))


def texts_of(message: Body) -> list[str]:
    """The texts of a message."""
    content = message.get("content") or message.get("parts") or []
    return [content] if isinstance(content, str) else [block["text"] for block in content if block.get("text")]
