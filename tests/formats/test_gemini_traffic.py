"""Recorded Gemini traffic, at budgets of 30, 50 and 70 % of its size, and long conversations in its shape, before the independent judge."""

import copy
import json
from itertools import product

import pytest

from compacting_client import DropOldest
from compacting_client.formats import gemini_contents
from compacting_client.formats.base import Format
from tests.driving import Body, found, leave, question_of, session
from tests.shared import judge, long_conversations, params, records
from tests.strategies import to_gemini

WIRE: Format = gemini_contents
SHARES = (0.3, 0.5, 0.7)
ENDS = ((1, 4), (0, 1), (2, 2))


def _bodies() -> list[Body]:
    """The recorded bodies, with the model that stands in their path."""
    return [
        {**each["request"]["body"], "model": each["request"]["path"].rpartition("/")[2].partition(":")[0]}
        for each in records("gemini_generate")
    ]


def _counted(body: Body) -> int:
    return int(leave(session(DropOldest(10**9)), WIRE, body)[1].tokens_before)


def _holds(body: Body, share: float, **options: object) -> bool:
    """All that is promised of one body and one policy; whether it was changed."""
    before = copy.deepcopy(body)
    policy = DropOldest(max(1, int(_counted(body) * share)), **options)  # type: ignore[arg-type]
    sent, report = leave(session(policy), WIRE, body)
    assert body == before, "the caller's body was changed"
    assert len(json.dumps(sent)) < len(json.dumps(body)) if report.changed else sent is body
    assert not found(WIRE.API, sent, body)
    question = question_of(body)
    assert question is None or any(content is question for content in sent["contents"])
    return report.changed


def test_every_recorded_body_stays_acceptable() -> None:
    """A body that was really sent leaves smaller, with its question, and with nothing that the provider would newly refuse."""
    changed = [_holds(body, share) for body, share in product(_bodies(), SHARES)]
    assert sum(changed) > 100


@pytest.mark.full
def test_every_recorded_body_under_other_settings() -> None:
    """The same with other heads, tails and targets."""
    for body, share, (head, tail), target in product(_bodies(), SHARES, ENDS, (0.5, 1.0)):
        _holds(body, share, keep_head=head, keep_tail=tail, target=target)


def test_below_the_budget_the_same_object_leaves() -> None:
    """At exactly the budget nothing is touched: the very same body leaves."""
    for body in _bodies():
        sent, report = leave(session(DropOldest(max(1, _counted(body)))), WIRE, body)
        assert sent is body
        assert report.fits or report.reason == "the server holds the history"


def test_the_rules_agree_with_the_judge_on_what_was_recorded() -> None:
    """Neither finds a fault in what was answered with 200, and both find the same in the rest."""
    apart = {"ge-names", "ge-signature-old"}  # warnings of the judge that nobody has seen as an error
    for body in _bodies():
        theirs = {each.rule for each in judge().check_all(WIRE.API, body)} - apart
        assert {each.rule for each in WIRE.check(body)} == theirs


def test_usage_of_recorded_answers() -> None:
    """Every answer that tells its usage is understood, whole or in events, and adds up to what the provider says."""
    told = 0
    for record in records("gemini_generate"):
        answer = record["response"]["body"]
        counted = answer.get("usageMetadata", {}) if isinstance(answer, dict) else {}
        usage = WIRE.usage(answer) if counted else None
        if usage is not None:
            told += 1
            extra = counted.get("toolUsePromptTokenCount", 0)
            assert usage.input_tokens + usage.output_tokens + extra == counted["totalTokenCount"]
            assert usage.cached_tokens <= usage.input_tokens
    assert told > 100


def _grows(body_of: object, messages: list, share: float) -> int:
    """Send every prefix at which a model is asked, with one memory; returns how many requests were changed."""
    whole = body_of(messages)  # type: ignore[operator]
    state = session(DropOldest(max(1, int(_counted(whole) * share))))
    changed = 0
    for n in range(1, len(messages) + 1):
        if n < len(messages) and messages[n]["role"] != "assistant":
            continue
        prefix = body_of(messages[:n])  # type: ignore[operator]
        sent, report = leave(state, WIRE, prefix)
        changed += report.changed
        assert not found(WIRE.API, sent, prefix)
        question = question_of(prefix)
        assert question is None or any(content is question for content in sent["contents"])
    return changed


def _plain(messages: list) -> list:
    """The messages with their content as text, as `to_gemini` takes it."""
    return [{**m, "content": m["content"] if isinstance(m["content"], str) else None} for m in messages]


@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped")[::5])
def test_long_conversations_grow(record: dict) -> None:
    """A long tool-using conversation in Gemini's shape, sent whole at each of its turns, stays acceptable and is really trimmed."""
    assert _grows(to_gemini, _plain(record["messages"]), 0.5) > 0


@pytest.mark.full
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped"))
def test_every_long_conversation_at_every_prefix(record: dict, share: float) -> None:
    """Every prefix of every long conversation."""
    assert _grows(to_gemini, _plain(record["messages"]), share) > 0
