"""Every body of the cases, at every place and size, on both APIs: what must hold whatever the policy decided."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compacting_client import DropOldest
from tests.cases.bench import APIS, CLAUDE, MODES, TARGETS, Body, Line, case, covers
from tests.cases.neighbours import PLACES, body_of, growing, has_neighbour, twice
from tests.cases.sound import assert_fits_if_it_can, assert_sound, has_media, weight_of

DROPPING = ("001", "005", "010", "014", "029", "042", "049", "053", "054", "057", "077", "099", "107", "116", "125")
DROPPING += ("144", "146", "161")
OTHERS = ("002", "011", "027", "035", "060", "062", "066", "129", "136", "148", "159")
BODIES = DROPPING + OTHERS
SHARES = (0.3, 0.5, 0.7, 0.95)

MakeLine = Callable[..., Line]
each_body = pytest.mark.parametrize("id_", BODIES)
each_api = pytest.mark.parametrize("api", APIS)


def given(id_: str, api: str) -> Body:
    """The case's body in an API; skips where that API cannot say it."""
    body = body_of(id_, case(id_)["api"])
    if not has_neighbour(body, api):
        pytest.skip("chat completions know no server tools")
    return body_of(id_, api)


def policies(id_: str, size: float) -> Iterator[DropOldest]:
    """The case's own policy, if it drops, and the default ends at several shares of the size."""
    own: dict[str, Any] = case(id_)["policy"]
    for target in TARGETS:
        if own["type"] == "drop_oldest":
            yield DropOldest(own["max_tokens"], keep_head=own["keep_head"], keep_tail=own["keep_tail"], target=target)
        for share in SHARES:
            yield DropOldest(max(1, int(size * share)), target=target)
        yield DropOldest(max(1, int(size * 0.5)), keep_head=0, keep_tail=own.get("keep_recent", 1), target=target)


@covers(*BODIES)
@each_api
@each_body
def test_a_request_leaves_sound_at_every_place_and_size(id_: str, api: str, line: MakeLine) -> None:
    """Nothing that the provider refuses is new, nothing vital is lost, and the account is true."""
    body = given(id_, api)
    for place in PLACES:
        placed = place(body)
        for policy in policies(id_, line(api, 1).size(placed)):
            trip = line(api, policy).send(placed)
            try:
                assert_sound(trip)
                if policy.target < 1 and not has_media(placed) and "thinking" not in placed:
                    assert_fits_if_it_can(trip)
            except AssertionError as error:
                raise AssertionError(f"{place.__name__}, {policy}: {error}") from error
