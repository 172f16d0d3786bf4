"""What a model may answer in the place of a summary: nothing of it is ever sent as one (DESIGN 3.7)."""

import json
import threading
from typing import Any

import pytest
from anthropic.types import Message
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from compacting_client import Summarize, SummaryFailed, compacting
from compacting_client.bindings.questions import CHAT, GEMINI, MESSAGES, RESPONSES
from compacting_client.testing import EventCapture, Failure, Provider, Thinking, ToolCall
from tests.summaries.conversing import SDKS, Sdk, conversing, is_summary_call, turn

USELESS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "empty": ("", ("NoText",)),
    "blank": (" \n", ("NoText",)),
    "a tool call": (ToolCall("look_up", {"q": "SECRET"}), ("ToolCall",)),
    "a text and a tool call": (["SECRET", ToolCall("look_up")], ("ToolCall",)),
    "thinking alone": (Thinking("SECRET"), ("NoText",)),
    "rate limit": (Failure(429, "SECRET"), ("RateLimitError", "ClientError")),
    "no key": (Failure(401, "SECRET"), ("AuthenticationError", "ClientError")),
    "overloaded": (Failure(503, "SECRET"), ("InternalServerError", "ServiceUnavailableError", "ServerError")),
    "no JSON": (Failure(500, body="<html>SECRET</html>"), ("InternalServerError", "ServerError")),
}


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
@pytest.mark.parametrize("answer", USELESS)
def test_a_useless_answer_is_no_summary(sdk: Sdk, answer: str, awaited: bool) -> None:
    """One event with the class of the error; the request goes out within its budget; the next try is five requests later."""
    given, errors = USELESS[answer]
    events = EventCapture()
    policy = Summarize(max_messages=None, token_budget=600, keep_recent=4)

    def reply(request: Any) -> Any:
        return given if is_summary_call(request) else "Noted."

    with (
        Provider(default=reply) as provider,
        conversing(sdk, provider, lambda c: compacting(c, policy, on_event=events), awaited=awaited) as (_, send, _),
    ):
        history = [item for number in range(20) for item in turn(sdk, number)]
        for number in range(7):
            send([*history, sdk.user("And now?")])
            history += turn(sdk, 20 + number)
        requests = provider.requests
    asked = [request for request in requests if is_summary_call(request)]
    sent = [json.dumps(request.body) for request in requests if not is_summary_call(request)]
    assert [request.status for request in requests if request not in asked] == [200] * 7
    assert not any("SECRET" in body or "earlier_conversation" in body for body in sent)
    assert all(len(body) < 6_000 for body in sent)
    told = events.of(SummaryFailed)
    assert len(told) == len(asked) == 2
    assert {event.error for event in told} <= set(errors)
    assert "summary.created" not in events.names


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
def test_a_model_that_takes_too_long_is_not_waited_for(sdk: Sdk, awaited: bool) -> None:
    """After `timeout` seconds the request leaves, while the model still writes."""
    let, events = threading.Event(), EventCapture()

    def slowly(request: Any) -> str:
        if is_summary_call(request):
            assert let.wait(20)
        return "Noted."

    policy = Summarize(timeout=0.2)
    with (
        Provider(default=slowly) as provider,
        conversing(sdk, provider, lambda c: compacting(c, policy, on_event=events), awaited=awaited) as (_, send, _),
    ):
        send([*(item for number in range(20) for item in turn(sdk, number)), sdk.user("And now?")])
        assert [request.status for request in provider.requests if not is_summary_call(request)] == [200]
        let.set()
    assert [event.error for event in events.of(SummaryFailed)] in (
        ["TimeoutError"],
        ["APITimeoutError"],
        ["ReadTimeout"],
    )


def chat(**message: Any) -> Any:
    finish = message.pop("finish_reason", "stop")
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": None, **message}}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return CHAT, ChatCompletion.construct(choices=[choice], usage=usage)


def response(*output: Any, **fields: Any) -> Any:
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    return RESPONSES, Response.construct(output=list(output), usage=usage, **fields)


def said(*content: Any) -> Any:
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": list(content)}


def message(stop_reason: str, *content: Any) -> Any:
    usage = {"input_tokens": 7, "output_tokens": 3}
    return MESSAGES, Message.construct(stop_reason=stop_reason, content=list(content), usage=usage)


def generated(*parts: Any, finish: str | None = "STOP", **fields: Any) -> Any:
    candidates = [{"content": {"role": "model", "parts": parts}, "finish_reason": finish}] if finish else None
    usage = {"prompt_token_count": 7, "candidates_token_count": 3}
    return GEMINI, GenerateContentResponse.model_validate({"candidates": candidates, "usage_metadata": usage, **fields})


TEXT, THOUGHT = {"type": "text", "text": "A log."}, {"type": "thinking", "thinking": "Hm", "signature": "s"}
ANSWERS: dict[str, tuple[Any, str | None, str | None]] = {
    "chat: a text": (chat(content=" A log. "), "A log.", None),
    "chat: a refusal": (chat(refusal="I cannot."), None, "Refusal"),
    "chat: filtered": (chat(content="A l", finish_reason="content_filter"), None, "Refusal"),
    "chat: thought until the limit": (chat(content="", finish_reason="length"), None, "Truncated"),
    "chat: a text cut at the limit": (chat(content="A log", finish_reason="length"), "A log", None),
    "chat: half a text and an error": (chat(content="A l", finish_reason="error"), None, "Unfinished"),
    "chat: an ending of tomorrow": (chat(content="A l", finish_reason="paused"), None, "Unfinished"),
    "chat: a server that names no ending": (chat(content="A log.", finish_reason=None), "A log.", None),
    "chat: a server of open models": (chat(content="A log.", finish_reason="eos"), "A log.", None),
    "chat: thoughts in the text": (chat(content="<think>Hm, a\nlog?</think>\n\nA log."), "A log.", None),
    "chat: thoughts opened in the prompt": (chat(content="Hm\n</think>\n\nA log."), "A log.", None),
    "chat: thoughts alone": (chat(content="<think>Hm</think>"), None, "NoText"),
    "chat: thoughts cut at the limit": (chat(content="<think>Hm", finish_reason="length"), None, "Truncated"),
    "chat: a text that speaks of thoughts": (
        chat(content="It wrote <think>a</think>."),
        "It wrote <think>a</think>.",
        None,
    ),
    "responses: completed": (response(said({"type": "output_text", "text": "A."}), status="completed"), "A.", None),
    "responses: failed half way": (
        response(said({"type": "output_text", "text": "A l"}), status="failed", error={"code": "server_error"}),
        None,
        "Unfinished",
    ),
    "responses: cut at the limit": (
        response(
            said({"type": "output_text", "text": "A l"}),
            status="incomplete",
            incomplete_details={"reason": "max_output_tokens"},
        ),
        "A l",
        None,
    ),
    "messages: paused": (message("pause_turn", TEXT), None, "Unfinished"),
    "messages: the window is full": (message("model_context_window_exceeded", TEXT), None, "Truncated"),
    "messages: cut at the limit": (message("max_tokens", TEXT), "A log.", None),
    "gemini: a malformed call": (generated({"text": "A l"}, finish="MALFORMED_FUNCTION_CALL"), None, "ToolCall"),
    "gemini: another ending": (generated({"text": "A l"}, finish="OTHER"), None, "Unfinished"),
    "gemini: cut at the limit": (generated({"text": "A l"}, finish="MAX_TOKENS"), "A l", None),
    "responses: a text": (response(said({"type": "output_text", "text": "A log.", "annotations": []})), "A log.", None),
    "responses: a refusal": (response(said({"type": "refusal", "refusal": "I cannot."})), None, "Refusal"),
    "responses: a call": (
        response({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}),
        None,
        "ToolCall",
    ),
    "responses: thought until the limit": (
        response(
            {"type": "reasoning", "id": "r", "summary": []},
            status="incomplete",
            incomplete_details={"reason": "max_output_tokens"},
        ),
        None,
        "Truncated",
    ),
    "responses: nothing": (response(), None, "NoText"),
    "messages: a text after thoughts": (message("end_turn", THOUGHT, TEXT), "A log.", None),
    "messages: a refusal": (message("refusal", TEXT), None, "Refusal"),
    "messages: thought until the limit": (message("max_tokens", THOUGHT), None, "Truncated"),
    "messages: nothing": (message("end_turn"), None, "NoText"),
    "gemini: a text after thoughts": (generated({"text": "Hm", "thought": True}, {"text": "A log."}), "A log.", None),
    "gemini: thought until the limit": (
        generated({"text": "Hm", "thought": True}, finish="MAX_TOKENS"),
        None,
        "Truncated",
    ),
    "gemini: stopped for safety": (generated({"text": "A l"}, finish="SAFETY"), None, "Refusal"),
    "gemini: the question was blocked": (
        generated(finish=None, prompt_feedback={"block_reason": "PROHIBITED_CONTENT"}),
        None,
        "Refusal",
    ),
    "gemini: a call": (generated({"function_call": {"name": "f", "args": {}}}), None, "ToolCall"),
    "gemini: no candidate": (generated(finish=None), None, "NoText"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_is_read_for_what_it_is(case: str) -> None:
    """Text that is an answer, or the reason why there is none; and in any case what it has cost."""
    (question, answer), text, error = ANSWERS[case]
    found = question.answer(answer, "m")
    assert (found.text, found.error) == (text, error)
    assert (found.input_tokens, found.output_tokens) == (7, 3)
