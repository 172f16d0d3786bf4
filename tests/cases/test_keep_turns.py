"""The cases that ask for the last user turns, word for word, and their neighbours."""

from collections.abc import Callable
from typing import Any

import pytest

from compacting_client import KeepTurns
from tests.cases.bench import APIS, CHAT, MODES, Body, Line, Trip, case, covers
from tests.cases.neighbours import PLACES, body_of, growing, twice
from tests.cases.sound import Answers, assert_sound, blocks_of, calls_of, question_of
from tests.cases.test_every_body import answer_of

MakeLine = Callable[..., Line]
IDS = ("060", "066", "136", "159")
each_api = pytest.mark.parametrize("api", APIS)
each_case = pytest.mark.parametrize("id_", IDS)


def policy_of(id_: str) -> KeepTurns:
    """The policy of a case, in this package's words."""
    own = case(id_)["policy"]
    return KeepTurns(own["max_messages"], remove_tool_msgs=own["remove_tool_msgs"])


@covers("136")
@pytest.mark.parametrize("mode", MODES)
def test_the_last_two_turns_word_for_word(mode: str, line: MakeLine) -> None:
    """Exactly the indexes of the case: no exchange stays without its question (microsoft/agent-framework#4991)."""
    trip = line(CHAT, policy_of("136"), mode).send(body_of("136", CHAT))
    assert_sound(trip)
    assert trip.kept == case("136")["kept_indexes"]


@covers("066")
@pytest.mark.parametrize("mode", MODES)
def test_the_developer_message_stays_first(mode: str, line: MakeLine) -> None:
    """It is a system message: sent first and unchanged, then the question only (microsoft/semantic-kernel#12612)."""
    trip = line(CHAT, policy_of("066"), mode).send(body_of("066", CHAT))
    assert_sound(trip)
    assert trip.kept == [0, 5]


@covers("060", "159")
@each_api
@pytest.mark.parametrize("id_", ["060", "159"])
def test_a_removed_sequence_leaves_no_scrap(id_: str, api: str, line: MakeLine) -> None:
    """Calls, results and the thinking beside them go; the answer stays; nothing is left empty or with thinking alone."""
    trip = line(api, policy_of(id_)).send(body_of(id_, api))
    assert_sound(trip)
    assert [message["role"] for message in trip.messages] == ["user", "assistant", "user"]
    assert_no_scraps(trip)


@covers(*IDS)
@each_api
@each_case
def test_at_every_place(id_: str, api: str, line: MakeLine) -> None:
    """The same with more before and after it, on both APIs, at one to four turns."""
    for place in PLACES:
        for turns in (1, 2, 3, 4):
            for remove in (False, True):
                trip = line(api, KeepTurns(turns, remove_tool_msgs=remove)).send(place(body_of(id_, api)))
                assert_sound(trip)
                assert_no_scraps(trip)
                if trip.report.trigger == "turns":
                    assert sum(asks(trip.body, index) for index in trip.kept) == turns


@covers(*IDS)
@each_api
@each_case
def test_as_it_grows(id_: str, api: str, line: MakeLine) -> None:
    """An application that resends its history gets a sound request at each step."""
    for remove in (False, True):
        wrapped, history = line(api, KeepTurns(2, remove_tool_msgs=remove, slack=1)), Answers()
        for step in growing(twice(body_of(id_, api))):
            trip = wrapped.send(step)
            assert_sound(trip, history=history)
            assert_no_scraps(trip)
            history.append((trip.left, answer_of(trip.response)))


def asks(body: Body, index: int) -> bool:
    """Whether a message is a question."""
    return question_of({"messages": body["messages"][index : index + 1]}) is not None


def assert_no_scraps(trip: Trip) -> None:
    """No message without content, with blank text, or with thinking alone."""
    for message in trip.messages:
        blocks: list[Any] = blocks_of(message)
        assert blocks or calls_of(message)
        assert all(str(block["text"]).strip() for block in blocks if block["type"] == "text")
        assert calls_of(message) or any("thinking" not in block["type"] for block in blocks)
