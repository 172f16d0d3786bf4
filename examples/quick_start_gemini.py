"""The same with Google's SDK: its chat keeps the whole history, and what leaves is what fits."""

from google import genai
from without_key import loopback

from compacting_client import DropOldest, compacting, control

loopback()  # only where no key is set

client = compacting(genai.Client(), DropOldest(max_tokens=3_000))

chat = client.chats.create(
    model="gemini-3-flash-preview",
    config={"system_instruction": "You keep a ship's log. Answer in one sentence."},
)
for day in range(1, 31):
    chat.send_message(f"Day {day}: wind NW 5, course 270, 140 miles, all well. " * 12)

print(control(client).last_report)
print(f"The chat itself remembers {len(chat.get_history())} messages.")
