"""A long chat and a tool loop through the real OpenAI, Anthropic and Google SDKs, against the loopback provider: no key, no network.

    make demo        (or: python -m examples.demo, in an environment that has the extras all and dev)

The provider has a context window and refuses what the real ones refuse: a tool result without its call, signed thinking in another
conversation than its own, a call without its signature, a prompt that is too long.  Exits with 1 if a request of a wrapped client was refused.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
from google import genai
from google.genai import types
from google.genai.errors import APIError as GoogleError

from compacting_client import DropOldest, Report, compact, compacting
from compacting_client.testing import Provider
from examples.demo import applications as app
from examples.demo import display, model
from examples.demo.display import console

WINDOW = 4_000  # tokens that the provider takes at most
BUDGET = 3_000  # tokens above which the library compacts, here down to half of it

Model = Callable[[Provider], None]
Application = Callable[[Any], Any]


def on_openai(provider: Provider) -> openai.OpenAI:
    return openai.OpenAI(base_url=provider.openai_url, api_key="none")


def on_anthropic(provider: Provider) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=provider.anthropic_url, api_key="none")


def on_gemini(provider: Provider) -> genai.Client:
    return genai.Client(api_key="none", http_options=types.HttpOptions(base_url=provider.google_url))


def by_hand(title: str, application: Application, answers: Model) -> None:
    """Let an application run on the plain client, and say what comes of it."""
    console.print(f"  {title}:")
    with Provider(window=WINDOW) as provider:
        answers(provider)
        try:
            responses = application(on_openai(provider))
        except openai.BadRequestError as error:
            reason: Any = error.body
            told = textwrap.fill(f"request {len(provider.requests)} is refused: {reason['message']}", 76)
            console.print(textwrap.indent(told, "    "), style="red", markup=False)
            return
    prompt = sum(response.usage.prompt_tokens for response in responses)
    cached = sum(response.usage.prompt_tokens_details.cached_tokens for response in responses)
    console.print(
        f"    accepted, but only {cached / prompt:.0%} of the prompt comes from the provider's cache", style="yellow"
    )


@dataclass
class Conversation:
    """An application on a wrapped client: the reports of its requests, and how many of them were refused."""

    title: str
    application: Application
    answers: Model
    client: Callable[[Provider], Any]
    how: str = ""
    reports: list[Report] = field(default_factory=list)
    refused: int = 0

    def hold(self, budget: int) -> None:
        """Let the application run, and show each request."""
        told = ""
        with Provider(window=WINDOW) as provider:
            self.answers(provider)
            client = compacting(self.client(provider), DropOldest(max_tokens=budget), on_report=self.reports.append)
            try:
                self.application(client)
            except (openai.APIStatusError, anthropic.APIStatusError, GoogleError) as error:
                told = str(error.message)
            self.refused = sum(request.status != 200 for request in provider.requests)
        display.requests(f"{self.title}{self.how}", self.reports)
        if told:
            console.print(f"{told}\n", style="red", markup=False)


def without() -> None:
    console.print(f"The provider takes {WINDOW:,} tokens at most.  [bold]Without the library:[/]\n")
    by_hand("a chat, sent as it is", app.chat_openai, model.chat)
    by_hand(
        "a tool loop, the system prompt and the last 10 messages sent",
        lambda client: app.tools_openai(client, trim=lambda messages: [messages[0], *messages[1:][-10:]]),
        model.tools,
    )
    by_hand(
        "the chat, trimmed to the budget anew for each request",
        lambda client: app.chat_openai(client, trim=lambda messages: compact(messages, max_tokens=BUDGET).messages),
        model.chat,
    )


def main(budget: int = BUDGET) -> int:
    os.environ.update(NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")  # the loopback provider is behind no proxy
    without()
    console.print(f"\n[bold]With compacting(client, DropOldest(max_tokens={budget:_})):[/]", display.LEGEND, sep="\n")
    conversations = [
        Conversation("Chat, OpenAI", app.chat_openai, model.chat, on_openai),
        Conversation("Chat, Anthropic", app.chat_anthropic, model.chat, on_anthropic, ": streamed"),
        Conversation("Chat, Gemini", app.chat_gemini, model.chat, on_gemini, ": the SDK keeps its history"),
        Conversation("Tool loop, OpenAI", app.tools_openai, model.tools, on_openai),
        Conversation("Tool loop, Anthropic", app.tools_anthropic, model.tools, on_anthropic, ": with signed thinking"),
        Conversation("Tool loop, Gemini", app.tools_gemini, model.tools, on_gemini, ": run by the SDK, signed calls"),
    ]
    for conversation in conversations:
        conversation.hold(budget)
    display.summary({each.title: (each.reports, each.refused) for each in conversations})
    console.print("\n[bold]The account of the last request, as print(report) shows it[/]\n")
    console.print(str(conversations[-1].reports[-1]), markup=False, soft_wrap=True)
    refused = sum(each.refused for each in conversations)
    if refused:
        console.print(f"\n{refused} requests of wrapped clients were refused.", style="red")
    else:
        console.print("\nNo request of a wrapped client was refused.", style="green")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
