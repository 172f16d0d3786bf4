"""The "too long" answers of providers as they arrive, and answers that look like one and are none.

Each was quoted in a public report, or recorded: formats/overflow.py says where.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

CHAT, CLAUDE, GEMINI = "openai-chat", "anthropic-messages", "gemini"


class Answer(NamedTuple):
    """One error of one API: its HTTP status, its JSON or text, and what it says: limit, requested, excess."""

    name: str
    api: str
    status: int
    body: dict[str, Any] | str
    figures: Sequence[int | None] = (None, None, None)
    teaches: str = "at once"

    @property
    def code(self) -> str | None:
        """The error's own code, as an SDK finds it."""
        error = self.body.get("error") if isinstance(self.body, dict) else None
        code = error.get("code") if isinstance(error, dict) else None
        return code if isinstance(code, str) else None


def _read(name: str) -> list[Answer]:
    lines = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [Answer(**row) for row in rows]


TOO_LONG = _read("too_long.jsonl")
LOOK_ALIKES = _read("look_alikes.jsonl")


def named(answers: list[Answer]) -> Any:
    """For `parametrize`: each answer, by its name."""
    return [pytest.param(answer, id=answer.name) for answer in answers]
