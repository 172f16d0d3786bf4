"""What of the window is kept for the answer, and the answers that say that a request is too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compacting_client.formats import overflow
from compacting_client.formats.base import TooLong, whole

__all__ = ["reserved", "too_long"]

_TOO_LONG = (*overflow.CLAUDE, *overflow.COMPATIBLE)  # local servers speak this API in their own words


def reserved(body: Mapping[str, Any]) -> int:
    """`max_tokens`: since Claude 4.5 a longer prompt is not refused, but the answer then ends where the window does."""
    return whole(body, "max_tokens")


def too_long(status: int | None, body: Any, code: str | None = None) -> TooLong | None:
    """In the words of the API, of Bedrock, and of the local servers that speak it."""
    return overflow.recognised(_TOO_LONG, status, body, code)
