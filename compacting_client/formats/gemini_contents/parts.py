"""The parts of a content: both spellings of their fields, and what their media cost.

The API takes camelCase and snake_case, mixed as one likes.  Names are camelCase here; `field` finds either.
"""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from compacting_client.formats import media
from compacting_client.formats.base import as_dict, column

__all__ = [
    "DATA",
    "TEXT_ALONE",
    "answers_alone",
    "camel",
    "field",
    "is_known",
    "kind_of",
    "kinds_in",
    "media_tokens",
    "parts_of",
]

DATA = (
    "text",
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
_UPPER = re.compile(r"(?<!^)(?=[A-Z])")
_LOWER = re.compile(r"_([a-z])")
TILE_TOKENS = 258
"""The provider's token guide: a picture of up to 384 pixels on both sides, each 768-pixel tile of a larger one, each page of a document."""
UNSEEN_PICTURE = (1024, 1024)
AUDIO_TOKENS_PER_SECOND, VIDEO_TOKENS_PER_SECOND = 32, 263
VIDEO_BYTES_PER_SECOND = 125_000
UNSEEN_SECONDS = 60
UNSEEN_PAGES = 10


@functools.cache
def _snake(name: str) -> str:
    return _UPPER.sub("_", name).lower()


@functools.cache
def camel(name: str) -> str:
    """``functionCall`` for ``function_call``."""
    return _LOWER.sub(lambda found: found[1].upper(), name)


TEXT_ALONE: tuple[str, ...] = ("text",)
_KINDS = {name: kind for kind in DATA for name in (kind, _snake(kind))}


def field(value: Any, name: str) -> Any:
    """A field by its camelCase name, in either spelling; None where it is absent, or `value` is no mapping."""
    if type(value) is not dict and not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, Any]", value)
    found = fields.get(name)
    return fields.get(_snake(name)) if found is None else found


def parts_of(content: Any) -> list[dict[str, Any]]:
    """The parts of a content as plain dicts; a string is one text part.  Not to be changed: they may be the caller's own list."""
    parts = cast("dict[str, Any]", content).get("parts") if type(content) is dict else None
    if type(parts) is list and set(map(type, cast("list[Any]", parts))) <= {dict}:
        return cast("list[dict[str, Any]]", parts)
    parts = field(content, "parts")
    if isinstance(parts, str):
        return [{"text": parts}]
    if not isinstance(parts, (list, tuple)):
        return []
    return [
        part if type(part) is dict else {"text": part} if isinstance(part, str) else as_dict(part) or {"": part}
        for part in cast("Sequence[Any]", parts)
    ]


def kind_of(part: Mapping[str, Any]) -> str:
    """The camelCase name of the data that a part holds; "" where it holds none that is known."""
    for name in part:
        if name in _KINDS and part[name] is not None:
            return _KINDS[name]
    return ""


def kinds_in(contents: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """The kind of each part of each content; the very `TEXT_ALONE` where there is one part, of nothing but a text that is not empty."""
    lists = column(contents, "parts")
    parts: list[Any] = [
        each[0] if kind is list and len(each) == 1 else None for each, kind in zip(lists, map(type, lists), strict=True)
    ]
    texts: list[Any] = [
        part["text"] if kind is dict and len(part) == 1 and "text" in part else None
        for part, kind in zip(parts, map(type, parts), strict=True)
    ]
    return [
        TEXT_ALONE if text and type(text) is str else tuple(map(kind_of, parts_of(content)))
        for text, content in zip(texts, contents, strict=True)
    ]


def answers_alone(content: Mapping[str, Any]) -> bool:
    """Whether a content has nothing but responses without parts of their own, in the usual spelling."""
    found = [part.get("functionResponse") for part in parts_of(content)]
    return set(map(type, found)) == {dict} and not any(
        "parts" in cast("dict[str, Any]", response) for response in found
    )


def is_known(part: Mapping[str, Any]) -> bool:
    """Whether a part is understood: data of a known kind, or a thought's signature alone."""
    return bool(kind_of(part) or field(part, "thoughtSignature") or field(part, "videoMetadata"))


def media_tokens(part: Mapping[str, Any]) -> int:
    """What a part with inline data or a file costs by the provider's formula; a file is not there to be looked at, so its kind decides."""
    inline, file = field(part, "inlineData"), field(part, "fileData")
    mime = str(field(inline if inline is not None else file, "mimeType") or "")
    data = _text(field(inline, "data")) if inline is not None else None
    sort = mime.partition("/")[0]
    if sort == "image" or (not mime and data is not None):
        return _picture_tokens(media.picture_size(data) if data else None)
    if sort == "audio":
        seconds = media.audio_seconds(data, mime.partition("/")[2]) if data is not None else UNSEEN_SECONDS
        return 1 + int(seconds * AUDIO_TOKENS_PER_SECOND)
    if sort == "video":
        return 1 + int(_video_seconds(part, data) * VIDEO_TOKENS_PER_SECOND)
    return TILE_TOKENS * (media.pages(data) if data is not None else UNSEEN_PAGES)


def _text(data: Any) -> str:
    return base64.b64encode(data).decode() if isinstance(data, bytes) else str(data or "")


def _picture_tokens(size: tuple[int, int] | None) -> int:
    width, height = size or UNSEEN_PICTURE
    if width <= 384 and height <= 384:
        return TILE_TOKENS
    return TILE_TOKENS * -(-width // 768) * -(-height // 768)


def _video_seconds(part: Mapping[str, Any], data: str | None) -> float:
    """By the clip that was asked for, else by a usual bit rate."""
    clip = field(part, "videoMetadata")
    start, end = _seconds(field(clip, "startOffset")) or 0.0, _seconds(field(clip, "endOffset"))
    if end is not None and end > start:
        return end - start
    return UNSEEN_SECONDS if data is None else len(data) * 3 / 4 / VIDEO_BYTES_PER_SECOND


def _seconds(offset: Any) -> float | None:
    try:
        return float(str(offset).removesuffix("s"))
    except ValueError:
        return None
