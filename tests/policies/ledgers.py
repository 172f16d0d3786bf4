"""What the tests of the ledger share: loops, and a reader of what was sent."""

import json
import logging
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from compacting_client import Policy
from compacting_client.formats import openai_chat
from compacting_client.report import Report
from tests.driving import Body, history_of, leave, session
from tests.shared import module, shared_path

Message = dict[str, Any]


def user(text: Any) -> Message:
    """A question."""
    return {"role": "user", "content": text}


def says(text: str) -> Message:
    """An answer."""
    return {"role": "assistant", "content": text}


def call(id_: str, tool: str = "get", **arguments: Any) -> Message:
    """One call."""
    return {"id": id_, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}


def asks(*calls: Message, text: str | None = None) -> Message:
    """An assistant message with calls."""
    return {"role": "assistant", "content": text, "tool_calls": list(calls)}


def gives(id_: str, content: Any) -> Message:
    """A result."""
    return {"role": "tool", "tool_call_id": id_, "content": content}


def hop(id_: str, result: Any, tool: str = "get", text: str | None = None, **arguments: Any) -> list[Message]:
    """One call and its result."""
    return [asks(call(id_, tool, **(arguments or {"id": id_})), text=text), gives(id_, result)]


def loop(steps: int, start: int = 0, size: int = 200) -> list[Message]:
    """So many calls with results of some `size` characters."""
    return [message for n in range(start, start + steps) for message in hop(f"c{n}", f"r{n} " + "x" * size, id=n)]


def body_of(messages: Sequence[Message], **fields: Any) -> Body:
    """A chat body."""
    return {"model": "m", "messages": list(messages), **fields}


def ours(policy: Policy, messages: Sequence[Message], state: Any = None, **settings: Any) -> tuple[Body, Report]:
    """What leaves through this package, and its report."""
    sent, report = leave(state or session(policy, **settings), openai_chat, body_of(messages))
    return sent, report


def distinct(body: Body) -> Body:
    """The same body, each call with arguments of its own: those of the strategies are all alike."""
    for number, item in enumerate(history_of(body)):
        for each in item.get("tool_calls") or ():
            each["function"]["arguments"] = json.dumps({"n": number})
        blocks = item.get("content") or item.get("parts") or ()
        for block in blocks if isinstance(blocks, list) else ():
            if block.get("type") == "tool_use":
                block["input"] = {"n": number}
            for name in ("functionCall", "function_call"):
                if name in block:
                    block[name]["args"] = {"n": number}
    return body


def record(sent: Body, tag: str) -> list[Message] | None:
    """The lines of the record with this tag in the last user message that has one, as data; None where there is none."""
    for message in reversed(sent["messages"]):
        content = message.get("content")
        text = content if isinstance(content, str) else ""
        if message["role"] == "user" and f"<{tag}>\n" in text:
            inside = text.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0]
            return [json.loads(line) for line in inside.split("\n")[1:]]
    return None


def ledger(sent: Body) -> list[Message]:
    """The lines of the ledger as data."""
    return record(sent, "tool_results") or []


def values(sent: Body) -> list[Any]:
    """The results in the ledger, as they are shown."""
    return [line.get("result", line.get("failed")) for line in ledger(sent) if "tool" in line]


ABSENT = "needs ../shared, langchain-core==1.8.3 and promptise==1.10.1, the latter without its dependencies"


@cache
def real_view() -> ModuleType | None:
    """The real view of promptise; None where it, langchain-core or the wrapper around both is absent."""
    logging.getLogger("promptise").setLevel(logging.ERROR)
    try:
        return module(shared_path("oracles", "oracle_promptise.py"))
    except (ImportError, pytest.skip.Exception):
        return None


def theirs(
    reference: ModuleType, messages: list[Message], scope: str, **settings: Any
) -> tuple[str, list[Message], list[Any], str]:
    """The scope in force, the messages that stay, the results in the ledger, and the note of the reference."""
    view = reference.view(messages, scope=scope, compaction=reference.ContextCompaction(**settings))
    texts = [m for m in view["messages"] if m["role"] == "system" and "\n" in m["content"]]
    shown = next((m["content"] for m in texts if m["content"].startswith(reference.C.LEDGER_HEADER)), "")
    note = next((m["content"] for m in texts if not m["content"].startswith(reference.C.LEDGER_HEADER)), "")
    stay = [m for m in view["messages"] if m not in texts]
    results = [line.partition(") = ")[2] for line in shown.split("\n")[1:]]
    return view["scope"], stay, results, note
