"""A tool loop with OpenAI's SDK.  A call and its results go together or stay together; the question stays, and what `pin` selects."""

import json
from typing import Any

from openai import OpenAI
from without_key import loopback

from compacting_client import DropOldest, Report, compacting
from compacting_client.testing import ToolCall

QUESTION = "On which of the days 1 to 12 was there any damage? Read one log at a time, in order."
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "read_log",
        "description": "The log of one day.",
        "parameters": {"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]},
    },
}


def read_log(day: int) -> str:
    note = "DAMAGE: the foresail is torn." if day == 2 else "All well."
    return json.dumps(
        {"day": day, "note": note, "hours": [f"{hour:02}:00 wind NW 5, course 270" for hour in range(24)]}
    )


def damage(message: dict[str, Any]) -> bool:
    """Shown neutral messages {role, content, tool_calls, tool_call_id, name}, whatever the provider; their exchange is never dropped."""
    return message["role"] == "tool" and message.get("name") == "read_log" and "DAMAGE" in str(message["content"])


def trimmed(report: Report) -> None:
    now = sum(unit.since == 0 for unit in report.dropped)
    print(
        f"{report.tokens_before:5} -> {report.tokens_after:5} tokens, exchanges: {now} dropped now, {len(report.dropped)} absent"
    )


# Only where no key is set: what is answered then. A real model decides by itself.
loopback(*[ToolCall("read_log", {"day": day}) for day in range(1, 13)], "The foresail was torn on day 2.")

client = compacting(OpenAI(), DropOldest(max_tokens=2_000), pin=damage, on_report=trimmed)

messages: list[Any] = [{"role": "user", "content": QUESTION}]
for _ in range(20):
    response = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=[TOOL])
    answer = response.choices[0].message
    messages.append(answer)
    calls: list[Any] = [*(answer.tool_calls or ())]
    if not calls:
        print(answer.content)
        break
    for call in calls:
        result = read_log(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
