"""The OpenAI and Anthropic SDKs: a *twin* of the client, whose `request` is an instance attribute.

Both SDKs are generated from one template.  Every call, plain, streamed, raw, parsed or made by a helper, goes once through `client.request`,
above the SDK's own retries.  The twin is a shallow copy: same class, same connection pool, its own resources.  The original client, its class
and its module stay untouched.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any, cast

from compacting_client import lifecycle
from compacting_client.bindings import watching
from compacting_client.formats import anthropic_messages, openai_chat
from compacting_client.formats.base import Format
from compacting_client.session import Session
from compacting_client.shell import arun, run

__all__ = ["FORMATS", "is_async", "original_of", "session_of", "supports", "twin"]

_CHAT: Format = openai_chat
_MESSAGES: Format = anthropic_messages
FORMATS = (_CHAT, _MESSAGES)
_ROUTES = {"/chat/completions": _CHAT, "/v1/messages": _MESSAGES}
_LEFT_ALONE = {"/responses": "openai-responses"}  # read by nobody yet: said so, rather than passed by in silence
_SESSION, _ORIGINAL = "_compacting_session", "_compacting_original"


def _bases(client: Any) -> set[str]:
    return {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(client).__mro__}


def supports(client: Any) -> bool:
    """Whether this is a client of one of the two SDKs."""
    return bool(_bases(client) & {f"{sdk}.{kind}APIClient" for sdk in ("openai", "anthropic") for kind in ("Sync", "Async")})


def is_async(client: Any) -> bool:
    """Whether its calls are awaited."""
    return any(name.endswith(".AsyncAPIClient") for name in _bases(client))


def session_of(client: Any) -> Session | None:
    """The session of a twin."""
    found = getattr(client, "__dict__", {}).get(_SESSION)
    return found if isinstance(found, Session) else None


def original_of(client: Any) -> Any:
    """The client that a twin was made from."""
    return getattr(client, "__dict__", {}).get(_ORIGINAL, client)


def twin(client: Any, session: Session) -> Any:
    """A twin of an unwrapped client.

    An own `request` that an observer put on the client stays, innermost; one put on its class later counts too, as the class is asked late.
    """
    made = copy.copy(client)
    attributes = vars(made)
    for name, value in list(attributes.items()):
        if getattr(value, "_client", None) is client:  # some clients build resources in __init__
            attributes[name] = type(value)(made)
        elif type(value).__name__.endswith(("WithRawResponse", "WithStreamedResponse")):
            del attributes[name]  # a cached property, made again on demand
    attributes[_SESSION], attributes[_ORIGINAL] = session, client
    attributes["request"] = _request(made, vars(client).get("request"), session)
    for name in ("copy", "with_options"):
        attributes[name] = _deriving(made, vars(client).get(name), name, session)
    return made


def _deriving(made: Any, own: Callable[..., Any] | None, name: str, session: Session) -> Callable[..., Any]:
    """`copy` and `with_options`: what they give is wrapped too."""
    cls = type(made)

    @functools.wraps(getattr(cls, name))
    def derive(*args: Any, **kwargs: Any) -> Any:
        derived = own(*args, **kwargs) if own is not None else getattr(cls, name)(made, *args, **kwargs)
        return twin(derived, session)

    return derive


def _request(made: Any, own: Callable[..., Any] | None, session: Session) -> Callable[..., Any]:
    """The method that stands in for the SDK's `request`."""
    cls = type(made)

    def forward(*args: Any, **kwargs: Any) -> Any:
        return own(*args, **kwargs) if own is not None else cls.request(made, *args, **kwargs)

    if is_async(made):

        @functools.wraps(cls.request)
        async def arequest(cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
            body, steps = _steps(session, options)
            if steps is None:
                return await forward(cast_to, options, *args, **kwargs)
            deliver = functools.partial(watching.adeliver, session, _format_of(options))
            return await arun(steps, session, lambda new: forward(cast_to, _with(options, body, new), *args, **kwargs), deliver)

        return arequest

    @functools.wraps(cls.request)
    def request(cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        body, steps = _steps(session, options)
        if steps is None:
            return forward(cast_to, options, *args, **kwargs)
        deliver = functools.partial(watching.deliver, session, _format_of(options))
        return run(steps, session, lambda new: forward(cast_to, _with(options, body, new), *args, **kwargs), deliver)

    return request


def _path(options: Any) -> str:
    return str(options.url).partition("?")[0]


def _format_of(options: Any) -> Format | None:
    path = _path(options)
    return next((wire for end, wire in _ROUTES.items() if path.endswith(end)), None)


def _steps(session: Session, options: Any) -> tuple[Any, lifecycle.Steps | None]:
    """The body that will be sent, and the way it goes; None for requests that carry no history."""
    if str(options.method).lower() != "post":
        return None, None
    body, extra = options.json_data, getattr(options, "extra_json", None)
    if isinstance(extra, Mapping) and isinstance(body, Mapping):  # `extra_body` wins over the arguments, as in the SDK's own merge
        body = {**cast("Mapping[str, Any]", body), **cast("Mapping[str, Any]", extra)}
    wire = _format_of(options)
    if wire is not None and isinstance(body, Mapping):
        return body, lifecycle.exchange(session, wire, cast("Mapping[str, Any]", body))  # pyright: ignore[reportUnknownMemberType]
    left_alone = next((api for end, api in _LEFT_ALONE.items() if _path(options).endswith(end)), None)
    if left_alone is not None:
        return body, lifecycle.passed_by(session, left_alone, body, "this API is not supported in this version")
    return body, None


def _with(options: Any, body: Any, new: Any) -> Any:
    """The very same options where the body did not change, else a copy with the new one."""
    if new is body:
        return options
    changed = options.model_copy() if hasattr(options, "model_copy") else options.copy()
    changed.json_data = new
    changed.extra_json = None  # merged already
    return changed
