"""What was decided about one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compacting_client.core.conversation import Conversation
from compacting_client.core.effects import Remember, Reuse
from compacting_client.core.measure import Measure
from compacting_client.core.plan import NOTHING, Plan
from compacting_client.core.prefix import Entry, Found
from compacting_client.core.recognition import Recognition
from compacting_client.core.summaries import Summarised
from compacting_client.core.view import Choice

__all__ = ["Outcome"]

Tokens = float


@dataclass(slots=True)
class Outcome:
    """What was decided.

    ``plan``      empty where the caller's body leaves as it is; ``reason`` then says why
    ``before``    the remembered entry by which it is told when something went
    ``stripped``  item index -> its tokens after its signed thinking was removed
    ``edited``    item index -> its tokens after it was shortened or extended, with those of an own item before it
    ``in_system`` the part of that which stands at the end of the system prompt
    ``found``     the remembered entry in force
    ``rejected``  (rules, what was done instead) for each plan that failed its check
    ``summary``   the one that was asked for with this request
    ``asked``     whether the provider was asked for its count
    ``commit``    what the memory is to be told once the provider has accepted the request; ``marks``: and of inserted texts
    ``policys``   what the policy itself had chosen, where more had to go
    """

    conversation: Conversation
    measured: Measure
    known: Recognition
    plan: Plan = NOTHING
    reason: str | None = None
    choice: Choice | None = None
    before: Found | None = None
    stripped: dict[int, Tokens] = field(default_factory=dict[int, Tokens])
    edited: dict[int, Tokens] = field(default_factory=dict[int, Tokens])
    in_system: dict[int, Tokens] = field(default_factory=dict[int, Tokens])
    found: Found | None = None
    rejected: list[tuple[tuple[str, ...], str]] = field(default_factory=list[tuple[tuple[str, ...], str]])
    asked: bool = False
    commit: Remember | Reuse | None = None
    marks: Sequence[Remember | Reuse] = ()
    summary: Summarised | None = None
    policys: Choice | None = None

    @property
    def reused(self) -> Entry | None:
        """The remembered entry in force."""
        return self.found.entry if self.found is not None else None

    @property
    def own(self) -> Entry | None:
        """The same, if it was made for this very history: what is decided now takes its place."""
        return self.found.entry if self.found is not None and self.found.own else None

    @property
    def uses(self) -> int:
        """How often it was used, this request included."""
        return self.found.uses + 1 if self.found is not None else 0

    @property
    def since(self) -> Mapping[int, int]:
        """Item index -> how many requests ago it went, for what was absent before."""
        return self.known.ages(self.before.entry, self.before.uses + 1) if self.before is not None else {}

    @property
    def ages(self) -> dict[int, int]:
        """Unit -> how many requests ago it went, for everything that is absent; 0: now."""
        owner, since = self.conversation.exchanges.owner, self.since
        return {owner[index]: since.get(owner[index], 0) for index in self.plan.gone}

    @property
    def fresh(self) -> list[int]:
        """The units that were dropped now, oldest first."""
        return sorted(unit for unit, age in self.ages.items() if age == 0)

    @property
    def changed(self) -> dict[int, Tokens]:
        """Item index -> its tokens now, where those changed."""
        return {**self.stripped, **self.edited}

    @property
    def emptied(self) -> set[int]:
        """The stripped items of which nothing is left."""
        strip, items = self.conversation.reader.strip, self.conversation.items
        return {index for index in self.stripped if strip(items[index]) is None}

    def release(self) -> None:
        """Let go of what the account needs no more; a history that is not counted yet is needed for that."""
        if self.plan or self.measured.known:
            _ = self.tokens_after  # what went is counted when somebody asks for it, and is kept for that
            exchanges = self.conversation.exchanges
            units = {exchanges.owner[index] for index in (*self.stripped, *self.edited)}  # a call names its results
            changed = [(index, index + 1) for index in exchanges.items(units)]
            self.conversation.release([*self.plan.stretches, *changed])
            self.measured.release()

    @property
    def tokens_before(self) -> Tokens:
        """Tokens of the request as the caller wrote it."""
        return self.measured.total

    @property
    def tokens_after(self) -> Tokens:
        """Tokens of the request as it leaves."""
        sizes, smaller = self.measured.sizes, (*self.stripped.items(), *self.edited.items())
        return self.measured.left(self.plan.stretches) - sum(sizes[index] - left for index, left in smaller)
