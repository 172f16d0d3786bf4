"""Recorded conversations in their order through one client, so that remembered cuts meet real answers, before the independent judge."""

from collections import defaultdict
from typing import Any

import pytest

from compacting_client import Chain, DropOldest, KeepTurns, Policy
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.policies import FunctionPolicy
from tests.holding import RECORDED, body_of, counted, resends
from tests.shared import Record, judge, records

WIRES: dict[str, Any] = {wire.API: wire for wire in (openai_chat, anthropic_messages, gemini_contents)}


def policies(size: int) -> dict[str, Policy]:
    """Those that drop; budgets are shares of the longest request."""
    half, third = (DropOldest(max(1, size // part)) for part in (2, 3))
    return {
        "half": half,
        "third": third,
        "one turn": KeepTurns(1),
        "three turns": KeepTurns(3, remove_tool_msgs=True, slack=1),
        "ten turns": KeepTurns(10, remove_tool_msgs=True),
        "chain": Chain(KeepTurns(3), third),
        "slice": FunctionPolicy(lambda messages: messages[-3:]),
        "halves": FunctionPolicy(lambda messages: messages[::2]),
    }


def conversations(api: str) -> list[list[Record]]:
    """The records that have the middle part of their id in common, in their order."""
    found = defaultdict[str, list[Record]](list)
    for record in records(RECORDED[api]):
        if all(isinstance(message, dict) for message in body_of(record)[WIRES[api].FIELD]):
            found[record["id"].rpartition("-")[0]].append(record)
    return [sorted(some, key=lambda record: str(record["id"])) for some in found.values() if len(some) > 1]


def answer_of(record: Record) -> Any:
    """The content that came back; None where it is not whole (an error, a stream)."""
    body = record["response"]["body"]
    if not isinstance(body, dict):
        return None
    candidates = body.get("candidates") or [{}]
    return body.get("content") or (candidates[0].get("content") or {}).get("parts")


@pytest.mark.parametrize("name", policies(1))
@pytest.mark.parametrize("api", WIRES)
def test_every_conversation_stays_acceptable(api: str, name: str) -> None:
    """Each request is judged by the bodies that really left before it, and by what had come back."""
    changed = 0
    for conversation in conversations(api):
        bodies = [body_of(record) for record in conversation]
        policy = policies(max(counted(WIRES[api], body) for body in bodies))[name]
        flavor = judge().flavor_of(conversation[0]["host_kind"])
        reports = resends(WIRES[api], bodies, policy, [answer_of(record) for record in conversation], flavor)
        changed += sum(report.changed for report in reports)
    assert changed or name == "ten turns"
