"""The account: what was dropped and reused, told to callbacks, to a log, and in a report."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import structlog
from openai import OpenAI
from without_key import loopback

from compacting_client import ContentDropped, ContentReused, DropOldest, Report, compacting

# The library logs to structlog if the application has configured it, else to the stdlib logger "compacting_client".  It never logs text.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
    ],
    wrapper_class=structlog.make_filtering_bound_logger("info"),
    logger_factory=structlog.PrintLoggerFactory(sys.stdout),
)

archive = Path(tempfile.mkdtemp()) / "dropped.jsonl"


def keep(event: ContentDropped) -> None:
    """Called once for each unit (a message, or a tool call with its results) when it leaves: nothing is lost that you want to keep."""
    with archive.open("a") as file:
        file.write(json.dumps({"first": event.first, "digest": event.digest, "messages": event.messages}) + "\n")


def saved(event: ContentReused) -> None:
    print(f"the cut of {event.age} requests ago was used again and saves {event.tokens_saved} tokens")


loopback()  # only where no key is set

reports: list[Report] = []
client = compacting(OpenAI(), DropOldest(max_tokens=2_000), on_drop=keep, on_reuse=saved, on_report=reports.append)

messages: list[Any] = [{"role": "system", "content": "You keep a ship's log. Answer in one sentence."}]
for day in range(1, 14):
    messages.append({"role": "user", "content": f"Day {day}: wind NW 5, course 270, 140 miles, all well. " * 12})
    response = client.chat.completions.create(model="gpt-5-mini", messages=messages)
    messages.append(response.choices[0].message)

kept = [json.loads(line) for line in archive.read_text().splitlines()]
print(f"{len(kept)} messages archived, the first is: {kept[0]['messages'][0]['content'][:30]}...")

sent = sum(report.usage.input_tokens for report in reports if report.usage)
cached = sum(report.usage.cached_tokens for report in reports if report.usage)
print(f"{sent} tokens sent, {cached} of them read from the provider's cache")
print(json.dumps(reports[-1].as_dict(units=False)))  # for a log line; as_dict() lists each unit too, such as
print(json.dumps(reports[-1].dropped[0].as_dict()))
