"""A streamed chat with Google's SDK: first with `generate_content_stream()`, then with a chat's `send_message_stream()`.

Both give the SDK's own generators.  A stream has its report once its first chunk was asked for, since nothing is sent before; the report's
`usage`, and the call of `on_report`, come when the stream has ended.
"""

from typing import Any

from google import genai
from google.genai import types
from without_key import loopback

from compacting_client import DropOldest, Report, compacting, control


def trimmed(report: Report) -> None:
    now = sum(unit.since == 0 for unit in report.dropped)
    print(
        f"\n  [{report.tokens_before} -> {report.tokens_after} tokens, {report.messages_before} -> {report.messages_after} messages,"
        f" {now} dropped now; {report.usage}]"
    )


loopback()  # only where no key is set

client = compacting(genai.Client(), DropOldest(max_tokens=1_000), on_report=trimmed)

config = types.GenerateContentConfig(system_instruction="You keep a ship's log. Answer in one sentence.")
contents: list[Any] = []
for day in range(1, 9):
    contents.append(types.UserContent(f"Day {day}: wind NW 5, course 270, 140 miles, all well. " * 12))
    answer = ""
    for chunk in client.models.generate_content_stream(
        model="gemini-3-flash-preview", contents=contents, config=config
    ):
        answer += chunk.text or ""
        print(chunk.text or "", end="", flush=True)
    contents.append(types.ModelContent(answer))

chat = client.chats.create(model="gemini-3-flash-preview", config=config, history=contents)
for day in range(9, 13):
    for chunk in chat.send_message_stream(f"Day {day}: wind NW 5, course 270, 140 miles, all well. " * 12):
        print(chunk.text or "", end="", flush=True)

print(control(client).last_report)
print(f"The chat itself remembers {len(chat.get_history(curated=True))} messages.")
