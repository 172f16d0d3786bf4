"""Pictures, documents and sound are counted by what a model reads of them, never by their base64 (DESIGN 5)."""

from __future__ import annotations

import base64
import binascii
import io
import re
from threading import Lock

import imagesize

__all__ = ["audio_seconds", "audio_tokens", "document_tokens", "pages", "picture_size", "video_tokens"]

_HEADER = 4 * 65_536  # base64 characters that surely hold a picture's header, a JPEG's embedded thumbnail included
_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
PAGE_TOKENS = 3_000
"""One PDF page: the upper end of the text figure in Anthropic's PDF guide (1,500 to 3,000 a page); OpenAI gives none."""
AUDIO_TOKENS_PER_SECOND = 10
"""OpenAI's audio guide: user audio is one token per 100 ms."""
VIDEO_TOKENS_PER_SECOND = 263
"""The only published figure, that of the Gemini API; servers of open models take fewer."""
_VIDEO_BYTES_PER_SECOND = 125_000
_BYTES_PER_SECOND = {"wav": 48_000, "mp3": 16_000}
_ONE_ALPHABET = str.maketrans("-_", "+/")


def decoded(data: str, limit: int | None = None) -> bytes:
    """The bytes of base64 text of either alphabet, with or without a ``data:`` prefix; what cannot be decoded is empty."""
    if data.startswith("data:"):
        data = data.partition(",")[2]
    head = (data if limit is None else data[:limit]).translate(_ONE_ALPHABET)
    try:
        return base64.b64decode(head + "=" * (-len(head) % 4))
    except (ValueError, binascii.Error):
        return b""


def picture_size(data: str) -> tuple[int, int] | None:
    """Width and height in pixels, from a base64 picture's header; None where it does not tell."""
    try:
        size: tuple[int, int] = imagesize.get(io.BytesIO(decoded(data, _HEADER)))  # pyright: ignore[reportUnknownMemberType]
    except Exception:  # noqa: BLE001 - a broken header in the caller's picture must not cost the request
        return None
    return size if min(size) > 0 else None


def pages(data: str) -> int:
    """How many pages a base64 document has: those of a PDF that shows them, one otherwise.  A document that comes again is not decoded again."""
    key = len(data), hash(data)
    found = _counted.get(key)
    if found is None:
        found = max(1, len(_PAGE.findall(decoded(data))))
        with _counting:
            _counted[key] = found
            while len(_counted) > _COUNTED:
                del _counted[next(iter(_counted))]
    return found


_COUNTED = 1_000
_counted: dict[tuple[int, int], int] = {}  # by hash: it holds numbers, and no document
_counting = Lock()


def document_tokens(data: str) -> int:
    """A base64 document, by its pages."""
    return PAGE_TOKENS * pages(data)


def audio_seconds(data: str, kind: str) -> float:
    """How long base64 sound lasts, by the usual bit rate of its kind."""
    return len(data) * 3 // 4 / _BYTES_PER_SECOND.get(kind, 16_000)


def audio_tokens(data: str, kind: str) -> int:
    """Base64 sound, by its length."""
    return 1 + int(audio_seconds(data, kind) * AUDIO_TOKENS_PER_SECOND)


def video_tokens(data: str) -> int:
    """A base64 video, at one megabit a second; a linked one as a minute."""
    size = len(data) * 3 // 4 if data.startswith("data:") else 60 * _VIDEO_BYTES_PER_SECOND
    return 1 + int(size / _VIDEO_BYTES_PER_SECOND * VIDEO_TOKENS_PER_SECOND)
