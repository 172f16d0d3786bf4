"""Which client a model is asked with for a summary: the unwrapped one, or another provider's, built from the environment.

A client with a host of its own is never left: whoever set it decided where texts may go.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from compacting_client.bindings.questions import CHAT, GEMINI, MESSAGES, RESPONSES, Question
from compacting_client.core.summaries import Answered, ByModel, SummaryRequest, in_parts
from compacting_client.core.tokens import estimate
from compacting_client.errors import ConfigError
from compacting_client.policies import Policy
from compacting_client.recovery import said
from compacting_client.session import Asker, Session
from compacting_client.windows import Windows, counted

__all__ = ["Home", "aend", "asker", "end", "prepare"]


class _Provider(NamedTuple):
    """An SDK, and how its client is built from the environment.  ``asynchronous``: its class, or the attribute of the client that it is."""

    module: str
    client: str
    asynchronous: str
    extra: str
    key: str
    host: str
    names: str


_PROVIDERS = {
    "openai": _Provider(
        "openai", "OpenAI", "AsyncOpenAI", "openai", "OPENAI_API_KEY", "api.openai.com", r"(ft:)?(gpt-|chatgpt-|o\d)"
    ),
    "anthropic": _Provider(
        "anthropic", "Anthropic", "AsyncAnthropic", "anthropic", "ANTHROPIC_API_KEY", "api.anthropic.com", "claude-"
    ),
    "google": _Provider(
        "google.genai",
        "Client",
        "aio",
        "google",
        "GEMINI_API_KEY",
        "generativelanguage.googleapis.com",
        "(models/)?gemini-",
    ),
}
_WRITTEN = {"gemini": "google", **{name: name for name in _PROVIDERS}}
_WINDOW = 0.8  # of a summariser's window: what is asked is counted by an estimate


class Home(NamedTuple):
    """Whose SDK a client is of, and the host that it speaks to."""

    provider: str
    host: str | None

    @property
    def is_own(self) -> bool:
        """Whether that is another host than the provider's."""
        return self.host != _PROVIDERS[self.provider].host


def _place(home: Home, name: str) -> tuple[str, str]:
    """The provider whose client asks a model of this name, and the name that is sent."""
    if home.is_own:
        return home.provider, name
    written, _, rest = name.partition(":")
    if rest and written in _WRITTEN:
        return _WRITTEN[written], rest
    guessed = (each for each, provider in _PROVIDERS.items() if re.match(provider.names, name))
    return next(guessed, home.provider), name


def prepare(home: Home, session: Session, policy: Policy | None) -> None:
    """Build the clients that the summaries of a policy need.  Raises ConfigError where an SDK or its key is missing."""
    for name in policy.summary_models if policy is not None else ():
        provider, _ = _place(home, name)
        if provider != home.provider:
            _helper(session, provider, name)


def _helper(session: Session, provider: str, name: str) -> Any:
    """The client of another provider; all that are derived from one wrapped client share it."""
    which = provider, session.settings.is_async
    if which not in session.helpers:
        session.helpers[which] = _built(_PROVIDERS[provider], session.settings.is_async, name)
    return session.helpers[which]


def _built(provider: _Provider, is_async: bool, name: str) -> Any:
    """A client from the environment.  Raises ConfigError."""
    try:
        sdk = importlib.import_module(provider.module)
    except ImportError as error:
        raise ConfigError(
            f"model={name!r} is asked with the SDK {provider.module}, which is not installed: "
            f"pip install 'compacting-client[{provider.extra}]', or name a model of this client"
        ) from error
    is_class = hasattr(sdk, provider.asynchronous)
    try:
        made = getattr(sdk, provider.asynchronous if is_async and is_class else provider.client)()
    except Exception as error:
        raise _no_key(provider, name, f" ({type(error).__name__})") from error
    if is_class and all(getattr(made, each, None) is None for each in ("api_key", "auth_token", "credentials")):
        raise _no_key(provider, name, "")
    return getattr(made, provider.asynchronous) if is_async and not is_class else made


def _no_key(provider: _Provider, name: str, why: str) -> ConfigError:
    return ConfigError(
        f"model={name!r} is asked with a {provider.client} client of {provider.module}, which cannot be built from the environment{why}: "
        f"set {provider.key}, name a model of this client, or pass summarizer="
    )


def asker(client: Callable[[], Any], home: Home, own: Mapping[str, Any] | None = None) -> Asker:
    """Asks the models that a policy names; ``client`` gives the unwrapped client, ``own`` is what the request has of its own: arguments."""

    def ask(by: ByModel, session: Session, answers: list[Answered]) -> Callable[[SummaryRequest], Any]:
        async def awaited(request: SummaryRequest) -> Answered:
            steps = _steps(_way(client, home, own, by, session, answers), request)
            step = next(steps)
            while not isinstance(step, Answered):
                step = steps.send(await _aoutcome(step))
            return step

        def plain(request: SummaryRequest) -> Answered:
            steps = _steps(_way(client, home, own, by, session, answers), request)
            step = next(steps)
            while not isinstance(step, Answered):
                step = steps.send(_outcome(step))
            return step

        return awaited if session.settings.is_async else plain

    return ask


def _outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the error that it raises: the SDK's own."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001
        return error


async def _aoutcome(call: Callable[[], Any]) -> Any:
    try:
        return await call()
    except Exception as error:  # noqa: BLE001
        return error


def _steps(way: _Way, request: SummaryRequest) -> Generator[Callable[[], Any] | Answered, Any, None]:
    """The calls to make, one after the other, each sent its response or its error; then the answer."""
    answer = yield from way.answered(request)
    yield (yield from way.answered(request)) if way.learned else answer


def _way(  # noqa: PLR0917 - made in one place
    client: Callable[[], Any],
    home: Home,
    own: Mapping[str, Any] | None,
    by: ByModel,
    session: Session,
    answers: list[Answered],
) -> _Way:
    provider, model = (home.provider, by.used) if by.name is None else _place(home, by.name)
    at_home = provider != home.provider or not home.is_own
    asked = client() if provider == home.provider else _helper(session, provider, str(by.name))
    # another provider is told none of them
    mine: Mapping[str, Any] = own if own is not None and provider == home.provider else {}
    return _Way(_question(provider, by), asked, model, by.timeout, at_home, session.windows, answers, mine)


class _Way:
    """How one model is asked, for so many seconds from now on.  ``learned``: it has just told that less fits in."""

    def __init__(  # noqa: PLR0917 - made in one place
        self,
        question: Question,
        client: Any,
        model: str,
        seconds: float,
        at_home: bool,
        windows: Windows,
        answers: list[Answered],
        own: Mapping[str, Any],
    ) -> None:
        self._question, self._client, self._model = question, client, model
        self._until, self._at_home, self._windows = time.monotonic() + seconds, at_home, windows
        self._answers, self._own = answers, own
        self.learned = False

    def answered(self, request: SummaryRequest) -> Generator[Callable[[], Any], Any, Answered]:
        """Its answer, in as many parts as its window wants."""
        question, model = self._question, self._model
        room, most = self._sizes(request)
        parts = in_parts(request, most)
        part = next(parts)
        while True:
            left = self._until - time.monotonic()
            if left <= 0:  # a thread is not stopped: it has to stop itself
                return Answered(None, model, error=TimeoutError.__name__)
            words = question.arguments(model, part.prompt, room, left)
            outcome = yield partial(question.method(self._client), **question.with_own(words, self._own))
            if isinstance(outcome, Exception):
                self._learn(outcome, part, room)
                answer = Answered(None, model, error=type(outcome).__name__)
            else:
                answer = question.answer(outcome, model)
            self._answers.append(answer)
            try:
                part = parts.send(answer)
            except StopIteration as done:
                return cast("Answered", done.value)

    def _sizes(self, request: SummaryRequest) -> tuple[int, int | None]:
        """The limit for the answer, in tokens, 0 where none is sent; and what a question may have beside it, None where that is unknown."""
        api, model = self._question.wire.API, self._model
        room = self._question.room(model, request.max_tokens, self._at_home)
        window = self._windows.of(api, model)
        if window is not None and room > window.size / 2:  # wide only for those that think
            room = max(request.max_tokens, int(window.size / 2))
        beside = self._windows.of(api, model, room)
        return room, beside.budget(_WINDOW) if beside is not None else None

    def _learn(self, error: Exception, part: SummaryRequest, room: int) -> None:
        found = self._question.wire.too_long(*said(error))
        if found is not None:
            self._windows.learn(self._question.wire.API, self._model, counted(found, estimate(part.prompt), room))
        self.learned = found is not None and not self.learned


def _question(provider: str, by: ByModel) -> Question:
    if provider == "openai":
        style = by.style or ("responses" if by.api.endswith("responses") else "chat")
        return RESPONSES if style == "responses" else CHAT
    return MESSAGES if provider == "anthropic" else GEMINI


def end(session: Session) -> None:
    """The client is closed: what it had for summaries goes too."""
    session.background.end()
    for which in [each for each in session.helpers if not each[1]]:
        session.helpers.pop(which).close()


async def aend(session: Session) -> None:
    """The same on an async client."""
    await session.background.aend()
    for which in [each for each in session.helpers if each[1]]:
        helper = session.helpers.pop(which)
        await (helper.aclose() if hasattr(helper, "aclose") else helper.close())
