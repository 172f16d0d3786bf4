"""The README is true: its Python blocks run, one after the other, and print what it shows."""

import contextlib
import io
import json
import linecache
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PROVIDERS = ("OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A Python block, the line it begins at, and the output that the block right after it shows, if any."""

    line: int
    code: str
    shown: str | None


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    fences = list(FENCE.finditer(text))
    for fence, after in zip(fences, [*fences[1:], None], strict=True):
        if fence[1] == "python":
            follows = after is not None and after[1] == "text" and not text[fence.end() : after.start()].strip()
            line = text.count("\n", 0, fence.start()) + 2
            found.append(Block(line, fence[2], after[2] if follows and after is not None else None))
    return found


BLOCKS = blocks(README.read_text(encoding="utf-8"))
SETUP = next(block for block in BLOCKS if "OPENAI_BASE_URL" in block.code)
"""What the page says is to be run first, without a key."""


def run_all() -> None:
    """Runs in a process of its own: all blocks in one namespace, after the one for readers without a key; prints their outputs as JSON."""
    linecache.cache["README.md"] = (0, None, README.read_text(encoding="utf-8").splitlines(keepends=True), "README.md")
    namespace: dict[str, object] = {"__name__": "readme"}
    printed: dict[Block, str] = {}
    for block in [SETUP, *(block for block in BLOCKS if block is not SETUP)]:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile("\n" * (block.line - 1) + block.code, "README.md", "exec"), namespace)
        printed[block] = output.getvalue()
    print(json.dumps([printed[block] for block in BLOCKS]))


@pytest.fixture(scope="module")
def outputs() -> list[str]:
    """What each block prints."""
    program = "from tests.test_readme import run_all; run_all()"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(PROVIDERS)},
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error,ignore::ResourceWarning",
        "PYTHONIOENCODING": "utf-8",
    }
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    printed: list[str] = json.loads(done.stdout)
    return printed


def test_every_python_block_runs(outputs: list[str]) -> None:
    """In order, in one namespace, with warnings as errors."""
    assert len(outputs) == len(BLOCKS) > 0


@pytest.mark.parametrize("number", [number for number, block in enumerate(BLOCKS) if block.shown is not None])
def test_a_block_prints_what_is_shown_below_it(outputs: list[str], number: int) -> None:
    """To the letter."""
    assert outputs[number] == BLOCKS[number].shown


def test_the_first_example_is_ten_lines_with_its_output() -> None:
    """It stands on the first screen."""
    first = BLOCKS[0]
    assert len([line for line in first.code.splitlines() if line]) <= 10
    assert first.shown is not None
    assert first.line < 40


def test_the_first_example_is_the_quick_start(outputs: list[str]) -> None:
    """Whoever runs the file sees what the README shows."""
    keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    environment = {name: value for name, value in os.environ.items() if name not in keys} | {"PYTHONPATH": str(ROOT)}
    program = [sys.executable, str(ROOT / "examples" / "quick_start_openai.py")]
    assert (
        subprocess.run(program, env=environment, capture_output=True, timeout=60, check=True).stdout.decode()
        == outputs[0]
    )


def test_the_tests_shown_pass(tmp_path: Path) -> None:
    """The block with a pytest fixture, as a file of its own."""
    (shown,) = [block.code for block in BLOCKS if "@pytest.fixture" in block.code]
    (tmp_path / "test_shown.py").write_text(shown, encoding="utf-8")
    program = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--rootdir", ".", "."]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "127.0.0.1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout.decode()
    assert b"1 passed" in done.stdout


def test_links_lead_somewhere() -> None:
    """To a file of this repository, or to a heading of the page."""
    text = README.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in re.findall(r"^#+ .*$", text, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert target.startswith("https://") or (
            target[1:] in headings if target.startswith("#") else (ROOT / target.partition("#")[0]).exists()
        ), target
