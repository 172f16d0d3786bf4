"""Recognising "too long": every wording of the providers, the figures in it, and what must not be taken for it."""

from typing import Any

import pytest

from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.formats.base import Format
from tests.recovery.answers import LOOK_ALIKES, TOO_LONG, Answer, named
from tests.shared import overflow_errors

WIRES: tuple[Format, ...] = (openai_chat, anthropic_messages, gemini_contents)
FORMATS = {wire.API: wire for wire in WIRES}
WITH_FIELD = [
    (openai_chat, {"max_tokens": 5}, 5),
    (openai_chat, {"max_tokens": 5, "max_completion_tokens": 7}, 7),
    (openai_chat, {"max_tokens": None}, 0),
    (anthropic_messages, {"max_tokens": 5}, 5),
    (gemini_contents, {"generationConfig": {"maxOutputTokens": 5}}, 5),
    (gemini_contents, {"generation_config": {"max_output_tokens": 5}}, 5),
    (gemini_contents, {"config": {"max_output_tokens": 5}}, 5),
    (gemini_contents, {"max_tokens": 5}, 0),
    *[(wire, {}, 0) for wire in (openai_chat, anthropic_messages, gemini_contents)],
]


@pytest.mark.parametrize("answer", named(TOO_LONG))
def test_every_wording_is_recognised_with_its_figures(answer: Answer) -> None:
    """The limit, what was requested, or by how much it was too much; an answer's own part of a sum is no input."""
    found = FORMATS[answer.api].too_long(answer.status, answer.body, answer.code)
    assert found is not None
    assert [found.limit, found.requested, found.excess] == list(answer.figures)
    assert found.teaches == answer.teaches


@pytest.mark.parametrize("answer", named(LOOK_ALIKES))
def test_what_looks_like_it_is_not_taken_for_it(answer: Answer) -> None:
    """Rates, quotas, schemas, single strings and arrays, pictures, the answer's own limit, and whatever a request is quoted with."""
    for body in (answer.body, str(answer.body)):
        assert FORMATS[answer.api].too_long(answer.status, body, answer.code) is None or body == ""


def test_there_are_enough_look_alikes() -> None:
    """At least forty, no two the same."""
    assert len({str(answer) for answer in LOOK_ALIKES}) == len(LOOK_ALIKES) >= 40


def test_the_samples_of_the_judge_are_recognised() -> None:
    """Each sample of the independent list, by some API; with the figures that it finds, where both find some."""
    judge = overflow_errors()
    for provider, statuses, _, sample, _ in judge.PATTERNS:
        found = [told for wire in FORMATS.values() if (told := wire.too_long(statuses[0], sample)) is not None]
        assert found, provider
        expected = judge.overflow(statuses[0], sample)
        assert expected.limit in (None, found[0].limit), provider
        assert expected.used in (None, found[0].requested, found[0].excess) or provider == "lm-studio", provider


@pytest.mark.parametrize(("wire", "body", "tokens"), WITH_FIELD)
def test_what_a_request_reserves_stands_in_its_own_field(wire: Format, body: Any, tokens: int) -> None:
    """Each API has its own name for it; 0 where the request does not say."""
    assert wire.reserved(body) == tokens
