"""Conversations of several languages for each API, and a provider whose tokenizer has a rate for each script."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from compacting_client import Report, compacting, control
from compacting_client.testing import Provider
from compacting_client.testing.tokens import MEDIA
from tests.core.test_tokens import png

Body = dict[str, Any]

CHAT, CLAUDE, GEMINI = APIS = ("openai-chat", "anthropic-messages", "gemini")
MODES = ("sync", "async", "stream", "async stream")
MODELS = {CHAT: "gpt-5-mini", CLAUDE: "claude-haiku-4-5", GEMINI: "gemini-2.5-flash"}

PICTURE = {CHAT: 765, CLAUDE: 1600, GEMINI: 1032}
"""Tokens of a picture of 1,300 pixels on both sides, as the guide of each provider has it."""

TEXTS = {
    "English": "The wind went round to the north, and we took in sail; by noon the glass had fallen to twenty-nine inches. ",
    "German": "Überraschenderweise drehte der Wind gegen Mittag über Nord, weshalb wir vorsichtshalber die Großsegel einholten. ",
    "Chinese": "午后风向转北,我们收起了主帆;气压计降到二十九寸,船长下令所有人到甲板上集合,准备迎接暴风雨。",
    "code": "def heel(wind: float, sail_m2: float) -> float:\n    return min(45.0, wind ** 2 * sail_m2 * RHO / (2 * self.gm))\n\n",
    "JSON": '{"t":"12:40","lat":49.8831,"lon":-6.1247,"wind":{"dir":355,"kn":34},"sail":["jib","fore"],"ok":true},',
}


def by_script(text: str) -> int:
    """Tokens of the JSON of one message as a provider might count it: what it says by a rate for each script, four more, pictures by the guide."""
    said = " ".join(_said(json.loads(text))) if text[:1] in '[{"' else text
    pictures = said.count(MEDIA)
    return round(4 + sum(map(_rate, said.replace(MEDIA, "")))) + pictures * by_script.picture  # type: ignore[attr-defined]


def evenly(text: str) -> int:
    """One token for 2.7 characters of JSON."""
    pictures = text.count(MEDIA)
    return round(len(text.replace(MEDIA, "")) / 2.7) + pictures * by_script.picture  # type: ignore[attr-defined]


def _said(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name not in ("role", "type", "id", "tool_call_id", "tool_use_id", "media_type", "mimeType"):
                yield name if name not in ("content", "text", "parts") else ""
                yield from _said(each)
    elif isinstance(value, list):
        for each in value:
            yield from _said(each)
    else:
        yield str(value)


def _rate(letter: str) -> float:
    if letter.isascii():
        return 0.24 if letter.isalpha() else 0.05 if letter.isspace() else 0.45
    return 0.7 if ord(letter) < 0x2E80 else 1.2


@pytest.fixture
def counting_provider(request: pytest.FixtureRequest) -> Iterator[Callable[..., Provider]]:
    """`counting_provider(api, tokenizer)`: one that counts in its own way."""
    running: list[Provider] = []

    def start(api: str, tokenizer: Callable[[str], int] = by_script) -> Provider:
        by_script.picture = PICTURE[api]  # type: ignore[attr-defined]
        running.append(Provider(tokenizer=tokenizer).start())
        return running[-1]

    yield start
    for provider in running:
        provider.stop()


def client_of(provider: Provider, api: str, *, asynchronous: bool = False) -> Any:
    """A client of the SDK, that talks to the provider."""
    unverified = {"verify": False}  # loads no certificates
    if api == GEMINI:
        options = types.HttpOptions(base_url=provider.google_url, client_args=unverified, async_client_args=unverified)
        return genai.Client(api_key="test", http_options=options)
    sdk: Any = openai if api == CHAT else anthropic
    name = ("Async" if asynchronous else "") + ("OpenAI" if api == CHAT else "Anthropic")
    url = provider.openai_url if api == CHAT else provider.anthropic_url
    pool = (sdk.DefaultAsyncHttpxClient if asynchronous else sdk.DefaultHttpxClient)(**unverified)
    return getattr(sdk, name)(base_url=url, api_key="test", max_retries=0, http_client=pool)


def talk(api: str, language: str, turns: int, *, tools: bool = False, pictures: bool = False) -> Body:
    """The arguments of a call whose history has so many turns and a question, each of another length."""
    text = TEXTS[language]
    said: list[Body] = []

    def question(turn: int) -> Body:
        return _user(api, f"{turn}. {text * (3 + turn * 5 % 7)}", with_picture=pictures and turn % 2 == 0)

    for turn in range(turns):
        said.append(question(turn))
        if tools:
            said.extend(_exchange(api, f"call_{turn}", text * (1 + turn * 3 % 4)))
        said.append(_answer(api, f"{turn}: {text * (2 + turn * 4 % 5)}"))
    said.append(question(turns))
    return _arguments(api, said, tools=tools)


def _arguments(api: str, said: list[Body], *, tools: bool) -> Body:
    system = "You keep the log of a ship, and answer in the language of the question."
    schema = {"type": "object", "properties": {"day": {"type": "string", "description": "a date"}}}
    tool = {"name": "read_log", "description": "Reads the log of a day."}
    if api == CHAT:
        body: Body = {"messages": [{"role": "system", "content": system}, *said]}
        return body | ({"tools": [{"type": "function", "function": {**tool, "parameters": schema}}]} if tools else {})
    if api == CLAUDE:
        body = {"messages": said, "system": system, "max_tokens": 100}
        return body | ({"tools": [{**tool, "input_schema": schema}]} if tools else {})
    declared = {"tools": [{"function_declarations": [{**tool, "parameters_json_schema": schema}]}]} if tools else {}
    return {"contents": said, "config": {"system_instruction": system, **declared}}


def _user(api: str, text: str, *, with_picture: bool = False) -> Body:
    data = png(1300, 1300) if with_picture else ""
    if api == CHAT:
        shown: list[Body] = [{"type": "text", "text": text}]
        shown.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data + 'A' * 8_000}"}})
        return {"role": "user", "content": shown if data else text}
    if api == CLAUDE:
        source = {"type": "base64", "media_type": "image/png", "data": data}
        blocks: list[Body] = [{"type": "text", "text": text}, {"type": "image", "source": source}]
        return {"role": "user", "content": blocks if data else text}
    parts: list[Body] = [{"text": text}]
    return {
        "role": "user",
        "parts": parts + ([{"inline_data": {"mime_type": "image/png", "data": data}}] if data else []),
    }


def _answer(api: str, text: str) -> Body:
    return {"role": "model", "parts": [{"text": text}]} if api == GEMINI else {"role": "assistant", "content": text}


def _exchange(api: str, call: str, result: str) -> list[Body]:
    arguments = {"day": call}
    if api == CHAT:
        function = {"name": "read_log", "arguments": json.dumps(arguments)}
        asked: Body = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call, "type": "function", "function": function}],
        }
        return [asked, {"role": "tool", "tool_call_id": call, "content": result}]
    if api == CLAUDE:
        use = {"type": "tool_use", "id": call, "name": "read_log", "input": arguments}
        answer: Body = {"type": "tool_result", "tool_use_id": call, "content": result}
        return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]
    asked = {"role": "model", "parts": [{"function_call": {"name": "read_log", "args": arguments}}]}
    answer = {"function_response": {"name": "read_log", "response": {"result": result}}}
    return [asked, {"role": "user", "parts": [answer]}]


def called(client: Any, api: str, mode: str, body: Body) -> Any:
    """What the SDK's method of this API and mode returns; to be awaited on async clients."""
    arguments = {"model": MODELS[api], **body}
    if api == GEMINI:
        models = client.models
        return (models.generate_content_stream if "stream" in mode else models.generate_content)(**arguments)
    if api == CHAT:
        streamed = {"stream": True, "stream_options": {"include_usage": True}} if "stream" in mode else {}
        return client.chat.completions.create(**arguments, **streamed)
    return client.messages.create(**arguments, stream="stream" in mode)


async def reports_of(
    provider: Provider, api: str, mode: str, policy: Any, bodies: list[Body], **options: Any
) -> list[Report]:
    """The reports of these requests, made one after the other with one wrapped client, read to their ends."""
    found: list[Report] = []
    awaited = "async" in mode
    made = client_of(provider, api, asynchronous=awaited)
    client = compacting(made.aio if api == GEMINI and awaited else made, policy, strict=True, **options)
    for body in bodies:
        response = called(client, api, mode, body)
        if awaited:
            response = await response
        if mode == "async stream":
            async for _ in response:
                pass
        elif mode == "stream":
            for _ in response:
                pass
        report = control(client).report_for(response)
        assert report is not None
        found.append(report)
    await _closed(made, api, awaited=awaited)
    return found


async def _closed(made: Any, api: str, *, awaited: bool) -> None:
    if awaited:
        await (made.aio.aclose() if api == GEMINI else made.close())
    made.close() if not awaited or api == GEMINI else None
