"""Sizes: what a value weighs as JSON.

The estimate is ctx-compact's: ceil(UTF-16 length of the compact JSON / 4), so that a budget means the same number in both (SEEDS 1).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import orjson

__all__ = ["dump", "dump_all", "estimate", "of_length", "surplus", "units", "utf16_length"]

_WITHIN = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that begin no character
_ASTRAL = bytes(range(0xF0, 0xF8))  # those that begin one of two UTF-16 units
_SORTED = orjson.OPT_SORT_KEYS


def dump(value: Any) -> bytes:
    """Compact UTF-8 JSON with sorted keys.  Never raises for what a caller may put into a message: odd values count by their `repr`.

    Fields whose value is a sentinel of an SDK are no data: the SDKs leave them out too.
    """
    try:
        return orjson.dumps(value, _plain, _SORTED)
    except (TypeError, ValueError, RecursionError):  # sentinels, other keys than text, lone surrogates, large integers
        return _dump_slowly(value)


def dump_all(values: Sequence[Any]) -> bytes:
    """`dump` of each, with commas between; what one of them needs changes nothing in the others."""
    try:
        return orjson.dumps(values, _plain, _SORTED)[1:-1]
    except (TypeError, ValueError, RecursionError):
        return b",".join(map(dump, values))


def _is_sentinel(value: Any) -> bool:
    return type(value).__name__ in ("NotGiven", "Omit")


def _given(value: Any) -> Any:
    """A value without the fields that are not given; elsewhere a sentinel is null."""
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return {name: _given(each) for name, each in fields.items() if not _is_sentinel(each)}
    if isinstance(value, (list, tuple)):
        return [_given(each) for each in cast("Sequence[Any]", value)]
    return None if _is_sentinel(value) else value


def _plain(value: Any) -> Any:
    """A typed object as the SDK would send it."""
    model_dump = getattr(value, "model_dump", None)
    if callable(model_dump):
        return model_dump(mode="json", by_alias=True, exclude_none=True)
    if _is_sentinel(value):
        raise TypeError("no data")  # here nobody can say which field to leave out
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return repr(value)


def _dump_slowly(value: Any) -> bytes:
    with suppress(TypeError, ValueError, RecursionError):
        value = _given(value)
        return orjson.dumps(value, _plain, _SORTED | orjson.OPT_NON_STR_KEYS)
    for ordered in (True, False):
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain, sort_keys=ordered)
        except (TypeError, ValueError, RecursionError):
            continue
        return text.encode("utf-8", "surrogatepass")
    return repr(value).encode("utf-8", "surrogatepass")


def utf16_length(data: bytes) -> int:
    """The length, in UTF-16 code units, of UTF-8 text: what JavaScript calls its length."""
    if data.isascii():
        return len(data)
    return len(data.translate(None, _WITHIN)) + len(data) - len(data.translate(None, _ASTRAL))


def units(text: str) -> int:
    """UTF-16 units of a text's JSON.  What JSON escapes is ASCII, so the rest is as long as it is without."""
    try:
        found = len(orjson.dumps(text))
        return found if text.isascii() else found + surplus(text)
    except (TypeError, UnicodeEncodeError):  # lone surrogates
        return utf16_length(dump(text))


def surplus(text: str) -> int:
    """UTF-16 units of a text, less its bytes in UTF-8.  Raises UnicodeEncodeError for lone surrogates."""
    return len(text.encode("utf-16-le")) // 2 - len(text.encode())


def of_length(length: int) -> int:
    """Tokens of a text of so many UTF-16 units: four to a token, rounded up."""
    return (length + 3) >> 2


def estimate(value: Any) -> int:
    """The default estimate of one message, in tokens."""
    return of_length(utf16_length(dump(value)))
