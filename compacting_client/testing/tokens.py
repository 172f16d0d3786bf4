"""Token counts of the loopback provider: an estimate, or a tokenizer of the test's own, and a prompt cache to read them from."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Iterable
from typing import Any, cast

__all__ = ["PromptCache", "Tokenizer"]

MEDIA = "m" * 6_400  # stands for a picture or document: about 1,600 tokens, whatever its base64 weighs


def canonical(value: Any) -> str:
    """JSON of any value, the same for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class Tokenizer:
    """Counts JSON values, inline media at a flat rate: by the caller's function of a text, else a quarter of the size in UTF-16 code units."""

    def __init__(self, count: Callable[[str], int] | None = None) -> None:
        self._count = count

    def size(self, value: Any) -> float:
        """Tokens of one value; parts of a token where they are estimated."""
        text = canonical(_without_media(value))
        return self._count(text) if self._count else len(text.encode("utf-16-le", "surrogatepass")) / 8

    def total(self, values: Iterable[Any]) -> int:
        """Tokens of these values, rounded up."""
        return math.ceil(sum(map(self.size, values)))


def _without_media(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_media(each) for each in cast("list[Any]", value)]
    if isinstance(value, str):
        return MEDIA if value.startswith("data:") and len(value) > len(MEDIA) else value
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    inline = any(name in fields for name in ("media_type", "format", "mimeType", "mime_type"))
    return {name: MEDIA if inline and name == "data" else _without_media(each) for name, each in fields.items()}


class PromptCache:
    """Remembers the prompts of accepted requests, as if each carried cache marks and no entry ever expired."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._prefixes: set[bytes] = set()
        self._lock = threading.Lock()

    def read(self, scope: str, items: Iterable[tuple[Any, Any]]) -> int:
        """Tokens of the longest run of leading items that an earlier prompt of this scope began with; then keep this one.

        items: (what is counted, what identifies it), in prompt order: tools, system, messages.
        """
        digest, cached, hit = scope.encode(), 0.0, True
        with self._lock:
            for counted, identity in items:
                digest = hashlib.sha256(digest + canonical(identity).encode("utf-8", "surrogatepass")).digest()
                hit = hit and digest in self._prefixes
                cached += self._tokenizer.size(counted) if hit else 0
                self._prefixes.add(digest)
        return math.ceil(cached)
