"""What is known of the histories seen last changes no answer: every request ends as it would without it."""

import copy
import gc
import json
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compacting_client import DropOldest, KeepTurns, memory
from compacting_client.core.recent import Seen
from compacting_client.core.tokens import dump
from compacting_client.core.trace import Trace
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.recent import Recent
from tests.driving import leave, session
from tests.strategies import chats, texts, to_anthropic, to_chat, to_gemini

SHAPES: dict[str, Any] = {
    "chat": (openai_chat, to_chat),
    "anthropic": (anthropic_messages, to_anthropic),
    "gemini": (gemini_contents, to_gemini),
}


class Shared(memory.InProcess):
    """A store that other processes read: digests are made of the text, not of this process's hashes."""

    shared = True


class Forgetful(Recent):
    """Knows no history."""

    def alike(self, opening: tuple[Any, ...]) -> tuple[()]:
        """None."""
        return ()


def told(report: Any) -> dict[str, Any]:
    """A report without what differs between any two requests."""
    facts = report.as_dict()
    for each in (facts, *facts["dropped"], *facts["replaced"], *facts["reused"]):
        each.pop("request_id", None)
        each.pop("duration_ms", None)
        each.pop("digest", None)
    return facts


edits = st.lists(st.tuples(st.sampled_from(["grow", "edit", "drop", "fork"]), st.integers(0, 40), texts), max_size=8)


def changed(history: list[dict[str, Any]], kind: str, place: int, text: str) -> list[dict[str, Any]]:
    """The next request of an application that grows, edits, shortens or forks its history, in objects of its own."""
    history = copy.deepcopy(history)
    plain = [index for index, message in enumerate(history) if message["role"] in ("user", "assistant")]
    at = plain[place % len(plain)]
    if kind == "edit" and isinstance(history[at]["content"], str):
        history[at]["content"] += text
    elif kind == "fork":
        history = [*history[:at], {"role": "user", "content": text}]
    elif kind == "drop" and history[-1]["role"] == "assistant":
        history.pop()
    return [*history, {"role": "assistant", "content": text}, {"role": "user", "content": f"and {text}?"}]


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=120, deadline=None)
@given(start=chats(), steps=edits, budget=st.integers(20, 400), turns=st.booleans())
def test_it_changes_no_answer(
    shape: str, start: list, steps: list[tuple[str, int, str]], budget: int, turns: bool
) -> None:
    """Bodies and accounts are the same with it, without it, and with digests that other processes can read."""
    wire, to_body = SHAPES[shape]
    policy = KeepTurns(2) if turns else DropOldest(budget)
    states = [session(policy), session(policy), session(policy, memory=Shared())]
    states[1].recent = Forgetful()
    history = start
    first: tuple[str, int, str] = ("grow", 0, "x")
    for kind, place, text in [first, *steps]:
        history = changed(history, kind, place, text)
        results = [leave(state, wire, to_body(history)) for state in states]
        assert results[0][0] == results[1][0] == results[2][0]
        assert told(results[0][1]) == told(results[1][1]) == told(results[2][1])


def picture(data: str) -> dict[str, Any]:
    """A message with a picture."""
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    return {"role": "user", "content": [{"type": "text", "text": "look"}, part]}


def test_another_picture_is_another_history() -> None:
    """The data of pictures is in no imprint, and yet a cut made for one picture is not used for another."""
    state = session(DropOldest(1000, keep_tail=1))
    talk = [{"role": role, "content": "word " * 40} for role in ("assistant", "user") * 20]
    for data, reused in (("AAAA", 0), ("AAAA", 1), ("BBBB", 0)):
        _, report = leave(state, openai_chat, {"messages": [picture(data), *talk]})
        assert len(report.reused) == reused


SPELLINGS: dict[str, Callable[[dict[str, Any]], None]] = {
    "white space in arguments": lambda m: m["tool_calls"][0]["function"].update(arguments='{ "b":2,   "a":1 }'),
    "other call ids": lambda m: m["tool_calls"][0].update(id="other"),
    "an empty field": lambda m: m.update(refusal=None, annotations=[]),
}


@pytest.mark.parametrize("store", [memory.InProcess, Shared])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_another_spelling_is_the_same_history(spelling: str, store: Any) -> None:
    """A history that was stored and loaded again is recognised by what it says, in this process's hashes too."""
    state = session(DropOldest(1000), memory=store())

    def history() -> list[dict[str, Any]]:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1, "b": 2}'}}
        loop: list[dict[str, Any]] = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "r"},
        ]
        talk = [{"role": role, "content": "word " * 40} for role in ("assistant", "user") * 20]
        return [{"role": "user", "content": "q"}, *loop, *talk]

    first, second = history(), history()
    SPELLINGS[spelling](second[1])
    for messages in (first, second):
        messages[2]["tool_call_id"] = messages[1]["tool_calls"][0]["id"]
        _, report = leave(state, openai_chat, {"messages": messages})
    assert len(report.reused) == 1


@pytest.mark.parametrize("store", [memory.InProcess, Shared])
def test_results_that_change_places_are_another_history(store: Any) -> None:
    """Ids are no meaning, but which call a result answers is."""
    state = session(DropOldest(1000), memory=store())
    calls = [{"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}} for each in "ab"]
    talk = [{"role": role, "content": "word " * 40} for role in ("assistant", "user") * 20]
    for first, second, reused in (("a", "b", 0), ("a", "b", 1), ("b", "a", 0)):
        results = [
            {"role": "tool", "tool_call_id": each, "content": said}
            for each, said in ((first, "one"), (second, "other"))
        ]
        loop = [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": calls}, *results]
        _, report = leave(state, openai_chat, {"messages": [*loop, *talk]})
        assert len(report.reused) == reused


def test_it_is_bounded() -> None:
    """Many histories of one opening, and many openings, let the oldest go; the last one stays."""
    recent = Recent()
    for opening in range(300):
        for _ in range(20):
            recent.keep((opening,), Seen({}, [1.0] * 1000, {}, 1000), None)
    held = [len(recent.alike((opening,))) for opening in range(300)]
    assert held[-1] == 8
    assert sum(held) <= 200


def test_one_that_grew_takes_the_place_of_the_old_one() -> None:
    """A conversation is held once, however long it lasts."""
    recent = Recent()
    before = None
    for length in range(5):
        seen = Seen({length: length}, [1.0] * length, {}, length)
        recent.keep(("a",), seen, before)
        before = seen
    assert len(recent.alike(("a",))) == 1


def sound(data: str | None) -> dict[str, Any]:
    """An answer in sound, as the SDK returned it, or after the application took the data away."""
    return {"role": "assistant", "content": None, "audio": {"id": "a", "data": data} if data else None}


def test_data_that_is_taken_away_is_another_history() -> None:
    """An application that drops the sound of an old answer is measured anew; a cut made with it is not used without."""
    talk = [{"role": role, "content": "word " * 40} for role in ("user", "assistant", "user")]
    state = session(DropOldest(400, keep_tail=1))
    for data in ("A" * 40_000, None):
        body = {"messages": [{"role": "user", "content": "q"}, sound(data), *talk]}
        _, report = leave(state, openai_chat, body)
        _, alone = leave(session(DropOldest(400, keep_tail=1)), openai_chat, body)
        assert told(report) == told(alone)


def test_a_text_that_reads_like_another_message_is_another_history() -> None:
    """Python gives a text and the same bytes one hash; the memo does not take one for the other."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    talk = [{"role": role, "content": "word " * 40} for role in ("user", "assistant") * 20]
    state = session(DropOldest(1000))
    for middle in (asked, {"role": "assistant", "content": dump(asked).decode()}):
        body = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, middle, *talk]}
        _, report = leave(state, openai_chat, body)
        assert told(report) == told(leave(session(DropOldest(1000)), openai_chat, body)[1])


def test_a_list_and_a_tuple_say_the_same() -> None:
    """The content of a message may be either, with the memo and without."""
    talk = [{"role": role, "content": "word " * 40} for role in ("assistant", "user") * 20]
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    states = session(DropOldest(1000)), session(DropOldest(1000))
    states[1].recent = Forgetful()
    for state in states:
        for content, reused in ((parts, 0), (tuple(parts), 1)):
            _, report = leave(state, openai_chat, {"messages": [{"role": "user", "content": content}, *talk]})
            assert len(report.reused) == reused


@given(chats(), st.integers(0, 30), st.sampled_from([1e-05, 2**70, "\ud800", 1.0]))
def test_two_stretches_say_what_both_together_say(history: list, cut: int, odd: Any) -> None:
    """Digests do not depend on where a history was divided, whatever stands in it."""
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": json.dumps({"rate": odd, "b": 1e-07})},
    }
    trace = Trace(openai_chat.read({"messages": [*history, {"role": "assistant", "tool_calls": [call], "x": odd}]}))
    size = len(trace.history)
    place = cut % (size + 1)
    for said in (trace.said, trace.hashed):
        assert said(0, place) + said(place, size) == said(0, size)


def test_one_shot_requests_are_not_held() -> None:
    """A history that cannot be recognised by more than its opening is not kept."""
    state = session(DropOldest(20))
    for number in range(50):
        leave(state, openai_chat, {"messages": [{"role": "user", "content": f"{number} " + "word " * 40}]})
    assert not state.recent._seen


def test_kept_reports_of_cuts_are_counted_in_the_end() -> None:
    """What a cut dropped is counted when somebody asks; until then its report holds more than its account, so older ones are not left so."""
    state = session(DropOldest(200))
    kept = []
    for number in range(40):
        talk = [{"role": role, "content": f"{number} " + "word " * 40} for role in ("user", "assistant") * 6]
        _, report = leave(state, openai_chat, {"messages": [*talk, {"role": "user", "content": "and now?"}]})
        assert report.changed
        kept.append(report)
    assert sum("_figures" not in vars(report) for report in kept) < 20
    assert all(report.tokens_before > 600 > report.tokens_after for report in kept)
    assert all(len(report.dropped) > 5 for report in kept)


def test_unread_reports_let_their_histories_go() -> None:
    """However many reports an application keeps, a few of them hold a history; all have their figures."""
    state, kept, alive = session(DropOldest(10**9)), list[Any](), list[Any]()

    class Text(str):
        """Text whose life can be watched."""

        __slots__ = ("__weakref__",)

    for number in range(60):
        text = Text(f"{number} " + "word " * 40)
        alive.append(weakref.ref(text))
        _, report = leave(state, openai_chat, {"messages": [{"role": "user", "content": text}]})
        kept.append(report)
        del text
    gc.collect()
    assert sum(ref() is not None for ref in alive) < 20
    assert all(report.tokens_before > 40 for report in kept)
