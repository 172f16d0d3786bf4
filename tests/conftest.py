"""Fixtures for all tests. What can be called at collection time stands in `tests/shared.py`."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

from tests import shared as material

# A slow machine is no failure; all else stays as in the profile that Hypothesis chose (fixed examples in CI).
settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def shared() -> Callable[..., Path]:
    """`shared("traffic", "index.csv")`: a path in the shared folder, or a skipped test."""
    return material.shared_path


@pytest.fixture
def records() -> Callable[[str], list[dict[str, Any]]]:
    """`records("openai_chat")`: recorded request/response pairs of one API."""
    return material.records


@pytest.fixture
def long_conversations() -> Callable[..., list[dict[str, Any]]]:
    """`long_conversations("openai_shaped")`: long agent conversations with tool calls."""
    return material.long_conversations


@pytest.fixture
def cases() -> Callable[..., list[dict[str, Any]]]:
    """`cases("main job", "openai-chat")`: cases from public bug reports."""
    return material.cases


@pytest.fixture(scope="session")
def judge() -> ModuleType:
    """The independent checker of provider rules."""
    return material.judge()
