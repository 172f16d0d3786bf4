"""The API client under a Google Gen AI client: each of its requests goes through the session; streams are followed to their end."""

from __future__ import annotations

import itertools
import json
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from compacting_client import lifecycle
from compacting_client.errors import ConfigError
from compacting_client.formats import gemini_contents
from compacting_client.formats.base import Format, get
from compacting_client.report import Report
from compacting_client.session import Asker, Session
from compacting_client.shell import afinish, arun, finish, run

if TYPE_CHECKING:

    class ObjectProxy:
        """What wrapt's proxy is to a type checker, whatever its version says of itself."""

        __wrapped__: Any

        def __init__(self, wrapped: Any) -> None: ...
else:
    from wrapt import ObjectProxy

__all__ = ["GEMINI", "ApiClient", "Proxy", "Tie"]

GEMINI: Format = gemini_contents
_COUNTED = ("contents", "systemInstruction", "tools", "generationConfig")
"""What `countTokens` takes of a body on Vertex."""
_PATIENCE = 10_000  # milliseconds, for a count that only sharpens an estimate: the request itself waits for it
_NOT_SHARED = ("x-server-timeout", "idempotency-key")
_ENDS = (":generateContent", ":streamGenerateContent")


class Proxy(ObjectProxy):
    """What all proxies here are: equal to themselves alone, and as little to be pickled as what they stand for.

    ``_self_*`` attributes belong to the proxy, all others to the SDK's object.  ``owner``: the client, which has to live as long as this is
    used, as it closes its connections when it goes.
    """

    def __init__(self, wrapped: Any, session: Session, owner: Any) -> None:
        super().__init__(wrapped)
        self._self_session, self._self_owner = session, owner

    def __getattr__(self, name: str) -> Any:
        # wrapt comes here too when a property below raised AttributeError; the wrapped object's own would send uncompacted
        if name in type(self).__dict__ and hasattr(self.__wrapped__, name):
            raise RuntimeError(f"compacting: {name!r} of {type(self.__wrapped__).__name__} could not be wrapped")
        return getattr(self.__wrapped__, name)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle a wrapped {type(self.__wrapped__).__name__}")


class ApiClient(Proxy):
    """`BaseApiClient`, whose requests go through the session.

    ``asker``: what a request has of its own -> who is asked for its summaries; ``ties``: who is to be told the report of each.
    """

    def __init__(
        self,
        wrapped: Any,
        session: Session,
        owner: Any,
        asker: Callable[[Mapping[str, Any]], Asker],
        ties: tuple[Tie, ...] = (),
    ) -> None:
        super().__init__(wrapped, session, owner)
        self._self_asker, self._self_ties = asker, ties

    def _self_tied(self, tie: Tie) -> ApiClient:
        ties = (*self._self_ties, tie)
        return ApiClient(self.__wrapped__, self._self_session, self._self_owner, self._self_asker, ties)

    def _self_on(self, options: Any) -> Session:
        """The session, which asks for summaries with the options of a request: they may say who pays, who may ask, and where."""
        own = _own(options)
        return self._self_session.on(self._self_asker(own)) if own else self._self_session

    def request(self, http_method: str, path: str, request_dict: Any, http_options: Any = None) -> Any:
        """The SDK's own, with another body where the policy changes it."""
        call, forward = _Request(self, http_method, path, request_dict, http_options), self.__wrapped__.request
        steps = call.steps(self._self_session)
        if steps is None:
            return forward(*call.arguments(call.body))
        return run(steps, self._self_on(http_options), lambda new: forward(*call.arguments(new)), self._self_deliver)

    async def async_request(self, http_method: str, path: str, request_dict: Any, http_options: Any = None) -> Any:
        """`request`, awaited."""
        call, forward = _Request(self, http_method, path, request_dict, http_options), self.__wrapped__.async_request
        steps = call.steps(self._self_session)
        if steps is None:
            return await forward(*call.arguments(call.body))
        return await arun(
            steps, self._self_on(http_options), lambda new: forward(*call.arguments(new)), self._self_adeliver
        )

    def request_streamed(
        self, http_method: str, path: str, request_dict: Any, http_options: Any = None
    ) -> Iterator[Any]:
        """`request`, whose response comes in chunks; as in the SDK nothing is sent before the first is asked for."""
        call, forward = _Request(self, http_method, path, request_dict, http_options), self.__wrapped__.request_streamed
        steps = call.steps(self._self_session)
        if steps is None:
            yield from forward(*call.arguments(call.body))
            return
        reports: list[Report] = []

        def send(new: Any) -> tuple[Any, list[Any]]:
            chunks = forward(*call.arguments(new))  # sends with its first step
            return chunks, [chunk for chunk in (next(chunks, None),) if chunk is not None]

        chunks, first = run(
            steps, self._self_on(http_options), send, lambda _, report: self._self_begin(report, reports)
        )
        yield from _watched(self._self_session, chunks, first, reports[0])

    async def async_request_streamed(
        self, http_method: str, path: str, request_dict: Any, http_options: Any = None
    ) -> Any:
        """`request_streamed`, awaited; sends at once."""
        call = _Request(self, http_method, path, request_dict, http_options)
        forward, steps = self.__wrapped__.async_request_streamed, call.steps(self._self_session)
        if steps is None:
            return await forward(*call.arguments(call.body))
        reports: list[Report] = []

        async def deliver(_: Any, report: Report) -> None:
            self._self_begin(report, reports)

        chunks = await arun(steps, self._self_on(http_options), lambda new: forward(*call.arguments(new)), deliver)
        return _awatched(self._self_session, chunks, reports[0])

    def _self_begin(self, report: Report, reports: list[Report]) -> None:
        for tie in self._self_ties:
            tie.made(report)
        reports.append(report)

    def _self_deliver(self, response: Any, report: Report) -> None:
        self._self_begin(report, [])
        _note(self._self_session, report, response)
        finish(self._self_session, report)

    async def _self_adeliver(self, response: Any, report: Report) -> None:
        self._self_begin(report, [])
        _note(self._self_session, report, response)
        await afinish(self._self_session, report)


class _Request:
    """One request as the SDK hands it to its API client.  ``body``: what will be sent, with the model's name, which stands in the path."""

    def __init__(self, api: Any, method: str, path: str, content: Any, options: Any) -> None:
        self._method, self._path, self._content, self._options = method, path, content, options
        self._api = api
        self._extra = _extra_body(options) or _extra_body(getattr(api, "_http_options", None))
        sent = {name: value for name, value in dict(content or {}).items() if not name.startswith("_")}
        model = path.partition("?")[0].rpartition("/")[2].partition(":")[0]
        self.body: Any = {"model": model, **sent, **self._extra}

    def steps(self, session: Session) -> lifecycle.Steps | None:
        """The way that it goes; None where it carries no history."""
        if self._method.lower() == "post" and self._path.partition("?")[0].endswith(_ENDS):
            return lifecycle.exchange(
                session, GEMINI, self.body, self._acount if session.settings.is_async else self._count
            )
        if session.previews():
            raise ConfigError(f"a request to {self._path} carries no history; it was not sent")
        return None

    def _count(self, body: Mapping[str, Any]) -> Any:
        """The provider's count of a body, asked with the client that was wrapped."""
        return _total(self._api.__wrapped__.request(*self._counted(body)))

    async def _acount(self, body: Mapping[str, Any]) -> Any:
        return _total(await self._api.__wrapped__.async_request(*self._counted(body)))

    def _counted(self, body: Mapping[str, Any]) -> tuple[Any, ...]:
        """Where and how it is asked.  The SDK's own `count_tokens` takes no system prompt and no tools on the Gemini API, which the API does."""
        path = self._path.partition("?")[0].rpartition(":")[0]
        if getattr(self._api.__wrapped__, "vertexai", False):
            fields = {name: body[name] for name in _COUNTED if name in body}
        else:
            fields = {"generateContentRequest": {**body, "model": "models/" + path.rpartition("/")[2]}}
        return "post", f"{path}:countTokens", fields, {**_own(self._options), "timeout": _PATIENCE}

    def arguments(self, new: Any) -> tuple[Any, ...]:
        """The arguments of the SDK's method: the very same where the body did not change."""
        if new is self.body:
            return self._method, self._path, self._content, self._options
        changed = {name: value for name, value in new.items() if value is not self.body.get(name)}
        options = self._options
        over = {name: value for name, value in changed.items() if name in self._extra}
        if over:  # the old ones would be put over what leaves
            options = _with_extra_body(options, {**self._extra, **over})
        return self._method, self._path, {**self._content, **changed}, options


def _total(response: Any) -> Any:
    """The count in a response of the API client."""
    return json.loads(response.body)["totalTokens"]


def _extra_body(options: Any) -> dict[str, Any]:
    """What the SDK puts over a request."""
    found = get(options, "extra_body")
    return {**cast("Mapping[str, Any]", found)} if isinstance(found, Mapping) else {}


def _own(options: Any) -> dict[str, Any]:
    """The options of a call that hold for a summary made on its way too, or a count: all but its body, its name, and how long it may take."""
    cls = cast("Any", type(options))
    fields: Any = getattr(cls, "model_fields", options if cls is dict else ())
    named: dict[str, Any] = {name: get(options, name) for name in fields if name not in ("extra_body", "timeout")}
    headers = cast("Mapping[str, Any]", named.get("headers") or {})
    named["headers"] = {name: value for name, value in headers.items() if name.lower() not in _NOT_SHARED}
    return {name: value for name, value in named.items() if value}


def _with_extra_body(options: Any, extra: dict[str, Any]) -> Any:
    """A copy of the options of a call, typed or not, or new ones."""
    if hasattr(options, "model_copy"):
        return options.model_copy(update={"extra_body": extra})
    return {**cast("Mapping[str, Any]", options or {}), "extra_body": extra}


class Tie:
    """Brings together what a call returns and the report of its last request, in whatever order they come."""

    def __init__(self, session: Session) -> None:
        self._reports = session.reports
        self._report: Report | None = None
        self._returned: Callable[[], Any] = lambda: None

    def made(self, report: Report) -> None:
        """A request has its report."""
        self._report = report
        self._attach()

    def returned(self, value: Any) -> Any:
        """The call has returned this."""
        self._returned = weakref.ref(value)
        self._attach()
        return value

    def _attach(self) -> None:
        value = self._returned()
        if value is not None and self._report is not None:
            self._reports.attach(value, self._report)


def _watched(session: Session, chunks: Any, first: list[Any], report: Report) -> Iterator[Any]:
    try:
        for chunk in itertools.chain(first, chunks):
            _note(session, report, chunk)
            yield chunk
    except GeneratorExit:
        report.left_early = True
        raise
    except BaseException as error:
        report.error = type(error).__name__
        raise
    finally:
        chunks.close()
        finish(session, report)


async def _awatched(session: Session, chunks: Any, report: Report) -> AsyncIterator[Any]:
    try:
        async for chunk in chunks:
            _note(session, report, chunk)
            yield chunk
    except GeneratorExit:
        report.left_early = True
        raise
    except BaseException as error:
        report.error = type(error).__name__
        raise
    finally:
        await chunks.aclose()
        await afinish(session, report)


def _note(session: Session, report: Report, response: Any) -> None:
    """Take over the usage and the calls of a response, or of a chunk of one."""
    body = getattr(response, "body", None)
    expected = session.answers.of(report) is not None
    if isinstance(body, str) and (expected or "sageMetadata" in body):
        try:
            told = json.loads(body)
        except ValueError:  # it only serves the account
            return
        report.usage = GEMINI.usage(told, report.usage)
        session.answers.note(report, GEMINI, told)
