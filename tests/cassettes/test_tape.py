"""How cassettes are made: the same file whenever and wherever it is recorded, and a clear word where nothing can be recorded."""

import importlib.util
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cassettes.record import main
from cassettes.scenarios import SCENARIOS
from cassettes.tape import path_of, sent, tape
from compacting_client.testing import Provider, ToolCall


def recorded(name: str, path: Path) -> str:
    """What a scenario's cassette holds, recorded from the loopback provider, which makes up new ids each time."""
    with Provider() as provider:
        provider.reply(ToolCall("look_up_parcel", {"number": 1}), ToolCall("look_up_parcel", {"number": 2}))
        provider.reply(ToolCall("look_up_parcel", {"number": 3}))
        provider.reply("None of them is late.")
        root = provider.openai_url.removesuffix("/v1")
        with tape(str(path), record=True):
            SCENARIOS[name].perform(root)
        assert provider.pending == 0
        calls = [call["id"] for each in provider.requests[-1].body["messages"] for call in each.get("tool_calls") or ()]
    text = path.with_suffix(".yaml").read_text(encoding="utf-8")
    assert len(calls) == 3
    assert not any(made_up in text for made_up in calls)
    return text


@pytest.mark.parametrize("name", ["openai-tools", "openai-tools-async"])
def test_recording_again_writes_the_same_file(name: str, tmp_path: Path) -> None:
    """Ports, ids and times differ from one recording to the next, the files do not; a file that is there is replaced."""
    first = recorded(name, tmp_path / "tape")
    assert recorded(name, tmp_path / "tape") == first
    assert recorded(name, tmp_path / "other") == first


def test_what_was_recorded_is_played(tmp_path: Path) -> None:
    """Numbered ids pair calls and results as the server's own did, and have their length."""
    recorded("openai-tools", tmp_path / "tape")
    with tape(str(tmp_path / "tape")) as cassette:
        outcome = SCENARIOS["openai-tools"].perform("http://127.0.0.1:9")
        assert cassette.all_played
        messages = sent(cassette.requests[-1])["messages"]
    assert outcome.texts == ["None of them is late."]
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == calls
    assert all(re.fullmatch(r"call_0{8,}\d+", call) for call in calls)


def test_a_message_that_is_sent_again_is_written_once() -> None:
    """Which keeps a cassette small, and shows what of the history is still there."""
    text = path_of("openai-chat").read_text(encoding="utf-8")
    assert text.count("Next stop: Madrid.") == 1
    with tape("openai-chat") as cassette:
        assert sum("Next stop: Madrid." in str(sent(request)) for request in cassette.requests) > 1


without_aiohttp = pytest.mark.skipif(
    importlib.util.find_spec("aiohttp") is not None, reason="aiohttp is installed here: the recorder stops at that"
)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """What `python -m cassettes.record` says when it cannot record; no cassette has changed."""

    def record(name: str) -> str:
        before = {name: path_of(name).read_bytes() for name in SCENARIOS}
        assert main([name]) == 1
        assert {name: path_of(name).read_bytes() for name in SCENARIOS} == before
        return capsys.readouterr().err

    return record


def test_an_unknown_scenario_is_named(refused: Callable[[str], str]) -> None:
    """With those that there are."""
    assert "no scenario is called nothing; there are: openai-chat, " in refused("nothing")


def test_nothing_is_recorded_where_aiohttp_is_installed(
    refused: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Google's SDK would send through it, and the cassettes would not play elsewhere."""
    (tmp_path / "aiohttp.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert "aiohttp is installed" in refused("openai-chat")


@without_aiohttp
def test_nothing_is_recorded_without_npm(
    refused: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder says what is missing, and what needs it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert re.search("npm is not on PATH: @copilotkit/aimock.* needs Node.js", refused("openai-chat"))


@without_aiohttp
def test_nothing_is_recorded_without_llmock(refused: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pip cannot get it, its own words are shown."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert re.search(r"cannot install llmock==.*:\n.*\w", refused("openai-window"))
