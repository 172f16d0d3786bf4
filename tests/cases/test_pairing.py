"""A call and its results are one unit: kept or dropped whole, wherever the cut falls."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compacting_client import DropOldest
from compacting_client.testing import Provider
from tests.cases.bench import APIS, CHAT, CLAUDE, TARGETS, Body, Line, case, covers, drop_oldest
from tests.cases.neighbours import body_of, growing, later, to_claude
from tests.cases.sound import answers_of, assert_fits_if_it_can, assert_sound, calls_of, whole

MakeLine = Callable[..., Line]
Sweep = Callable[[int], range]
PAIRS = ("001", "002", "049", "053", "054", "107")
each_api = pytest.mark.parametrize("api", APIS)

# What the cases say of target=1.0; at Anthropic the system prompt is no message, and a user turn comes first.
ALLOWED: dict[tuple[str, str], list[list[int]]] = {
    ("001", CHAT): [[0, 4, 5]],
    ("001", CLAUDE): [[4]],
    ("053", CHAT): [[0, 6, 7], [0, 1, 6, 7]],
    ("053", CLAUDE): [[0, 3, 4], [4]],
    ("107", CHAT): [[0, 1, 4], [0, 4]],
    ("107", CLAUDE): [[0, 1, 2]],  # here the result shares its item with the question that follows it
}


def user(text: str) -> Body:
    return {"role": "user", "content": text}


def asks(*ids: str, text: str | None = None, size: int = 1) -> Body:
    calls = [
        {"id": i, "type": "function", "function": {"name": "look", "arguments": '{"at": "%s"}' % ("x" * size)}}
        for i in ids
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def answers(call: str, text: str = "found") -> Body:
    return {"role": "tool", "tool_call_id": call, "content": text}


@covers("001", "053", "107")
@pytest.mark.parametrize(("id_", "api"), ALLOWED)
def test_the_exchange_goes_whole_and_exactly_what_the_case_says_stays(id_: str, api: str, line: MakeLine) -> None:
    """At target=1.0 the kept indexes are those of the case; at the default target no more than those stay."""
    for target in TARGETS:
        trip = line(api, drop_oldest(case(id_)["policy"], target)).send(body_of(id_, api))
        assert_sound(trip)
        assert trip.report.fits or (id_, api) == ("107", CLAUDE)
        if target == 1.0:
            assert trip.kept in ALLOWED[id_, api]
        assert set(trip.kept) <= set(ALLOWED[id_, api][-1]) | set(ALLOWED[id_, api][0])


@covers(*PAIRS)
@each_api
@pytest.mark.parametrize("id_", PAIRS)
def test_no_tail_and_no_budget_cuts_between_a_call_and_its_result(
    id_: str, api: str, line: MakeLine, sweep: Sweep
) -> None:
    """Wherever `keep_tail` ends and however much must go, each exchange is there whole or not at all."""
    body = body_of(id_, api)
    size = int(line(api, 1).size(body))
    for target in TARGETS:
        for tail in range(len(body["messages"]) + 1):
            for budget in sweep(size)[::2]:
                trip = line(api, DropOldest(budget, keep_head=tail % 3, keep_tail=tail, target=target)).send(body)
                assert_sound(trip)
                assert whole(body["messages"], set(trip.kept)) == set(trip.kept)


@covers("049")
@each_api
def test_one_id_for_every_call_makes_separate_exchanges(api: str, line: MakeLine, sweep: Sweep) -> None:
    """Pairs are found by their place, not in a global map of ids: the older exchange can go while the newer stays."""
    body = later(body_of("049", api))
    groups = [{2, 3}, {4, 5}] if api == CHAT else [{1, 2}, {3, 4}]
    size, seen = int(line(api, 1).size(body)), set[tuple[bool, ...]]()
    for budget in sweep(size):
        trip = line(api, DropOldest(budget, keep_head=2, keep_tail=1, target=1.0)).send(body)
        assert_sound(trip)
        assert all(group <= set(trip.kept) or not group & set(trip.kept) for group in groups)
        seen.add(tuple(group <= set(trip.kept) for group in groups))
    assert seen == {(False, True), (False, False)}


@covers("053", "054")
@pytest.mark.parametrize("order", ["abc", "cba", "bca"])
@pytest.mark.parametrize("api", [CHAT, CLAUDE, "results in several items", "calls in several items"])
def test_a_parallel_batch_is_one_unit_in_any_order_of_its_results(order: str, api: str, line: MakeLine) -> None:
    """Three calls in one message and their three results: all or none, early or late in the history."""
    batch = [asks("a", "b", "c"), *(answers(call, f"{call} is up " * 9) for call in order)]
    chat: Body = {"model": "gpt-4o-mini", "messages": [user("Status?"), *batch, *asked_on(), *batch, *asked_on()]}
    body = chat if api == CHAT else to_claude(chat)
    if "several" in api:
        role = "user" if api.startswith("results") else "assistant"
        body = {**body, "messages": [piece for message in body["messages"] for piece in apart(message, role)]}
    wire = CHAT if api == CHAT else CLAUDE
    size = int(line(wire, 1).size(body))
    for budget in range(40, size, 20):
        for target in TARGETS:
            trip = line(wire, DropOldest(budget, keep_tail=2, target=target)).send(body)
            assert_sound(trip)
            calls = [call for message in trip.messages for call in calls_of(message)]
            results = [call for message in trip.messages for call in answers_of(message)]
            assert sorted(calls) == sorted(results) == sorted("abc" * (len(calls) // 3))


def asked_on() -> list[Body]:
    """The end of one turn and the question of the next."""
    return [{"role": "assistant", "content": "All up."}, user("And now?")]


def apart(message: Body, role: str) -> list[Body]:
    """An item with several blocks as several items, which the provider reads as one turn."""
    blocks = message["content"]
    split = message["role"] == role and isinstance(blocks, list)
    return [{**message, "content": [block]} for block in blocks] if split else [message]


@covers("001", "107")
@pytest.mark.parametrize(
    "middle",
    [
        [asks("1"), user("wait"), answers("1")],
        [asks("1"), {"role": "system", "content": "Idle."}, answers("1")],
        [asks("1"), asks("2"), answers("1"), answers("2")],
        [asks("1", "2"), answers("1"), {"role": "assistant", "content": "so far"}, answers("2")],
        [asks("1")],
        [answers("1")],
        [asks("1"), answers("1"), answers("1")],
    ],
    ids=["a user between", "a system between", "calls first", "in two places", "dangling", "orphan", "twice answered"],
)
def test_a_history_that_came_broken_gets_no_worse(middle: list[Body], line: MakeLine, sweep: Sweep) -> None:
    """Pairs are found over whatever stands between them; what the caller left open is cut like any unit, never mended."""
    messages = [{"role": "system", "content": "s"}, user("first " * 9), *middle, *asked_on()]
    for spread in (messages, [*messages, asks("z"), answers("z")]):
        body: Body = {"model": "gpt-4o-mini", "messages": spread}
        size = int(line(CHAT, 1).size(body))
        for budget in sweep(size):
            for target in TARGETS:
                trip = line(CHAT, DropOldest(budget, keep_tail=1, target=target)).send(body)
                assert_sound(trip)
                assert whole(spread, set(trip.kept)) == set(trip.kept)


@covers("002", "010")
@pytest.mark.parametrize("target", TARGETS)
@each_api
def test_a_question_that_interrupts_a_loop_stays_with_the_result_before_it(
    api: str, target: float, line: MakeLine, sweep: Sweep
) -> None:
    """At Anthropic the result and the question share an item: a new loop after it does not make it an old result."""
    start = [user("Plan a route."), asks("r1"), answers("r1"), user("No, a shorter one.")]
    chat: Body = {
        "model": "gpt-4o-mini",
        "messages": [*start, *(m for n in "abcd" for m in (asks(n), answers(n, "far " * 9)))],
    }
    body = chat if api == CHAT else to_claude(chat)
    for budget in sweep(int(line(api, 1).size(body))):
        for head in (0, 1):
            trip = line(api, DropOldest(budget, keep_head=head, keep_tail=1, target=target)).send(body)
            assert_sound(trip)
            assert "No, a shorter one." in str(trip.messages)


TEXT = st.integers(1, 60).map("word ".__mul__)


@st.composite
def steps(draw: st.DrawFn) -> list[Body]:
    """One step of a tool loop: a batch of calls, under new or old ids, and its results in any order."""
    ids = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3, unique=True))
    call = asks(*ids, text=draw(st.sampled_from([None, "Let me see."])), size=draw(st.integers(1, 80)))
    return [call, *(answers(each, draw(TEXT)) for each in draw(st.permutations(ids)))]


@st.composite
def histories(draw: st.DrawFn) -> Body:
    """A chat with tools, as a provider would accept it: it ends with a question or in the middle of a loop."""
    messages: list[Any] = draw(st.sampled_from([[], [{"role": "system", "content": "Be brief."}]]))
    for _ in range(draw(st.integers(1, 4))):
        loop = [message for step in draw(st.lists(steps(), max_size=3)) for message in step]
        answer = draw(st.sampled_from([[], [{"role": "assistant", "content": "Done. " * 9}]]))
        messages = [*messages, user(draw(TEXT)), *loop, *answer]
    ends = st.sampled_from([[], [user("Next?")]])
    ending = draw(ends) or [user("Go."), *draw(steps())]
    return {"model": "gpt-4o-mini", "messages": [*messages, *ending]}


@covers(*PAIRS)
@given(histories(), st.sampled_from(APIS), st.floats(0.05, 0.95), st.integers(0, 3), st.integers(0, 6), st.booleans())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_history_of_exchanges_leaves_whole(
    provider: Provider, body: Body, api: str, share: float, head: int, tail: int, exact: bool
) -> None:
    """Random tool loops at random budgets, once and as they grow, the remembered cut included."""
    body = body if api == CHAT else to_claude(body)
    budget = max(1, int(Line(provider, api, 1).size(body) * share))
    policy = DropOldest(budget, keep_head=head, keep_tail=tail, target=1.0 if exact else 0.5)
    trip = Line(provider, api, policy).send(body)
    assert_sound(trip)
    assert whole(body["messages"], set(trip.kept)) == set(trip.kept)
    if not exact:
        assert_fits_if_it_can(trip)
    wrapped = Line(provider, api, policy)
    for step in growing(body):
        assert_sound(wrapped.send(step))
