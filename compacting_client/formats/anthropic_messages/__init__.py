"""Anthropic messages: `reading` shows a body as a conversation, `rules` says what the API refuses, `thinking` knows signed
thinking, `limits` the window.
"""

from compacting_client.formats.anthropic_messages.limits import reserved, too_long
from compacting_client.formats.anthropic_messages.reading import API, FIELD, asked, held, read, usage, write
from compacting_client.formats.anthropic_messages.rules import check
from compacting_client.formats.anthropic_messages.thinking import refused_binding

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
