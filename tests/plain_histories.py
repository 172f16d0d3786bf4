"""Histories for the tests of the plain functions: builders, random ones, and a slow check that no exchange is torn."""

from collections import Counter
from typing import Any

from hypothesis import strategies as st

Message = dict[str, Any]


def user(text: str = "go on") -> Message:
    return {"role": "user", "content": text}


def said(text: str = "done") -> Message:
    return {"role": "assistant", "content": text}


def asks(*ids: str, name: str = "look_up", arguments: str = "{}") -> Message:
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answers(call: str, text: str = "found") -> Message:
    return {"role": "tool", "tool_call_id": call, "content": text}


def used(*ids: str) -> Message:
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": i, "name": "look_up", "input": {}} for i in ids],
    }


def resulted(*ids: str) -> Message:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": i, "content": "found"} for i in ids]}


SYSTEM: Message = {"role": "system", "content": "Be brief."}
README: list[Message] = [
    {"role": "system", "content": "You are a helpful assistant."},
    user("What is the weather in Denver?"),
    asks("call_1", name="get_weather", arguments='{"city":"Denver"}'),
    answers("call_1", '{"tempF":72}'),
    said("It is 72F in Denver."),
    user("What about Austin?"),
    asks("call_2", name="get_weather", arguments='{"city":"Austin"}'),
    answers("call_2", '{"tempF":88}'),
    said("It is 88F in Austin."),
    user("And tomorrow in Denver?"),
]


def one(_: Any) -> int:
    return 1


def places(part: list[Any], whole: list[Any]) -> list[int]:
    """The positions in `whole` of the objects of `part`, by identity and in order; -1 for what is not of it."""
    found: list[int] = []
    start = 0
    for message in part:
        at = next((i for i in range(start, len(whole)) if whole[i] is message), -1)
        found.append(at)
        start = at + 1 if at >= 0 else start
    return found


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
EXTRAS = st.dictionaries(
    st.sampled_from(["name", "score", "tags"]), st.one_of(TEXTS, st.floats(), st.lists(st.integers()))
)


@st.composite
def plain_messages(draw: st.DrawFn) -> list[Message]:
    role = draw(st.sampled_from(["system", "user", "assistant", "developer", "critic"]))
    return [{"role": role, "content": draw(TEXTS), **draw(EXTRAS)}]


@st.composite
def adjacent_exchanges(draw: st.DrawFn) -> list[Message]:
    ids = draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True))
    return [asks(*ids), *(answers(call, draw(TEXTS)) for call in draw(st.permutations(ids)))]


def joined(parts: list[list[Message]]) -> list[Message]:
    return [message for part in parts for message in part]


ADJACENT = st.lists(st.one_of(plain_messages(), adjacent_exchanges()), max_size=12).map(joined)
ANYWHERE = st.lists(
    st.one_of(
        st.sampled_from("abc").map(lambda call: [answers(call)]),
        st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True).map(lambda ids: [asks(*ids)]),
        st.just("talk").map(lambda _: [user()]),
    ),
    max_size=14,
).map(joined)


APART = {
    "a user message between": [SYSTEM, asks("1"), user(), answers("1"), said(), user()],
    "a system note between": [SYSTEM, user(), asks("1"), dict(SYSTEM), answers("1"), said(), user()],
    "two calls, then two results": [SYSTEM, asks("1"), asks("2"), answers("1"), answers("2"), said(), user()],
    "a batch answered in two places": [SYSTEM, asks("1", "2"), answers("1"), said(), answers("2"), said(), user()],
    "calls in a tuple": [
        SYSTEM,
        user(),
        {**asks("1"), "tool_calls": tuple(asks("1")["tool_calls"])},
        answers("1"),
        user(),
    ],
    "an id used again": [SYSTEM, asks("1"), user(), answers("1"), asks("1"), said(), answers("1"), user()],
    "the older function call": [
        SYSTEM,
        user(),
        {"role": "assistant", "content": None, "function_call": {"name": "look_up", "arguments": "{}"}},
        {"role": "function", "name": "look_up", "content": "found"},
        user(),
    ],
    "blocks of Anthropic": [
        user(),
        used("1", "2"),
        resulted("1", "2"),
        said(),
        used("1"),
        resulted("1"),
        said(),
        user(),
    ],
    "a server's tool over two messages": [
        user(),
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]},
        {"role": "assistant", "content": [{"type": "web_search_tool_result", "tool_use_id": "s", "content": []}]},
        user(),
        said(),
        user(),
    ],
}


def pairs_of(messages: list[Message]) -> list[tuple[int, int]]:
    """Each result with the nearest unanswered call of its id before it, found the slow way."""
    answered: Counter[tuple[int, str]] = Counter()
    found: list[tuple[int, int]] = []
    for index, message in enumerate(messages):
        for name in names(message, "answers"):
            for earlier in range(index - 1, -1, -1):
                if names(messages[earlier], "asks").count(name) > answered[earlier, name]:
                    answered[earlier, name] += 1
                    found.append((earlier, index))
                    break
    return found


def names(message: Message, side: str) -> list[str]:
    blocks = message["content"] if isinstance(message["content"], list) else []
    if side == "asks":
        older = message.get("function_call") or {}
        calls = [*(message.get("tool_calls") or ()), *(b for b in blocks if b["type"].endswith("tool_use"))]
        return [call["id"] for call in calls] + ([older["name"]] if older else [])
    results = [block["tool_use_id"] for block in blocks if block["type"].endswith("tool_result")]
    own = {"tool": message.get("tool_call_id"), "function": message.get("name")}.get(message["role"])
    return results + ([own] if own else [])


def assert_whole(messages: list[Message], result: Any) -> None:
    """No exchange is torn, nothing stands inside one, and all messages are accounted for in their order."""
    kept, dropped = places(result.messages, messages), places(result.dropped, messages)
    assert sorted([*(i for i in kept if i >= 0), *dropped]) == list(range(len(messages)))
    assert dropped == sorted(dropped)
    for call, answer in pairs_of(messages):
        assert (call in kept) == (answer in kept)
        if call in kept and -1 in kept:
            assert (kept.index(call) < kept.index(-1)) == (kept.index(answer) < kept.index(-1))
