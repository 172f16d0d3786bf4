"""Real long conversations through one wrapped client of each real SDK, resent whole before each answer, before the independent judge."""

from collections.abc import Callable
from typing import Any

import pytest
from anthropic import Anthropic
from google import genai
from openai import OpenAI

from compacting_client import Chain, DropOldest, KeepTurns, Policy, Report, compacting
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.testing import Provider
from tests.bindings.support import report_of
from tests.driving import Body, found
from tests.holding import asked, assert_question_is_there, counted, in_chat, in_gemini, native
from tests.shared import long_conversations

CLAUDE = {"model": "claude-opus-5-1", "thinking": {"type": "adaptive"}}


def through_openai(provider: Provider, policy: Policy) -> tuple[Any, Callable[[Body], Any]]:
    """A client, and how it is called with a body."""
    client = compacting(OpenAI(base_url=provider.openai_url, api_key="test", max_retries=0), policy, strict=True)
    return client, lambda body: client.chat.completions.create(**body)


def through_anthropic(provider: Provider, policy: Policy) -> tuple[Any, Callable[[Body], Any]]:
    """The same for Anthropic."""
    client = compacting(Anthropic(base_url=provider.anthropic_url, api_key="test", max_retries=0), policy, strict=True)
    return client, lambda body: client.messages.create(**body)


def through_google(provider: Provider, policy: Policy) -> tuple[Any, Callable[[Body], Any]]:
    """The same for Google; what stands beside the contents is the SDK's config."""
    connection = genai.types.HttpOptions(base_url=provider.google_url)
    client = compacting(genai.Client(api_key="test", http_options=connection), policy, strict=True)

    def call(body: Body) -> Any:
        config: Any = {"tools": body["tools"], "system_instruction": body["systemInstruction"]["parts"][0]["text"]}
        return client.models.generate_content(model=body["model"], contents=body["contents"], config=config)

    return client, call


LINES: dict[str, Any] = {
    "openai": (through_openai, openai_chat, lambda: in_chat(long_conversations()[12])),
    "anthropic": (
        through_anthropic,
        anthropic_messages,
        lambda: native(long_conversations("anthropic_native")[2], **CLAUDE),
    ),
    "google": (through_google, gemini_contents, lambda: in_gemini(long_conversations()[12])),
}


def policies(size: int) -> dict[str, Any]:
    """One of each kind."""
    return {
        "budget": DropOldest(size // 2),
        "turns": KeepTurns(3, remove_tool_msgs=True, slack=1),
        "chain": Chain(KeepTurns(10), DropOldest(size // 3)),
        "function": lambda messages: messages if len(messages) < 20 else messages[-8:],
    }


@pytest.mark.parametrize("name", policies(9))
@pytest.mark.parametrize("line", LINES)
def test_a_long_conversation_through_one_client(line: str, name: str, provider: Provider) -> None:
    """Every request arrives as the provider accepts it, with its question; cuts are made, and most requests only reuse one.

    Where tool sequences go as they end, there is something new on every other request.
    """
    through, wire, conversation = LINES[line]
    body = conversation()
    client, call = through(provider, policies(counted(wire, body))[name])
    history, reports = body[wire.FIELD], list[Report]()
    answered: list[tuple[Body, Any]] = []
    with client:
        for n in asked(body):
            prefix = {**body, wire.FIELD: history[:n]}
            reports.append(report_of(client, call(prefix)))
            arrived = {**provider.requests[-1].body, "model": body["model"]}
            assert provider.requests[-1].status == 200
            assert not found(wire.API, arrived, prefix, history=answered)
            if n < len(history) and wire is anthropic_messages:
                answered.append((arrived, history[n]["content"]))
            assert_question_is_there(arrived, prefix)
    changed = [report for report in reports if report.changed]
    assert changed
    assert any(report.trigger for report in changed)
    assert name == "turns" or sum(report.trigger is None for report in changed) >= len(changed) // 2
