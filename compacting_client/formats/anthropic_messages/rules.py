"""What the messages API refuses: pairing, turn order, empty content, thinking, cache marks.

Consecutive messages of one role are one turn to the API.  Wordings are the provider's, as quoted in public reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast

from compacting_client.formats.anthropic_messages import thinking
from compacting_client.formats.anthropic_messages.contents import SERVER_CALLS, opened
from compacting_client.formats.anthropic_messages.reading import FIELD
from compacting_client.formats.base import Violation, as_dict, column, get, items_in, kind, nested

__all__ = ["check"]

MAX_CACHE_MARKS = 4


_ALONE: list[dict[str, Any]] = [{"type": "text", "text": "..."}]  # in the place of every text that is no list of blocks
_SAID = _ALONE, ("text",)


class _Turn(NamedTuple):
    first: int
    role: str
    blocks: list[dict[str, Any]]
    kinds: tuple[str, ...]

    def ids(self, what: str, field: str) -> list[str]:
        if what not in self.kinds:
            return []
        return [str(block.get(field)) for block, each in zip(self.blocks, self.kinds, strict=True) if each == what]

    @property
    def only_results(self) -> bool:
        return self.role == "user" and set(self.kinds) == {"tool_result"}


def check(body: Mapping[str, Any]) -> list[Violation]:
    """What the provider would refuse in this body; [] where nothing is.  Of a continued thread only the server knows the whole."""
    items = items_in(body, FIELD)
    if get(body.get("thread"), "type") == "continue":
        return []
    if not items:
        return [Violation("an-empty", FIELD, "messages: at least one message is required")]
    looked = [_SAID if type(item.get("content")) is str else opened(item) for item in items]
    contents, kinds = [blocks for blocks, _ in looked], [each for _, each in looked]
    roles = [*map(str, column(items, "role"))]
    turns = _turns(roles, contents, kinds)
    found = [
        *_empty(items, contents, kinds),
        *_tools(turns),
        *_server_tools(turns),
        *_systems(roles, kinds),
        *_cache_marks(body, contents),
    ]
    if roles[0] == "assistant" and "compaction" not in kinds[0]:
        found.append(Violation("an-first", f"{FIELD}.0", 'messages: first message must use the "user" role'))
    if thinking.version(str(body.get("model") or "")) >= (4, 6) and _ends_with_text(turns[-1]):
        message = (
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
        found.append(Violation("an-prefill", f"{FIELD}.{len(items) - 1}", message))
    if thinking.enabled(body):
        found.extend(_manual_thinking(turns))
    return found


def _turns(
    roles: Sequence[str], contents: Sequence[list[dict[str, Any]]], kinds: Sequence[tuple[str, ...]]
) -> list[_Turn]:
    turns: list[_Turn] = []
    last = None
    for index, (role, blocks, each) in enumerate(zip(roles, contents, kinds, strict=True)):
        if role == last:
            first, _, before, known = turns[-1]
            turns[-1] = _Turn(first, role, [*before, *blocks], known + each)
        else:
            turns.append(_Turn(index, role, blocks, each))
        last = role
    return turns


def _empty(
    items: Sequence[Mapping[str, Any]], contents: Sequence[Sequence[Any]], kinds: Sequence[tuple[str, ...]]
) -> Iterator[Violation]:
    last = len(items) - 1
    for index, blocks in enumerate(contents):
        if blocks is _ALONE:
            text = items[index]["content"]
            empty = not text or text.isspace()
        elif blocks:
            texts = [str(block.get("text")) for block, what in zip(blocks, kinds[index], strict=True) if what == "text"]
            empty = "" in texts or (len(texts) == len(blocks) and not any(text.strip() for text in texts))
        else:
            role, where = items[index].get("role"), f"{FIELD}.{index}"
            if role == "user" or (role == "assistant" and index != last):
                message = (
                    f"{where}: all messages must have non-empty content except for the optional final assistant message"
                )
                yield Violation("an-content-empty", where, message)
            continue
        if empty:  # stackblitz/bolt.new#7426
            yield Violation("an-text-empty", f"{FIELD}.{index}", "messages: text content blocks must be non-empty")


def _tools(turns: Sequence[_Turn]) -> Iterator[Violation]:
    rich = [number for number, turn in enumerate(turns) if turn.kinds is not _SAID[1]]
    calls = {each: turns[each].ids("tool_use", "id") for each in rich if turns[each].role == "assistant"}
    results = {each: turns[each].ids("tool_result", "tool_use_id") for each in rich if turns[each].role == "user"}
    for number in rich:
        turn, asked, answers = turns[number], calls.get(number, []), results.get(number, [])
        where = f"{FIELD}.{turn.first}"
        answered = results.get(number + 1, [])
        if asked != answered and (missing := [call for call in asked if call not in answered]):
            # OpenHands/OpenHands#7512
            yield Violation(
                "an-unanswered",
                where,
                f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}. "
                "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
            )
        if len(asked) != len(set(asked)):
            yield Violation("an-dup-id", where, f"{where}: `tool_use` ids must be unique")
        if answers:
            yield from _results(turn, answers, calls.get(number - 1, []))


def _results(turn: _Turn, answers: Sequence[str], known: Sequence[str]) -> Iterator[Violation]:
    where = f"{FIELD}.{turn.first}"
    for call in answers:
        if call not in known:  # openai/openai-agents-python#1797
            yield Violation(
                "an-orphan",
                where,
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {call}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
            )
    if len(answers) != len(set(answers)):
        yield Violation(
            "an-dup-result",
            where,
            f"{where}: each tool_use must have a single result. Found multiple `tool_result` blocks with one id",
        )
    if any(what != "tool_result" for what in turn.kinds[: len(answers)]):  # apify/tester-mcp-client#12
        yield Violation(
            "an-result-first",
            where,
            f"{where}: Did not find {len(answers)} `tool_result` block(s) at the beginning of this message.",
        )


def _server_tools(turns: Sequence[_Turn]) -> Iterator[Violation]:
    if not any(
        what in SERVER_CALLS or what.endswith("_tool_result") for what in {*chain(*[turn.kinds for turn in turns])}
    ):
        return
    called: set[str] = set()
    answered = [{str(b.get("tool_use_id")) for b in turn.blocks if _is_server_result(b)} for turn in turns]
    for number, turn in enumerate(turns):
        where = f"{FIELD}.{turn.first}"
        waiting: list[tuple[str, str]] = []
        for block in turn.blocks:
            call = str(block.get("tool_use_id"))
            if kind(block) in SERVER_CALLS:
                waiting.append((str(block.get("id")), str(block.get("name"))))
            elif _is_server_result(block):
                if call not in called and call not in [name for name, _ in waiting]:
                    message = (
                        f"unexpected `tool_use_id` found in `{kind(block)}` blocks: {call}. "
                        "Each needs a corresponding `server_tool_use` block before it."
                    )
                    yield Violation("an-server-orphan", where, f"{where}: {message}")
                waiting = [(name, tool) for name, tool in waiting if name != call]
        called.update(str(block.get("id")) for block in turn.blocks if kind(block) in SERVER_CALLS)
        in_flight = all(later.only_results for later in turns[number + 1 :])
        for call, tool in waiting:
            if not in_flight and not any(call in ids for ids in answered[number + 1 :]):
                yield Violation(
                    "an-server-pair",
                    where,
                    f"{where}: {tool} tool use with id {call} was found without a corresponding {tool}_tool_result block",
                )


def _is_server_result(block: Mapping[str, Any]) -> bool:
    return kind(block).endswith("_tool_result")


def _systems(roles: Sequence[str], kinds: Sequence[Sequence[str]]) -> Iterator[Violation]:
    """A system section follows a user turn (or a server tool's result), and precedes an assistant turn or ends the messages."""
    for index in [index for index, role in enumerate(roles) if role == "system"]:
        if not kinds[index] or (index and roles[index - 1] == "system"):
            continue
        after = next((other for other in roles[index:] if other != "system"), None)
        paused = (
            index > 0 and roles[index - 1] == "assistant" and "".join(kinds[index - 1][-1:]).endswith("_tool_result")
        )
        if index == 0 or not (roles[index - 1] == "user" or paused) or after not in (None, "assistant"):
            yield Violation(
                "an-system-place",
                f"{FIELD}.{index}",
                f"{FIELD}.{index}: use the top-level 'system' parameter for the initial system prompt",
            )


def _ends_with_text(turn: _Turn) -> bool:
    return turn.role == "assistant" and (not turn.kinds or turn.kinds[-1] in thinking.THINKING | {"text"})


def _manual_thinking(turns: Sequence[_Turn]) -> Iterator[Violation]:
    """`enabled`: the assistant turn that opens the running tool loop starts with thinking (mastra-ai/mastra#7799)."""
    first = len(turns) - (2 if turns[-1].only_results else 1)
    while first >= 2 and turns[first - 1].only_results:
        first -= 2
    opening = turns[first] if first >= 0 else None
    if (
        opening is not None
        and opening.role == "assistant"
        and opening.blocks
        and not thinking.starts_with_thinking(opening.blocks)
    ):
        where = f"{FIELD}.{opening.first}"
        message = f"{where}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kind(opening.blocks[0])}`."
        yield Violation(
            "an-think-start",
            where,
            f"{message} When `thinking` is enabled, a final `assistant` message must start with a thinking block.",
        )


def _cache_marks(body: Mapping[str, Any], contents: Sequence[Sequence[Any]]) -> Iterator[Violation]:
    marks = [mark for part in (body.get("tools"), body.get("system")) for mark in _marks(part)]
    blocks = [*chain(*[each for each in contents if each is not _ALONE])]
    within = nested(blocks)
    if within is None or any("cache_control" in block for block in within):
        marks += _marks(blocks)
    if len(marks) > MAX_CACHE_MARKS:  # github/copilot-cli#4185
        yield Violation(
            "an-cache-count",
            "cache_control",
            f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}.",
        )
    lives = [get(mark, "ttl") or "5m" for mark in marks]
    if "5m" in lives and "1h" in lives[lives.index("5m") :]:
        yield Violation(
            "an-cache-ttl",
            "cache_control",
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.",
        )


def _marks(value: Any) -> Iterator[Any]:
    """The cache marks of a block, and of the blocks in its content."""
    if isinstance(value, (list, tuple)):
        for each in cast("Sequence[Any]", value):
            yield from _marks(each)
    elif (block := as_dict(value)) is not None:
        if block.get("cache_control"):
            yield block["cache_control"]
        if isinstance(block.get("content"), (list, tuple)):
            yield from _marks(block["content"])
