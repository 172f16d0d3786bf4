"""The account of one request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import groupby
from typing import Any, Literal, NamedTuple

from compacting_client.events import ContentDropped, ContentReplaced, ContentReused, Event
from compacting_client.formats.base import Usage
from compacting_client.savings import Savings, SummaryUsage, dollars, line, summarised

__all__ = ["Figures", "Report", "Verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a preview says of one unit: the indexes of its first and last item in the caller's list, its roles and tokens, and what happens to it."""

    first: int
    last: int
    roles: tuple[str, ...]
    tokens: float
    verdict: Literal["kept", "dropped", "stripped", "replaced"]


class Figures(NamedTuple):
    """The numbers of a report, in counted tokens and neutral messages."""

    tokens_before: float = 0
    tokens_after: float = 0
    tokens_overhead: float = 0
    messages_before: int = 0
    messages_after: int = 0


def _fewer(_: float) -> bool:
    """Whether more than so many tokens left, where nobody asks any more."""
    return False


def _nothing(_: Usage | None) -> None:
    """What is done with the usage of a request on which nothing was decided."""


@dataclass(eq=False)
class Report:
    """What became of one request.

    ``tokens_*`` are tokens as counted here; ``tokens_overhead`` is the part of them that is system prompt and tools.  ``messages_*`` count
    neutral messages, the system prompt included.  Where nothing was cut, both are counted when first read, on the messages as they are then.
    ``changed``: whether the request left other than the caller wrote it; ``reason`` says why not.
    ``fits``: whether ``tokens_after`` is within the policy's budget; True where there is none.  ``usage`` is the provider's own count, filled in
    with the response or at its stream's end, else None.  ``savings``: what was not sent, what began as before, what was cached, and the
    dollars.  ``summary``: the one in force; ``summary_usage``: what was spent on one that was made, or tried, with this request, else None.
    ``duration_ms`` is the time spent in this library before sending.  ``body`` and
    ``verdicts`` are there in previews only.  ``truncated``: the provider read far less than was sent, without saying so.
    ``left_early``: the caller left a stream before its end; ``usage`` is then what was said until there, and often None.
    """

    request_id: str
    api: str
    model: str
    policy: str
    trigger: str | None = None
    reason: str | None = None
    changed: bool = False
    fits: bool = True
    summary: str | None = field(default=None, repr=False)
    summary_usage: SummaryUsage | None = None
    usage: Usage | None = None
    duration_ms: float = 0.0
    error: str | None = None
    truncated: bool = False
    left_early: bool = False
    body: dict[str, Any] | None = field(default=None, repr=False)
    verdicts: tuple[Verdict, ...] = field(default=(), repr=False)
    log_content: bool = field(default=False, repr=False)
    figures: Callable[[], Figures] = field(default=Figures, repr=False)
    exceeds: Callable[[float], bool] = field(default=_fewer, repr=False)
    details: Callable[[], tuple[list[ContentDropped], list[ContentReplaced], list[ContentReused]]] = field(
        default=lambda: ([], [], []), repr=False
    )
    prefix: Callable[[], float | None] = field(default=lambda: None, repr=False)
    over: Callable[[Usage | None], None] = field(default=_nothing, repr=False)

    @cached_property
    def _figures(self) -> Figures:
        found = self.figures()  # counted when first asked for: most reports are never read
        self.figures = lambda: found
        return found

    @cached_property
    def _details(self) -> tuple[list[ContentDropped], list[ContentReplaced], list[ContentReused]]:
        return self.details()  # built when first asked for: a long history has thousands of units

    @cached_property
    def _unchanged(self) -> float | None:
        found = self.prefix()
        self.prefix = lambda: found
        return found

    def ended(self) -> None:
        """The response is over: what it taught is kept, once; an error teaches nothing."""
        over, self.over = self.over, _nothing
        if self.error is None:
            over(self.usage)

    def __repr__(self) -> str:
        shown = [each.name for each in fields(self) if each.repr] + list(Figures._fields)
        return f"Report({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def settle(self) -> None:
        """Count now: what is counted holds no history any more."""
        left, _ = self._figures.tokens_after, self._unchanged
        self.exceeds = lambda tokens: left > tokens

    def renew(self) -> None:
        """Count and build anew."""
        self.__dict__.pop("_figures", None)
        self.__dict__.pop("_unchanged", None)
        self.__dict__.pop("_details", None)

    def __getstate__(self) -> dict[str, Any]:
        _ = self._figures, self._details, self._unchanged  # what is made on demand cannot be made in another process
        return {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("figures", "details", "exceeds", "prefix", "over")
        }

    @property
    def tokens_before(self) -> float:
        """Tokens of the request as the caller wrote it."""
        return self._figures.tokens_before

    @property
    def tokens_after(self) -> float:
        """Tokens of the request as it left."""
        return self._figures.tokens_after

    @property
    def tokens_overhead(self) -> float:
        """The part of both that is system prompt and tools."""
        return self._figures.tokens_overhead

    @property
    def messages_before(self) -> int:
        """Neutral messages, the system prompt included."""
        return self._figures.messages_before

    @property
    def messages_after(self) -> int:
        """Those that were left."""
        return self._figures.messages_after

    @property
    def savings(self) -> Savings:
        """What this request did not cost."""
        not_sent, usage = self.tokens_before - self.tokens_after, self.usage
        cost, saved = dollars(self.model, usage, not_sent) if usage is not None else (None, None)
        return Savings(not_sent, self._unchanged, usage.cached_tokens if usage is not None else None, cost, saved)

    @property
    def dropped(self) -> list[ContentDropped]:
        """Everything that is absent from this request, oldest first, each with `since`: how many requests ago it went."""
        return self._details[0]

    @property
    def replaced(self) -> list[ContentReplaced]:
        """Every item that left with other content."""
        return self._details[1]

    @property
    def reused(self) -> list[ContentReused]:
        """What was remembered from earlier requests and used again."""
        return self._details[2]

    def as_dict(self, *, units: bool = True) -> dict[str, Any]:
        """All of it as JSON-like data, without text of the conversation unless ``log_content=True``.

        Everything that was ever dropped from a long conversation is in it; ``units=False`` leaves the single units out, for a log line.
        """
        named = "request_id api model policy trigger reason changed fits tokens_before tokens_after tokens_overhead"
        named += " messages_before messages_after duration_ms error truncated left_early"
        return {
            **{name: getattr(self, name) for name in named.split()},
            "usage": self.usage._asdict() if self.usage else None,
            "savings": self.savings._asdict(),
            "summary_usage": self.summary_usage._asdict() if self.summary_usage else None,
            **(self._units() if units else {}),
            **({"summary": self.summary} if self.log_content else {}),
        }

    def _units(self) -> dict[str, Any]:
        kinds: dict[str, Sequence[Event]] = {"dropped": self.dropped, "replaced": self.replaced, "reused": self.reused}
        return {kind: [event.as_dict(content=self.log_content) for event in events] for kind, events in kinds.items()}

    def __str__(self) -> str:
        head = f"{self.api} {self.model or '?'} [{self.policy}]"
        if not self.changed:
            counted = (
                f", {self.tokens_before} tokens in {_messages(self.messages_before)}" if self.messages_before else ""
            )
            left = f"{head}: left as it was ({self.reason}){counted}" + ("" if self.fits else ", over the budget")
            return left + self._saved()
        lines = [
            f"{head}: {self.tokens_before} -> {self.tokens_after} tokens, {self.messages_before} -> {_messages(self.messages_after)}"
            + ("" if self.fits else ", still over the budget")
        ]
        lines += _dropped(self.dropped)
        lines += [_changed(list(items)) for _, items in groupby(self.replaced, key=_way)]
        lines += [f"  {told}" for told in (summarised(self.summary_usage),) if told]
        lines += [
            f"  reused {item.kind}, made {_ago(item.age)}, saves {item.tokens_saved} tokens" for item in self.reused
        ]
        return "\n".join(lines) + self._saved()

    def _saved(self) -> str:
        said = [
            line(self.savings, self.tokens_after),
            "the stream was left before its end" if self.left_early else None,
        ]
        return "".join(f"\n  {each}" for each in said if each)


def _dropped(units: Sequence[ContentDropped]) -> list[str]:
    """A line for each request in which something went, the oldest first; many of them have one line together."""
    went: dict[int, list[ContentDropped]] = {}
    for unit in units:
        went.setdefault(unit.since, []).append(unit)
    ages = sorted(went, reverse=True)
    older, newer = (ages[: 1 - _LINES], ages[1 - _LINES :]) if len(ages) > _LINES else ((), ages)
    early = [unit for age in older for unit in went[age]]
    return [*([_line(early)] if early else []), *(_line(went[age]) for age in newer)]


_LINES = 6  # of what was dropped, in `str(report)`


def _line(units: list[ContentDropped]) -> str:
    """Units that went in the same request, or in older ones, in one line."""
    roles = Counter(role for unit in units for role in unit.roles)
    tools = Counter(name for unit in units for name in unit.tools)
    called = f" (calls: {_counted(tools)})" if tools else ""
    span = f"[{min(unit.first for unit in units)}-{max(unit.last for unit in units)}]"
    ages = {unit.since for unit in units}
    when = _ago(min(ages)) if len(ages) == 1 else f"{min(ages)} to {max(ages)} requests ago"
    return f"  dropped {when}: {_counted(roles)}{called} of {span}, {sum(unit.tokens for unit in units)} tokens"


def _messages(count: int) -> str:
    return f"{count} message{'s' * (count != 1)}"


def _way(item: ContentReplaced) -> str:
    """In which way something changed."""
    return _SYSTEM if item.kind == "extended" and item.roles == ("system",) else item.kind


_SYSTEM = "system prompt extended"


def _changed(items: list[ContentReplaced]) -> str:
    """Items that changed in the same way, in one line."""
    span = f"[{items[0].first}]" if items[0].first == items[-1].last else f"[{items[0].first}-{items[-1].last}]"
    where = span if len(items) == 1 else f"{len(items)} of {span}"
    before, after = sum(item.tokens for item in items), sum(item.tokens_after for item in items)
    if (way := _way(items[0])) == _SYSTEM:  # it may stand in no item of the list
        return f"  {way} by {after - before} tokens"
    return f"  {way} {where} {before} -> {after} tokens"


def _ago(requests: int) -> str:
    return "now" if requests == 0 else f"{requests} request{'s' * (requests > 1)} ago"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
