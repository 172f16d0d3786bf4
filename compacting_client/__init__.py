"""Your own OpenAI, Anthropic or Google Gen AI client, whose requests leave with a history that fits, is accepted, and is accounted for."""

from compacting_client import memory, presets
from compacting_client.control import Control, control
from compacting_client.core.reuse import Reused
from compacting_client.core.summaries import SummaryRequest
from compacting_client.errors import BudgetError, CompactingError, ConfigError, PolicyError, UnsupportedClientError
from compacting_client.events import (
    CompactionApplied,
    CompactionRecovered,
    CompactionRejected,
    CompactionSkipped,
    ContentDropped,
    ContentReplaced,
    ContentReused,
    Event,
    SummaryCreated,
    SummaryFailed,
)
from compacting_client.plain import acompact_with_summary, compact, compact_with_summary, estimate_tokens
from compacting_client.policies import Chain, ClearToolResults, DropOldest, KeepTurns, Ledger, Policy, Summarize
from compacting_client.report import Report
from compacting_client.wrap import compacting, is_compacting

__all__ = [
    "BudgetError",
    "Chain",
    "ClearToolResults",
    "CompactingError",
    "CompactionApplied",
    "CompactionRecovered",
    "CompactionRejected",
    "CompactionSkipped",
    "ConfigError",
    "ContentDropped",
    "ContentReplaced",
    "ContentReused",
    "Control",
    "DropOldest",
    "Event",
    "KeepTurns",
    "Ledger",
    "Policy",
    "PolicyError",
    "Report",
    "Reused",
    "Summarize",
    "SummaryCreated",
    "SummaryFailed",
    "SummaryRequest",
    "UnsupportedClientError",
    "acompact_with_summary",
    "compact",
    "compact_with_summary",
    "compacting",
    "control",
    "estimate_tokens",
    "is_compacting",
    "memory",
    "presets",
]
