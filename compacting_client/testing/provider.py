"""The loopback provider: scripted replies, recorded requests, refusals, a context window and usage."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from compacting_client.errors import ConfigError
from compacting_client.formats.base import Unreadable, Violation
from compacting_client.testing.anthropic_messages import AnthropicMessages
from compacting_client.testing.gemini import Gemini
from compacting_client.testing.openai_chat import OpenAIChat
from compacting_client.testing.openai_responses import OpenAIResponses
from compacting_client.testing.script import Failure, Part, Recorded, Script, Thinking, checked
from compacting_client.testing.server import Answer, LoopbackServer
from compacting_client.testing.tokens import PromptCache, Tokenizer
from compacting_client.testing.wire import Json, Problem, Tokens, WireApi, items, new_id, table

if TYPE_CHECKING:
    from typing_extensions import Self  # Python 3.10 has none of its own

__all__ = ["Provider"]


class Provider:
    """A provider on 127.0.0.1 that real SDK clients talk to, in tests and demos.

        with Provider(window=8_000) as provider:
            provider.reply("Hello")
            client = Anthropic(base_url=provider.anthropic_url, api_key="test")

    It speaks OpenAI Chat Completions, Anthropic Messages and Gemini's generateContent, plain and streamed, and plain
    texts of OpenAI Responses, whose items it does not judge.  A request is first judged by
    the rules of its provider (pairing, turn order, signed thinking) and by the window; what breaks one is refused with status 400 and the
    provider's wording, and takes no reply from the script.  Tokens are estimated, a quarter of the JSON of tools, system and
    messages; leading messages that an earlier request had count as read from the prompt cache.

    window: tokens of context, None for no limit.  At OpenAI the request's own `max_tokens` counts too.
    default: answers what no scripted reply is left for; without it a short text says how many messages arrived.
    tokenizer: counts the JSON text of one message (or of the tools, or the system prompt), in place of the estimate.
    """

    def __init__(
        self,
        window: int | None = None,
        *,
        default: Script | None = None,
        tokenizer: Callable[[str], int] | None = None,
    ) -> None:
        if window is not None and (type(window) is not int or window < 1):
            raise ConfigError(f"Provider(window={window!r}): a positive number of tokens or None is allowed")
        if default is not None and not callable(default):
            raise ConfigError(f"Provider(default={default!r}): a callable or None is allowed")
        if tokenizer is not None and not callable(tokenizer):
            raise ConfigError(f"Provider(tokenizer={tokenizer!r}): a callable or None is allowed")
        self.window = window
        self._default = default
        self._tokenizer = Tokenizer(tokenizer)
        self._apis: tuple[WireApi, ...] = (OpenAIChat(), AnthropicMessages(), Gemini(), OpenAIResponses())
        self._script: deque[tuple[Part, ...] | Failure | Script] = deque()
        self._requests: list[Recorded] = []
        self._cache = PromptCache(self._tokenizer)
        self._lock = threading.Lock()
        self._server: LoopbackServer | None = None

    def start(self) -> Self:
        """Open a free port.  Once is enough; a stopped provider starts again on another port with all it remembers."""
        self._server = self._server or LoopbackServer(self._respond)
        return self

    def stop(self) -> None:
        """Close the port and all connections.  What was recorded stays."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:<port>`.  Raises RuntimeError before start() and after stop()."""
        if self._server is None:
            raise RuntimeError("the provider is not running: use `with Provider() as provider:` or start()")
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def openai_url(self) -> str:
        """`base_url` for an OpenAI client."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """`base_url` for an Anthropic client."""
        return self.url

    @property
    def google_url(self) -> str:
        """`base_url` in the `HttpOptions` of a Google Gen AI client, of the Gemini API and of Vertex."""
        return self.url

    @property
    def requests(self) -> list[Recorded]:
        """Every POST so far, refused ones too, in the order they arrived.  A copy."""
        with self._lock:
            return list(self._requests)

    @property
    def pending(self) -> int:
        """How many scripted replies are left."""
        with self._lock:
            return len(self._script)

    def reply(self, *parts: Part | Failure | Script) -> None:
        """Script the next answer, after those scripted before.

        Text, ToolCall and Thinking in the order given; or one Failure; or one callable that is handed the recorded request and
        returns any of these (a part, a list of parts, a Failure).  Raises ConfigError for anything else.
        """
        reply = checked(parts, "reply()")
        with self._lock:
            self._script.append(reply)

    def _respond(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> Answer:
        path, _, query = path.partition("?")
        request = Recorded(path, headers, _object(raw), query=query)
        if method != "POST":
            return _unknown(method, path)
        with self._lock:
            place = len(self._requests)
            self._requests.append(request)
        try:
            answer, refusal = self._answer(request)
        except Exception as error:  # noqa: BLE001 - a mistake in a test's callable must reach the test, not a thread's stderr
            answer, refusal = _broken(error), None
        with self._lock:
            self._requests[place] = replace(request, status=answer.status, refusal=refusal)
        return answer

    def _answer(self, request: Recorded) -> tuple[Answer, Violation | None]:
        for api in self._apis:
            if api.counts_at and request.path.endswith(api.counts_at):
                return Answer(200, api.count(self._tokenizer.total(api.prompt(api.body(request)))), _request_id()), None
            if request.path.endswith(api.answers_at):
                refusal = self._refusal(api, api.body(request))
                return (_refused(api, refusal) if refusal else self._reply(api, request)), refusal
        return _unknown("POST", request.path), None

    def _refusal(self, api: WireApi, body: Json) -> Violation | None:
        try:
            refusal = api.refuse(body)
        except Unreadable as error:
            return Violation("unreadable", "", str(error))
        if refusal is None and self.window is not None:
            refusal = api.overflow(body, self._tokenizer.total(api.prompt(body)), self.window)
        return refusal

    def _reply(self, api: WireApi, request: Recorded) -> Answer:
        reply = self._next(request)
        if isinstance(reply, Failure):
            return _failed(api, reply)
        body = api.body(request)
        prompt = api.prompt(body)
        tokens = Tokens(
            prompt=self._tokenizer.total(prompt),
            cached=self._cache.read(f"{api.name} {body.get('model')}", [(item, api.identity(item)) for item in prompt]),
            answer=self._tokenizer.total(map(_said, reply)),
            thinking=self._tokenizer.total(part.text for part in reply if isinstance(part, Thinking)),
        )
        answer = api.answer(body, reply, tokens)
        return Answer(200, api.stream(body, answer) if api.streams(request) else answer, _request_id())

    def _next(self, request: Recorded) -> tuple[Part, ...] | Failure:
        with self._lock:
            scripted = self._script.popleft() if self._script else self._default or _usual
        if not callable(scripted):
            return scripted
        returned: Any = scripted(request)
        parts = cast("Sequence[Any]", returned) if isinstance(returned, list | tuple) else [returned]
        reply = checked(parts, "what a scripted callable returned")
        if callable(reply):
            raise ConfigError("what a scripted callable returned: another callable")
        return reply


def _object(raw: bytes) -> Json:
    try:
        return table(json.loads(raw))
    except ValueError:
        return {}


def _usual(request: Recorded) -> str:
    messages = items(request.body.get("messages") or request.body.get("contents"))
    return f"This is the loopback provider; the request had {len(messages)} messages."


def _said(part: Part) -> Any:
    """What of a part the model wrote."""
    if isinstance(part, str):
        return part
    return part.text if isinstance(part, Thinking) else [part.name, dict(part.arguments)]


def _request_id() -> dict[str, str]:
    made = new_id("req_")
    return {"request-id": made, "x-request-id": made}


def _refused(api: WireApi, refusal: Violation) -> Answer:
    ids = _request_id()
    code = refusal.rule if refusal.rule == "context_length_exceeded" else None
    problem = Problem(400, refusal.message, refusal.where or None, code, ids["request-id"])
    return Answer(400, api.error(problem), ids)


def _failed(api: WireApi, failure: Failure) -> Answer:
    headers = _request_id()
    if failure.retry_after is not None:
        # The SDKs take a wait of 0 seconds for none given; a millisecond is the shortest they obey.
        headers["retry-after-ms"] = str(max(1, round(failure.retry_after * 1000)))
        headers["retry-after"] = f"{failure.retry_after:g}"
    if isinstance(failure.body, str):
        return Answer(failure.status, iter([failure.body.encode()] if failure.body else []), headers)
    if failure.body is not None:
        return Answer(failure.status, dict(failure.body), headers)
    problem = Problem(failure.status, failure.message, None, failure.code, headers["request-id"])
    return Answer(failure.status, api.error(problem), headers)


def _unknown(method: str, path: str) -> Answer:
    return _plain(404, "not_found_error", f"{method} {path} is not known to the loopback provider")


def _broken(error: Exception) -> Answer:
    answer = _plain(500, "api_error", f"the loopback provider could not answer: {type(error).__name__}: {error}")
    return answer._replace(headers={**answer.headers, "x-should-retry": "false"})


def _plain(status: int, kind: str, message: str) -> Answer:
    """An error that the SDKs of all providers can read, where none of them is concerned."""
    ids = _request_id()
    error = {"type": kind, "message": message, "param": None, "code": None}
    return Answer(status, {"type": "error", "error": error, "request_id": ids["request-id"]}, ids)
