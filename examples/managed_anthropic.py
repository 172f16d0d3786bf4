"""Forty tool calls with Anthropic's SDK, by its tool runner: older results become a ledger, one line a call, and the model is told to consult it.

Ships cannot change while we look: a call that is repeated is answered from the history, and the tool is not run again.
"""

import json
from collections import Counter

from anthropic import Anthropic, beta_tool
from without_key import loopback

from compacting_client import Report, compacting, control, presets
from compacting_client.testing import ToolCall

QUESTION = "Which of the ships 1 to 40 has the deepest draught? Look them up one by one."
sent: list[Report] = []
ran: Counter[int] = Counter()


def get_ship(number: int) -> str:
    """The papers of one ship."""
    ran[number] += 1
    voyages = [f"voyage {n}: Hamburg to Horta, 21 days, wind NW 5" for n in range(30)]
    return json.dumps(
        {"number": number, "name": f"Ship {number}", "draught": 3 + number * 7 % 40 / 10, "voyages": voyages}
    )


# Only where no key is set: what is answered then. A real model decides by itself. It asks for ship 3 a second time.
calls = [ToolCall("get_ship", {"number": n}) for n in (*range(1, 40), 3, 40)]
loopback(*calls, "Ship 17, with 6.9 metres.")

policy = presets.managed(keep_result_chars=120, reuse_results=["get_ship"])
client = compacting(Anthropic(), policy, on_report=sent.append)

runner = client.beta.messages.tool_runner(
    model="claude-sonnet-5-5",
    max_tokens=2_000,
    system="You answer by calling tools.",
    messages=[{"role": "user", "content": QUESTION}],
    tools=[beta_tool(control(client).reusing(get_ship))],
    thread=False,  # else the history is kept by the server, and there is nothing to compact
)
for block in runner.until_done().content:
    if block.type == "text":
        print(block.text)
print(f"{len(sent) - 1} calls, {ran.total()} times the tool ran")

print("request   full transcript   managed")
for n, report in enumerate(sent, 1):
    if n % 5 == 0 or n == len(sent):
        print(f"{n:7}   {report.tokens_before:15,}   {report.tokens_after:7,}")
before, after = sum(report.tokens_before for report in sent), sum(report.tokens_after for report in sent)
print(f"{'all':>7}   {before:15,}   {after:7,}: {after / before:.0%}")
