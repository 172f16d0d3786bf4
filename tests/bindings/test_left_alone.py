"""What must not be touched: counting, batches, histories that the server holds, requests for the provider's own compaction, other APIs."""

from typing import Any

import anthropic
import openai
import pytest

from compacting_client import CompactionSkipped, Report, compacting, control
from compacting_client.testing import EventCapture, Provider
from tests.bindings.support import (
    CLAUDE,
    GPT,
    POLICY,
    chat_request,
    claude_request,
    history,
    params,
    report_of,
    sent,
)

HELD = {
    "thread continue": (
        {"extra_body": {"thread": {"type": "continue", "previous_message_id": "msg_1"}}},
        "the server holds the history",
    ),
    "compaction": ({"extra_body": {"compaction": {"type": "summarize"}}}, "the provider is asked to compact"),
    "context_management": (
        {"context_management": {"edits": [{"type": "compact_20260112"}]}, "betas": ["compact-2026-01-12"]},
        "the provider is asked to compact",
    ),
}


@pytest.mark.parametrize(("more", "reason"), [pytest.param(*held, id=name) for name, held in HELD.items()])
def test_server_held_histories(provider: Provider, claude: anthropic.Anthropic, more: Any, reason: str) -> None:
    """The history arrives whole, with an event and a report that say why."""
    events = EventCapture()
    client = compacting(claude, POLICY, on_event=events)
    response = client.beta.messages.create(**claude_request(**more))
    assert sent(provider) == history()
    report = report_of(client, response)
    assert (report.changed, report.reason) == (False, reason)
    (skipped,) = events.of(CompactionSkipped)
    assert (skipped.reason, skipped.api, skipped.request_id) == (reason, "anthropic-messages", report.request_id)


def test_clearing_of_tool_uses_by_the_provider_is_no_obstacle(provider: Provider, claude: anthropic.Anthropic) -> None:
    """Only edits that compact are the provider's own compaction; others leave the history to us."""
    edits: Any = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    compacting(claude, POLICY).beta.messages.create(**claude_request(context_management=edits))
    assert len(sent(provider)) < len(history())


COUNTS = {
    "count_tokens": lambda c: c.messages.count_tokens(model=CLAUDE, messages=history()),
    "beta count_tokens": lambda c: c.beta.messages.count_tokens(model=CLAUDE, messages=history()),
}


@pytest.mark.parametrize("count", params(COUNTS))
def test_counting_measures_what_it_is_given(provider: Provider, claude: anthropic.Anthropic, count: Any) -> None:
    """`count_tokens` sends the whole history; there is nothing to report."""
    client = compacting(claude, POLICY)
    assert count(client).input_tokens == count(claude).input_tokens
    assert sent(provider, 0) == sent(provider, 1) == history()
    assert control(client).last_report is None


BATCHES = {
    "batches": lambda c, r: c.messages.batches.create(requests=r),
    "beta batches": lambda c, r: c.beta.messages.batches.create(requests=r),
}


@pytest.mark.parametrize("create", params(BATCHES))
def test_batches(provider: Provider, claude: anthropic.Anthropic, create: Any) -> None:
    """Requests of a batch are stored as they are."""
    requests = [{"custom_id": "one", "params": claude_request()}]
    with pytest.raises(anthropic.NotFoundError):  # the loopback provider has no batches
        create(compacting(claude, POLICY), requests)
    assert provider.requests[0].body["requests"] == requests


RESPONSES = {
    "create": lambda c, i: c.responses.create(model=GPT, input=i),
    "streamed": lambda c, i: c.responses.create(model=GPT, input=i, stream=True),
    "beta": lambda c, i: c.beta.responses.create(model=GPT, input=i),
    "raw": lambda c, i: c.responses.with_raw_response.create(model=GPT, input=i),
}


@pytest.mark.parametrize("create", params(RESPONSES))
def test_the_responses_api_is_left_alone_and_says_so(provider: Provider, chat: openai.OpenAI, create: Any) -> None:
    """The input arrives whole; one event and one report tell that this API is not supported yet."""
    events, reports = EventCapture(), EventCapture()
    client = compacting(chat, POLICY, on_event=events, on_report=reports)
    response = create(client, history())
    if hasattr(response, "close"):
        response.close()
    assert provider.requests[0].body["input"] == history()
    (skipped,) = events.events
    assert isinstance(skipped, CompactionSkipped)
    assert (skipped.api, skipped.model) == ("openai-responses", GPT)
    assert "not supported" in skipped.reason
    (report,) = reports.of(Report)
    assert control(client).last_report is report
    assert (report.request_id, report.error, report.changed) == (skipped.request_id, None, False)


OTHERS = {
    "embeddings": lambda c: c.embeddings.create(model="e", input=["x" * 5000]),
    "moderations": lambda c: c.moderations.create(model="m", input=["x" * 5000]),
    "completions": lambda c: c.completions.create(model="m", prompt="x" * 5000),
    "models": lambda c: c.models.list(),
    "files": lambda c: c.files.create(file=b"x" * 5000, purpose="batch"),
    "batches": lambda c: c.batches.create(completion_window="24h", endpoint="/v1/chat/completions", input_file_id="f"),
    "a stored completion": lambda c: c.chat.completions.update("chatcmpl-1", metadata={"a": "b"}),
    "messages of a stored completion": lambda c: c.chat.completions.messages.list("chatcmpl-1"),
}


@pytest.mark.parametrize("call", params(OTHERS))
def test_unrelated_resources_work_as_they_did(provider: Provider, chat: openai.OpenAI, call: Any) -> None:
    """They send what the plain client sends, and leave no trace in the account."""
    events = EventCapture()
    client = compacting(chat, 1, on_event=events, on_report=events)
    for each in (chat, client):
        with pytest.raises(openai.NotFoundError):
            call(each)
    seen = [(request.path, request.body) for request in provider.requests]  # of POSTs only
    assert seen[:1] == seen[1:]
    assert events.events == []
    assert control(client).last_report is None


@pytest.mark.parametrize("method", ["get", "put", "patch", "delete"])
def test_only_posts_carry_a_history(chat: openai.OpenAI, method: str) -> None:
    """Another HTTP method on the same path is none of our business."""
    events = EventCapture()
    with pytest.raises(openai.NotFoundError):
        getattr(compacting(chat, 1, on_event=events), method)("/chat/completions", cast_to=object)
    assert events.events == []


def test_off(provider: Provider, chat: openai.OpenAI) -> None:
    """`False` sends everything, with a report on each request."""
    client = compacting(chat, False)
    response = client.chat.completions.create(**chat_request())
    assert sent(provider) == history(system=True)
    report = report_of(client, response)
    assert (report.policy, report.reason, report.changed) == ("off", "off", False)


def test_a_short_history_leaves_as_the_very_same_options(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, claude: anthropic.Anthropic
) -> None:
    """Below the budget nothing is copied on the way: behind the wrapper the SDK gets the object that it made before it."""
    seen: list[Any] = []

    def noted(method: Any) -> Any:
        def request(cast_to: Any, options: Any, **more: Any) -> Any:
            seen.append(options)
            return method(cast_to, options, **more)

        return request

    monkeypatch.setattr(claude, "request", noted(claude.request))
    client = compacting(claude, POLICY)
    monkeypatch.setattr(client, "request", noted(client.request))
    messages = history(turns=1)
    client.messages.create(**claude_request(messages))
    assert seen[0] is seen[1]
    assert seen[0].json_data["messages"] is messages
    client.messages.create(**claude_request())
    assert seen[2] is not seen[3]
    assert seen[2].json_data["messages"] == history()
    assert sent(provider, 0) == messages
