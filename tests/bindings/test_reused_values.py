"""Known tool results are what the tool itself would have returned."""

import json
from typing import Any, TypedDict

import openai
import pytest
from google import genai
from google.genai import types
from pydantic import BaseModel

from compacting_client import compacting, control
from compacting_client.testing import Provider, ToolCall
from tests.bindings.test_reusing import FLASH, REUSE, ask, gemini, hop, run_so_far

__all__ = ["gemini"]


class Ship(BaseModel):
    """What a tool may return."""

    number: int


class Place(TypedDict):
    """So too."""

    deck: int


class Engine:
    """What cannot be made of JSON."""


@pytest.mark.parametrize(
    ("annotation", "content", "expected"),
    [
        (str, "5", "5"),
        (str, '{"number": 1}', '{"number": 1}'),
        (str, [{"type": "text", "text": "five"}], "five"),
        (int, "5", 5),
        (float, "5", 5.0),
        (dict, '{"number": 1}', {"number": 1}),
        (list[str], '["a", "b"]', ["a", "b"]),
        (dict[str, int] | None, "null", None),
        (dict | str, '{"number": 1}', {"number": 1}),
        (dict | str, "none found", "none found"),
        (Ship, '{"number": 1}', Ship(number=1)),
        (list[Place], '[{"deck": 1}]', [{"deck": 1}]),
        (Place, '{"deck": 1}', {"deck": 1}),
        (bool, "true", True),
        (int, "12345678901234567890120", 12345678901234567890120),
        (int, "five", "ran"),
        (dict, "none found", "ran"),
        (Engine, '{"number": 1}', "ran"),
        (Any, '{"number": 1}', '{"number": 1}'),
    ],
    ids=repr,
)
def test_a_known_result_is_what_the_tool_says_that_it_returns(
    provider: Provider, chat: openai.OpenAI, annotation: Any, content: Any, expected: Any
) -> None:
    """At the first use too, as in another process; what is nothing that it returns makes it run."""
    client = compacting(chat, REUSE)

    def look_up(id: int) -> Any:  # noqa: A002
        return "ran"

    look_up.__annotations__["return"] = annotation
    provider.reply("Well.")
    ask(client, run_so_far(hop("a", content)))
    found = control(client).reusing(look_up)(1)
    assert found == expected
    assert type(found) is type(expected)


def test_without_an_annotation_each_call_has_the_kind_of_value_that_it_returned(
    provider: Provider, chat: openai.OpenAI
) -> None:
    """Data for one, text for another, whichever ran last."""
    client, ran = compacting(chat, REUSE), list[int]()
    values = {1: {"v": 1}, 2: "none found", 3: ["a"]}

    def look_up(id):  # noqa: A002
        ran.append(id)
        return values[id]

    tool = control(client).reusing(look_up)
    provider.reply("Well.", "Well.")
    ask(client, run_so_far())
    given = {n: tool(n) for n in (1, 3, 2)}
    hops = [
        hop(f"c{n}", each if isinstance(each, str) else json.dumps(each), arguments=json.dumps({"id": n}))
        for n, each in given.items()
    ]
    ask(client, run_so_far(*hops))
    assert {n: tool(n) for n in values} == values
    assert ran == [1, 3, 2]


def test_automatic_function_calling_of_gemini_has_data_for_data(provider: Provider, gemini: genai.Client) -> None:
    """A tool that is wrapped anew for each request gives what the function gives."""
    client, ran = compacting(gemini, REUSE), list[int]()

    def look_up(id: int) -> dict[str, int]:  # noqa: A002
        """Look a person up."""
        ran.append(id)
        return {"number": id}

    for number in (1, 1):
        provider.reply(ToolCall("look_up", {"id": number}))
        provider.reply("Done.")
    history: list[Any] = [types.Content(role="user", parts=[types.Part(text="Who?")])]
    for _ in range(2):
        config = types.GenerateContentConfig(tools=[control(client).reusing(look_up)])
        response = client.models.generate_content(model=FLASH, contents=history, config=config)
        history = list(response.automatic_function_calling_history or ())
    assert ran == [1]
    contents = provider.requests[-1].body["contents"]
    told = [part["functionResponse"]["response"] for c in contents for part in c["parts"] if "functionResponse" in part]
    assert told == [{"result": {"number": 1}}] * 2
