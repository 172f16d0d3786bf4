"""Budgets from a window: room for the answer, pictures that count, and figures of an earlier request that decide nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google import genai
from google.genai import types

from compacting_client import DropOldest, compacting
from compacting_client.testing import Provider
from tests.cases.bench import CHAT, MODES, Line, case, covers, drop_oldest, report_of, weight

MakeLine = Callable[..., Line]


@covers("037")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_window_leaves_room_for_the_answer_that_the_request_reserves(field: str, mode: str, line: MakeLine) -> None:
    """The input alone would fit 12,000 tokens, the input and 2,048 for the answer do not: the old question goes (crewAIInc/crewAI#2659)."""
    found = case("037")
    body, policy = found["request"], found["policy"]
    body[field] = body.pop("max_tokens")
    ends: Any = {"keep_head": policy["keep_head"], "keep_tail": policy["keep_tail"]}
    windows = {body["model"]: policy["context_window"]}
    trip = line(CHAT, DropOldest(**ends, target=1.0), mode, windows=windows).send(body)
    assert trip.missing == [1]
    assert trip.report.tokens_before == found["estimate_before"]
    assert trip.report.fits
    whole = line(CHAT, DropOldest(**ends, target=1.0), mode, windows=windows).send({**body, field: 900})
    assert whole.missing == []


@pytest.fixture
def gemini(provider: Provider) -> Iterator[Any]:
    """A plain client of the SDK."""
    with genai.Client(api_key="test", http_options=types.HttpOptions(base_url=provider.google_url)) as connected:
        yield connected


@covers("109")
@pytest.mark.parametrize("target", [1.0, 0.5])
def test_pictures_are_part_of_what_has_to_fit(target: float, provider: Provider, gemini: Any) -> None:
    """Six pictures count with the documented 258 tokens a tile, so the oldest turns go in pairs (earendil-works/pi#1441)."""
    found = case("109")
    contents = found["request"]["contents"]
    budget = 1_000
    assert weight([content for content in contents if len(content["parts"]) == 1]) < budget, "the text alone would fit"
    wrapped = compacting(gemini, drop_oldest({**found["policy"], "max_tokens": budget}, target), strict=True)
    report = report_of(wrapped, wrapped.models.generate_content(**found["request"]))
    arrived = provider.requests[-1].body["contents"]
    assert budget < 6 * 258
    assert report.tokens_before >= 6 * 258
    assert report.fits
    assert len(contents) - len(arrived) > 0
    assert (len(contents) - len(arrived)) % 2 == 0
    assert [content["role"] for content in arrived] == ["user", "model"] * (len(arrived) // 2) + ["user"]


@covers("166")
def test_the_usage_of_one_request_decides_nothing_about_the_next(line: MakeLine) -> None:
    """A first request is over the budget and compacted; a small second one leaves as it is (coder/xum#886)."""
    talked = line(CHAT, None, windows={"gpt-5": 8_000})
    said = [{"role": ("user", "assistant")[n % 2], "content": f"{n} " + "word " * 400} for n in range(31)]
    first = talked.send({"model": "gpt-5", "messages": said})
    assert first.report.usage is not None
    assert first.missing
    second = talked.send({"model": "gpt-5", "messages": [{"role": "user", "content": "Something small."}]})
    assert second.missing == []
    assert second.report.reason == "below trigger"
