"""The summary of the plain functions: oversized, failing, damaging and awaited ones."""

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from compacting_client.errors import ConfigError
from compacting_client.plain import acompact_with_summary, compact, compact_with_summary, estimate_tokens
from tests.plain_histories import README, Message, places

LONG = "The user asked about the weather again and again. " * 80


def test_an_oversized_summary_is_cut_to_the_room_that_dropping_leaves() -> None:
    dropped_only = compact(README, max_tokens=150, keep_tail=2)
    with pytest.warns(RuntimeWarning, match="cut to"):
        result = compact_with_summary(README, max_tokens=150, keep_tail=2, summarize=lambda _: LONG)
    assert result.dropped == dropped_only.dropped
    assert result.fits
    assert result.summary is not None
    assert result.summary.endswith("…")
    assert LONG.startswith(result.summary[:-1])
    assert result.messages[1]["content"] == result.summary
    assert result.tokens_after == sum(map(estimate_tokens, result.messages)) in range(147, 151)


@pytest.mark.parametrize("budget", range(150, 180, 3))
@pytest.mark.parametrize("blank", ["", "\n" * 2000])
def test_the_cut_is_the_longest_that_fits_and_begins_with_words(budget: int, blank: str) -> None:
    with pytest.warns(RuntimeWarning, match="cut to"):
        result = compact_with_summary(README, max_tokens=budget, keep_tail=2, summarize=lambda _: blank + LONG)
    assert result.summary is not None
    length = len(result.summary)
    assert result.summary[:-1] == LONG[: length - 1]
    longer = {"role": "user", "content": LONG[: length + 1].rstrip() + "…"}
    assert result.tokens_after - estimate_tokens(result.messages[1]) + estimate_tokens(longer) > budget


@pytest.mark.parametrize("text", [LONG, " " * 5000 + "x", "x" * 30])
def test_a_summary_with_next_to_no_room_is_left_out(text: str) -> None:
    messages = [*README[:4], *README[-2:]]
    dropped_only = compact(messages, max_tokens=42, keep_tail=2)
    assert dropped_only.fits
    with pytest.warns(RuntimeWarning, match="left out"):
        result = compact_with_summary(messages, max_tokens=42, keep_tail=2, summarize=lambda _: text)
    assert result.summary is None
    assert (result.messages, result.tokens_after) == (dropped_only.messages, dropped_only.tokens_after)


def test_over_the_budget_anyway_a_summary_stays_while_it_is_smaller_than_what_it_stands_for() -> None:
    result = compact_with_summary(README, max_tokens=5, keep_tail=2, summarize=lambda _: "so far")
    assert (result.summary, result.fits) == ("so far", False)
    with pytest.warns(RuntimeWarning, match="left out"):
        result = compact_with_summary(README, max_tokens=5, keep_tail=2, summarize=lambda _: LONG)
    assert (result.summary, result.fits) == (None, False)
    assert result.tokens_after == compact(README, max_tokens=5, keep_tail=2).tokens_after


def fails(_: list[Message]) -> str:
    raise OSError("429: the text of a message")


async def awaitable(_: list[Message]) -> str:
    return "so far"


NO_TEXT: dict[str, Callable[[list[Message]], Any]] = {
    "raised OSError": fails,
    "returned NoneType": lambda _: None,
    "returned int": lambda _: 5,
    "returned list": lambda _: ["so far"],
    "returned blank text": lambda _: " \n",
    "returned a coroutine": awaitable,
}


@pytest.mark.parametrize("what", NO_TEXT)
def test_a_summariser_that_gives_no_text_leaves_the_dropped_form_and_one_warning(what: str) -> None:
    def summarize(dropped: list[Message]) -> Any:
        return NO_TEXT[what](dropped)

    with pytest.warns(RuntimeWarning, match=what) as caught:
        result = compact_with_summary(README, max_tokens=150, keep_tail=2, summarize=summarize)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "text of a message" not in str(caught[0].message)
    assert result.summary is None
    assert places(result.messages, README) == [0, 4, 5, 6, 7, 8, 9]
    assert (result.tokens_after, result.fits) == (124, True)


@pytest.mark.parametrize("what", [what for what in NO_TEXT if "coroutine" not in what])
async def test_the_same_holds_when_it_is_awaited(what: str) -> None:
    async def summarize(dropped: list[Message]) -> Any:
        return NO_TEXT[what](dropped)

    with pytest.warns(RuntimeWarning, match=what) as caught:
        result = await acompact_with_summary(README, max_tokens=150, keep_tail=2, summarize=summarize)
    assert [warning.filename for warning in caught] == [__file__]
    assert (result.summary, result.tokens_after) == (None, 124)


def test_the_error_of_a_summariser_hangs_on_the_warning() -> None:
    with pytest.warns(RuntimeWarning) as caught:
        compact_with_summary(README, max_tokens=150, summarize=fails)
    cause = caught[0].message.__cause__  # type: ignore[union-attr]
    assert isinstance(cause, OSError)


def test_an_interrupt_in_a_summariser_passes() -> None:
    def summarize(_: list[Message]) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact_with_summary(README, max_tokens=150, summarize=summarize)


async def test_a_cancellation_passes() -> None:
    async def forever(_: list[Message]) -> str:
        await asyncio.sleep(60)
        return "late"

    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(acompact_with_summary(README, max_tokens=150, summarize=forever), 0.01)


async def test_a_summariser_that_is_not_async_runs_beside_the_event_loop() -> None:
    threads: list[int] = []

    def summarize(_: list[Message]) -> str:
        threads.append(threading.get_ident())
        return "so far"

    result = await acompact_with_summary(README, max_tokens=150, keep_tail=2, summarize=summarize)
    assert result.summary == "so far"
    assert threads != [threading.get_ident()]


class AsyncCallable:
    async def __call__(self, dropped: list[Message]) -> str:
        return "so far"


ASYNC: list[Any] = [awaitable, functools.partial(awaitable), AsyncCallable()]


@pytest.mark.parametrize("summarize", ASYNC)
async def test_every_kind_of_async_summariser_is_known_as_one(summarize: Any) -> None:
    assert (await acompact_with_summary(README, max_tokens=150, keep_tail=2, summarize=summarize)).summary == "so far"
    with pytest.raises(ConfigError, match="acompact_with_summary"):
        compact_with_summary(README, max_tokens=1000, summarize=summarize)


def test_no_summariser_or_nothing_dropped_is_as_compact() -> None:
    assert compact_with_summary(README, max_tokens=150, keep_tail=2).tokens_after == 124
    assert compact_with_summary(README, max_tokens=195, summarize=fails).summary is None
    assert compact_with_summary(README, max_tokens=5, keep_head=5, keep_tail=5, summarize=fails).dropped == []
