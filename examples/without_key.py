"""Lets the examples run without a key and without a network.  An application needs nothing of this."""

from __future__ import annotations

import os

from compacting_client.testing import Provider, Thinking, ToolCall

Answer = str | ToolCall | list[str | Thinking | ToolCall]


def loopback(*answers: Answer) -> None:
    """For each SDK whose key is not set: its environment variables lead to a provider on this machine, which gives these `answers`.

    An answer is a text, a tool call, or a list of parts.  Further requests are answered with a sentence.  Where a key is set the SDK
    finds it by itself, and talks to the real provider.
    """
    provider = Provider(default=lambda _: "A calm day: the wind held, and we made good way to the west.").start()
    for answer in answers:
        provider.reply(*(answer if isinstance(answer, list) else [answer]))
    for name in ("NO_PROXY", "no_proxy"):  # it is behind no proxy
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1"]))
    if not os.environ.get("OPENAI_API_KEY"):
        os.environ |= {"OPENAI_BASE_URL": provider.openai_url, "OPENAI_API_KEY": "loopback"}
    if not os.environ.get("ANTHROPIC_API_KEY"):
        os.environ |= {"ANTHROPIC_BASE_URL": provider.anthropic_url, "ANTHROPIC_API_KEY": "loopback"}
    if not os.environ.get("GEMINI_API_KEY") and not os.environ.get("GOOGLE_API_KEY"):
        os.environ |= {"GOOGLE_GEMINI_BASE_URL": provider.google_url, "GEMINI_API_KEY": "loopback"}
