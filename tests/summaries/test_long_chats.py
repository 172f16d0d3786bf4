"""Hundreds of turns through the real SDKs: few summary calls, a stable prefix between them, and no fact that the summariser was not shown."""

import json
import re
from typing import Any

import pytest

from compacting_client import Report, Summarize, compacting
from compacting_client.testing import Provider
from tests.summaries.conversing import SDKS, Sdk, answering, conversing, is_summary_call, messages_of, turn

BUDGET, TARGET = 800, 0.5


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
@pytest.mark.parametrize("turns", [60, pytest.param(300, marks=pytest.mark.full)])
def test_a_summary_call_pays_for_many_turns(sdk: Sdk, awaited: bool, turns: int) -> None:
    """At most one for each (1 - target) x budget tokens of growth; between two of them a request begins with the one before, byte for byte."""
    policy = Summarize(max_messages=None, token_budget=BUDGET, target=TARGET, keep_recent=4, max_summary_tokens=100)
    reports: list[Report] = []
    with (
        Provider(default=answering("They keep a log. " * 8)) as provider,
        conversing(sdk, provider, lambda c: compacting(c, policy, on_report=reports.append), awaited=awaited) as (
            _,
            send,
            _,
        ),
    ):
        history: list[Any] = []
        for number in range(turns):
            added = turn(sdk, number)
            send([*history, added[0]])
            history += added
        requests = provider.requests
    assert [request.status for request in requests] == [200] * len(requests)
    calls = sum(map(is_summary_call, requests))
    growth = reports[-1].tokens_before
    assert 1 < calls <= growth / ((1 - TARGET) * BUDGET)
    assert all(report.fits for report in reports)
    assert_prefixes_are_stable(requests)
    assert_every_fact_was_shown(requests, turns)


def assert_prefixes_are_stable(requests: list[Any]) -> None:
    before: list[Any] = []
    for request in requests:
        if is_summary_call(request):
            before = []
            continue
        sent = messages_of(request.body)
        assert json.dumps(sent[: len(before)]) == json.dumps(before)
        before = sent


def assert_every_fact_was_shown(requests: list[Any], turns: int) -> None:
    shown = "".join(json.dumps(request.body) for request in requests if is_summary_call(request))
    left = json.dumps(requests[-1].body)
    for kind, step in (("FACT", 1), ("RESULT", 5)):
        numbers = {int(found) for found in re.findall(rf"{kind}-(\d+)", shown + left)}
        assert numbers >= set(range(0, turns - 1, step))
