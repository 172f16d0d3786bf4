"""Forty tool calls with OpenAI's SDK, by hand: older results become a ledger, one line a call, and the model is told to consult it.

Ships cannot change while we look: a call that is repeated is answered from the history, and the tool is not run again.
"""

import json
from typing import Any

from openai import OpenAI
from without_key import loopback

from compacting_client import Report, compacting, control, presets
from compacting_client.testing import ToolCall

QUESTION = "Which of the ships 1 to 40 has the deepest draught? Look them up one by one."
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_ship",
        "description": "The papers of one ship.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    },
}
sent: list[Report] = []


def get_ship(number: int) -> str:
    """The papers of one ship."""
    voyages = [f"voyage {n}: Hamburg to Horta, 21 days, wind NW 5" for n in range(30)]
    return json.dumps(
        {"number": number, "name": f"Ship {number}", "draught": 3 + number * 7 % 40 / 10, "voyages": voyages}
    )


# Only where no key is set: what is answered then. A real model decides by itself. It asks for ship 3 a second time.
calls = [ToolCall("get_ship", {"number": n}) for n in (*range(1, 40), 3, 40)]
loopback(*calls, "Ship 17, with 6.9 metres.")

policy = presets.managed(keep_result_chars=120, reuse_results=["get_ship"])
client = compacting(OpenAI(), policy, on_report=sent.append)

messages: list[Any] = [
    {"role": "system", "content": "You answer by calling tools."},
    {"role": "user", "content": QUESTION},
]
for _ in range(50):
    response = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=[TOOL])
    answer = response.choices[0].message
    messages.append(answer)
    if not answer.tool_calls:
        print(answer.content)
        break
    known = control(client).reusable(response)  # the calls whose result the history has already
    for call in answer.tool_calls:
        assert call.type == "function"
        if call.id in known:
            print(f"{call.function.name}({call.function.arguments}) is known: asked {known[call.id].age} requests ago")
            result = known[call.id].content
        else:
            result = get_ship(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

print("request   full transcript   managed")
for n, report in enumerate(sent, 1):
    if n % 5 == 0 or n == len(sent):
        print(f"{n:7}   {report.tokens_before:15,}   {report.tokens_after:7,}")
before, after = sum(report.tokens_before for report in sent), sum(report.tokens_after for report in sent)
print(f"{'all':>7}   {before:15,}   {after:7,}: {after / before:.0%}")
