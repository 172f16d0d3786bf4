"""A small travel assistant: chats with a memory, answers as server-sent events, one tool.

    POST /chats         gives {"chat": id}
    POST /chats/<id>    takes {"text": ...}, streams {"tool": ...} and {"text": ...}, in the end {"done": true} or {"error": ...}
    GET  /chats/<id>    gives all messages of the chat

Serve it with `uvicorn <name of this file>:app`; the key is found in the environment.
"""

import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

from compacting_client import compacting
from openai import APIError, AsyncOpenAI
from pydantic_core import to_jsonable_python
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

client = compacting(AsyncOpenAI(), 60_000)

SYSTEM = {"role": "system", "content": "You help to plan journeys by train. Look trains up, and answer briefly."}
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "departures",
        "description": "Today's trains from a station.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"station": {"type": "string"}},
            "required": ["station"],
            "additionalProperties": False,
        },
    },
}

chats: dict[str, list[Any]] = {}


def departures(station: str) -> str:
    """The tool: what the timetable says."""
    trains = [
        {"train": f"RE {100 + n}", "leaves": f"{5 + n // 20:02}:{n % 20 * 3:02}", "platform": n % 8} for n in range(380)
    ]
    return json.dumps({"station": station, "trains": trains})


async def answer(messages: list[Any]) -> AsyncIterator[dict[str, Any]]:
    """Ask the model until it calls no tool; what it says and what the tools say is appended."""
    while True:
        async with client.chat.completions.stream(model="gpt-5-mini", messages=messages, tools=[TOOL]) as stream:
            async for event in stream:
                if event.type == "content.delta":
                    yield {"text": event.delta}
            message = (await stream.get_final_completion()).choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            yield {"tool": call.function.name}
            result = departures(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


async def events(chat: str, text: str) -> AsyncIterator[str]:
    messages = [*chats[chat], {"role": "user", "content": text}]
    try:
        async for said in answer(messages):
            yield f"data: {json.dumps(said)}\n\n"
        chats[chat] = messages  # whole turns only: not where the provider refused, or the browser went away
        yield 'data: {"done": true}\n\n'
    except APIError as error:
        yield f"data: {json.dumps({'error': error.message})}\n\n"


async def begin(_: Request) -> JSONResponse:
    chat = secrets.token_urlsafe(16)
    chats[chat] = [SYSTEM]
    return JSONResponse({"chat": chat})


async def say(request: Request) -> StreamingResponse:
    text: str = (await request.json())["text"]
    return StreamingResponse(events(known(request), text), media_type="text/event-stream")


async def show(request: Request) -> JSONResponse:
    return JSONResponse(to_jsonable_python(chats[known(request)], exclude_none=True))


def known(request: Request) -> str:
    chat: str = request.path_params["chat"]
    if chat not in chats:
        raise HTTPException(404)
    return chat


app = Starlette(
    routes=[
        Route("/chats", begin, methods=["POST"]),
        Route("/chats/{chat}", say, methods=["POST"]),
        Route("/chats/{chat}", show),
    ]
)
