"""Imprints: the immutable trace of an item, from which its size and its digest are taken.

An imprint is

* a text: the item is ``{"role": <its neutral role>, "content": text}`` and nothing else;
* a pair of texts: ``{"role": "tool", "tool_call_id": call, "content": text}`` and nothing else, as ``(text, call)``;
* bytes: the compact JSON of anything else, without the data of its media.

Most messages are texts, and a text costs nothing to keep, to compare and to hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import orjson

from compacting_client.core.tokens import dump, of_length, utf16_length

__all__ = ["FRAMES", "Imprint", "size", "sizes"]

Imprint: TypeAlias = "str | tuple[str, str] | bytes"

FRAMES: Mapping[str, int] = {
    **{role: len(dump({"role": role, "content": ""})) - len('""') for role in ("user", "assistant")},
    "tool": len(dump({"role": "tool", "tool_call_id": "", "content": ""})) - 2 * len('""'),
}
"""UTF-16 units of an item's JSON around its texts, by neutral role; items of other roles have bytes for an imprint."""


def sizes(imprints: Sequence[Imprint], roles: Sequence[str]) -> list[float]:
    """The default estimate of each item, in tokens, its media aside."""
    json, frames = orjson.dumps, FRAMES
    return [
        # what `size` says of ASCII text, in place: most messages are that
        (len(json(imprint)) + frames[role] + 3) >> 2
        if type(imprint) is str and imprint.isascii()
        else size(imprint, role)
        for imprint, role in zip(imprints, roles, strict=True)
    ]


def size(imprint: Imprint, role: str) -> int:
    """The default estimate of an item of this role."""
    if type(imprint) is bytes:
        return of_length(len(imprint) if imprint.isascii() else utf16_length(imprint))
    if type(imprint) is str:
        return of_length(_units(imprint) + FRAMES[role])
    text, call = cast("tuple[str, str]", imprint)
    return of_length(_units(text) + _units(call) + FRAMES["tool"])


def _units(text: str) -> int:
    """UTF-16 units of a text's JSON.  What JSON escapes is ASCII, so the rest is as long as it is without."""
    try:
        units = len(orjson.dumps(text))
        return units if text.isascii() else units - len(text.encode()) + len(text.encode("utf-16-le")) // 2
    except (TypeError, UnicodeEncodeError):  # lone surrogates
        return utf16_length(dump(text))
