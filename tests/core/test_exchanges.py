"""Which items are one unit (DESIGN 3.1; SEEDS C1, P2; NousResearch/hermes-agent#70724)."""

from hypothesis import given
from hypothesis import strategies as st

from compacting_client.core.exchanges import pair


def units(found) -> list[list[int]]:
    """All units, each as the list of its item indexes."""
    return [list(found.unit(index)) for index, first in enumerate(found.owner) if index == first]


def test_a_call_and_its_result_are_one_unit() -> None:
    """The plain case: neighbours."""
    assert units(pair({1: ["a"]}, {2: ["a"]}, size=4)) == [[0], [1, 2], [3]]


def test_results_may_stand_anywhere_behind_their_call() -> None:
    """A user message between call and result stays a unit of its own."""
    assert units(pair({1: ["a"]}, {3: ["a"]}, size=5)) == [[0], [1, 3], [2], [4]]


def test_interleaved_calls_pair_by_id() -> None:
    """AC(1) AC(2) T(1) T(2) are two units, not an orphan and a wrong pair."""
    assert units(pair({0: ["1"], 1: ["2"]}, {2: ["1"], 3: ["2"]}, size=4)) == [[0, 2], [1, 3]]


def test_a_reused_id_pairs_with_the_nearest_unanswered_call() -> None:
    """Every call of one server has the same id; each result belongs to the call before it."""
    found = pair({0: ["x"], 2: ["x"], 4: ["x"]}, {1: ["x"], 3: ["x"], 5: ["x"]}, size=6)
    assert units(found) == [[0, 1], [2, 3], [4, 5]]


def test_a_parallel_batch_is_one_unit_in_any_order_of_results() -> None:
    """Three calls at once and three results are one unit; positions say which result answers which call, if not the first."""
    found = pair({0: ["a", "b", "c"]}, {1: ["c"], 2: ["a"], 3: ["b"]}, size=4)
    assert units(found) == [[0, 1, 2, 3]]
    assert found.position == {1: [2], 3: [1]}


def test_one_item_with_the_results_of_several_calls_joins_them() -> None:
    """Calls spread over two assistant items, answered by one user item, are one unit."""
    assert units(pair({0: ["a"], 1: ["b"]}, {2: ["a", "b"]}, size=3)) == [[0, 1, 2]]


def test_a_second_answer_stays_with_its_call() -> None:
    """A result sent twice is no orphan."""
    assert units(pair({0: ["a"]}, {1: ["a"], 2: ["a"]}, size=3)) == [[0, 1, 2]]


def test_halves_of_the_callers_own_are_units() -> None:
    """An orphaned result and a dangling call are units of their own."""
    found = pair({2: ["b"]}, {0: ["nobody"]}, size=3)
    assert units(found) == [[0], [1], [2]]


def test_links_join_for_other_reasons() -> None:
    """What a format says belongs together is one unit, and with it their exchanges."""
    assert units(pair({1: ["a"]}, {2: ["a"]}, [(0, 1), (2, 3)], size=4)) == [[0, 1, 2, 3]]


def test_a_huge_batch_is_paired_in_linear_work() -> None:
    """Ten thousand results of one item are one unit; the leader list is built without merging again and again."""
    count = 10_000
    found = pair({0: [str(n) for n in range(count)]}, {n + 1: [str(n)] for n in range(count)}, size=count + 1)
    assert found.members[0] == list(range(count + 1))


@given(st.data())
def test_units_cover_every_item_once(data: st.DataObject) -> None:
    """Whatever the ids, each item is in exactly one unit, and each unit is named by its first item."""
    size = data.draw(st.integers(0, 12))
    ids = st.lists(st.sampled_from("ab"), max_size=3)
    calls = {index: data.draw(ids) for index in range(size) if data.draw(st.booleans())}
    answers = {index: data.draw(ids) for index in range(size) if index not in calls}
    found = pair(calls, answers, size=size)
    assert sorted(index for unit in units(found) for index in unit) == list(range(size))
    assert all(unit[0] == found.owner[index] for unit in units(found) for index in unit)


@given(st.data())
def test_ids_that_are_asked_for_once_pair_as_any_others(data: st.DataObject) -> None:
    """A repeated id somewhere else changes nothing for them: members and positions are the same."""
    size = data.draw(st.integers(1, 10))
    ids = st.lists(st.sampled_from("abcdefgh"), max_size=3)
    asked = data.draw(st.permutations("abcdefgh"))
    calls = {
        index: [asked.pop() for _ in range(min(len(asked), data.draw(st.integers(0, 3))))] for index in range(size)
    }
    answers = {index: data.draw(ids) for index in range(size) if data.draw(st.booleans())}
    plain = pair(calls, answers, size=size + 2)
    other = pair({**calls, size: ["again"], size + 1: ["again"]}, answers, size=size + 2)
    assert (plain.owner, plain.members, plain.position) == (other.owner, other.members, other.position)
