"""OpenAI Chat Completions, as api.openai.com and its many emulators speak it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from compacting_client.formats import openai_chat as rules
from compacting_client.formats.base import Violation
from compacting_client.testing.script import Part, Thinking, ToolCall
from compacting_client.testing.wire import Json, Problem, Tokens, WireApi, event, fragments, items, new_id, table

__all__ = ["OpenAIChat"]

# status: (error.type, error.code, usual message)
ERRORS: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "The request is invalid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", None, "You are not allowed to do this."),
    404: ("invalid_request_error", None, "Not found."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    503: ("server_error", None, "The engine is currently overloaded, please try again later."),
}
SERVER_ERROR: tuple[str, str | None, str] = (
    "server_error",
    None,
    "The server had an error while processing your request.",
)


class OpenAIChat(WireApi):
    """`POST .../chat/completions`, plain and streamed."""

    name = "openai-chat"
    answers_at = "/chat/completions"

    def refuse(self, body: Json, /) -> Violation | None:
        """The first broken rule of this API."""
        return next(iter(rules.check(body)), None)

    def overflow(self, body: Json, tokens: int, window: int, /) -> Violation | None:
        """What the request reserves for the answer needs room in the window too."""
        asked = (body.get(name) for name in ("max_completion_tokens", "max_tokens"))
        reserved = next((size for size in asked if isinstance(size, int)), 0)
        if tokens + reserved <= window:
            return None
        message = (
            f"This model's maximum context length is {window} tokens. However, you requested {tokens + reserved} tokens "
            f"({tokens} in the messages, {reserved} in the completion). "
            "Please reduce the length of the messages or completion."
        )
        return Violation("context_length_exceeded", "messages", message)

    def prompt(self, body: Json, /) -> list[Any]:
        """Tools of either kind, then the messages, the system prompt among them."""
        tools = [body[name] for name in ("tools", "functions") if body.get(name)]
        return [*tools, *items(body.get("messages"))]

    def error(self, problem: Problem, /) -> Json:
        """`{"error": {message, type, param, code}}`."""
        kind, code, usual = ERRORS.get(problem.status, ERRORS[400] if problem.status < 500 else SERVER_ERROR)
        message = problem.message or usual
        return {"error": {"message": message, "type": kind, "param": problem.where, "code": problem.code or code}}

    def answer(self, body: Json, parts: Sequence[Part], tokens: Tokens, /) -> Json:
        """One `chat.completion` with one choice."""
        calls = [part for part in parts if isinstance(part, ToolCall)]
        return {
            "id": new_id("chatcmpl-"),
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model"),
            "choices": [
                {
                    "index": 0,
                    "message": _message(parts, calls),
                    "logprobs": None,
                    "finish_reason": "tool_calls" if calls else "stop",
                }
            ],
            "usage": {
                "prompt_tokens": tokens.prompt,
                "completion_tokens": tokens.answer,
                "total_tokens": tokens.prompt + tokens.answer,
                "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": tokens.thinking, "audio_tokens": 0},
            },
        }

    def stream(self, body: Json, answer: Json, /) -> Iterator[bytes]:
        """Its chunks, one of usage only where `stream_options` asks for it, and `[DONE]`."""
        with_usage = bool(table(body.get("stream_options")).get("include_usage"))
        choice = answer["choices"][0]
        head = {**{name: answer[name] for name in ("id", "created", "model")}, "object": "chat.completion.chunk"}
        spare: Json = {"usage": None} if with_usage else {}

        def chunk(delta: Json, finish: str | None = None) -> bytes:
            choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
            return event({**head, "choices": choices, **spare})

        for delta in _deltas(choice["message"]):
            yield chunk(delta)
        yield chunk({}, choice["finish_reason"])
        if with_usage:
            yield event({**head, "choices": [], "usage": answer["usage"]})
        yield b"data: [DONE]\n\n"


def _message(parts: Sequence[Part], calls: Sequence[ToolCall]) -> Json:
    text = "".join(part for part in parts if isinstance(part, str))
    message: Json = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
    thoughts = [part.text for part in parts if isinstance(part, Thinking)]
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id or new_id("call_"),
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)},
            }
            for call in calls
        ]
    return message


def _deltas(message: Json) -> Iterator[Json]:
    calls: list[Json] = message.get("tool_calls", [])
    yield {"role": "assistant", "content": None if calls and not message["content"] else "", "refusal": None}
    for name in ("reasoning_content", "content"):
        for piece in fragments(message.get(name) or ""):
            yield {name: piece}
    for index, call in enumerate(calls):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]}
        for piece in fragments(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
