"""The "too long" answers of providers: how each words it, and which figures it gives.

A wording is looked for in what an error *says* (its messages, codes and types), never in what it quotes of the request.  What is named beside
each wording is the public report, or the recorded answer, that it was taken from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

__all__ = ["CLAUDE", "COMPATIBLE", "GEMINI", "TooLong", "Wording", "recognised"]

Teaches = Literal["at once", "once accepted", "never"]


class TooLong(NamedTuple):
    """What an answer says, in the provider's tokens; None where it does not say.

    ``limit``      what is allowed
    ``requested``  what the input was
    ``excess``     how much it was too much
    ``shared``     whether the answer needs room within ``limit`` too
    ``teaches``    whether it tells something of the model's window: at once; only once a shorter request was accepted, as the answer does not say
                   what was wrong; or never, as it is about bytes
    """

    limit: int | None = None
    requested: int | None = None
    excess: int | None = None
    shared: bool = True
    teaches: Teaches = "at once"


class Wording(NamedTuple):
    """One wording: a pattern whose groups are ``limit``, ``requested`` and ``excess``, where it has some; the rest as in `TooLong`."""

    pattern: re.Pattern[str]
    shared: bool = True
    teaches: Teaches = "at once"


def _wording(pattern: str, *, shared: bool = True, teaches: Teaches = "at once") -> Wording:
    return Wording(re.compile(pattern, re.IGNORECASE | re.DOTALL), shared, teaches)


CLAUDE = (
    # recorded: 400 invalid_request_error "prompt is too long: 3333404 tokens > 200000 maximum"; Bedrock passes it on
    _wording(r"prompt is too long(?:: (?P<requested>\d+) tokens > (?P<limit>\d+) maximum)?"),
    # docker/docker-agent#569: "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000"
    _wording(r"input length and \W?max_tokens\W? exceed context limit: (?P<requested>\d+) \+ \d+ > (?P<limit>\d+)"),
    # the API's documents, "errors": 413 request_too_large, above 32 MB
    _wording(
        r"\brequest_too_large\b|request exceeds the maximum (?:allowed )?(?:size|number of bytes)", teaches="never"
    ),
    # Bedrock: "Input is too long for requested model.", "Too many input tokens"
    _wording(r"input is too long for requested model|too many input tokens"),
)
GEMINI = (
    # recorded: 400 INVALID_ARGUMENT "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576)."
    _wording(
        r"input token count(?: \((?P<requested>\d+)\))? exceeds the maximum number of tokens allowed(?: \(?(?P<limit>\d+))?",
        shared=False,
    ),
)
COMPATIBLE = (
    # recorded (OpenRouter): "This endpoint's maximum context length is 200000 tokens. However, you requested about 2500021 tokens (...)";
    # recorded (DeepSeek), OpenAI and Azure (Azure-Samples/azure-search-openai-demo#1199), vLLM (vllm-project/vllm#20409): "This model's ..."
    _wording(
        r"maximum context length is (?P<limit>\d+) tokens.{0,80}?(?:your messages resulted in|you requested(?: about)?"
        r"|your request has|your prompt contains(?: at least)?) (?P<requested>\d+)\b(?! output)"
    ),
    # Azure says: "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens."
    _wording(
        r"input tokens exceed the configured limit of (?P<limit>\d+) tokens(?:\. your messages resulted in (?P<requested>\d+))?",
        shared=False,
    ),
    # recorded, from OpenAI itself: "Your input exceeds the context window of this model. Please adjust your input and try again."
    _wording(r"your input exceeds the context window of this model"),
    # vLLM says: "The decoder prompt (length 88049) is longer than the maximum model length of 32768."
    _wording(r"prompt \(length (?P<requested>\d+)\) is longer than the maximum model length of (?P<limit>\d+)"),
    # vllm-project/vllm#4667 has: "max_tokens must be at least 1, got -186.": the prompt fills the window
    _wording(r"max_tokens must be at least 1, got -(?P<excess>\d+)"),
    # llama.cpp: "request (13392 tokens) exceeds the available context size (8192 tokens)", type exceed_context_size_error, n_prompt_tokens, n_ctx
    _wording(
        r"(?:request \((?P<requested>\d+) tokens\) )?exceeds the available context size(?: \((?P<limit>\d+) tokens\))?"
    ),
    _wording(r"\bexceed_context_size_error\b"),
    # recorded (Ollama's cloud): "prompt too long; exceeded max context length by 1119046 tokens"; ollama/ollama#17889
    _wording(r"prompt too long; exceeded (?:max )?context length(?: by (?P<excess>\d+) tokens)?"),
    # Mistral (badlogic/pi-mono): "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length"
    _wording(
        r"prompt contains (?P<requested>\d+) tokens.{0,60}?too large for model with (?P<limit>\d+) maximum context length"
    ),
    # Groq (badlogic/pi-mono): "Please reduce the length of the messages or completion."
    _wording(r"reduce the length of the messages or completion"),
    # xAI (badlogic/pi-mono): "This model's maximum prompt length is 131072 but the request contains 537812 tokens."
    _wording(r"maximum prompt length is (?P<limit>\d+) but the request contains (?P<requested>\d+)", shared=False),
    # recorded (Perplexity): type too_many_prompt_tokens, "The total length of all messages is too long."
    _wording(r"\btoo_many_prompt_tokens\b|total length of all messages is too long"),
    # Moonshot (badlogic/pi-mono): "Your request exceeded model token limit: 262144 (requested: 300000)"
    _wording(r"exceeded model token limit: (?P<limit>\d+)(?: \(requested: (?P<requested>\d+)\))?"),
    # Copilot (badlogic/pi-mono): "prompt token count of 70000 exceeds the limit of 64000", code model_max_prompt_tokens_exceeded
    _wording(r"prompt token count of (?P<requested>\d+) exceeds the limit of (?P<limit>\d+)", shared=False),
    _wording(r"\bmodel_max_prompt_tokens_exceeded\b", shared=False),
    # LM Studio (lmstudio-ai/lmstudio-bug-tracker#546): "Trying to keep the first 111490 tokens when context the overflows. However, the model
    # is loaded with context length of only 32768 tokens"; the tokens to keep are no input size
    _wording(r"keep the first \d+ tokens when context the overflows(?:.{0,80}?context length of only (?P<limit>\d+))?"),
    _wording(r"number of tokens to keep from the initial prompt is greater than the context length"),
    # MiniMax (badlogic/pi-mono): "invalid params, context window exceeds limit"
    _wording(r"context window exceeds limit"),
    # Qwen (QwenLM/qwen-code): "InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]"
    _wording(r"range of input length should be \[\d+, ?(?P<limit>\d+)\]", shared=False),
    # OpenAI, Azure, Groq, Fireworks, Together: the code of the error
    _wording(r"\b(?:context_length_exceeded|model_context_window_exceeded|context_window_exceeded)\b"),
)

_STATUSES = (None, 400, 413, 422, 500)
# Never this: rates and quotas (Groq's 413 "Request too large ... TPM"), single strings, arrays and pictures, bodies that a schema refuses.
_NEVER = re.compile(
    r"rate[_ -]?limit|tokens per (?:min|hour|day)|\bTP[MD]\b|\bquota\b|(?:string|array) too long|above_max_length|string_too_long"
    r"|image (?:size |dimensions )?exceeds?|validation error|field required|extra inputs are not permitted|'loc':",
    re.IGNORECASE,
)
_ANSWER = re.compile(r"(\d+) (?:tokens )?in (?:the )?(?:completion|output)", re.IGNORECASE)
_SAYS = frozenset(
    {"message", "error", "errors", "detail", "details", "code", "type", "status", "msg", "raw", "metadata"}
)
_FIGURES = {"limit": "n_ctx", "requested": "n_prompt_tokens"}


def recognised(
    wordings: Sequence[Wording], status: int | None, body: Any, code: str | None = None, *, empty: bool = False
) -> TooLong | None:
    """What an error says, if it says that the request is too long.

    ``body``: the JSON of the error, or its text.  ``code``: the error's own code, where it stands apart.  ``empty``: whether a 400 or 413 that
    says nothing at all is one (Cerebras, badlogic/pi-mono).
    """
    if status not in _STATUSES:
        return None
    said = list(_said(body))
    text = "\n".join([*said, code or ""]).strip()
    if not text:
        return TooLong(teaches="once accepted") if empty and status in (400, 413) else None
    if _NEVER.search(text):
        return None
    for wording in wordings:
        if (found := wording.pattern.search(text)) is not None:
            return _told(wording, found, text, body)
    return None


def _told(wording: Wording, found: re.Match[str], text: str, body: Any) -> TooLong:
    figures = {name: int(figure) for name, figure in found.groupdict().items() if figure}
    for name, field in _FIGURES.items():
        if name not in figures and (figure := _figure(body, field)) is not None:
            figures[name] = figure
    answer = _ANSWER.search(text)
    if answer is not None and figures.get("requested", 0) > int(answer[1]):
        figures["requested"] -= int(answer[1])  # what was requested is said with the answer's part
    return TooLong(
        **{name: figure for name, figure in figures.items() if figure > 0},
        shared=wording.shared,
        teaches=wording.teaches,
    )


def _said(value: Any) -> Iterator[str]:
    """The texts that say what is wrong; a JSON text inside is read too, since gateways pass on what they were told."""
    if isinstance(value, str):
        inner = _parsed(value)
        if inner is None:
            yield value
        else:
            yield from _said(inner)
    elif isinstance(value, Mapping):
        for name, each in cast("Mapping[str, Any]", value).items():
            if str(name).lower() in _SAYS:
                yield from _said(each)
    elif isinstance(value, (list, tuple)):
        for each in cast("Sequence[Any]", value):
            yield from _said(each)


def _parsed(text: str) -> Any:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _figure(value: Any, name: str) -> int | None:
    """A whole number of this name in an error's JSON, at the top or under ``error``."""
    parsed = _parsed(value) if isinstance(value, str) else value
    if not isinstance(parsed, Mapping):
        return None
    fields = cast("Mapping[str, Any]", parsed)
    found = fields.get(name)
    return found if type(found) is int else _figure(fields.get("error"), name)
