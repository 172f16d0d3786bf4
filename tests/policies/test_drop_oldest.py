"""DropOldest: trigger and target, order, ends, and what it gives up last."""

from typing import Any

import pytest
from hypothesis import assume, given, settings

from compacting_client import ConfigError, DropOldest
from compacting_client.formats import anthropic_messages, openai_chat
from tests.driving import leave, session, share_of, size
from tests.strategies import chats


def talk(turns: int, words: int = 30, *, system: bool = True) -> dict[str, Any]:
    """A chat of so many turns, ending in a question."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "be kind"}] if system else []
    for n in range(turns):
        messages += [
            {"role": "user", "content": f"q{n} " + "w " * words},
            {"role": "assistant", "content": f"a{n} " + "w " * words},
        ]
    return {"model": "m", "messages": [*messages, {"role": "user", "content": "last"}]}


def loop(steps: int, words: int = 30) -> dict[str, Any]:
    """One question and a tool loop of so many steps."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "s"}, {"role": "user", "content": "the task"}]
    for n in range(steps):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "sh", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": "r " * words},
        ]
    return {"model": "m", "messages": messages}


def names(body: dict[str, Any]) -> list[str]:
    """The first word of each message."""
    return [str(message["content"]).split()[0] for message in body["messages"]]


@pytest.mark.parametrize("value", [0, -1, True, False, "9", 1.5, float("nan"), float("inf"), 10.0, [], {}])
def test_a_wrong_budget_is_refused(value: Any) -> None:
    """The error names the field and the value, and is a ValueError and a TypeError too."""
    with pytest.raises(ConfigError, match="max_tokens") as caught:
        DropOldest(value)
    assert repr(value) in str(caught.value)
    assert isinstance(caught.value, (ValueError, TypeError))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("keep_head", -1),
        ("keep_head", 1.0),
        ("keep_tail", True),
        ("keep_tail", None),
        ("target", 0),
        ("target", 1.1),
        ("target", float("nan")),
        ("target", "half"),
        ("target", True),
    ],
)
def test_other_wrong_settings_are_refused(field: str, value: Any) -> None:
    """Each names its field."""
    with pytest.raises(ConfigError, match=field):
        DropOldest(100, **{field: value})


def test_down_to_the_target_oldest_turns_first() -> None:
    """Above the budget the oldest turns go whole, until the target is reached and not further."""
    body = talk(12)
    budget = size(body) - 1
    sent, report = leave(session(DropOldest(budget)), openai_chat, body)
    assert report.tokens_after <= budget / 2
    kept = names(sent)
    assert kept[0] == "be"
    assert kept[1:] == names(body)[-len(kept) + 1 :]
    assert kept[1].startswith("q")
    one_more_turn = size({"messages": body["messages"][-len(kept) - 1 : -len(kept) + 1]})
    assert report.tokens_after + one_more_turn > budget / 2


def test_target_one_is_what_ctx_compact_does() -> None:
    """`target=1.0`: down to the budget, message by message."""
    reference = pytest.importorskip("ctx_compact", reason="the package whose behaviour is reproduced")
    body = talk(8)
    for budget in range(60, size(body), 37):
        sent, _ = leave(session(DropOldest(budget, target=1.0)), openai_chat, body)
        assert sent["messages"] == reference.compact(body["messages"], max_tokens=budget).messages


@settings(max_examples=200, deadline=None)
@given(history=chats(reuse_ids=False, late_systems=False))
def test_target_one_equals_ctx_compact_where_no_pin_bites(history: list) -> None:
    """On random histories whose question stands in the kept tail, the same messages leave as from the real package."""
    reference = pytest.importorskip("ctx_compact", reason="the package whose behaviour is reproduced")
    assume(history[-1]["role"] == "user")
    body = {"model": "m", "messages": history}
    head = 1 if history[0]["role"] in ("system", "developer") else 0
    policy = share_of(body, 0.5, target=1.0, keep_head=head, keep_tail=2)
    sent, report = leave(session(policy), openai_chat, body)
    expected = reference.compact(history, max_tokens=policy.budget, keep_head=head, keep_tail=2)
    assert sent["messages"] == expected.messages
    assert (report.tokens_before, report.tokens_after, report.fits) == (
        expected.tokens_before,
        expected.tokens_after,
        expected.fits,
    )


def test_a_tool_loop_loses_its_oldest_exchanges_first() -> None:
    """The question and the newest exchange stay; older exchanges go as pairs, oldest first (docker/docker-agent#1863)."""
    body = loop(20)
    sent, report = leave(session(share_of(body, 0.5)), openai_chat, body)
    assert sent["messages"][:2] == body["messages"][:2]
    assert sent["messages"][2:] == body["messages"][-len(sent["messages"]) + 2 :]
    assert report.fits


def test_inside_an_old_turn_exchanges_go_before_its_question_and_answer() -> None:
    """A long finished turn keeps its question and answer while its oldest exchanges are enough (microsoft/agent-framework#4991)."""
    body = loop(30)
    body["messages"] += [{"role": "assistant", "content": "answered"}, {"role": "user", "content": "and now?"}]
    sent, _ = leave(session(share_of(body, 0.8)), openai_chat, body)
    assert names(sent)[1] == "the"
    assert names(sent)[-2:] == ["answered", "and"]
    assert 4 < len(sent["messages"]) < len(body["messages"])


def test_the_tail_shrinks_only_when_the_middle_is_gone() -> None:
    """If the kept tail alone is over the budget, it shrinks too, oldest first; never the question."""
    body = talk(3, words=100)
    sent, report = leave(session(DropOldest(130, keep_tail=5)), openai_chat, body)
    assert names(sent) == ["be", "q2", "a2", "last"] or names(sent) == ["be", "last"]
    assert report.fits
    strict, _ = leave(session(DropOldest(130, keep_tail=5, target=1.0)), openai_chat, body)
    assert names(strict) == ["be", *names(body)[-5:]]


def test_what_cannot_fit_says_so() -> None:
    """One giant question: sent as it is, once, with `fits` False (airas-org/airas#655, OpenHands/OpenHands#8630)."""
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 9999}]}
    sent, report = leave(session(DropOldest(500, keep_head=0, keep_tail=1)), openai_chat, body)
    assert sent is body
    assert not report.fits
    assert report.reason == "nothing older"


def test_a_cut_that_frees_next_to_nothing_is_not_made() -> None:
    """What does not fit anyway is not cut on every turn for the sake of a few tokens, which would break the prompt cache each time."""
    body = talk(1, words=2)
    body["messages"][-1] = {"role": "user", "content": "x" * 9999}
    sent, _ = leave(session(DropOldest(1000, keep_tail=1)), openai_chat, body)
    assert sent is body


@pytest.mark.parametrize(("turns", "target"), [(20, 0.7), (60, 0.5)])
def test_the_cut_moves_seldom(turns: int, target: float) -> None:
    """Over a growing chat, fewer than one request in five moves the cut; between, the sent prefix is the same (oguzbilgic/kern-ai#295)."""
    state, moved, before = session(DropOldest(1000, target=target, keep_tail=2)), 0, list[Any]()
    whole = talk(turns, words=70)["messages"]
    for n in range(2, len(whole) + 1, 2):
        sent, report = leave(state, openai_chat, {"model": "m", "messages": whole[:n]})
        if report.trigger is not None:
            moved += 1
        else:
            assert sent["messages"][: len(before)] == before
        before = sent["messages"]
    assert 0 < moved < turns / 5


def test_anthropic_opens_with_a_user_message_whatever_the_settings() -> None:
    """Where the cut would leave an assistant message first, that goes too (BerriAI/litellm#6660)."""
    body = {**talk(6, system=False), "max_tokens": 9}
    for budget in range(40, size(body), 20):
        for target in (0.5, 1.0):
            sent, _ = leave(
                session(DropOldest(budget, keep_head=0, keep_tail=1, target=target)), anthropic_messages, body
            )
            assert sent["messages"][0]["role"] == "user"
