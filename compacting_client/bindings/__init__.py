"""Where a request leaves an SDK.  One binding per SDK generator; `bind` finds the right one by the client's classes, without importing an SDK."""

from __future__ import annotations

from typing import Any

from compacting_client.bindings import stainless
from compacting_client.errors import UnsupportedClientError
from compacting_client.session import Session

__all__ = ["bind", "bound", "forms", "is_async_client", "unbound"]

_WANTED = "pass a client of the OpenAI or Anthropic SDK, sync or async, such as OpenAI() or AsyncAnthropic()"


def is_async_client(client: Any) -> bool:
    """Whether the client's calls are awaited.  Raises UnsupportedClientError for what is no client."""
    _checked(client)
    return stainless.is_async(client)


def bind(client: Any, session: Session) -> Any:
    """A client of the same type whose requests go through `session`.  Raises UnsupportedClientError."""
    _checked(client)
    return stainless.twin(client, session)


def bound(client: Any) -> Session | None:
    """The session of a wrapped client; None for any other object."""
    return stainless.session_of(client)


def unbound(client: Any) -> Any:
    """The client that a wrapped one was made from; any other object as it is."""
    return stainless.original_of(client)


forms = stainless.FORMATS


def _checked(client: Any) -> None:
    if stainless.supports(client):
        return
    if isinstance(client, type):
        raise UnsupportedClientError(f"{client.__name__} is a class; {_WANTED}")
    if any(module.startswith("google.genai") for module in (cls.__module__ for cls in type(client).__mro__)):
        raise UnsupportedClientError(f"the Google Gen AI client is not supported in this version; {_WANTED}")
    inner = next((name for name in ("client", "_client") if stainless.supports(getattr(client, name, None))), None)
    hint = f"wrap its client first, as in compacting(OpenAI()), and give that to {type(client).__name__}; " if inner else ""
    raise UnsupportedClientError(f"cannot compact {client!r}: {hint}{_WANTED}")
