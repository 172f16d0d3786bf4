"""The cases of the main job that name Summarize, word for word."""

import asyncio
import re
import threading
from typing import Any

import openai
import pytest

from compacting_client import ConfigError, Summarize, compacting
from compacting_client.formats import anthropic_messages, openai_chat
from compacting_client.testing import Provider
from tests.cases.bench import covers
from tests.driving import found, leave, session, size
from tests.shared import Record, cases


class Writer:
    """A summariser that keeps what it was given."""

    def __init__(self, answer: Any = "They spoke.") -> None:
        self.answer, self.given = answer, list[Any]()

    def __call__(self, request: Any) -> str:
        """A fixed text, or one made of the request."""
        self.given.append(request)
        return str(self.answer(request) if callable(self.answer) else self.answer)

    @property
    def text(self) -> str:
        """All that it was given."""
        return "\n".join(request.prompt for request in self.given)


def case_of(number: str) -> Record:
    """A case by its number."""
    return next(case for case in cases() if case["id"] == number)


def policy_of(case: Record, writer: Writer, **changes: Any) -> Summarize:
    """The case's own policy; a budget that is given alone is the only trigger."""
    given = {name: value for name, value in case["policy"].items() if name != "type"}
    given.setdefault("max_messages", None)
    return Summarize(summarizer=writer, **{**given, **changes})


def run(number: str, wire: Any, writer: Writer, **changes: Any) -> tuple[Any, Any, Any]:
    """The body of a case, what left for it, and the report; sound for the judge."""
    case = case_of(number)
    body = case["request"]
    sent, report = leave(session(policy_of(case, writer, **changes)), wire, body)
    assert not found(wire.API, sent, body)
    return body, sent, report


@covers("002")
def test_an_exchange_is_summarised_whole() -> None:
    """The cut falls on a tool result: its call and it are in the summary, or both in the request."""
    writer = Writer()
    body, sent, _ = run("002", openai_chat, writer, max_summary_tokens=5)
    kept = [index for index, message in enumerate(body["messages"]) if message in sent["messages"]]
    assert (2 in kept) == (3 in kept)
    assert kept[-1] == len(body["messages"]) - 1


@covers("006")
def test_a_summary_as_long_as_its_input_is_asked_for_once() -> None:
    """One call a request; the request goes out within the budget, or the report says that it does not fit."""
    writer = Writer(lambda request: "x" * len(request.prompt))
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"{n} " + "word " * 79} for n in range(9)]
    policy = policy_of(case_of("006"), writer)
    sent, report = leave(session(policy), openai_chat, {"model": "m", "messages": messages})
    assert len(writer.given) == 1
    assert report.fits == (size(sent) <= 200)


@covers("011")
def test_the_last_message_is_never_summarised() -> None:
    """It is not shown to the summariser, and leaves as it came, last."""
    writer = Writer()
    body, sent, _ = run("011", openai_chat, writer)
    assert sent["messages"][-1] is body["messages"][-1]
    assert body["messages"][-1] not in [message for request in writer.given for message in request.messages]


@covers("027")
def test_no_cache_mark_is_copied() -> None:
    """No more marks leave than came."""
    body, sent, _ = run("027", anthropic_messages, Writer())
    assert str(sent).count("'cache_control'") <= min(4, str(body).count("'cache_control'"))


@covers("035")
def test_a_summary_never_ends_the_history_as_an_assistant() -> None:
    """That role is refused at construction; as a user's text the request begins and ends with the user."""
    with pytest.raises(ConfigError, match="summary_role"):
        policy_of(case_of("035"), Writer())
    _, sent, _ = run("035", anthropic_messages, Writer(), summary_role="user")
    assert [sent["messages"][n]["role"] for n in (0, -1)] == ["user", "user"]


@covers("062")
def test_a_picture_is_no_reason_for_a_summary() -> None:
    """Counted by its size in pixels it fits: no call, and the very same body leaves."""
    writer = Writer()
    body, sent, _ = run("062", openai_chat, writer)
    assert sent is body
    assert not writer.given


@covers("118")
def test_every_fact_is_sent_or_was_summarised() -> None:
    """Over two compactions no message vanishes between the summary and the kept ones."""
    writer = Writer()
    state = session(policy_of(case_of("118"), writer))
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"FACT-{n:02} " + "word " * 20} for n in range(19)]
    for length in (13, 19):
        sent, _ = leave(state, openai_chat, {"model": "m", "messages": messages[:length]})
        known = str(sent) + writer.text
        assert all(f"FACT-{n:02}" in known for n in range(length))
    assert len(writer.given) == 2


@covers("148")
def test_a_late_system_message_keeps_its_place() -> None:
    """What stands before it is summarised; it stays between the summary and what came after it."""
    writer = Writer()
    body, sent, _ = run("148", openai_chat, writer)
    (late,) = [message for message in body["messages"] if message["role"] == "system"]
    roles = [message["role"] for message in sent["messages"]]
    assert late in sent["messages"]
    assert writer.given
    assert sent["messages"][-1] is body["messages"][-1] or "They spoke." in str(sent["messages"][-1])
    assert roles.index("system") < len(roles) - 1


@covers("162")
def test_conversations_on_one_client_never_mix() -> None:
    """Fifty at once, in threads and in tasks, with a summariser that echoes: no secret word of another conversation leaves."""
    policy = policy_of(case_of("162"), Writer(lambda request: request.prompt), max_summary_tokens=2000)

    def talk(secret: int) -> list[Any]:
        said = [
            {"role": ("user", "assistant")[n % 2], "content": f"SECRET-{secret:03} " + "word " * 20} for n in range(9)
        ]
        return [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, *said]

    with Provider() as provider:
        with openai.OpenAI(base_url=provider.openai_url, api_key="k") as inner:
            client = compacting(inner, policy)
            work = [
                threading.Thread(target=client.chat.completions.create, kwargs={"model": "m", "messages": talk(n)})
                for n in range(50)
            ]
            for thread in work:
                thread.start()
            for thread in work:
                thread.join()

        async def together() -> None:
            async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k") as outer:
                aclient = compacting(outer, policy)
                calls = (aclient.chat.completions.create(model="m", messages=talk(n)) for n in range(50, 100))
                await asyncio.gather(*calls)

        asyncio.run(together())
        assert len(provider.requests) == 100
        for request in provider.requests:
            words = set(re.findall(r"SECRET-\d{3}", str(request.body)))
            assert len(words) == 1
