"""Turns as a view of their units, and what they weigh."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compacting_client.core.measure import Measure, measure
from compacting_client.core.plan import stretches
from compacting_client.core.turns import Turns
from compacting_client.core.view import View
from compacting_client.formats import openai_chat
from compacting_client.shell import ask
from tests.driving import session


def listed(turns: Turns) -> list[list[int]]:
    """The units of each."""
    return [list(turn) for turn in turns]


def test_what_stands_before_the_first_start_is_a_turn_too() -> None:
    """An answer before any question is not lost."""
    assert listed(Turns.beginning([4, 5, 7, 9], [1, 3])) == [[4], [5, 7], [9]]
    assert listed(Turns.beginning([4, 5], [0])) == [[4, 5]]
    assert listed(Turns.beginning([], [])) == []


@given(st.lists(st.booleans(), max_size=12), st.slices(12), st.sets(st.integers(0, 11)), st.integers(0, 11))
def test_they_are_a_list_of_lists(begins: list[bool], part: slice, gone: set[int], place: int) -> None:
    """Length, items, parts, what is left without some units, and what stands before one are those of plain lists."""
    units = [3 * number for number in range(len(begins))]
    turns = Turns.beginning(units, [number for number, starts in enumerate(begins) if starts])
    plain: list[list[int]] = []
    for unit, starts in zip(units, begins, strict=True):
        if starts or not plain:
            plain.append([])
        plain[-1].append(unit)
    assert listed(turns) == plain
    stretch = slice(part.start, part.stop)
    assert listed(turns[stretch]) == plain[stretch]
    left = [[unit for unit in turn if unit not in gone] for turn in plain]
    assert listed(turns.without(gone)) == [turn for turn in left if turn]
    if place < len(plain):
        assert list(turns[place]) == plain[place]
        assert list(turns[-1]) == plain[-1]
        assert list(turns.before(place)) == [unit for turn in plain[:place] for unit in turn]


def test_there_is_no_turn_behind_the_last() -> None:
    """Iteration ends, and a place too far is an error."""
    with pytest.raises(IndexError):
        Turns.each([1, 2])[2]


@given(st.data())
def test_turns_weigh_what_their_units_weigh(data: st.DataObject) -> None:
    """Also where a result comes after the next question, belongs to an earlier turn, or a part of the history went before."""
    kinds = data.draw(
        st.lists(st.sampled_from(["user", "assistant", "call", "result", "system"]), min_size=1, max_size=14)
    )
    asked: list[str] = []
    messages: list[dict[str, Any]] = []
    for number, kind in enumerate(kinds):
        text = "x" * data.draw(st.integers(0, 30))
        if kind == "call":
            asked.append(f"c{number}")
            call = {"id": asked[-1], "type": "function", "function": {"name": "f", "arguments": "{}"}}
            messages.append({"role": "assistant", "content": text, "tool_calls": [call]})
        elif kind == "result":
            answered = data.draw(st.sampled_from(asked)) if asked else "nobody"
            messages.append({"role": "tool", "tool_call_id": answered, "content": text})
        else:
            messages.append({"role": kind, "content": text})
    conversation = openai_chat.read({"messages": messages})
    whole = View(Measure(conversation))
    gone = conversation.exchanges.items(frozenset(data.draw(st.sets(st.sampled_from(whole.units() or [0])))))
    view = View(Measure(conversation), gone=gone)
    if turns := view.turns():
        assert view.turn_weights(turns) == [view.weight(set(turn)) for turn in turns]
        first = data.draw(st.integers(0, len(turns) - 1))
        assert view.turn_weights(turns[first:]) == [view.weight(set(turn)) for turn in turns[first:]]


@given(st.sets(st.integers(0, 60)))
def test_stretches_are_the_neighbours(places: set[int]) -> None:
    """Each place is in exactly one stretch, and between two stretches something is missing."""
    found = stretches(sorted(places))
    assert [place for start, stop in found for place in range(start, stop)] == sorted(places)
    assert all(one[1] < other[0] for one, other in pairwise(found))


def asking(call: str) -> dict[str, Any]:
    """An assistant's message with one call."""
    function = {"name": "f", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call, "type": "function", "function": function}],
    }


def test_a_result_behind_the_next_question_weighs_in_the_turn_of_its_call() -> None:
    """The stretch of a turn is not all of it, then."""
    late = {"role": "tool", "tool_call_id": "c", "content": "x" * 400}
    messages = [{"role": "user", "content": "a"}, asking("c"), {"role": "user", "content": "b"}, late]
    view = View(Measure(openai_chat.read({"messages": messages})))
    first, second = view.turn_weights(view.turns())
    assert first > 100 > second
    assert [first, second] == [view.weight(set(turn)) for turn in view.turns()]


def test_fractions_are_summed_by_units() -> None:
    """A caller's counter may give any number, and what is rounded in a sum depends on its order: it is that of units, then of turns."""
    messages: list[dict[str, Any]] = []
    for turn in range(30):
        messages += [{"role": "user", "content": "x" * (turn % 7)}, asking(f"c{turn}")]
        messages += [{"role": "tool", "tool_call_id": f"c{turn}", "content": "x" * (turn % 11)}]
    counted = measure(
        openai_chat.read({"messages": messages}), lambda message: len(message["content"] or "") * 0.1 + 0.3
    )
    view = View(ask(counted, session(None)))
    units, turns = view.weights(), view.turns()
    assert view.turn_weights(turns) == [sum([units[unit] for unit in turn]) for turn in turns]
    assert [sum(view.sizes[3 * turn : 3 * turn + 3]) for turn in range(30)] != view.turn_weights(turns)
