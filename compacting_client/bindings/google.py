"""The Google Gen AI SDK: transparent proxies of the client, of its async side, and of the API client under both.

Every request leaves through one of four methods of the API client, above the SDK's own retries and below its chats, its automatic function
calling and its continuations.  The SDK's own `Models` and `Chats` are made anew on the proxy of that API client; what they return is theirs.
A copy of the client (as for the other SDKs) would not do: `Client.__del__` closes the connections that both would share.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from compacting_client import lifecycle
from compacting_client.bindings import models
from compacting_client.bindings.google_requests import GEMINI, ApiClient, Proxy, Tie
from compacting_client.formats.base import Format
from compacting_client.report import Report
from compacting_client.session import Session
from compacting_client.shell import afinish, arun, finish, run

__all__ = ["FORMATS", "api_client_of", "bind", "counts", "home", "is_async", "session_of", "supports"]

FORMATS: Sequence[Format] = (GEMINI,)
_CLOSING = ("close", "aclose")
_CALLS = ("generate_content", "generate_content_stream")
_INTERACTIONS = "gemini-interactions"  # read by nobody yet: said so, rather than passed by in silence


def supports(client: Any) -> bool:
    """Whether this is a client of the SDK: `Client`, or its async side, `client.aio`."""
    return bool({"Client", "AsyncClient"} & _bases(client))


def is_async(client: Any) -> bool:
    """Whether its calls are awaited."""
    return "AsyncClient" in _bases(client)


def counts(client: Any) -> bool:  # noqa: ARG001 - the protocol's signature
    """Its provider counts the tokens of a request before it is sent."""
    return True


def home(client: Any) -> models.Home:
    """Where it speaks to."""
    inner = client.__wrapped__ if issubclass(type(client), _Client) else client
    return models.Home("google", urlsplit(str(inner._api_client._http_options.base_url)).hostname)


def session_of(client: Any) -> Session | None:
    """The session of a proxy."""
    found = client._self_session if issubclass(type(client), (_Client, ApiClient)) else None
    return found if isinstance(found, Session) else None


def bind(client: Any, session: Session) -> Any:
    """A proxy of a client; of a proxy, one that takes its place."""
    if issubclass(type(client), _Client):
        return _Client(client.__wrapped__, session, client._self_owner)
    return _Client(client, session, client)


def api_client_of(value: Any) -> Any:
    """The API client, wrapped or not, behind a resource or a chat of the SDK; None for all else."""
    if not any(cls.__module__.startswith("google.genai.") for cls in type(value).__mro__):
        return None
    return getattr(getattr(value, "_modules", value), "_api_client", None)


def _bases(value: Any) -> set[str]:
    inner = value.__wrapped__ if issubclass(type(value), _Client) else value
    return {cls.__name__ for cls in type(inner).__mro__ if cls.__module__ == "google.genai.client"}


class _Client(Proxy):
    """`Client` or `AsyncClient`."""

    def __init__(self, wrapped: Any, session: Session, owner: Any) -> None:
        asker = functools.partial(models.asker, lambda: wrapped, home(wrapped))
        session = session.on(asker())
        super().__init__(wrapped, session, owner)
        self._self_api = ApiClient(wrapped._api_client, session, owner, asker)
        self._self_made: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        return _closing(found, self._self_session) if name in _CLOSING else found

    @property
    def _api_client(self) -> Any:
        return self._self_api

    @property
    def models(self) -> Any:
        return self._self_once("models", lambda: _models(type(self.__wrapped__.models), self._self_api))

    @property
    def chats(self) -> Any:
        cls = self.__wrapped__.chats.__class__
        made, create = cls(modules=self.models), cls(modules=self.models).create

        @functools.wraps(create)
        def created(*args: Any, **kwargs: Any) -> Any:
            return _tied_chat(create(*args, **kwargs), self._self_api)

        made.__dict__["create"] = created
        return made

    @property
    def aio(self) -> Any:
        def make() -> Any:
            session = self._self_session.derive(self._self_session.settings.policy, is_async=True)
            return _Client(self.__wrapped__.aio, session, self._self_owner)

        return self._self_once("aio", make)

    @property
    def interactions(self) -> Any:
        return self._self_once("interactions", lambda: _interactions(self.__wrapped__.interactions, self._self_api))

    def _self_once(self, name: str, make: Callable[[], Any]) -> Any:
        made = self._self_made
        if name not in made:
            made[name] = make()
        return made[name]

    def __enter__(self) -> Any:
        self.__wrapped__.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        models.end(self._self_session)
        return self.__wrapped__.__exit__(*error)

    async def __aenter__(self) -> Any:
        await self.__wrapped__.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        await models.aend(self._self_session)
        return await self.__wrapped__.__aexit__(*error)

    def __copy__(self) -> Any:
        return _Client(self.__wrapped__, self._self_session, self._self_owner)

    def __deepcopy__(self, memo: Any) -> Any:
        copied = copy.deepcopy(self.__wrapped__, memo)  # raises what the SDK's own does
        return _Client(copied, self._self_session, copied)


def _closing(close: Any, session: Session) -> Any:
    """What is done beside the requests ends with the client."""

    @functools.wraps(close)
    def closed() -> Any:
        models.end(session)
        return close()

    @functools.wraps(close)
    async def aclosed() -> Any:
        await models.aend(session)
        return await close()

    return aclosed if inspect.iscoroutinefunction(close) else closed


def _models(cls: Any, api: Any) -> Any:
    """The SDK's own `Models` or `AsyncModels` on a wrapped API client.  Each call gets one of its own, which knows whose report it makes.

    What is made here and below refers to nothing that refers to it: a client that nobody uses any more closes its connections at once.
    """
    made, other = cls(api), cls(api)

    def on(name: str) -> Callable[[Any], Any]:
        return lambda tied: getattr(cls(tied), name)

    for name in _CALLS:
        made.__dict__[name] = _tied(getattr(other, name), api, on(name))
    return made


def _tied_chat(chat: Any, api: Any) -> Any:
    """A chat whose streams have reports too.  A copy of it shares its history."""
    other = copy.copy(chat)

    def sender(tied: Any) -> Any:
        one = copy.copy(other)
        one._modules = _models(type(other._modules), tied)
        return one.send_message_stream

    chat.__dict__["send_message_stream"] = _tied(other.send_message_stream, api, sender)
    return chat


def _tied(method: Any, api: Any, on: Callable[[Any], Any]) -> Any:
    """`method`, made by `on` for the API client of each call; the report belongs to what it returns."""
    session = api._self_session

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        tie = Tie(session)
        return tie.returned(on(api._self_tied(tie))(*args, **kwargs))

    @functools.wraps(method)
    async def acall(*args: Any, **kwargs: Any) -> Any:
        tie = Tie(session)
        return tie.returned(await on(api._self_tied(tie))(*args, **kwargs))

    return acall if inspect.iscoroutinefunction(method) else call


def _interactions(resource: Any, api: Any) -> Any:
    """The SDK's resource, copied, whose `create` is at least reported: its history is left alone."""
    session = api._self_session
    other = copy.copy(resource)
    other.__dict__["_api_client"] = api
    made, create = copy.copy(other), other.create

    def steps(kwargs: dict[str, Any]) -> lifecycle.Steps:
        return lifecycle.passed_by(session, _INTERACTIONS, kwargs, "this API is not supported in this version")

    def deliver(response: Any, report: Report) -> None:
        session.reports.attach(response, report)
        finish(session, report)

    async def adeliver(response: Any, report: Report) -> None:
        session.reports.attach(response, report)
        await afinish(session, report)

    @functools.wraps(create)
    def created(*args: Any, **kwargs: Any) -> Any:
        return run(steps(kwargs), session, lambda body: create(*args, **body), deliver)

    @functools.wraps(create)
    async def acreated(*args: Any, **kwargs: Any) -> Any:
        return await arun(steps(kwargs), session, lambda body: create(*args, **body), adeliver)

    made.__dict__["create"] = acreated if inspect.iscoroutinefunction(create) else created
    return made
