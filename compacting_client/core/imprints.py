"""Imprints: the immutable trace of an item, from which its size and its digest are taken.

An imprint is

* a text: the item is ``{"role": <its neutral role>, "content": text}`` and nothing else;
* a pair of texts: ``{"role": "tool", "tool_call_id": call, "content": text}`` and nothing else, as ``(text, call)``;
* bytes: the compact JSON of anything else, without the data of its media;
* a number: the size of what was such JSON, once that was let go.

Most messages are texts, and a text costs nothing to keep, to compare and to hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import orjson

from compacting_client.core.tokens import dump, of_length, utf16_length

__all__ = ["FRAMES", "Imprint", "at_most", "sizes", "weighed"]

Imprint: TypeAlias = "str | tuple[str, str] | bytes | int"

FRAMES: Mapping[str, int] = {
    **{role: len(dump({"role": role, "content": ""})) - len('""') for role in ("user", "assistant")},
    "tool": len(dump({"role": "tool", "tool_call_id": "", "content": ""})) - 2 * len('""'),
}
"""UTF-16 units of an item's JSON around its texts, by neutral role; items of other roles have bytes for an imprint."""


def sizes(imprints: Sequence[Imprint], roles: Sequence[str]) -> list[float]:
    """The default estimate of each item, in tokens, its media aside."""
    json, frames = orjson.dumps, FRAMES
    return [
        # what `_size` says of ASCII text, in place: most messages are that
        (len(json(imprint)) + frames[role] + 3) >> 2
        if type(imprint) is str and imprint.isascii()
        else _size(imprint, role)
        for imprint, role in zip(imprints, roles, strict=True)
    ]


def _size(imprint: Imprint, role: str) -> int:
    match imprint:
        case bytes():
            return of_length(utf16_length(imprint))
        case str():
            return of_length(_units(imprint) + FRAMES[role])
        case tuple():
            return of_length(_units(imprint[0]) + _units(imprint[1]) + FRAMES[role])
        case _:
            return imprint


def _units(text: str) -> int:
    """UTF-16 units of a text's JSON.  What JSON escapes is ASCII, so the rest is as long as it is without."""
    try:
        units = len(orjson.dumps(text))
    except TypeError:  # lone surrogates
        return utf16_length(dump(text))
    return units if text.isascii() else units - len(text.encode()) + len(text.encode("utf-16-le")) // 2


def weighed(imprints: Sequence[Imprint]) -> list[Imprint]:
    """The imprints with the size of each JSON in its place."""
    return [_size(imprint, "") if type(imprint) is bytes else imprint for imprint in imprints]


def at_most(imprints: Sequence[Imprint], roles: Sequence[str]) -> float:
    """No less than the sum of `sizes`, in one serialisation.  Infinite where that fails.

    UTF-8 is never shorter than UTF-16, and what is rounded up is less than a token an item.
    """
    try:
        texts = len(orjson.dumps(imprints, bytes.decode))
    except TypeError:  # lone surrogates
        return float("inf")
    return (texts + sum(units * roles.count(role) for role, units in FRAMES.items())) / 4 + len(imprints)
