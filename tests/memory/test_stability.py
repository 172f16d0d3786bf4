"""How much of each prompt is an unchanged prefix of the one before: figures of `make bench` that depend on no clock."""

from statistics import median

import pytest

from bench.stability import BUDGET, LONG, long_figures, measured, ours, reference
from bench.workload import conversation
from compacting_client.formats import openai_chat
from tests.shared import shared_path


def test_four_fifths_of_what_is_sent_was_sent_before() -> None:
    """Over a long chat with tools far above its budget, one request before each answer; cut anew each time, it is less than half of that."""
    messages = conversation(500)
    share, mean = measured(ours(openai_chat, BUDGET), messages)
    assert share >= 0.8
    assert BUDGET / 2 <= mean <= BUDGET
    assert measured(reference(openai_chat, BUDGET), messages)[0] < share / 2


@pytest.mark.parametrize("shape", LONG)
def test_recorded_conversations_keep_their_prefix_too(shape: str) -> None:
    """The median of the long conversations, each with half of its own size as budget; the least of them is far above a cut that moves."""
    shared_path("traffic", f"long_{shape}.jsonl")
    shares, _ = long_figures(ours, shape)
    assert median(shares) >= 0.8
    assert min(shares) >= 0.65
