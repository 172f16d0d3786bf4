"""Imprints: the sizes are those of the items, and what fits at a glance does fit."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compacting_client.core import imprints
from compacting_client.core.tokens import estimate
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.formats.base import Format
from tests.strategies import chats, odd_chats, to_anthropic, to_chat, to_gemini

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
@given(st.one_of(chats(), odd_chats()))
def test_an_imprint_weighs_what_its_item_weighs_in_every_api(history: list[dict[str, Any]]) -> None:
    """The JSON of a plain text is longer than the text by what its API writes around it."""
    for wire, body in ((anthropic_messages, to_anthropic(history)), (gemini_contents, to_gemini(history))):
        read = wire.read(body)
        sizes = imprints.sizes(read.contents.imprints, read.roles, read.plain.frames)
        assert sizes == list(map(estimate, body[wire.FIELD]))


@settings(deadline=None)
@given(st.one_of(chats(), odd_chats()), st.floats(0, 2))
def test_a_glance_says_nothing_that_is_not_so(history: list[dict[str, Any]], share: float) -> None:
    """It may miss whether a history fits; it never says so of one that does not, nor the contrary of one that does."""
    bodies = (
        (openai_chat, to_chat(history)),
        (anthropic_messages, to_anthropic(history)),
        (gemini_contents, to_gemini(history)),
    )
    for wire, body in bodies:
        total = sum(map(estimate, body[wire.FIELD]))
        limit = total * share
        assert wire.read(body).fits(limit) in (None, total <= limit)


def test_a_glance_is_enough_where_there_is_room() -> None:
    """Plain text well below the limit is not counted message by message."""
    history = [{"role": role, "content": "naïve 列車 🎉 " * 40} for role in ("user", "assistant") * 50]
    assert openai_chat.read({"messages": history}).fits(2 * sum(map(estimate, history)))


def test_a_glance_never_passes_over_a_picture() -> None:
    """A short address of a picture costs far more than its characters."""
    part = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    body = {"messages": [{"role": "user", "content": [part]}]}
    assert not openai_chat.read(body).fits(100)


def blocks(size: int) -> dict[str, list[dict[str, Any]]]:
    """Calls and results, of Anthropic messages and of Gemini contents."""
    use, result = {"type": "tool_use", "id": "a", "name": "f", "input": {}}, "naïve 列車 🎉 " * 40
    answer = {"type": "tool_result", "tool_use_id": "a", "content": result}
    call = {"functionCall": {"name": "f", "args": {}}}
    response = {"functionResponse": {"name": "f", "response": {"result": result}}}
    return {
        anthropic_messages.API: [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}] * size,
        gemini_contents.API: [{"role": "model", "parts": [call]}, {"role": "user", "parts": [response]}] * size,
    }


@pytest.mark.parametrize("wire", [anthropic_messages, gemini_contents], ids=lambda wire: wire.API)
def test_a_glance_is_enough_for_calls_and_results(wire: Format) -> None:
    """Lists of blocks well below the limit, and well above it, are not looked into either."""
    history = blocks(50)[wire.API]
    total = sum(map(estimate, history))
    for limit, fits in ((2 * total, True), (total / 2, False)):
        conversation = wire.read({wire.FIELD: history})
        assert conversation.fits(limit) is fits
        assert not conversation.is_read


URL = "https://example.com/a.png"
PICTURE = {"type": "image", "source": {"type": "url", "url": URL}}
FILE = {"fileData": {"mimeType": "image/png", "fileUri": URL}}
BESIDE_TEXT: list[tuple[Format, dict[str, Any]]] = [
    (anthropic_messages, {"content": [PICTURE]}),
    (anthropic_messages, {"content": [{"type": "tool_result", "tool_use_id": "a", "content": [PICTURE]}]}),
    (gemini_contents, {"parts": [FILE]}),
    (gemini_contents, {"parts": [{"file_data": FILE["fileData"]}]}),
    (gemini_contents, {"parts": [{"functionResponse": {"name": "f", "response": {}, "parts": [FILE]}}]}),
]


@pytest.mark.parametrize(("wire", "content"), BESIDE_TEXT)
def test_a_glance_never_passes_over_media(wire: Format, content: dict[str, Any]) -> None:
    """Wherever a block with a picture stands, its short address is not taken for what it costs."""
    assert wire.read({wire.FIELD: [{"role": "user", **content}]}).fits(200) is None
