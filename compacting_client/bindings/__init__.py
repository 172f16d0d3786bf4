"""Where a request leaves an SDK.  One binding per SDK generator; `bind` finds the right one by the client's classes, without importing an SDK."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from compacting_client.bindings import stainless
from compacting_client.errors import UnsupportedClientError
from compacting_client.session import Session

__all__ = ["bind", "bound", "described", "forms", "is_async_client", "owner"]

_WANTED = "pass a client of the OpenAI or Anthropic SDK, sync or async, such as OpenAI() or AsyncAnthropic()"
forms = stainless.FORMATS


def is_async_client(client: Any) -> bool:
    """Whether the client's calls are awaited.  Raises UnsupportedClientError for what is no client."""
    if not stainless.supports(client):
        raise UnsupportedClientError(f"cannot compact {described(client)}: {_hint(client)}{_WANTED}")
    return stainless.is_async(client)


def bind(client: Any, session: Session) -> Any:
    """A client of the same type whose requests go through `session` alone, were it wrapped before or not."""
    return stainless.twin(client, session)


def bound(client: Any) -> Session | None:
    """The session of a wrapped client; None for any other object."""
    return stainless.session_of(client)


def owner(method: Any) -> Any:
    """The client that a bound method of it or of its resources calls; None for any other function."""
    while hasattr(method, "__wrapped__") and not hasattr(method, "__self__"):
        method = method.__wrapped__
    holder = getattr(method, "__self__", None)
    return next((each for each in (holder, _inner(holder)) if stainless.supports(each)), None)


def _inner(value: Any) -> Any:
    """What `value` has for a client; None where it has none."""
    for name in ("_client", "client"):
        try:
            found = getattr(value, name, None)
        except Exception:  # noqa: BLE001, S112 - a property of a stranger's object may raise anything
            continue
        if stainless.supports(found):
            return found
    return None


def described(value: Any) -> str:
    """`value` in an error message: its kind, never its content, which may be an API key."""
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"an object of type {type(value).__module__}.{type(value).__qualname__}"


def _hint(value: Any) -> str:
    if any(cls.__module__.startswith("google.genai") for cls in type(value).__mro__):
        return "the Google Gen AI client is not supported in this version; "
    if not isinstance(value, ModuleType) and _inner(value) is not None:
        return f"wrap its client first, as in compacting(OpenAI()), and give that to {type(value).__name__}; "
    return ""
