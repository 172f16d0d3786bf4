"""`generateContent` and `streamGenerateContent` through Google's SDK."""

from __future__ import annotations

from typing import Any

from google import genai
from google.genai import errors, types

from cassettes import journey
from cassettes.scenarios.base import Outcome, Play, Scenario, Server, Texts, rewriting, shortened
from compacting_client import Chain, DropOldest, KeepTurns, Summarize, control

MODEL = journey.GEMINI

TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="look_up_parcel",
            description="What the depot knows of a parcel.",
            parameters=types.Schema(
                type=types.Type.OBJECT,
                properties={"number": types.Schema(type=types.Type.INTEGER)},
                required=["number"],
            ),
        )
    ]
)
SYSTEM = types.GenerateContentConfig(system_instruction=journey.SYSTEM)


def _with(*tools: Any) -> Any:
    calling = types.AutomaticFunctionCallingConfig(maximum_remote_calls=20)
    return types.GenerateContentConfig(
        system_instruction=journey.SYSTEM, tools=[*tools], automatic_function_calling=calling
    )


def _asked(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def chats(client: genai.Client, outcome: Outcome) -> None:
    """The SDK's chat: it keeps the history, and sends all of it each time."""
    chat = client.chats.create(model=MODEL, config=SYSTEM)
    for city in journey.CITIES:
        outcome.texts.append(chat.send_message(journey.question(city)).text or "")


async def chats_streamed(client: Any, outcome: Outcome) -> None:
    """The same, async and streamed."""
    chat = client.chats.create(model=MODEL, config=SYSTEM)
    for city in journey.CITIES:
        text = ""
        async for chunk in await chat.send_message_stream(journey.question(city)):
            outcome.events += 1
            text += chunk.text or ""
        outcome.texts.append(text)


def streamed(client: genai.Client, outcome: Outcome) -> None:
    """A history that the application keeps, streamed."""
    contents: list[Any] = []
    for city in journey.CITIES:
        contents.append(_asked(journey.question(city)))
        text = ""
        for chunk in client.models.generate_content_stream(model=MODEL, contents=contents, config=SYSTEM):
            outcome.events += 1
            text += chunk.text or ""
        contents.append(types.Content(role="model", parts=[types.Part(text=text)]))
        outcome.texts.append(text)


def _carried_out(answer: types.Content, outcome: Outcome) -> list[types.Content]:
    """The answer, and one item with the results of the calls in it."""
    calls: list[Any] = [part.function_call for part in answer.parts or () if part.function_call]
    answered = (
        types.FunctionResponse(id=call.id, name=call.name, response={"result": outcome.look_up(**call.args)})
        for call in calls
    )
    results = [types.Part(function_response=each) for each in answered]
    return [answer, *([types.Content(role="user", parts=results)] if results else [])]


def _answered(client: genai.Client, contents: list[Any], outcome: Outcome) -> None:
    """Function calls until there is an answer."""
    while True:
        response: Any = client.models.generate_content(model=MODEL, contents=contents, config=_with(TOOL))
        contents += _carried_out(response.candidates[0].content, outcome)
        if not response.function_calls:
            outcome.texts.append(response.text or "")
            return


def tools(client: genai.Client, outcome: Outcome) -> None:
    """One question, and function calls, some of them parallel."""
    _answered(client, [_asked(journey.ASKED)], outcome)


async def tools_streamed(client: Any, outcome: Outcome) -> None:
    """The same, async and streamed."""
    contents: list[Any] = [_asked(journey.ASKED)]
    while not outcome.texts:
        parts: list[types.Part] = []
        async for chunk in await client.models.generate_content_stream(
            model=MODEL, contents=contents, config=_with(TOOL)
        ):
            outcome.events += 1
            parts += chunk.candidates[0].content.parts or []
        contents += _carried_out(types.Content(role="model", parts=parts), outcome)
        if not any(part.function_call for part in parts):
            outcome.texts.append("".join(part.text or "" for part in parts))


def functions(client: genai.Client, outcome: Outcome) -> None:
    """The SDK's own loop: automatic function calling."""
    asked, config = journey.ASKED, _with(outcome.tool)
    response = client.models.generate_content(model=MODEL, contents=asked, config=config)
    outcome.texts.append(response.text or "")


async def afunctions(client: Any, outcome: Outcome) -> None:
    """The same in a chat, async, after some talk."""
    chat = client.chats.create(model=MODEL, config=_with(outcome.tool))
    for text in (*map(journey.question, journey.CITIES[:4]), journey.ASKED):
        outcome.texts.append((await chat.send_message(text)).text or "")


def window(client: genai.Client, outcome: Outcome) -> None:
    """A server with a context window, which calls the tool in every turn; at the end the same history without a policy."""
    contents: list[Any] = []
    for city in journey.CITIES:
        contents.append(_asked(journey.question(city)))
        _answered(client, contents, outcome)
    contents.append(_asked(journey.question(journey.CITIES[0])))
    with control(client).using(False):
        try:
            client.models.generate_content(model=MODEL, contents=contents, config=_with(TOOL))
        except errors.ClientError as error:
            outcome.refusals.append(str(error))


def _scenario(
    name: str,
    play: Play,
    policy: Any,
    *,
    server: Server = "aimock",
    texts: Texts = journey.ANSWERS,
    stops: int = journey.STOPS,
) -> Scenario:
    prefix = {"aimock": "", "llmock": "/gemini"}[server]
    return Scenario(f"gemini-{name}", "gemini", server, _connect, prefix, policy, play, texts, stops)


def _connect(url: str) -> genai.Client:
    # Both servers know v1beta only.
    options = types.HttpOptions(base_url=url, api_version="v1beta")
    return genai.Client(api_key="test", vertexai=False, http_options=options)


FOUND = (journey.FOUND,)
SCENARIOS = (
    _scenario("chats", chats, DropOldest(600)),
    _scenario("chats-stream", chats_streamed, KeepTurns(3, slack=2)),
    _scenario("stream", streamed, DropOldest(600)),
    _scenario("tools", tools, shortened, texts=FOUND),
    _scenario("functions", functions, DropOldest(600), texts=FOUND),
    _scenario(
        "functions-async", afunctions, Chain(KeepTurns(3), DropOldest(600)), texts=(*journey.ANSWERS[:4], *FOUND)
    ),
    _scenario("window", window, DropOldest(600), server="llmock", texts=None),
    _scenario("summarize", chats, Summarize(journey.SUMMARISING[1], max_messages=10, keep_recent=4)),
    _scenario(
        "summarize-stream",
        chats_streamed,
        Summarize(max_messages=None, token_budget=600, keep_recent=4, max_summary_tokens=100, target=0.8),
    ),
    *rewriting(_scenario, functions, tools_streamed, window),
)
