"""One conversation, three stages, each with a scope of its own: gather facts by tools, write from them, check the result.

The application keeps one history and sends all of it; each stage sees what it needs.
"""

import json
from typing import Any

from openai import OpenAI
from without_key import loopback

from compacting_client import DropOldest, Ledger, Report, compacting, control, presets
from compacting_client.testing import ToolCall

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "read_log",
        "description": "The log of one day.",
        "parameters": {"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]},
    },
}


def read_log(day: int) -> str:
    return json.dumps({"day": day, "hours": [f"{hour:02}:00 wind NW 5, course 270" for hour in range(24)]})


def seen(stage: str, report: Report | None) -> None:
    assert report is not None
    print(
        f"{stage:8} {report.tokens_before:6,} -> {report.tokens_after:6,} tokens, {report.messages_before:3} -> {report.messages_after:3} messages"
    )


# Only where no key is set: what is answered then. A real model decides by itself.
days = [ToolCall("read_log", {"day": day}) for day in range(1, 16)]
loopback(
    *days, "All fifteen days are read.", "Fifteen days of north-westerly wind.", "Checked: wind NW 5 on every day."
)

client = compacting(OpenAI(), DropOldest(max_tokens=60_000))  # what holds where no stage says otherwise
writer = control(client).with_policy(Ledger("scoped"))  # earlier stages are a note of a few lines
checker = control(client).with_policy(presets.verify())  # everything, and the instruction to check

messages: list[Any] = [
    {"role": "system", "content": "You evaluate a ship's log."},
    {"role": "user", "content": "Read the days 1 to 15."},
]
with control(client).using(Ledger(keep_result_chars=300)):  # a tool loop: older results become lines
    while True:
        answer = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=[TOOL]).choices[0].message
        messages.append(answer)
        if not answer.tool_calls:
            break
        for call in answer.tool_calls:
            assert call.type == "function"
            result = read_log(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
seen("gather", control(client).last_report)

for stage, of, task in (
    ("write", writer, "Sum the voyage up in one sentence."),
    ("check", checker, "Is that sentence right?"),
):
    messages.append({"role": "user", "content": task})
    answer = of.chat.completions.create(model="gpt-5-mini", messages=messages).choices[0].message
    messages.append(answer)
    seen(stage, control(of).last_report)
    print(f"         {answer.content}")
