"""The way of one request: read, decide, tell, send, recover, remember.

`exchange` is a generator, like the authentication flows of httpx: it yields what has to be done and is sent the answers, errors included; the
shell drives it, sync or async.
"""

from __future__ import annotations

import secrets
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from compacting_client import account, recovery
from compacting_client.conversations import Followed
from compacting_client.core.asking import Asking
from compacting_client.core.compaction import Question, compaction, unchanged
from compacting_client.core.conversation import Conversation
from compacting_client.core.effects import Unused
from compacting_client.core.outcome import Outcome
from compacting_client.core.plan import Plan
from compacting_client.core.sent import Trail
from compacting_client.core.window import Window
from compacting_client.counters import BY_PROVIDER
from compacting_client.errors import BudgetError, PolicyError
from compacting_client.events import CompactionRejected, CompactionSkipped, Event
from compacting_client.formats.base import Format, PlainHistory, Unreadable, drained, plain_history, snapshot, wire_json
from compacting_client.formats.explained import explained
from compacting_client.policies import Policy
from compacting_client.report import Report
from compacting_client.session import Session
from compacting_client.steps import Deliver, Finish, Send, Steps, Tell

__all__ = ["Previewed", "Steps", "exchange", "passed_by"]

Counting = Callable[[Mapping[str, Any]], Any]


class Previewed(BaseException):
    """Carries a preview's report out of the SDK's call.  Not an Exception: no SDK may handle or wrap it."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report


def exchange(session: Session, wire: Format, body: Mapping[str, Any], counting: Counting | None = None) -> Steps:
    """One request through a wrapped client; returns the SDK's response.  ``counting`` asks the provider for the tokens of a body.

    Raises the SDK's own errors; BudgetError with ``on_unfit="raise"``; PolicyError with ``strict=True``.
    """
    started = time.perf_counter()
    plain = plain_history(body.get(wire.FIELD))
    body = drained(body, *((wire.FIELD,) if plain is None else ()), "tools", "system")
    request = _Request(session, wire, body, session.policy())
    request.counting, request.plain = counting, plain
    try:
        response = yield from _ended(request.report, request.leave(started))
    finally:
        request.question = None  # it knows the request, and the request the client: what was let go would wait for the garbage collector
    yield Deliver(response, request.report)
    return response


def passed_by(session: Session, api: str, body: Any, reason: str) -> Steps:
    """A request of an API that is left alone: only its account."""
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", body) if isinstance(body, Mapping) else {}
    report = _begun(session, api, fields, session.policy())
    report.reason = reason
    session.keep(report)
    if session.previews():
        report.body = wire_json(body)
        raise Previewed(report)
    yield Tell([_skipped(report)])
    response = yield from _ended(report, _sent(body))
    yield Deliver(response, report)
    return response


def _sent(body: Any) -> Steps:
    return (yield Send(body))


def _ended(report: Report, steps: Steps) -> Steps:
    """The steps; where they end in an error, a cancellation too, the request is over with it."""
    try:
        return (yield from steps)
    except (Previewed, GeneratorExit):  # a preview is no request; what is thrown away while it waits may await nothing
        raise
    except BaseException as error:
        report.error = type(error).__name__
        yield Finish(report)
        raise


class _Request:
    """One request on its way: the caller's body, what was decided on it, and its report."""

    def __init__(self, session: Session, wire: Format, body: Mapping[str, Any], policy: Policy | None) -> None:
        self.session, self.wire, self.body = session, wire, body
        self.report = _begun(session, wire.API, body, policy)
        self.policy = policy.sized(self.window) if policy is not None else None
        self.question: Question | None = None
        self.outcome: Outcome | None = None
        self.counting: Counting | None = None
        self.plain: PlainHistory | None = None
        self.has_failed = False
        self._last: tuple[Plan, dict[str, Any]] | None = None

    def leave(self, started: float) -> Steps:
        """All steps up to the response; `started` on the performance counter."""
        yield from self.decide()
        self.report.duration_ms = (time.perf_counter() - started) * 1000
        self.session.keep(self.report)
        self.stop_preview()
        if not self.report.changed:
            self.session.unread.add(self.report)
        yield from self.hold_against_budget()
        yield Tell(self.events())
        return (yield from self.send())

    def window(self) -> Window | None:
        """The model's window, for this request."""
        return self.session.windows.of(self.wire.API, self.report.model, self.wire.reserved(self.body))

    def decide(self) -> Steps:
        """Fill in the outcome and the report; what cannot be decided on leaves as it came."""
        try:
            self.report.reason = "off" if self.policy is None else self.wire.held(self.body)
            if self.policy is not None and self.report.reason is None:
                self.question = self._question(self.policy)
                self.outcome = yield from compaction(self.question)
                yield from account.unused_summary(self.outcome, preview=self.session.previews())
                self.session.answers.expect(self.report, (yield from self.policy.known(self.outcome.conversation)))
                yield from recovery.ahead(self)
                account.fill(self.report, self.outcome, self.policy.budget)
                self._follow(self.outcome)
            else:
                wire, sent = self.wire, snapshot(self.body, self.wire.FIELD)
                self.report.figures = lambda: account.uncut(wire, sent)
        except Unreadable:
            self.report.reason = "unreadable"
        except Exception as error:  # noqa: BLE001 - whatever the caller's functions raise: the request still goes out
            yield from self.failed(error)

    def rendered(self) -> Any:
        """The body that leaves: the caller's own where nothing changes."""
        if self.outcome is None or not self.outcome.plan:
            return self.body
        return self._written(self.outcome.conversation, self.outcome.plan)

    def _written(self, conversation: Conversation, plan: Plan) -> dict[str, Any]:
        """The body under a plan, made once: it is checked first and sent then."""
        if self._last is None or self._last[0] is not plan:
            self._last = plan, self.wire.write(plan, conversation, self.body)
        return self._last[1]

    def events(self) -> list[Event]:
        """What is told before the request leaves."""
        report, outcome = self.report, self.outcome
        if outcome is None:
            return [_skipped(report)] if not self.has_failed else []
        found: list[Event] = [*account.rejected(outcome, report.request_id)]
        found.extend(account.summary_told(outcome, report.request_id))
        if outcome.known.failure is not None:
            found.append(account.memory_failed(outcome.known.failure, report.request_id, "decided without memory"))
        if not report.changed:
            return [*found, _skipped(report)]
        if self.session.hears("info"):
            found.append(account.applied(report, outcome))
        if self.session.hears("debug", "on_drop", "on_reuse"):
            found.extend(account.fresh_events(outcome, report.request_id))
        return found

    def hold_against_budget(self) -> Steps:
        """Raises BudgetError if the caller asked for it and the request does not fit: then nothing is sent, so nothing is told as dropped."""
        report = self.report
        if report.fits or self.session.settings.on_unfit == "send":
            return
        yield Tell([CompactionRejected(request_id=report.request_id, rules=("budget",), instead="nothing sent")])
        why = f" ({report.reason})" if report.reason else ""
        raise BudgetError(
            f"{report.tokens_after} of {report.tokens_before} tokens are left{why}, more than the budget of "
            f'{self.policy.budget if self.policy else None}; nothing was sent (on_unfit="raise"). Raise the budget, or '
            "shorten what has to stay: the system prompt, the tools, the last question, the newest exchange, and what `pin` selects",
            report,
        )

    def send(self) -> Steps:
        """Send, once more where the provider's refusal can be helped; remember what was decided once it was accepted."""
        try:
            response = yield Send(self.rendered())
        except Exception as error:  # noqa: BLE001 - the SDK's own; raised again unless it can be helped
            response = yield from recovery.recovered(self, error)
        yield from self._remember()
        if self.outcome is not None and (self.outcome.plan or self.outcome.measured.known):
            self.followed.settle()
            self.outcome.release()  # an application may keep every response, and with it every report
            if self.report.changed:
                self.session.unread.add(self.report)
        return response

    def stop_preview(self) -> None:
        """In a preview the way ends here: raises Previewed with the body as it would be sent, and a verdict on each unit."""
        if not self.session.previews():
            return
        self.report.body = wire_json(self.rendered())
        if self.outcome is not None:
            self.report.verdicts = account.verdicts(self.outcome)
        raise Previewed(self.report)

    def _follow(self, outcome: Outcome) -> None:
        """Let the report know what was sent before, and the next requests what this one comes to."""
        conversations, report, body = self.session.conversations, self.report, self.body
        known = conversations.alike(outcome.measured.opening)
        self.followed = followed = Followed(
            conversations,
            Trail(outcome.measured, lambda: outcome.plan, known),
            calibrates=self.session.settings.counter in (None, BY_PROVIDER),
            explained=lambda: explained(body, outcome.conversation),
            changed=lambda: outcome.changed,
        )
        report.prefix, report.over = followed.prefix, followed.over

    def _question(self, policy: Policy) -> Question:
        settings = self.session.settings
        try:
            conversation = self.wire.read(self.body, self.plain)
        except Exception as error:  # whatever shape nobody thought of: the provider says what is wrong with it
            raise Unreadable(str(error)) from error
        return Question(
            conversation,
            policy,
            partial(self.broken, conversation),
            counter=settings.counter if settings.counter != BY_PROVIDER else None,
            pin=settings.pin,
            memory_key=settings.memory_key,
            recent=None if self.session.previews() else self.session.recent,
            learned=self.session.conversations,
            asking=self._asking(conversation),
            portable=settings.portable,
        )

    def _asking(self, conversation: Conversation) -> Asking | None:
        """How the provider is asked for its count, where that is wanted; a preview sends nothing."""
        counting, session = self.counting, self.session
        if counting is None or session.settings.counter != BY_PROVIDER or session.previews():
            return None

        def leaving(plan: Plan) -> Any:
            return counting(self._written(conversation, plan) if plan else self.body)

        return Asking(leaving, session.conversations.alike)

    def _remember(self) -> Steps:
        if self.outcome is None:
            return
        try:
            for effect in (self.outcome.commit, *self.outcome.marks):
                if effect is not None:
                    yield effect
        except Exception as error:  # noqa: BLE001 - a store that is down costs an event, never the response
            yield Tell([account.memory_failed(error, self.report.request_id, "nothing remembered")])
            made = self.outcome.summary
            if made is not None and made.text is not None:  # each further request would have it made again
                yield Unused(made.name)

    def broken(self, conversation: Conversation, plan: Plan) -> list[str]:
        """The rules that the body breaks under `plan`, and did not break before."""
        broken = Counter(each.rule for each in self.wire.check(self._written(conversation, plan)))
        return sorted(broken - Counter(each.rule for each in self.wire.check(self.body))) if broken else []

    def failed(self, error: Exception) -> Steps:
        """A policy, pin, counter or memory_key failed: an event and an error log; `strict` raises.  The request leaves as it came."""
        report, session, cause = self.report, self.session, error.__cause__
        source, name = getattr(error, "source", "policy"), type(cause or error).__name__
        self.outcome = self.question = None  # what was decided before the failure is not sent, nor built upon
        self.has_failed, report.reason = True, f"{source} failed: {name}"
        if session.settings.strict:
            session.keep(report)
            if isinstance(error, PolicyError):
                raise error
            raise PolicyError(f"{report.policy} raised {name}") from error
        self._measure_anyway()
        fields = {"request_id": report.request_id, "source": source, "error": name}  # no text: it may quote messages
        if cause is not None or not isinstance(error, PolicyError):
            frame = traceback.extract_tb((cause or error).__traceback__)[-1]
            fields["where"] = f"{frame.name}:{frame.lineno}"
        session.log.write("error", "compaction.failed", fields, exc_info=error if report.log_content else None)
        rules = ("error", source, name)
        yield Tell([CompactionRejected(request_id=report.request_id, rules=rules, instead="the request as it came")])

    def _measure_anyway(self) -> None:
        """The figures of the caller's body by the default estimate: a failed function must not make a report say that all is well."""
        try:
            outcome = unchanged(self.wire.read(self.body), self.report.reason)
        except Exception:  # noqa: BLE001 - whatever shape it has: the provider says what is wrong with it
            return
        account.fill(self.report, outcome, self.policy.budget if self.policy is not None else None)


def _begun(session: Session, api: str, body: Mapping[str, Any], policy: Policy | None) -> Report:
    model = body.get("model")
    return Report(
        request_id=secrets.token_hex(8),
        api=api,
        model=model if isinstance(model, str) else "",
        policy=policy.name if policy is not None else "off",
        log_content=session.settings.log_content,
    )


def _skipped(report: Report) -> CompactionSkipped:
    return CompactionSkipped(
        request_id=report.request_id,
        api=report.api,
        model=report.model,
        policy=report.policy,
        reason=report.reason or "",
    )
