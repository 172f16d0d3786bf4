"""Every example runs as it is, with no key and no network."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


@functools.cache
def run(name: str, *, encoding: str = "utf-8") -> str:
    """What an example prints, in a process of its own: no key, a proxy that does not answer, and warnings are errors."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_", "COLUMNS"))
    }
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "PYTHONIOENCODING": encoding}
    environment |= {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "", "no_proxy": ""}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], env=environment, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    return done.stdout.decode(encoding)


EXPECTED = {
    "quick_start.py": r"openai-chat .*-> .* tokens.*\n  dropped .* requests ago: \d+ user, \d+ assistant.*\n(.*\n)*  reused cut",
    "quick_start_anthropic.py": r"anthropic-messages .*-> .* tokens.*\n  dropped .* user, \d+ assistant",
    "quick_start_gemini.py": r"gemini .*-> .* tokens.*\n  dropped .* user, \d+ assistant(.*\n)*The chat itself remembers 60 messages",
    "streaming_chat.py": r"openai-chat: 1\d\d\d -> \d\d\d tokens; .*Usage(.*\n)*.*anthropic-messages: 1\d\d\d -> \d\d\d tokens; .*Usage",
    "tool_loop.py": r"exchanges: 3 dropped now, 3 absent(.*\n)*The foresail was torn on day 2",
    "async_chat.py": r"Beagle: .*->(.*\n)*Fram: .*->(.*\n)*Vega: .*below trigger(.*\n)*39 requests, \d+ of them compacted, \d+ messages archived",
    "accounting.py": r"event='compaction.applied'(.*\n)*the cut of \d+ requests ago(.*\n)*12 messages archived(.*\n)*.*provider's cache",
    "demo.py": r"No request of a wrapped client was refused",
}


def test_every_example_has_its_expected_output_here() -> None:
    """A new example cannot be forgotten."""
    assert {path.name for path in EXAMPLES.glob("*.py")} - {"providers.py"} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints_what_it_is_there_to_show(name: str) -> None:
    """It ends well, warns of nothing, and its point is in what it prints."""
    assert re.search(EXPECTED[name], run(name))


def test_no_message_of_an_example_reaches_a_log() -> None:
    """The account of what was dropped holds no text unless asked."""
    logged = [line for line in run("accounting.py").splitlines() if "compaction.applied" in line]
    assert logged
    assert not any("wind" in line for line in logged)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_demo_fits_a_plain_terminal(encoding: str) -> None:
    """Without a terminal its tables are at most 80 columns wide, whatever the encoding."""
    rows = [line for line in run("demo.py", encoding=encoding).splitlines() if re.match(r" *\d+  ", line)]
    assert len(rows) == 24 + 11 + 24 + 11
    assert max(map(len, rows)) <= 80
    assert all(row.rstrip().endswith("ok") for row in rows)


def test_the_demo_shows_what_happens_without_the_library() -> None:
    """Refused as too long, refused as an orphan, and a cache that is never used."""
    shown = " ".join(run("demo.py").split())
    assert "This model's maximum context length is 4000 tokens" in shown
    assert "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'" in shown
    by_hand = re.search(r"accepted, but only (\d+)% of the prompt", shown)
    remembered = re.search(r"Chat, OpenAI 24 [\d,]+ -> [\d,]+ \d+% 2 (\d+)% 0", shown)
    assert by_hand is not None
    assert remembered is not None
    assert int(remembered[1]) > 2 * int(by_hand[1])
    told = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{remembered[1]} % of the chat's prompt comes from the cache" in told
    assert f"trimmed anew for each request it is {by_hand[1]} %" in told


def test_the_demo_fails_if_a_request_was_refused() -> None:
    """Its exit status is a test of the whole way, in continuous integration too."""
    program = """if True:
        import sys, demo
        from compacting_client import DropOldest
        demo.DropOldest = lambda max_tokens: DropOldest(9_000)  # more than the provider's window
        sys.exit(demo.main())"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(EXAMPLES)])},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert b"maximum context length" in done.stdout
