"""The pages beside the README are true: their figures are what the scripts print, their links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def headings(page: Path) -> set[str]:
    """What a link to a part of a page may name."""
    lines = re.findall(r"^#+ .*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    """To a file of this repository, and to a heading that it has."""
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        name, _, part = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        assert other.exists(), target
        assert not part or part in headings(other), target


@pytest.mark.full
def test_the_figures_on_choosing_a_policy_are_what_the_script_prints() -> None:
    """Every row of both tables, to the letter."""
    program = [sys.executable, "-W", "error", "-m", "bench.choosing"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, timeout=300, check=True)
    printed = [line for line in done.stdout.decode().splitlines() if line.startswith("|")]
    page = (DOCS / "choosing.md").read_text(encoding="utf-8").splitlines()
    assert len(printed) > 10
    assert [line for line in printed if line not in page] == []
