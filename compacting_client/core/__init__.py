"""Compaction without I/O: no SDK, no clock, no logging, no asyncio."""
