"""A tool loop with Anthropic's SDK: by hand, and by its tool runner.  A call and its results go together or stay together; the question
stays, and what `pin` selects.

Each step begins with signed thinking, which newer models bind to all that stands before it: a cut takes it off the steps that stay.
"""

import json
from typing import Any

from anthropic import Anthropic, beta_tool
from without_key import loopback

from compacting_client import DropOldest, Report, compacting
from compacting_client.testing import Thinking, ToolCall

QUESTION = "On which of the days 1 to 12 was there any damage? Read one log at a time, in order."
TOOL: Any = {
    "name": "read_log",
    "description": "The log of one day.",
    "input_schema": {"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]},
}


def read_log(day: int) -> str:
    """The log of one day."""
    note = "DAMAGE: the foresail is torn." if day == 2 else "All well."
    return json.dumps(
        {"day": day, "note": note, "hours": [f"{hour:02}:00 wind NW 5, course 270" for hour in range(24)]}
    )


def damage(message: dict[str, Any]) -> bool:
    """Shown neutral messages {role, content, tool_calls, tool_call_id, name}, whatever the provider; their exchange is never dropped."""
    return message["role"] == "tool" and message.get("name") == "read_log" and "DAMAGE" in str(message["content"])


def trimmed(report: Report) -> None:
    now = sum(unit.since == 0 for unit in report.dropped)
    thinking = sum(item.kind == "stripped" for item in report.replaced)
    print(
        f"{report.tokens_before:5} -> {report.tokens_after:5} tokens, exchanges: {now} dropped now, {len(report.dropped)} absent,"
        f" {thinking} without their thinking"
    )


# Only where no key is set: what is answered then, to each of both loops. A real model decides by itself.
steps: list[Any] = [[Thinking(f"Day {day} is next."), ToolCall("read_log", {"day": day})] for day in range(1, 13)]
loopback(*[*steps, "The foresail was torn on day 2."] * 2)

client = compacting(Anthropic(), DropOldest(max_tokens=2_000), pin=damage, on_report=trimmed)

print("By hand")
messages: list[Any] = [{"role": "user", "content": QUESTION}]
for _ in range(20):
    response = client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=2_000,
        messages=messages,
        tools=[TOOL],
        thinking={"type": "adaptive"},
    )
    messages.append({"role": "assistant", "content": response.content})  # with its thinking
    results: list[Any] = []
    for block in response.content:
        if block.type == "tool_use":
            arguments: Any = block.input
            results.append({"type": "tool_result", "tool_use_id": block.id, "content": read_log(**arguments)})
        elif block.type == "text":
            print(block.text)
    if not results:
        break
    messages.append({"role": "user", "content": results})

print("By the tool runner")
runner = client.beta.messages.tool_runner(
    model="claude-sonnet-5-5",
    max_tokens=2_000,
    messages=[{"role": "user", "content": QUESTION}],
    tools=[beta_tool(read_log)],
    thinking={"type": "adaptive"},
    thread=False,  # else the history is kept by the server, and there is nothing to cut
)
for answer in runner:
    for said in answer.content:
        if said.type == "text":
            print(said.text)
