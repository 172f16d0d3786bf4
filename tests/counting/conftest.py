"""Providers that count in their own way."""

from tests.counting.conversations import counting_provider

__all__ = ["counting_provider"]
