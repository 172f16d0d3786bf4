"""Every body of the cases, at every place and size, on both APIs: what must hold whatever the policy decided."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from compacting_client import DropOldest
from compacting_client.testing import Provider
from tests.cases.bench import APIS, CHAT, TARGETS, Body, Line, Trip, case, covers, method, plain
from tests.cases.neighbours import PLACES, body_of, growing, has_neighbour, twice
from tests.cases.sound import (
    Answers,
    assert_fits_if_it_can,
    assert_no_more_than_asked,
    assert_sound,
    has_media,
    new_violations,
)

DROPPING = (
    *("001", "005", "010", "014", "029", "042", "049", "053", "054"),
    *("057", "077", "099", "107", "116", "125", "144", "146", "161"),
)
OTHERS = ("002", "011", "027", "035", "060", "062", "066", "129", "136", "148", "159")
BODIES = DROPPING + OTHERS

MakeLine = Callable[..., Line]
each_body = pytest.mark.parametrize("id_", BODIES)
each_api = pytest.mark.parametrize("api", APIS)


def given(id_: str, api: str) -> Body:
    """The case's body in an API; skips where that API cannot say it."""
    body = body_of(id_, case(id_)["api"])
    if not has_neighbour(body, api):
        pytest.skip("chat completions know no server tools")
    return body_of(id_, api)


def policies(id_: str, size: float, shares: Sequence[float]) -> Iterator[DropOldest]:
    """The case's own policy, if it drops, and the default ends at several shares of the size."""
    own: dict[str, Any] = case(id_)["policy"]
    for target in TARGETS:
        if own["type"] == "drop_oldest":
            yield DropOldest(own["max_tokens"], keep_head=own["keep_head"], keep_tail=own["keep_tail"], target=target)
        for share in shares:
            yield DropOldest(max(1, int(size * share)), target=target)
        yield DropOldest(max(1, int(size * 0.5)), keep_head=0, keep_tail=own.get("keep_recent", 1), target=target)
        yield DropOldest(max(1, int(size * 0.6)), keep_head=3, keep_tail=1, target=target)


@covers(*BODIES)
@pytest.mark.parametrize(
    "shares", [(0.35, 0.7), pytest.param([n / 20 for n in range(1, 20)], marks=pytest.mark.full)], ids=["few", "many"]
)
@each_api
@each_body
def test_a_request_leaves_sound_at_every_place_and_size(
    id_: str, api: str, shares: Sequence[float], line: MakeLine
) -> None:
    """Nothing that the provider refuses is new, nothing vital is lost, and the account is true.

    Strictly alternating chat templates accept what they accepted before; they always find a user message.
    """
    body = given(id_, api)
    for place in PLACES:
        placed = place(body)
        for policy in policies(id_, line(api, 1).size(placed), shares):
            trip = line(api, policy).send(placed)
            try:
                assert_sound(trip)
                if policy.target < 1 and not has_media(placed) and "thinking" not in placed:
                    assert_fits_if_it_can(trip)
                assert_no_more_than_asked(trip)
                if api == CHAT:
                    assert_alternates(trip, policy)
            except AssertionError as error:
                raise AssertionError(f"{place.__name__}, {policy}: {error}") from error


def assert_alternates(trip: Trip, policy: DropOldest) -> None:
    """User and assistant still take turns, unless the head was asked to hold a question without its answer."""
    broken = new_violations(trip, flavor="template")
    assert "tp-user" not in broken
    if policy.target < 1 and (policy.keep_head == 0 or trip.messages[0]["role"] == "system"):
        assert not broken, f"{broken}, {trip.kept}"


@covers(*BODIES)
@each_api
@each_body
def test_a_conversation_that_grows_stays_sound(id_: str, api: str, line: MakeLine) -> None:
    """An application that resends its history at each step gets a sound request each time, the remembered cut included."""
    body = twice(given(id_, api))
    for share in (0.3, 0.6):
        wrapped = line(api, DropOldest(max(1, int(line(api, 1).size(body) * share))))
        history: Answers = []
        for step in growing(body):
            trip = wrapped.send(step)
            assert_sound(trip, history=history)
            history.append((trip.left, answer_of(trip.response)))


def answer_of(response: Any) -> list[Any]:
    """The content of an Anthropic answer as the judge wants it; nothing for chat."""
    return [block.model_dump(exclude_none=True) for block in getattr(response, "content", ())]


@covers(*BODIES)
@pytest.mark.parametrize("mode", ["async", "stream", pytest.param("async stream", marks=pytest.mark.full)])
@each_api
@each_body
def test_async_and_streamed_calls_leave_as_sync_ones_do(id_: str, api: str, mode: str, line: MakeLine) -> None:
    """The way of calling makes no difference to the messages, nor to the account."""
    body = given(id_, api)
    policy = DropOldest(max(1, int(line(api, 1).size(body) * 0.4)))
    sync, other = line(api, policy).send(body), line(api, policy, mode).send(body)
    assert_sound(other)
    assert other.messages == sync.messages
    told = ("tokens_before", "tokens_after", "messages_after", "trigger", "reason", "fits", "changed")
    assert [getattr(other.report, name) for name in told] == [getattr(sync.report, name) for name in told]


@covers(*BODIES)
@each_api
@each_body
def test_below_the_budget_the_request_is_that_of_a_plain_client(
    id_: str, api: str, line: MakeLine, provider: Provider
) -> None:
    """At exactly its size nothing changes, byte for byte; one token less, and a decision is due."""
    body = given(id_, api)
    method(plain(provider, api), api)(**body)
    untouched = provider.requests[-1].body
    size = int(line(api, 1).size(body))
    for target in TARGETS:
        trip = line(api, DropOldest(size, target=target)).send(body)
        assert trip.left == untouched
        assert (trip.report.changed, trip.report.fits, trip.report.reason) == (False, True, "below trigger")
        assert line(api, DropOldest(size - 1, target=target)).send(body).report.reason != "below trigger"
