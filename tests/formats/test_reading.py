"""How each wire format is read, weighed, told apart and written (DESIGN 2)."""

from collections import UserList, deque
from types import SimpleNamespace
from typing import Any

import pytest

from compacting_client import DropOldest
from compacting_client.formats import anthropic_messages, openai_chat
from compacting_client.formats.base import Unreadable, drained
from tests.core.test_exchanges import units
from tests.driving import leave, session


def chat(*messages: Any) -> Any:
    """The conversation of a chat body."""
    return openai_chat.read({"model": "m", "messages": list(messages)})


def native(*messages: Any, **fields: Any) -> Any:
    """The conversation of an Anthropic body."""
    return anthropic_messages.read({"model": "claude-sonnet-5", "messages": list(messages), **fields})


def user(*content: Any) -> dict[str, Any]:
    """A user item."""
    return {
        "role": "user",
        "content": content[0] if len(content) == 1 and isinstance(content[0], str) else list(content),
    }


def assistant(*content: Any) -> dict[str, Any]:
    """An assistant item."""
    return {**user(*content), "role": "assistant"}


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


def use(name: str, kind: str = "tool_use", **fields: Any) -> dict[str, Any]:
    """A call block."""
    return {"type": kind, "id": name, "name": "f", "input": {}, **fields}


def result(name: str, kind: str = "tool_result", content: Any = "r") -> dict[str, Any]:
    """A result block."""
    return {"type": kind, "tool_use_id": name, "content": content}


def call(name: str) -> dict[str, Any]:
    """A chat tool call."""
    return {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_one_anthropic_item_is_several_neutral_messages() -> None:
    """A user item with two results and a text is two tool messages and one user message; the system prompt comes first."""
    conversation = native(
        user("go"),
        assistant(use("a"), use("b")),
        user(result("a"), result("b"), text("and?")),
        system=[text("be"), text("kind")],
    )
    assert [m["role"] for m in conversation.messages()] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert conversation.messages()[0]["content"] == "be\nkind"
    assert conversation.count() == 6
    assert conversation.roles == ["user", "assistant", "user"]
    assert units(conversation.exchanges) == [[0], [1, 2]]


def test_neutral_messages_are_those_of_ctx_compact() -> None:
    """Role, content, tool_calls, tool_call_id and name, whatever the provider calls them."""
    shown = native(assistant(text("let me"), use("a", input={"b": 1, "a": 2}))).messages()
    function = {"name": "f", "arguments": '{"a":2,"b":1}'}
    assert shown == [
        {
            "role": "assistant",
            "content": "let me",
            "tool_calls": [{"id": "a", "type": "function", "function": function}],
        }
    ]
    assert chat({"role": "developer", "content": [text("x")], "name": "n"}).messages() == [
        {"role": "system", "content": "x", "name": "n"}
    ]


@pytest.mark.parametrize("sequence", [list, tuple])
def test_chat_calls_in_lists_and_tuples(sequence: type) -> None:
    """Calls may be given as any sequence (SEEDS C1)."""
    conversation = chat(
        {"role": "assistant", "content": None, "tool_calls": sequence([call("a")])},
        {"role": "tool", "tool_call_id": "a", "content": "r"},
    )
    assert units(conversation.exchanges) == [[0, 1]]


def test_the_older_function_calls_pair_too() -> None:
    """`function_call` and the role `function` are an exchange."""
    older = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    conversation = chat(older, {"role": "function", "name": "f", "content": "r"})
    assert units(conversation.exchanges) == [[0, 1]]
    assert conversation.roles == ["assistant", "tool"]


def test_typed_objects_are_read_like_dicts() -> None:
    """What the SDKs return may stand in a history: it is read without being changed, and sent as the same object."""
    openai_types = pytest.importorskip("openai.types.chat", reason="needs the OpenAI SDK")
    message = openai_types.ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "tool_calls": [call("a")]}
    )
    body = {
        "model": "m",
        "messages": [user("old " * 99), message, {"role": "tool", "tool_call_id": "a", "content": "r"}, user("q")],
    }
    assert units(openai_chat.read(body).exchanges) == [[0], [1, 2], [3]]
    sent, _ = leave(session(DropOldest(90, keep_head=0, keep_tail=1, target=1.0)), openai_chat, body)
    assert sent["messages"][0] is message


def test_typed_blocks_are_read_like_dicts() -> None:
    """The content of an Anthropic response may be appended as it came."""
    types = pytest.importorskip("anthropic.types", reason="needs the Anthropic SDK")
    block = types.ToolUseBlock.model_validate({"type": "tool_use", "id": "a", "name": "f", "input": {}})
    conversation = native(user("go"), {"role": "assistant", "content": [block]}, user(result("a")))
    assert units(conversation.exchanges) == [[0], [1, 2]]
    assert conversation.messages()[1]["tool_calls"][0]["id"] == "a"


def test_server_tools_pair_inside_and_across_items() -> None:
    """Call and result in one item need no other; a paused turn spread over two items is one unit."""
    inside = assistant(
        use("srvtoolu_1", "server_tool_use"), result("srvtoolu_1", "web_search_tool_result"), text("found")
    )
    paused = assistant(text("searching"), use("srvtoolu_2", "server_tool_use"))
    resumed = assistant(result("srvtoolu_2", "web_search_tool_result"), text("found"))
    assert units(native(user("q"), inside, user("r"), paused, resumed, user("s")).exchanges) == [
        [0],
        [1],
        [2],
        [3, 4],
        [5],
    ]


def test_mcp_calls_pair_like_server_tools() -> None:
    """`mcp_tool_use` and `mcp_tool_result`."""
    conversation = native(user("q"), assistant(use("m", "mcp_tool_use")), assistant(result("m", "mcp_tool_result")))
    assert units(conversation.exchanges) == [[0], [1, 2]]


def test_calls_made_by_running_code_stay_with_the_code() -> None:
    """Programmatic tool calls name their caller; all of that run is one unit."""
    caller = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    conversation = native(
        user("q"),
        assistant(use("srvtoolu_1", "server_tool_use"), use("t1", caller=caller)),
        user(result("t1")),
        assistant(use("t2", caller=caller)),
        user(result("t2")),
        assistant(result("srvtoolu_1", "code_execution_tool_result"), text("done")),
        user("next"),
    )
    assert units(conversation.exchanges) == [[0], [1, 2, 3, 4, 5], [6]]


def test_a_system_item_inside_the_history_keeps_its_neighbours() -> None:
    """A mid-conversation system section stays between the user turn before it and the assistant turn after it."""
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "messages": [
            user("a " * 99),
            {"role": "system", "content": [text("now brief")]},
            assistant("b"),
            user("c " * 99),
            assistant("d"),
            user("e"),
        ],
    }
    sent, report = leave(session(DropOldest(100, keep_head=0, keep_tail=1)), anthropic_messages, body)
    assert [m["role"] for m in sent["messages"]][:3] == ["user", "system", "assistant"]
    assert report.changed
    assert not anthropic_messages.check(sent)


def test_thinking_alone_stays_with_what_it_led_to() -> None:
    """An item of thinking and the call in the next item are one unit."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    conversation = native(user("q"), assistant(thought), assistant(use("a")), user(result("a")))
    assert units(conversation.exchanges) == [[0], [1, 2, 3]]


@pytest.mark.parametrize(
    "body",
    [
        {
            "model": "m",
            "messages": [
                user({"type": "hologram", "data": "x" * 400}),
                assistant("b " * 99),
                user("c"),
                assistant("d"),
                user("e"),
            ],
        },
        {
            "model": "m",
            "messages": [
                {"role": "critic", "content": "x" * 400},
                user("a " * 99),
                assistant("b"),
                user("c"),
                assistant("d"),
                user("e"),
            ],
        },
    ],
    ids=["block", "role"],
)
@pytest.mark.parametrize("wire", [openai_chat, anthropic_messages], ids=["chat", "anthropic"])
def test_what_nobody_knows_is_never_cut(wire: Any, body: dict) -> None:
    """A block or a role of tomorrow is counted by its size and stays."""
    sent, report = leave(session(DropOldest(150, keep_head=0, keep_tail=1)), wire, body)
    assert sent["messages"][0] is body["messages"][0]
    assert report.tokens_before > 100


def test_a_compaction_block_stays() -> None:
    """What the provider compacted by itself is opaque, and never cut."""
    compacted = assistant({"type": "compaction", "content": "so far", "signature": "s"})
    body = {
        "model": "claude-opus-4-6",
        "max_tokens": 9,
        "messages": [compacted, user("a " * 99), assistant("b " * 99), user("c")],
    }
    sent, _ = leave(session(DropOldest(120, keep_head=0, keep_tail=1)), anthropic_messages, body)
    assert sent["messages"][0] is compacted
    assert len(sent["messages"]) < 4


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"thread": {"type": "continue", "previous_message_id": "m"}}, "the server holds the history"),
        ({"compaction": {"type": "summarize"}}, "the provider is asked to compact"),
        ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, "the provider is asked to compact"),
        ({"thread": {"type": "create"}}, None),
        ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, None),
        ({}, None),
    ],
)
def test_server_held_and_server_compacted_requests(fields: dict, reason: str | None) -> None:
    """A continued thread and a request for the provider's own compaction are left alone; other edits are not in the way."""
    assert anthropic_messages.held({"messages": [], **fields}) == reason


def test_routers_that_are_asked_to_compact_are_left_alone() -> None:
    """OpenRouter's own compression is in charge where it was asked for."""
    assert openai_chat.held({"messages": [], "transforms": ["middle-out"]})
    assert openai_chat.held({"messages": [], "plugins": [{"id": "context-compression"}]})
    assert openai_chat.held({"messages": [], "plugins": [{"id": "web"}]}) is None


class Omit:
    """What the SDKs call their sentinel."""


@pytest.mark.parametrize("wire", [openai_chat, anthropic_messages], ids=["chat", "anthropic"])
def test_sentinels_are_no_data(wire: Any) -> None:
    """An omitted field counts nothing, and leaves as it is (traceloop/openllmetry#3473)."""
    body = {
        "model": "m",
        "messages": [user("a " * 99), assistant("b"), user("c")],
        "tools": Omit(),
        "system": Omit(),
        "thread": Omit(),
    }
    sent, report = leave(session(DropOldest(60, keep_head=0, keep_tail=1)), wire, body)
    assert report.tokens_overhead == 0
    assert sent["tools"] is body["tools"]


@pytest.mark.parametrize(
    "messages", [None, "text", 5, {"role": "user"}, ["text"], [None], [SimpleNamespace(role="user")]]
)
@pytest.mark.parametrize("wire", [openai_chat, anthropic_messages], ids=["chat", "anthropic"])
def test_what_is_no_history_is_unreadable(wire: Any, messages: Any) -> None:
    """The format says so with an error of its own, which the way of a request turns into a skip."""
    body = {"model": "m", "messages": messages}
    with pytest.raises(Unreadable):
        wire.read(body)
    sent, report = leave(session(DropOldest(10)), wire, body)
    assert sent is body
    assert report.reason == "unreadable"


def test_iterators_are_drained_once() -> None:
    """One-shot messages, tools and contents become lists, once; the caller's own messages are not changed."""
    message = {"role": "user", "content": iter([text("a")])}
    body = {"messages": iter([message]), "tools": iter([{"name": "f"}]), "model": "m"}
    found = drained(body, "messages", "tools", "system")
    assert found["messages"] == [user(text("a"))]
    assert found["tools"] == [{"name": "f"}]
    assert "list_iterator" in repr(message["content"])
    assert drained(found, "messages", "tools") is found


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            {"usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}},
            (9, 4, 2),
        ),
        ({"usage": {"prompt_tokens": 9, "completion_tokens": 2}}, (9, 0, 2)),
        ({"usage": None}, None),
        ({}, None),
    ],
)
def test_usage_of_chat_answers(answer: dict, expected: tuple | None) -> None:
    """The provider's own count, its cached part included."""
    assert openai_chat.usage(answer) == expected


def test_usage_of_anthropic_streams() -> None:
    """The prompt comes with `message_start`, the output with `message_delta`; the cached part is part of the input."""
    started = anthropic_messages.usage(
        {
            "type": "message_start",
            "message": {
                "usage": {
                    "input_tokens": 5,
                    "cache_read_input_tokens": 90,
                    "cache_creation_input_tokens": 5,
                    "output_tokens": 1,
                }
            },
        }
    )
    assert started == (100, 90, 1)
    assert anthropic_messages.usage({"type": "content_block_stop"}, started) == started
    assert anthropic_messages.usage({"type": "message_delta", "usage": {"output_tokens": 44}}, started) == (100, 90, 44)


@pytest.mark.parametrize("kind", [deque, UserList, lambda items: dict(enumerate(items)).values(), tuple])
def test_other_iterables_are_histories_too(kind: Any) -> None:
    """What the SDK sends as a list is read as one: a deque, a view, a list of the application's own class."""
    messages = [user("old " * 99), assistant("b"), user("c")]
    body = {"model": "claude-sonnet-5", "max_tokens": 9, "messages": kind(messages)}
    sent, report = leave(session(DropOldest(60, keep_head=0, keep_tail=1)), anthropic_messages, body)
    assert sent["messages"] == messages[2:]
    assert report.changed


def test_a_history_that_grows_while_it_is_read_is_the_one_that_was_there() -> None:
    """Another thread may append to the caller's list at any time: what came late is sent in the next request."""
    messages = [
        {"role": role, "content": f"{number} " + "word " * 20} for number in range(20) for role in ("user", "assistant")
    ]
    messages.append({"role": "user", "content": "and now?"})

    class Late(DropOldest):
        """Between the first look at the messages and the next one, there is one more."""

        def sized(self, window: Any) -> Any:
            messages.append({"role": "assistant", "content": "late"})
            return super().sized(window)

    sent, report = leave(session(Late(200)), openai_chat, {"messages": messages})
    assert report.changed
    assert sent["messages"][-1]["content"] == "and now?"
