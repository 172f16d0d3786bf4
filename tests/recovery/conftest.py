"""Wrapped clients of the three SDKs, sync, async and streamed, on a loopback provider with a window."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.recovery.line import Line


@pytest.fixture
async def line() -> AsyncIterator[Callable[..., Line]]:
    """`line(api, mode="sync", policy=None, window=None, tokenizer=None, **options)`: a client of a provider of its own."""
    made: list[Line] = []

    def make(api: str, mode: str = "sync", policy: Any = None, **more: Any) -> Line:
        made.append(Line(api, mode, policy, **more))
        return made[-1]

    yield make
    for each in made:
        await each.close()
