"""A long chat and a tool loop through the real OpenAI and Anthropic SDKs, against the loopback provider: no key, no network.

    make demo        (or: python examples/demo.py, in an environment that has the extras openai, anthropic and dev)

The provider has a context window and refuses what the real ones refuse: a tool result without its call, signed thinking in another
conversation than its own, a prompt that is too long.  Exits with 1 if a request of a wrapped client was refused.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
from rich import box
from rich.console import Console
from rich.table import Table

from compacting_client import ContentDropped, DropOldest, Report, compact, compacting, control
from compacting_client.testing import Provider, Thinking, ToolCall

WINDOW = 4_000  # tokens that the provider takes at most
BUDGET = 3_000  # tokens above which the library compacts, here down to half of it
GPT, CLAUDE = "gpt-5", "claude-sonnet-5-5"

Messages = list[Any]
Trim = Callable[[Messages], Messages]

# ---------------------------------------------------------------------------------------------------------------------------------
# The application: four ordinary loops.  Each resends its whole history, as applications do, and knows nothing of any trimming.
# `trim` is used only to show what happens to applications that trim by hand.


SYSTEM = "You help to plan a long journey by train. Answer briefly."
CITIES = (
    "Lisbon Porto Madrid Sevilla Barcelona Lyon Geneva Zurich Milan Venice Trieste Ljubljana"
    " Zagreb Budapest Vienna Prague Dresden Berlin Hamburg Copenhagen Malmo Oslo Bergen Stockholm"
)
NOTES = "The night train leaves at 21:40 from the main station; seats cost 49, a couchette 79, a cabin 139. "


def chat_openai(client: openai.OpenAI, messages: Messages, trim: Trim = list) -> Iterator[Any]:
    """24 turns of chat."""
    messages.append({"role": "system", "content": SYSTEM})
    for city in CITIES.split():
        messages.append(
            {"role": "user", "content": f"Next stop: {city}. My notes: {NOTES * 6} How long should I stay?"}
        )
        response = client.chat.completions.create(model=GPT, messages=trim(messages))
        yield response
        messages.append({"role": "assistant", "content": response.choices[0].message.content})


def chat_anthropic(client: anthropic.Anthropic, messages: Messages) -> Iterator[Any]:
    """The same, streamed."""
    for city in CITIES.split():
        messages.append(
            {"role": "user", "content": f"Next stop: {city}. My notes: {NOTES * 6} How long should I stay?"}
        )
        with client.messages.stream(model=CLAUDE, max_tokens=500, system=SYSTEM, messages=messages) as stream:
            text = "".join(stream.text_stream)
            yield stream
        messages.append({"role": "assistant", "content": text})


QUESTION = "Which of the orders 100 to 115 are late, and why?"
ORDER: dict[str, Any] = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


def look_up_order(number: int) -> str:
    """The tool: what the shop's database says of an order."""
    parcels = [{"parcel": i, "state": "in transit", "last seen": f"depot {number + i}, ramp {i}"} for i in range(12)]
    return json.dumps({"order": number, "late": number % 3 == 0, "parcels": parcels})


def tools_openai(client: openai.OpenAI, messages: Messages, trim: Trim = list) -> Iterator[Any]:
    """One question, and tool calls until the model has an answer."""
    messages += [{"role": "system", "content": "Use the tools."}, {"role": "user", "content": QUESTION}]
    tool: Any = {"type": "function", "function": {"name": "look_up_order", "parameters": ORDER}}
    while True:
        response = client.chat.completions.create(model=GPT, messages=trim(messages), tools=[tool])
        yield response
        answer = response.choices[0].message
        messages.append(answer)
        calls: list[Any] = [*(answer.tool_calls or ())]
        if not calls:
            return
        for call in calls:
            result = look_up_order(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def tools_anthropic(client: anthropic.Anthropic, messages: Messages) -> Iterator[Any]:
    """The same; each step begins with signed thinking, which this model binds to everything before it."""
    messages.append({"role": "user", "content": QUESTION})
    tool: Any = {"name": "look_up_order", "input_schema": ORDER}
    while True:
        response = client.messages.create(
            model=CLAUDE,
            max_tokens=500,
            system="Use the tools.",
            messages=messages,
            tools=[tool],
            thinking={"type": "adaptive"},
        )
        yield response
        messages.append({"role": "assistant", "content": response.content})
        calls = [block for block in response.content if block.type == "tool_use"]
        if not calls:
            return
        messages.append({"role": "user", "content": [result_of(call) for call in calls]})


def result_of(call: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call.id, "content": look_up_order(**call.input)}


# ---------------------------------------------------------------------------------------------------------------------------------
# The model: what the loopback provider answers.


def chat_model(provider: Provider) -> None:
    """An answer for each turn."""
    for city in CITIES.split():
        provider.reply(f"Stay two nights in {city}. " + "Walk through the old town, and take the last tram back. " * 3)


def tool_model(provider: Provider) -> None:
    """14 tool calls in 10 steps, some of them in parallel; then the answer."""
    number = 100
    for parallel in (1, 2, 1, 2, 1, 1, 2, 1, 2, 1):
        calls = [ToolCall("look_up_order", {"number": number + i}) for i in range(parallel)]
        provider.reply(Thinking(f"Order {number} comes next; the parcels tell where it is stuck. " * 3), *calls)
        number += parallel
    provider.reply("Orders 102, 105, 108 and 111 are late: their parcels are stuck in depots.")


# ---------------------------------------------------------------------------------------------------------------------------------
# What is shown.

console = Console(highlight=False, width=None if sys.stdout.isatty() else 80)
Loop = Callable[[Any, Messages], Iterator[Any]]
Model = Callable[[Provider], None]


def openai_client(provider: Provider) -> openai.OpenAI:
    return openai.OpenAI(base_url=provider.openai_url, api_key="none")


def anthropic_client(provider: Provider) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=provider.anthropic_url, api_key="none")


def by_hand(title: str, loop: Loop, model: Model) -> None:
    """Let a loop run on the plain client, and say what comes of it."""
    console.print(f"  {title}:")
    done: list[Any] = []
    with Provider(window=WINDOW) as provider:
        model(provider)
        try:
            done.extend(loop(openai_client(provider), []))
        except openai.BadRequestError as error:
            reason: Any = error.body
            told = textwrap.fill(f"request {len(done) + 1} is refused: {reason['message']}", 76)
            console.print(textwrap.indent(told, "    "), style="red", markup=False)
            return
    prompt = sum(response.usage.prompt_tokens for response in done)
    cached = sum(response.usage.prompt_tokens_details.cached_tokens for response in done)
    console.print(
        f"    accepted, but only {cached / prompt:.0%} of the prompt comes from the provider's cache", style="yellow"
    )


@dataclass
class Run:
    """One conversation on a wrapped client: its rows, and what they add up to."""

    title: str
    loop: Loop
    model: Model
    client: Callable[[Provider], Any]
    reports: list[Report] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: int = 0

    def start(self) -> None:
        """Let the application's loop run; look up the report of each response it got."""
        messages: Messages = []
        with Provider(window=WINDOW) as provider:
            self.model(provider)
            client = compacting(self.client(provider), DropOldest(max_tokens=BUDGET))
            try:
                for response in self.loop(client, messages):
                    report = control(client).report_for(response)
                    assert report is not None
                    self.add(report, messages)
            except (openai.APIStatusError, anthropic.APIStatusError) as error:
                self.rows.append([f"{len(self.rows) + 1}", "", "", "", "", "", "[red]refused[/]"])
                self.notes.append(f"[red]{error.message}[/]")
            self.refused = sum(request.status != 200 for request in provider.requests)

    def add(self, report: Report, messages: Messages) -> None:
        """The row of one request."""
        self.reports.append(report)
        number, usage = len(self.reports), report.usage
        assert usage is not None
        went = [unit for unit in report.dropped if unit.since == 0]
        reused = f"cut #{number - report.reused[0].age}" if report.reused else ""
        self.rows.append(
            [
                f"{number}",
                change(report.tokens_before, report.tokens_after),
                change(report.messages_before, report.messages_after),
                f"[yellow]{in_words(went, messages)}[/]",
                f"[green]{reused}[/]",
                f"{usage.cached_tokens / usage.input_tokens:.0%}",
                "ok" if report.fits else "ok, over budget",
            ]
        )
        if went and report.replaced:
            self.notes.append(
                f"#{number}: {len(report.replaced)} kept messages left without their signed thinking, which the provider would refuse "
                "now that what stood before it is gone. What the model thinks from here on stays."
            )

    def show(self) -> None:
        """The table."""
        table = a_table(self.title)
        for name, width in (("#", 2), ("tokens", 14), ("messages", 8)):
            table.add_column(name, justify="right", width=width)
        table.add_column("dropped now", width=23)
        table.add_column("reused", width=7)
        table.add_column("cached", justify="right", width=6)
        table.add_column("status", width=7)
        for row in self.rows:
            table.add_row(*row)
        console.print(table, *self.notes, "", sep="\n")

    @property
    def cuts(self) -> int:
        """How often the cut moved."""
        return sum(any(unit.since == 0 for unit in report.dropped) for report in self.reports)


RULE = box.Box(
    "    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True
)  # one line below the head, in any encoding


def a_table(title: str) -> Table:
    style: dict[str, Any] = {"box": RULE, "show_edge": False, "pad_edge": False, "padding": (0, 1, 0, 0)}
    return Table(title=f"{title}\n", title_justify="left", title_style="bold", **style)


def change(before: float, after: float) -> str:
    return f"{before:,}" if before == after else f"{before:,} -> {after:,}"


def in_words(units: list[ContentDropped], messages: Messages) -> str:
    """What went."""
    if not units:
        return ""
    if any(unit.tools for unit in units):
        return f"{len(units)} exchanges, {sum(len(unit.tools) for unit in units)} calls"
    users = [message["role"] == "user" for message in messages]
    first, last = (sum(users[: unit.first + 1]) for unit in (units[0], units[-1]))
    return f"{sum(len(unit.roles) for unit in units)} messages, turns {first}-{last}"


def summary(runs: list[Run]) -> None:
    """What it all comes to."""
    table = a_table("All in all")
    table.add_column("")
    for name in ("requests", "tokens", "saved", "cuts", "cached", "refused"):
        table.add_column(name, justify="right")
    for run in runs:
        before, after = (
            sum(getattr(report, name) for report in run.reports) for name in ("tokens_before", "tokens_after")
        )
        usages = [report.usage for report in run.reports if report.usage]
        cached = sum(usage.cached_tokens for usage in usages) / sum(usage.input_tokens for usage in usages)
        table.add_row(
            run.title,
            *(f"{len(run.reports)}", change(before, after), f"{1 - after / before:.0%}", f"{run.cuts}"),
            *(f"{cached:.0%}", f"{run.refused}"),
        )
    console.print(table)


LEGEND = """
  tokens, messages   as the application wrote the request -> as it left
  dropped now        what went with this request; it stays out of the later ones
  reused             whose cut was applied again: the prompt begins as it did before
  cached             share of the prompt that the provider had in its cache
"""


def main() -> int:
    os.environ.update(NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")  # the loopback provider is behind no proxy
    console.print(f"The provider takes {WINDOW:,} tokens at most.  [bold]Without the library:[/]\n")
    by_hand("a chat, sent as it is", chat_openai, chat_model)
    by_hand(
        "a tool loop, the system prompt and the last 10 messages sent",
        lambda c, m: tools_openai(c, m, last_10),
        tool_model,
    )
    by_hand(
        "the chat, trimmed to the budget anew for each request",
        lambda c, m: chat_openai(c, m, trimmed_anew),
        chat_model,
    )

    console.print(f"\n[bold]With compacting(client, DropOldest(max_tokens={BUDGET:_})):[/]", LEGEND, sep="\n")
    runs = [
        Run("Chat, OpenAI", chat_openai, chat_model, openai_client),
        Run("Tool loop, OpenAI", tools_openai, tool_model, openai_client),
        Run("Chat, Anthropic", chat_anthropic, chat_model, anthropic_client),
        Run("Tool loop, Anthropic", tools_anthropic, tool_model, anthropic_client),
    ]
    for run in runs:
        run.start()
        run.show()
    summary(runs)
    console.print("\n[bold]The account of the last request, as print(report) shows it[/]\n")
    console.print(str(runs[-1].reports[-1]), markup=False, soft_wrap=True)
    refused = sum(run.refused for run in runs)
    console.print(f"\n{refused or 'No'} request of a wrapped client was refused.", style="red" if refused else "green")
    return 1 if refused else 0


def last_10(messages: Messages) -> Messages:
    return [messages[0], *messages[1:][-10:]]


def trimmed_anew(messages: Messages) -> Messages:
    return compact(messages, max_tokens=BUDGET).messages


if __name__ == "__main__":
    sys.exit(main())
