"""Replace old history by a summary that a model, or a function, writes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from compacting_client.core.claims import once
from compacting_client.core.edits import Inserted
from compacting_client.core.effects import Effect, Summarise
from compacting_client.core.ours import folded, without_ours
from compacting_client.core.summaries import INSTRUCTION, Summarised, SummaryRequest, asked, bounded, framed
from compacting_client.core.view import Choice, View
from compacting_client.errors import ConfigError
from compacting_client.policies.base import Policy, named
from compacting_client.policies.drop_oldest import DropOldest
from compacting_client.validation import function, is_async, share, whole_number

__all__ = ["Summarize"]


@dataclass(frozen=True)
class Summarize(Policy):
    """Once there are too many messages, or tokens, everything older than the newest ones is replaced by a summary, which is then used again.

    ``summarizer``      function from a `SummaryRequest` to text, plain or (on async clients) async
    ``max_messages``    int >= 1 or None: acts with more neutral messages than this, system messages aside
    ``token_budget``    int >= 1 or None: acts with more counted tokens than this, the whole input; the kept tail then shrinks too, oldest first,
                        if that is needed to come down to ``target * token_budget``
    ``keep_recent``     so many trailing neutral messages stay, and their exchanges whole; `keep_head`: so many leading ones, the system prompt first
    ``max_summary_tokens``  what a summary may have at most; the old one is folded into the new one, and counted as it is sent
    ``summary_system_prompt``  the instruction in the place of the default one
    ``timeout``         seconds that a summary may take

    A summariser that raises, takes too long, or returns no text costs an event (`summary.failed`): the request leaves without what is older,
    down to the budget, and the next try is five requests later.  A summary that is larger than what it replaces is not used.

    Raises ConfigError for a setting out of range.
    """

    model: str | None = None
    _: KW_ONLY
    summarizer: Callable[[SummaryRequest], Any] | None = None
    max_messages: int | None = 30
    token_budget: int | None = None
    keep_recent: int = 8
    keep_head: int = 0
    summary_system_prompt: str | None = None
    max_summary_tokens: int = 600
    summary_role: Literal["user"] = "user"
    target: float = 0.5
    timeout: float = 30.0

    def __post_init__(self) -> None:
        if self.model is not None or self.summarizer is None:
            raise ConfigError(
                "a summary by a model of its own is not available in this version; pass summarizer=, a function that is given a "
                "SummaryRequest and returns text: its `prompt` is ready to be sent with any client"
            )
        function("summarizer", self.summarizer, async_client=True)
        for name in ("max_messages", "token_budget"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), at_least=1)
        for name in ("keep_recent", "keep_head"):
            whole_number(name, getattr(self, name), at_least=0)
        whole_number("max_summary_tokens", self.max_summary_tokens, at_least=1)
        share("target", self.target)
        if self.summary_role != "user":
            raise ConfigError(f'summary_role must be "user" in this version, not {self.summary_role!r}')
        if isinstance(self.timeout, bool) or not self.timeout > 0:
            raise ConfigError(f"timeout must be a number of seconds above 0, not {self.timeout!r}")

    @property
    def is_async(self) -> bool:
        """Whether the summariser is."""
        return is_async(self.summarizer)

    @property
    def budget(self) -> float | None:
        """`token_budget`."""
        return self.token_budget

    @property
    def fingerprint(self) -> str:
        """By all settings, and the summariser."""
        return f"{self!r} {named(self.summarizer)}"

    def __repr__(self) -> str:
        shown = ("max_messages", "token_budget", "keep_recent", "keep_head", "max_summary_tokens", "target")
        return f"Summarize({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def triggered(self, view: View) -> bool:
        """Too many messages, or tokens."""
        return self._over_messages(view) or self._over_budget(view)

    def _over_messages(self, view: View) -> bool:
        return self.max_messages is not None and _count(view) > self.max_messages

    def _over_budget(self, view: View) -> bool:
        return self.token_budget is not None and view.exceeds(self.token_budget)

    def deciding(self, view: View) -> Generator[Effect, Any, Choice | None]:
        """What is older goes, and a summary of it and of the old summary stands at its place."""
        units, trigger = self._older(view), "messages" if self._over_messages(view) else "tokens"
        exchanges = view.conversation.exchanges
        items = [index for unit in sorted(units) for index in exchanges.unit(unit)]
        messages, ours = without_ours(view.conversation, items)
        if not any(message.get("content") or message.get("tool_calls") for message in messages):
            return None
        assert self.summarizer is not None
        previous = folded([*(each.text for each in view.edits.inserted), *ours])
        request = asked(messages, previous, self.max_summary_tokens, self.summary_system_prompt or INSTRUCTION)
        made = yield from once(Summarise(view.key, self.summarizer, request, self.timeout), self.fingerprint)
        text = bounded(made.text, self.max_summary_tokens) if made.text is not None else ""
        if not text:
            return self._without(view, made)
        inserted = (_placed(view, items, framed(text)),)
        target = None if self.token_budget is None else self.target * self.token_budget
        made = replace(made, text=text)
        choice = Choice(frozenset(units), trigger, target, inserted=inserted, summary=made)
        left = yield from view.after(view.settled(choice) or choice)
        return choice if left.total < view.total else self._without(view, made)

    def _older(self, view: View) -> set[int]:
        """The units that are to be replaced."""
        head, tail = view.ends(self.keep_head, self.keep_recent)
        free = [unit for unit in view.units() if unit not in head and unit not in view.pinned]
        older = {unit for unit in free if unit not in tail}
        if self.token_budget is not None:
            weights, left = view.weights(), view.total - view.weight(older) + self.max_summary_tokens
            for unit in free:
                if left > self.target * self.token_budget and unit in tail:
                    older.add(unit)
                    left -= weights[unit]
        # an old summary that opens the history is no question which has to come back: the new one stands in its place
        return view.mended(older) | {unit for unit in older if view.conversation.is_ours(unit)}

    def _without(self, view: View, made: Summarised) -> Choice | None:
        """The fallback: nothing but what has to go, and only for this request."""
        if self.token_budget is None or not view.exceeds(self.token_budget):
            return Choice(frozenset(), "messages", inserted=view.edits.inserted, summary=made, lasting=False)
        fallback = DropOldest(
            self.token_budget, keep_head=max(1, self.keep_head), keep_tail=self.keep_recent, target=1.0
        )
        choice = fallback.choose(view)
        units = choice.units if choice is not None else frozenset[int]()
        return Choice(units, "tokens", inserted=view.edits.inserted, summary=made, lasting=False)


def _count(view: View) -> int:
    """The neutral messages that are there, system messages aside."""
    conversation = view.conversation
    counts = conversation.counts
    there = [index for index in conversation.history if index not in view.gone]
    return len(there) if counts is None else sum(counts[index] for index in there)


def _placed(view: View, replaced: list[int], text: str) -> Inserted:
    """`text` where the items stood that it replaces; where no user message is left, it is one itself."""
    conversation, absent = view.conversation, view.gone.union(replaced)
    left = [index for index in conversation.history if index not in absent]
    if left and all(conversation.roles[index] != "user" for index in left):
        return Inserted(left[0], "own", text)
    return Inserted(max(replaced) + 1, "unplaced", text)
