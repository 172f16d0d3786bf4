"""No case of the main job is overlooked, and none that waits for a policy is forgotten."""

import importlib
from pathlib import Path

import pytest

import compacting_client
from tests.cases.bench import CHAT, CLAUDE, COVERED
from tests.shared import Record, cases, params

POLICIES = {"ledger": "Ledger"}
BY_MODEL = {"073": "what the library asks a model for a summary", "156": "what that cost"}
"""Cases of requests that the library makes itself, which it does not yet."""


def main_job() -> list[Record]:
    """The cases of the main job for the APIs that are read, and for the wrapper itself."""
    return cases("main job", CHAT, CLAUDE, "gemini", "wrapper")


def summaries() -> list[Record]:
    """The cases of summaries, but for those that need a summary by the library's own request."""
    return [case for case in cases("summaries") if case["id"] not in BY_MODEL]


def waiting() -> list[Record]:
    """Those whose own policy is yet to come: their kind is tested with DropOldest, their words need their policy."""
    return [case for case in main_job() if case["policy"]["type"] in POLICIES]


def test_every_case_of_the_main_job_and_of_summaries_has_a_test_of_its_kind() -> None:
    """Each case is named by a test, and no test names a case that there is not."""
    wanted = {case["id"] for case in [*main_job(), *summaries()]}
    for file in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(f"tests.cases.{file.stem}")
    assert wanted - set(COVERED) == set(), "cases without a test"
    assert set(COVERED) - {case["id"] for case in cases()} == set(), "tests without a case"


@pytest.mark.parametrize("case", params(waiting))
def test_a_case_that_waits_for_its_policy_is_run_once_there_is_one(case: Record) -> None:
    """With DropOldest its kind is covered; as soon as its own policy exists, its words have to become a test."""
    policy = POLICIES[case["policy"]["type"]]
    if not hasattr(compacting_client, policy):
        pytest.skip(f"case {case['id']} word for word needs the policy {policy}")
    pytest.fail(f"{policy} is there: write case {case['id']} as a test of its own, and take it out of here")


@pytest.mark.parametrize("id_", BY_MODEL)
def test_a_case_of_a_summary_by_model_is_run_once_there_is_one(id_: str) -> None:
    """As soon as a summary needs no function, these two have tests of their own."""
    for file in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(f"tests.cases.{file.stem}")
    if id_ in COVERED:
        return
    try:
        compacting_client.Summarize()
    except compacting_client.ConfigError:
        pytest.skip(f"case {id_} needs Summarize() without a function: {BY_MODEL[id_]}")
    pytest.fail(f"Summarize() needs no function: write case {id_} as a test, and take it out of here")
