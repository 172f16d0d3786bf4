"""Replace old history by a summary that a model, or a function, writes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import partial
from typing import Any, Literal

from compacting_client.core.claims import once
from compacting_client.core.conversation import Message
from compacting_client.core.edits import Inserted, to_system
from compacting_client.core.effects import Begun, Beside, Effect, Summarise, Unused
from compacting_client.core.ours import folded, without_ours
from compacting_client.core.summaries import (
    INSTRUCTION,
    LARGER,
    ByModel,
    Summarised,
    SummaryRequest,
    asked,
    bounded,
    framed,
    summary_of,
)
from compacting_client.core.tokens import dump, estimate
from compacting_client.core.view import Choice, View
from compacting_client.errors import ConfigError
from compacting_client.policies.base import Policy, named
from compacting_client.policies.drop_oldest import DropOldest
from compacting_client.policies.sequences import completed, removed
from compacting_client.validation import flag, function, is_async, share, whole_number

__all__ = ["Summarize"]

_SOFT = 0.8  # of a limit: where a summary is begun beside the requests
_WORTH = 0.1  # of the budget: what a summary must free, or a model would be asked again a few turns later
_FEWEST = 0.5  # of max_messages: how many a summary must replace, for the same reason
_FIRST = 4  # units, or items after the opening, by which most conversations that open alike are told apart
_NOT_MADE = Summarised(None, 0.0)


@dataclass(frozen=True)
class Summarize(Policy):
    """Once there are too many messages, or tokens, everything older than the newest ones is replaced by a summary, which is then used again.

    ``model``           which model writes it.  None: the one of the request; a name: that one, on the same client.  The name of a model of
                        another provider, or one written ``provider:model``, is asked with that provider's SDK, whose client is built from the
                        environment when wrapping; but a client with a base_url of its own is never left
    ``summarizer``      in the place of a model: function from a `SummaryRequest` to text, plain or (on async clients) async
    ``max_messages``    int >= 1 or None: acts with more neutral messages than this, system messages aside, once at least half as many are to be
                        replaced: where `keep_recent` is near it, a few more go out, in the place of a summary on each turn
    ``token_budget``    int >= 1 or None: acts with more counted tokens than this, the whole input; the kept tail then shrinks too, oldest first,
                        if that is needed to come down to ``target * token_budget``.  1.0: down to the limits and no more, however small
                        the gain, and so with a summary on nearly every turn
    ``keep_recent``     so many trailing neutral messages stay, and their exchanges whole; `keep_head`: so many leading ones, the system prompt first
    ``remove_tool_msgs``  on every request, completed tool sequences go, as in `KeepTurns`; the summariser is shown those whose answer it summarises
    ``max_summary_tokens``  what a summary may have at most; the old one is folded into the new one, and counted as it is sent
    ``summary_system_prompt``  the instruction in the place of the default one
    ``api_style``       "responses" or "chat", for the provider that has both; None: as the request
    ``summary_role``    "user", or "system": at the end of the system prompt.  Text of users and tools then speaks with its authority
    ``timeout``         seconds that a summary may take
    ``background``      nobody waits for a summary: it is begun at 80 % of a limit, beside the requests, and used from the first one on that
                        comes after it is made.  Over the limit, until then, the request leaves without what is older, down to the budget

    A summariser that raises, takes too long, or returns no text costs an event (`summary.failed`): the request leaves without what is older,
    down to the budget, and the next try is five requests later.  A summary that is no smaller than what it replaces is not used.

    Raises ConfigError for a setting out of range.  Without a limit it never acts, and warns.
    """

    model: str | None = None
    _: KW_ONLY
    summarizer: Callable[[SummaryRequest], Any] | None = None
    max_messages: int | None = 30
    token_budget: int | None = None
    keep_recent: int = 8
    keep_head: int = 0
    remove_tool_msgs: bool = False
    summary_system_prompt: str | None = None
    max_summary_tokens: int = 600
    api_style: Literal["responses", "chat"] | None = None
    summary_role: Literal["user", "system"] = "user"
    target: float = 0.5
    timeout: float = 30.0
    background: bool = False

    def __post_init__(self) -> None:
        self._check_summariser()
        for name in ("max_messages", "token_budget"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), at_least=1)
        for name in ("keep_recent", "keep_head"):
            whole_number(name, getattr(self, name), at_least=0)
        whole_number("max_summary_tokens", self.max_summary_tokens, at_least=1)
        share("target", self.target)
        for name in ("remove_tool_msgs", "background"):
            flag(name, getattr(self, name))
        if self.summary_role not in ("user", "system"):
            raise ConfigError(f'summary_role must be "user" or "system", not {self.summary_role!r}')
        seconds: Any = self.timeout
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
            raise ConfigError(f"timeout must be a number of seconds above 0, not {self.timeout!r}")
        if self.max_messages is None and self.token_budget is None and not self.remove_tool_msgs:
            warnings.warn("Summarize never acts: max_messages and token_budget are both None", stacklevel=3)

    def _check_summariser(self) -> None:
        model: Any = self.model
        if model is not None and (not isinstance(model, str) or not model.strip()):
            raise ConfigError(f"model must be the name of a model, or None for that of the request, not {model!r}")
        if model is not None and self.summarizer is not None:
            raise ConfigError("model and summarizer are both given; one of them writes the summary")
        function("summarizer", self.summarizer, async_client=True)
        prompt: Any = self.summary_system_prompt
        if prompt is not None and (not isinstance(prompt, str) or not prompt.strip()):
            raise ConfigError(f"summary_system_prompt must be a text, or None for the default one, not {prompt!r}")
        if self.api_style not in (None, "responses", "chat"):
            raise ConfigError(f'api_style must be "responses", "chat" or None, not {self.api_style!r}')

    @property
    def is_async(self) -> bool:
        """Whether the summariser is."""
        return is_async(self.summarizer)

    @property
    def summary_models(self) -> tuple[str, ...]:
        """`model`, where it is named."""
        return () if self.model is None else (self.model,)

    @property
    def budget(self) -> float | None:
        """`token_budget`."""
        return self.token_budget

    @property
    def fingerprint(self) -> str:
        """By all settings that a summary depends on, and the summariser."""
        told = [each.name for each in fields(self) if each.name not in ("summarizer", "timeout", "background")]
        by = "" if self.summarizer is None else f" {named(self.summarizer)}"
        return f"Summarize({', '.join(f'{name}={getattr(self, name)!r}' for name in told)}){by}"

    def __repr__(self) -> str:
        shown = ["max_messages", "token_budget", "keep_recent", "keep_head", "max_summary_tokens", "target"]
        return f"Summarize({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def triggered(self, view: View) -> bool:
        """Too many messages, or tokens, or with ``background`` soon so; or a completed tool sequence to remove."""
        if self._over(view, frozenset(), _SOFT if self.background else 1.0) is not None:
            return True
        return self.remove_tool_msgs and bool(completed(view))

    def _over(self, view: View, going: AbstractSet[int], share: float = 1.0) -> Literal["messages", "tokens"] | None:
        """Which limit is exceeded, or that share of it, once some units are gone."""
        if self.max_messages is not None and _count(view, going) > share * self.max_messages:
            return "messages"
        if self.token_budget is not None:
            limit = share * self.token_budget
            if view.total - view.weight(going) > limit if going else view.exceeds(limit):
                return "tokens"
        return None

    def deciding(self, view: View) -> Generator[Effect, Any, Choice | None]:
        """What is older goes, and a summary of it and of the old summary stands at its place."""
        tools = frozenset(completed(view) if self.remove_tool_msgs else ())
        unchanged = Choice(tools, "tool_results") if tools else None
        over = self._over(view, tools)
        limit = over or (self._over(view, tools, _SOFT) if self.background else None)
        units = self._older(view, tools) if limit is not None else frozenset[int]()
        older = _said(view, units)[0]
        if not any(message.get("content") or message.get("tool_calls") for message in older):
            return unchanged
        if limit == "messages" and self.max_messages and self.target < 1 and len(older) < _FEWEST * self.max_messages:
            return unchanged
        if limit == "tokens" and self.token_budget and view.weight(units) < _WORTH * self.token_budget:
            return self._without(view, tools, _NOT_MADE) if over else unchanged
        name = (yield from view.known.apart(self.keep_head + _FIRST)) if view.known is not None else None
        if self.background:
            return (yield from self._beside(view, name, units, tools))
        made = yield from once(self._asking(view, name, units), self.fingerprint)
        return (yield from self._used(view, units, tools, replace(made, name=name)))

    def _asking(self, view: View, name: str | None, units: AbstractSet[int], newer: str | None = None) -> Summarise:
        """The question for a summary of some units, and of the one before: that in force, or a `newer` one."""
        shown = units | removed(view, units) if self.remove_tool_msgs else units
        messages, previous = _said(view, shown)
        instruction = self.summary_system_prompt or INSTRUCTION
        request = asked(messages, newer or previous, self.max_summary_tokens, instruction)
        return Summarise(view.key, name, self._writer(view), request, self.timeout)

    def _writer(self, view: View) -> Callable[[SummaryRequest], Any] | ByModel:
        if self.summarizer is not None:
            return self.summarizer
        asked_with = view.conversation
        return ByModel(self.model, asked_with.model, asked_with.api, self.api_style, self.timeout)

    def _beside(
        self, view: View, name: str | None, units: frozenset[int], tools: frozenset[int]
    ) -> Generator[Effect, Any, Choice | None]:
        """What was made beside earlier requests; while there is none, only what has to go."""
        there = set(view.units())

        def said(some: AbstractSet[int]) -> int:
            messages, previous = _said(view, some)
            return hash((self.fingerprint, previous, dump(messages)))

        def mark(some: frozenset[int]) -> tuple[int, int]:
            return said(set(sorted(some)[:_FIRST])), said(some)

        def covers(some: frozenset[int], then: tuple[int, int]) -> bool:  # of another conversation a few messages tell
            return some <= there and said(set(sorted(some)[:_FIRST])) == then[0] and said(some) == then[1]

        def begin(known: frozenset[int] = frozenset(), text: str | None = None) -> Begun:
            return Begun(self._asking(view, name, units - known, text), units, mark(units), self.fingerprint)

        found: tuple[frozenset[int], Summarised] | None = yield Beside(name, begin, covers)
        if found is not None:
            choice = yield from self._used(view, found[0], tools, replace(found[1], name=name))
            after = yield from view.after(choice)
            over = self.token_budget is not None and after.exceeds(self.token_budget)
            if choice.summary is None or choice.summary.text is None or not over:
                return choice  # what is still too many messages is the next one's
            # too much has come since: it is folded into the next one, which is begun at once
            yield Beside(name, partial(begin, found[0], choice.summary.text), covers)
            return self._without(view, tools, choice.summary)
        if self.token_budget is not None and view.total - view.weight(tools) > self.token_budget:
            return self._without(view, tools, _NOT_MADE)
        return Choice(tools, "tool_results", why="summary under way")

    def _used(
        self, view: View, units: frozenset[int], tools: frozenset[int], made: Summarised
    ) -> Generator[Effect, Any, Choice]:
        """The choice with a summary, or without, where it is none or too large."""
        text = bounded(made.text, self.max_summary_tokens) if made.text is not None else ""
        if not text:  # nothing of it fits
            made = made if made.text is None else made.failed("NoText")
            return self._without(view, tools, made)
        choice = Choice(
            units | tools,
            self._over(view, tools) or ("messages" if self.token_budget is None else "tokens"),
            None if self.token_budget is None else self.target * self.token_budget,
            inserted=(
                *(each for each in view.edits.inserted if summary_of(each.text) is None),
                self._placed(view, units, text),
            ),
            summary=replace(made, text=text),
            summarised=units,
        )
        left, before = (yield from view.after(view.settled(choice) or choice)), view.total - view.weight(tools)
        if left.total < before:
            return choice
        yield Unused(made.name)
        return self._without(view, tools, made.failed(LARGER))

    def _placed(self, view: View, units: frozenset[int], text: str) -> Inserted:
        """A summary where the units stood that it replaces, or where the caller wants it; where no user message is left, it is one itself."""
        if self.summary_role == "system":
            return to_system(view.conversation, framed(text))
        conversation, replaced = view.conversation, view.conversation.exchanges.items(units)
        absent = view.gone | replaced
        left = [index for index in conversation.history if index not in absent]
        if left and all(conversation.roles[index] != "user" for index in left):
            return Inserted(left[0], "own", framed(text))
        return Inserted(max(replaced) + 1, "unplaced", framed(text))

    def _older(self, view: View, tools: frozenset[int]) -> frozenset[int]:
        """The units that are to be replaced."""
        head, tail = view.ends(self.keep_head, self.keep_recent)
        free = [unit for unit in view.units() if unit not in head and unit not in view.pinned]
        older = {unit for unit in free if unit not in tail}
        if self.token_budget is not None:
            weights, left = (
                view.weights(),
                view.total - view.weight(older | tools) - _weight(folded(each.text for each in view.edits.inserted)),
            )
            left += self.max_summary_tokens
            for unit in free:
                if left > self.target * self.token_budget and unit in tail and unit not in tools:
                    older.add(unit)
                    left -= weights[unit]
        # an old summary that opens the history is no question which has to come back: the new one stands in its place
        return frozenset(view.mended(older) | {unit for unit in older if view.conversation.is_ours(unit)})

    def _without(self, view: View, tools: frozenset[int], made: Summarised) -> Choice:
        """The fallback: nothing but what has to go, and only for this request."""
        trigger = "tool_results" if tools else "messages"
        kept = Choice(tools, trigger, inserted=view.edits.inserted, summary=made, lasting=False)
        if self.token_budget is None or not view.total - view.weight(tools) > self.token_budget:
            return kept
        fallback = DropOldest(
            self.token_budget, keep_head=max(1, self.keep_head), keep_tail=self.keep_recent, target=1.0
        )
        choice = fallback.choose(view)
        units = choice.units if choice is not None else frozenset[int]()
        return replace(kept, units=units | tools, trigger="tokens")


def _said(view: View, units: AbstractSet[int]) -> tuple[Sequence[Message], str | None]:
    """The messages of some units, oldest first, and the summaries in force, folded."""
    exchanges = view.conversation.exchanges
    indexes = [index for unit in sorted(units) for index in exchanges.unit(unit)]
    messages, ours = without_ours(view.conversation, indexes)
    return messages, folded([*(each.text for each in view.edits.inserted), *ours])


def _weight(summary: str | None) -> int:
    """Tokens of a summary as it stands in the history."""
    return estimate(framed(summary)) if summary is not None else 0


def _count(view: View, going: AbstractSet[int]) -> int:
    """The neutral messages that are there, without some units; system messages aside."""
    conversation = view.conversation
    counts, absent = conversation.counts, view.gone
    if going:
        absent = absent | conversation.exchanges.items(going)
    there = [index for index in conversation.history if index not in absent]
    return len(there) if counts is None else sum(counts[index] for index in there)
