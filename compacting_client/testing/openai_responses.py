"""OpenAI Responses: what a summary, or any other call without a history on the server, needs of it.

Items are not judged, and nothing is stored: a request that goes on from a stored response is answered as if it stood alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from compacting_client.formats.base import Violation
from compacting_client.testing.openai_chat import OpenAIChat
from compacting_client.testing.script import Part, Thinking, ToolCall
from compacting_client.testing.wire import Json, Tokens, event, fragments, items, new_id, table

__all__ = ["OpenAIResponses"]


class OpenAIResponses(OpenAIChat):
    """`POST .../responses`, plain and streamed; its errors are those of chat completions."""

    name = "openai-responses"
    answers_at = "/responses"

    def refuse(self, body: Json, /) -> Violation | None:
        """A request without input."""
        if body.get("input"):
            return None
        return Violation("or-empty", "input", "Missing required parameter: 'input'.")

    def overflow(self, _body: Json, tokens: int, window: int, /) -> Violation | None:
        """Room for the answer is no condition."""
        if tokens <= window:
            return None
        message = "Your input exceeds the context window of this model. Please adjust your input and try again."
        return Violation("context_length_exceeded", "input", message)

    def prompt(self, body: Json, /) -> list[Any]:
        """Tools, instructions, input."""
        outside = [body[name] for name in ("tools", "instructions") if body.get(name)]
        given = body.get("input")
        return [*outside, *([given] if isinstance(given, str) else items(given))]

    def answer(self, body: Json, parts: Sequence[Part], tokens: Tokens, /) -> Json:
        """One `response`, completed."""
        text = "".join(part for part in parts if isinstance(part, str))
        said: list[Json] = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}] if text else []
        output: list[Json] = [_reasoning(part) for part in parts if isinstance(part, Thinking)]
        if said:
            message = {"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed"}
            output.append({**message, "content": said})
        output += [_call(part) for part in parts if isinstance(part, ToolCall)]
        return {
            "id": new_id("resp_"),
            "object": "response",
            "created_at": int(time.time()),
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "metadata": {},
            "model": body.get("model"),
            "output": output,
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": items(body.get("tools")),
            "top_p": 1.0,
            "usage": {
                "input_tokens": tokens.prompt,
                "input_tokens_details": {"cached_tokens": tokens.cached},
                "output_tokens": tokens.answer,
                "output_tokens_details": {"reasoning_tokens": tokens.thinking},
                "total_tokens": tokens.prompt + tokens.answer,
            },
        }

    def stream(self, _body: Json, answer: Json, /) -> Iterator[bytes]:
        """Its beginning, its texts in pieces, and all of it at the end."""
        number = 0

        def numbered(kind: str, **fields: Any) -> bytes:
            nonlocal number
            number += 1
            return event({"type": kind, "sequence_number": number, **fields}, kind)

        yield numbered("response.created", response={**answer, "status": "in_progress", "output": [], "usage": None})
        for place, item in enumerate(answer["output"]):
            empty = {**item, "content": []} if "content" in item else item
            yield numbered("response.output_item.added", output_index=place, item=empty)
            for index, part in enumerate(items(item.get("content"))):
                where = {"item_id": item["id"], "output_index": place, "content_index": index}
                yield numbered("response.content_part.added", part={**table(part), "text": ""}, **where)
                for piece in fragments(str(table(part).get("text") or "")):
                    yield numbered("response.output_text.delta", delta=piece, logprobs=[], **where)
            yield numbered("response.output_item.done", output_index=place, item=item)
        yield numbered("response.completed", response=answer)


def _reasoning(part: Thinking) -> Json:
    return {"type": "reasoning", "id": new_id("rs_"), "summary": [{"type": "summary_text", "text": part.text}]}


def _call(part: ToolCall) -> Json:
    arguments = json.dumps(dict(part.arguments), ensure_ascii=False)
    call = {"type": "function_call", "id": new_id("fc_"), "call_id": part.id or new_id("call_"), "status": "completed"}
    return {**call, "name": part.name, "arguments": arguments}
