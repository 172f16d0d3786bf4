"""Streams of both kinds.  A report is there at once; its usage, and `on_report`, come when the stream has ended."""

from typing import Any

from anthropic import Anthropic
from openai import OpenAI
from providers import anthropic_options, openai_options  # type: ignore[import-not-found]

from compacting_client import DropOldest, Report, compacting, control

POLICY = DropOldest(max_tokens=1_000)
SYSTEM = "You keep a ship's log. Answer in one sentence."
DAYS = [f"Day {day}: wind NW 5, course 270, 140 miles, all well. " * 12 for day in range(1, 9)]


def ended(report: Report) -> None:
    print(
        f"\n  [{report.api}: {report.tokens_before} -> {report.tokens_after} tokens; the provider counted {report.usage}]"
    )


def chat_openai() -> None:
    client = compacting(OpenAI(**openai_options()), POLICY, on_report=ended)
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    for day in DAYS:
        messages.append({"role": "user", "content": day})
        stream = client.chat.completions.create(
            model="gpt-5-mini", messages=messages, stream=True, stream_options={"include_usage": True}
        )
        text = ""
        for chunk in stream:  # the SDK's own Stream
            for choice in chunk.choices:
                text += choice.delta.content or ""
                print(choice.delta.content or "", end="")
        messages.append({"role": "assistant", "content": text})


def chat_anthropic() -> None:
    client = compacting(Anthropic(**anthropic_options()), POLICY, on_report=ended)
    messages: list[Any] = []
    for day in DAYS:
        messages.append({"role": "user", "content": day})
        with client.messages.stream(
            model="claude-sonnet-5-5", max_tokens=200, system=SYSTEM, messages=messages
        ) as stream:
            for text in stream.text_stream:
                print(text, end="")
            messages.append({"role": "assistant", "content": stream.get_final_text()})
        assert control(client).report_for(stream) is control(client).last_report


chat_openai()
chat_anthropic()
