"""The decision about one request: recall, apply, test, decide, check, remember (DESIGN 4).

`compaction` is a generator: it yields effects and is sent their answers, so that sync and async clients share every line of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from compacting_client.core.conversation import SYSTEM, Conversation
from compacting_client.core.effects import Ask, Effect, Remember, Reuse
from compacting_client.core.measure import Measure, measure, sizes_without_thinking
from compacting_client.core.plan import NOTHING, Plan
from compacting_client.core.prefix import Entry
from compacting_client.core.recognition import Recognition
from compacting_client.core.view import Choice, View, base_pins
from compacting_client.errors import PolicyError

__all__ = ["Decides", "Outcome", "Question", "compaction", "unchanged", "without_thinking"]

Tokens = float


class Decides(Protocol):
    """A policy, as the core sees it."""

    @property
    def fingerprint(self) -> str:
        """Tells its decisions apart from those of other policies."""
        ...

    def triggered(self, view: View) -> bool:
        """Whether a decision is needed."""
        ...

    def choose(self, view: View) -> Choice | None:
        """What to drop."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """One request to decide on.  `refused` names the rules that the body would break after a plan, and did not break before."""

    conversation: Conversation
    policy: Decides
    refused: Callable[[Plan], Sequence[str]]
    counter: Callable[[Any], Any] | None = None
    pin: Callable[[Any], Any] | None = None
    memory_key: Callable[[Any], Any] | None = None


@dataclass(slots=True)
class Outcome:
    """What was decided.

    ``plan``      empty where the caller's body leaves as it is; ``reason`` then says why
    ``ages``      unit -> how many requests ago it went, for everything that is absent; 0: now
    ``stripped``  item index -> its tokens after its signed thinking was removed
    ``reused``    the remembered entry in force, and ``uses``, how often it was used with this request
    ``rejected``  (rules, what was done instead) for each plan that failed its check
    ``commit``    what the memory is to be told once the provider has accepted the request
    """

    conversation: Conversation
    measured: Measure
    known: Recognition
    plan: Plan = NOTHING
    reason: str | None = None
    choice: Choice | None = None
    ages: dict[int, int] = field(default_factory=dict[int, int])
    stripped: dict[int, Tokens] = field(default_factory=dict[int, Tokens])
    reused: Entry | None = None
    uses: int = 0
    rejected: list[tuple[tuple[str, ...], str]] = field(default_factory=list[tuple[tuple[str, ...], str]])
    commit: Remember | Reuse | None = None

    @property
    def fresh(self) -> list[int]:
        """The units that were dropped now, oldest first."""
        return sorted(unit for unit, age in self.ages.items() if age == 0)

    @property
    def emptied(self) -> set[int]:
        """The stripped items of which nothing is left."""
        strip, items = self.conversation.reader.strip, self.conversation.items
        return {index for index in self.stripped if strip(items[index]) is None}

    @property
    def tokens_before(self) -> Tokens:
        """Tokens of the request as the caller wrote it."""
        roles = self.conversation.roles
        return self.measured.overhead + sum(
            size for size, role in zip(self.measured.sizes, roles, strict=True) if role != SYSTEM
        )

    @property
    def tokens_after(self) -> Tokens:
        """Tokens of the request as it leaves."""
        sizes = self.measured.sizes
        saved = sum(sizes[index] for index in self.plan.gone)
        return self.tokens_before - saved - sum(sizes[index] - left for index, left in self.stripped.items())


def compaction(question: Question) -> Generator[Effect, Any, Outcome]:
    """Decide on one request.  Raises PolicyError for nonsense from the caller's functions."""
    conversation, policy = question.conversation, question.policy
    measured = yield from measure(conversation, question.counter)
    known = Recognition(conversation, measured, policy.fingerprint, question.memory_key)
    outcome = Outcome(conversation, measured, known)
    entries = yield from known.entries()
    if not entries and not policy.triggered(View(conversation, measured.sizes, measured.overhead)):
        outcome.reason = "below trigger"
        return outcome
    pinned = yield from _pins(question)
    found = yield from known.match(entries, pinned)
    _decide(question, outcome, pinned, found)
    if outcome.plan and known.key is not None:
        if outcome.choice is not None:
            place = known.position(outcome.plan.strip[0]) if outcome.plan.strip else None
            entry = yield from known.remembered(outcome.plan, outcome.ages, place)
            outcome.commit = Remember(known.key, entry)
        elif outcome.reused is not None:
            outcome.commit = Reuse(known.key, outcome.reused)
    return outcome


def unchanged(conversation: Conversation, reason: str | None) -> Outcome:
    """The outcome of a request that leaves as it came, by the default estimate."""
    measured = Measure(conversation)
    measured.estimate()
    return Outcome(conversation, measured, Recognition(conversation, measured, "", None), reason=reason)


def without_thinking(outcome: Outcome) -> Generator[Effect, Any, bool]:
    """Change `outcome` so that no signed thinking is left (DESIGN 3.4); False where there was none to remove."""
    conversation, known = outcome.conversation, outcome.known
    plan = replace(outcome.plan, strip=(0, len(conversation)))
    stripped = sizes_without_thinking(outcome.measured, conversation, plan)
    if stripped.keys() <= outcome.stripped.keys():
        return False
    outcome.plan, outcome.stripped, outcome.reason = plan, stripped, None
    if known.key is not None:
        entry = yield from known.remembered(plan, outcome.ages, 0)
        outcome.commit = Remember(known.key, entry)
    return True


def _decide(question: Question, outcome: Outcome, pinned: set[int], found: tuple[Entry, int] | None) -> None:
    """Fill in the first plan of the ladder that the provider would accept."""
    outcome.reason = "below trigger"
    for attempt in _ladder(question, outcome, pinned, found):
        plan = _plan(outcome, attempt)
        if not plan:
            continue
        if broken := tuple(question.refused(plan)):
            outcome.rejected.append((broken, attempt.instead))
            outcome.reason = "refused by its check"
            continue
        outcome.reason, outcome.plan, outcome.choice = None, plan, attempt.choice
        if attempt.found is not None:
            outcome.reused, outcome.uses = attempt.found[0], attempt.found[1] + 1
            outcome.ages = outcome.known.ages(outcome.reused, outcome.uses)
        owner = outcome.conversation.exchanges.owner
        for index in plan.gone:
            outcome.ages.setdefault(owner[index], 0)
        outcome.stripped = sizes_without_thinking(outcome.measured, outcome.conversation, plan)
        return


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One rung: a choice on top of a remembered entry, either or both."""

    choice: Choice | None
    found: tuple[Entry, int] | None
    instead: str


def _ladder(
    question: Question, outcome: Outcome, pinned: set[int], found: tuple[Entry, int] | None
) -> Iterator[_Attempt]:
    """What to try, best first: the policy's choice; the oldest whole turns in its place; what is remembered, unchanged.

    With a remembered entry all of it is tried on top of that first, and only then without.
    """
    conversation, measured, known = question.conversation, outcome.measured, outcome.known
    for entry in (found, None) if found is not None else (None,):
        gone = known.items(entry[0]) if entry is not None else ()
        view = View(conversation, measured.sizes, measured.overhead, pinned, gone)
        choice, outcome.reason = _chosen(question, view)
        if choice is not None:
            yield _Attempt(choice, entry, "whole turns dropped")
            goal = view.total - sum(map(view.size, choice.units))
            if at_turns := frozenset(_whole_turns(view, goal)):
                instead = "the remembered cut" if entry else "the request as it came"
                yield _Attempt(replace(choice, units=at_turns), entry, instead)
        if entry is not None:
            yield _Attempt(None, entry, "decided anew")


def _chosen(question: Question, view: View) -> tuple[Choice | None, str | None]:
    """What the policy wants dropped, mended for a provider that wants a user turn first; and why nothing, where it is nothing."""
    conversation = question.conversation
    if not question.policy.triggered(view):
        return None, "below trigger"
    if conversation.waits:
        return None, conversation.waits
    choice = _checked(question.policy.choose(view), view)
    if choice is not None and conversation.opens_with_user:
        choice = replace(choice, units=frozenset(view.mended(set(choice.units))))
    return (choice, None) if choice is not None and choice.units else (None, "nothing older")


def _checked(choice: Any, view: View) -> Choice | None:
    """A policy's answer without what is pinned.  Raises PolicyError for one that is none."""
    if choice is None:
        return None
    if not isinstance(choice, Choice):
        raise PolicyError(f"choose() returned {choice!r}; it must return a Choice or None")
    if unknown := choice.units.difference(view.units()):
        raise PolicyError(f"choose() named units that are not there: {sorted(unknown)}")
    return replace(choice, units=choice.units - view.pinned)


def _plan(outcome: Outcome, attempt: _Attempt) -> Plan:
    """The indexes of an attempt.  On models that bind, thinking between the first change and the end of the history at the edit goes."""
    conversation, known = outcome.conversation, outcome.known
    gone: set[int] = set()
    strip: tuple[int, int] | None = None
    if attempt.found is not None:
        entry = attempt.found[0]
        gone.update(known.items(entry))
        if entry.place is not None:
            strip = (known.index(entry.place), known.index(entry.edited_at))
    if attempt.choice is not None and attempt.choice.units:
        gone.update(index for unit in attempt.choice.units for index in conversation.exchanges.unit(unit))
        if conversation.binds:
            strip = (min(gone) if strip is None else min(*gone, strip[0]), len(conversation))
    return Plan(tuple(sorted(gone)), _with_older_thinking(conversation, gone, strip))


def _with_older_thinking(
    conversation: Conversation, gone: set[int], strip: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Where the newest answer goes with its thinking, the one that is newest then loses its own.

    A provider that compares the latest answer's thinking with what it gave would find another in its place.
    """
    answers = (
        [index for index, role in enumerate(conversation.roles) if role == "assistant"] if conversation.thinking else []
    )
    newest = next((index for index in reversed(answers) if index not in gone), None)
    if newest is None or newest == answers[-1] or not conversation.thinking.issuperset((newest, answers[-1])):
        return strip
    return min(newest, strip[0]) if strip is not None else newest, len(conversation)


def _whole_turns(view: View, goal: Tokens) -> set[int]:
    """The oldest whole turns, down to `goal` tokens."""
    dropped: set[int] = set()
    left = view.total
    for turn in view.turns():
        units = turn.units()
        if left > goal and not view.pinned.intersection(units):
            dropped.update(units)
            left -= sum(map(view.size, units))
    return dropped


def _pins(question: Question) -> Generator[Effect, Any, set[int]]:
    conversation = question.conversation
    pinned = base_pins(conversation)
    if question.pin is not None:
        indexes = [index for index in range(len(conversation)) if conversation.roles[index] != SYSTEM]
        shown = [(index, message) for index in indexes for message in conversation.neutral(index)]
        wanted = yield Ask("pin", question.pin, [message for _, message in shown])
        pinned.update(conversation.exchanges.owner[index] for (index, _), yes in zip(shown, wanted, strict=True) if yes)
    return pinned
