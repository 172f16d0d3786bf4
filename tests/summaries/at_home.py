"""Clients that speak to their provider's own host, as far as they know: on the way out every request goes to the loopback provider."""

from __future__ import annotations

import importlib
from typing import Any
from urllib.parse import urlsplit

import anthropic
import openai
from google import genai

from compacting_client.testing import Provider


def client_of(sdk: str, provider: Provider, *, awaited: bool) -> Any:
    """One of an SDK, with its own base URL."""
    if sdk == "google":
        arguments = "async_client_args" if awaited else "client_args"
        options: Any = {
            arguments: {"transport": _transport(_httpx(genai.Client(api_key="k")._api_client), provider, awaited)}
        }
        made = genai.Client(api_key="k", http_options=options)
        return made.aio if awaited else made
    module: Any = {"openai": openai, "anthropic": anthropic}[sdk]
    cls = getattr(module, {"openai": "OpenAI", "anthropic": "Anthropic"}[sdk])
    transport = _transport(_httpx(cls(api_key="k")), provider, awaited)
    if awaited:
        http = module.DefaultAsyncHttpxClient(transport=transport)
        return getattr(module, f"Async{cls.__name__}")(api_key="k", http_client=http, max_retries=0)
    return cls(api_key="k", http_client=module.DefaultHttpxClient(transport=transport), max_retries=0)


def _httpx(client: Any) -> Any:
    """The HTTP library that an SDK's client uses: httpx or httpx2."""
    http = getattr(client, "_client", None) or client._httpx_client
    names = {cls.__module__.partition(".")[0] for cls in type(http).__mro__}
    return importlib.import_module(next(name for name in names if name.startswith("httpx")))


def _transport(httpx: Any, provider: Provider, awaited: bool) -> Any:
    port = urlsplit(provider.url).port

    def turned(request: Any) -> Any:
        request.url = request.url.copy_with(scheme="http", host="127.0.0.1", port=port)
        return request

    class Plain(httpx.HTTPTransport):  # type: ignore[misc]
        def handle_request(self, request: Any) -> Any:
            return super().handle_request(turned(request))

    class Awaited(httpx.AsyncHTTPTransport):  # type: ignore[misc]
        async def handle_async_request(self, request: Any) -> Any:
            return await super().handle_async_request(turned(request))

    return Awaited() if awaited else Plain()
