"""Every example runs as it is, with no key and no network."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compacting_client.testing import Provider

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


@functools.cache
def run(name: str, *, encoding: str = "utf-8", **variables: str) -> str:
    """What an example prints, in a process of its own: no key, a proxy that does not answer, and warnings are errors.

    variables: of its environment, besides.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_", "COLUMNS"))
    }
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "PYTHONIOENCODING": encoding}
    environment |= {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "", "no_proxy": "", **variables}
    program = [str(EXAMPLES / name)] if name.endswith(".py") else ["-m", f"examples.{name}"]
    done = subprocess.run(
        [sys.executable, *program], cwd=ROOT, env=environment, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    return done.stdout.decode(encoding)


STREAMED = r"(A calm day.*\n  \[.*Usage.*\n){5}(.*\n)*.*\[1\d\d\d -> \d\d\d tokens, 1\d -> 6 messages, 6 dropped now; Usage(.*\n)*"
LOOPED = r".*4 dropped now, 4 absent(, 3 without their thinking)?\n(.*\n)*.*4 dropped now, 8 absent(.*\n)*The foresail was torn on day 2"
MANAGED = r"\nrequest   full transcript   managed\n( +\d+ +[\d,]+ +[\d,]+\n){9} +all +[34]\d\d,\d+ +\d\d,\d+: 2\d%\n"
EXPECTED = {
    "quick_start_openai.py": r"openai-chat .*-> .* tokens.*\n  dropped .* requests ago: \d+ user, \d+ assistant.*\n(.*\n)*  reused cut",
    "quick_start_anthropic.py": r"anthropic-messages .*-> .* tokens.*\n  dropped .* user, \d+ assistant",
    "quick_start_gemini.py": r"gemini .*-> .* tokens.*\n  dropped .* user, \d+ assistant(.*\n)*The chat itself remembers 60 messages",
    "streaming_openai.py": STREAMED + r"openai-chat .*: 2\d\d\d -> \d\d\d tokens",
    "streaming_anthropic.py": STREAMED + r"anthropic-messages .*: 2\d\d\d -> \d\d\d tokens",
    "streaming_gemini.py": STREAMED + r"gemini .*: 2\d\d\d -> \d\d\d tokens",
    "tool_loop_openai.py": LOOPED,
    "tool_loop_anthropic.py": rf"By hand(.*\n)*{LOOPED}(.*\n)*By the tool runner(.*\n)*{LOOPED}",
    "tool_loop_gemini.py": rf"By hand(.*\n)*{LOOPED}(.*\n)*By automatic function calling(.*\n)*{LOOPED}(.*\n)*.*remembers 26 messages",
    "managed_openai.py": r"is known: asked 36 requests ago\nShip 17, with 6.9 metres." + MANAGED,
    "managed_anthropic.py": r"Ship 17, with 6.9 metres.\n41 calls, 40 times the tool ran" + MANAGED,
    "managed_gemini.py": r"Ship 17, with 6.9 metres.\n41 calls, 40 times the tool ran" + MANAGED,
    "stages.py": r"gather +4,\d+ -> +2,\d+ tokens(.*\n)*write +4,\d+ -> +\d\d tokens(.*\n)*check +4,\d+ -> +4,\d+ tokens",
    "async_chat.py": r"Beagle: .*->(.*\n)*Fram: .*->(.*\n)*Vega: .*below trigger(.*\n)*39 requests, \d+ of them compacted, \d+ messages archived",
    "long_chat_anthropic.py": r"300 requests, 6 summary calls(.*\n)*.*had 3\d\d\d tokens\n.*, 9\d % of them(.*\n)*anthropic-messages .*\[Summarize\]",
    "accounting.py": r"event='compaction.applied'(.*\n)*the cut of \d+ requests ago(.*\n)*12 messages archived(.*\n)*.*provider's cache",
    "web_app/compare.py": r"before.py: \d+ of 20 questions answered\n(.*\n)*after.py: 20 of 20 questions answered\n(.*\n)*.*content.dropped",
    "demo": r"No request of a wrapped client was refused",
}
PARTS = {"without_key.py", "web_app/before.py", "web_app/after.py"}
"""What the examples are made of."""


def test_every_example_has_its_expected_output_here() -> None:
    """A new example cannot be forgotten."""
    found = {path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*.py")}
    assert {path.as_posix() for path in found if path.parts[0] != "demo"} == EXPECTED.keys() - {"demo"} | PARTS


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints_what_it_is_there_to_show(name: str) -> None:
    """It ends well, warns of nothing, and its point is in what it prints."""
    assert re.search(EXPECTED[name], run(name))


KEYS = {
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
}


@pytest.mark.parametrize("sdk", KEYS)
def test_with_a_key_an_example_asks_the_provider_of_that_key(sdk: str) -> None:
    """Without a change: key and address are found in the environment by the SDK itself."""
    key, url = KEYS[sdk]
    with Provider(default=lambda _: "Aye.") as provider:
        address = {"openai": provider.openai_url, "anthropic": provider.anthropic_url, "gemini": provider.google_url}
        run(f"streaming_{sdk}.py", **{key: "mine", url: address[sdk], "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"})
    assert provider.requests
    for request in provider.requests:
        assert request.status == 200
        assert any("mine" in value for value in request.headers.values())  # in which one depends on the SDK's version


def test_no_message_of_an_example_reaches_a_log() -> None:
    """The account of what was dropped holds no text unless asked."""
    logged = [line for line in run("accounting.py").splitlines() if "compaction.applied" in line]
    assert logged
    assert not any("wind" in line for line in logged)


@pytest.mark.parametrize("options", [{}, {"encoding": "ascii"}])
def test_the_demo_fits_a_plain_terminal(options: dict[str, str]) -> None:
    """Without a terminal its tables are at most 80 columns wide, whatever the encoding."""
    rows = [line for line in run("demo", **options).splitlines() if re.match(r" *\d+  ", line)]
    assert len(rows) == 3 * (18 + 11)
    assert max(map(len, rows)) <= 80
    assert all(row.rstrip().endswith("ok") for row in rows)


def test_every_conversation_of_the_demo_is_cut_and_keeps_its_cache() -> None:
    """A chat and a tool loop on each SDK: fewer tokens, one or two cuts, most of the prompt from the cache, nothing refused."""
    row = r"^((?:Chat|Tool loop), \w+) +\d+ +[\d,]+ -> [\d,]+ +\d+% +([12]) +[678]\d% +0 *$"
    shown = dict(re.findall(row, run("demo"), re.MULTILINE))
    assert list(shown) == [
        f"{what}, {sdk}" for what in ("Chat", "Tool loop") for sdk in ("OpenAI", "Anthropic", "Gemini")
    ]


def test_the_demo_shows_what_happens_without_the_library() -> None:
    """Refused as too long, refused as an orphan, and a cache that is never used."""
    shown = " ".join(run("demo").split())
    assert "This model's maximum context length is 4000 tokens" in shown
    assert "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'" in shown
    by_hand = re.search(r"accepted, but only (\d+)% of the prompt", shown)
    remembered = re.search(r"Chat, OpenAI 18 [\d,]+ -> [\d,]+ \d+% 2 (\d+)% 0", shown)
    assert by_hand is not None
    assert remembered is not None
    assert int(remembered[1]) > 2 * int(by_hand[1])
    told = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{remembered[1]} % of the chat's prompt comes from the cache" in told
    assert f"trimmed anew for each request it is {by_hand[1]} %" in told


def test_the_demo_fails_if_a_request_was_refused() -> None:
    """Its exit status is a test of the whole way, in continuous integration too."""
    # a budget that is larger than the provider's window
    program = "import sys; from examples.demo.__main__ import main; sys.exit(main(budget=9_000))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 1
    shown = " ".join(done.stdout.decode().split())
    told = "6 requests of wrapped clients were refused"  # a chat and a tool loop of each SDK; each was sent once more
    assert told in shown.partition("With compacting")[2]
