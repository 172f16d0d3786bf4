"""No case of the main job, and none of the ledger, is overlooked."""

import importlib
from pathlib import Path

from tests.cases.bench import CHAT, CLAUDE, COVERED
from tests.shared import Record, cases


def main_job() -> list[Record]:
    """The cases of the main job for the APIs that are read, and for the wrapper itself; those of summaries, and of the ledger."""
    return [*cases("main job", CHAT, CLAUDE, "gemini", "wrapper"), *cases("summaries"), *cases("ledger")]


def test_every_case_of_these_topics_has_a_test_of_its_kind() -> None:
    """Each case is named by a test, and no test names a case that there is not."""
    wanted = {case["id"] for case in main_job()}
    for file in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(f"tests.cases.{file.stem}")
    assert wanted - set(COVERED) == set(), "cases without a test"
    assert set(COVERED) - {case["id"] for case in cases()} == set(), "tests without a case"
