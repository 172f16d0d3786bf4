"""Logs: silent until the application wants them, the same keys as the events, and no text of the conversation unless asked for."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import openai
import pytest
import structlog
from structlog.testing import capture_logs

from compacting_client import ConfigError, compacting, memory
from compacting_client.testing import EventCapture, Provider
from tests.bindings.support import POLICY, chat_request, is_compacted, report_of, sent, tool_history

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    """structlog as it is before an application configures it."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def boom(_: Any) -> Any:
    raise LookupError(SECRET)


class BrokenStore(memory.InProcess):
    """A store that is down, and says so in words."""

    def recall(self, key: str) -> Any:
        raise OSError(SECRET)


def secret_request() -> Any:
    """A long history that holds the secret in its texts, its system prompt, tool arguments and tool results."""
    messages = tool_history(SECRET)
    messages[0]["content"] = SECRET
    messages[2]["tool_calls"][0]["function"]["arguments"] = json.dumps({"password": SECRET})
    return chat_request(messages, tools=[{"type": "function", "function": {"name": "look_up", "description": SECRET}}])


def all_kinds_of_requests(chat: openai.OpenAI, **more: Any) -> None:
    """Requests that apply, reuse, skip and fail, with every kind of function of the caller raising the secret."""
    for settings in (
        {},
        {"on_event": boom, "on_drop": boom, "on_report": boom},
        {"memory": BrokenStore()},
        {"counter": boom},
        {"pin": boom},
        {"memory_key": boom},
        {"counter": lambda _: SECRET},
        {"memory_key": lambda _: None},
    ):
        options: Any = {**settings, **more}
        client = compacting(chat, POLICY, **options)
        for _ in range(2):
            client.chat.completions.create(**secret_request())


def test_silent_by_default(chat: openai.OpenAI, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing reaches stdout or stderr, warnings and errors included."""
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []  # as in an application that has not configured logging
    try:
        all_kinds_of_requests(chat)
    finally:
        root.handlers = handlers
    assert capfd.readouterr() == ("", "")


def test_silent_in_a_fresh_process(provider: Provider) -> None:
    """The stdlib's handler of last resort prints warnings of loggers that nobody configured: not ours."""
    program = f"""
import openai
from compacting_client import compacting

def boom(_):
    raise LookupError

client = compacting(openai.OpenAI(base_url={provider.openai_url!r}, api_key="test"), 10, on_event=boom, counter=boom)
client.chat.completions.create(model="gpt-5", messages=[{{"role": "user", "content": "Hi " * 500}}])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(provider.requests) == 1


def test_the_stdlib_logger(chat: openai.OpenAI, caplog: pytest.LogCaptureFixture) -> None:
    """Configured, it gets every event at its level: the name and `key=value` text, the fields in `record.fields`."""
    events = EventCapture()
    client = compacting(chat, POLICY, on_event=events)
    with caplog.at_level("DEBUG", logger="compacting_client"):
        for _ in range(2):
            client.chat.completions.create(**chat_request())
    assert [record.name for record in caplog.records] == ["compacting_client"] * len(events.events)
    for record, event in zip(caplog.records, events.events, strict=True):
        assert record.levelname.lower() == event.level
        fields = event.as_dict()
        name = fields.pop("name")
        assert record.fields == fields  # type: ignore[attr-defined]
        text = record.getMessage()
        assert text.startswith(f"{name} request_id='{event.request_id}' ")
        assert all(f"{key}={value!r}" in text for key, value in fields.items())


def test_levels_are_obeyed(chat: openai.OpenAI, caplog: pytest.LogCaptureFixture) -> None:
    """At INFO there is one line per changed request, none for its units."""
    client = compacting(chat, POLICY)
    with caplog.at_level("INFO", logger="compacting_client"):
        client.chat.completions.create(**chat_request())
    assert [record.getMessage().split()[0] for record in caplog.records] == ["compaction.applied"]


def test_structlog_where_the_application_uses_it(chat: openai.OpenAI, caplog: pytest.LogCaptureFixture) -> None:
    """Configured, it gets every event with its fields as keys, though it was configured after wrapping; stdlib gets nothing."""
    events = EventCapture()
    client = compacting(chat, POLICY, on_event=events)
    structlog.configure()
    with capture_logs() as logs, caplog.at_level("DEBUG", logger="compacting_client"):
        client.chat.completions.create(**chat_request())
    expected = []
    for event in events.events:
        fields = event.as_dict()
        expected.append({"event": fields.pop("name"), "log_level": event.level, **fields})
    assert logs == expected
    assert caplog.records == []


def test_loggers_given(chat: openai.OpenAI, caplog: pytest.LogCaptureFixture) -> None:
    """A stdlib logger, an adapter or a structlog logger, given explicitly, is used instead of the default."""
    mine = logging.getLogger("mine")
    with caplog.at_level("DEBUG"):
        compacting(chat, POLICY, logger=mine).chat.completions.create(**chat_request())
        assert {record.name for record in caplog.records if record.name != "httpx2"} >= {"mine"}
        assert not [record for record in caplog.records if record.name == "compacting_client"]
        caplog.clear()
        adapter = logging.LoggerAdapter(mine, {"app": "demo"})
        compacting(chat, POLICY, logger=adapter).chat.completions.create(**chat_request())
        assert [record for record in caplog.records if record.name == "mine"]
    structlog.configure()
    with capture_logs() as logs:
        bound = structlog.get_logger().bind(app="demo")
        compacting(chat, POLICY, logger=bound).chat.completions.create(**chat_request())
    assert logs[0]["event"] == "compaction.applied"
    assert {entry["app"] for entry in logs} == {"demo"}


@pytest.mark.parametrize("wrong", ["mine", 7, logging, logging.Logger, object(), structlog])
def test_what_is_no_logger(chat: openai.OpenAI, wrong: Any) -> None:
    """A name, a module or a class cannot log: ConfigError."""
    with pytest.raises(ConfigError, match="logger must be a stdlib or structlog logger or None, not"):
        compacting(chat, POLICY, logger=wrong)


class BrokenSink(logging.Logger):
    """A logger that raises."""

    def handle(self, record: logging.LogRecord) -> None:
        raise OSError("disk full")


class BrokenBoundLogger:
    """A logger that raises at everything, being asked for its level included."""

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise OSError("disk full")

    debug = info = warning = error = isEnabledFor = _raise  # noqa: N815


@pytest.mark.parametrize("sink", [BrokenSink("mine", logging.DEBUG), BrokenBoundLogger()])
def test_a_sink_that_raises_breaks_nothing(provider: Provider, chat: openai.OpenAI, sink: Any) -> None:
    """Every kind of record is written to a broken logger, and every request leaves."""
    all_kinds_of_requests(chat, logger=sink)
    assert [request.status for request in provider.requests] == [200] * 16
    assert is_compacted(sent(provider, 0), secret_request()["messages"])


def written(records: list[logging.LogRecord]) -> str:
    """All that a formatter could print of our records."""
    formatter = logging.Formatter("%(message)s")
    ours = [record for record in records if record.name == "compacting_client"]
    return "\n".join(formatter.format(record) + repr(record.__dict__) for record in ours)


def test_no_text_in_logs(chat: openai.OpenAI, caplog: pytest.LogCaptureFixture) -> None:
    """At DEBUG, nothing of texts, arguments, results, system prompts, tool descriptions or of what exceptions say."""
    with caplog.at_level("DEBUG", logger="compacting_client"):
        all_kinds_of_requests(chat)
    text = written(caplog.records)
    for name in ("compaction.applied", "content.dropped", "content.reused", "compaction.failed", "callback.failed"):
        assert name in text
    assert SECRET not in text


def test_no_text_in_structured_logs(chat: openai.OpenAI) -> None:
    """The same for structlog."""
    structlog.configure()
    with capture_logs() as logs:
        all_kinds_of_requests(chat)
    assert {"compaction.applied", "compaction.failed", "callback.failed"} <= {entry["event"] for entry in logs}
    assert SECRET not in repr(logs)


def test_no_text_in_events_and_reports(chat: openai.OpenAI) -> None:
    """`repr`, `str` and `as_dict()` of events and reports hold no text either."""
    events = EventCapture()
    client = compacting(chat, POLICY, on_event=events)
    for _ in range(2):
        report = report_of(client, client.chat.completions.create(**secret_request()))
        shown = f"{report} {report!r} {report.as_dict()} {report.dropped} {events.events}"
        assert SECRET not in shown + str([event.as_dict() for event in events.events])
        assert SECRET in str([unit.messages for unit in report.dropped])


def test_text_where_it_was_asked_for(chat: openai.OpenAI, caplog: pytest.LogCaptureFixture) -> None:
    """`log_content=True` lets the logs and the report carry what left, and exceptions their text."""
    with caplog.at_level("DEBUG", logger="compacting_client"):
        all_kinds_of_requests(chat, log_content=True)
    ours = [record for record in caplog.records if record.name == "compacting_client"]
    for name in ("content.dropped", "compaction.failed", "callback.failed"):
        assert any(SECRET in written([record]) for record in ours if record.getMessage().startswith(name)), name
    client = compacting(chat, POLICY, log_content=True)
    report = report_of(client, client.chat.completions.create(**secret_request()))
    assert SECRET in json.dumps(report.as_dict())
