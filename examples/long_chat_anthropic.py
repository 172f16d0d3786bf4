"""A chat of three hundred turns that never leaves its window, on a handful of summary calls.

The application resends its whole history each time, as it always did.  With a key, each of the turns is a real request.
"""

from typing import Any

from anthropic import Anthropic
from without_key import loopback

from compacting_client import Report, Summarize, compacting

loopback()  # only where no key is set

# At 4,000 tokens everything but the newest messages becomes a summary, written by the model of the request on the same client.  The request is
# then down to half of that, so the next summary is many turns away, and until then each request begins as the one before.
policy = Summarize(max_messages=None, token_budget=4_000, keep_recent=8)
reports: list[Report] = []
client = compacting(Anthropic(), policy, on_report=reports.append)

messages: list[Any] = []
for day in range(1, 301):
    messages.append({"role": "user", "content": f"Day {day}: wind NW 5, course 270, 140 miles, all well. " * 3})
    response = client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=200,
        system="You keep a ship's log. Answer in one sentence.",
        messages=messages,
    )
    messages.append({"role": "assistant", "content": response.content})

calls = [report.summary_usage for report in reports if report.summary_usage]
written = sum(usage.input_tokens or 0 for usage in calls)
print(f"{len(reports)} requests, {len(calls)} summary calls that read {written} tokens")
print(f"The application holds {len(messages)} messages, {reports[-1].tokens_before:.0f} tokens by the last request")
print(f"The largest request that left had {max(report.tokens_after for report in reports):.0f} tokens")
sent = sum(report.usage.input_tokens for report in reports if report.usage)
cached = sum(report.usage.cached_tokens for report in reports if report.usage)
print(f"{sent} tokens were sent, {100 * cached / sent:.0f} % of them read from the provider's cache")
print(f"The summary in force: {reports[-1].summary}")
print(reports[-1])
