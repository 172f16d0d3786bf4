"""Text of a policy's own at the end of the system prompt, wherever the provider keeps that."""

import copy
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from compacting_client import Chain, KeepTurns, Policy, memory
from compacting_client.core.edits import to_system
from compacting_client.core.view import Choice, View
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from tests.driving import found, leave, session

TALK = [{"role": ("user", "assistant")[n % 2], "content": f"message {n} which has some words in it"} for n in range(9)]
CONTENTS = [{"role": ("user", "model")[n % 2], "parts": [{"text": f"message {n} of some words"}]} for n in range(9)]
MARKED = {"type": "text", "text": "You help.", "cache_control": {"type": "ephemeral"}}


class Noted(Policy):
    """Drops the first exchange, and notes it in the system prompt."""

    def triggered(self, view: View) -> bool:
        return not view.edits.inserted and len(view.units()) > 4

    def deciding(self, view: View) -> Generator[Any, Any, Choice]:
        yield from ()
        units = frozenset(view.units()[:2])
        return Choice(units, "policy", inserted=(*view.edits.inserted, to_system(view.conversation, "NOTE")))

    def __repr__(self) -> str:
        return "Noted()"


def chat(*systems: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "messages": [*systems, *TALK]}


def messages(system: Any = None) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": TALK, **({"system": system} if system is not None else {})}


def contents(**system: Any) -> dict[str, Any]:
    return {"model": "m", "contents": CONTENTS, **system}


CASES: list[Any] = [
    (openai_chat, chat(), {"role": "system", "content": "NOTE"}),
    (openai_chat, chat({"role": "system", "content": "You help."}), {"role": "system", "content": "You help.\n\nNOTE"}),
    (
        openai_chat,
        chat({"role": "developer", "content": [MARKED]}),
        {"role": "developer", "content": [MARKED, {"type": "text", "text": "NOTE"}]},
    ),
    (anthropic_messages, messages(), [{"type": "text", "text": "NOTE"}]),
    (anthropic_messages, messages(""), [{"type": "text", "text": "NOTE"}]),
    (
        anthropic_messages,
        messages("You help."),
        [{"type": "text", "text": "You help."}, {"type": "text", "text": "NOTE"}],
    ),
    (anthropic_messages, messages([MARKED]), [MARKED, {"type": "text", "text": "NOTE"}]),
    (gemini_contents, contents(), {"parts": [{"text": "NOTE"}]}),
    (
        gemini_contents,
        contents(system_instruction="You help."),
        {"parts": [{"text": "You help."}, {"text": "NOTE"}]},
    ),
    (
        gemini_contents,
        contents(systemInstruction={"role": "user", "parts": [{"text": "You help."}]}),
        {"role": "user", "parts": [{"text": "You help."}, {"text": "NOTE"}]},
    ),
]


def system_of(wire: Any, sent: dict[str, Any]) -> Any:
    if wire is openai_chat:
        return sent["messages"][0]
    return sent.get("system") or sent.get("systemInstruction") or sent.get("system_instruction")


@pytest.mark.parametrize(("wire", "body", "expected"), CASES)
def test_the_text_stands_at_the_end_of_the_system_prompt(wire: Any, body: Any, expected: Any) -> None:
    """The caller's own text and blocks stay before it, the caller's body is unchanged, and the provider accepts it."""
    before = copy.deepcopy(body)
    sent, report = leave(session(Noted()), wire, body)
    assert system_of(wire, sent) == expected
    assert body == before
    assert not found(wire.API, sent, body)
    (extended,) = report.replaced
    assert (extended.kind, extended.roles) == ("extended", ("system",))
    assert extended.tokens_after > 0
    assert str(sent).count("NOTE") == 1


@pytest.mark.parametrize(("wire", "body", "expected"), CASES)
def test_it_is_remembered_and_counted(wire: Any, body: Any, expected: Any) -> None:
    """The next request has the same system prompt without a new decision; the report counts what was added."""
    state = session(Noted())
    leave(state, wire, body)
    role = "contents" if wire is gemini_contents else "messages"
    longer = {**body, role: [*body[role], *copy.deepcopy(body[role][-2:][::-1])]}
    sent, report = leave(state, wire, longer)
    assert system_of(wire, sent) == expected
    assert report.trigger is None
    assert [each.kind for each in report.reused] == ["cut"]
    freed = sum(each.tokens for each in report.dropped)
    freed += sum(each.tokens - each.tokens_after for each in report.replaced)
    assert report.tokens_before - report.tokens_after == freed


def test_a_later_policy_sees_it_as_a_system_message_and_cannot_drop_it() -> None:
    """In a chain a function is shown the text as the system message that it is; whatever it returns, it stays."""
    shown: list[Any] = []

    def last(asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        shown.extend(asked)
        return asked[-1:]

    sent, _ = leave(session(Chain(Noted(), last)), anthropic_messages, messages("You help."))
    assert {"role": "system", "content": "NOTE"} in shown
    assert str(sent).count("NOTE") == 1
    assert len(sent["messages"]) == 1


def test_it_moves_on_when_what_it_was_counted_with_goes() -> None:
    """A later cut takes the item away that the text was decided before; the text stays where it is."""
    state = session(Chain(Noted(), KeepTurns(2)), memory=memory.InProcess())
    sent: Any = None
    for length in (5, 7, 9):
        sent, _ = leave(state, openai_chat, {"model": "m", "messages": TALK[:length]})
    assert sent["messages"][0] == {"role": "system", "content": "NOTE"}
    assert sent["messages"][1:] == TALK[-3:]


def test_another_worker_reads_it_from_a_store(tmp_path: Path) -> None:
    """An entry with such a text is written to a file, and serves a worker that decides nothing itself."""
    leave(session(Noted(), memory=memory.File(tmp_path / "memory.db")), openai_chat, chat())
    sent, report = leave(session(Noted(), memory=memory.File(tmp_path / "memory.db")), openai_chat, chat())
    assert sent["messages"][0] == {"role": "system", "content": "NOTE"}
    assert [each.kind for each in report.reused] == ["cut"]
