"""Logs, reports and errors hold no text of the conversation, unless the application asks for it."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from compacting_client import DropOldest, PolicyError
from compacting_client.testing import EventCapture
from tests.cases.bench import APIS, CHAT, MODES, Body, Line, covers
from tests.cases.neighbours import in_api, turn
from tests.cases.sound import assert_sound

MakeLine = Callable[..., Line]
each_api = pytest.mark.parametrize("api", APIS)
SMALL = DropOldest(60, keep_head=1, keep_tail=2)
SECRET = "SECRET-7731"


def secretive(api: str) -> list[Body]:
    """A request with a secret in every place that is dropped, and the next one, which reuses the cut."""
    function = {"name": "pay", "arguments": json.dumps({"pin": SECRET})}
    messages: list[Body] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": f"My word is {SECRET}. " * 9},
        {
            "role": "assistant",
            "content": f"{SECRET}?",
            "tool_calls": [{"id": "p1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "p1", "content": f"paid {SECRET} " * 9},
        {"role": "assistant", "content": f"Paid with {SECRET}."},
        {"role": "user", "content": "Thanks."},
    ]
    first = in_api({"model": "gpt-4o-mini", "messages": messages}, CHAT, api)
    return [first, {**first, "messages": [*first["messages"], *turn("Bye.", "Bye.")]}]


@pytest.fixture
def structured() -> Iterator[list[Any]]:
    """Everything that structlog is told, from debug on, as the application configured it."""
    seen: list[Any] = []

    def keep(_logger: Any, _name: str, event: Any) -> str:
        seen.append(dict(event))
        return ""

    structlog.configure(processors=[keep], wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG))
    yield seen
    structlog.reset_defaults()


@covers("164")
@pytest.mark.parametrize("mode", MODES)
@each_api
def test_structured_logs_hold_no_text_of_the_conversation(
    api: str, mode: str, line: MakeLine, structured: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Counts, roles, indexes, ids and figures, at every level; content only when asked; callbacks do get it."""
    for shown in (False, True):
        structured.clear()
        dropped = EventCapture()
        wrapped = line(api, SMALL, mode, on_drop=dropped, log_content=shown)
        first, second = secretive(api)
        assert_sound(wrapped.send(first))
        trip = wrapped.send(second)
        assert_sound(trip)
        assert {"compaction.applied", "content.dropped", "content.reused"} <= {each["event"] for each in structured}
        assert (SECRET in repr(structured)) == shown
        assert SECRET in str([event.messages for event in dropped.events])
        assert SECRET not in repr(dropped.events) + repr(trip.report) + str(trip.report) + repr(trip.report.dropped)
        assert (SECRET in json.dumps(trip.report.as_dict())) == shown
    assert SECRET not in "".join(capsys.readouterr())


@covers("164")
@each_api
def test_standard_logs_hold_no_text_of_the_conversation(
    api: str, line: MakeLine, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the message, nor the fields of a record, nor its traceback, whatever goes wrong around them."""

    def leaks(value: Any) -> Any:
        raise ValueError(f"cannot take {value!r}, {getattr(value, 'messages', '')!r}")

    def nonsense(value: Any) -> Any:
        return str(value)

    caplog.set_level(logging.DEBUG)
    for options in (
        {},
        {"on_drop": leaks},
        {"on_event": leaks},
        {"on_report": leaks},
        {"pin": leaks, "strict": False},
        {"counter": leaks, "strict": False},
        {"counter": nonsense, "strict": False},
        {"memory_key": leaks, "strict": False},
        {"memory_key": lambda message: [message], "strict": False},
        {"on_unfit": "send", "memory": Forgetful()},
    ):
        wrapped = line(api, SMALL, **options)
        for body in secretive(api):
            assert wrapped.send(body).statuses == [200]
    ours = [record for record in caplog.records if record.name.startswith("compacting")]
    assert any(record.levelno == logging.ERROR for record in ours)
    shown = [logging.Formatter("%(message)s").format(record) + repr(record.__dict__) for record in ours]
    assert SECRET not in "".join(shown)


class Forgetful:
    """A store that is down, and says why in words of the conversation."""

    blocking = False

    def recall(self, key: str) -> Any:
        raise RuntimeError(f"no {SECRET} {key}")

    remember = reuse = lambda self, key, entry: self.recall(key)

    def forget(self, key: str | None = None) -> None:
        """Nothing to do."""


@covers("164", "081")
def test_the_error_of_an_own_function_carries_no_text_either(line: MakeLine) -> None:
    """What `strict` raises names the setting; the cause is there for who looks at it."""

    def leaks(message: Any) -> Any:
        raise ValueError(str(message))

    with pytest.raises(PolicyError) as caught:
        line(CHAT, SMALL, pin=leaks).send(secretive(CHAT)[0])
    assert SECRET not in str(caught.value)
    assert "pin" in str(caught.value)
