"""Gemini contents as a conversation, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from compacting_client.core.conversation import SYSTEM, Conversation, ItemEdit, Message
from compacting_client.core.edits import rendered
from compacting_client.core.facts import asked_in
from compacting_client.core.imprints import Imprint
from compacting_client.core.plan import Plan
from compacting_client.core.tokens import dump
from compacting_client.formats.base import Asked, Glance, PlainHistory, Unreadable, Usage, as_dict, get, given
from compacting_client.formats.gemini_contents.contents import (
    MODEL,
    PLAIN,
    ROLES,
    imprint,
    look,
    may_hold_media,
    roles_of,
)
from compacting_client.formats.gemini_contents.pairs import Pairs
from compacting_client.formats.gemini_contents.parts import camel, field, kind_of, kinds_in, parts_of

__all__ = ["API", "FIELD", "asked", "held", "items_of", "read", "refused_binding", "usage", "write"]

API = "gemini"
FIELD = "contents"

_SYSTEM = "systemInstruction"
_PLAIN = {"functionCall": {"name", "args"}, "functionResponse": {"name", "response"}}
_WRAPPERS = ({"result"}, {"output"})  # an object is wanted: that is where SDKs put what is none


def held(body: Mapping[str, Any]) -> str | None:
    """What stands before the contents is in a cache on the server."""
    return "the server holds the history" if _setting(body, "cachedContent") else None


def read(body: Mapping[str, Any], plain: PlainHistory | None = None) -> Conversation:  # noqa: ARG001 - they are in parts
    """The conversation of ``body["contents"]`` and the system instruction.  Raises Unreadable where it is no list of contents."""
    items = items_of(body)
    kinds = kinds_in(items)
    roles = roles_of(items, kinds)
    pairs = Pairs(items, kinds, roles)
    tools = _setting(body, "tools")
    return Conversation(
        api=API,
        model=str(body.get("model") or ""),
        reader=_Reader(pairs),
        items=items,
        roles=roles,
        look=partial(look, items, kinds, roles, pairs),
        fits=Glance(items, kinds, media=partial(may_hold_media, items, kinds)),
        plain=PLAIN,
        head=_head(_setting(body, "systemInstruction")),
        tools=tools if given(tools) and tools else None,
        schema=_schema(body),
        opens_with_user=True,
    )


def write(plan: Plan, conversation: Conversation, body: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `body` without the contents that go; the rest are the caller's own objects."""
    contents, size = _contents(body), len(conversation)
    if not plan.edits:
        return {**body, FIELD: plan.without(contents[:size])}
    edits, reader = plan.edits.by_item(), conversation.reader
    sent: list[Any] = []
    for index in plan.kept(size):
        item = conversation.items[index] if index in edits else contents[index]  # a content may be a mere string
        sent.extend(rendered(reader, item, edits.get(index)))
    written = {**body, FIELD: sent}
    return _with_system(written, plan.edits.system) if plan.edits.system else written


def _with_system(body: Mapping[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """`body` with texts at the end of its system instruction, in the spelling and at the place where it stands."""
    config = as_dict(body.get("config"))
    if config is not None and field(body, _SYSTEM) is None:
        return {**body, "config": _with_system({"systemInstruction": None, **config}, texts)}
    name = next((name for name in body if camel(name) == _SYSTEM and body[name] is not None), _SYSTEM)
    content = _system_content(body.get(name)) or {}
    return {**body, name: {**content, "parts": [*(content.get("parts") or ()), *({"text": text} for text in texts)]}}


def usage(answer: Any, so_far: Usage | None = None) -> Usage | None:
    """From a response, a chunk of one, or their JSON.  What was thought is output."""
    counted = get(answer, "usageMetadata") or get(answer, "usage_metadata")
    prompt = _number(counted, "promptTokenCount")
    if prompt is None:
        return so_far
    output = (_number(counted, "candidatesTokenCount") or 0) + (_number(counted, "thoughtsTokenCount") or 0)
    return Usage(prompt, _number(counted, "cachedContentTokenCount") or 0, output)


def asked(answer: Any) -> list[Asked]:
    """From a response, a chunk of one, or their JSON: calls come whole."""
    found: list[Asked] = []
    for candidate in get(answer, "candidates") or ():
        for part in get(get(candidate, "content"), "parts") or ():
            call = as_dict(get(part, "functionCall") or get(part, "function_call"))
            if call is not None:
                found.append(Asked(call.get("id"), call.get("name"), call.get("args") or {}))
    return found


def refused_binding(status: int | None, text: str) -> bool:  # noqa: ARG001 - the protocol's signature
    """A thought's signature stands for itself: nothing is bound to what was before it."""
    return False


def items_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The contents as plain dicts; their parts may still be typed objects.  Raises Unreadable."""
    contents = _contents(body)
    if set(map(type, contents)) <= {dict}:
        return list(contents)
    items: list[dict[str, Any]] = []
    for index, content in enumerate(contents):
        item = {"parts": [{"text": content}]} if isinstance(content, str) else as_dict(content)
        if item is None:
            raise Unreadable(f"{FIELD}[{index}] is no content")
        items.append(item)
    return items


def _contents(body: Mapping[str, Any]) -> Sequence[Any]:
    contents = body.get(FIELD)
    if isinstance(contents, (list, tuple)):
        return cast("Sequence[Any]", contents)
    if isinstance(contents, str) or as_dict(contents) is not None:
        return [contents]
    raise Unreadable(f"{FIELD} is no list")


def _setting(body: Mapping[str, Any], name: str) -> Any:
    """A field beside the contents: of the wire, or of the `config` that the SDK makes them from."""
    found = field(body, name)
    return found if found is not None else field(as_dict(body.get("config")), name)


def _schema(body: Mapping[str, Any]) -> Any:
    """What the answer has to look like."""
    generation = as_dict(_setting(body, "generationConfig")) or as_dict(body.get("config"))
    names = ("responseJsonSchema", "responseSchema")
    return next((found for name in names if (found := field(generation, name)) is not None), None)


def _number(counted: Any, name: str) -> int | None:
    """A count, of JSON or of a typed object."""
    found = field(counted, name) if isinstance(counted, Mapping) else get(counted, _snake_of[name])
    return found if isinstance(found, int) else None


_snake_of = {
    "promptTokenCount": "prompt_token_count",
    "candidatesTokenCount": "candidates_token_count",
    "thoughtsTokenCount": "thoughts_token_count",
    "cachedContentTokenCount": "cached_content_token_count",
}


def _head(system: Any) -> list[Message]:
    content = _system_content(system)
    return [{"role": SYSTEM, "content": _text(parts_of(content))}] if content is not None else []


def _system_content(system: Any) -> dict[str, Any] | None:
    """A system instruction as a content: it may be a text, a part, or a list of those.  None where there is none."""
    if not given(system) or not system:
        return None
    content = as_dict(system)
    if content is not None and field(content, "parts") is not None:
        return content
    parts = cast("Sequence[Any]", system) if isinstance(system, (list, tuple)) else [system]
    return {"parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def _text(parts: Sequence[Mapping[str, Any]]) -> Any:
    """Parts of text alone as text; anything else as it is."""
    if all(kind_of(part) == "text" and not field(part, "thought") for part in parts):
        return "\n".join(str(part["text"]) for part in parts)
    return list(parts)


class _Reader:
    """How one content is shown, weighed and told apart.  ``pairs``: what its calls and responses are paired by."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs

    def neutral(self, item: Any) -> list[Message]:
        calls, answers = (iter(keys) for keys in self._pairs.keys(item))
        shown: list[Message] = []
        asked: list[dict[str, Any]] = []
        rest: list[dict[str, Any]] = []
        for part in parts_of(item):
            what = kind_of(part)
            data = field(part, what)
            if what == "functionResponse":
                shown.append(_result(data, next(answers, "")))
            elif what == "functionCall":
                asked.append(_call(data, next(calls, "")))
            else:
                rest.append(part)
        if rest or asked or not shown:
            role = ROLES.get(item.get("role") or "user", "user")
            message: Message = {"role": role, "content": _text(rest) if rest else None if asked else ""}
            shown.append({**message, "tool_calls": asked} if asked else message)
        return shown

    def imprint(self, item: Any, role: str) -> tuple[Imprint, int]:
        return imprint(item, role)

    def meaning(self, item: Any) -> Any:
        role = item.get("role")
        meant = [_meant(part) for part in parts_of(item)]
        told = MODEL if role == MODEL else "user" if role in ROLES else role or "user"
        if len(meant) == 1 and told in ROLES and len(meant[0]) == 1 and type(meant[0].get("text")) is str:
            return ROLES[told], meant[0]["text"]
        return {"parts": meant, "role": told}

    def asked(self, item: Any) -> tuple[str, list[tuple[str, str, Any]]]:
        return asked_in(self.neutral(item)[-1])

    def returned(self, content: Any) -> Any:
        response: Any = json.loads(content)
        fields = cast("dict[str, Any]", response) if isinstance(response, dict) else {}
        alone: Any = next(iter(fields.values())) if fields.keys() in _WRAPPERS else cast("Any", response)
        return alone if isinstance(alone, str) else dump(alone).decode("utf-8", "replace")

    def failures(self, item: Any) -> Sequence[int]:
        told = [field(part, "functionResponse") for part in parts_of(item) if kind_of(part) == "functionResponse"]
        return [number for number, each in enumerate(told) if field(field(each, "response"), "error")]

    def strip(self, item: Any) -> Any:
        return item

    def edited(self, item: Any, edit: ItemEdit) -> Any:
        parts: list[Any] = []
        responses = calls = 0
        signed = any(field(part, "thoughtSignature") for part in parts_of(item))
        for part in parts_of(item):
            if kind_of(part) == "functionResponse":
                alone = responses in edit.cleared
                part = _answering(part, edit.parts[responses], alone=alone) if responses in edit.parts else part
                responses += 1
            elif kind_of(part) == "functionCall":
                part = _with_data(part, args={}) if calls in edit.emptied and not signed else part
                calls += 1
            parts.append(part)
        start, end = ([{"text": text} for text in texts] for texts in (edit.start, edit.end))
        return {**item, "parts": [*start, *parts, *end]}

    def own(self, texts: Sequence[str]) -> Any:
        return {"role": "user", "parts": [{"text": text} for text in texts]}


def _answering(part: Mapping[str, Any], content: Any, *, alone: bool) -> dict[str, Any]:
    """A function response with other content: a JSON object as it is, anything else as its result; `alone`: without the media beside it."""
    try:
        found = json.loads(content) if isinstance(content, str) else content
    except ValueError:
        found = content
    new = _with_data(part, response=found if isinstance(found, dict) else {"result": content})
    return {
        name: _without_parts(data) if alone and camel(name) == "functionResponse" else data
        for name, data in new.items()
    }


def _with_data(part: Mapping[str, Any], **data: Any) -> dict[str, Any]:
    """A part whose function call or response has other data."""
    name = next(name for name in part if camel(name) in ("functionCall", "functionResponse") and part[name] is not None)
    return {**part, name: {**(as_dict(part[name]) or {}), **data}}


def _without_parts(response: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in response.items() if name != "parts"}


def _call(call: Any, key: str) -> dict[str, Any]:
    arguments = dump(field(call, "args") or {}).decode("utf-8", "replace")
    return {"id": key, "type": "function", "function": {"name": field(call, "name"), "arguments": arguments}}


def _result(response: Any, key: str) -> Message:
    content = dump(field(response, "response")).decode("utf-8", "replace")
    return {"role": "tool", "tool_call_id": key, "name": str(field(response, "name")), "content": content}


def _meant(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part in one spelling, without ids and empty fields; its text stays, be it empty."""
    if len(part) == 1:  # a plain call or response, as most are
        ((name, data),) = part.items()
        if name in _PLAIN and type(data) is dict and data.keys() == _PLAIN[name] and all(part[name].values()):
            return {name: data}
    return dict(_fields(part)) if kind_of(part) != "text" else {**dict(_fields(part)), "text": part["text"]}


def _fields(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, each in value.items():
        spelled = camel(name)
        if each in (None, "", [], {}) or spelled == "id":
            continue
        if isinstance(each, Mapping) and spelled not in ("args", "response"):  # those hold the caller's own names
            each = dict(_fields(cast("Mapping[str, Any]", each)))
        yield spelled, each
