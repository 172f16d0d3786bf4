"""Where a request leaves an SDK.  One binding per SDK generator; `bind` finds the right one by the client's classes, without importing an SDK."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Protocol

from compacting_client.bindings import google, models, stainless
from compacting_client.errors import UnsupportedClientError
from compacting_client.formats.base import Format
from compacting_client.session import Session

__all__ = ["bind", "bound", "counts", "described", "formats_of", "is_async_client", "owner", "prepare"]

_WANTED = (
    "pass a client of the OpenAI, Anthropic or Google Gen AI SDK, sync or async, such as OpenAI(), AsyncAnthropic() or "
    "genai.Client()"
)


class _Binding(Protocol):
    """What each module of this package offers."""

    @property
    def FORMATS(self) -> Sequence[Format]: ...  # noqa: N802 - a module constant, seen through the protocol

    def supports(self, client: Any) -> bool: ...

    def is_async(self, client: Any) -> bool: ...

    def counts(self, client: Any) -> bool: ...

    def home(self, client: Any) -> models.Home: ...

    def bind(self, client: Any, session: Session) -> Any: ...

    def session_of(self, client: Any) -> Session | None: ...


_BINDINGS: Sequence[_Binding] = (stainless, google)


def is_async_client(client: Any) -> bool:
    """Whether the client's calls are awaited.  Raises UnsupportedClientError for what is no client."""
    for binding in _BINDINGS:
        if binding.supports(client):
            return binding.is_async(client)
    raise UnsupportedClientError(f"cannot compact {described(client)}: {_hint(client)}{_WANTED}")


def counts(client: Any) -> bool:
    """Whether the client's provider counts the tokens of a request before it is sent."""
    return next(binding for binding in _BINDINGS if binding.supports(client)).counts(client)


def bind(client: Any, session: Session) -> Any:
    """A client of the same type whose requests go through `session` alone, were it wrapped before or not.  Raises ConfigError as `prepare` does."""
    prepare(client, session)
    return next(binding for binding in _BINDINGS if binding.supports(client)).bind(client, session)


def prepare(client: Any, session: Session) -> None:
    """Build what the policy of a session needs besides this client.  Raises ConfigError where an SDK or its key is missing."""
    home = next(binding for binding in _BINDINGS if binding.supports(client)).home(client)
    models.prepare(home, session, session.settings.policy)


def bound(client: Any) -> Session | None:
    """The session of a wrapped client; None for any other object."""
    return next((found for binding in _BINDINGS if (found := binding.session_of(client)) is not None), None)


def formats_of(client: Any) -> Sequence[Format]:
    """The wire formats that a client speaks."""
    return next(binding for binding in _BINDINGS if binding.supports(client)).FORMATS


def owner(method: Any) -> Any:
    """The client that a bound method of it or of its resources calls; None for any other function."""
    while hasattr(method, "__wrapped__") and not hasattr(method, "__self__"):
        method = method.__wrapped__
    holder = getattr(method, "__self__", None)
    return holder if _supported(holder) else _inner(holder)


def _supported(value: Any) -> bool:
    return any(binding.supports(value) for binding in _BINDINGS)


def _inner(value: Any) -> Any:
    """What `value` has for a client; None where it has none."""
    for name in ("_client", "client"):
        try:
            found = getattr(value, name, None)
        except Exception:  # noqa: BLE001, S112 - a property of a stranger's object may raise anything
            continue
        if _supported(found):
            return found
    return google.api_client_of(value)


def described(value: Any) -> str:
    """`value` in an error message: its kind, never its content, which may be an API key."""
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"an object of type {type(value).__module__}.{type(value).__qualname__}"


def _hint(value: Any) -> str:
    if not isinstance(value, ModuleType) and _inner(value) is not None:
        return f"wrap the client that it belongs to, and take the {type(value).__name__} of that, as in compacting(client, 60_000); "
    return ""
