"""Clear older tool results, and leave everything else where it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import zip_longest
from typing import Any, cast

from compacting_client.core.conversation import Message
from compacting_client.core.edits import Shortened
from compacting_client.core.effects import Effect
from compacting_client.core.facts import matches
from compacting_client.core.view import Choice, View
from compacting_client.policies.base import Policy
from compacting_client.validation import flag, names, share, whole_number

__all__ = ["ClearToolResults"]

_STEP = 10  # results at once: with fewer, a loop of large results would not have four fifths of its prompt in common with the request before
_SMALL = 19  # tokens of a marker: an item that is no larger cannot get smaller
_WORTH = 0.1  # of the budget: what a step that cannot make the request fit must free, as in DropOldest


@dataclass(frozen=True)
class ClearToolResults(Policy):
    """Older tool results give way to a short marker, in place; calls, questions and answers stay, and so do the newest `keep` results.

    ``keep``           int >= 0, tool results: so many of the newest stay as they are, whatever tool they are of
    ``max_tokens``     int >= 1, in counted tokens of the whole input, or None.  With a number: nothing is cleared up to it; above it, the oldest
                       first, down to ``target * max_tokens``.  With None: all that are older than `keep`, once there are at least as many again
                       to clear, and at least ten; so the prompt changes in steps, and the provider's prompt cache is lost only with each
    ``exclude_tools``  names of tools whose results stay; ``*`` stands for any text, as in ``("read_*",)``
    ``clear_inputs``   empty the arguments of those calls too.  Signed calls, which the provider wants back as they were, keep theirs
    ``target``         share of the budget in (0, 1]

    The marker says that the call completed and how much it returned, nothing else: it names no tool, and asks for nothing.  Whether a result
    was an error stays as it was; pictures in it go.  What would not get smaller stays, and so do results that load tools, pinned exchanges, the
    newest exchange, and results in the message of the question.  What was cleared stays cleared: it is remembered as any cut is.

    Raises ConfigError for a setting out of range.
    """

    keep: int = 3
    _: KW_ONLY
    max_tokens: int | None = None
    exclude_tools: Sequence[str] = ()
    clear_inputs: bool = False
    target: float = 0.5

    def __post_init__(self) -> None:
        whole_number("keep", self.keep, at_least=0)
        if self.max_tokens is not None:
            whole_number("max_tokens", self.max_tokens, at_least=1)
        object.__setattr__(
            self, "exclude_tools", names("exclude_tools", self.exclude_tools)
        )  # hashable, and one fingerprint
        flag("clear_inputs", self.clear_inputs)
        share("target", self.target)

    @property
    def budget(self) -> float | None:
        """`max_tokens`."""
        return self.max_tokens

    def triggered(self, view: View) -> bool:
        """Above the budget; without one, enough results that are not cleared yet, at a glance."""
        if self.max_tokens is not None:
            return view.exceeds(self.max_tokens)
        there = sum(len(calls) for index, calls in view.conversation.answers.items() if index not in view.gone)
        done = Counter(change.kind for change in view.edits.shortened)
        return there - max(done["cleared"], done["emptied"]) >= self.keep + self._step

    def deciding(self, view: View) -> Generator[Effect, Any, Choice | None]:
        """The oldest results that get smaller by it."""
        results = self._older(view)
        gains = yield from _gains(view, [change for result in results for change in result])
        worth = [found for result in results if (found := [change for change in result if change in gains])]
        if self.max_tokens is None:
            cleared = worth if len(worth) >= self._step else []
            return _choice(cleared, "tool_results")
        goal, left, cleared = self.target * self.max_tokens, view.total, list[list[Shortened]]()
        for result in worth:
            if left <= goal:
                break
            cleared.append(result)
            left -= sum(gains[change] for change in result)
        if left > self.max_tokens and self.target < 1.0 and view.total - left < _WORTH * self.max_tokens:
            return None
        return _choice(cleared, "tokens", goal)

    @property
    def _step(self) -> int:
        return max(self.keep, _STEP)

    def _older(self, view: View) -> list[list[Shortened]]:
        """What clearing each of the results would change that may be cleared and are not yet, oldest first."""
        conversation, done = view.conversation, _done(view)
        found: list[list[Shortened]] = []
        inputs: dict[int, dict[str, Shortened]] = {}
        kept = 0
        for index in reversed([*conversation.answers]):
            unit = conversation.exchanges.owner[index]
            small = view.sizes[index] <= _SMALL and not self.clear_inputs
            if index in view.gone or (kept >= self.keep and (small or unit in view.pinned)):
                continue
            for part, message in reversed([*enumerate(conversation.neutral(index))]):
                if message["role"] != "tool":
                    continue
                kept += 1
                if kept <= self.keep or unit in view.pinned or self._excludes(message):
                    continue
                changes = [Shortened(index, part, _marker(message.get("content")), "cleared")]
                if self.clear_inputs:
                    if unit not in inputs:
                        inputs[unit] = _inputs(view, unit)
                    changes += filter(None, [inputs[unit].get(str(message.get("tool_call_id")))])
                found.append([change for change in changes if _place(change) not in done])
        return found[::-1]

    def _excludes(self, message: Message) -> bool:
        name = str(message.get("name") or "")
        return matches(name, self.exclude_tools)


def _choice(cleared: list[list[Shortened]], trigger: str, target: float | None = None) -> Choice | None:
    changes = tuple(change for result in cleared for change in result)
    return Choice(frozenset(), trigger, target, changes) if changes else None


def _place(change: Shortened) -> tuple[str, int, int]:
    return change.kind, change.at, change.part


def _done(view: View) -> set[tuple[str, int, int]]:
    """What is cleared and emptied already."""
    return {_place(change) for change in view.edits.shortened if change.kind != "shortened"}


def _inputs(view: View, unit: int) -> dict[str, Shortened]:
    """Call id -> the change that empties its arguments, for one unit; without ids that it uses twice, and calls that have none."""
    conversation = view.conversation
    found: dict[str, list[Shortened]] = {}
    for index in conversation.exchanges.unit(unit):
        calls = [call for message in conversation.neutral(index) for call in message.get("tool_calls") or ()]
        for number, call in enumerate(calls):
            if "function" in call and call["function"].get("arguments") != "{}":
                found.setdefault(str(call.get("id")), []).append(Shortened(index, number, "{}", "emptied"))
    return {call: changes[0] for call, changes in found.items() if len(changes) == 1}


def _gains(view: View, changes: Sequence[Shortened]) -> Generator[Effect, Any, dict[Shortened, float]]:
    """The tokens that each change frees by itself; those that free none are left out."""
    items: dict[int, list[Shortened]] = {}
    for change in changes:
        items.setdefault(change.at, []).append(change)
    found: dict[Shortened, float] = {}
    for some in zip_longest(*items.values()):  # of each item one at a time
        tried = tuple(change for change in some if change is not None)
        sizes = (yield from view.after(Choice(frozenset(), "", shortened=tried))).sizes
        found.update({change: view.sizes[change.at] - sizes[change.at] for change in tried})
    return {change: gain for change, gain in found.items() if gain > 0}


def _marker(content: Any) -> str:
    """What stands in the place of a result: neutral, so that nobody takes it for a failure (HKUDS/nanobot#4647) or for an order."""
    blocks = cast("list[Any]", content) if isinstance(content, list) else [content]
    texts = [each if isinstance(each, str) else _text(each) for each in blocks]
    others = sum(text is None for text in texts if content is not None)
    said = [f"{sum(len(text or '') for text in texts)} characters"]
    said += [f"{others} attachment{'s' * (others > 1)}"] if others else []
    return f"[older tool result cleared; the call completed and returned {' and '.join(said)}]"


def _text(block: Any) -> str | None:
    text = cast("dict[str, Any]", block).get("text") if isinstance(block, dict) else getattr(block, "text", None)
    return text if isinstance(text, str) else None
