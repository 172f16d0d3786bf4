"""Any function as a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compacting_client.policies.base import Policy, identity
from compacting_client.validation import is_async, takes_one

__all__ = ["FunctionPolicy"]


class FunctionPolicy(Policy):
    """A function from neutral messages to those that stay, plain or (on async clients) async: what `Policy.trim` is, without a class.

    Its decisions are remembered for this very function object, by its name and its identity in the process; a lambda that is written anew for
    each request therefore decides anew each time.
    """

    def __init__(self, function: Callable[[list[dict[str, Any]]], Any]) -> None:
        takes_one("policy", function)
        self.function = function

    def __repr__(self) -> str:
        return f"FunctionPolicy({self.name})"

    def trim(self, messages: list[dict[str, Any]]) -> Any:
        """What the function makes of the messages, or something to await."""
        return self.function(messages)

    @property
    def is_async(self) -> bool:
        """Whether the function is."""
        return is_async(self.function)

    @property
    def fingerprint(self) -> str:
        """By the function's name and identity."""
        named = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"function {named} {identity(self.function)}"

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", type(self.function).__name__)
