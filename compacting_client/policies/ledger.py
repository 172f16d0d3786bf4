"""Keep a ledger of older tool results in the place of their exchanges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from compacting_client.core.conversation import Conversation
from compacting_client.core.effects import Ask, Effect
from compacting_client.core.facts import Fact, Said, facts, judged, matches
from compacting_client.core.ledger import current, lines, note_text
from compacting_client.core.reuse import Known, known, run_of
from compacting_client.core.shrinking import ROOM, Shrinking
from compacting_client.core.stages import Stages, results
from compacting_client.core.view import Choice, View
from compacting_client.errors import ConfigError
from compacting_client.policies.base import Policy, identity
from compacting_client.validation import function, is_async, names, whole_number

__all__ = ["Ledger"]

_SCOPES = ("full", "auto", "ledger", "scoped")


@dataclass(frozen=True)
class Ledger(Policy):
    """Older tool exchanges give way to a ledger, one line for each `tool(arguments)`, at the end of the question; no model is asked.

    ``scope``  "full": nothing changes.  "auto": nothing, until the current run, which is what follows the last user message, has
        `after_tool_results` results, or the request is above `max_tokens`; then all its exchanges but the newest go into the ledger, and again
        after as many results more.  Earlier turns stay, until `max_tokens` is exceeded.  "ledger": on every request; earlier turns become a note
        and their results lines of the ledger (with `max_tokens`, only above it).  "scoped": earlier turns become a note, and of the current run
        the trailing tool loop stays; no ledger.
    ``keep_result_chars``   int >= 0: of longer results the ledger has so much; one of a call that was made again is whole
    ``max_tokens``          int >= 1 or None, in counted tokens of the whole input: above it, results in the ledger are hidden, oldest first, those
                            of repeated calls last, then lines go, until a tenth of it is free
    ``history_messages``, ``history_chars``   int >= 0: of earlier turns the note has so many messages, each cut to so many characters
    ``reuse_results``       names of tools whose results do not change, ``*`` for any text, or True for all: see `Control.reusable`
    ``keep_tools``          names of tools whose exchanges stay as they are, ``*`` for any text
    ``failed``              function from a neutral tool message to whether it failed, beside what says so itself; plain, or (on async clients)
                            async.  A failure never takes the place of an earlier success

    What would not get smaller is left.  Raises ConfigError for a setting out of range.
    """

    scope: Literal["full", "auto", "ledger", "scoped"] = "auto"
    _: KW_ONLY
    after_tool_results: int = 6
    keep_result_chars: int = 2000
    max_tokens: int | None = None
    history_messages: int = 6
    history_chars: int = 400
    reuse_results: Sequence[str] | bool = False
    keep_tools: Sequence[str] = ()
    failed: Callable[[dict[str, Any]], Any] | None = None

    def __post_init__(self) -> None:
        if self.scope not in _SCOPES:
            raise ConfigError(f"scope must be one of {', '.join(_SCOPES)}, not {self.scope!r}")
        whole_number("after_tool_results", self.after_tool_results, at_least=1)
        for name in ("keep_result_chars", "history_messages", "history_chars"):
            whole_number(name, getattr(self, name), at_least=0)
        if self.max_tokens is not None:
            whole_number("max_tokens", self.max_tokens, at_least=1)
        object.__setattr__(self, "keep_tools", names("keep_tools", self.keep_tools))  # hashable, and one fingerprint
        if not isinstance(self.reuse_results, bool):
            object.__setattr__(self, "reuse_results", names("reuse_results", self.reuse_results))
        function("failed", self.failed, async_client=True)

    @property
    def is_async(self) -> bool:
        """Whether `failed` is."""
        return is_async(self.failed)

    @property
    def budget(self) -> float | None:
        """`max_tokens`."""
        return self.max_tokens

    @property
    def fingerprint(self) -> str:
        """By all settings, and the identity of `failed` in the process."""
        return f"{replace(self, failed=None)!r} {identity(self.failed) if self.failed is not None else ''}"

    def triggered(self, view: View) -> bool:
        """In "auto", enough results that are not in the ledger yet, or too many tokens; "ledger" and "scoped" look at every request."""
        if self.scope != "auto":
            return self.scope != "full"
        return self._enough(view) or self._over(view)

    def deciding(self, view: View) -> Generator[Effect, Any, Choice | None]:
        """The exchanges that go, and the ledger and the note that stand for them."""
        stages = Stages(view, self._stays if self.keep_tools else None)
        if self.scope == "scoped":
            choice = self._scoped(view, stages)
            return choice if choice and (yield from view.after(choice)).total < view.total else None
        found = yield from self._smallest(view, stages)
        return found[0] if found is not None and view.exceeds(found[1]) else None

    def _smallest(self, view: View, stages: Stages) -> Generator[Effect, Any, tuple[Choice, float] | None]:
        """The run folded; with the earlier turns as a note, where they are one already, or are too much beside it."""
        budget, spared = self.max_tokens, None
        noted = stages.noted or (self.scope == "ledger" and budget is None)
        if not noted and stages.earlier:
            if budget is None or _within(view, stages.run, budget):
                spared = yield from self._folded(view, stages, noted=False, budget=None)
                if budget is None or not (view.exceeds(budget) if spared is None else spared[1] > budget):
                    return spared
            noted = True
        found = yield from self._folded(view, stages, noted=noted, budget=budget)
        return min(filter(None, (found, spared)), key=lambda each: each[1], default=None)

    def known(self, conversation: Conversation) -> Generator[Effect, Any, Known]:
        """The last good result of each call of the run whose tool `reuse_results` names."""
        if not self.reuse_results:
            return {}
        found = yield from self._facts(conversation, run_of(conversation))
        return known(conversation, [each for each in found if isinstance(each, Fact) and self.reuses(each.tool)])

    def reuses(self, tool: str) -> bool:
        """Whether `reuse_results` names it."""
        return self.reuse_results if isinstance(self.reuse_results, bool) else matches(tool, tuple(self.reuse_results))

    def _over(self, view: View) -> bool:
        return self.max_tokens is not None and view.exceeds(self.max_tokens)

    def _enough(self, view: View) -> bool:
        """Whether the run has enough results, at a glance first."""
        conversation = view.conversation
        start, counts = (conversation.question() or 0), conversation.counts
        told = ("tool", "user", "other")
        there = [index for index in range(start, len(conversation)) if conversation.roles[index] in told]
        at_most = len(there) if counts is None else sum(counts[index] for index in there)
        return at_most >= self.after_tool_results and results(view) >= self.after_tool_results

    def _stays(self, conversation: Conversation, unit: int) -> bool:
        """Whether a unit has a call of a tool that is kept."""
        made = [conversation.items[index] for index in conversation.exchanges.unit(unit) if index in conversation.calls]
        return any(matches(tool, self.keep_tools) for item in made for _, tool, _ in conversation.reader.asked(item)[1])

    def _scoped(self, view: View, stages: Stages) -> Choice | None:
        units = view.mended(stages.loop_aside() | stages.earlier)
        inserted = (*stages.note(self._note(stages, units)), *stages.others(noted=True))
        return Choice(frozenset(units), "turns", self._target, inserted=inserted) if units else None

    def _folded(
        self, view: View, stages: Stages, *, noted: bool, budget: float | None
    ) -> Generator[Effect, Any, tuple[Choice, float] | None]:
        """The choice that drops what is older, with `noted` all earlier turns, and the tokens that it leaves; None where nothing changes."""
        units = view.mended(stages.run | stages.earlier if noted else stages.run)
        trigger = "tool_results" if self.scope == "ledger" or self._enough(view) else "tokens"
        texts = (*stages.note(self._note(stages, units) if noted else ""), *stages.others(noted=noted))
        choice = Choice(frozenset(units), trigger, self._target, inserted=texts)
        found = yield from self._facts(view.conversation, stages.lost(units, noted=noted))
        later = yield from self._facts(view.conversation, stages.left(units, noted=noted))
        shown = self._lines(view, current(found, (each for each in later if isinstance(each, Fact))), [*found, *later])
        if not shown:
            changes = units or texts != view.edits.inserted  # the last line may be out of date, and nothing else to go
            return (choice, (yield from view.after(choice)).total) if changes else None

        def with_text(text: str, units: int) -> Choice:
            return replace(choice, inserted=(*texts, *stages.ledger(text, units)))

        made, left = yield from Shrinking(view, shown, stages.before, with_text).to(budget)
        return (made, left) if made.units or made.inserted != view.edits.inserted else None

    @property
    def _target(self) -> float | None:
        return None if self.max_tokens is None else ROOM * self.max_tokens

    def _note(self, stages: Stages, units: set[int]) -> str:
        conversation = stages.view.conversation
        return note_text(conversation, stages.said_before(units), self.history_messages, self.history_chars)

    def _facts(self, conversation: Conversation, units: Iterable[int]) -> Generator[Effect, Any, list[Fact | Said]]:
        found = facts(conversation, units)
        if self.failed is None:
            return found
        results = [each.message for each in found if isinstance(each, Fact)]
        return judged(found, (yield Ask("failed", self.failed, results)))

    def _lines(self, view: View, shown: Sequence[Fact | Said], known: Sequence[Fact | Said]) -> Any:
        made = Counter(each.key for each in known if isinstance(each, Fact))
        limits = (self.keep_result_chars, self.history_chars)
        return lines(shown, made, view.conversation.offers, limits)


def _within(view: View, units: set[int], budget: float) -> bool:
    """Whether all but these units is no more than `budget`; a token more is clear at a glance mostly."""
    weight = view.weight(units)
    return not view.exceeds(budget + weight + 1) and view.total - weight <= budget
