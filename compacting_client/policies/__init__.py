"""Policies: frozen settings, validated at construction, and one decision each."""

from compacting_client.policies.base import Policy
from compacting_client.policies.drop_oldest import DropOldest

__all__ = ["DropOldest", "Policy"]
