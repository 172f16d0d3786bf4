"""Policies: frozen settings, validated at construction, and one decision each."""

from compacting_client.policies.base import Policy
from compacting_client.policies.chain import Chain
from compacting_client.policies.clear_tool_results import ClearToolResults
from compacting_client.policies.drop_oldest import DropOldest
from compacting_client.policies.function import FunctionPolicy
from compacting_client.policies.keep_turns import KeepTurns
from compacting_client.policies.ledger import Ledger
from compacting_client.policies.summarize import Summarize

__all__ = ["Chain", "ClearToolResults", "DropOldest", "FunctionPolicy", "KeepTurns", "Ledger", "Policy", "Summarize"]
