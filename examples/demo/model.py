"""The model: what the loopback provider answers, to each SDK in its own form."""

from __future__ import annotations

from compacting_client.testing import Provider, Thinking, ToolCall
from examples.demo.applications import CITIES


def chat(provider: Provider) -> None:
    """An answer for each turn."""
    for city in CITIES:
        provider.reply(f"Stay two nights in {city}. " + "Walk through the old town, and take the last tram back. " * 3)


def tools(provider: Provider) -> None:
    """14 tool calls in 10 steps, some of them in parallel; then the answer."""
    number = 100
    for parallel in (1, 2, 1, 2, 1, 1, 2, 1, 2, 1):
        calls = [ToolCall("look_up_order", {"number": number + i}) for i in range(parallel)]
        provider.reply(Thinking(f"Order {number} comes next; the parcels tell where it is stuck. " * 3), *calls)
        number += parallel
    provider.reply("Orders 102, 105, 108 and 111 are late: their parcels are stuck in depots.")
