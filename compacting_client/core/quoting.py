"""Messages as data inside of a prompt: one JSON value a line, without what no model can read there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from compacting_client.core.conversation import Message
from compacting_client.core.tokens import dump, estimate

__all__ = ["cut", "plain", "quoted"]

_ENCODED = frozenset({"data", "file_data"})
_SEALED = frozenset({"signature", "thoughtSignature", "thought_signature", "encrypted_content", "cache_control"})
_LONG = 200  # characters, above which such a string is no text


def plain(value: Any) -> Any:
    """A copy of JSON-like data; a typed object in it becomes what is sent for it."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in cast("list[Any]", value)]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return json.loads(dump(value).decode("utf-8", "surrogatepass"))


def quoted(value: Any) -> str:
    """JSON in one line.  The data of pictures, sounds and documents gives way to its size; seals and marks are left out."""
    return dump(_light(value)).decode("utf-8", "replace")


def cut(message: Message, most: float) -> list[Message]:
    """The message, if it has at most so many tokens as it is quoted; else several, each with a stretch of what it says."""
    if estimate(quoted(message)) + 1 <= most:
        return [message]
    text = message.get("content")
    if not isinstance(text, str) or message.get("tool_calls"):
        text = quoted(message)
        message = {"role": message.get("role"), "content": text}
    middle = len(text) // 2
    if not middle:
        return [message]
    halves = ({**message, "content": part} for part in (text[:middle], text[middle:]))
    return [piece for half in halves for piece in cut(half, most)]


def _light(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {
            name: f"({len(each)} characters)"
            if name in _ENCODED and isinstance(each, str) and len(each) > _LONG
            else _light(each)
            for name, each in fields.items()
            if name not in _SEALED
        }
    if isinstance(value, list):
        return [_light(each) for each in cast("list[Any]", value)]
    if isinstance(value, str) and value.startswith("data:") and len(value) > _LONG:
        return f"{value[:_LONG].partition(',')[0]},({len(value)} characters)"
    return value
