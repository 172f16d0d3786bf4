"""Signed thinking over whole agent conversations, judged by the bodies that were really sent (DESIGN 3.4)."""

import random
from collections import Counter
from typing import Any

import pytest

from compacting_client import DropOldest
from compacting_client.formats import anthropic_messages
from compacting_client.formats.anthropic_messages import thinking
from compacting_client.session import Session
from tests.driving import Body, found, leave, session

BINDING = "claude-opus-5-1"
BOUND = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    "Remove the block."
)
WAYS = {"default": {}, "adaptive": {"thinking": {"type": "adaptive"}}, "enabled": {"thinking": {"type": "enabled"}}}


class Refused(Exception):
    """What the SDK raises for a 400."""

    status_code = 400


class Agent:
    """An application with a tool loop that resends its whole history, and a provider that binds thinking to what was sent."""

    def __init__(self, seed: int, model: str, way: dict[str, Any], *, loses_memory: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.policy = DropOldest(self.random.choice([400, 800, 1500]), keep_head=self.random.choice([0, 1, 2]))
        self.fields = {"model": model, "max_tokens": 100, "tools": [{"name": "t"}], "system": "be good", **way}
        self.messages: list[dict[str, Any]] = []
        self.answered: list[tuple[Body, list[dict[str, Any]]]] = []
        self.loses_memory, self.seen, self.number = loses_memory, Counter[str](), 0
        self.state = self._fresh()

    def _fresh(self) -> Session:
        return session(self.policy, on_event=lambda event: self.seen.update([event.name]))

    def run(self, turns: int) -> None:
        """So many questions, each with a tool loop of random length."""
        for turn in range(turns):
            self.messages.append({"role": "user", "content": f"q{turn} " + "word " * self.random.randrange(5, 60)})
            steps = self.random.choice([0, 0, 1, 2, 6, 14])
            for step in range(steps + 1):
                self.ask(thinks=step == 0 or self.random.random() < 0.7, calls=step < steps)

    def ask(self, *, thinks: bool, calls: bool) -> None:
        """One request; its answer, and the tool's result, are appended as an application does."""
        if self.random.random() < self.loses_memory:
            self.state = self._fresh()
        body = {**self.fields, "messages": list(self.messages)}
        sent, _ = leave(self.state, anthropic_messages, body, lambda leaving: self._judged(leaving, body))
        self.number += 1
        content: list[dict[str, Any]] = []
        if thinks:
            text = "hm " * self.random.randrange(3, 30)
            content.append({"type": "thinking", "thinking": text, "signature": f"sig{self.number}"})
        if calls:
            content.append({"type": "tool_use", "id": f"toolu_{self.number}", "name": "t", "input": {"n": self.number}})
        else:
            content.append({"type": "text", "text": "done " * self.random.randrange(1, 20)})
        self.messages.append({"role": "assistant", "content": content})
        self.answered.append((sent, content))
        if calls:
            result = {
                "type": "tool_result",
                "tool_use_id": f"toolu_{self.number}",
                "content": "r " * self.random.randrange(3, 200),
            }
            self.messages.append({"role": "user", "content": [result]})

    def _judged(self, sent: Body, body: Body) -> None:
        broken = found("anthropic-messages", sent, body, history=self.answered)
        if set(broken) == {"an-think-bound"}:
            raise Refused(BOUND)
        assert not broken


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", [BINDING, "claude-opus-5", "claude-sonnet-4-5"])
def test_thinking_is_never_refused(model: str, way: str) -> None:
    """In 15 random agent conversations no request is refused, with the judge knowing every body that was sent before."""
    applied = 0
    for seed in range(15):
        agent = Agent(seed, model, WAYS[way])
        agent.run(6)
        applied += agent.seen["compaction.applied"]
        assert not agent.seen["compaction.recovered"]
        assert not agent.seen["compaction.rejected"]
    assert applied > 100


@pytest.mark.parametrize("way", ["default", "adaptive"])
def test_lost_memory_costs_one_retry_at_most(way: str) -> None:
    """When the memory is lost again and again, the request is sent once more without thinking, and then accepted."""
    for seed in range(15):
        Agent(seed, BINDING, WAYS[way], loses_memory=0.3).run(6)


def _looped(steps: int, way: dict[str, Any], model: str = BINDING) -> Body:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "old " * 200},
        {"role": "assistant", "content": "fine"},
    ]
    messages.append({"role": "user", "content": "go"})
    for n in range(steps):
        thought = {"type": "thinking", "thinking": "hm " * 40, "signature": f"s{n}"}
        call = {"type": "tool_use", "id": f"toolu_{n}", "name": "t", "input": {}}
        messages.append({"role": "assistant", "content": [thought, call]})
        messages.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": "r " * 90}]}
        )
    return {"model": model, "max_tokens": 9, "messages": messages, "tools": [{"name": "t"}], **way}


def test_an_open_loop_waits_only_where_thinking_binds() -> None:
    """With thinking `enabled` by hand, a model that binds waits for the end of the loop; others drop whole exchanges of it."""
    waiting = leave(session(DropOldest(300, keep_head=0)), anthropic_messages, _looped(8, WAYS["enabled"]))
    assert waiting[1].reason == "open thinking loop"
    body = _looped(8, WAYS["enabled"], "claude-opus-5")
    sent, report = leave(session(DropOldest(300, keep_head=0)), anthropic_messages, body)
    assert report.changed
    assert sent["messages"][-2] is body["messages"][-2]  # kept thinking is the caller's own object


def test_a_request_that_allows_drop_block_does_not_wait() -> None:
    """`prefix_mismatch_behavior: drop_block` in the request lifts both the wait and the stripping."""
    way = {"thinking": {"type": "enabled", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}}
    _, report = leave(session(DropOldest(300, keep_head=0)), anthropic_messages, _looped(8, way))
    assert report.changed
    assert not report.replaced


def test_thinking_between_the_cut_and_the_edit_goes_whole_and_is_reported() -> None:
    """On a model that binds, kept items after the cut lose their thinking whole; the report says so, item by item."""
    body = _looped(8, WAYS["adaptive"])
    sent, report = leave(session(DropOldest(900, keep_head=0)), anthropic_messages, body)
    kinds = [block["type"] for message in sent["messages"] for block in message["content"] if isinstance(block, dict)]
    assert "thinking" not in kinds
    assert "tool_use" in kinds
    assert {event.kind for event in report.replaced} == {"stripped"}
    assert all(event.tokens_after < event.tokens for event in report.replaced)
    assert report.tokens_after == report.tokens_before - sum(event.tokens for event in report.dropped) - sum(
        event.tokens - event.tokens_after for event in report.replaced
    )


def test_an_item_with_nothing_but_thinking_goes_with_it() -> None:
    """An assistant item of thinking and white space alone would be refused as empty once stripped, so it goes."""
    body = _looped(4, WAYS["adaptive"])
    blank = [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "\n\n"}]
    body["messages"][5:5] = [{"role": "assistant", "content": blank}, {"role": "user", "content": "next"}]
    sent, _ = leave(session(DropOldest(500, keep_head=0)), anthropic_messages, body)
    assert not found("anthropic-messages", sent, body)


def test_recovery_strips_once_and_is_remembered() -> None:
    """After "bound to a different conversation" the request goes out once more without thinking, and so do the next ones."""
    body = _looped(3, WAYS["adaptive"])
    events: list[Any] = []
    state = session(DropOldest(100_000), on_event=events.append)
    refusals = [Refused(BOUND)]

    def provider(_: Body) -> None:
        if refusals:
            raise refusals.pop()

    sent, report = leave(state, anthropic_messages, body, provider)
    assert "thinking" not in repr([m["content"] for m in sent["messages"] if m["role"] == "assistant"])
    assert [event.name for event in events].count("compaction.recovered") == 1
    assert report.changed
    again, _ = leave(state, anthropic_messages, body, provider)
    assert again["messages"] == sent["messages"]


def test_a_second_refusal_reaches_the_caller() -> None:
    """The request is sent once more, once: the provider's second answer is the caller's."""
    attempts: list[Body] = []

    def provider(leaving: Body) -> None:
        attempts.append(leaving)
        raise Refused(BOUND)

    with pytest.raises(Refused):
        leave(session(DropOldest(100_000)), anthropic_messages, _looped(3, WAYS["adaptive"]), provider)
    assert len(attempts) == 2


@pytest.mark.parametrize(
    ("model", "version"),
    [
        ("claude-opus-5-1-20260801", (5, 1)),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", (4, 5)),
        ("claude-sonnet-4-20250514", (4, 0)),
        ("claude-fable-5", (5, 0)),
        ("claude-3-5-haiku-20241022", (0, 0)),
        ("gpt-4o", (0, 0)),
    ],
)
def test_versions_of_model_names(model: str, version: tuple[int, int]) -> None:
    """A model's version is read from the names that the API, Bedrock and Vertex give it."""
    assert thinking.version(model) == version
