"""The estimate covers all that is sent, on each API: whatever is left out of it here would overflow there."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types

from compacting_client import DropOldest
from compacting_client.core.measure import Measure
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.formats.base import Format
from compacting_client.testing import Provider
from tests.cases.bench import case, covers
from tests.core.test_tokens import png
from tests.counting.conversations import CHAT, CLAUDE, GEMINI, reports_of
from tests.driving import Body

CHATS: Format = openai_chat
MESSAGES: Format = anthropic_messages
CONTENTS: Format = gemini_contents
LARGE = "chapter and verse " * 600
TOKENS = len(LARGE) / 4
ASKED: dict[Any, Body] = {
    CHATS: {"messages": [{"role": "user", "content": "Hi"}]},
    MESSAGES: {"messages": [{"role": "user", "content": "Hi"}]},
    CONTENTS: {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
}
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string", "description": LARGE}}}
TYPED = types.Content(role="user", parts=[types.Part(text=LARGE)])


def size(wire: Format, body: Body) -> float:
    """Tokens of a body by the estimate."""
    return Measure(wire.read({"model": "m", **body})).total


def user(wire: Format, *parts: Any) -> Body:
    """A body whose last message has these parts too."""
    key, content = ("contents", "parts") if wire is CONTENTS else ("messages", "content")
    return {
        key: [
            {"role": "user", content: [{"text": "Hi"} if wire is CONTENTS else {"type": "text", "text": "Hi"}, *parts]}
        ]
    }


HOMES: dict[str, tuple[Format, Body]] = {
    "chat system": (CHATS, {"messages": [{"role": "system", "content": LARGE}, *ASKED[CHATS]["messages"]]}),
    "chat developer": (CHATS, {"messages": [{"role": "developer", "content": LARGE}, *ASKED[CHATS]["messages"]]}),
    "chat system in parts": (
        CHATS,
        {"messages": [{"role": "system", "content": [{"type": "text", "text": LARGE}]}, *ASKED[CHATS]["messages"]]},
    ),
    "chat tools": (CHATS, {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]}),
    "chat functions": (CHATS, {"functions": [{"name": "f", "parameters": SCHEMA}]}),
    "chat schema": (
        CHATS,
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
    ),
    "messages system": (MESSAGES, {"system": LARGE}),
    "messages system in blocks": (
        MESSAGES,
        {"system": [{"type": "text", "text": LARGE, "cache_control": {"type": "ephemeral"}}]},
    ),
    "messages system inside": (
        MESSAGES,
        {"messages": [*ASKED[MESSAGES]["messages"], {"role": "system", "content": LARGE}]},
    ),
    "messages tools": (MESSAGES, {"tools": [{"name": "f", "input_schema": SCHEMA}]}),
    "messages schema": (MESSAGES, {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    "messages older schema": (MESSAGES, {"output_format": {"type": "json_schema", "schema": SCHEMA}}),
    "contents system": (CONTENTS, {"systemInstruction": {"parts": [{"text": LARGE}]}}),
    "contents system in snake case": (CONTENTS, {"system_instruction": {"parts": [{"text": LARGE}]}}),
    "contents system as text": (CONTENTS, {"config": {"system_instruction": LARGE}}),
    "contents system as an object": (CONTENTS, {"config": {"system_instruction": TYPED}}),
    "contents tools": (
        CONTENTS,
        {"tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": SCHEMA}]}]},
    ),
    "contents schema": (CONTENTS, {"generationConfig": {"responseJsonSchema": SCHEMA}}),
    "contents schema in snake case": (CONTENTS, {"config": {"response_schema": SCHEMA}}),
    "contents call": (
        CONTENTS,
        {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"x": LARGE}}}]}]},
    ),
    "contents result": (
        CONTENTS,
        {"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"x": LARGE}}}]}]},
    ),
    "contents code": (CONTENTS, user(CONTENTS, {"executableCode": {"language": "PYTHON", "code": LARGE}})),
    "contents typed": (CONTENTS, {"contents": [TYPED]}),
}


@pytest.mark.parametrize("home", HOMES)
def test_no_home_of_a_text_is_overlooked(home: str) -> None:
    """System prompts, tools, schemas, calls and results count in full, once."""
    wire, body = HOMES[home]
    more = size(wire, {**ASKED[wire], **body}) - size(wire, ASKED[wire])
    assert TOKENS * 0.98 <= more <= TOKENS + 90


@pytest.mark.parametrize("wire", ASKED, ids=lambda wire: wire.API)
@pytest.mark.parametrize("text", ["плывём ", "नाव ", "🌊⛵", "海", "ß"])
def test_every_script_counts_by_its_utf16_length(text: str, wire: Format) -> None:
    """A letter outside ASCII is one unit, an emoji two; no escapes, no bytes. What a tokenizer makes of it is for the calibration."""
    units = len((text * 1_000).encode("utf-16-le")) / 2
    field, parts = ("contents", "parts") if wire is CONTENTS else ("messages", "content")
    content: Any = [{"text": text * 1_000}] if wire is CONTENTS else text * 1_000
    alone: Any = [{"text": ""}] if wire is CONTENTS else ""
    figures = [size(wire, {field: [{"role": "user", parts: each}]}) for each in (content, alone)]
    assert abs(figures[0] - figures[1] - units / 4) <= 1


BYTES = base64.b64encode(b"x" * 300_000).decode()
PDF = base64.b64encode(b"%PDF-1.4 /Type /Page >> /Type /Page " + b"x" * 300_000).decode()
HEAVY = png(700, 700, 300_000)
MEDIA: dict[str, tuple[Format, Any, tuple[int, int]]] = {
    "chat picture": (CHATS, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{HEAVY}"}}, (765, 800)),
    "chat document": (
        CHATS,
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}},
        (6_000, 6_020),
    ),
    "messages picture": (
        MESSAGES,
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": HEAVY}},
        (653, 680),
    ),
    "messages document": (
        MESSAGES,
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
        (6_000, 6_030),
    ),
    "messages picture of a result": (
        MESSAGES,
        {
            "type": "tool_result",
            "tool_use_id": "t",
            "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": HEAVY}}],
        },
        (653, 700),
    ),
    "contents picture": (CONTENTS, {"inlineData": {"mimeType": "image/png", "data": HEAVY}}, (258, 280)),
    "contents large picture": (
        CONTENTS,
        {"inline_data": {"mime_type": "image/png", "data": png(1000, 700)}},
        (516, 540),
    ),
    "contents raw bytes": (
        CONTENTS,
        {"inline_data": {"mime_type": "image/png", "data": base64.b64decode(HEAVY)}},
        (258, 280),
    ),
    "contents document": (CONTENTS, {"inlineData": {"mimeType": "application/pdf", "data": PDF}}, (516, 540)),
    "contents film": (
        CONTENTS,
        {"fileData": {"mimeType": "video/mp4", "fileUri": "https://example.org/a.mp4"}},
        (15_000, 16_000),
    ),
    "contents unknown bytes": (CONTENTS, {"inlineData": {"mimeType": "image/jpeg", "data": BYTES}}, (1_032, 1_050)),
    "contents picture of a result": (
        CONTENTS,
        {
            "functionResponse": {
                "name": "f",
                "response": {},
                "parts": [{"inlineData": {"mimeType": "image/png", "data": HEAVY}}],
            }
        },
        (258, 320),
    ),
}


@pytest.mark.parametrize("media", MEDIA)
def test_media_count_by_the_formula_of_their_provider(media: str) -> None:
    """Never by their base64, of which most of these have 400,000 characters, and never nothing."""
    wire, part, (least, most) = MEDIA[media]
    assert least <= size(wire, user(wire, part)) - size(wire, user(wire)) <= most


@covers("109")
async def test_pictures_that_are_only_data_start_the_compaction(counting_provider: Callable[..., Provider]) -> None:
    """Each counts a documented figure, so a history of many is over the budget, and the oldest turns go, as pairs."""
    found = case("109")
    request, policy = found["request"], found["policy"]
    body = {name: each for name, each in request.items() if name != "model"}
    provider = counting_provider(GEMINI, lambda text: len(text) // 4)
    dropping = DropOldest(policy["max_tokens"], keep_head=policy["keep_head"], keep_tail=policy["keep_tail"])
    (report,) = await reports_of(provider, GEMINI, "sync", dropping, [body])
    sent = provider.requests[-1].body["contents"]
    assert report.trigger == "tokens"
    assert report.fits
    assert report.tokens_before < len(json.dumps(request)) / 4
    assert len(request["contents"]) > len(sent)
    assert [content["role"] for content in sent[:2]] == ["user", "model"][: len(sent)]


@covers("166")
@pytest.mark.parametrize("api", [CHAT, CLAUDE])
async def test_a_figure_of_one_request_triggers_nothing_in_the_next(
    api: str, counting_provider: Callable[..., Provider]
) -> None:
    """After a request of 9,000 tokens, which was compacted, one of 500 leaves as it came."""
    provider = counting_provider(api, lambda text: len(text) // 4)
    said = [{"role": ("user", "assistant")[n % 2], "content": f"{n} " + "words and more " * 260} for n in range(9)]
    long, short = {"messages": said}, {"messages": [{"role": "user", "content": "words and more " * 130}]}
    bodies: list[Body] = [{**body, **({"max_tokens": 50} if api == CLAUDE else {})} for body in (long, short)]
    first, second = await reports_of(provider, api, "sync", DropOldest(8_000), bodies)
    assert first.tokens_before > 8_000
    assert first.trigger == "tokens"
    assert not second.changed
    assert second.tokens_before < 600
