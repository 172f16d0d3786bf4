"""The whole of it: put `compacting(...)` around the client that the application already has."""

from typing import Any

from openai import OpenAI
from without_key import loopback

from compacting_client import DropOldest, compacting, control

loopback()  # only where no key is set

client = compacting(OpenAI(), DropOldest(max_tokens=3_000))

messages: list[Any] = [{"role": "system", "content": "You keep a ship's log. Answer in one sentence."}]
for day in range(1, 31):
    messages.append({"role": "user", "content": f"Day {day}: wind NW 5, course 270, 140 miles, all well. " * 12})
    response = client.chat.completions.create(model="gpt-5-mini", messages=messages)
    messages.append(response.choices[0].message)

print(control(client).last_report)
