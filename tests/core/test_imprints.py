"""Imprints: the sizes are those of the items, and what fits at a glance does fit."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from compacting_client.core import imprints
from compacting_client.core.tokens import estimate
from compacting_client.formats import anthropic_messages, openai_chat
from tests.strategies import chats, odd_chats, to_anthropic, to_chat

anything = st.text(st.characters(codec=None))  # lone surrogates included
messages = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system", "developer"]), "content": anything}),
    st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": anything, "content": anything}),
    st.fixed_dictionaries({"role": st.just("function"), "name": anything, "content": anything}),
    st.fixed_dictionaries({"role": st.just("user"), "name": anything, "content": anything}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": st.none(), "refusal": anything}),
)


@given(st.lists(messages))
def test_an_imprint_weighs_what_its_item_weighs(history: list[dict[str, Any]]) -> None:
    """ctx-compact's estimate of every message, whatever its text, role and fields."""
    read = openai_chat.read({"messages": history})
    assert imprints.sizes(read.contents.imprints, read.roles) == list(map(estimate, history))


@settings(deadline=None)
@given(st.one_of(chats(), odd_chats()), st.floats(0, 2))
def test_what_fits_at_a_glance_fits(history: list[dict[str, Any]], share: float) -> None:
    """The glance may miss that a history fits; it never says so of one that does not."""
    for wire, body in ((openai_chat, to_chat(history)), (anthropic_messages, to_anthropic(history))):
        total = sum(map(estimate, body["messages"]))
        limit = total * share
        assert total <= limit or not wire.read(body).fits(limit)


def test_a_glance_is_enough_where_there_is_room() -> None:
    """Plain text well below the limit is not counted message by message."""
    history = [{"role": role, "content": "naïve 列車 🎉 " * 40} for role in ("user", "assistant") * 50]
    assert openai_chat.read({"messages": history}).fits(2 * sum(map(estimate, history)))


def test_a_glance_never_passes_over_a_picture() -> None:
    """A short address of a picture costs far more than its characters."""
    part = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    body = {"messages": [{"role": "user", "content": [part]}]}
    assert not openai_chat.read(body).fits(100)
