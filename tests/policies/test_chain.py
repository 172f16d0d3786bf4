"""Chain: several policies, one decision and one account."""

import copy
from typing import Any

import pytest

from compacting_client import Chain, ConfigError, DropOldest, KeepTurns, memory
from compacting_client.formats import anthropic_messages, openai_chat
from tests.driving import leave, session, size
from tests.policies.test_drop_oldest import loop, names, talk
from tests.policies.test_keep_turns import says, step, user


@pytest.mark.parametrize(
    "members",
    [(), (5,), (None,), (DropOldest,), (KeepTurns(1), "x"), (KeepTurns(1), False), ([KeepTurns(1)],)],
)
def test_wrong_members_are_refused(members: tuple[Any, ...]) -> None:
    """An empty chain, numbers, classes and the like; the error shows the value."""
    with pytest.raises(ConfigError, match="Chain"):
        Chain(*members)


def test_a_chain_in_a_chain_is_its_policies() -> None:
    """Nesting changes nothing, the remembered decisions included."""
    flat = Chain(KeepTurns(3), DropOldest(60), DropOldest(90))
    nested = Chain(Chain(KeepTurns(3)), Chain(DropOldest(60), Chain(DropOldest(90))))
    assert flat == nested
    assert hash(flat) == hash(nested)
    assert flat.fingerprint == nested.fingerprint
    assert repr(nested).count("Chain") == 1
    assert flat != Chain(DropOldest(60), KeepTurns(3), DropOldest(90))


def test_each_decides_on_what_the_one_before_left() -> None:
    """Turns first; the budget is held by what is left of them, and not cut if it fits already."""
    body = talk(12)
    policy = Chain(KeepTurns(3), DropOldest(size(body) // 2))
    sent, report = leave(session(policy), openai_chat, body)
    assert names(sent) == ["be", "q10", "a10", "q11", "a11", "last"]
    assert report.trigger == "turns"
    assert report.policy == "Chain(KeepTurns, DropOldest)"
    tight, report = leave(session(Chain(KeepTurns(3), DropOldest(70, target=1.0, keep_tail=1))), openai_chat, body)
    assert len(tight["messages"]) < len(sent["messages"])
    assert report.fits
    assert report.tokens_before - report.tokens_after == sum(unit.tokens for unit in report.dropped)


def test_a_budget_ends_the_loop_that_turns_never_cut() -> None:
    """One question and an endless tool loop: the second trigger that 10xGraph lacks (SEEDS T9)."""
    body = loop(60)
    sent, report = leave(session(Chain(KeepTurns(1), DropOldest(400))), openai_chat, body)
    assert report.trigger == "tokens"
    assert report.fits
    assert sent["messages"][:2] == body["messages"][:2]


def test_the_tightest_budget_is_the_one_in_the_report() -> None:
    """`fits` is held against it; without any there is none."""
    body = {"model": "m", "messages": [user("x" * 2000)]}
    assert Chain(DropOldest(900), KeepTurns(1), DropOldest(100)).budget == 100
    assert not leave(session(Chain(DropOldest(900), DropOldest(100))), openai_chat, body)[1].fits
    assert Chain(KeepTurns(1)).budget is None
    assert leave(session(Chain(KeepTurns(1))), openai_chat, body)[1].fits


def test_it_is_remembered_as_one() -> None:
    """One entry for all of it; the cut rests while none of them is triggered."""
    store = memory.InProcess()
    state = session(Chain(KeepTurns(2, slack=2), DropOldest(500)), memory=store)
    body = talk(6)
    sent, _ = leave(state, openai_chat, body)
    body["messages"] += [says("fine"), user("more")]
    again, report = leave(state, openai_chat, body)
    assert report.trigger is None
    assert again["messages"][: len(sent["messages"])] == sent["messages"]
    assert report.reused
    other = session(Chain(KeepTurns(2, slack=2), DropOldest(501)), memory=store)
    assert not leave(other, openai_chat, body)[1].reused


def test_functions_in_a_chain_see_what_is_left() -> None:
    """Also what was inserted and shortened before them; what they leave is what the next one counts."""
    seen: list[Any] = []

    def short(messages: list[Any]) -> list[Any]:
        kept = [{**m, "content": "short"} if len(m["content"] or "") > 99 else m for m in messages]
        return [user("Note."), *kept[3:]] if not any(m["content"] == "Note." for m in messages) else kept

    def look(messages: list[Any]) -> list[Any]:
        seen.append(messages)
        return messages

    body: dict[str, Any] = {"model": "m", "messages": [user("a"), says("b"), user("q"), *step("1"), *step("2")]}
    body["messages"][4]["content"] = "long " * 50
    before = copy.deepcopy(body)
    policy = Chain(short, look, DropOldest(10_000))
    sent, report = leave(session(policy), openai_chat, body)
    assert body == before
    assert [m["content"] for m in seen[0]] == ["q", "Note.", None, "short", None, "r2"]
    assert [m["content"] for m in sent["messages"]] == ["q\n\nNote.", None, "short", None, "r2"]
    assert report.tokens_after == size(sent)
    assert sorted(each.kind for each in report.replaced) == ["extended", "shortened"]


def test_an_inserted_text_outlives_the_item_that_it_stood_in() -> None:
    """A later policy drops the turn: the text moves to the next question."""
    body = {**talk(8, system=False), "max_tokens": 9, "model": "claude-sonnet-5"}
    policy = Chain(lambda messages: [user("Note."), *messages[2:]], KeepTurns(2))
    sent, report = leave(session(policy), anthropic_messages, body)
    assert [m["role"] for m in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][0]["content"][0]["text"] == "Note."
    assert report.tokens_after == size(sent)
