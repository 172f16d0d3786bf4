"""The loopback provider, and one client of each kind that talks to it."""

from tests.bindings.support import achat, aclaude, chat, claude, provider

__all__ = ["achat", "aclaude", "chat", "claude", "provider"]
