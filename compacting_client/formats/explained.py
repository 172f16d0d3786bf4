"""Whether a provider counts just what stands in a request, so that its count can be compared with an estimate of it (DESIGN 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from compacting_client.core.conversation import Conversation
from compacting_client.formats.base import as_dict, given, kind

__all__ = ["explained"]

_ADDING = ("web_search_options", "plugins", "mcp_servers", "container", "context_management")
"""Fields by which the provider searches, runs, or edits by itself before it counts."""

_RUN_BY_THE_PROVIDER = ("web_", "code_execution", "tool_search", "mcp", "advisor", "openrouter:")
"""How the types of server tools begin; whatever those return is counted as input."""

_OWN_TOOLS = frozenset({"functionDeclarations", "function_declarations"})
_LINKS = ("url", "image_url", "video_url", "document_url", "file_id", "fileUri", "file_uri")


def explained(body: Mapping[str, Any], conversation: Conversation) -> bool:
    """Whether all of it is in the body: no server tools, no edits of the provider's own, no thinking (of which it counts what it likes),
    no media behind a link.
    """
    if conversation.thinking or any(given(body.get(name)) for name in _ADDING):
        return False
    tools = conversation.tools
    if isinstance(tools, (list, tuple)) and any(map(_is_server_tool, cast("Sequence[Any]", tools))):
        return False
    items, media = conversation.items, conversation.contents.media
    return not any(_has_link(items[index]) for index in media)


def _is_server_tool(tool: Any) -> bool:
    fields = as_dict(tool) or {}
    if kind(fields):
        return kind(fields).startswith(_RUN_BY_THE_PROVIDER)
    declares = bool(_OWN_TOOLS & fields.keys())
    named = "name" in fields or "function" in fields
    return not named and (not declares or len([each for each in fields.values() if each is not None]) > 1)


def _has_link(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_link, cast("Sequence[Any]", value)))
    fields = as_dict(value)
    if fields is None:
        return False
    return any(
        name in _LINKS and not each.startswith("data:") if isinstance(each, str) else _has_link(each)
        for name, each in fields.items()
    )
