"""The cases of Gemini, word for word, and every other body of the cases in its shape."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai import types

from compacting_client import Chain, KeepTurns, Policy, compacting
from compacting_client.formats import gemini_contents
from compacting_client.policies import FunctionPolicy
from compacting_client.testing import Provider
from tests.cases.bench import CHAT, Body, case, covers, drop_oldest, report_of, weight
from tests.cases.neighbours import PLACES, body_of
from tests.cases.test_every_body import BODIES
from tests.holding import asked, budget_of, holds, resends
from tests.strategies import to_gemini

TARGETS = (1.0, 0.5)


@pytest.fixture
def client(provider: Provider) -> Iterator[Any]:
    """A plain client of the SDK."""
    with genai.Client(api_key="test", http_options=types.HttpOptions(base_url=provider.google_url)) as connected:
        yield connected


def typed(contents: list[Body]) -> list[Any]:
    """The contents as objects of the SDK, signatures as bytes."""
    return [types.Content.model_validate(content) for content in copy.deepcopy(contents)]


@covers("024")
@pytest.mark.parametrize("given", [copy.deepcopy, typed])
@pytest.mark.parametrize("target", TARGETS)
def test_a_kept_call_keeps_its_signature(target: float, given: Any, provider: Provider, client: Any) -> None:
    """The old turn goes; the call leaves with its signature, as it came (karthink/gptel#1146), typed objects too."""
    body = case("024")["request"]
    wrapped = compacting(client, drop_oldest(case("024")["policy"], target), strict=True)
    response = wrapped.models.generate_content(model=body["model"], contents=given(body["contents"]))
    arrived = provider.requests[-1].body["contents"]
    assert [part.get("text") for content in arrived for part in content["parts"]] == ["List skills", None, None]
    (part,) = arrived[1]["parts"]
    assert part.get("thought_signature", part.get("thoughtSignature")) == "c2lnLTE="
    assert report_of(wrapped, response).fits


@covers("030")
@pytest.mark.parametrize("target", TARGETS)
def test_tools_and_system_instruction_of_the_config_count_and_are_passed_on(
    target: float, provider: Provider, client: Any
) -> None:
    """They are most of the request: it is over the budget, and the report has their part of it (linanwx/nagobot#84).

    At a target of 1.0 the two old messages go all the same; else it is not worth it, since no cut can make it fit.
    """
    request, policy = case("030")["request"], drop_oldest(case("030")["policy"], target)
    config, before = request["config"], copy.deepcopy(request)
    client.models.generate_content(**request)
    untouched = provider.requests[-1].body
    wrapped = compacting(client, policy, strict=True)
    report = report_of(wrapped, wrapped.models.generate_content(**request))
    arrived = provider.requests[-1].body
    assert request == before
    outside = weight(config["tools"]) + weight({"role": "system", "content": config["system_instruction"]})
    assert outside > (policy.budget or 0) > sum(map(weight, request["contents"]))
    assert (report.tokens_overhead, report.fits) == (outside, False)
    assert report.tokens_before == outside + sum(map(weight, request["contents"]))
    assert {**arrived, "contents": 0} == {**untouched, "contents": 0}
    assert arrived["contents"] == (untouched["contents"] if target < 1 else untouched["contents"][-1:])
    assert (report.trigger, report.reason) == ((None, "nothing older") if target < 1 else ("tokens", None))


def in_gemini(body: Body) -> Body:
    """A body of chat completions in Gemini's shape."""
    return to_gemini([{**message, "content": text_of(message.get("content"))} for message in body["messages"]])


def text_of(content: Any) -> Any:
    """The texts of a content list; pictures are left out."""
    return " ".join(part.get("text", "") for part in content) if isinstance(content, list) else content


def policies(body: Body) -> Iterator[Policy]:
    """One of each kind, at several budgets."""
    for target in TARGETS:
        for share in (0.35, 0.7):
            yield budget_of(gemini_contents, body, share, target=target)
        yield budget_of(gemini_contents, body, 0.5, keep_head=0, keep_tail=1, target=target)
    for turns in (1, 3, 10):
        yield KeepTurns(turns)
        yield KeepTurns(turns, remove_tool_msgs=True)
    yield Chain(KeepTurns(3), budget_of(gemini_contents, body, 0.4))
    yield FunctionPolicy(lambda messages: messages[-3:])
    yield FunctionPolicy(lambda messages: copy.deepcopy(messages[1::2]))


@covers(*BODIES)
@pytest.mark.parametrize("id_", BODIES)
def test_every_body_stays_sound_in_geminis_shape(id_: str) -> None:
    """At every place of a longer history, under every policy: nothing is newly refused, the question stays."""
    for place in PLACES:
        body = in_gemini(place(body_of(id_, CHAT)))
        for policy in policies(body):
            holds(gemini_contents, body, policy)


@covers(*BODIES)
@pytest.mark.parametrize("id_", BODIES)
def test_every_body_stays_sound_while_it_grows(id_: str) -> None:
    """The same with the remembered cuts of one client."""
    body = in_gemini(PLACES[-1](body_of(id_, CHAT)))
    prefixes = [{**body, "contents": body["contents"][:n]} for n in asked(body)]
    for policy in policies(body):
        resends(gemini_contents, prefixes, policy, [None] * len(prefixes))
