"""What a scenario is, and how it is played."""

# No `from __future__ import annotations`: older versions of google-genai look at a tool's own annotations.

import asyncio
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

from cassettes import journey
from compacting_client import ClearToolResults, Ledger, Report, compacting, presets

Server = Literal["aimock", "llmock"]


@dataclass
class Outcome:
    """What came of a scenario.

    ``stops`` is how much the tool tells of each parcel; ``texts`` are the finished answers, ``events`` counts what came of streams, ``calls``
    how often the tool was called, ``refusals`` are the server's words; ``reports`` has one for each request.
    """

    stops: int = journey.STOPS
    texts: list[str] = field(default_factory=list)
    events: int = 0
    calls: int = 0
    refusals: list[str] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    def look_up(self, number: int) -> str:
        """Call the tool."""
        self.calls += 1
        return journey.parcel(number, self.stops)

    @property
    def tool(self) -> Callable[[int], str]:
        """The tool for an SDK's own loop: a function, since google-genai copies what it is given, and a method with its object."""

        def look_up_parcel(number: int) -> str:
            """What the depot knows of a parcel."""
            return self.look_up(number)

        return look_up_parcel


Play = Callable[[Any, Outcome], Any]
Texts = tuple[str, ...] | None


@dataclass(frozen=True)
class Scenario:
    """One application at work: ``play(client, outcome)`` is its code, a coroutine function on async clients.

    ``connect(url)`` opens a client of the SDK at ``url``, the root of the server; ``prefix`` is where this API lies on it.  ``policy`` is what
    the client is wrapped with; ``api`` is the name of the wire API in reports.  ``texts`` are the answers that come back; None where the server makes
    them up.  ``stops`` makes the results of the tool longer.
    """

    name: str
    api: str
    server: Server
    connect: Callable[[str], Any]
    prefix: str
    policy: Any
    play: Play
    texts: Texts
    stops: int = journey.STOPS

    @property
    def is_async(self) -> bool:
        """Whether the client is."""
        return inspect.iscoroutinefunction(self.play)

    def perform(self, url: str, policy: Any = None) -> Outcome:
        """Play it against a server at ``url`` (``http://host:port``), under its own policy or another one."""
        outcome = Outcome(self.stops)
        client = compacting(
            self.connect(url + self.prefix),
            self.policy if policy is None else policy,
            on_report=outcome.reports.append,
            strict=True,
        )
        if self.is_async:
            asyncio.run(self._aplay(client, outcome))
        else:
            self._play(client, outcome)
        return outcome

    def _play(self, client: AbstractContextManager[Any], outcome: Outcome) -> None:
        with client as opened:
            self.play(opened, outcome)

    async def _aplay(self, client: Any, outcome: Outcome) -> None:
        # Google's client has its async half in `aio`, which does not keep it alive.
        async with getattr(client, "aio", client) as opened:
            await self.play(opened, outcome)


def rewriting(make: Callable[..., Scenario], tools: Play, streamed: Play, window: Play) -> tuple[Scenario, ...]:
    """Applications of one SDK under the policies that rewrite tool results: a tool loop, one that streams, and a chat near the server's window."""
    found: dict[str, Any] = {"texts": (journey.FOUND,)}
    long: dict[str, Any] = {**found, "stops": journey.LONG}
    return (
        make("clear", tools, ClearToolResults(1, max_tokens=1300), **long),
        make("clear-stream", streamed, ClearToolResults(2, max_tokens=1300, clear_inputs=True), **long),
        make("ledger-stream", streamed, Ledger(after_tool_results=3, keep_result_chars=60), **found),
        make("managed", window, presets.managed(history_messages=4, history_chars=60), server="llmock", texts=None),
    )


def shortened(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A policy of an application's own: above eight messages, tool results but those in the last two keep their first words only."""
    if len(messages) > 8:
        for message in messages[:-2]:
            if message["role"] == "tool":
                message["content"] = message["content"][:24]
    return messages


def last_six(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Another one: above twelve messages, the last six."""
    return messages if len(messages) <= 12 else messages[-6:]
