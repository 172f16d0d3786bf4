"""Gemini's generateContent, as the Gemini API and Vertex speak it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from compacting_client.formats import gemini_contents as rules
from compacting_client.formats.base import Violation
from compacting_client.formats.gemini_contents.parts import field
from compacting_client.formats.gemini_contents.rules import signatures, signs
from compacting_client.testing.script import Part, Recorded, Thinking, ToolCall
from compacting_client.testing.wire import Json, Problem, Tokens, WireApi, event, fragments, items, new_id, table

__all__ = ["Gemini"]

# status: (error.status, usual message)
ERRORS = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "The caller does not have permission"),
    404: ("NOT_FOUND", "Requested entity was not found."),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    500: ("INTERNAL", "An internal error has occurred."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    504: ("DEADLINE_EXCEEDED", "The request timed out. Please try again."),
}


class Gemini(WireApi):
    """`POST .../models/<model>:generateContent`, `:streamGenerateContent` and `:countTokens`."""

    name = "gemini"
    answers_at = (":generateContent", ":streamGenerateContent")
    counts_at = ":countTokens"

    def __init__(self) -> None:
        self._signed: dict[str, str] = {}

    def body(self, request: Recorded, /) -> Json:
        """The model stands in the path; a count may wrap the request that it is asked for."""
        model = request.path.rpartition("/")[2].partition(":")[0]
        return {**(table(field(request.body, "generateContentRequest")) or request.body), "model": model}

    def refuse(self, body: Json, /) -> Violation | None:
        """The first broken rule of this API, or else the first signature that is not the one this provider gave."""
        return next(iter(rules.check(body)), None) or self._corrupted(body)

    def overflow(self, _body: Json, tokens: int, window: int, /) -> Violation | None:
        """Room for the answer is no condition."""
        if tokens <= window:
            return None
        message = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
        return Violation("input_too_long", "contents", message)

    def prompt(self, body: Json, /) -> list[Any]:
        """Tools, system instruction, contents."""
        outside = [found for name in ("tools", "systemInstruction") if (found := field(body, name))]
        contents = body.get("contents")
        return [*outside, *([contents] if isinstance(contents, dict) else items(contents))]

    def count(self, tokens: int, /) -> Json:
        """`{"totalTokens": ...}`."""
        return {"totalTokens": tokens}

    def error(self, problem: Problem, /) -> Json:
        """`{"error": {code, message, status}}`."""
        status, usual = ERRORS.get(problem.status, ERRORS[400 if problem.status < 500 else 500])
        return {"error": {"code": problem.status, "message": problem.message or usual, "status": status}}

    def answer(self, body: Json, parts: Sequence[Part], tokens: Tokens, /) -> Json:
        """One candidate; from Gemini 3 on its first call is signed."""
        signed = signs(str(body.get("model")))
        content = [_part(part, with_id=signed) for part in parts if part != ""]
        if signed:
            self._sign(content)
        counted = {
            "promptTokenCount": tokens.prompt,
            "candidatesTokenCount": tokens.answer - tokens.thinking,
            "totalTokenCount": tokens.prompt + tokens.answer,
            **({"cachedContentTokenCount": tokens.cached} if tokens.cached else {}),
            **({"thoughtsTokenCount": tokens.thinking} if tokens.thinking else {}),
        }
        return {
            "candidates": [{"content": {"parts": content, "role": "model"}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": counted,
            "modelVersion": body.get("model"),
            "responseId": new_id(""),
        }

    def streams(self, request: Recorded, /) -> bool:
        """The path says so."""
        return request.path.endswith(":streamGenerateContent")

    def stream(self, _body: Json, answer: Json, /) -> Iterator[bytes]:
        """Chunks that look like the whole answer: text in pieces, calls whole; the last one has the reason and what was written."""
        candidate, counted = answer["candidates"][0], answer["usageMetadata"]
        begun = {name: count for name, count in counted.items() if name != "candidatesTokenCount"}
        pieces = [piece for part in candidate["content"]["parts"] for piece in _pieces(part)] or [{"text": ""}]
        for number, piece in enumerate(pieces, 1):
            last = number == len(pieces)
            content = {"parts": [piece], "role": "model"}
            said: Json = {"content": content, "index": 0, **({"finishReason": "STOP"} if last else {})}
            yield event({**answer, "candidates": [said], "usageMetadata": counted if last else begun})

    def _sign(self, content: Sequence[Json]) -> None:
        call = next((part for part in content if "functionCall" in part), None)
        if call is not None:
            call["thoughtSignature"] = base64.b64encode(new_id("signature-").encode()).decode()
            self._signed[_plain(call["thoughtSignature"])] = call["functionCall"]["name"]

    def _corrupted(self, body: Json) -> Violation | None:
        """A signature of this provider on another call than it was given with."""
        for where, signature, name in signatures(items(body.get("contents"))):
            if self._signed.get(_plain(signature), name) != name:
                return Violation("ge-signature-edited", where, "Corrupted thought signature.")
        return None


def _plain(signature: str) -> str:
    """A signature in the one of both base64 alphabets that it was given in; the SDK sends the other."""
    return signature.replace("-", "+").replace("_", "/")


def _part(part: Part, *, with_id: bool) -> Json:
    if isinstance(part, ToolCall):
        made = part.id or (new_id("") if with_id else None)
        return {"functionCall": {**({"id": made} if made else {}), "name": part.name, "args": dict(part.arguments)}}
    return {"text": part.text, "thought": True} if isinstance(part, Thinking) else {"text": part}


def _pieces(part: Json) -> list[Json]:
    return [{**part, "text": piece} for piece in fragments(part["text"])] if "text" in part else [part]
