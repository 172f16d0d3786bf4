"""Replace old history by a summary that a model, or a function, writes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import partial
from typing import Any, Literal

from compacting_client.core.conversation import Message
from compacting_client.core.edits import Inserted, to_system
from compacting_client.core.effects import Begun, Beside, Effect, Summarise, Unused
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
from compacting_client.policies.base import Policy, identity
from compacting_client.policies.drop_oldest import DropOldest
from compacting_client.policies.sequences import completed
from compacting_client.validation import flag, function, is_async, share, whole_number

__all__ = ["Summarize"]

_SOFT = 0.8  # of a limit: where a summary is begun beside the requests
_WORTH = 0.1  # of the budget: what a summary must free, or a model would be asked again a few turns later
_FIRST = 4  # units, by which most conversations that open alike are told apart
_NOT_MADE = Summarised(None, 0.0)


@dataclass(frozen=True)
class Summarize(Policy):
    """Once there are too many messages, or tokens, everything older than the newest ones is replaced by a summary, which is then used again.

    ``model``           which model writes it.  None: the one of the request; a name: that one, on the same client.  The name of a model of
                        another provider, or one written ``provider:model``, is asked with that provider's SDK, whose client is built from the
                        environment when wrapping; but a client with a base_url of its own is never left
    ``summarizer``      in the place of a model: function from a `SummaryRequest` to text, plain or (on async clients) async
    ``max_messages``    int >= 1 or None: acts with more neutral messages than this, system messages aside
    ``token_budget``    int >= 1 or None: acts with more counted tokens than this, the whole input; the kept tail then shrinks too, oldest first,
                        if that is needed to come down to ``target * token_budget``
    ``keep_recent``     so many trailing neutral messages stay, and their exchanges whole; `keep_head`: so many leading ones, the system prompt first
    ``remove_tool_msgs``  on every request, completed tool sequences go, as in `KeepTurns`; those in what is summarised are shown to the summariser
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
        """By all settings that a summary depends on, and the summariser's identity in the process."""
        told = [each.name for each in fields(self) if each.name not in ("summarizer", "timeout", "background")]
        by = "" if self.summarizer is None else f" {identity(self.summarizer)}"
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
        if not any(message.get("content") or message.get("tool_calls") for message in _neutral(view, units)):
            return unchanged
        if limit == "tokens" and self.token_budget and view.weight(units) < _WORTH * self.token_budget:
            return self._without(view, tools, _NOT_MADE) if over else unchanged
        if self.background:
            return (yield from self._beside(view, units, tools))
        made: Summarised = yield self._asking(view, units, _previous(view))
        return (yield from self._used(view, units, tools, made))

    def _asking(self, view: View, units: AbstractSet[int], previous: str | None) -> Summarise:
        """The question for a summary of some units, and of the one before."""
        instruction = self.summary_system_prompt or INSTRUCTION
        request = asked(_neutral(view, units), previous, self.max_summary_tokens, instruction)
        return Summarise(view.key, self._writer(view), request, self.timeout)

    def _writer(self, view: View) -> Callable[[SummaryRequest], Any] | ByModel:
        if self.summarizer is not None:
            return self.summarizer
        asked_with = view.conversation
        return ByModel(self.model, asked_with.model, asked_with.api, self.api_style, self.timeout)

    def _beside(
        self, view: View, units: frozenset[int], tools: frozenset[int]
    ) -> Generator[Effect, Any, Choice | None]:
        """What was made beside earlier requests; while there is none, only what has to go."""
        there, previous = set(view.units()), _previous(view)

        def said(some: AbstractSet[int]) -> int:
            return hash((self.fingerprint, previous, dump(_neutral(view, some))))

        def mark(some: frozenset[int]) -> tuple[int, int]:
            return said(set(sorted(some)[:_FIRST])), said(some)

        def covers(some: frozenset[int], then: tuple[int, int]) -> bool:  # of another conversation a few messages tell
            return some <= there and said(set(sorted(some)[:_FIRST])) == then[0] and said(some) == then[1]

        def begin(known: frozenset[int] = frozenset(), text: str | None = previous) -> Begun:
            return Begun(self._asking(view, units - known, text), units, mark(units))

        found: tuple[frozenset[int], Summarised] | None = yield Beside(view.key, begin, covers)
        if found is not None:
            choice = yield from self._used(view, found[0], tools, found[1])
            after = yield from view.after(choice)
            if choice.summary is None or choice.summary.text is None or not self._over(after, frozenset()):
                return choice
            # too much has come since: it is folded into the next one, which is begun at once
            yield Beside(view.key, partial(begin, found[0], choice.summary.text), covers)
            return self._without(view, tools, choice.summary)
        if self._over(view, tools) is not None:
            return self._without(view, tools, _NOT_MADE)
        return Choice(tools, "tool_results", why="summary under way")

    def _used(
        self, view: View, units: frozenset[int], tools: frozenset[int], made: Summarised
    ) -> Generator[Effect, Any, Choice]:
        """The choice with a summary, or without, where it is none or too large."""
        text = bounded(made.text, self.max_summary_tokens) if made.text is not None else ""
        if made.text is not None and (not text or _weight(text) >= view.weight(units) + _weight(_previous(view))):
            yield Unused(view.key)
            made, text = made.failed(LARGER), ""
        if not text:
            return self._without(view, tools, made)
        at = max(view.conversation.exchanges.items(units)) + 1
        in_system = self.summary_role == "system"
        summary = to_system(view.conversation, framed(text)) if in_system else Inserted(at, "unplaced", framed(text))
        return Choice(
            units | tools,
            self._over(view, tools) or ("messages" if self.token_budget is None else "tokens"),
            None if self.token_budget is None else self.target * self.token_budget,
            inserted=(*(each for each in view.edits.inserted if summary_of(each.text) is None), summary),
            summary=replace(made, text=text),
            summarised=units,
        )

    def _older(self, view: View, tools: frozenset[int]) -> frozenset[int]:
        """The units that are to be replaced."""
        head, tail = view.ends(self.keep_head, self.keep_recent)
        free = [unit for unit in view.units() if unit not in head and unit not in view.pinned]
        older = {unit for unit in free if unit not in tail}
        if self.token_budget is not None:
            weights, left = view.weights(), view.total - view.weight(older | tools) - _weight(_previous(view))
            left += self.max_summary_tokens
            for unit in free:
                if left > self.target * self.token_budget and unit in tail and unit not in tools:
                    older.add(unit)
                    left -= weights[unit]
        return frozenset(view.mended(older))

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


def _previous(view: View) -> str | None:
    """The summary in force."""
    return next((text for each in view.edits.inserted if (text := summary_of(each.text)) is not None), None)


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


def _neutral(view: View, units: AbstractSet[int]) -> Sequence[Message]:
    """The messages of some units, oldest first."""
    conversation = view.conversation
    indexes = [index for unit in sorted(units) for index in conversation.exchanges.unit(unit)]
    return [message for index in indexes for message in conversation.neutral(index)]
