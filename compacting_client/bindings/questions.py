"""One question to a model, in the words of each provider's SDK: without anything that some model, old or new, would refuse.

No temperature, no penalties; a limit for the answer only where all models of that host take it, and wide enough for what a model thinks first,
which counts as answer: whatever comes back is cut to its size by the policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, cast

from compacting_client.core.summaries import Answered
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.formats.base import Format, get, kind

__all__ = ["CHAT", "GEMINI", "MESSAGES", "RESPONSES", "Question"]

_REFUSED, _CALLED, _CUT, _SILENT, _BROKEN = "Refusal", "ToolCall", "Truncated", "NoText", "Unfinished"
_OPENAI, _ANTHROPIC, _GEMINI = cast("tuple[Format, Format, Format]", (openai_chat, anthropic_messages, gemini_contents))


def _beside(words: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**words, **own}


class Question(NamedTuple):
    """How a model of one API is asked.

    ``wire``       its format
    ``method``     client -> the method to call
    ``room``       (model, tokens of the summary, whether it goes to the provider's own host) -> the limit for the answer; 0: none is sent
    ``arguments``  (model, prompt, that limit, seconds) -> its arguments
    ``answer``     (response, model) -> what came back
    ``with_own``   (those arguments, what the caller's request has of its own) -> both
    """

    wire: Format
    method: Callable[[Any], Callable[..., Any]]
    room: Callable[[str, int, bool], int]
    arguments: Callable[[str, str, int, float], Mapping[str, Any]]
    answer: Callable[[Any, str], Answered]
    with_own: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]] = _beside


def _chat(model: str, prompt: str, room: int, seconds: float) -> Mapping[str, Any]:
    """`max_completion_tokens` in the place of `max_tokens`, which reasoning models refuse; many other servers know one of them only."""
    limit = {"max_completion_tokens": room} if room else {}
    return {"model": model, "messages": [{"role": "user", "content": prompt}], "timeout": seconds, **limit}


def _responses(model: str, prompt: str, room: int, seconds: float) -> Mapping[str, Any]:
    limit = {"max_output_tokens": room} if room else {}
    return {"model": model, "input": prompt, "store": False, "timeout": seconds, **limit}


def _openai_room(model: str, tokens: int, at_home: bool) -> int:
    """The older models write 4,096 tokens at most; those that think may take as long as they like, within the policy's time."""
    if not at_home:
        return 0
    return max(2 * tokens, 4_096 if re.match(r"(ft:)?(gpt-3|gpt-4|chatgpt-4)", model) else 16_384)


def _messages(model: str, prompt: str, room: int, seconds: float) -> Mapping[str, Any]:
    return {
        "model": model,
        "max_tokens": room,
        "messages": [{"role": "user", "content": prompt}],
        "timeout": seconds,
    }


def _messages_room(_: str, tokens: int, __: bool) -> int:
    """The limit is required; the oldest models write 4,096 at most."""
    return max(2 * tokens, 4_096)


def _generate(model: str, prompt: str, room: int, seconds: float) -> Mapping[str, Any]:
    config: dict[str, Any] = {"http_options": {"timeout": max(1, round(seconds * 1000))}}
    if room:
        config["max_output_tokens"] = room
    return {"model": model, "contents": prompt, "config": config}


def _with_options(words: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of both stand inside of the configuration; the time that is left is the summary's."""
    config = words["config"]
    return {**words, "config": {**config, "http_options": {**own, **config["http_options"]}}}


def _gemini_room(model: str, tokens: int, at_home: bool) -> int:
    """Thoughts count as output: from 2.5 on, where models think, the limit is 65,536; before it was 8,192."""
    if not at_home:
        return 0
    found = re.search(r"gemini-(\d+(?:\.\d+)?)", model)
    thinks = found is not None and float(found[1]) >= 2.5
    return min(65_536, max(2 * tokens, 32_768)) if thinks else min(8_192, max(2 * tokens, 8_192))


def _answered(
    wire: Format, response: Any, model: str, said: Sequence[Any], *, refused: bool, called: bool, cut: bool, ended: bool
) -> Answered:
    """The texts of an answer; where there are none, or it is no answer, why.

    ``cut``: by a limit.  ``ended``: in a way that is known to leave a usable text: what a provider or a server calls otherwise, now or later,
    may be half a sentence in front of an error.
    """
    usage = wire.usage(response)
    text = _without_thoughts("".join(each for each in said if isinstance(each, str)).strip())
    error = None
    if refused or called or not ended or not text:
        error = _REFUSED if refused else _CALLED if called else _CUT if cut else _SILENT if ended else _BROKEN
    found = Answered(None if error else text, model, error=error)
    return (
        found if usage is None else found._replace(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    )


def _without_thoughts(text: str) -> str:
    """A text without the thoughts that a server of open models left in front of it, whose opening some chat templates write themselves."""
    thoughts, closing, rest = text.partition("</think>")
    if closing and (thoughts.startswith("<think>") or "<think>" not in thoughts):
        return rest.strip()
    return "" if text.startswith("<think>") else text


def _of_chat(response: Any, model: str) -> Answered:
    choices = get(response, "choices") or [None]
    message, finish = get(choices[0], "message"), get(choices[0], "finish_reason")
    content = get(message, "content")
    parts: Sequence[Any] = cast("list[Any]", content) if isinstance(content, list) else [content]
    said = [part if isinstance(part, str) else get(part, "text") for part in parts]
    return _answered(
        _OPENAI,
        response,
        model,
        said,
        refused=bool(get(message, "refusal")) or finish == "content_filter",
        called=bool(get(message, "tool_calls") or get(message, "function_call")),
        cut=finish == "length",
        ended=finish in _CHAT_ENDINGS and not (get(response, "error") or get(choices[0], "error")),
    )


def _of_responses(response: Any, model: str) -> Answered:
    items = cast("Sequence[Any]", get(response, "output") or ())
    parts = [
        part for item in items if kind(item) == "message" for part in cast("Sequence[Any]", get(item, "content") or ())
    ]
    why, status = get(get(response, "incomplete_details"), "reason"), get(response, "status")
    found = _answered(
        _OPENAI,
        None,
        model,
        [get(part, "text") for part in parts if kind(part) == "output_text"],
        refused=why == "content_filter" or any(kind(part) == "refusal" for part in parts),
        called=any(kind(item).endswith("_call") for item in items),
        cut=why == "max_output_tokens",
        ended=status in (None, "completed") or (status == "incomplete" and why == "max_output_tokens"),
    )
    usage = get(response, "usage")
    return found._replace(input_tokens=get(usage, "input_tokens"), output_tokens=get(usage, "output_tokens"))


def _of_messages(response: Any, model: str) -> Answered:
    blocks, stopped = cast("Sequence[Any]", get(response, "content") or ()), get(response, "stop_reason")
    return _answered(
        _ANTHROPIC,
        response,
        model,
        [get(block, "text") for block in blocks if kind(block) == "text"],
        refused=stopped == "refusal",
        called=any(kind(block).endswith("tool_use") for block in blocks),
        cut=stopped in ("max_tokens", "model_context_window_exceeded"),
        ended=stopped in (None, "end_turn", "stop_sequence", "max_tokens"),
    )


def _of_gemini(response: Any, model: str) -> Answered:
    candidates = cast("Sequence[Any]", get(response, "candidates") or [None])
    parts = cast("Sequence[Any]", get(get(candidates[0], "content"), "parts") or ())
    reason = get(candidates[0], "finish_reason")
    finish = str(getattr(reason, "name", reason) or "STOP")
    return _answered(
        _GEMINI,
        response,
        model,
        [get(part, "text") for part in parts if not get(part, "thought")],
        refused=bool(get(get(response, "prompt_feedback"), "block_reason")) or finish in _FILTERED,
        called=any(get(part, "function_call") for part in parts) or finish in _MISCALLED,
        cut=finish == "MAX_TOKENS",
        ended=finish in ("STOP", "MAX_TOKENS"),
    )


# the last three are how Together and Text Generation Inference call a "stop"
_CHAT_ENDINGS = (None, "stop", "length", "eos", "eos_token", "stop_sequence")
_FILTERED = ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")
_MISCALLED = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")

CHAT = Question(_OPENAI, attrgetter("chat.completions.create"), _openai_room, _chat, _of_chat)
RESPONSES = Question(_OPENAI, attrgetter("responses.create"), _openai_room, _responses, _of_responses)
MESSAGES = Question(_ANTHROPIC, attrgetter("messages.create"), _messages_room, _messages, _of_messages)
GEMINI = Question(_GEMINI, attrgetter("models.generate_content"), _gemini_room, _generate, _of_gemini, _with_options)
