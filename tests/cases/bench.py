"""The bench: a case's request goes through a real SDK client to the loopback provider, and what left is looked at."""

from __future__ import annotations

import asyncio
import copy
import functools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import anthropic
import openai

from compacting_client import DropOldest, Policy, Report, compacting, control, memory
from compacting_client.testing import EventCapture, Provider
from tests import shared as material

Body = dict[str, Any]
Function = TypeVar("Function", bound=Callable[..., Any])

CHAT, CLAUDE = "openai-chat", "anthropic-messages"
APIS = (CHAT, CLAUDE)
TARGETS = (1.0, 0.5)
MODES = ("sync", "async", "stream", "async stream")
OLDER, BINDING = "claude-haiku-4-5", "claude-opus-5-5"
"""Models whose thinking is bound to nothing, and to all that stood before it."""

COVERED: dict[str, list[str]] = defaultdict(list)
"""Case id -> the tests that stand for its kind."""


def covers(*ids: str) -> Callable[[Function], Function]:
    """Says which cases a test stands for; `test_registry` asks that no case is left out."""

    def note(function: Function) -> Function:
        for each in ids:
            COVERED[each].append(f"{function.__module__}.{function.__name__}")
        return function

    return note


@functools.cache
def _cases() -> dict[str, material.Record]:
    return {each["id"]: each for each in material.cases()}


def case(id_: str) -> material.Record:
    """A fresh copy of a case; skips the running test where the shared material is absent."""
    found = copy.deepcopy(_cases()[id_])
    if found.get("request", {}).get("model") == "claude-sonnet-4-5":
        found["request"]["model"] = OLDER  # the SDK warns of the old name, on which nothing depends
    return found


def drop_oldest(policy: dict[str, Any], target: float = 0.5) -> DropOldest:
    """The policy of a case, in this package's words.  Raises KeyError for one that drops nothing."""
    return DropOldest(policy["max_tokens"], keep_head=policy["keep_head"], keep_tail=policy["keep_tail"], target=target)


def weight(value: Any) -> int:
    """Tokens of a JSON value by the seeds' estimate, written once more: a quarter of its UTF-16 length, rounded up."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return -(-len(text.encode("utf-16-le", "surrogatepass")) // 8)


@dataclass
class Trip:
    """One call: the caller's body, the requests that arrived, and the account."""

    api: str
    body: Body
    policy: Policy | None
    sent: list[Body]
    statuses: list[int]
    report: Report
    events: EventCapture
    response: Any = None
    error: Exception | None = None

    @property
    def left(self) -> Body:
        """The one body that left."""
        assert len(self.sent) == 1, f"{len(self.sent)} requests were made"
        return self.sent[0]

    @property
    def messages(self) -> list[Any]:
        """The messages that left."""
        return cast("list[Any]", self.left["messages"])

    @functools.cached_property
    def kept(self) -> list[int]:
        """Which of the caller's messages left, in order.  Fails where anything else left.

        Of equal messages, those that the report does not call dropped.
        """
        given = self.body["messages"]
        told = {index for each in self.report.dropped for index in range(each.first, each.last + 1)}
        for candidates in ([index for index in range(len(given)) if index not in told], list(range(len(given)))):
            kept, left = list[int](), list(candidates)
            for message in reversed(self.messages):
                while left and not self._same(message, given[left[-1]]):
                    left.pop()
                if not left:
                    break
                kept.insert(0, left.pop())
            if len(kept) == len(self.messages):
                return kept
        raise AssertionError(f"not the caller's, or not in its order: {str(self.messages)[:300]}")

    def _same(self, sent: Any, given: Any) -> bool:
        return bool(sent == given or (self.report.replaced and sent == thoughtless(given)))

    @property
    def missing(self) -> list[int]:
        """Which of the caller's messages did not leave."""
        return sorted(set(range(len(self.body["messages"]))) - set(self.kept))


def thoughtless(message: Any) -> Any:
    """A message without its thinking."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    left = [block for block in content if block.get("type") not in ("thinking", "redacted_thinking")]
    return {**message, "content": left}


@dataclass
class Line:
    """A wrapped client on the bench.  In the async modes each call has its own client, with the memory of the line."""

    provider: Provider
    api: str
    policy: Any
    mode: str = "sync"
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        self.events = EventCapture()
        self.options = {"memory": memory.InProcess(), "on_event": self.events, "strict": True, **self.options}
        self._client: Any = None

    def client(self) -> Any:
        """The wrapped client of the line; a new one in the async modes."""
        if "async" in self.mode:
            return compacting(plain(self.provider, self.api, asynchronous=True), self.policy, **self.options)
        if self._client is None:
            self._client = compacting(plain(self.provider, self.api), self.policy, **self.options)
        return self._client

    def send(self, body: Body) -> Trip:
        """Make the call.  A refusal of the provider is kept in the trip; the caller's body has to come out as it was."""
        before, known = copy.deepcopy(body), len(self.provider.requests)
        self.events.clear()
        handle, response, error = (
            asyncio.run(self._acall(body)) if "async" in self.mode else self._call(self.client(), body)
        )
        assert body == before, "the caller's data was changed"
        arrived = self.provider.requests[known:]
        report = handle.report_for(response) if response is not None else handle.last_report
        assert report is not None
        capture = EventCapture()
        capture.events = list(self.events.events)
        return Trip(
            self.api,
            before,
            handle.policy,
            [request.body for request in arrived],
            [request.status for request in arrived],
            report,
            capture,
            response,
            error,
        )

    def size(self, body: Body) -> float:
        """Tokens of a body as this line counts them; nothing is sent."""
        wrapped = compacting(plain(self.provider, self.api), 10**9, counter=self.options.get("counter"))
        return control(wrapped).preview(method(wrapped, self.api), **body).tokens_before

    def _call(self, client: Any, body: Body) -> tuple[Any, Any, Exception | None]:
        handle = control(client)
        try:
            response = method(client, self.api)(**body, **({"stream": True} if "stream" in self.mode else {}))
            for _ in response if "stream" in self.mode else ():
                pass
        except (openai.APIStatusError, anthropic.APIStatusError) as error:
            return handle, None, error
        return handle, response, None

    async def _acall(self, body: Body) -> tuple[Any, Any, Exception | None]:
        async with self.client() as client:
            handle = control(client)
            try:
                response = await method(client, self.api)(**body, **({"stream": True} if "stream" in self.mode else {}))
                if "stream" in self.mode:
                    async for _ in response:
                        pass
            except (openai.APIStatusError, anthropic.APIStatusError) as error:
                kept = handle.last_report
                return _Kept(handle.policy, kept), None, error
        return handle, response, None


@dataclass
class _Kept:
    """What is left of a handle whose context is over."""

    policy: Any
    last_report: Report | None


def plain(provider: Provider, api: str, *, asynchronous: bool = False) -> Any:
    """An unwrapped client of the bench; the sync ones are made once."""
    make = _made if asynchronous else _shared
    return make(provider, api, asynchronous)


def _made(provider: Provider, api: str, asynchronous: bool) -> Any:
    sdk: Any = openai if api == CHAT else anthropic
    name = ("Async" if asynchronous else "") + ("OpenAI" if api == CHAT else "Anthropic")
    url = provider.openai_url if api == CHAT else provider.anthropic_url
    pool = (sdk.DefaultAsyncHttpxClient if asynchronous else sdk.DefaultHttpxClient)(
        verify=False
    )  # loads no certificates
    return getattr(sdk, name)(base_url=url, api_key="test", max_retries=0, http_client=pool)


_clients: dict[tuple[int, str], Any] = {}


def _shared(provider: Provider, api: str, _: bool) -> Any:
    key = (id(provider), api)
    if key not in _clients:
        _clients[key] = _made(provider, api, asynchronous=False)
    return _clients[key]


def running() -> Iterator[Provider]:
    """A provider, and at the end of all its tests the clients that talked to it are closed."""
    with Provider() as provider:
        yield provider
        for key in [key for key in _clients if key[0] == id(provider)]:
            _clients.pop(key).close()


def method(client: Any, api: str) -> Any:
    """The method that an application calls."""
    return client.chat.completions.create if api == CHAT else client.messages.create


def report_of(client: Any, response: Any) -> Report:
    """The report of what a call of a wrapped client returned."""
    report = control(client).report_for(response)
    assert report is not None
    return report
