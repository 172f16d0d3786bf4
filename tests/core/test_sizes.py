"""Sizes that are counted when they are asked for, by several threads at once."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compacting_client.core import imprints
from compacting_client.core.sizes import Sizes

TEXTS = ["x" * length for length in range(40)]
ROLES = ["user"] * len(TEXTS)


def fresh() -> Sizes:
    """Of forty texts, none counted."""
    return Sizes(TEXTS, ROLES, {7: 1000}, imprints.sizes)


class Beside(list[Any]):
    """What is counted, where another thread acts after every look at it."""

    def __init__(self, found: list[Any], act: Callable[[], object]) -> None:
        super().__init__(found)
        self.act = act

    def _then(self, seen: Any) -> Any:
        act, self.act = self.act, lambda: None
        act()
        return seen

    def __getitem__(self, index: Any) -> Any:
        return self._then(super().__getitem__(index))

    def __contains__(self, each: object) -> bool:
        return bool(self._then(super().__contains__(each)))

    def count(self, each: Any) -> int:
        return int(self._then(super().count(each)))


@given(st.lists(st.integers(0, 39), max_size=8), st.lists(st.integers(0, 39), min_size=1), st.booleans())
def test_what_was_let_go_is_counted_already(before: list[int], after: list[int], whole: bool) -> None:
    """Whatever was counted before a release, sizes are the same behind it."""
    expected = list(fresh())
    sizes = fresh()
    sizes.of(before)
    if whole:
        sizes.all()
    sizes.release()
    assert sizes.of(after) == [expected[index] for index in after]
    sizes.release()
    assert list(sizes) == expected


@pytest.mark.parametrize("before", [[], [3, 4], list(range(20))])
def test_a_reader_beside_a_release_disturbs_nobody(before: list[int]) -> None:
    """A report is read in another thread while the request lets go: nothing raises, and all is counted right."""
    sizes = fresh()
    sizes.of(before)
    sizes.found = Beside(sizes.found, sizes.all)
    sizes.release()
    assert list(sizes) == list(fresh())


@pytest.mark.parametrize("asked", [[5, 30], [*range(2, 30)], range(3, 25), range(40)])
def test_a_release_beside_a_reader_disturbs_nobody(asked: Any) -> None:
    """The other way round: what another thread counts and lets go is not counted again from nothing."""
    sizes = fresh()

    def other() -> None:
        sizes.all()
        sizes.release()

    sizes.found = Beside(sizes.found, other)
    expected = list(fresh())
    assert sizes.of(asked) == [expected[index] for index in asked]
    assert list(sizes) == expected
