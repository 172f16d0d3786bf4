"""What no provider can read gets the provider's own answer, as from a plain client."""

from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest

from compacting_client import DropOldest
from compacting_client.testing import Provider
from tests.cases.bench import APIS, Body, Line, covers, method, plain
from tests.cases.neighbours import turn

MakeLine = Callable[..., Line]

MALFORMED: list[Any] = [
    [],
    [{}],
    [{"role": "user"}],
    [{"role": "user", "content": None}],
    [{"role": "user", "content": []}],
    [{"role": "user", "content": 5}],
    [{"role": "user", "content": {"text": "x"}}],
    [{"role": "user", "content": ["plain"]}],
    [{"role": "user", "content": [None]}],
    [{"role": ["user"], "content": "x"}],
    [{"role": None, "content": "x"}],
    [{"role": "critic", "content": "x"}],
    [{"content": "x"}],
    [{"content": "x", "name": "n", "x": 1}],
    [{"content": "x", "tool_call_id": "a", "x": 1}],
    [{"role": "tool", "content": "x"}],
    [{"role": "tool", "content": "x", "tool_call_id": None}],
    [{"role": "tool", "content": "x", "tool_call_id": ["a"]}],
    [{"role": "assistant", "content": "x", "tool_calls": []}],
    [{"role": "assistant", "content": "x", "tool_calls": [{}]}],
    [{"role": "assistant", "content": "x", "tool_calls": [{"id": "a", "function": None}]}],
    [{"role": "assistant", "content": [{"type": "tool_use"}]}],
    [{"role": "user", "content": [{"type": "tool_result"}]}],
    [{"role": "user", "content": [{"type": ["text"]}]}],
    [
        {
            "role": "user",
            "content": [{"type": "image"}, {"type": "image_url"}, {"type": "input_audio"}, {"type": "file"}],
        }
    ],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}}]}],
    [{"role": "assistant", "content": "x", "tool_calls": 5}],
    [{"role": "assistant", "content": "x", "tool_calls": "ab"}],
    [{"role": "assistant", "content": "x", "tool_calls": [5]}],
    [{"role": "assistant", "content": "x", "function_call": 5}],
    [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": ["a"], "content": 5}]}],
    [{"role": "assistant", "content": [{"type": "tool_use", "id": ["a"], "input": "x"}]}],
    [{"role": "user", "content": [{"type": "document", "source": "x"}, {"type": "image", "source": [1]}]}],
    [{"role": "user", "content": [{"type": "text", "text": 5, "cache_control": "x"}]}],
    [{"role": "user", "content": [{"type": "text", "text": None}]}],
    [{"role": "assistant", "content": [{"type": "server_tool_use"}, {"type": "x_tool_result"}]}],
    [{"role": "assistant", "content": [{"type": "thinking"}, {"type": "redacted_thinking"}]}],
    [{"role": "system", "content": "only this"}],
    [{"role": "system", "content": None}],
    [{"role": "user", "content": "x", "name": ["a"]}],
    "text",
    5,
    {"role": "user", "content": "x"},
    None,
]


MORE = turn("word " * 40, "Go on.")
TAILS: tuple[list[Body], ...] = ([], MORE, MORE[:1], MORE[::-1], [*MORE[::-1], *MORE])


@covers("141")
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("messages", MALFORMED, ids=repr)
def test_what_no_provider_can_read_gets_the_answer_of_a_plain_client(
    messages: Any, api: str, line: MakeLine, provider: Provider
) -> None:
    """No exception of the library, over budget or not, `strict` or not: the request goes on, and the caller sees what a plain client sees."""
    for tail in TAILS:
        listed = [*messages, *tail] if isinstance(messages, list) else messages
        body = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": listed}
        expected = outcome(method(plain(provider, api), api), body, provider)
        for policy, strict in ((DropOldest(10**6), True), (DropOldest(1), True), (DropOldest(1, keep_tail=1), False)):
            wrapped = line(api, policy, strict=strict)
            error, left = outcome(method(wrapped.client(), api), body, provider)
            assert error in (expected[0], None), "it got worse"
            if policy.max_tokens == 10**6:
                assert (error, left) == expected
            assert left is None or wrapped.events.names


def outcome(call: Callable[..., Any], body: Body, provider: Provider) -> tuple[Any, Any]:
    """The kind of error that a call raises and the body that arrived; None where there is none."""
    known, error = len(provider.requests), None
    try:
        call(**body)
    except (openai.APIStatusError, anthropic.APIStatusError, TypeError, ValueError, AttributeError) as raised:
        error = type(raised)
    arrived = provider.requests[known:]
    return error, arrived[0].body if arrived else None
