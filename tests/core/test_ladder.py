"""What happens when a plan would be refused (DESIGN 3.3): the ladder, rung by rung."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compacting_client import Policy
from compacting_client.core.view import Choice, View
from compacting_client.formats import openai_chat
from compacting_client.formats.base import Violation
from tests.driving import leave, session
from tests.policies.test_drop_oldest import loop, names, talk


@dataclass(frozen=True)
class Oldest(Policy):
    """Drops the `count` oldest units, without any thought, once more than `above` items are there."""

    count: int
    above: int = 0

    def triggered(self, view: View) -> bool:
        """Too many items."""
        return len(view.conversation) - len(view.gone) > self.above

    def choose(self, view: View) -> Choice | None:
        """The oldest."""
        return Choice(frozenset(view.units()[: self.count]), "policy")


class Picky:
    """Chat completions at a server with one rule more."""

    def __init__(self, refuses: Callable[[list[str]], bool]) -> None:
        self.refuses = refuses

    def __getattr__(self, name: str) -> Any:
        return getattr(openai_chat, name)

    def check(self, body: Any) -> list[Violation]:
        """Refuses by the first words of the messages."""
        broken = [Violation("picky", "messages", "no")] if self.refuses(names(body)) else []
        return [*openai_chat.check(body), *broken]


def rejections(events: list[Any]) -> list[tuple[tuple[str, ...], str]]:
    """What the events say of plans that were not used."""
    return [(event.rules, event.instead) for event in events if event.name == "compaction.rejected"]


def test_a_refused_cut_becomes_whole_turns() -> None:
    """Where the policy's own cut would be refused, the oldest whole turns go in its place, and an event says so."""
    events: list[Any] = []
    wire: Any = Picky(lambda words: words[1].startswith("a"))
    body = talk(4)
    sent, report = leave(session(Oldest(1), on_event=events.append), wire, body)
    assert names(sent) == ["be", *names(body)[3:]]
    assert rejections(events) == [(("picky",), "whole turns dropped")]
    assert report.changed


def test_the_last_rung_is_the_request_as_it_came() -> None:
    """If nothing passes the check, the caller's own body leaves, and each rung has its event."""
    events: list[Any] = []
    body = talk(4)
    wire: Any = Picky(lambda words: words != names(body))
    sent, report = leave(session(Oldest(1), on_event=events.append), wire, body)
    assert sent is body
    assert report.reason == "refused by its check"
    assert [instead for _, instead in rejections(events)] == ["whole turns dropped", "the request as it came"]


def test_a_remembered_cut_survives_a_refused_new_one() -> None:
    """When only the new cut would be refused, what was sent before goes on being sent: prompt caches and bound thinking need it."""
    events: list[Any] = []
    wire: Any = Picky(lambda words: words[1] == "q2")
    state = session(Oldest(2, above=8), on_event=events.append)
    body = talk(4)
    first, _ = leave(state, wire, body)
    assert names(first)[:2] == ["be", "q1"]
    body["messages"] += talk(2)["messages"][1:]
    sent, report = leave(state, wire, body)
    assert sent["messages"][: len(first["messages"])] == first["messages"]
    assert report.reused
    assert rejections(events)[-1] == (("picky",), "the remembered cut")


def test_what_was_refused_before_does_not_count() -> None:
    """A fault of the caller's own stays the caller's: it does not keep a cut from being made."""
    body = talk(4)
    wire: Any = Picky(lambda words: True)
    sent, _ = leave(session(Oldest(2)), wire, body)
    assert len(sent["messages"]) == len(body["messages"]) - 2


def test_nothing_is_left_half() -> None:
    """A policy that names an exchange by its first item drops the whole of it; the question it names too is pinned."""
    body = loop(3)
    sent, _ = leave(session(Oldest(2)), openai_chat, body)
    assert sent["messages"] == [*body["messages"][:2], *body["messages"][4:]]


def test_a_report_holds_nothing_of_what_left_as_it_came() -> None:
    """An application may keep every response: the report of an unchanged request holds no message, that of a changed one the dropped ones."""
    body = talk(6)
    state = session(Oldest(2, above=3))
    _, report = leave(state, openai_chat, body)
    held = gc.get_referents(*report.details.__closure__ or ())
    outcome = next(each for each in held if hasattr(each, "conversation"))
    assert [index for index, item in enumerate(outcome.conversation.items) if item is not None] == [1, 2]
    assert [unit.messages[0]["content"] for unit in report.dropped] == [m["content"] for m in body["messages"][1:3]]
    _, untouched = leave(session(Oldest(2, above=99)), openai_chat, body)
    assert not getattr(untouched.details, "__closure__", None)
