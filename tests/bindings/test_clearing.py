"""ClearToolResults through the real SDKs: a tool loop of 14 calls for each, whose history the application keeps as the SDK gave it."""

import json
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from compacting_client import ClearToolResults, compacting
from compacting_client.testing import EventCapture, Provider, Thinking, ToolCall
from tests.bindings.support import CLAUDE, GPT

STEPS = 14
POLICY = ClearToolResults(3, clear_inputs=True)
ASKED = "Read all logs."


def log_of(day: int) -> str:
    """The log of a day."""
    return f"day {day}: " + "wind NW 5, course 270. " * 30


def scripted(provider: Provider, *, thinks: bool = False) -> None:
    """Fourteen calls, and an answer."""
    for day in range(STEPS):
        thought = [Thinking(f"Day {day} is next.")] if thinks else []
        provider.reply(*thought, ToolCall("read_log", {"day": day, "note": "n " * 40}))
    provider.reply("All well.")


def assert_cleared(provider: Provider, reports: EventCapture, emptied: str, calls: int = 10) -> None:
    """With the thirteenth result ten are cleared, and `calls` calls emptied; all is accepted, and the next request begins as that one."""
    assert [request.refusal for request in provider.requests] == [None] * (STEPS + 1)
    assert [n for n, report in enumerate(reports.events) if report.trigger] == [STEPS - 1]
    assert {each.kind for each in reports.events[-1].replaced} >= {"cleared"}
    assert reports.events[-1].reused
    sent = [json.dumps(request.body) for request in provider.requests]
    assert [body.count("older tool result cleared") for body in sent] == [0] * 13 + [10, 10]
    assert [sent[-1].count(f"day {day}: wind") for day in range(STEPS)] == [0] * 10 + [1] * 4
    assert sent[-1].count(emptied) == calls
    assert "error" not in sent[-1]
    before, after = (request.body.get("messages") or request.body["contents"] for request in provider.requests[-2:])
    assert after[: len(before)] == before
    assert reports.events[-1].usage.cached_tokens > 0


def test_chat_completions(provider: Provider, chat: openai.OpenAI) -> None:
    """Answers of the SDK's own classes stay in the application's list as they are."""
    scripted(provider)
    client = compacting(chat, POLICY, on_report=(reports := EventCapture()))
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    while True:
        answer = client.chat.completions.create(model=GPT, messages=messages).choices[0].message
        messages.append(answer)
        if not answer.tool_calls:
            break
        for call in answer.tool_calls:
            assert call.type == "function"
            content = log_of(json.loads(call.function.arguments)["day"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    assert_cleared(provider, reports, '"arguments": "{}"')
    assert json.loads(messages[1].tool_calls[0].function.arguments)["day"] == 0


@pytest.mark.parametrize(("model", "thinks"), [(CLAUDE, False), (CLAUDE, True), ("claude-opus-5-1", True)])
def test_anthropic_messages(provider: Provider, claude: anthropic.Anthropic, model: str, thinks: bool) -> None:
    """With thinking too: where it is bound, what came before the step is removed, and what comes after it stays."""
    scripted(provider, thinks=thinks)
    client = compacting(claude, POLICY, on_report=(reports := EventCapture()))
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    thinking: Any = {"thinking": {"type": "adaptive"}} if thinks else {}
    while True:
        answer = client.messages.create(model=model, max_tokens=100, messages=messages, **thinking)
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            break
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": log_of(dict(call.input)["day"])}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    assert_cleared(provider, reports, '"input": {}')
    left = json.dumps(provider.requests[-1].body).count("is next.")
    assert left == (0 if not thinks else STEPS if model == CLAUDE else 1)


@pytest.mark.parametrize(("model", "emptied"), [("gemini-2.5-flash", 10), ("gemini-3-pro", 0)])
def test_gemini(provider: Provider, model: str, emptied: int) -> None:
    """Where calls are signed, they keep their arguments."""
    scripted(provider)
    options = types.HttpOptions(base_url=provider.google_url)
    reports = EventCapture()
    with compacting(genai.Client(api_key="test", http_options=options), POLICY, on_report=reports) as client:
        contents: list[Any] = [types.UserContent(ASKED)]
        while True:
            response = client.models.generate_content(model=model, contents=contents)
            assert response.candidates
            contents.append(response.candidates[0].content)
            if not response.function_calls:
                break
            results = [
                types.Part.from_function_response(
                    name=call.name or "", response={"result": log_of(dict(call.args or {})["day"])}
                )
                for call in response.function_calls
            ]
            contents.append(types.Content(role="user", parts=results))
    assert_cleared(provider, reports, '"args": {}', emptied)
