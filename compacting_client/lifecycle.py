"""The way of one request: read, decide, tell, send, recover, remember.

`exchange` is a generator, like the authentication flows of httpx: it yields what has to be done and is sent the answers, errors included; the
shell drives it, sync or async.
"""

from __future__ import annotations

import time
import traceback
import uuid
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from compacting_client import account
from compacting_client.core.compaction import Outcome, Question, compaction, without_thinking
from compacting_client.core.effects import Effect
from compacting_client.core.plan import Plan
from compacting_client.core.tokens import dump
from compacting_client.errors import BudgetError, PolicyError
from compacting_client.events import CompactionRecovered, CompactionRejected, CompactionSkipped, Event
from compacting_client.formats.base import Format, Unreadable, drained, given
from compacting_client.policies import Policy
from compacting_client.report import Report
from compacting_client.session import Session

__all__ = ["Deliver", "Finish", "Previewed", "Send", "Step", "Tell", "exchange", "passed_by"]


@dataclass(frozen=True, slots=True)
class Send:
    """Send this body.  Answer: the SDK's own response; its errors are thrown in."""

    body: Any


@dataclass(frozen=True, slots=True)
class Deliver:
    """Tie the report to the response; it is finished then, or when the response's stream ends."""

    response: Any
    report: Report


@dataclass(frozen=True, slots=True)
class Tell:
    """Hand events to the log and the callbacks."""

    events: list[Event]


@dataclass(frozen=True, slots=True)
class Finish:
    """The request is over without a response: `on_report`."""

    report: Report


Step = Effect | Send | Deliver | Tell | Finish
Steps = Generator[Step, Any, Any]


class Previewed(BaseException):
    """Carries a preview's report out of the SDK's call.  Not an Exception: no SDK may handle or wrap it."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report


def exchange(session: Session, wire: Format, body: Mapping[str, Any]) -> Steps:
    """One request through a wrapped client; returns the SDK's response.

    Raises the SDK's own errors; BudgetError with ``on_unfit="raise"``; PolicyError with ``strict=True``.
    """
    started = time.perf_counter()
    body = drained(body, wire.FIELD, "tools", "system")
    policy = session.policy()
    report = _begun(session, wire.API, body, policy)
    question, outcome = None, None
    try:
        report.reason = "off" if policy is None else wire.held(body)
        if policy is not None and report.reason is None:
            question = _question(session, wire, body, policy)
            outcome = yield from compaction(question)
    except Unreadable:
        report.reason = "unreadable"
    except Exception as error:
        yield from _failed(session, report, error)
    sending: Any = body
    if outcome is not None and question is not None:
        account.fill(report, outcome, policy.budget if policy is not None else None)
        sending = wire.write(outcome.plan, outcome.conversation, body) if outcome.plan else body
    report.duration_ms = (time.perf_counter() - started) * 1000
    session.keep(report)
    if session.previews():
        raise Previewed(_preview(report, outcome, sending))
    yield Tell(_events(session, report, outcome))
    if not report.fits and session.settings.on_unfit == "raise":
        yield Finish(report)
        raise BudgetError(
            f"{report.tokens_after} tokens are left of {report.tokens_before}, more than the budget of {policy.budget if policy else None}; "
            'nothing was sent (on_unfit="raise"). Raise the budget, or shorten what has to stay: the system prompt, the tools, the last question '
            "and the newest exchange",
            report,
        )
    response = yield from _sent(session, wire, body, sending, report, question, outcome)
    yield Deliver(response, report)
    return response


def passed_by(session: Session, api: str, body: Any, reason: str) -> Steps:
    """A request of an API that is left alone: only its account."""
    report = _begun(session, api, body if isinstance(body, Mapping) else {}, session.policy())  # pyright: ignore[reportUnknownArgumentType]
    report.reason = reason
    session.keep(report)
    if session.previews():
        raise Previewed(_preview(report, None, body))
    yield Tell(_events(session, report, None))
    try:
        response = yield Send(body)
    except Exception as error:
        report.error = type(error).__name__
        yield Finish(report)
        raise
    yield Deliver(response, report)
    return response


def _begun(session: Session, api: str, body: Mapping[str, Any], policy: Policy | None) -> Report:
    model = body.get("model")
    return Report(
        request_id=uuid.uuid4().hex[:16],
        api=api,
        model=model if isinstance(model, str) else "",
        policy=policy.name if policy is not None else "off",
        log_content=session.settings.log_content,
    )


def _question(session: Session, wire: Format, body: Mapping[str, Any], policy: Policy) -> Question:
    settings = session.settings
    conversation = wire.read(body)

    def refused(plan: Plan) -> list[str]:
        broken = Counter(each.rule for each in wire.check(wire.write(plan, conversation, body)))
        return sorted((broken - Counter(each.rule for each in wire.check(body))).keys()) if broken else []

    return Question(conversation, policy, refused, settings.counter, settings.pin, settings.memory_key)


def _failed(session: Session, report: Report, error: Exception) -> Steps:
    """A policy, pin, counter or memory_key failed: the caller's body leaves, with an event and an error log; `strict` raises."""
    report.reason = "error"
    report.error = type(error.__cause__ or error).__name__
    if session.settings.strict:
        session.keep(report)
        yield Finish(report)
        raise error if isinstance(error, PolicyError) else PolicyError(f"{report.policy} raised {error!r}") from error
    frame = (traceback.extract_tb((error.__cause__ or error).__traceback__) or [None])[-1]
    where = f"{frame.name}:{frame.lineno}" if frame is not None else "?"
    fields = {"request_id": report.request_id, "error": report.error, "where": where}  # the error's own text may quote the conversation
    session.log.write("error", "compaction.failed", fields, exc_info=error if session.settings.log_content else None)
    yield Tell([CompactionRejected(request_id=report.request_id, rules=("error", report.error), instead="the request as it came")])


def _events(session: Session, report: Report, outcome: Outcome | None) -> list[Event]:
    found: list[Event] = []
    if outcome is not None:
        found.extend(account.rejected(outcome, report.request_id))
    if outcome is not None and report.changed:
        found.append(account.applied(report, outcome))
        if session.hears("on_drop", "on_reuse"):
            found.extend(account.fresh_events(outcome, report.request_id))
    elif report.reason != "error":
        found.append(
            CompactionSkipped(
                request_id=report.request_id, api=report.api, model=report.model, policy=report.policy, reason=report.reason or ""
            )
        )
    return found


def _sent(
    session: Session,
    wire: Format,
    body: Mapping[str, Any],
    sending: Any,
    report: Report,
    question: Question | None,
    outcome: Outcome | None,
) -> Steps:
    """Send, once more where the provider's refusal can be helped, and remember what was decided once it was accepted."""
    try:
        try:
            response = yield Send(sending)
        except Exception as error:
            if question is None or outcome is None or not session.settings.recover or not _is_binding(wire, error):
                raise
            response = yield from _without_thinking(session, wire, body, report, question, outcome, error)
    except Exception as error:
        report.error = type(error).__name__
        yield Finish(report)
        raise
    if outcome is not None and outcome.commit is not None:
        yield outcome.commit
    return response


def _is_binding(wire: Format, error: Exception) -> bool:
    status = getattr(error, "status_code", None)
    return wire.refused_binding(status if isinstance(status, int) else None, str(error))


def _without_thinking(
    session: Session,
    wire: Format,
    body: Mapping[str, Any],
    report: Report,
    question: Question,
    outcome: Outcome,
    error: Exception,
) -> Steps:
    """Strip all signed thinking and send once more, once (DESIGN 3.4)."""
    found = yield from without_thinking(outcome)
    if not found:
        raise error
    account.fill(report, outcome, question.policy.budget)
    response = yield Send(wire.write(outcome.plan, outcome.conversation, body))
    yield Tell([CompactionRecovered(request_id=report.request_id, cause="thinking bound elsewhere")])
    return response


def _preview(report: Report, outcome: Outcome | None, sending: Any) -> Report:
    sent = {name: value for name, value in sending.items() if given(value)} if isinstance(sending, Mapping) else {}
    report.body = orjson.loads(dump(sent))
    if outcome is not None:
        report.verdicts = account.verdicts(outcome)
    return report

