"""Anthropic messages as a conversation, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from compacting_client.core.conversation import SYSTEM, Conversation, ItemEdit, Message
from compacting_client.core.edits import rendered
from compacting_client.core.facts import asked_in
from compacting_client.core.imprints import Imprint
from compacting_client.core.plan import Plan
from compacting_client.core.tokens import dump
from compacting_client.formats import canonical
from compacting_client.formats.anthropic_messages import thinking
from compacting_client.formats.anthropic_messages.contents import blocks_of, imprint, look, may_hold_media, role_of
from compacting_client.formats.base import (
    Asked,
    Glance,
    PlainHistory,
    Usage,
    as_dict,
    column,
    get,
    given,
    items_in,
    kind,
)

__all__ = ["API", "FIELD", "asked", "held", "read", "usage", "write"]

API = "anthropic-messages"
FIELD = "messages"


def held(body: Mapping[str, Any]) -> str | None:
    """A continued thread is on the server; `compaction` and `compact_*` edits ask the server itself to compact."""
    if given(body.get("thread")) and get(body["thread"], "type") != "create":
        return "the server holds the history"
    edits = get(body.get("context_management"), "edits")
    asked = isinstance(edits, (list, tuple)) and any(
        kind(edit).startswith("compact") for edit in cast("Sequence[Any]", edits)
    )
    return "the provider is asked to compact" if asked or given(body.get("compaction")) else None


def read(body: Mapping[str, Any], plain: PlainHistory | None = None) -> Conversation:
    """The conversation of ``body["messages"]`` and ``body["system"]``.  Raises Unreadable where it is no list of messages."""
    items = items_in(body, FIELD) if plain is None else plain.items
    contents = column(items, "content") if plain is None else plain.texts
    roles = column(items, "role")
    for index, (role, content) in enumerate(zip(roles, contents, strict=True)):
        if role != "assistant" and (role != "user" or type(content) is not str):
            roles[index] = role_of(items[index])
    model = str(body.get("model") or "")
    binds, enabled = thinking.binds(model, body), thinking.enabled(body)
    return Conversation(
        api=API,
        model=model,
        reader=_Reader(),
        items=items,
        roles=roles,
        look=partial(look, items, contents, roles, manual=enabled),
        fits=Glance(items, contents, plain=plain is not None, media=partial(may_hold_media, items)),
        head=_head(body.get("system")),
        tools=body["tools"] if given(body.get("tools")) else None,
        schema=get(body.get("output_format") or get(body.get("output_config"), "format"), "schema"),
        opens_with_user=True,
        binds=binds,
        waits="open thinking loop" if binds and enabled and thinking.loop_is_open(roles) else None,
    )


def write(plan: Plan, conversation: Conversation, body: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `body` without the items that go; kept blocks are the caller's own objects."""
    messages, size = body[FIELD], len(conversation)
    if not plan.edits and plan.strip is None:
        return {**body, FIELD: plan.without(messages[:size])}
    start, stop = plan.strip or (0, 0)
    sent: list[Any] = []
    edits = plan.edits.by_item()
    for index in plan.kept(size):
        item = messages[index]
        if start <= index < stop and conversation.roles[index] == "assistant":
            item = _stripped(item)
        sent.extend(rendered(conversation.reader, item, edits.get(index)))
    system = {"system": _with_system(body.get("system"), plan.edits.system)} if plan.edits.system else {}
    return {**body, FIELD: sent, **system}


def _with_system(system: Any, texts: Sequence[str]) -> list[Any]:
    """The system prompt with texts at its end: blocks, the caller's own as they are, so that their cache marks still hold."""
    if not given(system) or not system:
        blocks: list[Any] = []
    elif isinstance(system, str):
        blocks = [_written(system)]
    else:
        blocks = list(cast("Sequence[Any]", system))
    return [*blocks, *map(_written, texts)]


def usage(answer: Any, so_far: Usage | None = None) -> Usage | None:
    """From a message, its JSON, or the stream events `message_start` and `message_delta`."""
    counted = get(answer, "usage") or get(get(answer, "message"), "usage")
    prompt, output = get(counted, "input_tokens"), get(counted, "output_tokens")
    if not isinstance(output, int):
        return so_far
    if not isinstance(prompt, int):
        return so_far._replace(output_tokens=output) if so_far else None
    cached = get(counted, "cache_read_input_tokens") or 0
    return Usage(prompt + cached + (get(counted, "cache_creation_input_tokens") or 0), cached, output)


def asked(answer: Any) -> list[Asked]:
    """From a message, its JSON, or the stream events of a `tool_use` block."""
    index, block, delta = get(answer, "index"), get(answer, "content_block"), get(answer, "delta")
    if kind(block) == "tool_use":
        return [Asked(get(block, "id"), get(block, "name"), None, (index,))]
    if kind(delta) == "input_json_delta":
        return [Asked(None, None, get(delta, "partial_json"), (index,))]
    content = get(answer, "content")
    blocks = cast("Sequence[Any]", content) if isinstance(content, (list, tuple)) else ()
    return [
        Asked(get(each, "id"), get(each, "name"), get(each, "input")) for each in blocks if kind(each) == "tool_use"
    ]


def _head(system: Any) -> list[Message]:
    if not given(system) or not system:
        return []
    return [
        {
            "role": SYSTEM,
            "content": _text(system if isinstance(system, str) else [as_dict(block) or block for block in system]),
        }
    ]


def _stripped(item: Any) -> Any:
    """A message without thinking; None where what is left would be refused as empty (vercel/ai#13430)."""
    left = thinking.without_thinking(get(item, "content"))
    if left is None:
        return item
    if all(kind(block) == "text" and not str(get(block, "text")).strip() for block in left):
        return None
    return {**(as_dict(item) or {}), "content": left}


class _Reader:
    """How one message is shown, weighed and told apart."""

    def neutral(self, item: Any) -> list[Message]:
        shown: list[Message] = []
        rest: list[Any] = []
        calls: list[dict[str, Any]] = []
        for block in blocks_of(item):
            if kind(block) == "tool_result":
                shown.append(
                    {
                        "role": "tool",
                        "tool_call_id": str(block.get("tool_use_id")),
                        "content": _text(block.get("content")),
                    }
                )
            elif kind(block) == "tool_use":
                function = {"name": block.get("name"), "arguments": dump(block.get("input")).decode("utf-8", "replace")}
                calls.append({"id": block.get("id"), "type": "function", "function": function})
            else:
                rest.append(block)
        if rest or calls or not shown:
            role = item.get("role") if item.get("role") in ("assistant", SYSTEM) else "user"
            message: Message = {"role": role, "content": _text(rest) if rest else None if calls else ""}
            shown.append({**message, "tool_calls": calls} if calls else message)
        return shown

    def imprint(self, item: Any, role: str) -> tuple[Imprint, int]:
        return imprint(item, role)

    def meaning(self, item: Any) -> Any:
        said = [_meant(block) for block in blocks_of(item)]
        only_text = len(said) == 1 and isinstance(said[0], str)
        meant = item.get("role"), said[0] if only_text else said
        rest = canonical.fields(item, "role", "content") if len(item) > 2 else None
        return (*meant, rest) if rest else meant

    def asked(self, item: Any) -> tuple[str, list[tuple[str, str, Any]]]:
        return asked_in(self.neutral(item)[-1])

    def returned(self, content: Any) -> Any:
        return content

    def failures(self, item: Any) -> Sequence[int]:
        results = [block for block in blocks_of(item) if kind(block) == "tool_result"]
        return [number for number, block in enumerate(results) if block.get("is_error")]

    def strip(self, item: Any) -> Any:
        return _stripped(item) if item.get("role") == "assistant" else item

    def edited(self, item: Any, edit: ItemEdit) -> Any:
        content = get(item, "content")
        given_blocks = [_written(content)] if isinstance(content, str) and content else list(content or ())
        blocks: list[Any] = []
        results = calls = 0
        for block in given_blocks:
            if kind(block) == "tool_result":
                block = _answering(block, results, edit) if results in edit.parts else block
                results += 1
            elif kind(block) == "tool_use":
                block = {**(as_dict(block) or {}), "input": dict[str, Any]()} if calls in edit.emptied else block
                calls += 1
            blocks.append(block)
        written = [*map(_written, edit.start), *blocks, *map(_written, edit.end)]
        return {**(as_dict(item) or {}), "content": written}

    def own(self, texts: Sequence[str]) -> Any:
        return {"role": "user", "content": [*map(_written, texts)]}


def _answering(block: Any, number: int, edit: ItemEdit) -> Any:
    """A result with other content; but one that loads tools, which are gone without it, is not cleared."""
    content = get(block, "content")
    parts = cast("Sequence[Any]", content) if isinstance(content, (list, tuple)) else ()
    if number in edit.cleared and any(kind(part) == "tool_reference" for part in parts):
        return block
    return {**(as_dict(block) or {}), "content": edit.parts[number]}


def _written(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _meant(block: Mapping[str, Any]) -> Any:
    what = block.get("type")
    if what == "tool_use":
        return [block.get("name"), canonical.arguments(block.get("input"))]
    if what == "tool_result" and len(block) == 3 and "tool_use_id" in block:  # plain, as most are
        content = block.get("content")
        if content and type(content) is str:
            return {"type": what, "content": content}
    return canonical.block({name: value for name, value in block.items() if name != "caller"})


def _text(value: Any) -> Any:
    """Blocks of text alone as text; anything else as it is."""
    if isinstance(value, (list, tuple)):
        blocks = cast("Sequence[Any]", value)
        return (
            "\n".join(str(get(block, "text")) for block in blocks)
            if all(kind(block) == "text" for block in blocks)
            else list(blocks)
        )
    return value
