"""Sizes (DESIGN 5): ctx-compact's estimate on plain messages, the provider's formula for media."""

import base64
import struct
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compacting_client.core.tokens import dump, dump_all, estimate
from compacting_client.formats import anthropic_messages, media, openai_chat

plain = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text()})


@given(plain)
def test_the_estimate_is_that_of_ctx_compact(message: dict) -> None:
    """Equal to the unit on any text, emoji and control characters included."""
    reference = pytest.importorskip("ctx_compact", reason="the package whose numbers are reproduced")
    assert estimate(message) == reference.estimate_tokens(message)


@pytest.mark.parametrize(
    "value", [{"a": "\ud800"}, {"n": 10**30}, {1: "x"}, {"o": object()}, {"b": b"raw"}, {"s": {1, 2}}]
)
def test_odd_values_are_counted_and_never_raise(value: dict) -> None:
    """Lone surrogates, huge integers, objects and bytes cost something and raise nothing."""
    assert estimate({"role": "user", "content": value}) > 5


def test_a_field_that_is_not_given_is_no_part_of_the_json() -> None:
    """The SDKs leave it out; whatever else is odd in the value, and in a list, where it is null, nothing is lost."""
    omit, not_given = type("Omit", (), {})(), type("NotGiven", (), {})()
    block = {"type": "text", "text": "x", "citations": omit, "cache_control": not_given}
    assert dump(block) == dump({"type": "text", "text": "x"})
    assert dump({"content": [block], "name": omit}) == dump({"content": [{"type": "text", "text": "x"}]})
    assert dump_all([block, {"a": 1.5}]) == dump_all([{"type": "text", "text": "x"}, {"a": 1.5}])
    assert dump({"a": "\ud800", "b": omit}) == dump({"a": "\ud800"})
    assert dump([omit]) == b"[null]"
    cycle: dict = {"a": omit}
    cycle["self"] = cycle
    assert estimate(cycle) > 0


def test_a_cycle_is_counted() -> None:
    """A message that holds itself cannot be sent, but counting it does not fail."""
    message: dict = {"role": "user"}
    message["self"] = message
    assert estimate(message) > 0


def test_key_order_does_not_change_the_json() -> None:
    """One serialisation serves estimate and digest, so it is canonical."""
    assert dump({"a": 1, "b": [{"d": 1, "c": 2}]}) == dump({"b": [{"c": 2, "d": 1}], "a": 1})


def pdf(pages: int, name: str) -> str:
    """A base64 document that shows so many pages."""
    return base64.b64encode(name.encode() + b"/Type /Page " * pages + b"/Type /Pages").decode()


def test_a_document_that_comes_again_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that is equal to it; of many, those that came last; nothing of it is held."""
    decode, lengths = base64.b64decode, list[int]()

    def decoding(text: str) -> bytes:
        lengths.append(len(text))
        return decode(text)

    monkeypatch.setattr(base64, "b64decode", decoding)
    first = pdf(3, "first")
    held = sys.getrefcount(first)
    assert [media.pages(first), media.pages(pdf(3, "first")), media.pages(pdf(2, "other"))] == [3, 3, 2]
    assert sys.getrefcount(first) == held
    assert len(lengths) == 2
    for number in range(1_000):
        media.pages(pdf(1, f"one of many, {number}"))
    assert media.pages(first) == 3
    assert len(lengths) == 1_003
    assert len(media._counted) == 1_000


def png(width: int, height: int, noise: int = 0) -> str:
    """A base64 PNG of this size, with so many bytes of ballast."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    raw = b"\x89PNG\r\n\x1a\n" + header + chunk(b"tEXt", b"x" * noise) + chunk(b"IEND", b"")
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    ("width", "height", "detail", "tokens"),
    [(512, 512, None, 255), (1024, 1024, "high", 765), (2048, 4096, None, 1105), (4096, 8192, "low", 85)],
)
def test_pictures_on_openai(width: int, height: int, detail: str | None, tokens: int) -> None:
    """The figures of the provider's vision guide, whatever the picture weighs (litellm-style reports of 398k tokens)."""
    url = {
        "url": f"data:image/png;base64,{png(width, height, noise=200_000)}",
        **({"detail": detail} if detail else {}),
    }
    body = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": url}]}]}
    conversation = openai_chat.read(body)
    assert conversation.contents.media == {0: tokens}


@pytest.mark.parametrize(
    ("width", "height", "tokens"), [(200, 200, 53), (1000, 1000, 1333), (1092, 1092, 1589), (4000, 4000, 1600)]
)
def test_pictures_on_anthropic(width: int, height: int, tokens: int) -> None:
    """Width x height / 750 after fitting, in a message and inside a tool result alike."""
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": png(width, height, 90_000)},
    }
    result = {"type": "tool_result", "tool_use_id": "t", "content": [image]}
    for block in (image, result):
        conversation = anthropic_messages.read({"messages": [{"role": "user", "content": [block]}]})
        assert conversation.contents.media == {0: tokens}
        assert len(conversation.contents.imprints[0]) < 400


@pytest.mark.parametrize(
    "data", ["", "!!!", "data:image/png;base64,", base64.b64encode(b"GIF89a").decode(), "QUJD" * 9]
)
def test_a_picture_that_hides_its_size_costs_a_fixed_figure(data: str) -> None:
    """A broken header costs neither the request nor a fortune."""
    assert media.picture_size(data) is None


def test_documents_are_counted_by_pages() -> None:
    """Two pages cost twice one page, whatever the file weighs."""
    pdf = base64.b64encode(b"%PDF-1.4 /Type /Pages /Type /Page >> /Type/Page " + b"x" * 99_999).decode()
    assert media.document_tokens(pdf) == 2 * media.PAGE_TOKENS
    assert media.document_tokens("") == media.PAGE_TOKENS


def test_sound_is_counted_by_the_second() -> None:
    """One second of 24 kHz 16-bit wave data is ten tokens, as the provider counts user audio."""
    assert media.audio_tokens("A" * 64_000, "wav") in (10, 11)


def test_tools_and_system_are_counted() -> None:
    """Arguments of calls and tool definitions weigh as much as they are long (odysseus-dev/odysseus#2748)."""
    call = {"id": "d", "type": "function", "function": {"name": "f", "arguments": "x" * 40_000}}
    conversation = openai_chat.read({"messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]})
    assert estimate(conversation.items[0]) > 10_000
