"""The applications: ordinary loops, a chat and a tool loop for each SDK.  They send their whole history each time, and know of no trimming.

`trim` is there only to show what becomes of applications that trim by hand.
"""

# No `from __future__ import annotations` here: some versions of Google's SDK call a tool by its annotations, and take no text for them.
import json
from collections.abc import Callable
from typing import Any

import anthropic
import openai
from google import genai
from google.genai import types

GPT, CLAUDE, GEMINI = "gpt-5", "claude-sonnet-5-5", "gemini-3-flash-preview"

Trim = Callable[[list[Any]], list[Any]]

SYSTEM = "You help to plan a long journey by train. Answer briefly."
NOTES = "The night train leaves at 21:40 from the main station; seats cost 49, a couchette 79, a cabin 139. "
CITIES = [
    *("Lisbon", "Madrid", "Sevilla", "Barcelona", "Lyon", "Geneva", "Zurich", "Milan", "Venice", "Trieste"),
    *("Zagreb", "Budapest", "Vienna", "Prague", "Berlin", "Hamburg", "Malmo", "Oslo"),
]
TURNS = [f"Next stop: {city}. My notes: {NOTES * 8} How long should I stay?" for city in CITIES]


def chat_openai(client: openai.OpenAI, trim: Trim = list) -> list[Any]:
    """A chat; the responses are returned to be looked at."""
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    responses: list[Any] = []
    for turn in TURNS:
        messages.append({"role": "user", "content": turn})
        response = client.chat.completions.create(model=GPT, messages=trim(messages))
        messages.append(response.choices[0].message)
        responses.append(response)
    return responses


def chat_anthropic(client: anthropic.Anthropic) -> None:
    """The same, streamed."""
    messages: list[Any] = []
    for turn in TURNS:
        messages.append({"role": "user", "content": turn})
        with client.messages.stream(model=CLAUDE, max_tokens=500, system=SYSTEM, messages=messages) as stream:
            messages.append({"role": "assistant", "content": "".join(stream.text_stream)})


def chat_gemini(client: genai.Client) -> None:
    """The same, as a chat of the SDK, which keeps the history and sends all of it each time."""
    chat = client.chats.create(model=GEMINI, config=types.GenerateContentConfig(system_instruction=SYSTEM))
    for turn in TURNS:
        chat.send_message(turn)


QUESTION = "Which of the orders 100 to 115 are late, and why?"
ORDER: dict[str, Any] = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


def look_up_order(number: int) -> str:
    """What the shop's database says of an order."""
    parcels = [{"parcel": i, "state": "in transit", "last seen": f"depot {number + i}, ramp {i}"} for i in range(12)]
    return json.dumps({"order": number, "late": number % 3 == 0, "parcels": parcels})


def tools_openai(client: openai.OpenAI, trim: Trim = list) -> None:
    """One question, and tool calls until the model has an answer."""
    messages: list[Any] = [{"role": "system", "content": "Use the tools."}, {"role": "user", "content": QUESTION}]
    tool: Any = {"type": "function", "function": {"name": "look_up_order", "parameters": ORDER}}
    while True:
        response = client.chat.completions.create(model=GPT, messages=trim(messages), tools=[tool])
        answer = response.choices[0].message
        messages.append(answer)
        calls: list[Any] = [*(answer.tool_calls or ())]
        if not calls:
            return
        for call in calls:
            result = look_up_order(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def tools_anthropic(client: anthropic.Anthropic) -> None:
    """The same; each step begins with signed thinking, which this model binds to everything before it."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    tool: Any = {"name": "look_up_order", "input_schema": ORDER}
    while True:
        response = client.messages.create(
            model=CLAUDE,
            max_tokens=500,
            system="Use the tools.",
            messages=messages,
            tools=[tool],
            thinking={"type": "adaptive"},
        )
        messages.append({"role": "assistant", "content": response.content})
        calls: list[Any] = [block for block in response.content if block.type == "tool_use"]
        if not calls:
            return
        messages.append({"role": "user", "content": [result_of(call) for call in calls]})


def result_of(call: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call.id, "content": look_up_order(**call.input)}


def tools_gemini(client: genai.Client) -> None:
    """The same by automatic function calling: one message of the application, and the SDK runs the loop; each step's first call is signed."""
    config = types.GenerateContentConfig(
        system_instruction="Use the tools.",
        tools=[look_up_order],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(maximum_remote_calls=20),  # else 10
    )
    client.chats.create(model=GEMINI, config=config).send_message(QUESTION)
