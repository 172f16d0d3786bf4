"""Hypothesis strategies: histories as applications write them, valid and odd, in both wire shapes."""

from functools import partial
from typing import Any

from hypothesis import strategies as st

from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat

Message = dict[str, Any]

_words = st.sampled_from(["a ", "longer word ", "naïve ", "列車 ", "🎉 ", "line\n"])
texts = st.builds(lambda word, times: word * times + "x", _words, st.integers(0, 60))
roles = st.sampled_from(["user", "assistant"])


@st.composite
def exchanges(draw: st.DrawFn, number: int, *, reuse_ids: bool) -> list[Message]:
    """A neutral exchange in chat shape: one assistant message with calls, and its results."""
    count = draw(st.integers(1, 3))
    ids = [f"call_{0 if reuse_ids and count == 1 else number}_{n}" for n in range(count)]
    calls = [
        {"id": each, "type": "function", "function": {"name": draw(st.sampled_from("fgh")), "arguments": '{"a": 1}'}}
        for each in ids
    ]
    content = draw(st.one_of(st.none(), texts))
    results = [{"role": "tool", "tool_call_id": each, "content": draw(texts)} for each in ids]
    return [{"role": "assistant", "content": content, "tool_calls": calls}, *draw(st.permutations(results))]


@st.composite
def chats(draw: st.DrawFn, *, reuse_ids: bool = True, late_systems: bool = True) -> list[Message]:
    """A history that OpenAI accepts: systems anywhere, turns with tool loops, ending in a user or tool message."""
    reused = reuse_ids and draw(st.booleans())
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append({"role": draw(st.sampled_from(["system", "developer"])), "content": draw(texts)})
    number = 0
    for _ in range(draw(st.integers(0, 6))):
        if late_systems and draw(st.integers(0, 9)) == 0:
            messages.append({"role": "system", "content": draw(texts)})
        messages.append({"role": "user", "content": draw(texts)})
        for _ in range(draw(st.sampled_from([0, 0, 1, 2, 5]))):
            number += 1
            messages.extend(draw(exchanges(number, reuse_ids=reused)))
        if draw(st.integers(0, 7)):
            messages.append({"role": "assistant", "content": draw(texts)})
    messages.append({"role": "user", "content": draw(texts)})
    if draw(st.booleans()):
        messages.extend(draw(exchanges(number + 1, reuse_ids=reused)))
    return messages


def to_anthropic(messages: list[Message]) -> dict[str, Any]:
    """The same history in Anthropic's shape: systems in `system`, results in user items, ids of its form."""
    system = [{"type": "text", "text": m["content"]} for m in messages if m["role"] in ("system", "developer")]
    items: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            if items and items[-1]["role"] == "user":
                items[-1]["content"].append(result)
            else:
                items.append({"role": "user", "content": [result]})
        elif message["role"] == "assistant":
            text = [{"type": "text", "text": message["content"]}] if message["content"] else []
            calls = [
                {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": {"a": 1}}
                for call in message.get("tool_calls", ())
            ]
            items.append({"role": "assistant", "content": text + calls})
        elif message["role"] == "user":
            items.append({"role": "user", "content": [{"type": "text", "text": message["content"]}]})
    body = {"model": "claude-sonnet-5", "max_tokens": 100, "messages": items, "tools": [{"name": "f"}]}
    return {**body, "system": system} if system else body


def to_chat(messages: list[Message]) -> dict[str, Any]:
    """A body of chat completions."""
    return {"model": "gpt-x", "messages": messages}


def to_gemini(messages: list[Message], *, snake: bool = False) -> dict[str, Any]:
    """The same history in Gemini's shape: systems in `systemInstruction`, calls signed, all results of a turn in one content.

    `snake`: in snake_case, without ids, each result in a content of its own.
    """
    call, response, signature = (
        ("function_call", "function_response", "thought_signature")
        if snake
        else ("functionCall", "functionResponse", "thoughtSignature")
    )
    system = [{"text": m["content"]} for m in messages if m["role"] in ("system", "developer")]
    names: dict[str, str] = {}  # an id may come again with another tool
    contents: list[Message] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            own = {} if snake else {"id": message["tool_call_id"]}
            data = {"name": names.get(message["tool_call_id"], "?"), "response": {"result": message["content"]}, **own}
            if not snake and contents and any(response in part for part in contents[-1]["parts"]):
                contents[-1]["parts"].append({response: data})
            else:
                contents.append({"role": "user", "parts": [{response: data}]})
        elif message["role"] == "assistant":
            parts: list[Message] = [{"text": message["content"]}] if message["content"] else []
            for n, each in enumerate(message.get("tool_calls", ())):
                own = {} if snake else {"id": each["id"]}
                names[each["id"]] = each["function"]["name"]
                signed = {} if n else {signature: f"c2lnbmVk{number:04}"}
                parts.append({call: {"name": each["function"]["name"], "args": {"a": 1}, **own}, **signed})
            contents.append({"role": "model", "parts": parts})
        elif message["role"] == "user":
            contents.append({"role": "user", "parts": [{"text": message["content"]}]})
    body = {"model": "gemini-3-pro", "contents": contents, "tools": [{"functionDeclarations": [{"name": "f"}]}]}
    return {**body, "systemInstruction": {"parts": system}} if system else body


@st.composite
def odd_chats(draw: st.DrawFn) -> list[Any]:
    """Histories with faults of the caller: lost halves of exchanges, shuffles, unknown roles and parts, nulls."""
    messages: list[Any] = list(draw(chats()))
    for _ in range(draw(st.integers(1, 4))):
        index = draw(st.integers(0, len(messages) - 1))
        match draw(st.integers(0, 5)):
            case 0 if len(messages) > 1:
                del messages[index]
            case 1:
                messages.insert(index, messages[-1])
            case 2:
                messages.insert(index, {"role": "critic", "content": "?"})
            case 3:
                messages.insert(index, {"role": "user", "content": [{"type": "hologram", "data": "x" * 50}]})
            case 4:
                messages.insert(index, {"role": "assistant", "content": None})
            case _:
                messages.insert(index, {"role": "tool", "tool_call_id": "nobody", "content": "?"})
    return messages


policies_options = st.fixed_dictionaries(
    {
        "keep_head": st.integers(0, 3),
        "keep_tail": st.integers(0, 6),
        "target": st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    }
)


SHAPES: dict[str, Any] = {
    "chat": (openai_chat, to_chat),
    "anthropic": (anthropic_messages, to_anthropic),
    "gemini": (gemini_contents, to_gemini),
    "gemini, the other spelling": (gemini_contents, partial(to_gemini, snake=True)),
}
"""The formats, and what makes a body of a history in each."""
