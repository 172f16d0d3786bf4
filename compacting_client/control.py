"""`control(client)`: the handle on a wrapped client, which itself has only its SDK's own attributes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, TypeVar

from compacting_client.bindings import bind, bound, described, formats_of, owner, prepare
from compacting_client.core.measure import Measure
from compacting_client.core.prefix import OPENING
from compacting_client.core.recognition import Recognition
from compacting_client.core.reuse import Reused
from compacting_client.errors import ConfigError, UnsupportedClientError
from compacting_client.formats.base import Unreadable
from compacting_client.lifecycle import Previewed
from compacting_client.policies import Policy
from compacting_client.report import Report
from compacting_client.reusing import reusable, reusing
from compacting_client.session import Session
from compacting_client.settings import policy_of
from compacting_client.shell import ask
from compacting_client.validation import is_async

__all__ = ["Control", "control"]

ClientT = TypeVar("ClientT")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def control(client: ClientT) -> Control[ClientT]:
    """The handle on a wrapped client.  Raises UnsupportedClientError for a client that is not wrapped."""
    session = bound(client)
    if session is None:
        raise UnsupportedClientError(
            f"{described(client)} is not wrapped; control() takes what compacting() returned, or a client derived from it"
        )
    return Control(client, session)


class Control(Generic[ClientT]):
    """Reads the account of a wrapped client's requests, and changes what is in force for some of them."""

    def __init__(self, client: ClientT, session: Session) -> None:
        self._client, self._session = client, session

    @property
    def policy(self) -> Policy | None:
        """The policy in force here and now; None is off."""
        return self._session.policy()

    @property
    def last_report(self) -> Report | None:
        """The last report of this thread or task, or None.  Inside gathered tasks use `report_for` or `capture`."""
        return self._session.last_report()

    def report_for(self, response: Any) -> Report | None:
        """The report of what a call returned: an object, a stream, a stream helper, a raw response; else None."""
        return self._session.reports.of(response)

    @contextmanager
    def capture(self) -> Generator[list[Report]]:
        """Collects the reports made inside, in order, those of tasks that are created inside included."""
        reports: list[Report] = []
        with self._session.scope(reports=reports):
            yield reports

    def using(self, policy: Any) -> AbstractContextManager[None]:
        """Puts another policy in force inside, for frameworks that cannot pass anything.  Raises ConfigError."""
        wanted = policy_of(policy)
        prepare(self._client, self._session.derive(wanted))  # that this client can ask it
        return self._session.scope(policy=(wanted,))

    def with_policy(self, policy: Any) -> ClientT:
        """A client like this one under another policy, sharing its memory.  Raises ConfigError."""
        derived: ClientT = bind(self._client, self._session.derive(policy_of(policy)))
        return derived

    def preview(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Report:
        """What a call of `method` with these arguments would send: nothing is sent or stored, nobody is told.

        The report's ``body`` is the wire JSON, its ``verdicts`` say what happens to each unit.  Raises ConfigError for a method of an async
        client (use `apreview`), of a client that is not this one, or one that makes no request that carries a history.
        """
        if self._session.settings.is_async or is_async(method):
            raise ConfigError("calls of this client are awaited; use apreview()")
        self._check_own(method)
        with self._session.scope(preview=True):
            try:
                result = method(*args, **kwargs)
                if hasattr(result, "__enter__"):  # `.stream()` and `.with_streaming_response` send on entering
                    with result:
                        pass
                elif hasattr(result, "__next__"):  # tool runners send on the first step
                    next(result, None)
            except Previewed as preview:
                return preview.report
        raise _made_no_request(method)

    async def apreview(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Report:
        """`preview` for async clients.  Raises ConfigError."""
        if not self._session.settings.is_async:
            raise ConfigError("calls of this client are not awaited; use preview()")
        self._check_own(method)
        with self._session.scope(preview=True):
            try:
                result = method(*args, **kwargs)
                if hasattr(result, "__await__"):
                    result = await result
                if hasattr(result, "__aenter__"):
                    async with result:
                        pass
                elif hasattr(result, "__anext__"):
                    await anext(result, None)
            except Previewed as preview:
                return preview.report
        raise _made_no_request(method)

    def reusable(self, response: Any) -> dict[str, Reused]:
        """The calls of a response whose result the history of its request has already: call id -> the result, and its age in requests.

        Under a policy with `reuse_results`, for the tools that it names: the last result of the same tool with equal arguments in the current
        run that did not fail.  Calls of the same response do not answer each other.  Each is told once, as `content.reused`; the application
        then answers the call with ``content``, and need not run the tool.

        A call without an id, as some APIs have them, has ``call_<n>`` for one: it is the n-th call of the response, from 0.  Calls that share
        an id are left out.  ``response`` is what the call returned, as for `report_for`; a stream or stream helper once it was read, or, while
        that is still there, the object that ``get_final_completion()`` or ``get_final_message()`` makes of it.  For a chunk, which is a part, it
        is empty.
        """
        return reusable(self._session, formats_of(self._client), response)

    def reusing(self, function: FunctionT, *, name: str | None = None) -> FunctionT:
        """`function`, a tool, sync or async, that returns the known result of a call instead of running it again; else it runs.

        By the last request of this thread or task, as `reusable`; for loops of your own, tool runners, and automatic function calling.  `name`
        is the tool's, where it is not that of the function.  The history has results as text: a known one is given as the function's return
        annotation says; one that does not fit it is not used, and the function runs.  Without an annotation it is given as what the wrapped
        function returned for the same call before, else as the history has it.

        Where the policy in force does not name the tool in `reuse_results`, the function always runs; since `using` or `with_policy` may bring
        one that does, that is a warning in the log (`reusing.never`) and no error.  Raises ConfigError for what is no function, and for a lambda
        without a `name`.
        """
        wrapped: FunctionT = reusing(self._session, function, name)
        return wrapped

    def forget(self, messages: Iterable[Any] | None = None) -> None:
        """Forget what was decided for the conversation that opens like `messages` (the list a call takes), or for all of them.

        Summaries that are made in the background of this process are forgotten too, and those under way never used.  It may be called in any
        thread: a store that blocks would hold up an event loop, so there ``await asyncio.to_thread(handle.forget, messages)``.
        Raises ConfigError where `messages` are no messages of this client's API, or fewer than the first message and its answer, by which a
        conversation is known; also where an async ``memory_key`` would have to be awaited.
        """
        store, memory_key = self._session.settings.memory, self._session.settings.memory_key
        if messages is None:
            self._session.background.forget()  # first: a store that is down raises
            store.forget()
            self._session.recent.forget()
            return
        if memory_key is not None and is_async(memory_key):
            raise ConfigError("forget(messages) cannot await memory_key, which is async; forget() forgets all")
        listed = list(messages)
        keys = {key for wire in formats_of(self._client) if (key := self._key(wire, listed)) is not None}
        if not keys:
            raise ConfigError(
                "messages must be the list that a call of this client takes, with at least the first message and the answer to it"
            )
        for key in keys:
            self._session.background.forget(key)
            store.forget(key)

    def _check_own(self, method: Any) -> None:
        """A method of another client would send what it is given."""
        if not callable(method):
            raise ConfigError(
                f"the first argument is a {type(method).__name__}; pass the method itself, with the arguments of its call behind it, "
                "as in preview(client.chat.completions.create, model=...)"
            )
        client = owner(method)
        session = bound(client) if client is not None else self._session
        if session is None or not session.related(self._session):
            raise ConfigError(f"{method!r} is not a method of this wrapped client, or of one derived from it")

    def _key(self, wire: Any, messages: list[Any]) -> str | None:
        try:
            conversation = wire.read({wire.FIELD: messages})
        except Unreadable:
            return None
        settings = self._session.settings
        known = Recognition(Measure(conversation), "", settings.memory_key, portable=settings.portable)
        if len(known.history) < OPENING:
            return None
        key: str | None = ask(known.opening(), self._session)
        return key


def _made_no_request(method: Any) -> ConfigError:
    return ConfigError(
        f"{method!r} made no request through this client; pass a method of the wrapped client that carries a history"
    )
