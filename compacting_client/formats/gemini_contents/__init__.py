"""Gemini contents: `reading` shows a body as a conversation, `rules` says what the API refuses, `parts` knows the spellings and the media,
`limits` the window.

A body is the JSON of a `generateContent` request, with the model's name beside it (``model``), which the API itself has in the address.
"""

from compacting_client.formats.gemini_contents.limits import reserved, too_long
from compacting_client.formats.gemini_contents.reading import (
    API,
    FIELD,
    asked,
    held,
    read,
    refused_binding,
    usage,
    write,
)
from compacting_client.formats.gemini_contents.rules import check

__all__ = [
    "API",
    "FIELD",
    "asked",
    "check",
    "held",
    "read",
    "refused_binding",
    "reserved",
    "too_long",
    "usage",
    "write",
]
