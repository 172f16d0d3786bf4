"""Pictures, documents and sound count by what a model reads of them, neither nothing nor the length of their base64."""

import base64
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from compacting_client import DropOldest
from tests.cases.bench import APIS, CHAT, CLAUDE, MODES, OLDER, TARGETS, Body, Line, covers
from tests.cases.neighbours import body_of, to_claude, turn
from tests.cases.sound import assert_sound

MakeLine = Callable[..., Line]
each_api = pytest.mark.parametrize("api", APIS)
each_target = pytest.mark.parametrize("target", TARGETS)


def png(width: int, height: int, noise: int = 60_000) -> str:
    """A picture whose header tells its size, and whose base64 is as long as one likes."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk)) + b"A" * noise
    return base64.b64encode(data).decode()


def picture(api: str, data: str, **more: Any) -> Body:
    """A picture as a block of an API."""
    if api == CHAT:
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}", **more}}
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


@covers("062")
@each_target
@each_api
def test_a_pasted_screenshot_is_not_its_base64(api: str, target: float, line: MakeLine) -> None:
    """240,000 characters of base64 are one picture: nothing is compacted, the body leaves as it came."""
    body = body_of("062", api)
    trip = line(api, DropOldest(8000, target=target)).send(body)
    assert_sound(trip)
    assert trip.left == body
    assert 85 <= trip.report.tokens_before <= 2000
    for mode in MODES[1:]:
        assert line(api, DropOldest(8000, target=target), mode).send(body).messages == body["messages"]


MEDIA: dict[str, tuple[str, Body]] = {
    "chat png": (CHAT, picture(CHAT, png(800, 600))),
    "chat low": (CHAT, picture(CHAT, png(800, 600), detail="low")),
    "chat url": (CHAT, {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}),
    "chat audio": (CHAT, {"type": "input_audio", "input_audio": {"data": "QUJD" * 200_000, "format": "wav"}}),
    "chat file": (
        CHAT,
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64," + "QUJD" * 20_000}},
    ),
    "chat video": (CHAT, {"type": "video_url", "video_url": {"url": "data:video/mp4;base64," + "QUJD" * 20_000}}),
    "claude png": (CLAUDE, picture(CLAUDE, png(800, 600))),
    "claude broken": (CLAUDE, picture(CLAUDE, "QUJD" * 20_000)),
    "claude url": (CLAUDE, {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}),
    "claude pdf": (
        CLAUDE,
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD" * 20_000}},
    ),
    "claude document of pictures": (
        CLAUDE,
        {"type": "document", "source": {"type": "content", "content": [picture(CLAUDE, png(800, 600))]}},
    ),
}


@covers("062")
@pytest.mark.parametrize("media", MEDIA)
def test_media_of_every_kind_count_by_what_is_read_of_them(media: str, line: MakeLine) -> None:
    """Neither nothing nor the length of their base64, in a question, an old turn, or a tool's result."""
    api, block = MEDIA[media]
    counted = line(api, 1)
    for shown, without in zip(shots(api, block), shots(api, {"type": "text", "text": "x"}), strict=True):
        assert 50 <= counted.size(shown) - counted.size(without) <= 8_000
        assert_sound(line(api, DropOldest(8_200)).send(shown))


def shots(api: str, block: Body) -> list[Body]:
    """Histories with a block in the question, in an old turn, and in the result of a tool."""
    question = {"role": "user", "content": [{"type": "text", "text": "See."}, block]}
    function = {"name": "shot", "arguments": "{}"}
    call: Body = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": function}],
    }
    loop = [{"role": "user", "content": "Shoot."}, call, {"role": "tool", "tool_call_id": "a", "content": [block]}]
    shot = {"messages": loop} if api == CHAT else to_claude({"messages": loop})
    listed = ([question], [question, *turn("Seen.", "And?")], shot["messages"])
    return [{"model": OLDER, "max_tokens": 9, "messages": messages} for messages in listed]


@covers("062")
@each_api
def test_a_larger_picture_counts_more_whatever_its_file_weighs(api: str, line: MakeLine) -> None:
    """The formula goes by pixels: the same figure for a heavy and a light file of one size."""

    def figure(width: int, height: int, noise: int) -> float:
        content = [picture(api, png(width, height, noise))]
        return line(api, 1).size({"model": OLDER, "max_tokens": 9, "messages": [{"role": "user", "content": content}]})

    assert figure(800, 600, 10) == figure(800, 600, 90_000)
    assert figure(64, 64, 90_000) < figure(800, 600, 10) <= figure(4000, 3000, 10)


@covers("062")
@each_api
def test_the_callers_own_counter_wins_over_the_formula(api: str, line: MakeLine) -> None:
    """Who counts the base64 gets a compaction by it; the question stays all the same."""
    body = body_of("062", api)
    trip = line(api, 8000, counter=lambda message: len(json.dumps(message)) // 4).send(body)
    assert_sound(trip)
    assert trip.report.tokens_before > 50_000
    assert not trip.report.fits
    old = {**body, "messages": [*body["messages"], *turn("A typo.", "Where?")]}
    trip = line(api, DropOldest(8000, keep_tail=1), counter=lambda message: len(json.dumps(message)) // 4).send(old)
    assert trip.report.fits
    assert "QUJD" not in json.dumps(trip.messages)
