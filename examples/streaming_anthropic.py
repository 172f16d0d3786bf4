"""A streamed chat with Anthropic's SDK: first with the helper `messages.stream()`, then with `create(stream=True)`.

Both are the SDK's own objects.  A report is there at once; its `usage`, and the call of `on_report`, come when the stream has ended.
"""

from typing import Any

from anthropic import Anthropic
from without_key import loopback

from compacting_client import DropOldest, Report, compacting, control


def trimmed(report: Report) -> None:
    now = sum(unit.since == 0 for unit in report.dropped)
    print(
        f"\n  [{report.tokens_before} -> {report.tokens_after} tokens, {report.messages_before} -> {report.messages_after} messages,"
        f" {now} dropped now; {report.usage}]"
    )


loopback()  # only where no key is set

client = compacting(Anthropic(), DropOldest(max_tokens=1_000), on_report=trimmed)

system = "You keep a ship's log. Answer in one sentence."
messages: list[Any] = []
for day in range(1, 9):
    messages.append({"role": "user", "content": f"Day {day}: wind NW 5, course 270, 140 miles, all well. " * 12})
    with client.messages.stream(model="claude-sonnet-5-5", max_tokens=200, system=system, messages=messages) as helper:
        for text in helper.text_stream:
            print(text, end="", flush=True)
        messages.append({"role": "assistant", "content": helper.get_final_message().content})

for day in range(9, 13):
    messages.append({"role": "user", "content": f"Day {day}: wind NW 5, course 270, 140 miles, all well. " * 12})
    stream = client.messages.create(
        model="claude-sonnet-5-5", max_tokens=200, system=system, messages=messages, stream=True
    )
    answer = ""
    for event in stream:
        if event.type == "content_block_delta" and event.delta.type == "text_delta":
            answer += event.delta.text
            print(event.delta.text, end="", flush=True)
    messages.append({"role": "assistant", "content": answer})

print(control(client).last_report)
