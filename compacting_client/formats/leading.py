"""Text at the end of a system prompt that leads the messages, as in chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compacting_client.core.conversation import ItemEdit, Reader
from compacting_client.formats.base import get

__all__ = ["with_system"]

_SYSTEMS = ("system", "developer")


def with_system(reader: Reader, messages: Sequence[Any], texts: list[str]) -> list[Any]:
    """The messages with texts at the end of the last leading system message; in one of their own, in front, where none leads.

    A request has system messages or developer messages, never both: a new one has the role of those that stand further back.
    """
    roles = [str(get(message, "role")) for message in messages]
    leading = next((n for n, role in enumerate(roles) if role not in _SYSTEMS), len(roles))
    if leading:
        extended = reader.edited(messages[leading - 1], ItemEdit(end=texts))
        return [*messages[: leading - 1], extended, *messages[leading:]]
    role = next((role for role in roles if role in _SYSTEMS), "system")
    return [{"role": role, "content": "\n\n".join(texts)}, *messages]
