"""Entries as text, as stores outside of the process keep them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compacting_client.core.edits import Edits, Inserted, Shortened
from compacting_client.core.prefix import Entry, Gap
from compacting_client.memory.serial import decoded, encoded, name_of

numbers = st.integers(0, 2**53)
text = st.text() | st.text(st.characters(categories=["Cs"]), max_size=1)  # half of a surrogate pair too
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
gaps = st.builds(Gap, numbers, numbers, numbers)
kinds = st.sampled_from(["shortened", "cleared", "emptied"])
edits = st.builds(
    Edits,
    st.lists(st.builds(Shortened, numbers, numbers, values, kinds), max_size=3).map(tuple),
    st.lists(st.builds(Inserted, numbers, st.sampled_from(["start", "end", "own"]), text), max_size=3).map(tuple),
)
entries = st.builds(
    Entry, numbers, text, st.lists(gaps, max_size=3).map(tuple), numbers, text, text, st.none() | numbers, edits
)


@given(entries)
def test_an_entry_comes_back_as_it_was(entry: Entry) -> None:
    """Equal in every field and type, shortened contents and inserted texts included; and its text is the same again."""
    written = encoded(entry)
    found = decoded(written)
    assert found == entry
    assert repr(found) == repr(entry)
    assert encoded(entry) == written == written.encode("ascii").decode()


@given(entries, entries)
def test_different_entries_have_different_names(one: Entry, other: Entry) -> None:
    """Stores tell entries apart by these names."""
    assert (name_of(encoded(one)) == name_of(encoded(other))) == (encoded(one) == encoded(other))


ENTRY = Entry(4, "d", (Gap(1, 3, 2),), 6, "e", "p", 2, Edits((Shortened(3, 0, "s"),), (Inserted(3, "own", "t"),)))


ODD: list[Any] = ["4", None, -1, 4.0, True]
NO_GAPS: list[Any] = [None, 4, [4], [["1", "3", "2"]], [[1, 2, 3, 4]], [[-1, 2, 3]]]
NO_SHORTENED: list[Any] = [[[3, 0]], [["3", 0, "cleared", "s"]], [[3, 0, "other", "s"]]]
NO_INSERTED: list[Any] = [[[3, "unplaced", "t"]], [[3, [], "t"]], [[3, "own", None]]]


def changed(**fields: Any) -> str:
    """The text of an entry with other fields."""
    return json.dumps({**json.loads(encoded(ENTRY)), **fields})


@pytest.mark.parametrize(
    "written",
    [
        changed(v=2),
        changed(v=None),
        *("", "{", "null", "[]", "7", '"x"', "[" * 100_000, '{"v": 1}'),
        *(changed(length=wrong) for wrong in ODD),
        *(changed(place=wrong) for wrong in ODD if wrong is not None),
        *(changed(policy=wrong) for wrong in NO_GAPS),
        *(changed(gaps=wrong) for wrong in NO_GAPS),
        *(changed(shortened=wrong) for wrong in NO_SHORTENED),
        *(changed(inserted=wrong) for wrong in NO_INSERTED),
    ],
    ids=lambda written: written[:60],
)
def test_what_is_no_entry_of_this_form_is_ignored(written: str) -> None:
    """Entries that a later version wrote, and what is none, are as if they were not there."""
    assert decoded(changed()) == ENTRY
    assert decoded(written) is None


def test_a_content_that_is_no_json_is_refused() -> None:
    """Never pickled."""
    with pytest.raises(TypeError):
        encoded(Entry(1, "d", (), 1, "e", "p", None, Edits((Shortened(0, 0, object()),))))
