"""What a policy is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from compacting_client.core.view import Choice, View

__all__ = ["Policy"]


class Policy(ABC):
    """Decides what leaves.  It never sees a provider: it sees units, their sizes and pins."""

    @abstractmethod
    def triggered(self, view: View) -> bool:
        """Whether this history needs a decision.  Asked for every request, on what is left after the remembered cut."""

    @abstractmethod
    def choose(self, view: View) -> Choice | None:
        """What to drop, once triggered; None where nothing can or should go."""

    @property
    def budget(self) -> float | None:
        """The limit, in counted tokens, that the request is held against in the report; None where there is none."""
        return None

    @property
    def fingerprint(self) -> str:
        """Tells its decisions apart from those of other policies and settings."""
        return repr(self)

    @property
    def name(self) -> str:
        """What events and reports call it."""
        return type(self).__name__
