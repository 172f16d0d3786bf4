"""A streamed chat with OpenAI's SDK: first with `create(stream=True)`, then with the helper `.stream()`.

Both are the SDK's own objects.  A report is there at once; its `usage`, and the call of `on_report`, come when the stream has ended.
"""

from typing import Any

from openai import OpenAI
from without_key import loopback

from compacting_client import DropOldest, Report, compacting, control


def trimmed(report: Report) -> None:
    now = sum(unit.since == 0 for unit in report.dropped)
    print(
        f"\n  [{report.tokens_before} -> {report.tokens_after} tokens, {report.messages_before} -> {report.messages_after} messages,"
        f" {now} dropped now; {report.usage}]"
    )


loopback()  # only where no key is set

client = compacting(OpenAI(), DropOldest(max_tokens=1_000), on_report=trimmed)

messages: list[Any] = [{"role": "system", "content": "You keep a ship's log. Answer in one sentence."}]
for day in range(1, 9):
    messages.append({"role": "user", "content": f"Day {day}: wind NW 5, course 270, 140 miles, all well. " * 12})
    stream = client.chat.completions.create(
        model="gpt-5-mini",
        messages=messages,
        stream=True,
        stream_options={"include_usage": True},  # without it OpenAI sends no usage, and the library adds nothing
    )
    text = ""
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            print(choice.delta.content or "", end="", flush=True)
    messages.append({"role": "assistant", "content": text})

for day in range(9, 13):
    messages.append({"role": "user", "content": f"Day {day}: wind NW 5, course 270, 140 miles, all well. " * 12})
    with client.chat.completions.stream(
        model="gpt-5-mini", messages=messages, stream_options={"include_usage": True}
    ) as helper:
        for event in helper:
            if event.type == "content.delta":
                print(event.delta, end="", flush=True)
        messages.append(helper.get_final_completion().choices[0].message)

print(control(client).last_report)
