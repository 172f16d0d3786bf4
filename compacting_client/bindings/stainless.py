"""The OpenAI and Anthropic SDKs: a *twin* of the client, whose `request` is an instance attribute.

Both SDKs are generated from one template.  Every call, plain, streamed, raw, parsed or made by a helper, goes once through `client.request`,
above the SDK's own retries.  The twin is a shallow copy: same class, same connection pool, its own resources.  The original client, its class
and its module stay untouched.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from compacting_client import lifecycle
from compacting_client.bindings import models, watching
from compacting_client.errors import ConfigError
from compacting_client.formats import anthropic_messages, openai_chat
from compacting_client.formats.base import Format
from compacting_client.session import Asker, Session
from compacting_client.shell import arun, run

__all__ = ["FORMATS", "bind", "counts", "home", "is_async", "session_of", "supports"]

_CHAT: Format = openai_chat
_MESSAGES: Format = anthropic_messages
FORMATS: Sequence[Format] = (_CHAT, _MESSAGES)
_SDKS = ("openai", "anthropic")
_ROUTES: dict[str, Format] = {"/chat/completions": _CHAT, "/v1/messages": _MESSAGES}
_LEFT_ALONE = {"/responses": "openai-responses"}  # read by nobody yet: said so, rather than passed by in silence
_SESSION, _ORIGINAL = "_compacting_session", "_compacting_original"
_DERIVING = ("copy", "with_options")
_CLOSING = "close"
_COUNTED = (
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "context_management",
    "mcp_servers",
    "cache_control",
)
"""What `/v1/messages/count_tokens` takes of a body."""
_PATIENCE: Mapping[str, Any] = {"max_retries": 0, "timeout": 10.0}
"""For a count that only sharpens an estimate: the request itself waits for it."""


def _bases(value: Any) -> set[str]:
    """The classes of `value`, each as "sdk.Class"."""
    return {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(value).__mro__}


def supports(client: Any) -> bool:
    """Whether this is a client of one of the two SDKs."""
    return bool(_bases(client) & {f"{sdk}.{kind}APIClient" for sdk in _SDKS for kind in ("Sync", "Async")})


def is_async(client: Any) -> bool:
    """Whether its calls are awaited."""
    return any(name.endswith(".AsyncAPIClient") for name in _bases(client))


def counts(client: Any) -> bool:
    """Whether its provider counts the tokens of a request before it is sent."""
    bases = _bases(client)
    return "anthropic.BaseClient" in bases and not bases & {
        "anthropic.AnthropicBedrock",
        "anthropic.AsyncAnthropicBedrock",
    }


def home(client: Any) -> models.Home:
    """Whose client it is, and where it speaks to."""
    provider = next(sdk for sdk in _SDKS if _bases(client) & {f"{sdk}.BaseClient"})
    return models.Home(provider, getattr(client.base_url, "host", None))


def session_of(client: Any) -> Session | None:
    """The session of a twin."""
    found = getattr(client, "__dict__", {}).get(_SESSION)
    return found if isinstance(found, Session) else None


def bind(client: Any, session: Session) -> Any:
    """A twin of a client; of a twin, one that takes its place: it has what was set on the first, but goes through `session` alone.

    An own `request` that an observer put on the client stays, innermost; one put on its class later counts too, as the class is asked late.
    """
    made = copy.copy(client)
    attributes: dict[str, Any] = made.__dict__
    original = attributes.get(_ORIGINAL, client)
    for name, value in list(attributes.items()):
        if not _belongs_to_sdk(value):
            continue
        if getattr(value, "_client", None) is client:
            attributes[name] = type(value)(made)  # some clients build resources in __init__, not on demand
        elif type(value).__name__.endswith(("WithRawResponse", "WithStreamedResponse")):
            del attributes[name]  # a cached property, made again on demand
    session = session.on(_asker(original))
    attributes[_SESSION], attributes[_ORIGINAL] = session, original
    for name in ("request", _CLOSING, *_DERIVING):
        own = original.__dict__.get(name)
        attributes.pop(name, None)
        shadow = _request if name == "request" else _closing if name == _CLOSING else _deriving
        attributes[name] = functools.wraps(getattr(made, name))(shadow(made, own, name, session))
    return made


def _belongs_to_sdk(value: Any) -> bool:
    """Whether this is a resource of the SDK, or the view of one that gives raw responses."""
    return any(cls.__module__.partition(".")[0] in _SDKS for cls in type(value).__mro__)


def _deriving(made: Any, own: Callable[..., Any] | None, name: str, session: Session) -> Callable[..., Any]:
    """`copy` and `with_options`: what they give is wrapped too."""
    cls: Any = made.__class__

    def derive(*args: Any, **kwargs: Any) -> Any:
        derived = own(*args, **kwargs) if own is not None else getattr(cls, name)(made, *args, **kwargs)
        return bind(derived, session)

    return derive


def _closing(made: Any, own: Callable[..., Any] | None, name: str, session: Session) -> Callable[..., Any]:
    """`close`: what is done beside the requests ends with the client."""
    cls: Any = made.__class__

    def forward() -> Any:
        return own() if own is not None else getattr(cls, name)(made)

    async def aclose() -> Any:
        await models.aend(session)
        return await forward()

    def close() -> Any:
        models.end(session)
        return forward()

    return aclose if is_async(made) else close


def _request(made: Any, own: Callable[..., Any] | None, name: str, session: Session) -> Callable[..., Any]:
    """The method that stands in for the SDK's `request`."""
    cls: Any = made.__class__

    def forward(*args: Any, **kwargs: Any) -> Any:
        return own(*args, **kwargs) if own is not None else getattr(cls, name)(made, *args, **kwargs)

    async def arequest(cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        wire, body, mine = _format_of(options), _body(options), _with_own(session, made, options)
        steps = _steps(mine, wire, options, body, made)
        if steps is None:
            return await forward(cast_to, options, *args, **kwargs)
        deliver = functools.partial(watching.adeliver, session, wire)
        return await arun(
            steps, mine, lambda new: forward(cast_to, _with(options, body, new), *args, **kwargs), deliver
        )

    def request(cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        wire, body, mine = _format_of(options), _body(options), _with_own(session, made, options)
        steps = _steps(mine, wire, options, body, made)
        if steps is None:
            return forward(cast_to, options, *args, **kwargs)
        deliver = functools.partial(watching.deliver, session, wire)
        return run(steps, mine, lambda new: forward(cast_to, _with(options, body, new), *args, **kwargs), deliver)

    return arequest if is_async(made) else request


def _path(options: Any) -> str:
    return str(options.url).partition("?")[0]


def _format_of(options: Any) -> Format | None:
    if str(options.method).lower() != "post":
        return None
    path = _path(options)
    return next((wire for end, wire in _ROUTES.items() if path.endswith(end)), None)


def _body(options: Any) -> Any:
    """The body as the SDK will send it: `extra_body` wins over the arguments, and takes away what it omits."""
    body, extra = options.json_data, getattr(options, "extra_json", None)
    if not isinstance(extra, Mapping) or not isinstance(body, Mapping | None):
        return body
    merged = {**cast("Mapping[str, Any]", body or {}), **cast("Mapping[str, Any]", extra)}
    return {name: value for name, value in merged.items() if type(value).__name__ != "Omit"}


def _steps(session: Session, wire: Format | None, options: Any, body: Any, made: Any) -> lifecycle.Steps | None:
    """The way that this request goes; None for one that carries no history."""
    if wire is not None:
        if isinstance(body, Mapping):
            counting = _counting(made, options) if wire is _MESSAGES and counts(made) else None
            return lifecycle.exchange(session, wire, cast("Mapping[str, Any]", body), counting)
        return lifecycle.passed_by(session, wire.API, body, "unreadable")
    path = _path(options) if str(options.method).lower() == "post" else ""
    left_alone = next((api for end, api in _LEFT_ALONE.items() if path.endswith(end)), None)
    if left_alone is None and session.previews():
        raise ConfigError(f"a request to {_path(options)} carries no history; it was not sent")
    if left_alone is None:
        return None
    return lifecycle.passed_by(session, left_alone, body, "this API is not supported in this version")


def _headers(options: Any) -> dict[str, Any]:
    """The headers of one request, without those that the SDK speaks to itself by."""
    given = cast("Mapping[str, Any]", options.headers if isinstance(options.headers, Mapping) else {})  # pyright: ignore[reportUnknownMemberType]
    return {name: value for name, value in given.items() if not name.lower().startswith("x-stainless")}


def _query(options: Any) -> dict[str, Any]:
    """What one request has in its query, beside its path."""
    given: Any = options.params
    return {**cast("Mapping[str, Any]", given)} if isinstance(given, Mapping) else {}


def _asker(original: Any, own: Mapping[str, Any] | None = None) -> Asker:
    """Asks a copy for summaries: resources that are made on demand are no change of the original."""
    return models.asker(lambda: copy.copy(original), home(original), own)


def _with_own(session: Session, made: Any, options: Any) -> Session:
    """The session, which asks for summaries with the headers and the query of a request: they may say who pays, or who may ask.

    But one header names the request.
    """
    headers = {name: value for name, value in _headers(options).items() if name.lower() != "idempotency-key"}
    own = {name: value for name, value in (("extra_headers", headers), ("extra_query", _query(options))) if value}
    return session.on(_asker(made.__dict__[_ORIGINAL], own)) if own else session


def _counting(made: Any, options: Any) -> lifecycle.Counting:
    """The provider's count of a body, asked with the client that was wrapped, the headers and the query of the request."""
    original = made.__dict__[_ORIGINAL]
    path, _, query = str(options.url).partition("?")
    headers = _headers(options)

    def asked(body: Mapping[str, Any]) -> Any:
        fields = {name: body[name] for name in _COUNTED if name in body}
        where = f"{path}/count_tokens" + (f"?{query}" if query else "")
        own = {"headers": headers, "params": _query(options)}
        return original.post(where, body=fields, cast_to=object, options={**_PATIENCE, **own})

    async def acount(body: Mapping[str, Any]) -> Any:
        return (await asked(body))["input_tokens"]

    return acount if is_async(made) else lambda body: asked(body)["input_tokens"]


def _with(options: Any, body: Any, new: Any) -> Any:
    """The very same options where the body did not change, else a copy with the new one."""
    if new is body:
        return options
    changed = options.model_copy() if hasattr(options, "model_copy") else options.copy()
    changed.json_data = new
    changed.extra_json = None  # merged already
    return changed
