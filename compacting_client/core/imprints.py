"""Imprints: the immutable trace of an item, from which its size and its digest are taken.

An imprint is

* a text: the item is nothing but that text in its role, as the format writes it (in a chat ``{"role": <role>, "content": text}``);
* a pair of texts: ``{"role": "tool", "tool_call_id": call, "content": text}`` and nothing else, as ``(text, call)``;
* bytes: the compact JSON of anything else, without the data of its media.

Most messages are texts, and a text costs nothing to keep, to compare and to hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import orjson

from compacting_client.core.tokens import dump, of_length, surplus, utf16_length

__all__ = ["CHAT", "FRAMES", "Imprint", "Plain", "size", "sizes"]

Imprint: TypeAlias = "str | tuple[str, str] | bytes"

FRAMES: Mapping[str, int] = {
    **{role: len(dump({"role": role, "content": ""})) - len('""') for role in ("user", "assistant")},
    "tool": len(dump({"role": "tool", "tool_call_id": "", "content": ""})) - 2 * len('""'),
}
"""UTF-16 units of a chat item's JSON around its texts, by neutral role; items of other roles have bytes for an imprint."""


class Plain(NamedTuple):
    """How a format writes an item that is nothing but a text in its role.

    ``frames``   UTF-16 units of its JSON around the text, by the neutral roles that it may have
    ``said``     what it says, of role and text, as digests have it
    """

    frames: Mapping[str, int]
    said: Callable[[str, str], Any]


def _said(role: str, text: str) -> tuple[str, str]:
    return role, text


CHAT = Plain(FRAMES, _said)


_PAIR = FRAMES["tool"] - len("[,]")  # of a pair, which is a list as JSON


def sizes(imprints: Sequence[Imprint], roles: Sequence[str], frames: Mapping[str, int] = FRAMES) -> list[float]:
    """The default estimate of each item, in tokens, its media aside."""
    json, pair = orjson.dumps, _PAIR
    return [
        # what `size` says of ASCII text, in place: most messages are that
        (len(json(imprint)) + frames[role] + 3) >> 2
        if type(imprint) is str and imprint.isascii()
        else (len(json(imprint)) + pair + 3) >> 2
        if type(imprint) is tuple and imprint[0].isascii() and imprint[1].isascii()
        else (len(imprint) + 3) >> 2
        if type(imprint) is bytes and imprint.isascii()
        else size(imprint, role, frames)
        for imprint, role in zip(imprints, roles, strict=True)
    ]


def size(imprint: Imprint, role: str, frames: Mapping[str, int] = FRAMES) -> int:
    """The default estimate of an item of this role."""
    if type(imprint) is bytes:
        return of_length(len(imprint) if imprint.isascii() else utf16_length(imprint))
    try:
        units = len(orjson.dumps(imprint))
        # what JSON escapes is ASCII, so the rest is as long as it is without
        for text in (imprint,) if type(imprint) is str else cast("tuple[str, str]", imprint):
            if not text.isascii():
                units += surplus(text)
    except (TypeError, UnicodeEncodeError):  # lone surrogates
        units = utf16_length(dump(imprint))
    return of_length(units + (frames[role] if type(imprint) is str else _PAIR))
