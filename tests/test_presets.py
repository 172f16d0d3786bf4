"""The two presets: their text is in the system prompt, once and always the same, wherever the provider keeps that; the caller's data is as it was."""

import copy
import json
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types
from hypothesis import HealthCheck, given, settings

from compacting_client import Chain, ConfigError, DropOldest, Ledger, compacting, control, memory, presets
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.testing import Provider, Thinking, ToolCall
from tests.bindings.support import chat, claude, provider
from tests.driving import Body, found, history_of, leave, session
from tests.policies.ledgers import body_of, distinct, ledger, loop, says, user
from tests.strategies import SHAPES, chats

__all__ = ["chat", "claude", "provider"]
MANAGED, VERIFY = "Consult that record before you call a tool", "Plan: restate the task"
SYSTEM: dict[str, Any] = {"role": "system", "content": "Be brief."}
common = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def systems(body: Body) -> str:
    """All of the system prompt, as JSON."""
    fields = [body.get("system"), body.get("systemInstruction")]
    return json.dumps([*fields, [m for m in history_of(body) if m.get("role") in ("system", "developer")]])


@pytest.mark.parametrize("shape", SHAPES)
@common
@given(history=chats())
def test_the_text_is_there_once_and_the_request_is_accepted(shape: str, history: list) -> None:
    """In every API, with or without a system prompt of the caller's, which stays as it is; sent again it is the same."""
    wire, to_body = SHAPES[shape]
    body = to_body(history)
    before = copy.deepcopy(body)
    for policy, text in ((presets.managed(), MANAGED), (presets.verify(), VERIFY)):
        state = session(policy)
        sent = [leave(state, wire, body)[0] for _ in range(3)]
        assert body == before
        assert [systems(each).count(text) for each in sent] == [1, 1, 1]
        assert sent[0] == sent[1] == sent[2]
        assert not found(wire.API, sent[0], body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (body_of([SYSTEM, user("Q")]), "Be brief."),
        (body_of([user("Q")]), None),
    ],
)
def test_in_chat_it_is_the_end_of_the_system_message(body: Body, expected: str | None) -> None:
    """Of the caller's own, or of a new one in front."""
    sent, report = leave(session(presets.verify()), openai_chat, body)
    first = sent["messages"][0]
    assert first["role"] == "system"
    assert first["content"].startswith(expected or "Work in one reply")
    assert sent["messages"][1] is body["messages"][-1]
    assert (report.changed, report.trigger) == (True, "policy")


def test_in_the_other_apis_it_is_a_block_of_its_own() -> None:
    """Behind the caller's, so that their cache marks hold."""
    mark = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    body: Body = {"model": "claude-sonnet-4-6", "max_tokens": 9, "system": [mark], "messages": [user("Q")]}
    sent, _ = leave(session(presets.managed()), anthropic_messages, body)
    assert sent["system"][0] is mark
    assert MANAGED in sent["system"][1]["text"]
    contents: Body = {"model": "g", "contents": [{"role": "user", "parts": [{"text": "Q"}]}]}
    sent, _ = leave(session(presets.managed()), gemini_contents, contents)
    assert MANAGED in sent["systemInstruction"]["parts"][0]["text"]
    assert sent["contents"] == contents["contents"]


def test_managed_is_the_ledger_with_its_options() -> None:
    """The text stays the same while the loop grows, in stores that write things down too."""
    state = session(presets.managed(keep_result_chars=50, max_tokens=4_000))
    texts, sent = set[str](), dict[str, Any]()
    for n in range(1, 40):
        sent, report = leave(state, openai_chat, body_of([SYSTEM, user("Q"), *loop(n)]))
        texts.add(sent["messages"][0]["content"])
        assert report.fits
    assert len(texts) == 1
    assert len(ledger(sent)) == 38
    assert presets.managed(keep_result_chars=50) == presets.managed(keep_result_chars=50)
    assert presets.managed() != presets.managed(keep_result_chars=50)


def test_it_holds_in_later_turns_and_in_a_file(tmp_path: Any) -> None:
    """A new process finds the same prompt."""
    history = [SYSTEM, user("Q"), *loop(8), says("answer"), user("Q2"), *loop(3, 20)]
    sent = [
        leave(session(presets.managed(), memory=memory.File(tmp_path / "m.db")), openai_chat, body_of(history[:n]))[0]
        for n in (2, 18, 20, len(history), len(history))
    ]
    assert len({each["messages"][0]["content"] for each in sent}) == 1
    assert sent[-1] == sent[-2]


def test_verify_keeps_the_whole_history() -> None:
    """It only says how to answer; a chain may bound it."""
    body = body_of([SYSTEM, user("before " * 300), says("yes"), user("Q"), *loop(9)])
    sent, report = leave(session(presets.verify()), openai_chat, body)
    assert sent["messages"][1:] == body["messages"][1:]
    assert not report.dropped
    bounded, report = leave(session(Chain(presets.verify(), DropOldest(700))), openai_chat, body)
    assert VERIFY in bounded["messages"][0]["content"]
    assert report.dropped


def test_the_text_is_told_as_what_it_is() -> None:
    """One extended system prompt, nothing taken away."""
    _, report = leave(session(presets.verify()), openai_chat, body_of([user("Q")]))
    assert [(each.kind, each.roles, each.tokens) for each in report.replaced] == [("extended", ("system",), 0)]
    assert report.tokens_after > report.tokens_before


@pytest.mark.parametrize("shape", SHAPES)
def test_a_readable_report_says_that_the_system_prompt_was_extended(shape: str) -> None:
    """Not the item of the list beside which that is noted; the ledger of the same request is told by its item."""
    wire, to_body = SHAPES[shape]
    policy = presets.managed(keep_result_chars=20)
    _, report = leave(session(policy), wire, distinct(to_body([SYSTEM, user("Q"), *loop(8)])))
    lines = [line for line in str(report).splitlines() if "extended" in line]
    instruction, lines_of_calls = report.replaced
    assert (instruction.roles, lines_of_calls.roles) == (("system",), ("user",))
    assert f"  system prompt extended by {instruction.tokens_after - instruction.tokens} tokens" in lines
    assert f"  extended [{lines_of_calls.first}] " in "\n".join(lines)
    assert len(lines) == 2


@pytest.mark.parametrize("shape", SHAPES)
def test_the_tokens_of_the_instruction_are_told_apart_from_those_of_the_ledger(shape: str) -> None:
    """Both were decided with one item; each is told with its own tokens, and the instruction once, while the ledger grows."""
    wire, to_body = SHAPES[shape]
    alone = leave(session(presets.managed()), wire, to_body([SYSTEM, user("Q")]))[1].replaced[0].tokens_after
    told: list[Any] = []
    state = session(presets.managed(keep_result_chars=20), on_event=told.append)
    for n in (7, 8):
        _, report = leave(state, wire, distinct(to_body([SYSTEM, user("Q"), *loop(n)])))
        assert report.replaced[0].tokens_after == alone
        freed = sum(each.tokens for each in report.dropped)
        freed += sum(each.tokens - each.tokens_after for each in report.replaced)
        assert report.tokens_before - report.tokens_after == freed
    roles = [each.roles for each in told if each.name == "content.replaced"]
    assert roles == [("system",), ("user",), ("user",)]


def test_options_are_those_of_the_ledger() -> None:
    """Checked when the preset is made; its scope is set."""
    for wrong in ({"scope": "auto"}, {"nonsense": 1}, {"keep_result_chars": -1}):
        with pytest.raises(ConfigError):
            presets.managed(**wrong)


@pytest.mark.parametrize("preset", [presets.verify(), presets.managed(keep_result_chars=20)], ids=["verify", "managed"])
def test_thinking_stays_valid_in_loops_that_have_to_wait(
    provider: Provider, claude: anthropic.Anthropic, preset: Any
) -> None:
    """Signed thinking is bound to the system prompt too: the text is there from the first request on, whether or not it is remembered."""
    client: Any = compacting(claude, preset, recover=False)
    messages: list[Any] = []
    request: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 3_000, "system": "Be brief."}
    request |= {"thinking": {"type": "enabled", "budget_tokens": 1_024}}
    request["tools"] = [{"name": "get", "input_schema": {"type": "object"}}]
    for turn in range(3):
        messages.append(user(f"Q{turn}"))
        for n in range(5):
            provider.reply(Thinking(f"hm {n}"), *([ToolCall("get", {"id": n})] if n < 4 else ["done"]))
            answer = client.messages.create(messages=messages, **request)
            messages.append({"role": "assistant", "content": answer.content})
            blocks = [
                {"type": "tool_result", "tool_use_id": b.id, "content": "r"}
                for b in answer.content
                if b.type == "tool_use"
            ]
            messages += [user(blocks)] if blocks else []
            if (turn, n) == (0, 2):
                control(client).forget()
    assert {each.status for each in provider.requests} == {200}
    assert len({json.dumps(each.body["system"]) for each in provider.requests}) == 1


def test_through_the_real_sdks(provider: Provider, chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """Accepted, by requests of their own and by `with_policy` for one stage; the caller's arguments are as they were."""
    messages: Any = [user("Q")]
    compacting(chat, presets.verify()).chat.completions.create(model="m", messages=messages)
    assert VERIFY in provider.requests[-1].body["messages"][0]["content"]
    compacting(claude, presets.verify()).messages.create(model="claude-sonnet-4-6", max_tokens=9, messages=messages)
    assert VERIFY in provider.requests[-1].body["system"][0]["text"]
    client = compacting(chat, Ledger())
    control(client).with_policy(presets.managed()).chat.completions.create(model="m", messages=messages)
    assert MANAGED in provider.requests[-1].body["messages"][0]["content"]
    with genai.Client(api_key="test", http_options=types.HttpOptions(base_url=provider.google_url)) as google:
        config = types.GenerateContentConfig(system_instruction="Be brief.")
        wrapped = compacting(google, presets.managed())
        wrapped.models.generate_content(model="gemini-2.5-flash", contents="Q", config=config)
    parts = provider.requests[-1].body["systemInstruction"]["parts"]
    assert [MANAGED in part["text"] for part in parts] == [False, True]
    assert config.system_instruction == "Be brief."
    assert messages == [user("Q")]
