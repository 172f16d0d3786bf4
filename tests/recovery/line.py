"""One wrapped client and the provider that it talks to.  A history is a list of (role, text); the caller's list always holds all of it."""

from typing import Any

import anthropic
import openai
from google import genai
from google.genai import types

from compacting_client import Report, compacting, control
from compacting_client.testing import EventCapture, Provider
from tests.recovery.answers import CHAT, CLAUDE, GEMINI

APIS = (CHAT, CLAUDE, GEMINI)
MODES = ("sync", "async", "stream", "async stream")
MODELS = {CHAT: "my-model", CLAUDE: "claude-unlisted", GEMINI: "gemini-unlisted"}
ERRORS = (openai.APIStatusError, anthropic.APIStatusError, genai.errors.APIError)
History = list[tuple[str, str]]


def talk(turns: int, words: int = 40) -> History:
    """So many questions with their answers, and a last question."""
    said = [(role, f"{role} {n}: " + "word " * words) for n in range(turns) for role in ("user", "assistant")]
    return [*said, ("user", "And now?")]


class Line:
    """Calls go through the SDK's own method, streams are read to their end."""

    def __init__(
        self, api: str, mode: str, policy: Any, *, window: int | None = None, tokenizer: Any = None, **options: Any
    ) -> None:
        self.api, self.mode = api, mode
        self.provider = Provider(window, tokenizer=tokenizer).start()
        self.events = EventCapture()
        self.plain = self._plain()
        settings: Any = {"on_event": self.events, "strict": True, **options}
        self.client: Any = compacting(self.plain, policy, **settings)

    async def close(self) -> None:
        """The plain client, and then the provider."""
        if self.api == GEMINI:
            self.plain.close()
            await self.plain.aio.aclose()
        elif "async" in self.mode:
            await self.plain.close()
        else:
            self.plain.close()
        self.provider.stop()

    async def ask(self, history: History, *, answer: int | None = 100, model: str | None = None) -> Any:
        """The response to a history; `answer`: the tokens to reserve for it."""
        call = self._call(history, answer, model or MODELS[self.api])
        response = await call if "async" in self.mode else call
        if "async" in self.mode and "stream" in self.mode:
            async for _ in response:
                pass
        elif "stream" in self.mode:
            for _ in response:
                pass
        return response

    @property
    def statuses(self) -> list[int]:
        """What the provider answered to each request."""
        return [request.status for request in self.provider.requests]

    def sent(self, index: int = -1) -> list[Any]:
        """The messages or contents of a request."""
        body = self.provider.requests[index].body
        return list(body["contents" if self.api == GEMINI else "messages"])

    def report(self, response: Any) -> Report:
        """The report of what a call returned."""
        report = control(self.client).report_for(response)
        assert report is not None
        return report

    def _plain(self) -> Any:
        asynchronous = "Async" if "async" in self.mode else ""
        if self.api == GEMINI:
            quick = {"verify": False}  # loads no certificates
            options = types.HttpOptions(base_url=self.provider.google_url, client_args=quick, async_client_args=quick)
            return genai.Client(api_key="test", http_options=options)
        sdk, name = (openai, "OpenAI") if self.api == CHAT else (anthropic, "Anthropic")
        url = self.provider.openai_url if self.api == CHAT else self.provider.anthropic_url
        pool = getattr(sdk, f"Default{asynchronous}HttpxClient")(verify=False)
        return getattr(sdk, asynchronous + name)(base_url=url, api_key="test", max_retries=0, http_client=pool)

    def _call(self, history: History, answer: int | None, model: str) -> Any:
        streamed = {"stream": True} if "stream" in self.mode else {}
        if self.api == GEMINI:
            models = self.client.aio.models if "async" in self.mode else self.client.models
            method = models.generate_content_stream if "stream" in self.mode else models.generate_content
            names = {"user": "user", "assistant": "model"}
            contents = [{"role": names[role], "parts": [{"text": text}]} for role, text in history]
            return method(model=model, contents=contents, config={"max_output_tokens": answer} if answer else None)
        messages = [{"role": role, "content": text} for role, text in history]
        limit = {"max_tokens": answer} if answer else {}
        method = self.client.chat.completions.create if self.api == CHAT else self.client.messages.create
        return method(model=model, messages=messages, **limit, **streamed)
