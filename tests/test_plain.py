"""compact() and its kin: the numbers of ctx-compact, whole exchanges, the input untouched, and clear errors."""

import copy
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compacting_client.errors import CompactingError, ConfigError
from compacting_client.plain import acompact_with_summary, compact, compact_with_summary, estimate_tokens
from tests.plain_histories import (
    ADJACENT,
    ANYWHERE,
    APART,
    README,
    SYSTEM,
    TEXTS,
    Message,
    answers,
    asks,
    assert_whole,
    one,
    places,
    said,
    user,
)
from tests.shared import cases, params

# ---- the numbers of ctx-compact -----------------------------------------------------------------------------------


def test_the_readme_example_of_ctx_compact_gives_its_numbers() -> None:
    result = compact(README, max_tokens=150, keep_head=1, keep_tail=2)
    assert (result.tokens_before, result.tokens_after, result.fits) == (195, 124, True)
    assert places(result.dropped, README) == [1, 2, 3]


def test_its_example_with_a_summary_gives_its_numbers() -> None:
    text = "Earlier in this conversation: 3 messages were removed."
    result = compact_with_summary(README, max_tokens=150, keep_head=1, keep_tail=2, summarize=lambda _: text)
    assert (result.tokens_after, result.fits, result.summary) == (145, True, text)
    assert places(result.messages, README) == [0, -1, 4, 5, 6, 7, 8, 9]
    assert result.messages[1] == {"role": "user", "content": text}


@pytest.mark.parametrize("case", params(lambda: [case for case in cases() if "seed_compact" in case]))
def test_the_cases_come_out_as_noted_for_ctx_compact(case: Any) -> None:
    messages, policy, noted = case["request"]["messages"], case["policy"], case["seed_compact"]
    keep = {end: policy[end] for end in ("keep_head", "keep_tail") if end in policy}
    result = compact(messages, max_tokens=policy["max_tokens"], **keep)
    assert places(result.messages, messages) == noted["kept"]
    assert (result.tokens_before, result.tokens_after, result.fits) == (noted["before"], noted["after"], noted["fits"])


@pytest.fixture(scope="module")
def reference() -> Any:
    return pytest.importorskip("ctx_compact", reason="needs ctx-compact 0.1.0, the package to compare with")


COUNTERS = st.sampled_from([None, one, lambda m: len(str(m)) / 4, lambda m: 0 if m["role"] == "tool" else 7])
SETTINGS = st.fixed_dictionaries(
    {
        "max_tokens": st.one_of(st.integers(1, 400), st.floats(0.5, 200)),
        "keep_head": st.one_of(st.integers(-1, 6), st.floats(0, 4)),
        "keep_tail": st.one_of(st.integers(-1, 6), st.just(float("inf"))),
        "count_tokens": COUNTERS,
    }
)


def assert_same(ours: Any, theirs: Any, messages: list[Message]) -> None:
    assert places(ours.messages, messages) == places(theirs.messages, messages)
    assert ours.messages == theirs.messages
    assert places(ours.dropped, messages) == places(theirs.dropped, messages)
    assert (ours.tokens_before, ours.tokens_after, ours.fits) == (
        theirs.tokens_before,
        theirs.tokens_after,
        theirs.fits,
    )


@given(messages=ADJACENT, settings=SETTINGS)
def test_compact_equals_ctx_compact_where_pairs_stand_side_by_side(
    reference: Any, messages: list[Message], settings: Any
) -> None:
    assert_same(compact(messages, **settings), reference.compact(messages, **settings), messages)


@given(
    messages=ADJACENT, settings=SETTINGS, text=TEXTS.map("Earlier: {}".format), role=st.sampled_from(["user", "system"])
)
def test_a_summary_equals_that_of_ctx_compact_unless_it_makes_things_worse(
    reference: Any, messages: list[Message], settings: Any, text: str, role: str
) -> None:
    theirs = reference.compact_with_summary(messages, summarize=lambda _: text, summary_role=role, **settings)
    dropped_only = compact(messages, **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ours = compact_with_summary(messages, summarize=lambda _: text, summary_role=role, **settings)
    if (
        theirs.fits
        or (not dropped_only.fits and theirs.tokens_after < theirs.tokens_before)
        or not dropped_only.dropped
    ):
        assert not caught
        assert ours.summary == theirs.summary
        assert_same(ours, theirs, messages)
    else:
        assert len(caught) == 1
        assert (ours.fits, ours.dropped) == (dropped_only.fits, dropped_only.dropped)
        assert ours.tokens_after <= ours.tokens_before


@given(messages=ADJACENT, settings=SETTINGS)
async def test_awaiting_a_summary_gives_what_calling_for_it_gives(messages: list[Message], settings: Any) -> None:
    async def summarize(dropped: list[Message]) -> str:
        return f"{len(dropped)} left"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        awaited = await acompact_with_summary(messages, summarize=summarize, **settings)
        called = compact_with_summary(messages, summarize=lambda dropped: f"{len(dropped)} left", **settings)
    assert awaited == called


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


@given(message=st.dictionaries(TEXTS, JSON, max_size=4))
def test_the_estimate_equals_that_of_ctx_compact_to_the_unit(reference: Any, message: Message) -> None:
    assert estimate_tokens(message) == reference.estimate_tokens(message)


# ---- exchanges ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", APART)
def test_a_call_and_its_results_stay_together_whatever_stands_between(kind: str) -> None:
    messages = APART[kind]
    for budget in range(1, len(messages) + 1):
        for head in range(4):
            for tail in range(4):
                ends: dict[str, Any] = {"keep_head": head, "keep_tail": tail, "count_tokens": one}
                assert_whole(messages, compact(messages, max_tokens=budget, **ends))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = compact_with_summary(messages, max_tokens=budget, summarize=lambda _: "so far", **ends)
                assert_whole(messages, result)


@given(
    messages=ANYWHERE,
    budget=st.integers(1, 12),
    head=st.integers(0, 4),
    tail=st.integers(0, 4),
    text=st.sampled_from("so"),
)
def test_calls_and_results_in_any_order_are_paired_by_the_nearest_unanswered_id(
    messages: list[Message], budget: int, head: int, tail: int, text: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = compact_with_summary(
            messages, max_tokens=budget, count_tokens=one, keep_head=head, keep_tail=tail, summarize=lambda _: text
        )
    assert_whole(messages, result)
    assert result.tokens_after == len(result.messages) <= result.tokens_before


def test_a_summary_waits_for_the_result_of_a_call_in_the_head() -> None:
    messages = [SYSTEM, asks("1"), user("old"), answers("1"), said("old"), said("old"), user()]
    result = compact_with_summary(
        messages, max_tokens=5, count_tokens=one, keep_head=2, keep_tail=1, summarize=lambda _: "so far"
    )
    assert places(result.messages, messages) == [0, 1, 3, -1, 6]


def test_a_summary_need_not_wait_for_an_exchange_that_was_dropped() -> None:
    messages = [SYSTEM, asks("1"), asks("2"), answers("1"), user(), answers("2"), user()]
    result = compact_with_summary(
        messages, max_tokens=6, count_tokens=one, keep_head=2, keep_tail=1, summarize=lambda _: "so far"
    )
    assert places(result.messages, messages) == [0, 1, 3, -1, 4, 6]


def test_a_summary_never_becomes_the_last_message_for_want_of_a_place() -> None:
    messages = [SYSTEM, asks("1", "2"), answers("1"), user("old"), user("old"), answers("2")]
    result = compact_with_summary(
        messages, max_tokens=5, count_tokens=one, keep_head=2, keep_tail=1, summarize=lambda _: "so far"
    )
    assert places(result.messages, messages) == [0, -1, 1, 2, 5]


def test_one_object_in_two_places_is_two_messages() -> None:
    again = user("continue")
    messages = [SYSTEM, again, said("a" * 40), again, said("b" * 40), again]
    result = compact_with_summary(messages, max_tokens=55, keep_tail=1, summarize=lambda _: "x" * 60)
    assert result.summary is not None
    assert result.messages[-1] is again
    assert result.tokens_after == sum(map(estimate_tokens, result.messages)) <= 55
    assert len(result.messages) + len(result.dropped) == len(messages) + 1


def test_typed_objects_of_an_sdk_are_messages_too() -> None:
    chat = pytest.importorskip("openai.types.chat", reason="needs the openai SDK")
    typed = chat.ChatCompletionMessage.model_validate(asks("1"))
    messages = [SYSTEM, user("old"), typed, user("old"), answers("1"), user()]
    result = compact(messages, max_tokens=4, keep_tail=2, count_tokens=one)
    assert places(result.messages, messages) == [0, 2, 4, 5]
    assert estimate_tokens(typed) > 10


# ---- the input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [10_000, 150])
def test_an_iterator_is_read_once_and_lost_nowhere(budget: int) -> None:
    assert compact(iter(README), max_tokens=budget, keep_tail=2) == compact(README, max_tokens=budget, keep_tail=2)


def test_a_history_that_fits_comes_back_as_it_is() -> None:
    result = compact(README, max_tokens=195)
    assert places(result.messages, README) == list(range(10))
    assert result.messages is not README
    assert (result.dropped, result.tokens_after, result.fits) == ([], 195, True)
    assert compact([], max_tokens=1).fits


def test_neither_the_list_nor_a_message_is_changed() -> None:
    before = copy.deepcopy(README)
    compact_with_summary(README, max_tokens=150, keep_tail=2, summarize=lambda _: "so far")
    assert before == README


def test_a_summariser_cannot_damage_the_result_or_the_history() -> None:
    def summarize(dropped: list[Message]) -> str:
        dropped[1]["tool_calls"].clear()
        dropped.clear()
        return "so far"

    before = copy.deepcopy(README)
    result = compact_with_summary(README, max_tokens=150, keep_tail=2, summarize=summarize)
    assert places(result.dropped, README) == [1, 2, 3]
    assert before == README


def test_a_message_that_cannot_be_copied_deeply_is_copied_flat() -> None:
    def summarize(dropped: list[Message]) -> str:
        dropped[0].clear()
        return "so far"

    locked = {**user("old"), "lock": threading.Lock()}
    messages = [SYSTEM, locked, user("old"), user()]
    compact_with_summary(messages, max_tokens=3, count_tokens=one, keep_tail=1, summarize=summarize)
    assert locked["content"] == "old"


@pytest.mark.parametrize("content", ["\ud83d", "\udc89 half", b"bytes", {1, 2}, object(), float("nan"), 10**30])
def test_any_content_can_be_estimated(content: Any) -> None:
    assert estimate_tokens({"role": "user", "content": content}) >= 8


def test_a_cycle_can_be_estimated() -> None:
    message: Message = user()
    message["self"] = message
    assert estimate_tokens(message) > 0


@pytest.mark.parametrize("messages", [[None, user(), 5], [{}, {"role": ["user"]}, {"content": [3, None]}]])
def test_what_is_no_message_is_dropped_like_one_and_never_raises(messages: list[Any]) -> None:
    assert compact(messages, max_tokens=1, count_tokens=one, keep_tail=0).messages == messages[:1]


# ---- settings and counts ------------------------------------------------------------------------------------------

BAD_SETTINGS: dict[str, list[Any]] = {
    "max_tokens": [None, True, "9", [], 0, -0.0, -1, -(10**400), float("nan"), float("inf")],
    "keep_head": [None, "1", True, float("nan"), [1]],
    "keep_tail": [None, "1", False, float("nan"), {}],
    "count_tokens": [5, "len"],
    "summarize": [5, "so far"],
    "summary_role": [None, "", 3],
    "messages": [None, 5, "text", b"text", {"role": "user"}],
}


@pytest.mark.parametrize(("field", "bad"), [(field, bad) for field in BAD_SETTINGS for bad in BAD_SETTINGS[field]])
async def test_a_wrong_setting_is_an_error_that_names_it_even_where_the_history_fits(field: str, bad: Any) -> None:
    settings: dict[str, Any] = {"messages": README, "max_tokens": 1000, field: bad}
    messages = settings.pop("messages")
    with pytest.raises(ConfigError, match=field) as caught:
        compact_with_summary(messages, **settings)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(ConfigError, match=field):
        await acompact_with_summary(messages, **settings)


def test_a_huge_budget_is_a_budget() -> None:
    assert compact(README, max_tokens=10**400).fits
    assert compact(README, max_tokens=10**400, count_tokens=lambda _: 10**500).fits is False


@pytest.mark.parametrize("bad", [None, "3", True, -1, float("nan"), float("inf"), -0.5, 1j, [3]])
def test_a_count_that_is_none_is_an_error_that_names_the_counter(bad: Any) -> None:
    def count(_: Any) -> Any:
        return bad

    for call in (lambda: compact(README, max_tokens=10, count_tokens=count), lambda: estimate_tokens({}, count)):
        with pytest.raises(ConfigError, match="count_tokens") as caught:
            call()
        assert isinstance(caught.value, CompactingError)


def test_an_async_counter_is_an_error_that_names_it() -> None:
    async def count(_: Any) -> int:
        return 1

    with pytest.raises(ConfigError, match="count_tokens"):
        compact(README, max_tokens=10, count_tokens=count)  # type: ignore[arg-type]


def test_what_a_counter_raises_passes() -> None:
    with pytest.raises(ZeroDivisionError):
        compact(README, max_tokens=1000, count_tokens=lambda _: 1 // 0)


def test_every_message_is_counted_once() -> None:
    counted: list[Any] = []

    def count(message: Any) -> int:
        counted.append(message)
        return 1

    compact(README, max_tokens=3, count_tokens=count)
    assert places(counted, README) == list(range(10))


def lines_run(function: Callable[[], Any]) -> int:
    """How many lines of Python a call executes: work that no clock can blur."""
    count = 0

    def trace(_frame: Any, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def test_a_summary_as_large_as_the_budget_costs_work_in_proportion_to_the_history() -> None:
    def work(size: int) -> int:
        messages = [user("x" * 8) for _ in range(size)]
        budget = size * 5
        text = "s" * (budget * 4 - 400)
        return lines_run(lambda: compact_with_summary(messages, max_tokens=budget, summarize=lambda _: text))

    assert work(800) < 2.2 * work(400)
