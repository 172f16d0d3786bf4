"""A loop of a hundred tool calls under several policies: what is sent, what a prompt cache can use, and which facts the model still sees."""

from __future__ import annotations

import importlib.util
import json
import logging
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

from bench.workload import SHARED, WORDS
from compacting_client import ClearToolResults, Ledger, Policy, memory
from compacting_client.core.tokens import estimate
from compacting_client.formats import openai_chat
from compacting_client.lifecycle import exchange
from compacting_client.session import Session
from compacting_client.settings import Settings
from compacting_client.shell import run

CALLS = 100
CYCLES = (2, 8, 50)
ORACLE = SHARED.parents[1] / "oracles" / "oracle_promptise.py"

Messages = list[dict[str, Any]]
View = Callable[[Messages], Messages]


def loop(cycle: int = CALLS) -> tuple[Messages, list[str]]:
    """A question and a hundred calls with results of 100 to 4,000 characters; and a fact for each, somewhere in its result.

    After `cycle` calls they come again, with other results.
    """
    rng = random.Random(20261130)
    messages: Messages = [
        {"role": "system", "content": "You answer by calling tools."},
        {
            "role": "user",
            "content": "Which of the ships needs repair first, and why? " + " ".join(rng.choices(WORDS, k=60)),
        },
    ]
    facts: list[str] = []
    for n in range(CALLS):
        fact = f"ship {n} draws {rng.randint(10, 99)}.{rng.randint(10, 99)} metres"
        words = rng.choices(WORDS, k=int(rng.triangular(15, 600, 60)))
        words.insert(rng.randint(0, len(words)), fact)
        call = {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": "get_ship", "arguments": json.dumps({"id": n % cycle})},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{n}", "content": " ".join(words)})
        facts.append(fact)
    return messages, facts


def ours(policy: Policy) -> View:
    """What leaves through one client, with its memory."""
    session = Session(Settings(policy=policy, memory=memory.InProcess(), is_async=False))
    sent: list[Messages] = []

    def view(messages: Messages) -> Messages:
        body = {"model": "m", "messages": messages}
        run(exchange(session, openai_chat, body), session, lambda new: sent.append(new["messages"]), lambda *_: None)
        return sent.pop()

    return view


def promptise() -> View | None:
    """The view of the real package; None where it, langchain-core or the wrapper around it is absent."""
    spec = importlib.util.spec_from_file_location("oracle_promptise", ORACLE)
    if not ORACLE.exists() or spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except ImportError:
        return None
    logging.getLogger(module.C.__name__).setLevel(logging.ERROR)
    return lambda messages: list(module.view(messages, scope="auto")["messages"])


def views() -> dict[str, View]:
    """Who is compared, by name; as they come, and the ledger bounded in two ways."""
    found: dict[str, View] = {"full transcript": lambda messages: messages}
    if (theirs := promptise()) is not None:
        found["promptise 1.10.1"] = theirs
    return found | {
        "ClearToolResults()": ours(ClearToolResults()),
        "Ledger()": ours(Ledger()),
        'Ledger("ledger")': ours(Ledger("ledger")),
        "Ledger(keep_result_chars=500)": ours(Ledger(keep_result_chars=500)),
        "Ledger(max_tokens=15_000)": ours(Ledger(max_tokens=15_000)),
    }


def polling() -> dict[str, View]:
    """Who is compared where calls repeat: what can be set of the prompt cache then is the size of a step."""
    found = {name: view for name, view in views().items() if name.startswith(("full", "promptise", "Ledger()"))}
    steps = {f"Ledger(after_tool_results={n})": ours(Ledger(after_tool_results=n)) for n in (8, 12)}
    return found | steps | {'Ledger("ledger")': ours(Ledger("ledger"))}


def figures(view: View, cycle: int = CALLS) -> tuple[int, float, int]:
    """Tokens sent over the loop; the share of the characters that begin as the request before did; facts in the last request, verbatim."""
    messages, facts = loop(cycle)
    before, tokens, same, size = "", 0, 0, 0
    for n in range(2, len(messages) + 1, 2):
        sent = view(messages[:n])
        text = json.dumps(sent, ensure_ascii=False)
        tokens += sum(map(estimate, sent))
        same += _shared(before, text)
        size += len(text)
        before = text
    return tokens, same / size, sum(fact in before for fact in facts)


def _shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def lines() -> Iterator[str]:
    """The table, to print."""
    yield f"A loop of {CALLS} tool calls: tokens sent, unchanged prefix (characters), facts still there verbatim at its end"
    for name, view in views().items():
        tokens, share, facts = figures(view)
        yield f"    {name:<42}{tokens:>10,}{share:>6.0%}{facts:>5} of {CALLS}"
    for cycle in CYCLES:
        yield f"The same with calls that repeat, {cycle} in a cycle: tokens sent, unchanged prefix, tokens paid with a tenth for the prefix"
        for name, view in polling().items():
            tokens, share, _ = figures(view, cycle)
            yield f"    {name:<42}{tokens:>10,}{share:>6.0%}{tokens * (1 - 0.9 * share):>10,.0f}"
    if not ORACLE.exists() or "oracle_promptise" not in sys.modules:
        yield "    promptise: not measured; it needs its view (../shared) and langchain-core"


if __name__ == "__main__":
    print("\n".join(lines()))
