"""A web application that adopts the library by one changed line: `examples/web_app`, served by uvicorn, talked to over HTTP."""

import difflib
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from compacting_client.testing import Provider, Recorded
from examples.web_app.compare import HERE, QUESTIONS, WINDOW, Server, model, serving
from tests.test_examples import run

ROOT = Path(__file__).parent.parent
README = (HERE / "README.md").read_text(encoding="utf-8")


class Talk(NamedTuple):
    """A conversation that was held: the events of each answer, what reached the provider, what the application remembers and logged."""

    answers: list[list[dict[str, Any]]]
    requests: list[Recorded]
    messages: list[Any]
    log: list[str]


def talk(version: str) -> Talk:
    with Provider(WINDOW, default=model) as provider, serving(version, provider) as server:
        chat = server.begin()
        answers = [server.say(chat, question) for question in QUESTIONS]
        return Talk(answers, provider.requests, server.messages(chat), server.logged(""))


@pytest.fixture(scope="module", autouse=True)
def _importable() -> Iterator[None]:
    """The library, in the processes that are started: of this folder, installed or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("PYTHONWARNINGS", "error")
        yield


@pytest.fixture(scope="module")
def before() -> Talk:
    return talk("before")


@pytest.fixture(scope="module")
def after() -> Talk:
    return talk("after")


def test_the_versions_differ_in_one_line_and_its_import() -> None:
    """And the page shows that difference as it is."""
    old, new = ((HERE / name).read_text(encoding="utf-8").splitlines() for name in ("before.py", "after.py"))
    diff = list(difflib.unified_diff(old, new, "before.py", "after.py", lineterm=""))
    assert [line for line in diff[2:] if line[0] in "+-"] == [
        "+from compacting_client import compacting",
        "-client = AsyncOpenAI()",
        "+client = compacting(AsyncOpenAI(), 60_000)",
    ]
    assert "```diff\n" + "\n".join(diff) + "\n```\n" in README


def test_without_the_line_the_provider_refuses(before: Talk) -> None:
    """Once the history has outgrown the window no question is answered any more."""
    refused = ["error" in answer[-1] for answer in before.answers]
    assert refused == sorted(refused)  # first none, then all
    assert 0 < sum(refused) < len(QUESTIONS)
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"without it the provider refuses after {refused.count(False)} questions" in page
    assert "maximum context length is 64000 tokens" in before.answers[-1][-1]["error"]
    assert {request.status for request in before.requests} == {200, 400}


def test_with_the_line_every_question_is_answered(after: Talk) -> None:
    """No request is refused, each question is looked up and answered, and the answer is streamed in pieces."""
    assert {request.status for request in after.requests} == {200}
    assert len(after.requests) == 2 * len(QUESTIONS)
    for question, answer in zip(QUESTIONS, after.answers, strict=True):
        assert answer[0] == {"tool": "departures"}
        assert answer[-1] == {"done": True}
        pieces = [event["text"] for event in answer[1:-1]]
        assert len(pieces) > 1
        assert "".join(pieces) == f"Take the first train {question[question.index('from') : -1]}, at 05:00."


def test_what_the_application_remembers_stays_whole(after: Talk) -> None:
    """A question, a call, its result and an answer for each turn, after the system prompt."""
    roles = [message["role"] for message in after.messages]
    assert roles == ["system", *["user", "assistant", "tool", "assistant"] * len(QUESTIONS)]
    assert [message["content"] for message in after.messages if message["role"] == "user"] == QUESTIONS


def test_the_log_names_what_was_dropped(after: Talk) -> None:
    """The messages of the last request are the application's, in order, without those that the log says have gone."""
    dropped = [line for line in after.log if "content.dropped" in line]
    gone: set[int] = set()
    for line in dropped:
        first, last = (int(found) for found in re.findall(r"(?:first|last)=(\d+)", line))
        gone |= set(range(first, last + 1))
    assert len([line for line in after.log if "trigger='tokens'" in line]) == 2
    assert len(gone) > len(after.messages) / 2
    written = after.messages[:-1]  # the last one is the answer
    left = [contents(message) for index, message in enumerate(written) if index not in gone]
    assert [contents(message) for message in after.requests[-1].body["messages"]] == left


def contents(message: Any) -> tuple[Any, ...]:
    return message["role"], message.get("content"), json.dumps(message.get("tool_calls")), message.get("tool_call_id")


def test_no_text_of_the_conversation_is_logged(after: Talk) -> None:
    """Neither of the questions nor of the tool's results."""
    assert not [line for line in after.log if "Which train" in line or "RE 1" in line]


def test_chats_at_the_same_time_keep_apart() -> None:
    """Each has its own history and its own cut."""

    def ask(server: Server, name: str) -> list[dict[str, Any]]:
        chat = server.begin()
        return [server.say(chat, f"{name} asks: {question}")[-1] for question in QUESTIONS[:12]]

    with Provider(WINDOW, default=model) as provider, serving("after", provider) as server:
        with ThreadPoolExecutor() as pool:
            ended = list(pool.map(ask, [server] * 2, ["Anna", "Bert"]))
        assert ended == [[{"done": True}] * 12] * 2
        assert len([line for line in server.logged("trigger='tokens'") if "applied" in line]) == 2
    for request in provider.requests:
        assert request.status == 200
        asked = [message["content"] for message in request.body["messages"] if message["role"] == "user"]
        assert len({text.split()[0] for text in asked}) == 1


def test_the_page_shows_what_the_comparison_prints() -> None:
    """To the letter."""
    assert f"```text\n{run('web_app/compare.py')}```\n" in README
