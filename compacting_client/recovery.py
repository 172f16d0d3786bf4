"""A refusal that can be helped: the request is changed and sent once more, once.

A "too long" teaches the window of the model; the oldest goes, on top of what the policy decided.  Thinking that is bound to a different
conversation is removed (DESIGN 3.4).  Where nothing helps, the provider's own error reaches the caller.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Protocol

from compacting_client import account
from compacting_client.core.compaction import Question, shortened, without_thinking
from compacting_client.core.conversation import Conversation
from compacting_client.core.effects import Effect
from compacting_client.core.outcome import Outcome
from compacting_client.core.plan import Plan
from compacting_client.core.window import Window
from compacting_client.errors import PolicyError
from compacting_client.events import CompactionRecovered, CompactionRejected, Event
from compacting_client.formats.base import Format, TooLong
from compacting_client.policies import Policy
from compacting_client.report import Report
from compacting_client.session import Session
from compacting_client.settings import policy_of
from compacting_client.steps import Send, Steps, Tell
from compacting_client.windows import Learned, counted

__all__ = ["Sent", "ahead", "recovered", "said"]

_TOO_LONG = "too long"


class Sent(Protocol):
    """A request on its way, and what was decided on it."""

    session: Session
    wire: Format
    body: Mapping[str, Any]
    policy: Policy | None
    report: Report
    question: Question | None
    outcome: Outcome | None

    def window(self) -> Window | None:
        """The model's window."""
        ...

    def rendered(self) -> Any:
        """The body that leaves."""
        ...

    def failed(self, error: Exception) -> Steps:
        """A function of the caller's failed."""
        ...

    def broken(self, conversation: Conversation, plan: Plan) -> list[str]:
        """The rules that it would break under another plan."""
        ...


def ahead(request: Sent) -> Generator[Effect, Any, None]:
    """Drop what the provider is known to refuse, since it refused it before; whatever the policy says."""
    outcome, policy, wire = request.outcome, request.policy, request.wire
    if outcome is None or policy is None or not request.session.settings.recover:
        return
    window = request.session.windows.learned(wire.API, request.report.model, wire.reserved(request.body))
    if window is None or request.question is None:
        return
    limit = window.budget()
    # a policy that kept below the limit what it could has left room for the answer; only what cannot be accepted is taken from it
    refused = window.size if policy.budget is not None and policy.budget <= limit else limit
    if outcome.tokens_after > refused if outcome.plan else outcome.measured.exceeds(refused):
        yield from shortened(request.question, outcome, _dropping(policy, limit))


def recovered(request: Sent, error: Exception) -> Steps:
    """The response to a second request; raises `error` where none would help, and the second one's own error where that is refused too."""
    outcome, question, policy = request.outcome, request.question, request.policy
    if outcome is None or question is None or policy is None or not request.session.settings.recover:
        raise error
    status, body, code = said(error)
    if request.wire.refused_binding(status, str(error)):
        return (yield from _without_thinking(request, outcome, error))
    found = request.wire.too_long(status, body, code)
    if found is None:
        raise error
    return (yield from _shorter(request, question, outcome, policy, error, found))


def _shorter(  # noqa: PLR0917 - all that there is
    request: Sent, question: Question, outcome: Outcome, policy: Policy, error: Exception, found: TooLong
) -> Steps:
    report, told = request.report, _told(request)
    learned, limit = _taught(request, outcome, found)
    try:
        helps = limit is not None and (yield from shortened(question, outcome, _dropping(policy, limit)))
    except PolicyError as failed:  # a function of the caller's is asked once more
        yield from request.failed(failed)
        raise error from None
    if not helps:
        report.reason = outcome.reason
        yield Tell([_in_vain(report)])
        _note(error, report, "nothing older could be dropped")
        raise error
    _fill(request, outcome)
    try:
        response = yield Send(request.rendered())
    except Exception as second:
        if (again := request.wire.too_long(*said(second))) is not None:
            _taught(request, outcome, again)
            yield Tell([_in_vain(report)])
        _note(second, report, "sent once more with less, after the provider had called it too long")
        raise
    if found.teaches == "once accepted":
        request.session.windows.learn(report.api, report.model, learned)
    window = found.limit if found.teaches == "at once" else None
    news = [event for event in account.fresh_events(outcome, report.request_id) if _key(event) not in told]
    recovery = CompactionRecovered(request_id=report.request_id, cause=_TOO_LONG, window=window)
    yield Tell([recovery, account.applied(report, outcome), *(news if _is_heard(request) else [])])
    return response


def _taught(request: Sent, outcome: Outcome, found: TooLong) -> tuple[Learned, float | None]:
    """What a refusal teaches, and the limit to go below; None where a shorter history would not help."""
    report, windows, reserved = request.report, request.session.windows, request.wire.reserved(request.body)
    learned = counted(found, outcome.tokens_after, reserved)
    if found.teaches == "at once":
        windows.learn(report.api, report.model, learned)
    if found.shared and found.limit is not None and reserved >= found.limit:
        return learned, None
    window = request.window() if found.teaches == "at once" else learned.window(reserved)
    return learned, window.budget() if window is not None else None


def _without_thinking(request: Sent, outcome: Outcome, error: Exception) -> Steps:
    """All signed thinking is stripped: another worker made the cut, or the memory was lost."""
    if not (yield from without_thinking(outcome)):
        raise error
    if request.broken(outcome.conversation, outcome.plan):  # an open loop with thinking `enabled` must keep it
        raise error
    report = request.report
    _fill(request, outcome)
    response = yield Send(request.rendered())
    recovery = CompactionRecovered(request_id=report.request_id, cause="thinking bound elsewhere")
    yield Tell([recovery, account.applied(report, outcome), *report.replaced])  # what was dropped is told already
    return response


def _dropping(policy: Policy, limit: float) -> Policy:
    """What drops the oldest down to below a limit, as under this policy."""
    dropping = policy_of(max(1, int(limit)))
    assert dropping is not None
    return policy.rescue(dropping)


def _fill(request: Sent, outcome: Outcome) -> None:
    """The report of what is sent now, held against what is known of the window now."""
    if request.policy is not None:
        request.policy = request.policy.sized(request.window)
        account.fill(request.report, outcome, request.policy.budget)


def _is_heard(request: Sent) -> bool:
    return request.session.hears("debug", "on_drop", "on_reuse")


def _told(request: Sent) -> set[tuple[str, Any]]:
    """What was told before the first request."""
    if request.outcome is None or not request.outcome.plan or not _is_heard(request):
        return set()
    return {_key(event) for event in account.fresh_events(request.outcome, request.report.request_id)}


def _key(event: Event) -> tuple[str, Any]:
    return event.name, getattr(event, "first", None)


def _in_vain(report: Report) -> CompactionRejected:
    return CompactionRejected(request_id=report.request_id, rules=(_TOO_LONG,), instead="the provider's own error")


def said(error: Exception) -> tuple[int | None, Any, str | None]:
    """Status, body (JSON or text) and code of an SDK's error; the SDKs name them differently."""
    code, body = getattr(error, "code", None), getattr(error, "body", None)
    statuses = [status for status in (getattr(error, "status_code", None), code) if type(status) is int]
    if body is None:
        body = getattr(error, "details", None)
    return next(iter(statuses), None), str(error) if body is None else body, code if isinstance(code, str) else None


def _note(error: Exception, report: Report, what: str) -> None:
    """The report, for whoever reads the error's traceback."""
    note = f"compacting_client: {what}\n{report}"
    add: Any = getattr(error, "add_note", None)
    if add is not None:
        add(note)
    else:  # Python 3.10 shows no notes, but keeps them
        error.__dict__.setdefault("__notes__", []).append(note)
