"""Three conversations at once on one async client: each has its own history, cut, reports, and archive of what was dropped."""

import asyncio
from contextvars import ContextVar
from typing import Any

from openai import AsyncOpenAI
from without_key import loopback

from compacting_client import ContentDropped, DropOldest, compacting, control

conversation: ContextVar[str] = ContextVar("conversation")
archived: dict[tuple[str, int, str], tuple[dict[str, Any], ...]] = {}


async def archive(event: ContentDropped) -> None:
    """A callback of an async client may be async; it runs in the context of its request.  Here it would write to a database."""
    await asyncio.sleep(0)
    # Equal texts have equal digests, so the place belongs to the key; what is announced twice (a request failed) is kept once.
    archived[conversation.get(), event.first, event.digest] = event.messages


async def log(client: AsyncOpenAI, ship: str, days: int) -> str:
    conversation.set(ship)  # of this task
    messages: list[Any] = [{"role": "system", "content": f"You keep the log of the {ship}. Answer in one sentence."}]
    for day in range(1, days + 1):
        messages.append({"role": "user", "content": f"Day {day} on the {ship}: wind NW 5, course 270, all well. " * 12})
        response = await client.chat.completions.create(model="gpt-5-mini", messages=messages)
        messages.append(response.choices[0].message)
    return f"{ship}: {control(client).last_report}"  # of this task


async def main() -> None:
    async with AsyncOpenAI() as plain:
        client = compacting(plain, DropOldest(max_tokens=2_000), on_drop=archive)
        with control(client).capture() as reports:
            for account in await asyncio.gather(
                log(client, "Beagle", 15), log(client, "Fram", 18), log(client, "Vega", 6)
            ):
                print(account)
    changed = sum(report.changed for report in reports)
    kept = sum(map(len, archived.values()))
    print(f"{len(reports)} requests, {changed} of them compacted, {kept} messages archived")


loopback()  # only where no key is set
asyncio.run(main())
