"""Tool results that are known already: the calls of a response that have one, and tools that answer from them (`Control.reusable`)."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import Counter
from collections.abc import Iterable
from typing import Any

from compacting_client.core.reuse import Key, Reused, key_of
from compacting_client.errors import ConfigError
from compacting_client.events import ContentReused
from compacting_client.formats.base import Format
from compacting_client.report import Report
from compacting_client.returned import Returned
from compacting_client.session import Session
from compacting_client.shell import aask, ask
from compacting_client.steps import Steps, Tell
from compacting_client.validation import is_async

__all__ = ["reusable", "reusing"]

_NAMELESS = "<lambda>"


def reusable(session: Session, wires: Iterable[Format], response: Any) -> dict[str, Reused]:
    """The calls of a response that have a known result, by their ids; each is told, once.  ``wires``: the formats that it may have."""
    report = session.reports.of(response)
    if report is None:  # what a helper made of a stream, say
        report = session.answers.alike(wires, response)
    answer = session.answers.of(report)
    found: dict[str, Reused] = {}
    if report is None or answer is None:
        return found
    calls = list(answer.calls())
    times = Counter(call for call, _, _ in calls)
    for call, tool, arguments in calls:
        reused = answer.known.get(key_of(tool, arguments))
        if reused is not None and times[call] == 1:  # of two calls with one id nobody could say which is meant
            found[call] = reused
            if call not in answer.told:
                answer.told.add(call)
                _tell(session, _event(report, tool, reused))
    return found


def reusing(session: Session, function: Any, name: str | None) -> Any:
    """`function`, answering calls whose result the last request of this context had.  Raises ConfigError."""
    tool = name or getattr(function, "__name__", None)
    if not callable(function) or not isinstance(tool, str):
        raise ConfigError(f"reusing() takes a function, and name= where that has none, not {function!r}")
    if tool == _NAMELESS:
        raise ConfigError(
            "reusing() finds results by the name of the tool, and a lambda has none: pass name=, or use def"
        )
    if not is_async(function) and _awaited(session):
        raise ConfigError(f"on_event or on_reuse is async, but {tool} is not: nobody would await them; make it async")
    _warn(session, tool)
    signature, returned = inspect.signature(function), Returned(function)
    made: Any = function

    @functools.wraps(made)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        key = _key(tool, signature, args, kwargs)
        found = _known(session, tool, key, returned)
        if found is None:
            return returned.noted(key, made(*args, **kwargs))
        ask(_steps(found[0]), session)
        return found[1]

    @functools.wraps(made)
    async def awrapped(*args: Any, **kwargs: Any) -> Any:
        key = _key(tool, signature, args, kwargs)
        found = _known(session, tool, key, returned)
        if found is None:
            return returned.noted(key, await made(*args, **kwargs))
        await aask(_steps(found[0]), session)
        return found[1]

    return awrapped if is_async(function) else wrapped


def _warn(session: Session, tool: str) -> None:
    """Say that nothing can be reused as things stand; a later `using` or `with_policy` may change that, so it is no error."""
    policy = session.policy()
    if policy is None or not policy.reuses(tool):
        fields = {"tool": tool, "policy": policy.name if policy is not None else "off"}
        session.log.write("warning", "reusing.never", fields | {"wanted": f"reuse_results=[{tool!r}] of Ledger"})


def _key(tool: str, signature: inspect.Signature, args: Any, kwargs: Any) -> Key | None:
    """The call as the model makes it; None for one that the function refuses: it says itself what is wrong."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        arguments.update(value if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return key_of(tool, arguments)


def _known(session: Session, tool: str, key: Key | None, returned: Returned) -> tuple[ContentReused, Any] | None:
    """The result of this very call in the last request of this context, and the event of its use; None where the function has to run."""
    report = session.last_report()
    answer = session.answers.of(report)
    found = answer.known.get(key) if answer is not None and key is not None else None
    if report is None or key is None or found is None:
        return None
    try:
        return _event(report, tool, found), returned.alike(key, found.content)
    except ValueError:  # nothing that this function returns
        return None


def _event(report: Report, tool: str, reused: Reused) -> ContentReused:
    return ContentReused(request_id=report.request_id, kind="tool_result", age=reused.age, tokens_saved=0, tool=tool)


def _steps(event: ContentReused) -> Steps:
    yield Tell([event])


def _tell(session: Session, event: ContentReused) -> None:
    """Tell it from plain code: async callbacks in a task of their own."""
    if not _awaited(session):
        ask(_steps(event), session)
        return
    task = asyncio.get_running_loop().create_task(aask(_steps(event), session))
    session.answers.telling.add(task)  # the loop holds it weakly only
    task.add_done_callback(session.answers.telling.discard)


def _awaited(session: Session) -> bool:
    return is_async(session.settings.on_event) or is_async(session.settings.on_reuse)
