"""What of the window is kept for the answer, and the answer that says that a request is too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compacting_client.formats import overflow
from compacting_client.formats.base import TooLong, as_dict
from compacting_client.formats.gemini_contents.parts import field

__all__ = ["reserved", "too_long"]


def reserved(body: Mapping[str, Any]) -> int:
    """`maxOutputTokens`, in the `generationConfig` of the wire or the `config` that the SDK makes it from.

    The API's own limit is one of the input alone; a window that is given for a model is one of both.
    """
    for name in ("generationConfig", "config"):
        size = field(as_dict(field(body, name)), "maxOutputTokens")
        if type(size) is int and size > 0:
            return size
    return 0


def too_long(status: int | None, body: Any, code: str | None = None) -> TooLong | None:
    """In the words of the Gemini API and of Vertex, which are the same."""
    return overflow.recognised(overflow.GEMINI, status, body, code)
