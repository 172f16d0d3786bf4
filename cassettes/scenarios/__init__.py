"""All scenarios, by name."""

from __future__ import annotations

from cassettes.scenarios import anthropic_messages, gemini, openai_chat
from cassettes.scenarios.base import Outcome, Scenario, Server

__all__ = ["SCENARIOS", "Outcome", "Scenario", "Server"]

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for module in (openai_chat, anthropic_messages, gemini) for scenario in module.SCENARIOS
}
