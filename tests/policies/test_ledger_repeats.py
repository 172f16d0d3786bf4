"""The ledger where the same calls are made again and again: the last good value wins, and what that leaves of the prompt cache."""

import json
from itertools import takewhile

import pytest

from compacting_client import Ledger
from tests.driving import session
from tests.policies.ledgers import Message, hop, ledger, ours, says, user

SIZE = 800  # characters of a result


def polled(calls: int, cycle: int) -> list[Message]:
    """A question, and so many of them in a cycle, each with another result than before."""
    hops = (hop(f"c{n}", f"value {n} " + "x" * SIZE, job=n % cycle) for n in range(calls))
    return [user("Q"), *(message for each in hops for message in each)]


def shared(policy: Ledger, cycle: int) -> tuple[float, int]:
    """Of a hundred calls: the share of the characters that leave as in the request before, and how many leave."""
    state, before, same, whole = session(policy), "", 0, 0
    for n in range(1, 101):
        text = json.dumps(ours(policy, polled(n, cycle), state)[0]["messages"])
        same += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, text, strict=False)))
        whole, before = whole + len(text), text
    return same / whole, whole


@pytest.mark.parametrize("cycle", [1, 2, 5, 8, 20, 50])
def test_with_ten_results_to_a_step_four_fifths_were_sent_before(cycle: int) -> None:
    """Whatever the cycle; with six it is less where few calls are polled.  Scope "ledger" sends less, and the cache has little of it."""
    share, sent = shared(Ledger(after_tool_results=10), cycle)
    assert share >= 0.8
    assert sent < 0.8 * sum(len(json.dumps(polled(n, cycle))) for n in range(1, 101))
    least, fewest = shared(Ledger("ledger"), cycle)
    assert least < 0.5
    assert fewest < sent


@pytest.mark.parametrize("cycle", [1, 2, 5, 8, 20])
@pytest.mark.parametrize("policy", [Ledger(), Ledger("ledger")])
def test_no_ledger_has_two_values_of_a_call(policy: Ledger, cycle: int) -> None:
    """And of its lines and what follows, the value that comes last is the newest one."""
    state = session(policy)
    for n in range(1, 61):
        messages = polled(n, cycle)
        sent, _ = ours(policy, messages, state)
        jobs = [line["arguments"]["job"] for line in ledger(sent)]
        assert len(jobs) == len(set(jobs))
        said = json.dumps(sent)
        for job in range(min(n, cycle)):
            told = [said.rfind(f"value {each} ") for each in range(job, n, cycle)]
            assert max(told) == told[-1] >= 0


def test_the_only_line_goes_too_once_it_is_out_of_date() -> None:
    """In scope "ledger", in a later turn where no exchange is to go: the model is not told PENDING beside DONE."""
    policy = Ledger("ledger")
    asked = [user("word " * 300), *hop("a", f"PENDING {'x' * 300}", "status", job=1), says("It is pending."), user("?")]
    state = session(policy)
    assert len(ledger(ours(policy, asked, state)[0])) == 1
    sent, report = ours(policy, [*asked, *hop("b", f"DONE {'x' * 300}", "status", job=1)], state)
    assert "PENDING" not in json.dumps(sent)
    assert "DONE" in json.dumps(sent)
    assert report.tokens_after < report.tokens_before
