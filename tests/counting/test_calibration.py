"""After the second request of a conversation its size is known within 5 %, whatever it is written in and however the provider counts."""

from collections.abc import Callable

import pytest

from compacting_client import DropOldest, Report
from compacting_client.testing import Provider
from tests.counting.conversations import APIS, MODES, TEXTS, by_script, evenly, reports_of, talk

MakeProvider = Callable[..., Provider]
ROOMY = DropOldest(1_000_000)
TOKENIZERS: dict[str, Callable[[str], int]] = {"by script": by_script, "evenly": evenly}
SHAPES: dict[str, dict[str, bool]] = {
    "text": {},
    "tools": {"tools": True},
    "pictures": {"pictures": True},
    "tools and pictures": {"tools": True, "pictures": True},
}


def error_of(report: Report) -> float:
    """By how much the figure of a report is off, as a share of what the provider counted."""
    assert report.usage is not None
    return abs(report.tokens_after - report.usage.input_tokens) / report.usage.input_tokens


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("api", APIS)
async def test_the_third_request_is_known_within_five_percent(
    api: str, tokenizer: str, language: str, shape: str, counting_provider: MakeProvider
) -> None:
    """And so are all that follow; the first is exactly the estimate."""
    provider = counting_provider(api, TOKENIZERS[tokenizer])
    bodies = [talk(api, language, turns, **SHAPES[shape]) for turns in (1, 2, 3, 4, 7)]
    reports = await reports_of(provider, api, "sync", ROOMY, bodies)
    errors = [error_of(report) for report in reports]
    assert max(errors[2:]) <= 0.05, errors


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("api", APIS)
async def test_every_way_to_call_teaches(api: str, mode: str, counting_provider: MakeProvider) -> None:
    """Sync, async, and streams of both, whose usage comes at their end."""
    bodies = [talk(api, "Chinese", turns, tools=True) for turns in (1, 2, 3)]
    reports = await reports_of(counting_provider(api), api, mode, ROOMY, bodies)
    assert error_of(reports[0]) > 0.2
    assert error_of(reports[2]) <= 0.05
