"""What is learned from the differences between requests: the rules, on numbers."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compacting_client.core.calibration import (
    EXACT,
    Counted,
    Rate,
    Scale,
    due,
    measured_against,
    rate,
    scale_of,
    whole,
)

HUNDRED = Counted(100, 0, 300)


def test_a_rate_is_what_the_provider_took_for_the_difference() -> None:
    """Whatever both requests have in common, a system prompt in another language say, is no part of it."""
    assert rate(HUNDRED, Counted(200, 0, 450)) == Rate(1.5, sure=True)


def test_pictures_that_came_are_taken_off_by_their_formula() -> None:
    """And the rate is then less sure than one that was learned from text alone."""
    assert rate(HUNDRED, Counted(200, 765, 450 + 765)) == Rate(1.5, sure=False)
    assert scale_of([Rate(9, sure=False), Rate(1.5, sure=True)], HUNDRED, ()).k == 1.5


@pytest.mark.parametrize(
    "after", [Counted(110, 0, 900), Counted(90, 0, 250), Counted(200, 0, 300), Counted(200, 0, 90)]
)
def test_what_text_does_not_explain_teaches_nothing(after: Counted) -> None:
    """Too little text, less text, more text for no more tokens, or for fewer."""
    assert rate(HUNDRED, after) is None


@pytest.mark.parametrize(("prompt", "k"), [(300 + 10_000, 8.0), (300 + 5, 0.25)])
def test_a_rate_is_clamped(prompt: float, k: float) -> None:
    """No tokenizer takes more than 8 or less than a quarter of the estimate."""
    assert rate(HUNDRED, Counted(200, 0, prompt)) == Rate(k, sure=True)


@pytest.mark.parametrize("off", [0, 2, -2])
def test_an_estimate_that_was_right_stays_to_the_unit(off: int) -> None:
    """Within 2 % nothing would be gained."""
    before, after = Counted(500, 0, 500 + off), Counted(1000, 0, 1000 - off)
    found = rate(before, after)
    assert found == Rate(1.0, sure=True)
    assert scale_of([Rate(1.0, sure=True)], after, ()) == EXACT


def test_the_median_of_a_few_forgets_an_odd_one() -> None:
    """One difference that says something else changes nothing."""
    rates = [Rate(k, sure=True) for k in (1.4, 8.0, 1.5, 1.6, 1.5)]
    assert scale_of(rates, Counted(1000, 0, 1600), ()) == Scale(1.5, 100)


def test_a_conversation_that_was_never_counted_goes_by_the_others_of_its_kind() -> None:
    """By their rate, and by no more overhead than each of them had."""
    assert scale_of([Rate(1.5, sure=True)], None, [700, 300]) == Scale(1.5, 300)
    assert scale_of([Rate(1.5, sure=True)], None, [-50]) == Scale(1.5, 0)
    assert scale_of([], None, [300]) == EXACT


def test_the_last_count_is_met_exactly() -> None:
    """Whatever k is, the overhead takes up the rest."""
    assert scale_of([Rate(2.0, sure=True)], Counted(100, 40, 500), ()).of(100, 40) == 500
    assert measured_against(EXACT, 100, 40, 500).of(100, 40) == 500
    assert measured_against(Scale(2.0, 9), 100, 40, 500) == Scale(2.0, 260)
    assert measured_against(EXACT, 100, 0, 101) == Scale(1.0, 1)


def test_a_request_is_counted_for_this_alone_only_while_it_teaches_much() -> None:
    """At first, and then where the prompt has grown by a quarter."""
    rates = [Rate(1.5, sure=True)] * 2
    assert due((), None, 100)
    assert due(rates[:1], HUNDRED, 301)
    assert not due(rates, HUNDRED, 370)
    assert due(rates, HUNDRED, 380)


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=60), st.floats(0.25, 8), st.data())
def test_whole_numbers_add_up(sizes: Sequence[int], k: float, data: st.DataObject) -> None:
    """Any number of sizes in a row come to what they should together, to the token; what a picture costs is not scaled."""
    media = data.draw(st.dictionaries(st.integers(0, len(sizes) - 1), st.just(1), max_size=3))
    scaled = whole(sizes, media, k)
    assert all(each == int(each) for each in scaled)
    start = data.draw(st.integers(0, len(sizes) - 1))
    wanted = sum(size * k for size in sizes[start:]) + sum((1 - k) for index in media if index >= start)
    assert abs(sum(scaled[start:]) - wanted) <= 1.001
