"""Which calls have a known result in the current run: the last good one of the same tool with equal arguments."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from compacting_client.core.conversation import Conversation
from compacting_client.core.facts import Fact, canonical
from compacting_client.core.numbers import exact, whole
from compacting_client.core.tokens import dump

__all__ = ["Key", "Known", "Reused", "key_of", "known", "run_of"]

Key = tuple[str, str]
"""A tool, and its arguments in one spelling."""


@dataclass(frozen=True, slots=True)
class Reused:
    """A result of an earlier call that answers this one too.

    ``content``: as the history has it, a text (or its JSON) or a list of blocks; ``age``: how many requests before the last one had it too.
    """

    content: Any
    age: int


Known = Mapping[Key, Reused]


def run_of(conversation: Conversation) -> list[int]:
    """The exchanges of the current run, oldest first: what follows the last user message."""
    question, owner = conversation.question(), conversation.exchanges.owner
    start = 0 if question is None else question
    return sorted({owner[index] for index in conversation.answers if index > start or question is None})


def known(conversation: Conversation, facts: Iterable[Fact]) -> dict[Key, Reused]:
    """The last good result of each call among `facts`."""
    asked = [index for index, role in enumerate(conversation.roles) if role == "assistant"]
    return {
        key_of(*fact.key): Reused(fact.content, len(asked) - bisect_right(asked, fact.at))
        for fact in facts
        if not fact.failed
    }


def key_of(tool: str, arguments: Any) -> Key:
    """The same for equal arguments: 1 and 1.0 are one number in JSON."""
    spelled = canonical(arguments)
    try:
        return tool, dump(whole(exact(spelled))).decode("utf-8", "replace")
    except (ValueError, RecursionError):
        return tool, spelled
