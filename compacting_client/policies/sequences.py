"""Completed tool sequences: what `remove_tool_msgs` takes away."""

from __future__ import annotations

from compacting_client.core.view import View

__all__ = ["completed"]


def completed(view: View) -> set[int]:
    """The units of completed tool sequences: one exchange after another, then an assistant message without calls."""
    conversation = view.conversation
    owner, roles = conversation.exchanges.owner, conversation.roles
    found: set[int] = set()
    chain: dict[int, None] = {}
    for index, role in enumerate(roles):
        unit = owner[index]
        if index in view.gone:
            continue
        if _is_exchange(view, unit):
            chain[unit] = None
            continue
        answered = all(conversation.exchanges.unit(first)[-1] < index for first in chain)
        if role == "assistant" and unit == index and answered and chain.keys().isdisjoint(view.pinned):
            found.update(chain)
        chain.clear()
    return found


def _is_exchange(view: View, unit: int) -> bool:
    """Whether a unit is nothing but calls and their results."""
    calls, roles = view.conversation.calls, view.conversation.roles
    members = view.conversation.exchanges.unit(unit)
    asks = [index for index in members if index in calls]
    return bool(asks) and all(roles[index] == "tool" for index in members if index not in calls)
