"""Events, kept for a test to look at."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["EventCapture"]

EventT = TypeVar("EventT")


class EventCapture:
    """A callback that keeps what it is given, in the order it came.

        capture = EventCapture()
        client = compacting(OpenAI(), 60_000, on_event=capture)
        ...
        assert capture.names == ["compaction.applied", "content.dropped"]

    It serves ``on_drop``, ``on_reuse`` and ``on_report`` as well, on sync and async clients.  ``events`` is a plain list.
    """

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __call__(self, event: object) -> None:
        """Keep one event."""
        self.events.append(event)

    @property
    def names(self) -> list[str]:
        """The dotted names of all events, oldest first; what has no name (a report) is left out."""
        return [event.name for event in self.events if hasattr(event, "name")]

    def named(self, name: str) -> list[Any]:
        """The events of one dotted name, such as ``"content.dropped"``, oldest first."""
        return [event for event in self.events if getattr(event, "name", None) == name]

    def of(self, kind: type[EventT]) -> list[EventT]:
        """The events of one class, oldest first, typed as that class."""
        return [event for event in self.events if isinstance(event, kind)]

    def clear(self) -> None:
        """Forget all events."""
        self.events.clear()

    def __repr__(self) -> str:
        return f"EventCapture({self.names})"
