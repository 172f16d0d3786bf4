"""Completed tool sequences: what `remove_tool_msgs` takes away."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from compacting_client.core.view import View

__all__ = ["completed", "removed"]


def completed(view: View) -> set[int]:
    """The units of completed tool sequences: one exchange after another, then an assistant message without calls."""
    sequences = _sequences(view, view.gone)
    return {unit for chain, _ in sequences if chain.isdisjoint(view.pinned) for unit in chain}


def removed(view: View, answers: AbstractSet[int]) -> set[int]:
    """The units of sequences that went before, and whose answers did not, until now: these are among `answers`."""
    sequences = _sequences(view, frozenset())
    return {unit for chain, answer in sequences if answer in answers for unit in chain if unit in view.gone}


def _sequences(view: View, absent: AbstractSet[int]) -> Iterator[tuple[set[int], int]]:
    """The exchanges of each sequence, and the message that ends it, in a history without some items."""
    conversation = view.conversation
    owner, roles = conversation.exchanges.owner, conversation.roles
    chain: set[int] = set()
    for index, role in enumerate(roles):
        unit = owner[index]
        if index in absent:
            continue
        if _is_exchange(view, unit):
            chain.add(unit)
            continue
        answered = all(conversation.exchanges.unit(first)[-1] < index for first in chain)
        if chain and role == "assistant" and unit == index and answered:
            yield chain, index
        chain = set()


def _is_exchange(view: View, unit: int) -> bool:
    """Whether a unit is nothing but calls and their results."""
    calls, roles = view.conversation.calls, view.conversation.roles
    members = view.conversation.exchanges.unit(unit)
    asks = [index for index in members if index in calls]
    return bool(asks) and all(roles[index] == "tool" for index in members if index not in calls)
