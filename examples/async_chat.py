"""Three conversations at once on one async client: each has its own history, cut and reports."""

import asyncio
from typing import Any

from openai import AsyncOpenAI
from providers import openai_options  # type: ignore[import-not-found]

from compacting_client import ContentDropped, DropOldest, compacting, control


async def archive(event: ContentDropped) -> None:
    """A callback of an async client may be async; here it would write to a database."""
    await asyncio.sleep(0)
    archived.append(event)


archived: list[ContentDropped] = []


async def log(client: AsyncOpenAI, ship: str, days: int) -> str:
    messages: list[Any] = [{"role": "system", "content": f"You keep the log of the {ship}. Answer in one sentence."}]
    for day in range(1, days + 1):
        messages.append({"role": "user", "content": f"Day {day} on the {ship}: wind NW 5, course 270, all well. " * 12})
        response = await client.chat.completions.create(model="gpt-5-mini", messages=messages)
        messages.append(response.choices[0].message)
    return f"{ship}: {control(client).last_report}"  # of this task


async def main() -> None:
    async with AsyncOpenAI(**openai_options()) as plain:
        client = compacting(plain, DropOldest(max_tokens=2_000), on_drop=archive)
        with control(client).capture() as reports:
            for account in await asyncio.gather(
                log(client, "Beagle", 15), log(client, "Fram", 18), log(client, "Vega", 6)
            ):
                print(account)
    changed = sum(report.changed for report in reports)
    print(
        f"{len(reports)} requests, {changed} of them compacted, {sum(len(e.messages) for e in archived)} messages archived"
    )


asyncio.run(main())
