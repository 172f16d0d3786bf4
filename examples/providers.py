"""Where the examples send their requests: to the real provider if its key is set, else to the loopback one, which needs neither key nor network."""

from __future__ import annotations

import os
from typing import Any

from compacting_client.testing import Provider, Thinking, ToolCall

Answer = str | ToolCall | list[Thinking | ToolCall]


def openai_options(*answers: Answer) -> dict[str, Any]:
    """What `OpenAI(...)` needs: nothing where OPENAI_API_KEY is set; else the loopback provider's address, which gives these `answers`."""
    if os.environ.get("OPENAI_API_KEY"):
        return {}
    return {"base_url": _loopback(answers).openai_url, "api_key": "loopback"}


def anthropic_options(*answers: Answer) -> dict[str, Any]:
    """What `Anthropic(...)` needs: nothing where ANTHROPIC_API_KEY is set; else the same."""
    if os.environ.get("ANTHROPIC_API_KEY"):
        return {}
    return {"base_url": _loopback(answers).anthropic_url, "api_key": "loopback"}


def google_options(*answers: Answer) -> dict[str, Any]:
    """What `genai.Client(...)` needs: nothing where GEMINI_API_KEY or GOOGLE_API_KEY is set; else the same."""
    if os.environ.get("GEMINI_API_KEY") or os.environ.get("GOOGLE_API_KEY"):
        return {}
    return {"http_options": {"base_url": _loopback(answers).google_url}, "api_key": "loopback"}


def _loopback(answers: tuple[Answer, ...]) -> Provider:
    for name in ("NO_PROXY", "no_proxy"):  # it is behind no proxy
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1"]))
    provider = Provider(default=lambda _: "A calm day: the wind held, and we made good way to the west.").start()
    for answer in answers:
        provider.reply(*(answer if isinstance(answer, list) else [answer]))
    return provider  # its threads end with the program
