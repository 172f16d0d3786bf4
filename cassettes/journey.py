"""What is said in the scenarios: a journey planned city by city, parcels looked up with a tool, and what aimock answers to both.

Its fixtures go by what a request ends with, so that they answer alike whatever was dropped before.
"""

from __future__ import annotations

import base64
from typing import Any

SYSTEM = "You help to plan a long journey by train. Answer briefly."
CITIES = [
    *("Porto", "Madrid", "Lyon", "Geneva", "Zurich", "Milan"),
    *("Venice", "Trieste", "Zagreb", "Graz", "Vienna", "Prague"),
]
NOTES = "The night train leaves at 21:40 from the main station; a seat costs 49, a couchette 79, a cabin 139. " * 2

ASKED = "Which of the parcels 100 to 110 are late, and why?"
# The numbers that are looked up in each step.
STEPS = ((100,), (101, 102), (103,), (104, 105), (106,), (107,), (108, 109), (110,))
FOUND = "Late are the parcels 102, 105 and 108: each of them is held at a border."

COUNTED = 300  # tokens of every prompt, as aimock tells them

GPT = "gpt-5-mini"
GEMINI = "gemini-2.5-flash"
CLAUDE = "claude-haiku-4-5"
# These think before they call a tool; the second binds its thinking to what stood before it.
THINKING = ("claude-sonnet-4-6", "claude-sonnet-5-5")
# These write summaries, where the model of the request does not.
SUMMARISING = ("gpt-5-nano", "gemini-2.5-flash-lite", THINKING[0])


def question(city: str) -> str:
    """What is asked of each city."""
    return f"Next stop: {city}. My notes: {NOTES}How long should I stay?"


def answer(city: str) -> str:
    """What aimock answers to it."""
    return f"Stay two nights in {city}. Walk through the old town, and take the last tram back to the station."


ANSWERS = tuple(map(answer, CITIES))


def stay(city: str) -> dict[str, Any]:
    """The same where an answer by a schema is asked for."""
    return {"city": city, "nights": 2, "reason": "The old town takes a day, and the last tram leaves early."}


def summary(city: str) -> str:
    """What a model of its own writes of the journey up to a city."""
    visited = ", ".join(CITIES[: CITIES.index(city) + 1])
    return f"The user travels by train with the same notes for each stop. Two nights each were advised in {visited}."


SUMMARY = "The user plans a long journey by train. Two nights were advised for each city so far."


STOPS, LONG = 6, 18  # of a parcel: as they are, and where long results are wanted


def parcel(number: int, stops: int = STOPS) -> str:
    """What the tool says of it, with so many stops on its way."""
    told = "; ".join(f"ramp {number + stop} at {4 + stop}:{number % 60:02} in order" for stop in range(stops))
    return f"parcel {number}: {told}; now {'held at a border' if number in (102, 105, 108) else 'on its way'}"


def fixtures() -> dict[str, Any]:
    """For aimock: the first one that matches answers."""
    rules = [  # a question for a summary quotes what was asked before: the last city in it tells how far it goes
        _rule({"userMessage": f"Next stop: {city}.", "model": model}, content=summary(city))
        for model in SUMMARISING
        for city in reversed(CITIES)
    ]
    rules.append(_rule({"userMessage": "Summarise the earlier part of a conversation"}, content=SUMMARY))
    for city in CITIES:
        asked = {"userMessage": f"Next stop: {city}."}
        rules.append(_rule({**asked, "responseFormat": "json_schema"}, content=stay(city)))
        rules.append(_rule(asked, content=answer(city)))
    before: dict[str, Any] = {"userMessage": ASKED, "hasToolResult": False}
    for numbers in STEPS:
        calls = [{"id": f"call_{n}", "name": "look_up_parcel", "arguments": {"number": n}} for n in numbers]
        rules += [_rule({**before, "model": model}, toolCalls=calls, **_thinking(numbers)) for model in THINKING]
        rules.append(_rule({**before, "model": GEMINI}, toolCalls=calls, finishReason="stop"))  # as Gemini says it
        rules.append(_rule(before, toolCalls=calls))
        before = {"toolResultContains": f"parcel {numbers[-1]}:"}
    return {"fixtures": [*rules, _rule(before, content=FOUND)]}


def _rule(match: dict[str, Any], **response: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": COUNTED, "completion_tokens": 20, "total_tokens": COUNTED + 20}
    return {"match": match, "response": {**response, "usage": usage}}


def _thinking(numbers: tuple[int, ...]) -> dict[str, str]:
    """Thinking with a signature of its own, as Claude puts before its calls."""
    signature = base64.b64encode(f"signed before the call of parcel {numbers[0]}".encode()).decode()
    return {"reasoning": f"Parcel {numbers[0]} is the next in the list.", "reasoningSignature": signature}
