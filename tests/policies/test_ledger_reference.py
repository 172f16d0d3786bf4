"""Ledger beside the real view of promptise 1.10.1: the same members, order, cuts and trigger on plain input."""

from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compacting_client import Ledger
from compacting_client.core.reuse import key_of
from tests.driving import session, size
from tests.policies.ledgers import (
    ABSENT,
    Message,
    asks,
    body_of,
    call,
    gives,
    hop,
    ledger,
    loop,
    ours,
    real_view,
    record,
    says,
    theirs,
    user,
    values,
)

pytestmark = pytest.mark.filterwarnings("ignore")
common = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SYSTEM: Message = {"role": "system", "content": "S"}


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """The real view."""
    return real_view() or pytest.skip(ABSENT)


def told(messages: list[Message]) -> list[Any]:
    """The messages, to compare: roles, calls, and contents without what this package adds to the question."""
    return [
        (
            m["role"],
            str(m.get("content") or "").partition("<tool_results>")[0].rpartition("</earlier_conversation>")[2].strip(),
            [each["id"] for each in m.get("tool_calls") or ()],
        )
        for m in messages
    ]


@st.composite
def plain(draw: st.DrawFn) -> list[Message]:
    """Earlier turns of texts, a question and a loop of different calls with results of two hundred characters: where no defect bites."""
    messages: list[Message] = [SYSTEM] if draw(st.booleans()) else []
    for n in range(draw(st.integers(0, 5))):
        messages += [user(f"q{n} " + "word  \n" * 40), says(f"a{n} " + "word " * draw(st.integers(1, 120)))]
    messages.append(user("the question"))
    number = 0
    for _ in range(draw(st.integers(0, 9))):
        width = draw(st.sampled_from([1, 1, 1, 2, 3]))
        ids = [f"c{number + n}" for n in range(width)]
        messages.append(asks(*(call(each, draw(st.sampled_from(["get", "list"])), id=each) for each in ids), text=""))
        length = draw(st.sampled_from([200, 300, 900]))
        messages += [gives(each, f"{each} " + "x" * length) for each in ids]
        number += width
    return messages


@common
@given(messages=plain(), scope=st.sampled_from(["auto", "ledger", "scoped"]), after=st.integers(1, 9))
def test_equals_the_real_view_on_plain_input(
    reference: ModuleType, messages: list[Message], scope: str, after: int
) -> None:
    """The same messages stay and the same results are in the ledger, in the same order, as soon as that is no larger (P9).

    In "auto" earlier turns stay (P12): they are left out of the comparison.
    """
    if scope == "auto":
        question = max(n for n, m in enumerate(messages) if m["role"] == "user")
        messages = [*messages[: messages[0] is SYSTEM], *messages[question:]]
    effective, stay, results, note = theirs(reference, messages, scope, after_tool_results=after)
    sent, report = ours(Ledger(scope, after_tool_results=after), messages)  # type: ignore[arg-type]
    if report.changed:
        assert told(sent["messages"]) == told(stay)
        assert values(sent) == results
        assert bool(note) == (record(sent, "earlier_conversation") is not None)
    elif report.reason == "below trigger":
        assert effective == "full"
    else:  # what is left is no smaller
        assert report.reason == "nothing older"
        assert (
            sum(len(each) for each in results) + 800 > size(body_of(messages))
            or len(stay) == len(messages)
            or len(messages) < 12
        )


@pytest.mark.parametrize("results", [4, 5, 6, 7])
@pytest.mark.parametrize("shape", ["one by one", "one batch"])
def test_the_trigger_is_exactly_six_results(reference: ModuleType, results: int, shape: str) -> None:
    """Results of the current run count, each of a batch for itself; those of earlier turns do not."""
    earlier = [user("before"), *loop(6, 100), says("done")]
    run = (
        loop(results)
        if shape == "one by one"
        else [
            asks(*(call(f"b{n}", n=n) for n in range(results - 1))),
            *(gives(f"b{n}", "x" * 300) for n in range(results - 1)),
            *hop("z", "end"),
        ]
    )
    messages = [SYSTEM, *earlier, user("Q"), *run]
    assert theirs(reference, messages, "auto")[0] == ("ledger" if results >= 6 else "full")
    assert (ours(Ledger(), messages)[1].trigger == "tool_results") == (results >= 6)


@pytest.mark.parametrize("length", [1_990, 2_000, 2_400, 9_000])
@pytest.mark.parametrize("repeated", [False, True])
def test_long_results_are_cut_where_the_real_view_cuts_them(reference: ModuleType, length: int, repeated: bool) -> None:
    """To the first 2,000 characters, with how much was cut; not that of a call that was made again."""
    text = "".join(chr(97 + n % 26) for n in range(length))
    messages = [
        user("Q"),
        *hop("a", "first" if repeated else "other", k=1 if repeated else 2),
        *hop("b", text, k=1),
        *hop("c", "end", k=3),
    ]
    shown = theirs(reference, messages, "ledger")[2][-1]
    line = ledger(ours(Ledger("ledger"), messages)[0])[-1]
    if length > 2_000 and not repeated:
        assert shown.startswith(text[:2_000])
        assert not shown.startswith(text[:2_001])
        assert (line["result"], line["cut"]) == (text[:2_000] + "…", f"{length - 2_000:,} of {length:,} characters")
    else:
        assert shown == line["result"] == text
        assert "cut" not in line


def test_a_result_that_a_cut_would_make_longer_is_whole(reference: ModuleType) -> None:
    """P8: theirs turns 4 characters into 223 with a limit of 3."""
    messages = [user("Q"), *hop("a", "four"), *loop(2)]
    assert len(theirs(reference, messages, "ledger", keep_result_chars=3)[2][0]) == 223
    assert values(ours(Ledger("ledger", keep_result_chars=3), messages)[0])[0] == "four"


@pytest.mark.parametrize("limits", [(6, 400), (2, 20), (0, 400), (100, 5)])
def test_the_note_has_the_same_messages_cut_at_the_same_place(reference: ModuleType, limits: tuple[int, int]) -> None:
    """The last ones with words, white space collapsed; how many are left out is said."""
    turns = [m for n in range(5) for m in (user(f"q{n}  \n" + "word " * 100), says(f"a{n} " + "word " * 300), says(""))]
    messages = [SYSTEM, *turns, user("Q")]
    note = theirs(reference, messages, "ledger", history_messages=limits[0], history_chars=limits[1])[3].split("\n")[1:]
    sent, _ = ours(Ledger("ledger", history_messages=limits[0], history_chars=limits[1]), messages)
    mine = record(sent, "earlier_conversation") or []
    spoken = [f"{role.capitalize()}: {text}" for line in mine for role, text in line.items() if role != "note"]
    assert spoken == [line for line in note if line.startswith(("User: ", "Assistant: "))]
    hidden = [line for line in note if line.startswith("(")]
    assert [line["note"].split()[0] for line in mine if "note" in line] == [
        line.strip("(").split()[0] for line in hidden
    ]


def test_results_shrink_oldest_first_and_those_of_repeated_calls_last(reference: ModuleType) -> None:
    """Under a budget, as in the real view; what is left is within it."""
    messages = [
        user("Q"),
        *hop("r0", "again " + "y" * 900, k=0),
        *hop("r1", "again " + "z" * 900, k=0),
        *loop(6, size=900),
    ]
    for share in (0.9, 0.7, 0.5, 0.35):
        full = ours(Ledger("ledger"), messages)[1].tokens_after
        sent, report = ours(Ledger("ledger", max_tokens=int(full * share)), messages)
        lines = ledger(sent)
        hidden = [n for n, line in enumerate(lines) if "result not shown" in line]
        assert report.fits
        assert hidden == [*range(1, 1 + len(hidden))] or len(hidden) == len(lines)
    results = theirs(reference, messages, "ledger", max_tokens=700)[2]
    assert [each.startswith("[") for each in results] == [False] + [True] * 5


@common
@given(
    calls=st.lists(
        st.tuples(st.sampled_from(["get_a", "get_b", "list"]), st.integers(0, 2), st.booleans()), max_size=12
    ),
    names=st.sampled_from([["get_*"], ["list"], ["*"], ["get_a", "list"]]),
)
def test_the_known_results_are_those_of_the_reference(
    reference: ModuleType, calls: list[tuple[str, int, bool]], names: list[str]
) -> None:
    """Of each call the last good result in the run, for the tools that are named; theirs once it compacts, ours always."""
    messages = [user("before"), *hop("z", "old", "get_a", id=0), says("ok"), user("Q")]
    for n, (tool, number, good) in enumerate(calls):
        messages += hop(f"c{n}", f"{n} good" if good else f"Error: {n}", tool, id=number)
    bad = [f"c{n}" for n, (_, _, good) in enumerate(calls) if not good]
    state = session(Ledger(reuse_results=names))
    _, report = ours(Ledger(), messages, state)
    answer = state.answers.of(report)
    for tool in ("get_a", "get_b", "list"):
        for number in range(3):
            settings_ = reference.ContextCompaction(reuse_results=names)
            theirs_ = reference.reuse(
                messages, tool, {"id": number}, compaction=settings_, scope="ledger", failed_ids=bad
            )
            mine = answer.known.get(key_of(tool, {"id": number})) if answer is not None else None
            assert (mine.content if mine is not None else None) == theirs_
