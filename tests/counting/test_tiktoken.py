"""``counter="tiktoken"``: by a vocabulary that has to be there; what cannot be had is told when wrapping."""

import sys
from pathlib import Path
from typing import Any

import openai
import pytest
import tiktoken

from compacting_client import ConfigError, DropOldest, compacting, control
from compacting_client.counters import MESSAGE_TOKENS
from compacting_client.testing import Provider
from tests.core.test_tokens import png

BYTES = {bytes([value]): value for value in range(256)}
TINY = tiktoken.Encoding(
    name="tiny",
    pat_str=r"[a-z]+|\s|[^a-z\s]+",
    mergeable_ranks={**BYTES, b"se": 256, b"sea": 257, b"wi": 258, b"nd": 259, b"wind": 260},
    special_tokens={},
)
"""A vocabulary of all bytes and two words: "sea" is one token, "wind" another, all else a token for each byte."""


class Counting:
    """The same, and what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode_ordinary(self, text: str) -> list[int]:
        """The tokens of a text."""
        self.asked.append(text)
        return TINY.encode_ordinary(text)


def unavailable(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """No vocabulary in this process or on this machine, and a network that leads nowhere."""
    monkeypatch.delitem(tiktoken.registry.ENCODINGS, "o200k_base", raising=False)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_a_vocabulary_that_cannot_be_had_is_told_when_wrapping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With what to do; the error of tiktoken itself is its cause."""
    unavailable(monkeypatch, tmp_path)
    with pytest.raises(
        ConfigError, match=r'counter="tiktoken" needs the vocabulary o200k_base.*TIKTOKEN_CACHE_DIR'
    ) as error:
        compacting(openai.OpenAI(api_key="test"), 400, counter="tiktoken")
    assert "ConnectionError" in str(error.value) or "ProxyError" in str(error.value)
    assert error.value.__cause__ is not None


def test_a_package_that_is_not_there_is_told_when_wrapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the name of the extra."""
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ConfigError, match=r'pip install "compacting-client\[tiktoken\]"'):
        compacting(openai.OpenAI(api_key="test"), 400, counter="tiktoken")


@pytest.mark.parametrize("value", ["gpt-5", "Tiktoken", "", 7, b"tiktoken", ["provider"]])
def test_other_names_are_no_counters(value: Any) -> None:
    """The error names the value, and what there is."""
    with pytest.raises(
        ConfigError, match=r'counter must be a function or None, not .*"tiktoken" and "provider"'
    ) as error:
        compacting(openai.OpenAI(api_key="test"), 400, counter=value)
    assert repr(value) in str(error.value)


def test_the_vocabulary_that_is_there_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name alone: "sea" is one token, four more stand around each message."""
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "o200k_base", TINY)
    with Provider() as provider, openai.OpenAI(base_url=provider.openai_url, api_key="test") as plain:
        client = compacting(plain, 400, counter="tiktoken")
        messages: Any = [{"role": "user", "content": "sea wind"}]
        response = client.chat.completions.create(model="gpt-5", messages=messages)
        report = control(client).report_for(response)
    assert report is not None
    assert report.tokens_before == MESSAGE_TOKENS + 3


def chat(turns: int) -> list[Any]:
    """Questions of 10 tokens and answers of 6, and what stands around them."""
    said = [("wind " * 5, "sea " * 3)] * turns
    pairs = [[{"role": "user", "content": ask}, {"role": "assistant", "content": answer}] for ask, answer in said]
    return [*(message for pair in pairs for message in pair), {"role": "user", "content": "wind"}]


def test_it_decides_trigger_and_cut_and_is_never_calibrated() -> None:
    """The figures are the vocabulary's, whatever the provider says that it counted."""
    size = 24 * 10 + 5
    with (
        Provider(tokenizer=lambda text: 7 * len(text)) as provider,
        openai.OpenAI(base_url=provider.openai_url, api_key="test") as plain,
    ):
        client = compacting(plain, DropOldest(size, target=0.5), counter=TINY)
        for turns, changed in ((8, False), (9, False), (10, False), (11, True)):
            client.chat.completions.create(model="gpt-5", messages=chat(turns))
            report = control(client).last_report
            assert report is not None
            assert report.tokens_before == 24 * turns + 5
            assert report.changed is changed
        assert report is not None
        assert report.tokens_after <= size / 2


def test_pictures_by_the_formula_and_calls_by_their_json() -> None:
    """No base64 is tokenized; a picture is what it is for the estimate."""
    encoding = Counting()
    url = {"url": f"data:image/png;base64,{png(512, 512, 50_000)}"}
    shown = [{"type": "text", "text": "sea"}, {"type": "image_url", "image_url": url}]
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at": "sea"}'}}
    messages: Any = [
        {"role": "user", "content": shown},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "wind"},
    ]
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    with Provider() as provider, openai.OpenAI(base_url=provider.openai_url, api_key="test") as plain:
        client = compacting(plain, 10**6, counter=encoding)
        client.chat.completions.create(model="gpt-5", messages=messages, tools=tools)
        report = control(client).last_report
    assert report is not None
    assert 255 + 3 * MESSAGE_TOKENS < report.tokens_before < 255 + 400
    assert max(map(len, encoding.asked)) < 300
    assert "wind" in encoding.asked


def test_a_history_that_grew_is_not_tokenized_again() -> None:
    """Only what is new."""
    encoding = Counting()
    with Provider() as provider, openai.OpenAI(base_url=provider.openai_url, api_key="test") as plain:
        client = compacting(plain, 1_400, counter=encoding)
        client.chat.completions.create(model="gpt-5", messages=chat(40))
        assert len(encoding.asked) == 81
        encoding.asked.clear()
        client.chat.completions.create(model="gpt-5", messages=[*chat(40), *chat(1)])
        assert len(encoding.asked) <= 6
