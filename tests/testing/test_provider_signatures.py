"""Thinking of Claude 5.1 and later is bound to the conversation it answered: the loopback provider keeps to that."""

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import pytest

from compacting_client.testing import Provider, Thinking, ToolCall
from compacting_client.testing.anthropic_messages import AnthropicMessages
from compacting_client.testing.signatures import binds
from compacting_client.testing.wire import Tokens
from tests import shared

Body = dict[str, Any]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture
def client(provider: Provider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=provider.anthropic_url, api_key="test", max_retries=0) as made:
        yield made


def loop(provider: Provider, client: anthropic.Anthropic, model: str = "claude-opus-5-2") -> Body:
    """A body after three rounds of thinking and calling, ready to be sent once more."""
    body: Body = {
        "model": model,
        "max_tokens": 1_000,
        "system": "You know the weather.",
        "tools": [{"name": "get_weather", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "Rome?"},
        ],
    }
    for number in range(3):
        provider.reply(Thinking(f"Thought {number}."), f"Look {number}.", ToolCall("get_weather", {"day": number}))
        answer = client.messages.create(**body).to_dict()
        call = answer["content"][-1]  # type: ignore[index]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "24"}
        body["messages"] += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": [result]}]
    return body


def refused(client: anthropic.Anthropic, body: Body) -> str | None:
    """The provider's words, or None where it answers."""
    try:
        client.messages.create(**body)
    except anthropic.BadRequestError as error:
        return error.message
    return None


def without_thinking(*turns: int) -> Callable[[Body], None]:
    def edit(body: Body) -> None:
        for turn in turns:
            body["messages"][turn]["content"] = [
                block for block in body["messages"][turn]["content"] if block["type"] != "thinking"
            ]

    return edit


def cut(body: Body) -> None:
    del body["messages"][:2]


def reworded(body: Body) -> None:
    body["messages"][0]["content"] = "Hi!"


def other_system(body: Body) -> None:
    body["system"] = "You know the weather. It is noon."


def more_tools(body: Body) -> None:
    body["tools"].append({"name": "get_time", "input_schema": {"type": "object"}})


def other_result(body: Body) -> None:
    body["messages"][4]["content"][0]["content"] = "[cleared]"


def cut_and_without(*turns: int) -> Callable[[Body], None]:
    def edit(body: Body) -> None:
        without_thinking(*turns)(body)
        cut(body)

    return edit


def marked(body: Body) -> None:
    body["messages"][0]["content"] = [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]
    body["system"] = [{"type": "text", "text": body["system"], "cache_control": {"type": "ephemeral"}}]


def nothing(body: Body) -> None:
    pass


@pytest.mark.parametrize("edit", [cut, reworded, other_system, more_tools, cut_and_without(3), without_thinking(5)])
def test_an_edit_before_kept_thinking_is_refused(
    provider: Provider, client: anthropic.Anthropic, edit: Callable[[Body], None]
) -> None:
    """System, tools, older messages, and thinking from the middle: all of it is what later thinking was signed for."""
    body = loop(provider, client)
    edit(body)
    words = str(refused(client, body))
    assert (
        "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set"
        in words
    )
    recorded = provider.requests[-1]
    assert recorded.refusal is not None
    assert (recorded.status, recorded.refusal.rule) == (400, "an-think-bound")


@pytest.mark.parametrize(
    "edit",
    [nothing, marked, without_thinking(3), without_thinking(3, 5), without_thinking(3, 5, 7), cut_and_without(3, 5, 7)],
)
def test_what_may_change_is_accepted(
    provider: Provider, client: anthropic.Anthropic, edit: Callable[[Body], None]
) -> None:
    """Cache marks and spellings, the oldest thinking gone, and any edit with all thinking gone."""
    body = loop(provider, client)
    edit(body)
    assert refused(client, body) is None


def test_an_edit_leaves_the_thinking_before_it_valid(provider: Provider, client: anthropic.Anthropic) -> None:
    """A result changed between the first and second thought breaks the second, and the error names its place."""
    body = loop(provider, client)
    other_result(body)
    assert "messages.5.content.0: Invalid `signature`" in str(refused(client, body))
    without_thinking(5, 7)(body)
    assert refused(client, body) is None


def test_thinking_made_after_an_edit_belongs_to_what_was_sent(provider: Provider, client: anthropic.Anthropic) -> None:
    """It stands in the edited history, and no longer in the caller's."""
    whole = loop(provider, client)
    edited = copy.deepcopy(whole)
    cut_and_without(3, 5, 7)(edited)
    provider.reply(Thinking("After the cut."), "Fine.")
    answer = {"role": "assistant", "content": client.messages.create(**edited).to_dict()["content"]}
    more = [answer, {"role": "user", "content": "Oslo?"}]
    assert refused(client, {**edited, "messages": [*edited["messages"], *more]}) is None
    assert "messages.9.content.0" in str(refused(client, {**whole, "messages": [*whole["messages"], *more]}))


def test_a_request_may_ask_to_drop_such_blocks(provider: Provider, client: anthropic.Anthropic) -> None:
    """`prefix_mismatch_behavior: drop_block` turns the refusal off."""
    body = loop(provider, client)
    cut(body)
    body["thinking"] = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert refused(client, body) is None


def test_older_models_and_unknown_signatures_are_not_bound(provider: Provider, client: anthropic.Anthropic) -> None:
    """Before 5.1 a cut is accepted; so is thinking that came from elsewhere."""
    body = loop(provider, client, model="claude-sonnet-4-6")
    cut(body)
    assert refused(client, body) is None
    body = loop(provider, client)
    for turn in (3, 5, 7):
        body["messages"][turn]["content"][0]["signature"] = f"from another provider {turn}"
    cut(body)
    assert refused(client, body) is None


@pytest.mark.parametrize("model", ["claude-sonnet-4-6", "claude-opus-5-2"])
def test_altered_thinking_is_refused(provider: Provider, client: anthropic.Anthropic, model: str) -> None:
    """A signature does not fit another text, on any model."""
    body = loop(provider, client, model)
    body["messages"][5]["content"][0]["thinking"] += " And more."
    assert "messages.5.content.0: Invalid `signature` in `thinking` block" in str(refused(client, body))
    recorded = provider.requests[-1]
    assert recorded.refusal is not None
    assert recorded.refusal.rule == "an-think-edited"


@pytest.mark.parametrize(
    ("model", "bound"),
    [
        ("claude-sonnet-5-1", True),
        ("claude-opus-5-2-20270101", True),
        ("anthropic/claude-haiku-5.1", True),
        ("eu.anthropic.claude-opus-6-v1:0", True),
        ("claude-10", True),
        ("claude-sonnet-5", False),
        ("claude-opus-4-8", False),
        ("claude-sonnet-4-20250514", False),
        ("claude-3-7-sonnet-20250219", False),
        ("claude-3-5-haiku-latest", False),
        ("gpt-5.2", False),
        (None, False),
    ],
)
def test_which_models_bind(model: str | None, bound: bool) -> None:
    """The version is read from names with dashes, dots, dates and platform prefixes."""
    assert binds(model) is bound


def grown(dice: random.Random, api: AnthropicMessages) -> tuple[Body, list[tuple[Body, list[Any]]]]:
    """A body after some answers, with every body sent on the way and what it was answered."""
    body: Body = {"model": "claude-opus-5-2", "system": "S", "messages": [{"role": "user", "content": "go"}]}
    history: list[tuple[Body, list[Any]]] = []
    for number in range(dice.randint(2, 5)):
        some: list[Any] = [Thinking(f"a {number}"), f"text {number}", Thinking(f"b {number}")]
        parts = [part for part in some if dice.random() < 0.6] or ["text"]
        content = api.answer(body, parts, Tokens(1, 0, 1, 0))["content"]
        history.append((copy.deepcopy(body), content))
        body["messages"] += [{"role": "assistant", "content": content}, {"role": "user", "content": f"next {number}"}]
    return body, history


def edited_somehow(dice: random.Random, body: Body) -> Body:
    """A copy with a few blocks or turns gone, respelled or reworded."""
    body = copy.deepcopy(body)
    for _ in range(dice.randint(0, 3)):
        message = dice.choice(body["messages"])
        content = message["content"]
        if isinstance(content, str):
            message["content"] = dice.choice([[{"type": "text", "text": content}], content + "!", content])
        elif len(content) > 1:
            del content[dice.randrange(len(content))]
        elif dice.random() < 0.3:
            body["messages"].remove(message)
        elif dice.random() < 0.2:
            body["system"] = "T"
    return body


def test_the_provider_and_the_judge_agree() -> None:
    """On 500 random edits of growing conversations both refuse, or neither does."""
    judge = shared.judge()
    verdicts: list[bool] = []
    for seed in range(500):
        dice, api = random.Random(seed), AnthropicMessages()
        body, history = grown(dice, api)
        body = edited_somehow(dice, body)
        refusal = api.refuse(body)
        bound = refusal is not None and refusal.rule == "an-think-bound"
        judged = judge.check("anthropic-messages", body, history=history)
        assert bound == any(violation.rule == "an-think-bound" for violation in judged) or (refusal and not bound), seed
        verdicts.append(bound)
    assert 100 < sum(verdicts) < 400
