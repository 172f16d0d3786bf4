"""Signed thinking: what binds it, what may be removed, and which exchange has to stay at the head of an open tool loop.

Sources: the provider's "extended thinking" and "preserved thinking" documents; mastra-ai/mastra#7799, Kilo-Org/kilocode#5219 (a loop must start
with thinking); anthropics/claude-code#24087 (edited blocks); NousResearch/hermes-agent#106426 (bound to another conversation).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from compacting_client.formats.base import get, kind

__all__ = [
    "THINKING",
    "binds",
    "enabled",
    "loop_is_open",
    "opening",
    "refused_binding",
    "starts_with_thinking",
    "version",
    "without_thinking",
]

THINKING = frozenset({"thinking", "redacted_thinking"})
_BINDING_SINCE = (5, 1)
_NAME = re.compile(r"claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")


def version(model: str) -> tuple[int, int]:
    """(5, 1) for "claude-opus-5-1-20260801" and the names that Bedrock and Vertex give it; (0, 0) where the name does not tell."""
    found = _NAME.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def binds(model: str, body: Mapping[str, Any]) -> bool:
    """Whether kept thinking is refused once anything before it changed."""
    binding = get(get(body.get("thinking"), "block_binding"), "prefix_mismatch_behavior")
    return version(model) >= _BINDING_SINCE and binding != "drop_block"


def enabled(body: Mapping[str, Any]) -> bool:
    """Whether thinking is `enabled` by hand: then an open tool loop has to start with a thinking block (not so for `adaptive`)."""
    return bool(get(body.get("thinking"), "type") == "enabled")


def starts_with_thinking(blocks: Sequence[Any]) -> bool:
    """Whether an assistant item may open a tool loop while thinking is `enabled`."""
    return bool(blocks) and kind(blocks[0]) in THINKING


def loop_is_open(roles: Sequence[str]) -> bool:
    """Whether the history ends in tool results, system messages aside."""
    return next((role for role in reversed(roles) if role != "system"), None) == "tool"


def opening(roles: Sequence[str], blocks: Callable[[int], Sequence[Any]]) -> int | None:
    """The assistant item that opens the tool loop which the history ends in, if it has to stay; None where every later one could open it.

    ``blocks``: gives those of an item.
    """
    if not loop_is_open(roles):
        return None
    first = len(roles)
    while first and roles[first - 1] in ("assistant", "tool", "system"):
        first -= 1
    steps = [index for index in range(first, len(roles)) if roles[index] == "assistant"]
    if not steps or not starts_with_thinking(blocks(steps[0])):
        return None
    return None if all(starts_with_thinking(blocks(index)) for index in steps) else steps[0]


def without_thinking(content: Any) -> list[Any] | None:
    """A content list without thinking blocks; None where it has none to lose."""
    if not isinstance(content, (list, tuple)):
        return None
    blocks = cast("Sequence[Any]", content)
    left = [block for block in blocks if kind(block) not in THINKING]
    return left if len(left) < len(blocks) else None


def refused_binding(status: int | None, text: str) -> bool:
    """Whether the error is the one for thinking bound to a different conversation: memory was lost, or another worker cut."""
    return status in (None, 400) and "bound to a different conversation" in text
