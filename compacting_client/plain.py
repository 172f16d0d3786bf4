"""Plain functions over a list of messages: `compact()` and its kin, with no client and no memory.

They are a drop-in for the PyPI package ctx-compact 0.1.0: same arguments, results and numbers wherever its call/result
pairs stand side by side.  Where that package breaks a history, these do not: pairs are found by id wherever they stand,
messages are dropped by position (one object may stand in a list twice), an iterator is read once, a summary never makes
things worse, and a summariser that fails costs a warning instead of the request.

A budget and every count are in tokens as `count_tokens` counts them.  Nothing is kept besides head and tail: system
prompts and questions have no privilege here; the policies of `compacting()` do more.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import math
import numbers
import reprlib
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

from compacting_client.core import tokens
from compacting_client.core.exchanges import Exchanges, pair
from compacting_client.errors import ConfigError
from compacting_client.formats.base import as_dict
from compacting_client.validation import function, is_async

__all__ = [
    "CompactResult",
    "CompactResultWithSummary",
    "acompact_with_summary",
    "compact",
    "compact_with_summary",
    "estimate_tokens",
]

CountTokens = Callable[[Any], float]  # fractions are counted as they are, though the results are named whole numbers

_SHORTEST_SUMMARY = 40  # one cut to fewer characters says nothing any more; it is left out instead


@dataclass(frozen=True)
class CompactResult:
    """What is left of a history, and what it took.

    `messages` and `dropped` hold the caller's own objects in their order.  Both sums are whole numbers unless
    `count_tokens` returns fractions; `fits` says whether `tokens_after` is within the budget.
    """

    messages: list[Any]
    dropped: list[Any]
    tokens_before: int
    tokens_after: int
    fits: bool


@dataclass(frozen=True)
class CompactResultWithSummary(CompactResult):
    """The same, with the text that was inserted; `summary` is None where nothing was."""

    summary: str | None = None


def estimate_tokens(message: Any, count_tokens: CountTokens | None = None) -> int:
    """The tokens of one message, by `count_tokens` or by default a quarter of its length as compact JSON, rounded up.

    The length is that of JavaScript (UTF-16 units), text beyond ASCII unescaped.  Lone surrogates count as one unit, and
    what is no JSON (bytes, typed objects, cycles) by a stand-in; neither raises.  Raises ConfigError for a `count_tokens`
    that is no function or returns no count.
    """
    return _count(_counter(count_tokens), message, "the message")


def compact(
    messages: Iterable[Any],
    *,
    max_tokens: float,
    count_tokens: CountTokens | None = None,
    keep_head: float = 1,
    keep_tail: float = 4,
) -> CompactResult:
    """Drop messages from the middle, oldest first, until the rest fits `max_tokens`.

    `messages` are dicts `{role, content, tool_calls?, tool_call_id?, name?}`, also with Anthropic's `tool_use` and
    `tool_result` blocks, or the SDKs' typed objects.  A tool call and its results go together or stay together.  The first
    `keep_head` and the last `keep_tail` messages stay, and with them every exchange that reaches into them; if they alone
    are over the budget, `fits` is False.  A history that fits comes back as it is.

    Neither the list nor a message is changed; `count_tokens(message)` is called once per message.  Raises ConfigError
    (a ValueError and a TypeError) for a wrong argument or a count that is none; what `count_tokens` raises passes.
    """
    trim = _Trim(messages, max_tokens, count_tokens, keep_head, keep_tail)
    return CompactResult(trim.left(), trim.dropped(), trim.before, trim.now, trim.fits())


def compact_with_summary(
    messages: Iterable[Any],
    *,
    max_tokens: float,
    count_tokens: CountTokens | None = None,
    keep_head: float = 1,
    keep_tail: float = 4,
    summarize: Callable[[list[Any]], str] | None = None,
    summary_role: str = "user",
) -> CompactResultWithSummary:
    """As `compact`; what was dropped is handed to `summarize`, and its text put in its place.

    `summarize(dropped) -> str` is called once, if anything was dropped, with copies that it may change.  The message
    `{"role": summary_role, "content": text}` stands after the head, or at the next place where it parts no tool call from
    its results.  It counts: if the result is over the budget with it, more of the middle goes, oldest first (in `dropped`,
    though not in the summary).

    A summary never makes things worse.  One that would not fit even then takes nothing more from the middle: it is cut to
    the room that `compact` leaves, or left out if next to nothing would remain of it.  Where `compact` does not fit either,
    it stays (`fits` is False), unless it is no smaller than what it stands for.  A summariser that raises or returns no
    text leaves the result of `compact`.  Each time one RuntimeWarning says so (an error is its `__cause__`); `summary` is
    the text that stands in the result, or None.

    Raises ConfigError as `compact` does, and for an async `summarize`: that is for `acompact_with_summary`.
    """
    _check_summary(summarize, summary_role)
    if is_async(summarize):
        raise ConfigError("summarize is an async function: await acompact_with_summary(...) instead")
    trim = _Trim(messages, max_tokens, count_tokens, keep_head, keep_tail)
    if summarize is None or not trim.gone:
        return trim.result()
    try:
        answer: Any = summarize(trim.copies())
    except Exception as error:  # noqa: BLE001 - whatever a summariser raises, the caller gets a history that fits
        answer = error
    return _with_answer(trim, answer, summary_role)


async def acompact_with_summary(
    messages: Iterable[Any],
    *,
    max_tokens: float,
    count_tokens: CountTokens | None = None,
    keep_head: float = 1,
    keep_tail: float = 4,
    summarize: Callable[[list[Any]], str | Awaitable[str]] | None = None,
    summary_role: str = "user",
) -> CompactResultWithSummary:
    """As `compact_with_summary`, awaiting `summarize`.  One that is not async runs in a thread, beside the event loop."""
    _check_summary(summarize, summary_role)
    trim = _Trim(messages, max_tokens, count_tokens, keep_head, keep_tail)
    if summarize is None or not trim.gone:
        return trim.result()
    copies = trim.copies()
    try:
        answer: Any = summarize(copies) if is_async(summarize) else await asyncio.to_thread(summarize, copies)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:  # noqa: BLE001 - as above; a cancellation is no Exception and passes
        answer = error
    return _with_answer(trim, answer, summary_role)


class _Trim:
    """One history on its way down to its budget: what each message costs, what belongs together, what has gone."""

    def __init__(self, messages: Any, max_tokens: Any, count_tokens: Any, keep_head: Any, keep_tail: Any) -> None:
        self.budget = _budget(max_tokens)
        head, tail = _kept("keep_head", keep_head), _kept("keep_tail", keep_tail)
        self.count = _counter(count_tokens)
        self.messages = _listed(messages)
        self.costs = [_count(self.count, message, f"messages[{i}]") for i, message in enumerate(self.messages)]
        self.before = self.now = sum(self.costs)
        self.gone: set[int] = set()
        self.exchanges = Exchanges(0)
        self.units: list[Sequence[int]] = []  # what may go, oldest first
        self.next = 0  # the first of them that is still there
        self.gap = 0
        if not self.fits():
            self._plan(head, tail)
            self.drop()

    def _plan(self, keep_head: float, keep_tail: float) -> None:
        """Find the units, those that head and tail keep, and where the head ends."""
        size = len(self.messages)
        self.exchanges = _exchanges(self.messages)
        owner = self.exchanges.owner
        head = {owner[index] for index in range(math.ceil(min(keep_head, size)))}
        pinned = head | {owner[index] for index in range(size - math.ceil(min(keep_tail, size)), size)}
        self.units = [self.exchanges.unit(i) for i in range(size) if owner[i] == i and i not in pinned]
        self.gap = next((index for index in range(size) if owner[index] not in head), size)

    def fits(self, extra: int = 0) -> bool:
        """Whether what is left, and `extra` tokens, are within the budget."""
        return self.now + extra <= self.budget

    def drop(self, extra: int = 0) -> None:
        """Drop whole units, oldest first, until what is left fits with `extra` tokens or nothing may go any more."""
        while self.next < len(self.units) and not self.fits(extra):
            unit = self.units[self.next]
            self.next += 1
            self.gone.update(unit)
            self.now -= sum(self.costs[index] for index in unit)

    def pinned(self) -> int:
        """The tokens of what can never go."""
        return self.now - sum(self.costs[index] for unit in self.units[self.next :] for index in unit)

    def left(self) -> list[Any]:
        return [message for index, message in enumerate(self.messages) if index not in self.gone]

    def dropped(self) -> list[Any]:
        return [self.messages[index] for index in sorted(self.gone)]

    def copies(self) -> list[Any]:
        """The same for a summariser: what it does to them reaches neither the result nor the caller's history."""
        return [_copied(message) for message in self.dropped()]

    def result(self, summary: str = "", role: str = "", cost: int = 0) -> CompactResultWithSummary:
        """The result, with a summary that costs so much."""
        left = self.left()
        if summary:
            place = self._place()
            left.insert(place - sum(index < place for index in self.gone), {"role": role, "content": summary})
        after = self.now + cost
        return CompactResultWithSummary(left, self.dropped(), self.before, after, self.fits(cost), summary or None)

    def _place(self) -> int:
        """The index before which a summary stands: the end of the head, or the nearest place that is inside no exchange.

        A later one first; the very end never, since the last message of a history is what the model is to answer.
        """
        free: list[int] = []
        closed = 0  # where every exchange that began so far has ended
        for index in range(len(self.messages)):
            if closed <= index:
                free.append(index)
            if index not in self.gone:
                closed = max(closed, self.exchanges.unit(index)[-1] + 1)
        return next((place for place in free if place >= self.gap), free[-1])


def _with_answer(trim: _Trim, answer: Any, role: str) -> CompactResultWithSummary:
    """The result with what a summariser answered: its text whole, cut, or left out."""
    if not isinstance(answer, str) or not answer.strip():
        _warn(f"summarize {_no_text(answer)}: the messages were dropped without a summary", answer)
        return trim.result()

    def cost(text: str) -> int:
        return _count(trim.count, {"role": role, "content": text}, "the summary")

    text, size = answer, cost(answer)
    if trim.pinned() + size <= trim.budget:
        trim.drop(size)
    elif trim.fits():
        text, size = _longest(answer.strip(), cost, trim.budget - trim.now)
        _warn(f"the summary does not fit: it was {f'cut to {len(text)} characters' if text else 'left out'}")
    elif trim.now + size >= trim.before:  # over the budget with it and without it
        text, size = "", 0
        _warn("the summary is no smaller than what it stands for: it was left out")
    return trim.result(text, role, size)


def _longest(text: str, cost: Callable[[str], int], room: float) -> tuple[str, int]:
    """The longest beginning of a text that costs at most `room`, found by halving, and its cost; "" if next to nothing."""
    best = ("", 0)
    low, high = _SHORTEST_SUMMARY, len(text) - 1
    while low <= high:
        middle = (low + high) // 2
        tried = text[:middle].rstrip() + "…"
        if (size := cost(tried)) <= room:
            best, low = (tried, size), middle + 1
        else:
            high = middle - 1
    return best


def _no_text(answer: Any) -> str:
    """What a summariser did instead of returning text."""
    if isinstance(answer, Exception):
        return f"raised {type(answer).__name__}"
    if inspect.iscoroutine(answer):
        answer.close()  # or Python warns of a coroutine that nobody awaited
        return "returned a coroutine, which acompact_with_summary awaits"
    return "returned blank text" if isinstance(answer, str) else f"returned {type(answer).__name__} instead of text"


def _warn(text: str, cause: Any = None) -> None:
    """Tell the caller of the public function, three frames up.  What an error says may quote messages: it is attached."""
    warning = RuntimeWarning(text)
    warning.__cause__ = cause if isinstance(cause, Exception) else None
    warnings.warn(warning, stacklevel=4)


def _copied(message: Any) -> Any:
    try:
        return copy.deepcopy(message)
    except Exception:  # noqa: BLE001 - a lock, a file or a client inside a message
        return dict(cast("Mapping[Any, Any]", message)) if isinstance(message, Mapping) else message


def _exchanges(messages: Sequence[Any]) -> Exchanges:
    """The units of a history, paired by id wherever its calls and results stand."""
    ids = [_ids(as_dict(message) or {}) for message in messages]
    calls = {index: asked for index, (asked, _) in enumerate(ids) if asked}
    answers = {index: answered for index, (_, answered) in enumerate(ids) if answered}
    return pair(calls, answers, size=len(messages))


def _ids(item: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The ids of the calls that a message makes, and of those that it answers.  The older `function_call` has but a name."""
    asked: list[str] = []
    answered: list[str] = []
    role = item.get("role")
    if role == "assistant":
        asked += [f"id:{call.get('id')}" for call in _dicts(item.get("tool_calls"))]
        asked += [f"function:{call.get('name')}" for call in _dicts([item.get("function_call")])]
    elif role == "tool":
        answered.append(f"id:{item.get('tool_call_id')}")
    elif role == "function":
        answered.append(f"function:{item.get('name')}")
    for block in _dicts(item.get("content")):
        kind = str(block.get("type"))
        if kind.endswith("tool_use"):  # also server_tool_use and mcp_tool_use
            asked.append(f"id:{block.get('id')}")
        elif kind.endswith("tool_result"):
            answered.append(f"id:{block.get('tool_use_id')}")
    return asked, answered


def _dicts(value: Any) -> list[dict[str, Any]]:
    """The entries of a list or tuple that are dicts or typed objects."""
    entries = cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else ()
    return [entry for each in entries if (entry := as_dict(each)) is not None]


def _default_count(message: Any) -> int:
    """The documented heuristic of ctx-compact, exact to the unit: hence the standard library's JSON, floats included."""
    try:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return tokens.estimate(message)
    return tokens.of_length(tokens.utf16_length(text.encode("utf-8", "surrogatepass")))


def _count(counter: CountTokens, message: Any, where: str) -> int:
    """What the counter says, if it is a count: a finite number of at least 0."""
    count: Any = counter(message)
    if inspect.iscoroutine(count):
        count.close()
        raise ConfigError("count_tokens must not be async: it returned a coroutine")
    if _is_number(count) and count >= 0 and (isinstance(count, int) or math.isfinite(count)):
        return cast("int", count)
    raise ConfigError(f"count_tokens must return a finite number of at least 0; for {where}: {reprlib.repr(count)}")


def _is_number(value: Any) -> TypeGuard[float]:
    return not isinstance(value, bool) and isinstance(value, numbers.Real)


def _budget(value: Any) -> float:
    if type(value) is not bool and isinstance(value, (int, float)) and 0 < value < math.inf:
        return value
    raise ConfigError(f"max_tokens must be a positive number, not {reprlib.repr(value)}")


def _kept(name: str, value: Any) -> float:
    """How many messages an end keeps: fractions count up, less than 0 is 0, infinity is all."""
    if _is_number(value) and (isinstance(value, int) or not math.isnan(value)):
        return max(value, 0)
    raise ConfigError(f"{name} must be a number of messages, not {reprlib.repr(value)}")


def _counter(count_tokens: Any) -> CountTokens:
    function("count_tokens", count_tokens, async_client=True)  # an async one is told by what it returns
    return _default_count if count_tokens is None else count_tokens


def _check_summary(summarize: Any, role: Any) -> None:
    function("summarize", summarize, async_client=True)
    if not isinstance(role, str) or not role:
        raise ConfigError(f"summary_role must be the name of a role, not {reprlib.repr(role)}")


def _listed(messages: Any) -> list[Any]:
    """The messages in a list of our own; an iterator is read here, once."""
    if not isinstance(messages, Iterable) or isinstance(messages, (str, bytes, Mapping)):
        raise ConfigError(f"messages must be a list of messages, not {reprlib.repr(cast('Any', messages))}")
    return list(cast("Iterable[Any]", messages))
