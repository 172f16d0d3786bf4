"""A tool loop: calls and results go together or stay together, the question always stays, and so does what `pin` selects."""

import json
from typing import Any

from openai import OpenAI
from providers import openai_options  # type: ignore[import-not-found]

from compacting_client import DropOldest, compacting, control
from compacting_client.testing import ToolCall

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "read_log",
        "description": "The log of one day, 1 to 12.",
        "parameters": {"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]},
    },
}


def read_log(day: int) -> str:
    note = "DAMAGE: the foresail is torn." if day == 2 else "All well."
    return json.dumps(
        {"day": day, "note": note, "hours": [f"{hour:02}:00 wind NW 5, course 270" for hour in range(24)]}
    )


def damage(message: dict[str, Any]) -> bool:
    """Told neutral messages {role, content, tool_calls, tool_call_id, name}, whatever the provider; their exchange is never dropped."""
    return message["role"] == "tool" and message.get("name") == "read_log" and "DAMAGE" in str(message["content"])


# What the loopback provider answers, if it is the one; a real model decides by itself.
script = [ToolCall("read_log", {"day": day}) for day in range(1, 13)]
options = openai_options(*script, "The foresail was torn on day 2; all other days were calm.")

client = compacting(OpenAI(**options), DropOldest(max_tokens=1_500), pin=damage)

messages: list[Any] = [
    {"role": "system", "content": "Read one log at a time, days 1 to 12, in order."},
    {"role": "user", "content": "On which day was there any damage?"},
]
for _ in range(20):
    response = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=[TOOL])
    report = control(client).report_for(response)
    assert report is not None
    went = sum(unit.since == 0 for unit in report.dropped)
    print(
        f"{report.tokens_before:5} -> {report.tokens_after:5} tokens, exchanges: {went} dropped now, {len(report.dropped)} absent"
    )
    answer = response.choices[0].message
    messages.append(answer)
    calls: list[Any] = [*(answer.tool_calls or ())]
    if not calls:
        print(answer.content)
        break
    for call in calls:
        result = read_log(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
