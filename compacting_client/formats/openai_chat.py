"""OpenAI chat completions, and the many servers that speak it.

Rules and their wording: the provider's errors as quoted in public reports (named beside each rule).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, cast

from compacting_client.core.conversation import OTHER, SYSTEM, Contents, Conversation, ItemEdit, Message
from compacting_client.core.edits import rendered
from compacting_client.core.facts import asked_in
from compacting_client.core.imprints import Imprint
from compacting_client.core.plan import Plan
from compacting_client.core.tokens import dump
from compacting_client.formats import canonical, media, overflow
from compacting_client.formats.base import (
    Glance,
    PlainHistory,
    TooLong,
    Unreadable,
    Usage,
    Violation,
    as_dict,
    column,
    get,
    given,
    items_in,
    kind,
    whole,
)
from compacting_client.formats.calls import asked, call_ids, calls_of, emptied, meant_calls
from compacting_client.formats.chat_media import media_tokens
from compacting_client.formats.leading import with_system

__all__ = [
    "API",
    "FIELD",
    "asked",
    "check",
    "held",
    "read",
    "refused_binding",
    "reserved",
    "too_long",
    "usage",
    "write",
]

API = "openai-chat"
FIELD = "messages"

_ROLES = {
    "system": SYSTEM,
    "developer": SYSTEM,
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_SAME = frozenset({"system", "user", "assistant", "tool"})  # those that are neutral roles too
_PLAIN = frozenset({"user", "assistant"})
_USUAL = frozenset({"role", "content", "tool_calls"})
_SAID_APART = ("role", "content", "tool_calls", "function_call")
_MEDIA = frozenset({"image_url", "input_audio", "video_url", "document_url", "file"})
_KNOWN_PARTS = _MEDIA | {"text", "refusal", "thinking", "reference"}
# every provider is spoken to in this API, by gateways at least
_TOO_LONG = (*overflow.COMPATIBLE, *overflow.CLAUDE, *overflow.GEMINI)


def held(body: Mapping[str, Any]) -> str | None:
    """OpenRouter is asked to compact by itself (its `middle-out` transform, its context-compression plugin)."""
    plugins = body.get("plugins") if given(body.get("plugins")) else ()
    asked = isinstance(plugins, (list, tuple)) and any(
        isinstance(plugin, dict) and cast("dict[str, Any]", plugin).get("id") == "context-compression"
        for plugin in cast("Sequence[Any]", plugins)
    )
    return "the provider is asked to compact" if asked or body.get("transforms") == ["middle-out"] else None


def read(body: Mapping[str, Any], plain: PlainHistory | None = None) -> Conversation:
    """The conversation of ``body["messages"]``: dicts or typed objects.  Raises Unreadable where it is no list of messages."""
    items = items_in(body, FIELD) if plain is None else plain.items
    contents = column(items, "content") if plain is None else plain.texts
    roles = column(items, "role")
    if not set(roles) <= _SAME:
        roles = [*map(_ROLES.get, roles, repeat(OTHER))]
    return Conversation(
        api=API,
        model=str(body.get("model") or ""),
        reader=_Reader(),
        items=items,
        roles=roles,
        look=partial(_look, items, contents, roles),
        fits=Glance(items, contents, plain=plain is not None),
        tools=next((body[name] for name in ("tools", "functions") if given(body.get(name))), None),
        schema=get(body.get("response_format"), "json_schema"),
    )


def _look(items: Sequence[dict[str, Any]], texts: Sequence[Any], roles: Sequence[str]) -> Contents:
    """One pass over all that is more than text of a user or an assistant."""
    imprints: list[Any] = list(texts)
    odd = [
        index
        for index, item in enumerate(items)
        if len(item) != 2 or type(texts[index]) is not str or roles[index] not in _PLAIN
    ]
    media, calls, answers, fixed = dict[int, int](), dict[int, list[str]](), dict[int, tuple[str]](), set[int]()
    for index in odd:
        item, text, role = items[index], imprints[index], roles[index]
        if role == "tool":
            call = item.get("tool_call_id")
            # most results are plain: what `_imprint` says of those, in place
            if len(item) == 3 and type(text) is str and type(call) is str and item["role"] == "tool":
                answers[index] = (call,)
                imprints[index] = (text, call)
                continue
            answers[index] = (_answer_id(item),)
        elif role == "assistant" and (asked := call_ids(item)):
            calls[index] = asked
        if role == OTHER or (type(text) is list and _has_unknown_part(cast("list[Any]", text))):
            fixed.add(index)
        if (text is None or isinstance(text, str)) and "audio" not in item:
            imprints[index] = dump(item)
            continue
        imprints[index], tokens = _imprint(item, text, role)
        if tokens is not None:
            media[index] = tokens
    return Contents(imprints, media, calls, answers, odd, fixed=fixed)


def _imprint(item: dict[str, Any], text: Any, role: str) -> tuple[Imprint, int | None]:
    """The imprint of a message of this content and neutral role, and the tokens of its media where it has some."""
    if type(text) is str:
        if len(item) == 2 and role in _PLAIN:
            return text, None
        if len(item) == 3 and item.get("role") == "tool" and type(item.get("tool_call_id")) is str:
            return (text, item["tool_call_id"]), None
    light, tokens = _light(item) if isinstance(text, (list, tuple)) or "audio" in item else (item, 0)
    return dump(light), tokens if light is not item else None


def write(plan: Plan, conversation: Conversation, body: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `body` without the items that go; the rest are the caller's own objects."""
    messages, size = body[FIELD], len(conversation)
    if not plan.edits:
        return {**body, FIELD: plan.without(messages[:size])}
    edits, reader = plan.edits.by_item(), conversation.reader
    sent = [item for index in plan.kept(size) for item in rendered(reader, messages[index], edits.get(index))]
    return {**body, FIELD: with_system(reader, sent, plan.edits.system) if plan.edits.system else sent}


def usage(answer: Any, so_far: Usage | None = None) -> Usage | None:
    """From a completion, a chunk, or their JSON."""
    counted = get(answer, "usage")
    prompt = get(counted, "prompt_tokens")
    if not isinstance(prompt, int):
        return so_far
    cached = get(get(counted, "prompt_tokens_details"), "cached_tokens")
    return Usage(prompt, cached or 0, get(counted, "completion_tokens") or 0)


def refused_binding(status: int | None, text: str) -> bool:  # noqa: ARG001 - the protocol's signature
    """Nothing is bound to its place in this API."""
    return False


def reserved(body: Mapping[str, Any]) -> int:
    """`max_completion_tokens`, or `max_tokens`, its older name."""
    return whole(body, "max_completion_tokens", "max_tokens")


def too_long(status: int | None, body: Any, code: str | None = None) -> TooLong | None:
    """In the words of any provider; some of the servers that speak this API refuse without a word."""
    return overflow.recognised(_TOO_LONG, status, body, code, empty=True)


def check(body: Mapping[str, Any]) -> list[Violation]:
    """What the provider would refuse: pairing, its order, and empty content."""
    given_messages = _messages(body)
    messages = (
        given_messages if set(map(type, given_messages)) <= {dict} else [as_dict(each) or {} for each in given_messages]
    )
    if not messages:
        message = (
            f"Invalid '{FIELD}': empty array. Expected an array with minimum length 1, but got an empty array instead."
        )
        return [Violation("oc-empty", FIELD, message)]
    found: list[Violation] = []
    waiting: list[str] = []
    asked: list[str] = []
    for index, item in enumerate(messages):
        role, content = item.get("role"), item.get("content")
        if len(item) == 2 and role in _PLAIN and content is not None and not asked:
            continue  # what most are: nothing but a role and a text, with no call before it
        if role == "tool":
            call = item.get("tool_call_id")
            if type(call) is not str:
                call = _answer_id(item)
            if call in waiting:
                waiting.remove(call)
            elif call not in asked:
                found.append(_orphan(index))
            continue
        if waiting:
            found.append(_unanswered(index, waiting))
        calls, waiting, asked = item.get("tool_calls"), [], []
        if calls and role == "assistant":
            asked = call_ids(item)
            waiting = list(asked)
        if calls == [] or (not calls and content is None):
            found.extend(_content_rules(f"{FIELD}[{index}]", item))
    if waiting:
        found.append(_unanswered(len(messages) - 1, waiting))
    return found


def _orphan(index: int) -> Violation:
    # miurla/morphic#136
    message = (
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
    )
    return Violation("oc-tool-orphan", f"{FIELD}[{index}]", message)


def _unanswered(index: int, waiting: Sequence[str]) -> Violation:
    # aliasrobotics/cai#111
    return Violation(
        "oc-tool-unanswered",
        f"{FIELD}[{index}]",
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(waiting)}",
    )


def _content_rules(where: str, item: Mapping[str, Any]) -> list[Violation]:
    found: list[Violation] = []
    if item.get("tool_calls") == []:
        found.append(
            Violation(
                "oc-tool-calls-empty",
                where,
                f"Invalid '{where}.tool_calls': empty array. Expected an array with minimum length 1.",
            )
        )
    spoken = any(item.get(name) for name in ("tool_calls", "function_call", "refusal", "audio"))
    if item.get("content") is None and not (item.get("role") == "assistant" and spoken):  # docker/docker-agent#63
        found.append(Violation("oc-content-null", where, "Invalid value for 'content': expected a string, got null."))
    return found


class _Reader:
    """How one chat message is shown, weighed and told apart."""

    def neutral(self, item: Any) -> list[Message]:
        role = _ROLES.get(item.get("role", ""), "user")
        message: Message = {"role": role, "content": _text(item.get("content"))}
        if role == "assistant" and (asked := calls_of(item)):
            message["tool_calls"] = list(asked)
        if role == "tool":
            message["tool_call_id"] = _answer_id(item)
        if isinstance(item.get("name"), str):
            message["name"] = item["name"]
        return [message]

    def imprint(self, item: Any, role: str) -> tuple[Imprint, int]:
        found, tokens = _imprint(item, item.get("content"), role)
        return found, tokens or 0

    def meaning(self, item: Any) -> Any:
        role, content = item.get("role"), item.get("content")
        if len(item) == 3 and role == "assistant" and (content is None or type(content) is str):
            calls = meant_calls(item) if "tool_calls" in item else None
            if calls:  # what nearly all calls are
                return role, content or "", {"calls": calls}
        meant = _ROLES.get(role, role), (canonical.content(content) if content else "") or ""
        said: dict[str, Any] = {}
        if not item.keys() <= _USUAL:
            said = canonical.fields(item, *_SAID_APART, *(("name",) if meant[0] == "tool" else ()))
        if calls := meant_calls(item):
            said["calls"] = calls
        return (*meant, said) if said else meant

    def asked(self, item: Any) -> tuple[str, list[tuple[str, str, Any]]]:
        try:  # plain dicts, what nearly all calls are
            functions = [(call["id"], call["function"]) for call in item["tool_calls"]]
            content = item.get("content") or ""
            if functions and type(content) is str:
                return content, [(str(call), str(each["name"]), each["arguments"]) for call, each in functions]
        except (KeyError, TypeError):
            pass
        return asked_in(self.neutral(item)[0])

    def returned(self, content: Any) -> Any:
        return content

    def failures(self, item: Any) -> Sequence[int]:  # noqa: ARG002 - this API has no mark for it
        return ()

    def strip(self, item: Any) -> Any:
        return item

    def edited(self, item: Any, edit: ItemEdit) -> Any:
        fields = as_dict(item) or {}
        content = edit.parts.get(0, fields.get("content"))
        if isinstance(content, (list, tuple)):
            start, end = ([{"type": "text", "text": text} for text in texts] for texts in (edit.start, edit.end))
            content = [*start, *cast("Sequence[Any]", content), *end]
        elif edit.start or edit.end:
            content = "\n\n".join([*edit.start, *([str(content)] if content else []), *edit.end])
        return {**fields, **(emptied(fields, edit.emptied) if edit.emptied else {}), "content": content}

    def own(self, texts: Sequence[str]) -> Any:
        return {"role": "user", "content": "\n\n".join(texts)}


def _light(item: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """A message without the data of its media, and the tokens that those cost."""
    tokens, light = 0, item
    sound, parts = as_dict(item.get("audio")) or {}, item.get("content")
    if "data" in sound:  # an answer in sound, as the SDK returned it
        tokens, light = media.audio_tokens(str(sound["data"]), ""), {**item, "audio": None}
    if isinstance(parts, (list, tuple)):
        parts = cast("Sequence[Any]", parts)
        heavy = [part for part in parts if kind(part) in _MEDIA]
        if heavy:
            tokens += sum(map(media_tokens, heavy))
            shown = [{"type": kind(part)} if kind(part) in _MEDIA else part for part in parts]
            light = {**light, "content": shown}
    return light, tokens


def _messages(body: Mapping[str, Any]) -> Sequence[Any]:
    messages = body.get(FIELD)
    if not isinstance(messages, (list, tuple)):
        raise Unreadable(f"{FIELD} is no list")
    return cast("Sequence[Any]", messages)


def _has_unknown_part(parts: Sequence[Any]) -> bool:
    return any(kind(part) not in _KNOWN_PARTS for part in parts)


def _answer_id(item: Mapping[str, Any]) -> str:
    if item.get("role") == "function":
        return f"function:{item.get('name')}"
    call = item.get("tool_call_id")
    return call if type(call) is str else str(call)


def _text(value: Any) -> Any:
    """A content list of text alone as text; anything else as it is."""
    if isinstance(value, (list, tuple)):
        parts = cast("Sequence[Any]", value)
        if all(kind(part) == "text" for part in parts):
            return "\n".join(str(part.get("text")) for part in parts)
        return list(parts)
    return value
