"""The same with Anthropic's SDK: the system prompt stands outside the messages, counts, and always stays."""

from typing import Any

from anthropic import Anthropic
from without_key import loopback

from compacting_client import DropOldest, compacting, control

loopback()  # only where no key is set

client = compacting(Anthropic(), DropOldest(max_tokens=3_000))

messages: list[Any] = []
for day in range(1, 31):
    messages.append({"role": "user", "content": f"Day {day}: wind NW 5, course 270, 140 miles, all well. " * 12})
    response = client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=200,
        system="You keep a ship's log. Answer in one sentence.",
        messages=messages,
    )
    messages.append({"role": "assistant", "content": response.content})

print(control(client).last_report)
