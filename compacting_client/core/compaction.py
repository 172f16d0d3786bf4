"""The decision about one request: recall, apply, test, decide, check, remember (DESIGN 4).

`compaction` is a generator: it yields effects and is sent their answers, so that sync and async clients share every line of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from compacting_client.core.asking import Asking
from compacting_client.core.conversation import SYSTEM, Conversation
from compacting_client.core.edits import NO_EDITS
from compacting_client.core.effects import Ask, Effect, Remember, Reuse
from compacting_client.core.growth import larger
from compacting_client.core.measure import Learned, Measure, Tokenizer, measure, sizes_without_thinking
from compacting_client.core.ours import marked, recognised
from compacting_client.core.outcome import Outcome
from compacting_client.core.plan import Plan
from compacting_client.core.prefix import Found
from compacting_client.core.recent import Recent
from compacting_client.core.recognition import Recognition
from compacting_client.core.resizing import in_system, resized
from compacting_client.core.view import Choice, View, base_pins

__all__ = ["Decides", "Question", "compaction", "shortened", "unchanged", "without_thinking"]

Tokens = float


class Decides(Protocol):
    """A policy, as the core sees it."""

    @property
    def fingerprint(self) -> str:
        """Tells its decisions apart from those of other policies."""
        ...

    @property
    def idle(self) -> str:
        """Why it is not triggered."""
        ...

    @property
    def budget(self) -> float | None:
        """The tokens that a request is held against."""
        ...

    def triggered(self, view: View) -> bool:
        """Whether a decision is needed."""
        ...

    def standing(self, view: View) -> Choice | None:
        """What it wants of every request, also where an edit of the history has to wait."""
        ...

    def deciding(self, view: View) -> Generator[Effect, Any, Choice | None]:
        """What to drop, shorten and insert."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """One request to decide on.

    ``refused``   names the rules that the body would break after a plan, and did not break before
    ``recent``    what is known of the histories seen last, or None
    ``learned``   what is known of how the provider counts, or None
    ``asking``    asks the provider for its own count, or None
    ``portable``  whether another process reads what is remembered
    """

    conversation: Conversation
    policy: Decides
    refused: Callable[[Plan], Sequence[str]]
    counter: Callable[[Any], Any] | Tokenizer | None = None
    pin: Callable[[Any], Any] | None = None
    memory_key: Callable[[Any], Any] | None = None
    recent: Recent | None = None
    learned: Learned | None = None
    asking: Asking | None = None
    portable: bool = True


def compaction(question: Question) -> Generator[Effect, Any, Outcome]:
    """Decide on one request.  Raises PolicyError for nonsense from the caller's functions."""
    conversation, policy = question.conversation, question.policy
    measured = yield from measure(conversation, question.counter, question.recent, question.learned)
    known = Recognition(measured, policy.fingerprint, question.memory_key, portable=question.portable)
    outcome = Outcome(conversation, measured, known)
    entries = yield from known.entries()
    if not entries:
        yield from _counted(question, outcome, View(measured), None)
    if not entries and not policy.triggered(View(measured)):
        outcome.reason = policy.idle
        measured.keep(known.states)
        return outcome
    measured.quoted = yield from recognised(conversation, measured.unquoted)
    pinned = yield from _pins(question)
    found = yield from known.match(entries, pinned)
    yield from _decide(question, outcome, pinned, found)
    yield from _commit(outcome)
    return outcome


def shortened(question: Question, outcome: Outcome, dropping: Decides) -> Generator[Effect, Any, bool]:
    """Change `outcome` by what `dropping` chooses on top of it; False where that is nothing, or the provider would refuse it."""
    pinned = yield from _pins(question)
    whole = yield from _view(outcome, pinned, outcome.found)
    before = outcome.choice
    view = whole if before is None else (yield from whole.after(before))
    more, why = yield from _chosen(replace(question, policy=dropping), view)
    if more is not None:
        choice = replace(more if before is None else before.then(more), trigger="overflow")
        for attempt in _ladder(whole, choice, outcome.found):
            if attempt.choice is not None and (yield from _accepted(question, outcome, attempt, outcome.before)):
                outcome.policys = before
                yield from _commit(outcome)
                return True
        why = outcome.reason
    outcome.reason = None if outcome.plan else why
    return False


def unchanged(conversation: Conversation, reason: str | None) -> Outcome:
    """The outcome of a request that leaves as it came, by the default estimate."""
    measured = Measure(conversation)
    return Outcome(conversation, measured, Recognition(measured, "", None), reason=reason)


def without_thinking(outcome: Outcome) -> Generator[Effect, Any, bool]:
    """Change `outcome` so that no signed thinking is left (DESIGN 3.4); False where there was none to remove."""
    conversation, known = outcome.conversation, outcome.known
    plan = replace(outcome.plan, strip=(0, len(conversation)))
    stripped = yield from sizes_without_thinking(outcome.measured, plan)
    if stripped.keys() <= outcome.stripped.keys():
        return False
    outcome.plan, outcome.stripped, outcome.reason = plan, stripped, None
    if known.key is not None:
        entry = yield from known.remembered(plan, outcome.since, 0)
        outcome.commit = Remember(known.key, entry, outcome.own)
    return True


def _commit(outcome: Outcome) -> Generator[Effect, Any, None]:
    """What the memory is to be told, and what the next request of this conversation may take over."""
    known = outcome.known
    if outcome.plan and known.key is not None:
        # the answer to this request may be bound to what it left out: undone, it would be refused (DESIGN 3.4)
        bound = outcome.conversation.binds and outcome.choice is not None and bool(outcome.choice.units)
        lasting = outcome.choice is None or outcome.choice.lasting or bound
        if outcome.own is not None and (outcome.choice is None or not lasting):
            outcome.commit = Reuse(known.key, outcome.own)
        elif lasting:
            place = known.position(outcome.plan.strip[0]) if outcome.plan.strip else None
            entry = yield from known.remembered(outcome.plan, outcome.since, place)
            outcome.commit = Remember(known.key, entry, outcome.own)
    outcome.marks = marked(outcome.conversation, outcome.plan.edits.inserted, outcome.uses, outcome.commit)
    outcome.measured.keep(known.states)


def _decide(
    question: Question, outcome: Outcome, pinned: set[int], found: Found | None
) -> Generator[Effect, Any, None]:
    """Fill in the first plan that the provider would accept.

    With a remembered entry everything is tried on top of that first, and only then without.
    """
    for entry in (found, None) if found is not None else (None,):
        view = yield from _view(outcome, pinned, entry)
        if (yield from _counted(question, outcome, view, entry)):
            view = yield from _view(outcome, pinned, entry)
        choice, outcome.reason = yield from _chosen(question, view)
        outcome.summary = outcome.summary or (choice.summary if choice is not None else None)
        for attempt in _ladder(view, choice, entry):
            if (yield from _accepted(question, outcome, attempt, found)):
                return


def _counted(question: Question, outcome: Outcome, view: View, entry: Found | None) -> Generator[Effect, Any, bool]:
    """Let the provider count what a remembered entry leaves, once, where that is wanted; whether the sizes are others now."""
    if outcome.asked or question.asking is None or not question.asking.wanted(view, question.policy.budget):
        return False
    outcome.asked = True
    failed = yield from question.asking.asked(outcome.measured, view, _plan(outcome, _Attempt(None, entry, "")))
    if failed is not None:
        outcome.rejected.append((("error", "counter", failed), "counted by the estimate"))
    return failed is None


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One rung: a choice on top of a remembered entry, either or both."""

    choice: Choice | None
    found: Found | None
    instead: str


def _accepted(
    question: Question, outcome: Outcome, attempt: _Attempt, found: Found | None
) -> Generator[Effect, Any, bool]:
    """Fill in the plan of an attempt, if there is one and the provider would take it."""
    plan = _plan(outcome, attempt)
    if not plan:
        return False
    measured = outcome.measured
    edited = yield from resized(measured, plan.edits)
    # what had to stay may be more than what a policy reckoned with
    broken = ("larger",) if (yield from larger(measured, plan, edited)) else tuple(question.refused(plan))
    if broken:
        outcome.rejected.append((broken, attempt.instead))
        outcome.reason = "refused by its check"
        return False
    outcome.reason, outcome.plan, outcome.choice = None, plan, attempt.choice
    outcome.found = attempt.found
    outcome.before = attempt.found or found or outcome.known.lapsed  # what went by then is told already
    outcome.stripped = yield from sizes_without_thinking(measured, plan)
    outcome.edited, outcome.in_system = edited, (yield from in_system(measured, plan.edits))
    return True


def _ladder(view: View, choice: Choice | None, entry: Found | None) -> Iterator[_Attempt]:
    """What to try, best first: the policy's choice; the oldest whole turns in its place; what is remembered, unchanged."""
    if choice is not None:
        yield _Attempt(choice, entry, "whole turns dropped")
        goal = view.total - view.weight(choice.units)
        if at_turns := frozenset(view.whole_turns(goal)):
            instead = "the remembered cut" if entry else "the request as it came"
            turns = replace(choice, units=at_turns, shortened=(), inserted=None, summary=None, summarised=frozenset())
            yield _Attempt(turns, entry, instead)
    if entry is not None:
        yield _Attempt(None, entry, "decided anew")


def _view(outcome: Outcome, pinned: set[int], entry: Found | None) -> Generator[Effect, Any, View]:
    """What a remembered entry leaves."""
    measured, known = outcome.measured, outcome.known
    gone = known.gone(entry.entry) if entry is not None else ()
    edits = known.edits(entry.entry) if entry is not None else NO_EDITS
    changed = (yield from resized(measured, edits)) if edits else None
    return View(measured, pinned, gone, edits, changed, partial(resized, measured), known)


def _chosen(question: Question, view: View) -> Generator[Effect, Any, tuple[Choice | None, str | None]]:
    """What the policy wants, mended for a provider that wants a user turn first; and why nothing, where it is nothing."""
    if not question.policy.triggered(view):
        return None, question.policy.idle
    if question.conversation.waits:
        standing = view.settled(question.policy.standing(view))
        return standing, None if standing else question.conversation.waits
    choice = view.settled((yield from question.policy.deciding(view)))
    return (choice, None) if choice else (None, choice.why if choice is not None else "nothing older")


def _plan(outcome: Outcome, attempt: _Attempt) -> Plan:
    """The indexes of an attempt.  On models that bind, thinking between the first change and the end of the history at the edit goes.

    An instruction that was there before is no change; nor is one that is put in while edits wait: the loop was begun with it.
    """
    conversation, known, choice = outcome.conversation, outcome.known, attempt.choice
    gone = frozenset[int]()
    strip: tuple[int, int] | None = None
    edits = NO_EDITS
    if attempt.found is not None:
        entry = attempt.found.entry
        gone = known.gone(entry)
        edits = known.edits(entry)
        if entry.place is not None:  # in a history that only shares the old part, it is an edit made now
            stop = known.index(entry.edited_at) if attempt.found.own else len(conversation)
            strip = (known.index(entry.place), stop)
    before = gone, edits
    if choice:
        gone |= conversation.exchanges.items(choice.units)
        edits = edits.then(conversation, gone, choice.shortened, choice.inserted)
    if conversation.binds and (before != (gone, edits) or strip is None):
        there = edits.asked_for if conversation.waits else before[1].asked_for
        if changes := gone | edits.places(there):
            strip = (min(changes) if strip is None else min(*changes, strip[0]), len(conversation))
    return Plan(tuple(sorted(gone)), _with_older_thinking(conversation, gone, strip), edits)


def _with_older_thinking(
    conversation: Conversation, gone: AbstractSet[int], strip: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Where the newest answer goes with its thinking, the one that is newest then loses its own.

    A provider that compares the latest answer's thinking with what it gave would find another in its place.
    """
    if not conversation.thinking:
        return strip
    answers = [index for index, role in enumerate(conversation.roles) if role == "assistant"]
    newest = next((index for index in reversed(answers) if index not in gone), None)
    if newest is None or newest == answers[-1] or not conversation.thinking.issuperset((newest, answers[-1])):
        return strip
    return min(newest, strip[0]) if strip is not None else newest, len(conversation)


def _pins(question: Question) -> Generator[Effect, Any, set[int]]:
    conversation = question.conversation
    pinned = base_pins(conversation)
    if question.pin is not None:
        indexes = [index for index in range(len(conversation)) if conversation.roles[index] != SYSTEM]
        shown = [(index, message) for index in indexes for message in conversation.neutral(index)]
        wanted = yield Ask("pin", question.pin, [message for _, message in shown])
        pinned.update(conversation.exchanges.owner[index] for (index, _), yes in zip(shown, wanted, strict=True) if yes)
    return pinned
