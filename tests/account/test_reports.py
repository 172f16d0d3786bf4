"""The report of a request: its fields, its text, its JSON."""

import copy
import dataclasses
import json
import pickle
from typing import Any

import anthropic
import openai
import pytest

from compacting_client import ClearToolResults, KeepTurns, Report, compacting, control, estimate_tokens
from compacting_client.testing import Provider
from tests.bindings.support import (
    BUDGET,
    CLAUDE,
    GPT,
    POLICY,
    chat_request,
    claude_request,
    history,
    report_of,
    sent,
    tool_history,
)

KEYS = [
    *("request_id", "api", "model", "policy", "trigger", "reason", "changed", "fits"),
    *("tokens_before", "tokens_after", "tokens_overhead", "messages_before", "messages_after", "duration_ms", "error"),
    *("truncated", "left_early", "usage", "savings", "summary_usage", "dropped", "replaced", "reused"),
]


def reports_of(client: Any, *requests: Any) -> list[Report]:
    create = client.chat.completions.create if hasattr(client, "chat") else client.messages.create
    return [report_of(client, create(**request)) for request in requests]


def test_a_changed_request(provider: Provider, chat: openai.OpenAI) -> None:
    """Every field says what became of the request: figures, trigger, what went, and the provider's own count."""
    messages = tool_history()
    (report,) = reports_of(compacting(chat, POLICY), chat_request(messages))
    assert (report.api, report.model, report.policy, report.trigger) == ("openai-chat", GPT, "DropOldest", "tokens")
    assert (report.changed, report.fits, report.reason, report.error, report.summary) == (True, True, None, None, None)
    assert (report.messages_before, report.messages_after) == (len(messages), len(sent(provider)))
    assert report.tokens_before > BUDGET >= report.tokens_after
    assert report.tokens_before - report.tokens_after == sum(unit.tokens for unit in report.dropped)
    assert 0 < report.tokens_overhead < report.tokens_after
    assert report.duration_ms > 0
    assert report.usage is not None
    assert report.usage.input_tokens == pytest.approx(report.tokens_after, rel=0.1)
    assert (report.replaced, report.reused, report.body, report.verdicts) == ([], [], None, ())
    assert len(report.request_id) == 16


def test_what_went_says_since_when(chat: openai.OpenAI) -> None:
    """`dropped` lists everything absent, each with its age, though most went in earlier requests."""
    client = compacting(chat, POLICY)
    growing: list[Any] = []
    reports = []
    for turn in range(1, 8):
        growing = history(turns=6 + turn, system=True)
        reports += reports_of(client, chat_request(growing))
    for report in reports:
        assert report.messages_before - report.messages_after == len(report.dropped)
    assert {unit.since for unit in reports[0].dropped} == {0}
    ages = [unit.since for unit in reports[-1].dropped]
    assert ages == sorted(ages, reverse=True)
    assert len(set(ages)) > 1
    assert max(ages) == len(reports) - 1


def test_system_and_tools_are_overhead(claude: anthropic.Anthropic) -> None:
    """`tokens_overhead` is what no cut can free; the system prompt is the first neutral message."""
    client = compacting(claude, 10_000)
    tool = {"name": "look_up", "description": "x" * 400, "input_schema": {"type": "object"}}
    bare, system, both = reports_of(
        client,
        claude_request(),
        claude_request(system="y" * 400),
        claude_request(system=[{"type": "text", "text": "y" * 400}], tools=[tool]),
    )
    assert bare.tokens_overhead == 0
    assert 100 <= system.tokens_overhead <= 115
    assert 100 <= both.tokens_overhead - system.tokens_overhead <= 130
    assert bare.messages_before == len(history())
    assert system.messages_before == both.messages_before == len(history()) + 1
    assert both.tokens_before - bare.tokens_before == both.tokens_overhead


def test_results_in_one_message_are_counted_one_by_one(claude: anthropic.Anthropic) -> None:
    """`messages_*` are neutral messages: one Anthropic item with two results and a text is three."""
    calls = [{"type": "tool_use", "id": f"toolu_{n}", "name": "look_up", "input": {}} for n in range(2)]
    results = [{"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": "found"} for n in range(2)]
    messages = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [*results, {"type": "text", "text": "And?"}]},
    ]
    (report,) = reports_of(compacting(claude, POLICY), claude_request(messages))
    assert report.messages_before == report.messages_after == 1 + 1 + 3


def test_an_unchanged_request(chat: openai.OpenAI) -> None:
    """A request that was looked at has a report too, with what was counted and why nothing was done."""
    messages = history(turns=1, system=True)
    (report,) = reports_of(compacting(chat, POLICY), chat_request(messages))
    assert (report.changed, report.fits, report.trigger, report.reason) == (False, True, None, "below trigger")
    assert report.tokens_before == report.tokens_after > 0
    assert report.messages_before == report.messages_after == len(messages)
    assert (report.dropped, report.replaced, report.reused) == ([], [], [])
    assert report.usage is not None


def test_a_request_that_cannot_fit(provider: Provider, chat: openai.OpenAI) -> None:
    """What must stay is over the budget: the best is sent, and the report says that it does not fit."""
    (report,) = reports_of(compacting(chat, 20), chat_request())
    assert (report.changed, report.fits) == (True, False)
    assert report.tokens_after > 20
    assert len(sent(provider)) < len(history(system=True))
    assert "still over the budget" in str(report)


def test_as_text(chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """`str()` of a report is read at a glance: what left, what went and when, what was used again, or why nothing was done."""
    client = compacting(chat, POLICY)
    first, second = reports_of(client, chat_request(tool_history()), chat_request(tool_history()))
    head, *lines = str(first).splitlines()
    assert head == (
        f"openai-chat {GPT} [DropOldest]: {first.tokens_before} -> {first.tokens_after} tokens, "
        f"{first.messages_before} -> {first.messages_after} messages"
    )
    assert lines[0].startswith("  dropped now: ")
    assert "look_up" in lines[0]
    assert "dropped 1 request ago" in str(second)
    assert "reused cut" in str(second)
    (skipped,) = reports_of(compacting(claude, 10_000), claude_request())
    assert str(skipped).startswith(f"anthropic-messages {CLAUDE} [DropOldest]: left as it was (below trigger), ")


def test_as_dict_is_json(provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """Its keys are always the same, its values JSON, whatever happened to the request; `summary` only with `log_content`."""
    for log_content in (False, True):
        client = compacting(chat, POLICY, log_content=log_content)
        also = compacting(claude, POLICY, log_content=log_content)
        content: Any = claude.messages.create(**claude_request(history(turns=1))).content
        typed = [*history(turns=2), {"role": "assistant", "content": content}, *history()]
        for report in (
            *reports_of(client, chat_request(tool_history()), chat_request(tool_history()), chat_request()),
            *reports_of(also, claude_request(typed), claude_request(history(turns=1))),
        ):
            assert list(report.as_dict()) == KEYS + ["summary"] * log_content
            again = json.loads(json.dumps(report.as_dict()))
            assert again["usage"] is None or set(again["usage"]) == {"input_tokens", "cached_tokens", "output_tokens"}
            assert all(("messages" in unit) is log_content for unit in again["dropped"])
    assert provider.requests[-1].status == 200


def test_cached_tokens_are_the_providers(chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """The second request is read from the prompt cache, since the cut did not move; `input_tokens` includes it in both APIs."""
    for client, request in ((compacting(chat, POLICY), chat_request()), (compacting(claude, POLICY), claude_request())):
        first, second = reports_of(client, request, request)
        assert first.usage is not None
        assert second.usage is not None
        assert first.usage.cached_tokens == 0
        assert second.usage.cached_tokens == second.usage.input_tokens == first.usage.input_tokens


def test_reports_of_derived_clients_are_found_from_either(chat: openai.OpenAI) -> None:
    """A family of clients shares its account: `report_for` and `last_report` of the one know the other's responses."""
    client = compacting(chat, POLICY)
    derived = client.with_options(timeout=30)
    response = derived.chat.completions.create(**chat_request())
    assert report_of(client, response) is report_of(derived, response)
    assert control(client).last_report is control(derived).last_report is report_of(client, response)


def test_a_request_that_is_only_reported_is_counted(chat: openai.OpenAI) -> None:
    """`compacting(client, False)` is for measuring first: the figures are there, of the messages as they were sent."""
    client = compacting(chat, False)
    messages: Any = history(turns=6)
    client.chat.completions.create(model="m", messages=messages)
    messages.append({"role": "user", "content": "later"})
    report = control(client).last_report
    assert report is not None
    assert report.tokens_before == report.tokens_after == sum(map(estimate_tokens, messages[:-1]))
    assert report.messages_before == len(messages) - 1
    assert "tokens in" in str(report)


def test_a_hundred_cuts_are_told_in_a_few_lines(chat: openai.OpenAI) -> None:
    """A policy that cuts on every turn leaves a report that can be read; `dropped` still has all of it."""
    client = compacting(chat, KeepTurns(2))
    for turns in range(1, 30):
        client.chat.completions.create(model="m", messages=history(turns=turns))  # type: ignore[arg-type]
    report = control(client).last_report
    assert report is not None
    assert len(str(report).splitlines()) < 10
    assert "to 26 requests ago" in str(report)
    assert len({unit.since for unit in report.dropped}) == 27


def test_a_report_can_be_copied_and_written_out(chat: openai.OpenAI) -> None:
    """Also as a plain dataclass: `replace` and `asdict` take it, read or not, and the copy has its figures."""
    client = compacting(chat, POLICY)
    for turns in (2, 8):
        report = report_of(client, client.chat.completions.create(model="m", messages=history(turns=turns)))  # type: ignore[arg-type]
        early = dataclasses.replace(report, model="other")
        assert dataclasses.asdict(report)["model"] == "m"
        assert report.tokens_before > 0
        late = dataclasses.replace(report, model="other")
        assert early.tokens_before == late.tokens_before == report.tokens_before
        assert copy.deepcopy(report).as_dict() == pickle.loads(pickle.dumps(report)).as_dict() == report.as_dict()
        assert f"tokens_before={report.tokens_before}" in repr(report)


def test_a_report_is_read_though_its_messages_were_emptied(claude: anthropic.Anthropic) -> None:
    """What was cleared in a message that the caller has emptied since is told without its text."""
    messages: list[Any] = [{"role": "user", "content": "Q"}]
    for n in range(0, 8, 2):
        ids = [f"toolu_{n}", f"toolu_{n + 1}"]
        asked = [{"type": "tool_use", "id": id_, "name": "get", "input": {"id": id_}} for id_ in ids]
        given = [{"type": "tool_result", "tool_use_id": id_, "content": "r" * 300} for id_ in ids]
        messages += [{"role": "assistant", "content": asked}, {"role": "user", "content": given}]
    tools = [{"name": "get", "input_schema": {"type": "object"}}]
    client = compacting(claude, ClearToolResults(1, max_tokens=200))
    (report,) = reports_of(client, {**claude_request(messages), "tools": tools})
    for message in messages[1:]:
        message["content"].clear()
    assert {each.kind for each in report.replaced} == {"cleared"}
    assert "r" * 300 not in json.dumps(report.as_dict())
