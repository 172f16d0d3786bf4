"""The recorded scenarios, played against their cassettes: three real SDKs, wrapped, with no server.

Requests are matched on method, path, query and body, so that a body that leaves otherwise than it was recorded finds no answer.  Where
that is meant, `make cassettes` records them anew.
"""

import functools
import importlib.util
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from vcr.errors import CannotOverwriteExistingCassetteException

from cassettes import journey
from cassettes.scenarios import SCENARIOS, Outcome, Scenario
from cassettes.tape import MATCH_ON, RECORDED, path_of, sent, tape
from compacting_client import Chain, DropOldest, KeepTurns
from compacting_client.policies.function import FunctionPolicy
from compacting_client.settings import policy_of
from tests.shared import judge

NOWHERE = "http://127.0.0.1:9"  # nobody listens there
LISTS = ("messages", "contents")
Body = dict[str, Any]


def _named(*scenarios: Scenario) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "name", [pytest.param(each.name, marks=_needs_httpx(each), id=each.name) for each in scenarios]
    )


def _needs_httpx(scenario: Scenario) -> Any:
    other = scenario.api == "gemini" and scenario.is_async and importlib.util.find_spec("aiohttp") is not None
    return pytest.mark.skipif(other, reason="google-genai sends async requests through aiohttp where it is installed")


every_scenario = _named(*SCENARIOS.values())
refused_ones = _named(*(each for each in SCENARIOS.values() if each.server == "llmock"))
oldest_ones = _named(*(each for each in SCENARIOS.values() if isinstance(each.policy, DropOldest)))


@functools.cache
def played(name: str) -> tuple[Outcome, list[Body]]:
    """What came of a scenario, and the bodies that it sent, in order."""
    with tape(name) as cassette:
        outcome = SCENARIOS[name].perform(NOWHERE)
        assert cassette.all_played
        return outcome, [sent(request) for request in cassette.requests]


@functools.cache
def written(name: str) -> list[Body]:
    """The bodies as the application wrote them: the same scenario without a policy, each request answered by how it ends."""
    bodies: list[Body] = []
    with tape(name, match_on=(*MATCH_ON[:-1], "end")) as cassette:
        play = cassette.play_response

        def playing(request: Any) -> Any:
            bodies.append(sent(request))
            return play(request)

        cassette.play_response = playing
        SCENARIOS[name].perform(NOWHERE, policy=False)
    return bodies


def _items(body: Body) -> list[Body]:
    items: list[Body] = next(body[field] for field in LISTS if field in body)
    return items


def _rest(body: Body) -> Body:
    return {field: value for field, value in body.items() if field not in LISTS}


@every_scenario
def test_every_request_leaves_as_it_was_recorded(name: str) -> None:
    """Each finds its answer, all that were recorded are sent, and answers, calls and events of streams reach the application."""
    scenario = SCENARIOS[name]
    outcome, bodies = played(name)
    assert len(outcome.reports) == len(bodies)
    if scenario.texts is not None:
        assert tuple(outcome.texts) == scenario.texts
        assert outcome.calls == sum(map(len, journey.STEPS)) * (journey.FOUND in outcome.texts)
    else:
        assert all(outcome.texts)
        assert outcome.calls == len(outcome.texts) >= 8
    assert (outcome.events > len(bodies)) == ("stream" in name or name == "anthropic-tool-runner-async")


@every_scenario
def test_long_scenarios_are_cut_and_cut_again(name: str) -> None:
    """At least two cuts are made while the history grows, and in later requests they are reused; no request is over its budget."""
    outcome, _ = played(name)
    assert {report.api for report in outcome.reports} == {SCENARIOS[name].api}
    assert sum(report.trigger is not None for report in outcome.reports) >= 2
    assert sum(bool(report.reused) for report in outcome.reports) >= 2
    assert all(report.fits for report in outcome.reports)


@every_scenario
def test_the_reports_have_the_servers_count(name: str) -> None:
    """Of every answered request, streams included; of a stream of OpenAI's only where the request asks for it."""
    outcome, _ = played(name)
    answered = [report for report in outcome.reports if not report.error]
    assert {report.usage is not None for report in answered} == {name != "openai-stream-helper"}
    if SCENARIOS[name].server == "aimock":
        assert {report.usage.input_tokens for report in answered if report.usage} <= {journey.COUNTED}


@every_scenario
def test_the_reports_say_what_left(name: str) -> None:
    """What was sent is what the application wrote, without what the report calls dropped, and other only where it says replaced."""
    outcome, bodies = played(name)
    for report, body, original in zip(outcome.reports, bodies, written(name), strict=True):
        gone = {index for unit in report.dropped for index in range(unit.first, unit.last + 1)}
        changed = {index for item in report.replaced for index in range(item.first, item.last + 1)}
        stay = [index for index in range(len(_items(original))) if index not in gone]
        assert len(_items(body)) == len(stay)
        for item, index in zip(_items(body), stay, strict=True):
            assert (item != _items(original)[index]) == (index in changed)
        assert _rest(body) == _rest(original)
        assert report.changed == (body != original)


@every_scenario
def test_the_judge_finds_nothing_in_what_was_sent(name: str) -> None:
    """An independent checker of the providers' rules, which sees what was written and what had been answered."""
    check = judge().check
    history: list[tuple[Body, Any]] = []
    _, bodies = played(name)
    with tape(name) as cassette:
        recorded = list(zip(cassette.requests, cassette.responses, strict=True))
    for (request, response), body, original in zip(recorded, bodies, written(name), strict=True):
        model = body.get("model") or request.path.rpartition("/")[2].partition(":")[0]
        assert not check(SCENARIOS[name].api, body, original=original, model=model, history=history)
        history.append((body, _answered(response)))


def _answered(response: Any) -> Any:
    """The content of a whole answer, as the judge takes it; nothing of a stream or an error."""
    try:
        answer = json.loads(response["body"]["string"])
    except ValueError:
        return []
    return answer.get("content") or [part for each in answer.get("candidates", ()) for part in each["content"]["parts"]]


def _misses(name: str, policy: Any) -> None:
    with tape(name), pytest.raises(Exception) as raised:  # noqa: PT011 - each SDK has its own class for it
        SCENARIOS[name].perform(NOWHERE, policy)
    error: BaseException | None = raised.value
    while error is not None and not isinstance(error, CannotOverwriteExistingCassetteException):
        error = error.__cause__ or error.__context__
    assert error is not None, f"failed of something else: {raised.value!r}"
    similar = error.cassette.find_requests_with_most_matches(error.failed_request)
    assert {matcher for *_, failures in similar for matcher, _ in failures} == {"body"}


@oldest_ones
def test_another_budget_does_not_find_its_request(name: str) -> None:
    """The bodies are those of this very budget: with three quarters of it, one leaves that was never recorded."""
    policy = SCENARIOS[name].policy
    _misses(name, replace(policy, max_tokens=policy.max_tokens * 3 // 4))


@every_scenario
def test_without_its_policy_no_scenario_finds_its_requests(name: str) -> None:
    """The cassettes hold what leaves the wrapped client, not what the application writes."""
    _misses(name, False)


@refused_ones
def test_the_server_refuses_the_same_history_without_a_policy(name: str) -> None:
    """It has a context window, and answered every other request of the scenario."""
    outcome, _ = played(name)
    [refusal] = outcome.refusals
    assert re.search("maximum context length|prompt is too long|exceeds the maximum number of tokens", refusal)
    assert [report.error is not None for report in outcome.reports] == [False] * (len(outcome.reports) - 1) + [True]


def test_all_apis_and_kinds_of_policies_are_recorded() -> None:
    """Sync and async, each API, each kind of policy, both servers; and a cassette for every scenario, with none left over."""
    scenarios = SCENARIOS.values()
    assert {path.stem for path in RECORDED.iterdir()} == SCENARIOS.keys()
    kinds = {type(policy_of(each.policy)) for each in scenarios}
    assert kinds == {DropOldest, KeepTurns, Chain, FunctionPolicy}
    for api in ("openai-chat", "anthropic-messages", "gemini"):
        assert {each.is_async for each in scenarios if each.api == api} == {True, False}
        assert {each.server for each in scenarios if each.api == api} == {"aimock", "llmock"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_cassette_tells_nothing_of_where_it_was_made(name: str) -> None:
    """No host, no port, no key, no header but the content type, no date."""
    text = path_of(name).read_text(encoding="utf-8")
    assert not re.search(
        r"127\.0\.0\.1|localhost|[aA]uthorization|[aA]pi-[kK]ey|[uU]ser-[aA]gent|x-stainless|GMT", text
    )
    with tape(name) as cassette:
        for request, response in zip(cassette.requests, cassette.responses, strict=True):
            assert request.host == "loopback"
            assert set(request.headers) == set(response["headers"]) == {"content-type"}
