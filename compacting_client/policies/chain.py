"""Several policies, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from compacting_client.core.conversation import Conversation
from compacting_client.core.effects import Effect
from compacting_client.core.reuse import Known
from compacting_client.core.view import Choice, View
from compacting_client.core.window import Window
from compacting_client.errors import ConfigError
from compacting_client.policies.base import Policy
from compacting_client.policies.function import FunctionPolicy

__all__ = ["Chain"]


class Chain(Policy):
    """Each policy decides on what the one before left; all of it is one decision, with one account.

    ``Chain(KeepTurns(10), DropOldest(60_000))``: ten turns, and never more than the budget.  Functions are taken too.  The report holds the
    request against the last of the budgets: each policy is the net below the ones before.  A chain in a chain is the same as its policies in
    that place.

    Raises ConfigError for an empty chain, and for what is no policy.
    """

    def __init__(self, *policies: Policy | Callable[[list[dict[str, Any]]], Any]) -> None:
        given: tuple[Any, ...] = policies
        found: list[Policy] = []
        for number, member in enumerate(given, 1):
            if isinstance(member, Chain):
                found.extend(member.policies)
            elif isinstance(member, Policy):
                found.append(member)
            elif callable(member) and not isinstance(member, type):
                found.append(FunctionPolicy(member))
            else:
                raise ConfigError(f"Chain takes policies such as DropOldest(60_000), not {member!r} (number {number})")
        if not found:
            raise ConfigError("Chain() is empty: give it at least one policy")
        self._policies = tuple(found)

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies, in the order in which they decide."""
        return self._policies

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self._policies))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chain) and self._policies == other._policies

    def __hash__(self) -> int:
        return hash(self._policies)

    def triggered(self, view: View) -> bool:
        """As soon as one of them is."""
        return any(policy.triggered(view) for policy in self._policies)

    def standing(self, view: View) -> Choice | None:
        """What each of them wants."""
        wanted = [choice for policy in self._policies if (choice := policy.standing(view))]
        texts = dict.fromkeys(
            text for choice in wanted for text in choice.inserted or ()
        )  # each has those that were there
        return replace(wanted[0], inserted=tuple(texts)) if wanted else None

    def deciding(self, view: View) -> Generator[Effect, Any, Choice | None]:
        """One after the other."""
        chosen: Choice | None = None
        for policy in self._policies:
            choice = view.settled((yield from policy.deciding(view))) if policy.triggered(view) else None
            if choice:
                chosen = choice if chosen is None else chosen.then(choice)
                view = yield from view.after(choice)
        return chosen

    def known(self, conversation: Conversation) -> Generator[Effect, Any, Known]:
        """What any of them knows."""
        found: dict[Any, Any] = {}
        for policy in self._policies:
            found.update((yield from policy.known(conversation)))
        return found

    def reuses(self, tool: str) -> bool:
        """Whether one of them does."""
        return any(policy.reuses(tool) for policy in self._policies)

    @property
    def is_async(self) -> bool:
        """Whether one of them is."""
        return any(policy.is_async for policy in self._policies)

    @property
    def summary_models(self) -> tuple[str, ...]:
        """Those of all."""
        return tuple(name for policy in self._policies for name in policy.summary_models)

    @property
    def budget(self) -> float | None:
        """The last one: each policy acts on what those before it could not help."""
        return next((policy.budget for policy in reversed(self._policies) if policy.budget is not None), None)

    @property
    def idle(self) -> str:
        """That of the first which has something special to say."""
        said = [policy.idle for policy in self._policies]
        return next((reason for reason in said if reason != super(Chain, self).idle), said[0])

    def sized(self, window: Callable[[], Window | None]) -> Policy:
        """The same of all."""
        sized = [policy.sized(window) for policy in self._policies]
        changed = any(new is not old for new, old in zip(sized, self._policies, strict=True))
        return Chain(*sized) if changed else self

    def rescue(self, dropping: Policy) -> Policy:
        """Under the settings of the last one that has some."""
        for policy in self._policies:
            dropping = policy.rescue(dropping)
        return dropping

    @property
    def fingerprint(self) -> str:
        """That of all."""
        return f"Chain({', '.join(policy.fingerprint for policy in self._policies)})"

    @property
    def name(self) -> str:
        """Chain, and the names of its policies."""
        return f"Chain({', '.join(policy.name for policy in self._policies)})"
