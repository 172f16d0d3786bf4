"""What was not sent, what began as before, what came from the provider's cache, and the dollars."""

import json
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest
from genai_prices import Usage, calc_price

from compacting_client import DropOldest, Report
from compacting_client.testing import Provider
from tests.counting.conversations import APIS, CHAT, CLAUDE, MODELS, MODES, reports_of, talk

MakeProvider = Callable[..., Provider]
QUARTERS: Callable[[str], int] = lambda text: -(-len(text.encode("utf-16-le")) // 8)  # noqa: E731 - as the estimate counts


@pytest.fixture
def provider(counting_provider: MakeProvider) -> Provider:
    """One that counts as the estimate does."""
    return counting_provider(CHAT, QUARTERS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("api", APIS)
async def test_the_unchanged_prefix_is_what_the_providers_cache_has(api: str, mode: str, provider: Provider) -> None:
    """The provider here caches all that it ever read: what it says and what is said of the prefix agree, through two cuts."""
    bodies = [talk(api, "English", turns, tools=True) for turns in range(1, 12)]
    reports = await reports_of(provider, api, mode, DropOldest(1_500), bodies)
    assert sum(report.trigger == "tokens" for report in reports) >= 2
    assert reports[0].savings.unchanged is None
    for report in reports[1:]:
        saved = report.savings
        assert saved.unchanged is not None
        assert saved.cached is not None
        assert abs(saved.unchanged - saved.cached) <= 25 + 0.05 * saved.cached
        assert saved.not_sent == report.tokens_before - report.tokens_after
        assert report.tokens_overhead <= saved.unchanged <= report.tokens_after


async def test_another_system_prompt_or_other_tools_leave_no_prefix(provider: Provider) -> None:
    """They stand in front of all messages."""
    body = talk(CLAUDE, "English", 3)
    others = [
        {**body, "system": "Another one."},
        {**talk(CLAUDE, "English", 3, tools=True), "messages": body["messages"]},
    ]
    for other in others:
        _, report = await reports_of(provider, CLAUDE, "sync", 10**6, [body, other])
        assert report.savings.unchanged == 0


async def test_another_conversation_has_no_request_before(provider: Provider) -> None:
    """Also where both begin with the same words."""
    body = talk(CHAT, "English", 3)
    other = {"messages": [*body["messages"][:2], {"role": "user", "content": "Something else altogether."}]}
    _, report, again = await reports_of(provider, CHAT, "sync", 10**6, [body, other, body])
    assert report.savings.unchanged is None
    assert again.savings.unchanged == again.tokens_after


@pytest.mark.parametrize("api", APIS)
async def test_the_dollars_are_those_of_genai_prices(api: str, provider: Provider) -> None:
    """Cached tokens at their own price, what was not sent at that of uncached input."""
    bodies = [talk(api, "English", turns) for turns in (9, 10)]
    report = (await reports_of(provider, api, "sync", DropOldest(800), bodies))[-1]
    used, saved = report.usage, report.savings
    assert used is not None

    def price(more: float) -> float:
        tokens = Usage(
            input_tokens=used.input_tokens + int(more),
            cache_read_tokens=used.cached_tokens,
            output_tokens=used.output_tokens,
        )
        return float(calc_price(tokens, MODELS[api]).total_price)

    assert saved.not_sent > 0
    assert saved.cost == pytest.approx(price(0))
    assert saved.saved == pytest.approx(price(saved.not_sent) - price(0))
    assert f"{saved.not_sent} tokens not sent ($" in str(report)
    assert "cost " in str(report)


async def test_without_prices_there_are_tokens(monkeypatch: pytest.MonkeyPatch, provider: Provider) -> None:
    """No package, or a model that it does not know: no dollars, and nothing fails."""
    bodies = [talk(CHAT, "English", 9)]
    (report,) = await reports_of(provider, CHAT, "sync", DropOldest(800), bodies)
    report.model = "house-model-7b"
    assert report.savings[3:] == (None, None)
    report.model = "gpt-5-mini"
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert report.savings[3:] == (None, None)
    assert "$" not in str(report)
    assert f"{report.savings.not_sent} tokens not sent" in str(report)


async def test_the_account_has_it_as_json_and_in_another_process(provider: Provider) -> None:
    """`as_dict()` has all figures; a report that was pickled keeps them."""
    bodies: list[Any] = [talk(CHAT, "English", turns) for turns in (8, 9)]
    report = (await reports_of(provider, CHAT, "sync", DropOldest(800), bodies))[-1]
    told = json.loads(json.dumps(report.as_dict()))
    assert told["savings"] == report.savings._asdict()
    copied: Report = pickle.loads(pickle.dumps(report))
    assert copied.savings == report.savings
