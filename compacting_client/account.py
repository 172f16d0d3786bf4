"""From an outcome to events and a report: what went, what stands in its place, what was used again."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, cast

from compacting_client.core.compaction import unchanged
from compacting_client.core.conversation import ItemEdit, called
from compacting_client.core.effects import Effect, Unused
from compacting_client.core.outcome import Outcome
from compacting_client.core.summaries import LARGER, summary_of
from compacting_client.core.tokens import dump, estimate
from compacting_client.events import (
    CompactionApplied,
    CompactionRejected,
    ContentDropped,
    ContentReplaced,
    ContentReused,
    Event,
    SummaryCreated,
    SummaryFailed,
)
from compacting_client.formats.base import Format
from compacting_client.report import Figures, Report, Verdict
from compacting_client.savings import spent

__all__ = [
    "applied",
    "details",
    "figures",
    "fill",
    "fresh_events",
    "memory_failed",
    "rejected",
    "summary_told",
    "truncated",
    "uncut",
    "unused_summary",
    "verdicts",
]

_THOUGHT_BEFORE = "thinking from before an edit"
_FAR_LESS, _WORTH_COUNTING = 2, 2_000
_REASONS = {
    "tokens": "over the token budget",
    "messages": "older than the kept messages",
    "turns": "older than the kept turns",
    "tool_results": "completed tool sequence",
    "policy": "decided by the policy",
    "overflow": "too long for the provider",
    None: "remembered cut",
}


def fill(report: Report, outcome: Outcome, budget: float | None) -> None:
    """Put an outcome into the report.  What takes counting is counted when somebody reads it."""
    report.changed = bool(outcome.plan)
    report.reason = outcome.reason
    report.summary = next((text for each in outcome.plan.edits.inserted if (text := summary_of(each.text))), None)
    made = outcome.summary
    if made is not None and not made.shared and (made.text is not None or made.error is not None):
        report.summary_usage = spent(made.model, made.input_tokens, made.output_tokens, made.duration_ms)
    report.trigger = outcome.choice.trigger if outcome.choice is not None else None
    if outcome.plan:
        report.fits = budget is None or outcome.tokens_after <= budget
        request_id = report.request_id  # the report in its own closure would live until the garbage collector runs
        report.details = lambda: details(outcome, request_id)
    else:  # an application may keep every report: one of an unchanged request holds nothing of the history
        report.fits = budget is None or not outcome.measured.exceeds(budget)
    # functions, which a copy of the report shares
    report.figures = lambda: figures(outcome)
    report.exceeds = lambda tokens: _exceeds(outcome, tokens)
    report.renew()  # filled a second time after a recovery


def uncut(wire: Format, body: Mapping[str, Any]) -> Figures:
    """The numbers of a request on which nothing was decided, by the default estimate; zeros for one that cannot be read."""
    try:
        return figures(unchanged(wire.read(body), None))
    except Exception:  # noqa: BLE001 - whatever shape it has: the provider says what is wrong with it
        return Figures()


def truncated(report: Report) -> CompactionRejected | None:
    """The event of a request of which the provider read far less than was sent, without a word; the report says so too.

    A local server cuts the prompt to the context that the model was loaded with, a gateway shortens it.  Less than half of what was counted is
    no error of the estimate in a request of this size.
    """
    usage = report.usage
    if usage is None or not report.exceeds(max(_WORTH_COUNTING, _FAR_LESS * usage.input_tokens)):
        return None
    report.truncated = True
    instead = f"the provider read {usage.input_tokens} of about {round(report.tokens_after)} tokens"
    return CompactionRejected(request_id=report.request_id, rules=("truncated",), instead=instead)


def _exceeds(outcome: Outcome, tokens: float) -> bool:
    """Whether more than so many tokens left; where it clearly is not, nothing is counted."""
    return outcome.tokens_after > tokens if outcome.plan else outcome.measured.exceeds(tokens)


def figures(outcome: Outcome) -> Figures:
    """The numbers of an outcome."""
    conversation, plan = outcome.conversation, outcome.plan
    counts = conversation.counts
    lost = (*plan.gone, *outcome.emptied.difference(plan.gone)) if outcome.stripped else plan.gone
    gone = len(lost) if counts is None else sum([counts[index] for index in lost])
    messages = conversation.count()
    own = sum(bool(edit.own) for edit in plan.edits.by_item().values())
    return Figures(
        tokens_before=outcome.tokens_before,
        tokens_after=outcome.tokens_after,
        tokens_overhead=outcome.measured.overhead,
        messages_before=messages,
        messages_after=messages - gone + own,
    )


def details(
    outcome: Outcome, request_id: str
) -> tuple[list[ContentDropped], list[ContentReplaced], list[ContentReused]]:
    """All that is absent, replaced and reused."""
    dropped = [_dropped(outcome, unit, request_id) for unit in sorted(outcome.ages)]
    dropped += _emptied(outcome, request_id)
    dropped.sort(key=lambda unit: unit.first)
    replaced = [*_stripped(outcome, request_id), *_edited(outcome, sorted(outcome.edited), request_id)]
    return dropped, replaced, _reused(outcome, request_id)


def fresh_events(outcome: Outcome, request_id: str) -> list[Event]:
    """An event for each unit that went now, each item that was stripped or now edited, and each thing used again."""
    dropped = [_dropped(outcome, unit, request_id) for unit in outcome.fresh]
    dropped += _emptied(outcome, request_id) if outcome.choice is not None else []
    known = outcome.known.edits(outcome.reused).by_item() if outcome.reused is not None else {}
    told = {text for edit in known.values() for text in edit.system}
    new = [index for index, edit in sorted(outcome.plan.edits.by_item().items()) if edit != known.get(index)]
    replaced = [*_stripped(outcome, request_id), *_edited(outcome, new, request_id, told)]
    return [*dropped, *replaced, *_reused(outcome, request_id)]


def applied(report: Report, outcome: Outcome) -> CompactionApplied:
    """The event of a changed request."""
    return CompactionApplied(
        request_id=report.request_id,
        api=report.api,
        model=report.model,
        policy=report.policy,
        trigger=report.trigger,
        tokens_before=report.tokens_before,
        tokens_after=report.tokens_after,
        messages_before=report.messages_before,
        messages_after=report.messages_after,
        fits=report.fits,
        target=outcome.choice.target if outcome.choice is not None else None,
        duration_ms=report.duration_ms,
    )


def rejected(outcome: Outcome, request_id: str) -> list[CompactionRejected]:
    """An event for each plan that the provider would have refused."""
    return [
        CompactionRejected(request_id=request_id, rules=rules, instead=instead) for rules, instead in outcome.rejected
    ]


def summary_told(outcome: Outcome, request_id: str) -> list[Event]:
    """The event of a summary that was made, or failed to be; one that another worker made is told there."""
    made = outcome.summary
    if made is None:
        return []
    told: list[Event] = []
    if made.unclaimed is not None:
        rules = ("memory", made.unclaimed)
        told.append(CompactionRejected(request_id=request_id, rules=rules, instead="summarised without a claim"))
    facts: dict[str, Any] = {
        "request_id": request_id,
        **{name: getattr(made, name) for name in ("duration_ms", "model", "input_tokens", "output_tokens")},
    }
    if made.text is None and made.error is not None:
        told.append(SummaryFailed(error=made.error, **facts))
    elif made.text is not None and not made.shared:
        told.append(SummaryCreated(tokens=estimate(made.text), **facts))
    return told


def unused_summary(outcome: Outcome, *, preview: bool) -> Generator[Effect, Any, None]:
    """A summary that was made, and that the request does not leave with, is told as failed, and not made again at once.  A preview makes none."""
    made = outcome.summary
    if made is not None and made.text is not None and (outcome.choice is None or outcome.choice.summary is not made):
        outcome.summary = made.failed(outcome.rejected[0][0][0] if outcome.rejected else LARGER)
        yield Unused(made.name)
    if made is not None and not outcome.plan and outcome.reason is None:
        outcome.reason = "a summary would be made" if preview else "no summary"


def memory_failed(error: Exception, request_id: str, instead: str) -> CompactionRejected:
    """The event of a store that raised."""
    return CompactionRejected(request_id=request_id, rules=("memory", type(error).__name__), instead=instead)


def verdicts(outcome: Outcome) -> tuple[Verdict, ...]:
    """What happens to each unit, in order."""
    exchanges, found, edits = outcome.conversation.exchanges, list[Verdict](), outcome.plan.edits.by_item()
    for unit, first in enumerate(exchanges.owner):
        if unit != first:
            continue
        members = exchanges.unit(unit)
        verdict: Any = (
            "dropped"
            if unit in outcome.ages
            else "stripped"
            if outcome.stripped.keys() & set(members)
            else "replaced"
            if any(index in edits and not edits[index].beside for index in members)
            else "kept"
        )
        roles = tuple(message["role"] for index in members for message in outcome.conversation.neutral(index))
        tokens = sum(outcome.measured.sizes[index] for index in members)
        found.append(Verdict(members[0], members[-1], roles, tokens, verdict))
    return tuple(found)


def _facts(outcome: Outcome, indexes: tuple[int, ...]) -> dict[str, Any]:
    """What dropped and replaced events have in common."""
    messages = tuple(message for index in indexes for message in outcome.conversation.neutral(index))
    said = dump([outcome.measured.trace.meaning(index) for index in indexes])
    return {
        "first": indexes[0],
        "last": indexes[-1],
        "roles": tuple(message["role"] for message in messages),
        "tools": tuple(name for message in messages for _, name in called(message)),
        "tokens": sum(outcome.measured.sizes[index] for index in indexes),
        "digest": blake2b(said, digest_size=8).hexdigest(),
        "messages": messages,
    }


def _dropped(outcome: Outcome, unit: int, request_id: str) -> ContentDropped:
    age = outcome.ages[unit]
    policys = outcome.policys is not None and unit in outcome.policys.units
    choice = outcome.policys if policys else outcome.choice
    trigger = choice.trigger if choice is not None and age == 0 else None
    facts = _facts(outcome, tuple(outcome.conversation.exchanges.unit(unit)))
    summarised = age == 0 and choice is not None and unit in choice.summarised
    reason = "summarised" if summarised else _REASONS.get(trigger, str(trigger))
    return ContentDropped(request_id=request_id, reason=reason, since=age, **facts)


def _emptied(outcome: Outcome, request_id: str) -> list[ContentDropped]:
    """The items that went because nothing was left of them without their thinking."""
    age = outcome.uses if outcome.choice is None else 0
    return [
        ContentDropped(request_id=request_id, reason=_THOUGHT_BEFORE, since=age, **_facts(outcome, (index,)))
        for index in sorted(outcome.emptied)
    ]


def _stripped(outcome: Outcome, request_id: str) -> list[ContentReplaced]:
    """The items that left without their thinking."""
    return [
        ContentReplaced(
            request_id=request_id,
            kind="stripped",
            tokens_after=left,
            reason=_THOUGHT_BEFORE,
            **_facts(outcome, (index,)),
        )
        for index, left in sorted(outcome.stripped.items())
        if index not in outcome.emptied
    ]


def _edited(
    outcome: Outcome, indexes: Iterable[int], request_id: str, told: Collection[str] = ()
) -> list[ContentReplaced]:
    """The items that were shortened, cleared or extended, or that a new user item stands before; `told`: system texts that are no news."""
    found: list[ContentReplaced] = []
    for index in indexes:
        edit, facts, after = outcome.plan.edits.by_item()[index], _facts(outcome, (index,)), outcome.edited[index]
        if edit.system:
            part = after - facts["tokens"] if edit.beside else outcome.in_system[index]
            if edit.beside or not set(told).issuperset(edit.system):
                found.append(_extended_system(edit.system, part, facts, request_id))
            if edit.beside:
                continue
            after -= part
        kind, reason, changed = _change(edit, facts)
        if kind == "inserted":
            after -= facts["tokens"]
        found.append(
            ContentReplaced(request_id=request_id, kind=kind, tokens_after=after, reason=reason, **{**facts, **changed})
        )
    return found


def _extended_system(texts: Sequence[str], tokens: float, facts: dict[str, Any], request_id: str) -> ContentReplaced:
    """The system prompt was extended; nothing of it left."""
    facts = {**facts, **_of_texts(texts, "system"), "messages": ()}
    return ContentReplaced(
        request_id=request_id, kind="extended", tokens_after=tokens, reason="decided by the policy", **facts
    )


def _change(edit: ItemEdit, facts: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """The kind of a change of an item, why, and the facts that are other than the item's own."""
    # fewer, where the caller has emptied its own message since
    there: dict[int, Any] = dict(enumerate(cast("Sequence[Any]", facts["messages"])))
    messages: tuple[Any, ...] = tuple(there[part] for part in sorted(edit.parts) if part in there)
    messages += tuple(message for message in there.values() if edit.emptied and message.get("tool_calls"))
    changed: dict[str, Any] = {"messages": messages}  # of what was extended nothing left
    kind, reason = ("shortened" if edit.parts else "extended"), "decided by the policy"
    if (edit.parts or edit.emptied) and edit.parts.keys() <= edit.cleared:
        kind, reason = "cleared", "older tool result"
    elif not (edit.parts or edit.start or edit.end):
        kind = "inserted"
        changed |= _of_texts(edit.own, "user")
    return kind, reason, changed


def _of_texts(texts: Sequence[str], role: str) -> dict[str, Any]:
    """What is told of inserted texts alone, in the place of what they stand beside."""
    digest = blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return {"roles": (role,), "tools": (), "tokens": 0, "digest": digest}


def _reused(outcome: Outcome, request_id: str) -> list[ContentReused]:
    if outcome.reused is None:
        return []
    sizes, now = outcome.measured.sizes, outcome.plan.edits.by_item()
    saved = sum(sizes[index] for index in sorted(outcome.known.gone(outcome.reused)))
    known = outcome.known.edits(outcome.reused).by_item()
    saved += sum(sizes[index] - outcome.edited[index] for index, edit in known.items() if now.get(index) == edit)
    kind = "summary" if any(summary_of(each.text) for each in outcome.reused.edits.inserted) else "cut"
    return [ContentReused(request_id=request_id, kind=kind, age=outcome.uses, tokens_saved=saved)]
