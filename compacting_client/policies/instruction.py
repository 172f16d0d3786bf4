"""Add text to the system prompt of every request: what presets ask the model for."""

from __future__ import annotations

from dataclasses import dataclass

from compacting_client.core.edits import Inserted
from compacting_client.core.view import Choice, View
from compacting_client.policies.base import Policy

__all__ = ["Instruction"]


@dataclass(frozen=True)
class Instruction(Policy):
    """``text`` stands at the end of the system prompt, where the provider keeps that, once and always the same; nothing else changes."""

    text: str

    @property
    def idle(self) -> str:
        """It is there, or there is nothing that it could stand before."""
        return "nothing older"

    def triggered(self, view: View) -> bool:
        """As long as it is not there."""
        return bool(view.conversation.history) and self.text not in view.edits.asked_for

    def standing(self, view: View) -> Choice | None:
        """It: inside of a loop that began with it, its absence would be the edit, on a model that binds thinking to the system prompt."""
        return self.choose(view) if self.triggered(view) else None

    def choose(self, view: View) -> Choice | None:
        """It, beside the texts that are there."""
        first = next((index for index in view.conversation.history if index not in view.gone), None)
        if first is None:
            return None
        return Choice(frozenset(), "policy", inserted=(*view.edits.inserted, Inserted(first, "instruction", self.text)))
