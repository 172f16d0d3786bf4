"""Every error of the library, split by whose fault it is.

    CompactingError
    ├── ConfigError             a setting is wrong (also a ValueError and a TypeError)
    ├── PolicyError             a policy, pin, counter or memory_key raised or returned nonsense
    ├── BudgetError             on_unfit="raise" and the request does not fit; carries the report
    └── UnsupportedClientError  the object given to compacting() is no client it knows (also a TypeError)

A provider's own errors are never wrapped: they reach the caller as the SDK raises them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compacting_client.report import Report

__all__ = ["BudgetError", "CompactingError", "ConfigError", "PolicyError", "UnsupportedClientError"]


class CompactingError(Exception):
    """Root of all errors that this library raises by itself."""


class ConfigError(CompactingError, ValueError, TypeError):
    """A setting is wrong.  Raised at construction; the message names the field, the value and what is allowed."""


class PolicyError(CompactingError):
    """A policy or one of the caller's functions raised, or returned something that is no decision.

    Reaches the caller only with ``strict=True``; otherwise the request leaves as the caller wrote it, with an event and an error log.
    ``source`` is the setting at fault: "pin", "counter", "memory_key" or "policy".
    """

    def __init__(self, message: str, source: str = "policy") -> None:
        super().__init__(message)
        self.source = source


class BudgetError(CompactingError):
    """The best that could be done is still over the budget, and ``on_unfit="raise"`` was asked for.  Nothing was sent.

    ``report`` is the :class:`~compacting_client.Report` of the request: its ``tokens_after`` is what remained, in counted tokens.
    """

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report

    def __reduce__(self) -> tuple[type[BudgetError], tuple[str, Report]]:
        return type(self), (str(self), self.report)  # so that it passes between processes


class UnsupportedClientError(CompactingError, TypeError):
    """``compacting()`` was given something that is no client of a supported SDK.  The message says what to pass."""
