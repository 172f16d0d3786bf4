"""Anthropic Messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from compacting_client.formats import anthropic_messages as rules
from compacting_client.formats.base import Violation
from compacting_client.testing.script import Part, Thinking, ToolCall
from compacting_client.testing.signatures import Signatures, bare
from compacting_client.testing.wire import Json, Problem, Tokens, WireApi, event, fragments, items, new_id

__all__ = ["AnthropicMessages"]

# status: (error.type, usual message)
ERRORS = {
    400: ("invalid_request_error", "The request is invalid."),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "You are not allowed to do this."),
    404: ("not_found_error", "Not found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your rate limit."),
    529: ("overloaded_error", "Overloaded"),
}
SERVER_ERROR = ("api_error", "Internal server error")


class AnthropicMessages(WireApi):
    """`POST .../v1/messages`, plain and streamed, and its `count_tokens`."""

    name = "anthropic-messages"
    answers_at = "/v1/messages"
    counts_at = "/v1/messages/count_tokens"

    def __init__(self) -> None:
        self._signatures = Signatures()

    def refuse(self, body: Json, /) -> Violation | None:
        """The first broken rule of this API, or else the first thinking block that stands in the wrong place."""
        return next(iter(rules.check(body)), None) or self._signatures.refuse(body)

    def overflow(self, _body: Json, tokens: int, window: int, /) -> Violation | None:
        """Room for the answer is no condition: since Claude 4.5 an answer without room ends early instead."""
        if tokens <= window:
            return None
        return Violation("prompt_too_long", "messages", f"prompt is too long: {tokens} tokens > {window} maximum")

    def prompt(self, body: Json, /) -> list[Any]:
        """Tools, system, messages."""
        return [*(body[name] for name in ("tools", "system") if body.get(name)), *items(body.get("messages"))]

    def identity(self, item: Any, /) -> Any:
        """A cache mark that moved on leaves the prompt the same."""
        return bare(item)

    def error(self, problem: Problem, /) -> Json:
        """`{"type": "error", "error": {type, message}, request_id}`."""
        kind, usual = ERRORS.get(problem.status, ERRORS[400] if problem.status < 500 else SERVER_ERROR)
        error = {"type": kind, "message": problem.message or usual}
        return {"type": "error", "error": error, "request_id": problem.request_id}

    def answer(self, body: Json, parts: Sequence[Part], tokens: Tokens, /) -> Json:
        """One `message`; its thinking is signed for the conversation it answers."""
        content = [_block(part) for part in parts if part != ""]
        self._signatures.bind(body, content)
        return {
            "id": new_id("msg_01"),
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": content,
            "stop_reason": "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": tokens.prompt - tokens.cached,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": tokens.cached,
                "output_tokens": tokens.answer,
            },
        }

    def stream(self, _body: Json, answer: Json, /) -> Iterator[bytes]:
        """Its events, from `message_start` to `message_stop`."""

        def named(kind: str, **fields: Any) -> bytes:
            return event({"type": kind, **fields}, kind)

        begun: Json = {**answer, "content": [], "stop_reason": None, "usage": {**answer["usage"], "output_tokens": 1}}
        yield named("message_start", message=begun)
        yield named("ping")
        for index, block in enumerate(answer["content"]):
            empty, deltas = _opened(block)
            yield named("content_block_start", index=index, content_block=empty)
            for delta in deltas:
                yield named("content_block_delta", index=index, delta=delta)
            yield named("content_block_stop", index=index)
        ending = {name: answer[name] for name in ("stop_reason", "stop_sequence")}
        yield named("message_delta", delta=ending, usage=answer["usage"])
        yield named("message_stop")


def _block(part: Part) -> Json:
    if isinstance(part, ToolCall):
        return {
            "type": "tool_use",
            "id": part.id or new_id("toolu_01"),
            "name": part.name,
            "input": dict(part.arguments),
        }
    if isinstance(part, Thinking):
        return {"type": "thinking", "thinking": part.text, "signature": new_id("sig")}
    return {"type": "text", "text": part}


def _opened(block: Json) -> tuple[Json, list[Json]]:
    """A block as a stream begins it, and the deltas that fill it."""
    if block["type"] == "tool_use":
        pieces = ["", *fragments(json.dumps(block["input"]))]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    if block["type"] == "thinking":
        deltas: list[Json] = [{"type": "thinking_delta", "thinking": piece} for piece in fragments(block["thinking"])]
        signed: Json = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
    return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in fragments(block["text"])]
