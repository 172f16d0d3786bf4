"""Calls are equal by the exact value of their arguments."""

from itertools import combinations

import pytest

from compacting_client.core.reuse import key_of

DIFFERENT = [
    "12345678901234567890120",
    "12345678901234567890121",
    "18446744073709551616",
    "18446744073709551617",
    "9007199254740992",
    "9007199254740993",
    "0.10000000000000001",
    "0.10000000000000002",
    "0.1",
    "1e-400",
    "0",
    "-1",
    "true",
    '"12345678901234567890120"',
]


@pytest.mark.parametrize(("one", "other"), [*combinations(DIFFERENT, 2)])
def test_numbers_that_a_double_does_not_tell_apart_are_two(one: str, other: str) -> None:
    """Whatever stands around them."""
    assert key_of("get", f'{{"n": {one}}}') != key_of("get", f'{{"n": {other}}}')


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"b": 12345678901234567890120, "a": 1}', '{ "a":1.0,"b":12345678901234567890120 }'),
        ('{"n": 0.30000000000000004}', {"n": 0.1 + 0.2}),
        ('{"n": 12345678901234567890120}', {"n": 12345678901234567890120}),
        ('{"n": 100000000000000000000}', '{"n": 1e20}'),
        ("", {}),
        ("12345678901234567890 is no JSON", "12345678901234567890 is no JSON"),
        ("[" * 400 + "12345678901234567890120" + "]" * 400, "[" * 400 + "12345678901234567890120" + "]" * 400),
    ],
)
def test_equal_values_are_equal_in_any_spelling(one: object, other: object) -> None:
    """Key order, white space, 1 and 1.0, text and data."""
    assert key_of("get", one) == key_of("get", other)
