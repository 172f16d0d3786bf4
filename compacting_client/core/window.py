"""The room that a request has in the model's window."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Window"]


@dataclass(frozen=True, slots=True)
class Window:
    """In counted tokens: the window's ``size``, and what of it the request itself has ``reserved`` for the answer.

    A reservation that fills the window by itself is none that a shorter history could make room for: it is left out.
    """

    size: float
    reserved: float = 0

    def budget(self, share: float = 1.0) -> int:
        """What the input may be: a share of the window, and never more than the reservation leaves; at least 1."""
        room = self.size - self.reserved if self.reserved < self.size else self.size
        return max(1, int(min(share * self.size, room)))
