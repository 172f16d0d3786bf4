"""The recorded scenarios, played against their cassettes: three real SDKs, wrapped, with no server.

Requests are matched on method, path, query and body, so that a body that leaves otherwise than it was recorded finds no answer.  Where
that is meant, `make cassettes` records them anew.
"""

import functools
import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from vcr.errors import CannotOverwriteExistingCassetteException

from cassettes import journey
from cassettes.scenarios import SCENARIOS, Outcome, Scenario
from cassettes.tape import MATCH_ON, RECORDED, path_of, sent, tape
from compacting_client import Chain, ClearToolResults, DropOldest, KeepTurns, Ledger, Summarize
from compacting_client.core.summaries import INSTRUCTION
from compacting_client.policies.function import FunctionPolicy
from compacting_client.settings import policy_of
from tests.shared import judge

NOWHERE = "http://127.0.0.1:9"  # nobody listens there
LISTS = ("messages", "contents")
SYSTEMS = ("system", "systemInstruction")
# Of each kind of policy one setting, and another value for it.
OTHERWISE: dict[type, tuple[str, Any]] = {
    DropOldest: ("max_tokens", lambda budget: budget * 3 // 4),
    ClearToolResults: ("max_tokens", lambda budget: budget * 3 // 4),
    Summarize: ("keep_recent", lambda messages: messages // 2),
    Ledger: ("keep_result_chars", lambda characters: characters // 2),
}
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
set_ones = _named(*(each for each in SCENARIOS.values() if type(each.policy) in OTHERWISE))
summarised_ones = _named(*(each for each in SCENARIOS.values() if isinstance(each.policy, Summarize)))
cleared_ones = _named(*(each for each in SCENARIOS.values() if isinstance(each.policy, ClearToolResults)))
folded_ones = _named(*(each for each in SCENARIOS.values() if isinstance(each.policy, Ledger)))
managed_ones = _named(*(each for each in SCENARIOS.values() if each.name.endswith("managed")))


@functools.cache
def played(name: str) -> tuple[Outcome, list[Body]]:
    """What came of a scenario, and the bodies that it sent, in order; without the questions for summaries."""
    with tape(name) as cassette:
        outcome = SCENARIOS[name].perform(NOWHERE)
        assert cassette.all_played
        return outcome, [body for body in map(sent, cassette.requests) if not _asks_for_a_summary(body)]


def _asks_for_a_summary(body: Body) -> bool:
    return INSTRUCTION in json.dumps(_items(body)[-1])


@functools.cache
def written(name: str) -> list[Body]:
    """The bodies as the application wrote them: the same scenario without a policy, each request answered in its turn."""
    bodies: list[Body] = []
    with tape(name, match_on=MATCH_ON[:-1]) as cassette:
        cassette.data = [pair for pair in cassette.data if not _asks_for_a_summary(sent(pair[0]))]
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


def _system(body: Body) -> str:
    """The system prompt, wherever it stands."""
    first = _items(body)[0]
    found = first if first["role"] == "system" else next((body[field] for field in SYSTEMS if field in body), "")
    return "\n".join(_texts(found))


def _texts(value: Any) -> Iterator[str]:
    """Every text in a part of a body that is one, or is called text, parts or content."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        yield from _texts([value.get(field) for field in ("text", "parts", "content")])


def _rest(body: Body) -> Body:
    return {field: value for field, value in body.items() if field not in (*LISTS, *SYSTEMS)}


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
    """What was sent is what the application wrote, without what the report calls dropped, and other only where it says replaced.

    The system prompt is the application's too, or begins with it where the report says that text stands at its end.
    """
    outcome, bodies = played(name)
    for report, body, original in zip(outcome.reports, bodies, written(name), strict=True):
        gone = {index for unit in report.dropped for index in range(unit.first, unit.last + 1)}
        longer = any(item.roles == ("system",) for item in report.replaced)
        changed = {item.first for item in report.replaced if item.roles != ("system",)}
        assert {item.last for item in report.replaced if item.roles != ("system",)} == changed
        stay = [index for index in range(len(_items(original))) if index not in gone]
        assert len(_items(body)) == len(stay)
        for item, index in zip(_items(body), stay, strict=True):
            if item["role"] != "system":
                assert (item != _items(original)[index]) == (index in changed)
        assert _system(body).startswith(_system(original))
        # text at the question and at the end of the system prompt is told as one change, of the question
        assert (_system(body) != _system(original)) == (longer or (name.endswith("managed") and report.changed))
        assert _rest(body) == _rest(original)
        assert report.changed == (body != original)


@every_scenario
def test_the_judge_finds_nothing_in_what_was_sent(name: str) -> None:
    """An independent checker of the providers' rules, which sees what was written and what had been answered."""
    check = judge().check
    history: list[tuple[Body, Any]] = []
    _, bodies = played(name)
    with tape(name) as cassette:
        both = zip(cassette.requests, cassette.responses, strict=True)
        recorded = [(request, response) for request, response in both if not _asks_for_a_summary(sent(request))]
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


@set_ones
def test_another_setting_does_not_find_its_request(name: str) -> None:
    """The bodies are those of this very budget, or tail, or length: with another one, a body leaves that was never recorded."""
    policy = SCENARIOS[name].policy
    field, other = OTHERWISE[type(policy)]
    _misses(name, replace(policy, **{field: other(getattr(policy, field))}))


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


def _exchanged(name: str) -> list[tuple[str, Body, str]]:
    """The path, the body and the text of the answer of every request."""
    with tape(name) as cassette:
        both = zip(cassette.requests, cassette.responses, strict=True)
        return [(each.path, sent(each), answer["body"]["string"].decode()) for each, answer in both]


@summarised_ones
def test_a_summary_is_asked_once_and_stands_until_the_next(name: str) -> None:
    """On the same client, of the model that is named or of the request's own; what came back is in all bodies up to the next one.

    That one is asked with the summary before it, and with nothing that this one replaced.
    """
    outcome, _ = played(name)
    made = [report.summary_usage for report in outcome.reports if report.summary_usage]
    model = SCENARIOS[name].policy.model or outcome.reports[0].model
    assert [(usage.model, usage.input_tokens) for usage in made] == [(model, journey.COUNTED)] * len(made)
    standing, asked = "", 0
    for path, body, answer in _exchanged(name):
        said = json.dumps(body)
        if _asks_for_a_summary(body):
            assert len(_items(body)) == 1
            assert body.get("model", path) in (model, f"/v1beta/models/{model}:generateContent")
            assert (journey.question("Porto") in said) == (not asked)
            assert standing in said
            standing = next(text for text in _SUMMARIES if text in answer)
            asked += 1
        elif standing:
            assert said.count(standing) == 1
            assert journey.question("Porto") not in said
    assert asked == len(made) >= 2


_SUMMARIES = (
    *map(journey.summary, reversed(journey.CITIES)),
    journey.SUMMARY,
)  # each is looked for before its beginning


@cleared_ones
def test_cleared_results_leave_their_calls_and_the_newest_ones(name: str) -> None:
    """Every parcel that was asked for is told in full or cleared; the newest ones in full, and their number is what `keep` says at least."""
    outcome, bodies = played(name)
    policy = SCENARIOS[name].policy
    looked_up = [number for numbers in journey.STEPS for number in numbers]
    for report, body in zip(outcome.reports, bodies, strict=True):
        said = json.dumps(body)
        told = [f"parcel {number}: " in said for number in looked_up]
        done = sum(len(step) for step in journey.STEPS[: outcome.reports.index(report)])
        kept = sum(told)
        assert told == [done - kept <= each < done for each in range(len(looked_up))]
        assert kept >= min(policy.keep, done)
        assert said.count("older tool result cleared") == done - kept
        assert sum(map(_calls, _items(body))) == done


def _calls(item: Body) -> int:
    """How many calls an item has."""
    parts = item.get("tool_calls") or item.get("parts") or item["content"]
    kinds = ({part.get("type"), *part} for part in parts if isinstance(part, dict))
    return sum(bool({"function", "tool_use", "functionCall"} & kind) for kind in kinds)


@folded_ones
def test_no_call_is_lost_in_a_ledger(name: str) -> None:
    """In every body each parcel looked up before is told once: in its own message, or by its beginning in a line of the ledger."""
    _, bodies = played(name)
    for number, body in enumerate(bodies):
        said = json.dumps(body)
        looked_up = [each for step in journey.STEPS[:number] for each in step]
        assert [said.count(f"parcel {each}: ramp {each} at 4:") for each in looked_up] == [1] * len(looked_up)
    assert "characters; calling it again returns the rest" in json.dumps(bodies[-1])


@managed_ones
def test_the_preset_says_one_thing_in_every_request(name: str) -> None:
    """At the end of the system prompt, always the same; earlier turns are a note, and of the call that is repeated there is one result."""
    _, [*wrapped, bare] = played(name)
    assert len({_system(body) for body in wrapped}) == 1
    assert _system(wrapped[0]).startswith(f"{_system(bare)}\n")
    assert "<earlier_conversation>" in json.dumps(wrapped[-1])
    results = [json.dumps(body).count(" in order; now on its way") for body in wrapped]
    assert set(results[1:]) == {1}
    lines = ["<tool_results>" in json.dumps(body) for body in wrapped]
    assert lines[4::2] == [True] * len(lines[4::2])  # the result of the turn before
    assert not any(lines[5::2])  # but not beside a newer one


def test_all_apis_and_kinds_of_policies_are_recorded() -> None:
    """Sync and async, each API, each kind of policy, both servers; and a cassette for every scenario, with none left over.

    The policies that write into the history are streamed and not, sync and async, on each API; the ledger by itself and as a preset.
    """
    scenarios = SCENARIOS.values()
    assert {path.stem for path in RECORDED.iterdir()} == SCENARIOS.keys()
    kinds = {type(policy_of(each.policy)) for each in scenarios}
    assert kinds == {DropOldest, KeepTurns, Chain, FunctionPolicy, Summarize, ClearToolResults, Ledger}
    for prefix in ("openai", "anthropic", "gemini"):
        for pair in (("summarize", "summarize-stream"), ("clear", "clear-stream"), ("managed", "ledger-stream")):
            assert {SCENARIOS[f"{prefix}-{each}"].is_async for each in pair} == {True, False}
    for api in ("openai-chat", "anthropic-messages", "gemini"):
        assert {each.is_async for each in scenarios if each.api == api} == {True, False}
        assert {each.server for each in scenarios if each.api == api} == {"aimock", "llmock"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_cassette_tells_nothing_of_where_it_was_made(name: str) -> None:
    """No host, no port, no path, no key, no header but the content type, no date."""
    text = path_of(name).read_text(encoding="utf-8")
    assert not re.search(
        r"127\.0\.0\.1|localhost|[aA]uthorization|[aA]pi-[kK]ey|[uU]ser-[aA]gent|x-stainless|GMT|npmjs|pypi|/(?:tmp|home|root|usr|var|Users)/",
        text,
    )
    with tape(name) as cassette:
        for request, response in zip(cassette.requests, cassette.responses, strict=True):
            assert request.host == "loopback"
            assert set(request.headers) == set(response["headers"]) == {"content-type"}
