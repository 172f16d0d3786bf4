"""Recorded Gemini traffic, at budgets of 30, 50 and 70 % of its size, and long conversations in its shape, before the independent judge."""

from itertools import product

import pytest

from compacting_client.formats import gemini_contents
from compacting_client.formats.base import Format
from tests.driving import Body, leave, session
from tests.holding import budget_of, every_body, grows, holds, in_gemini
from tests.shared import judge, long_conversations, params, records

WIRE: Format = gemini_contents
SHARES = (0.3, 0.5, 0.7)
ENDS = ((1, 4), (0, 1), (2, 2))


def _bodies() -> list[Body]:
    return [body for body, _ in every_body(WIRE.API)]


def test_every_recorded_body_stays_acceptable() -> None:
    """A body that was really sent leaves smaller, with its question, and with nothing that the provider would newly refuse."""
    reports = [holds(WIRE, body, budget_of(WIRE, body, share))[1] for body, share in product(_bodies(), SHARES)]
    assert sum(report.changed for report in reports) > 100


@pytest.mark.full
def test_every_recorded_body_under_other_settings() -> None:
    """The same with other heads, tails and targets."""
    for body, share, (head, tail), target in product(_bodies(), SHARES, ENDS, (0.5, 1.0)):
        holds(WIRE, body, budget_of(WIRE, body, share, keep_head=head, keep_tail=tail, target=target))


def test_below_the_budget_the_same_object_leaves() -> None:
    """At exactly the budget nothing is touched: the very same body leaves."""
    for body in _bodies():
        sent, report = leave(session(budget_of(WIRE, body, 1)), WIRE, body)
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


@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped")[::5])
def test_long_conversations_grow(record: dict) -> None:
    """A long tool-using conversation in Gemini's shape, sent whole at each of its turns, stays acceptable and is really trimmed."""
    body = in_gemini(record)
    assert any(report.changed for report in grows(WIRE, body, budget_of(WIRE, body, 0.5)))


@pytest.mark.full
@pytest.mark.parametrize("target", [0.5, 1.0])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("record", params(long_conversations, "openai_shaped"))
def test_every_long_conversation_at_every_prefix(record: dict, share: float, target: float) -> None:
    """Every prefix of every long conversation."""
    body = in_gemini(record)
    assert any(report.changed for report in grows(WIRE, body, budget_of(WIRE, body, share, target=target)))
