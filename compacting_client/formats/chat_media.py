"""What the media of a chat message cost, by the provider's formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compacting_client.formats import media
from compacting_client.formats.base import as_dict

__all__ = ["media_tokens"]


def media_tokens(part: Mapping[str, Any]) -> int:
    """Tokens of a picture, a sound, a video or a document."""
    what = part["type"]
    data = as_dict(part.get(what)) or {"url": part.get(what)}
    if what == "image_url":
        return _picture_tokens(str(data.get("url") or ""), data.get("detail"))
    if what == "input_audio":
        return media.audio_tokens(str(data.get("data") or ""), str(data.get("format") or ""))
    if what == "video_url":
        return media.video_tokens(str(data.get("url") or ""))
    return media.document_tokens(str(data.get("file_data") or data.get("url") or ""))


def _picture_tokens(url: str, detail: Any) -> int:
    """OpenAI's vision guide (gpt-4o family): 85, and 170 for each 512-pixel tile after fitting into 2,048 and to 768 on the short side."""
    if detail == "low":
        return 85
    width, height = (media.picture_size(url) if url.startswith("data:") else None) or (1024, 1024)
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / (min(width, height) * scale))
    across, down = -(-int(width * scale) // 512), -(-int(height * scale) // 512)
    return 85 + 170 * max(1, across) * max(1, down)
