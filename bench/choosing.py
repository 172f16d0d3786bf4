"""What dropping, summarising and clearing cost on the same two conversations: tokens sent, read from the cache, spent on summaries.

    python -m bench.choosing

Anthropic's SDK on the loopback provider, which counts a quarter of the JSON, and serves from its cache whatever a prompt begins with as an
earlier one did.  Dollars by `genai-prices` for claude-sonnet-4-6; what a provider takes for writing its cache is not in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from anthropic import Anthropic

from compacting_client import Chain, ClearToolResults, DropOldest, Report, Summarize, compacting
from compacting_client.savings import dollars
from compacting_client.testing import Provider, Recorded

MODEL = "claude-sonnet-4-6"
BUDGET = 8_000
TURNS, CALLS = 150, 120
SUMMARY = "The user keeps a ship's log; every day so far was calm, the course 270, the distance 140 miles. " * 12
Messages = list[dict[str, Any]]

POLICIES: dict[str, Any] = {
    "the whole history": False,
    "`messages[-20:]` on each request": lambda messages: messages[-20:],
    "`DropOldest(8_000)`": DropOldest(BUDGET),
    "`DropOldest(8_000, target=1.0)`": DropOldest(BUDGET, target=1.0),
    "`Summarize(token_budget=8_000)`": Summarize(max_messages=None, token_budget=BUDGET),
    '`Summarize(..., summary_role="system")`': Summarize(max_messages=None, token_budget=BUDGET, summary_role="system"),
    "`ClearToolResults(max_tokens=8_000)`": ClearToolResults(max_tokens=BUDGET),
    "`Chain(ClearToolResults(max_tokens=6_000), DropOldest(8_000))`": Chain(
        ClearToolResults(max_tokens=6_000), DropOldest(BUDGET)
    ),
}


class Row(NamedTuple):
    """What all requests of a conversation came to."""

    largest: int
    sent: int
    cached: int
    summaries: int
    read: int
    cost: float


def chat() -> Iterator[Messages]:
    """The requests of a talk: questions of about 100 tokens, answers of about 50."""
    history: Messages = []
    for turn in range(TURNS):
        history.append(
            {"role": "user", "content": f"Day {turn}: " + "wind NW 5, course 270, 140 miles, all well. " * 9}
        )
        yield list(history)
        history.append({"role": "assistant", "content": f"Day {turn}: " + "a calm day, and good way to the west. " * 5})


def loop() -> Iterator[Messages]:
    """The requests of an agent's loop: one question, then calls whose results have about 300 tokens."""
    history: Messages = [{"role": "user", "content": "Read the logs one by one, and tell me of any damage."}]
    for call in range(CALLS):
        yield list(history)
        used = {"type": "tool_use", "id": f"call_{call}", "name": "read_log", "input": {"day": call}}
        text = f"Day {call}: " + "wind NW 5, course 270, 140 miles, all well. " * 27
        history.append({"role": "assistant", "content": [used]})
        result = {"type": "tool_result", "tool_use_id": f"call_{call}", "content": text}
        history.append({"role": "user", "content": [result]})
    yield history


def _answer(request: Recorded) -> str:
    return SUMMARY if "Summarise the earlier part" in str(request.body) else "Noted."


def measured(policy: Any, conversation: Callable[[], Iterator[Messages]]) -> Row:
    """Send a conversation under a policy."""
    reports: list[Report] = []
    with Provider(default=_answer) as provider, Anthropic(base_url=provider.anthropic_url, api_key="k") as inner:
        client: Any = compacting(inner, policy, on_report=reports.append)
        for messages in conversation():
            client.messages.create(model=MODEL, max_tokens=100, system="You keep a ship's log.", messages=messages)
    usages = [report.usage for report in reports if report.usage is not None]
    made = [report.summary_usage for report in reports if report.summary_usage is not None]
    cost = sum(dollars(MODEL, usage, 0)[0] or 0.0 for usage in usages) + sum(each.cost or 0.0 for each in made)
    return Row(
        max(usage.input_tokens for usage in usages),
        sum(usage.input_tokens for usage in usages),
        sum(usage.cached_tokens for usage in usages),
        len(made),
        sum(each.input_tokens or 0 for each in made),
        cost,
    )


def table(conversation: Callable[[], Iterator[Messages]]) -> str:
    """One row for each policy, in Markdown."""
    lines = [
        "| | largest request | tokens sent | from the cache | not from the cache | summary calls | cost |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, policy in POLICIES.items():
        row = measured(policy, conversation)
        calls = f"{row.summaries}, {row.read:,} tokens read" if row.summaries else "0"
        lines.append(
            f"| {name} | {row.largest:,} | {row.sent:,} | {100 * row.cached / row.sent:.0f} % | "
            f"{row.sent - row.cached:,} | {calls} | ${row.cost:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(f"A chat of {TURNS} turns\n\n{table(chat)}\n\nA loop of {CALLS} tool calls\n\n{table(loop)}")
