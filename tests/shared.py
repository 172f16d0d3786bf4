"""Readers for the material in `../shared`: recorded traffic, long conversations, cases, the judge of provider rules.

The folder lies beside the project and is no part of it: whoever has only the project gets skipped tests with a reason.
"""

import importlib.util
import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
Record = dict[str, Any]


def shared_path(*parts: str) -> Path:
    """The path of a file in the shared folder; skips the running test where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs ../shared/{'/'.join(parts)}, which is not part of the project")
    return path


def records(api: str) -> list[Record]:
    """Recorded request/response pairs: `openai_chat`, `openai_responses`, `anthropic_messages` or `gemini_generate`.

    Each has `id`, `host_kind`, `request` (`method`, `path`, `body`) and `response` (`status`, `content_type`, `body`).
    Every call gives a fresh copy.
    """
    return _jsonl("traffic", f"{api}.jsonl")


def long_conversations(shape: str = "openai_shaped") -> list[Record]:
    """Long agent conversations: `openai_shaped` or `anthropic_native`.

    Each has `id`, `model`, `messages`, `n_messages`, `meta`.
    """
    return _jsonl("traffic", f"long_{shape}.jsonl")


def cases(topic: str | None = None, *apis: str) -> list[Record]:
    """Cases from public bug reports by id, long texts expanded: all, or those of a topic (`"main job"`) and some APIs."""
    files = sorted(shared_path("cases").glob("[0-9]*.json"))
    loaded = [expand(json.loads(file.read_text(encoding="utf-8"))) for file in files]
    return [case for case in loaded if (topic is None or case["topic"] == topic) and (not apis or case["api"] in apis)]


def judge() -> ModuleType:
    """The independent checker of provider rules: `check(api, body, original=, history=)`, `flavor_of(host_kind)`."""
    return module(shared_path("judge", "provider_rules.py"))


def overflow_errors() -> ModuleType:
    """The independent list of "too long" answers: `overflow(status, text)`, `PATTERNS`."""
    return module(shared_path("judge", "overflow_errors.py"))


def expand(value: Any) -> Any:
    """A JSON value with every `{{repeat:TEXT:N}}` in its strings replaced by TEXT, N times."""
    if isinstance(value, str):
        return _REPEAT.sub(lambda match: match["text"] * int(match["times"]), value)
    if isinstance(value, list):
        return [expand(item) for item in value]
    if isinstance(value, dict):
        return {key: expand(item) for key, item in value.items()}
    return value


def params(loader: Callable[..., list[Record]], *args: str) -> list[Any]:
    """For `parametrize`: the records or cases of `loader(*args)`, named by their ids; one skipped test without them."""
    try:
        loaded = loader(*args)
    except pytest.skip.Exception as absent:  # raised here it would be an error of the whole test file
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(reason=str(absent)))]
    return [pytest.param(record, id=record["id"]) for record in loaded]


_REPEAT = re.compile(r"\{\{repeat:(?P<text>.*?):(?P<times>\d+)\}\}", re.DOTALL)


def _jsonl(*parts: str) -> list[Record]:
    with shared_path(*parts).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


@cache
def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and NamedTuples look their module up there
    spec.loader.exec_module(module)
    return module
