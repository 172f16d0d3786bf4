"""`make cassettes`, or ``python -m cassettes.record [name ...]``: record every scenario anew, or those named.

Needs npm, pip and the packages of the dev extra.  Nothing is sent but to servers on the loopback interface; no key is used.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from cassettes.scenarios import SCENARIOS, Scenario
from cassettes.servers import ServerError, aimock, llmock
from cassettes.tape import RECORDED, path_of, tape


def main(names: list[str]) -> int:
    """Record; the exit status."""
    unknown = set(names) - SCENARIOS.keys()
    if unknown:
        return _fail(f"no scenario is called {', '.join(sorted(unknown))}; there are: {', '.join(SCENARIOS)}")
    if importlib.util.find_spec("aiohttp"):
        return _fail(
            "aiohttp is installed here: google-genai would send its async requests through it instead of httpx, and they would be "
            "recorded in another form. Use an environment without it, such as the one of `make cassettes`"
        )
    wanted = [scenario for name, scenario in SCENARIOS.items() if name in names or not names]
    try:
        _record(wanted)
    except ServerError as error:
        return _fail(str(error))
    if not names:
        for left_over in set(RECORDED.iterdir()) - set(map(path_of, SCENARIOS)):
            left_over.unlink()
    return 0


def _record(scenarios: list[Scenario]) -> None:
    starting = {"aimock": aimock, "llmock": llmock}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cassettes-")))
        urls: dict[str, str] = {}
        for name in sorted({scenario.server for scenario in scenarios}):
            print(f"installing and starting {name} ...")
            (folder / name).mkdir()
            urls[name] = stack.enter_context(starting[name](folder / name))
        for scenario in scenarios:
            with tape(scenario.name, record=True):
                outcome = scenario.perform(urls[scenario.server])
            cut = sum(report.changed for report in outcome.reports)
            size = path_of(scenario.name).stat().st_size
            print(
                f"{scenario.name:<32} {len(outcome.reports):>3} requests, {cut:>3} of them compacted, {size:>6} bytes"
            )


def _fail(why: str) -> int:
    print(f"cassettes: {why}.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    logging.getLogger("google_genai").setLevel(logging.ERROR)  # it advises against some of what is recorded on purpose
    os.environ |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    sys.exit(main(sys.argv[1:]))
