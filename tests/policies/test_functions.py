"""Any function as a policy, and policies of one's own: matching, mending, insertions, shortenings, memory, errors."""

import asyncio
import copy
import functools
import json
from dataclasses import dataclass
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI

from compacting_client import (
    Chain,
    ConfigError,
    DropOldest,
    KeepTurns,
    Policy,
    PolicyError,
    compacting,
    control,
    memory,
)
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from compacting_client.lifecycle import exchange
from compacting_client.policies import FunctionPolicy
from compacting_client.session import Session
from compacting_client.settings import Settings
from compacting_client.shell import arun
from tests.driving import found, leave, session, size
from tests.policies.test_drop_oldest import loop, names, talk
from tests.policies.test_keep_turns import says, step, user
from tests.strategies import to_anthropic, to_chat, to_gemini

Message = dict[str, Any]
SHAPES: dict[str, Any] = {
    "chat": (openai_chat, to_chat),
    "anthropic": (anthropic_messages, to_anthropic),
    "gemini": (gemini_contents, to_gemini),
}


def send(function: Any, body: dict[str, Any], wire: Any = openai_chat, **settings: Any) -> tuple[Any, Any]:
    """What leaves under a function."""
    return leave(session(FunctionPolicy(function), **settings), wire, body)


def chat(*messages: Message) -> dict[str, Any]:
    """A body of these."""
    return {"model": "m", "messages": list(messages)}


# ---------------------------------------------------------------------------------------------- what it sees and what leaves


def test_the_last_ones() -> None:
    """A slice: the system prompt is pinned, the caller's own objects leave, and the history opens with a question."""
    body = talk(6)
    sent, report = send(lambda messages: messages[-4:], body)
    assert names(sent) == ["be", "q5", "a5", "last"]
    assert all(any(message is each for each in body["messages"]) for message in sent["messages"])
    assert (report.trigger, report.policy) == ("policy", "<lambda>")
    assert {unit.reason for unit in report.dropped} == {"decided by the policy"}


def test_everything_returned_means_nothing_happens() -> None:
    """The very same object leaves."""
    body = talk(3)
    for function in (
        lambda messages: messages,
        copy.deepcopy,
        lambda messages: messages[1:],
    ):
        sent, report = send(function, body)
        assert sent is body
        assert report.reason == "nothing older"


def test_it_cannot_damage_the_callers_data() -> None:
    """It gets plain copies: what it does to them reaches nobody."""

    def rude(messages: list[Message]) -> list[Message]:
        kept = list(messages)
        messages.clear()
        for message in kept:
            if message.get("tool_calls"):
                message["tool_calls"][0]["function"]["name"] = "hacked"
        return kept[-1:]

    body = loop(3)
    before = copy.deepcopy(body)
    sent, _ = send(rude, body)
    assert body == before
    assert "hacked" not in json.dumps(sent)


def test_it_sees_neutral_messages_on_every_api() -> None:
    """On Anthropic: the system prompt first, each tool result a message, calls as in chat completions."""
    seen: list[Any] = []

    def seeing(given: list[Message]) -> list[Message]:
        seen.extend(given)
        return given

    results = [{"type": "tool_result", "tool_use_id": i, "content": [{"type": "text", "text": f"r{i}"}]} for i in "12"]
    calls = [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in "12"]
    messages = [user("q"), {"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    send(seeing, {"system": "s", "messages": messages}, anthropic_messages)
    assert [(m["role"], m["content"]) for m in seen] == [
        ("system", "s"),
        ("user", "q"),
        ("assistant", None),
        ("tool", "r1"),
        ("tool", "r2"),
    ]
    assert [call["id"] for call in seen[2]["tool_calls"]] == ["1", "2"]
    assert [m["tool_call_id"] for m in seen[3:]] == ["1", "2"]


# ---------------------------------------------------------------------------------------------- matching and mending


def test_half_exchanges_go() -> None:
    """A result without its call, a call without its results, one result of two: the exchange goes whole."""
    messages = [user("q"), *step("1", "2"), says("a"), user("r"), *step("3"), says("b"), user("last")]
    for lost in ([1], [2], [1, 3], [2, 3]):
        sent, _ = send(lambda given, lost=lost: [m for n, m in enumerate(given) if n not in lost], chat(*messages))
        assert [m["content"] for m in sent["messages"]] == ["q", "a", "r", None, "r3", "b", "last"]


def test_pins_come_back() -> None:
    """Systems, the question, the newest exchange and what `pin` selects are there whatever it returns."""
    messages = [{"role": "system", "content": "s"}, user("old"), says("a"), user("q"), *step("1"), *step("2")]
    assert [m["content"] for m in send(lambda _: [], chat(*messages))[0]["messages"]] == ["s", "q", None, "r2"]
    sent, _ = send(lambda _: [], chat(*messages), pin=lambda message: message.get("tool_call_id") == "1")
    assert [m["content"] for m in sent["messages"]] == ["s", "q", None, "r1", None, "r2"]


def test_copies_are_matched_by_call_id_and_by_equality() -> None:
    """Of equal messages the first unused one that keeps the order stays."""
    go = user("continue")
    messages = [go, says("a"), copy.deepcopy(go), *step("1"), says("a"), copy.deepcopy(go)]
    sent, _ = send(lambda given: copy.deepcopy([given[0], given[1], *given[2:5], given[6]]), chat(*messages))
    assert [next(n for n, each in enumerate(messages) if each is m) for m in sent["messages"]] == [0, 1, 2, 3, 4, 6]
    sent, _ = send(lambda given: copy.deepcopy([given[0], given[3], given[4], given[6]]), chat(*messages))
    assert [next(n for n, each in enumerate(messages) if each is m) for m in sent["messages"]] == [0, 3, 4, 6]


def test_reused_ids_are_matched_in_place() -> None:
    """One id for every call: each copy stays with its own exchange."""
    messages = [user("q"), *step("1"), *step("1"), *step("1")]
    messages[2]["content"], messages[4]["content"], messages[6]["content"] = "first", "second", "third"
    sent, _ = send(lambda given: copy.deepcopy([given[0], *given[3:]]), chat(*messages))
    assert [m["content"] for m in sent["messages"] if m["role"] == "tool"] == ["second", "third"]


def test_with_reused_ids_a_shortened_copy_is_never_taken_for_a_shorter_result() -> None:
    """Only the last of three results is long enough to have become this one; its exchange stays, shortened."""
    messages = [user("q"), *step("1"), *step("1"), *step("1"), says("a"), user("r")]
    messages[2]["content"], messages[4]["content"], messages[6]["content"] = "x", "x", "a long result"

    def shortened(given: list[Message]) -> list[Message]:
        return [given[0], given[5], {**given[6], "content": "a long"}, *given[7:]]

    sent, report = send(shortened, chat(*messages))
    assert [m["content"] for m in sent["messages"]] == ["q", None, "a long", "a", "r"]
    assert [each.kind for each in report.replaced] == ["shortened"]
    only_result, _ = send(lambda given: [given[0], {**given[6], "content": "a long"}, given[8]], chat(*messages))
    assert [m["content"] for m in only_result["messages"]] == ["q", "r"]


def test_on_anthropic_the_history_opens_with_a_user_message() -> None:
    """Answers that would stand first go too."""
    body = {**talk(4, system=False), "max_tokens": 9}
    for count in range(1, 9):
        sent, _ = send(lambda messages, count=count: messages[-count:], body, anthropic_messages)
        assert sent["messages"][0]["role"] == "user"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("returned", "says_so"),
    {
        "no list": (tuple, "list"),
        "None": (lambda messages: None, "list"),
        "a text in it": (lambda messages: ["x"], "dicts"),
        "a new system message": (lambda messages: [{"role": "system", "content": "obey"}, *messages], "system"),
        "a changed system message": (lambda messages: [{**messages[0], "content": "x"}, *messages[1:]], "system"),
        "another order": (lambda messages: [messages[0], messages[2], messages[1], *messages[3:]], "order"),
        "a new call": (lambda messages: [step("9")[0], *messages], "assistant"),
        "a new result": (lambda messages: [*messages, step("9")[1]], "tool"),
        "an unknown role": (lambda messages: [{"role": "critic", "content": "x"}, *messages], "critic"),
        "a blank text": (lambda messages: [user(" "), *messages[3:]], "without text"),
        "a picture": (lambda messages: [{"role": "user", "content": [{"type": "image_url"}]}], "without text"),
        "a larger history": (lambda messages: [user("x" * 999), *messages], "more than"),
    }.values(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_sent_is_an_error(shape: str, returned: Any, says_so: str) -> None:
    """With `strict` a PolicyError that says what; else the caller's own body, an event, and the error in the report."""
    wire, to_body = SHAPES[shape]
    body = to_body(talk(3, words=5)["messages"])
    with pytest.raises(PolicyError, match=says_so):
        send(returned, body, wire)
    events: list[Any] = []
    sent, report = send(returned, body, wire, strict=False, on_event=events.append)
    assert sent is body
    assert report.reason == "policy failed: PolicyError"
    assert [event.rules[0] for event in events if event.name == "compaction.rejected"] == ["error"]


EDITORS: dict[str, Any] = {
    "all texts cut": lambda messages: [{**each, "content": each["content"][:3]} for each in messages],
    "a space at the end of all": lambda messages: [{**each, "content": each["content"] + " "} for each in messages],
    "users redacted": lambda messages: [
        {**each, "content": "#"} if each["role"] == "user" else each for each in messages
    ],
    "one answer changed": lambda messages: [
        {**each, "content": "no"} if each["role"] == "assistant" and index == 1 else each
        for index, each in enumerate(messages)
    ],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("editor", EDITORS)
def test_changed_texts_are_an_error_and_no_salad(shape: str, editor: str) -> None:
    """A function that edits what user and assistant said is told so; as inserted text it would all be the user's."""
    wire, to_body = SHAPES[shape]
    body = to_body([{"role": role, "content": f"text {n}"} for n, role in enumerate(("user", "assistant", "user") * 3)])
    with pytest.raises(PolicyError, match="only tool results can be changed"):
        send(EDITORS[editor], body, wire)


def test_a_function_that_raises() -> None:
    """The request goes out as it came; `strict` raises."""
    body = talk(3)

    def broken(_: Any) -> Any:
        raise LookupError("secret text")

    sent, report = send(broken, body, strict=False)
    assert sent is body
    assert report.reason == "policy failed: LookupError"
    with pytest.raises(PolicyError, match="LookupError"):
        send(broken, body)


# ---------------------------------------------------------------------------------------------- shortening


def shorten(messages: list[Message]) -> list[Message]:
    """Cuts every long tool result."""
    return [
        {**m, "content": m["content"][:4] + "…"} if m["role"] == "tool" and len(m["content"]) > 9 else m
        for m in messages
    ]


def shorten_in_place(messages: list[Message]) -> list[Message]:
    """The same on the copies that it was given."""
    for message in messages:
        if message["role"] == "tool" and len(message["content"]) > 9:
            message["content"] = message["content"][:4] + "…"
    return messages


@pytest.mark.parametrize("function", [shorten, shorten_in_place])
def test_a_shortened_result(function: Any) -> None:
    """A copy of the item with the new content leaves, unknown fields included; the account has the tokens before and after."""
    events: list[Any] = []
    body = loop(3)
    body["messages"][3]["x"] = 1
    state = session(FunctionPolicy(function), on_event=events.append)
    sent, report = leave(state, openai_chat, body)
    assert sent["messages"][3] == {**body["messages"][3], "content": "r r …"}
    assert sent["messages"][2] is body["messages"][2]
    assert report.tokens_after == size(sent) < size(body) == report.tokens_before
    assert [(each.kind, each.first) for each in report.replaced] == [
        ("shortened", 3),
        ("shortened", 5),
        ("shortened", 7),
    ]
    assert sum(each.tokens - each.tokens_after for each in report.replaced) == size(body) - size(sent)
    assert report.replaced[0].messages[0]["content"] == body["messages"][3]["content"]
    assert sum(event.name == "content.replaced" for event in events) == 3
    body["messages"] += loop(1)["messages"][2:]
    events.clear()
    again, report = leave(state, openai_chat, body)
    assert again["messages"][: len(sent["messages"])] == sent["messages"]
    assert sum(event.name == "content.replaced" for event in events) == 1, "what was shortened before is not told anew"
    assert report.reused[0].tokens_saved > 0


def test_a_shortened_result_on_anthropic() -> None:
    """One block of two: the other and the question beside it are the caller's own objects."""
    results = [
        {"type": "tool_result", "tool_use_id": i, "content": "long " * n, "is_error": False}
        for i, n in (("1", 1), ("2", 9))
    ]
    calls = [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in "12"]
    blocks = [*results, {"type": "text", "text": "and?"}]
    messages = [user("q"), {"role": "assistant", "content": calls}, {"role": "user", "content": blocks}]
    body = {"model": "claude-sonnet-5", "max_tokens": 9, "messages": messages}
    sent, report = send(shorten, body, anthropic_messages)
    left = sent["messages"][2]["content"]
    assert left[0] is results[0]
    assert left[1] == {**results[1], "content": "long…"}
    assert left[2] is blocks[2]
    assert report.tokens_after == size(sent)


def test_a_result_that_grew_is_refused() -> None:
    """A tool result may only become shorter."""
    with pytest.raises(PolicyError, match="larger"):
        send(lambda messages: [*messages[:-1], {**messages[-1], "content": "x" * 999}], loop(2))


# ---------------------------------------------------------------------------------------------- insertion


def note(messages: list[Message]) -> list[Message]:
    """Replaces what is old by one line, once there is much of it."""
    if len(messages) < 8:
        return messages
    return [user("In short: much was said."), *messages[-3:]]


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_an_inserted_text_stands_before_the_question_that_follows(role: str) -> None:
    """It extends that item, so that turns still alternate, and leaves with role user, whatever its role says."""
    body = talk(6)
    sent, report = send(lambda messages: [{"role": role, "content": "In short."}, *messages[-3:]], body)
    assert [m["role"] for m in sent["messages"]] == ["system", "user", "assistant", "user"]
    assert sent["messages"][1]["content"] == "In short.\n\n" + body["messages"][-3]["content"]
    assert [each.kind for each in report.replaced] == ["extended"]
    assert report.tokens_after == size(sent)
    assert not found("openai-chat", sent, body, flavor="template")


def test_an_inserted_text_inside_or_behind_a_tool_loop_goes_to_the_question() -> None:
    """Never inside an exchange, and never behind the newest one: at the end of the question's item."""
    body = loop(4)
    for place in range(2, 8):
        sent, _ = send(
            lambda given, place=place: (
                [*given[:2], *given[4:place], user("Note."), *given[max(4, place) :]]
                if place > 4
                else [*given[:2], user("Note."), *given[4:]]
            ),
            body,
        )
        assert sent["messages"][1]["content"] == "the task\n\nNote."
        assert sent["messages"][2:] == body["messages"][4:]


def test_an_inserted_text_with_no_question_near_opens_the_history() -> None:
    """Where only answers follow, an own user item stands in front; what follows it may be an answer, on Anthropic too."""
    body = {**talk(4, system=False), "max_tokens": 9, "model": "claude-sonnet-5"}
    sent, report = send(lambda messages: [user("In short."), *messages[-4:]], body, anthropic_messages)
    assert [m["role"] for m in sent["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert sent["messages"][0] == {"role": "user", "content": [{"type": "text", "text": "In short."}]}
    assert [each.kind for each in report.replaced] == ["inserted"]
    assert report.messages_before - report.messages_after == 4
    assert report.tokens_after == size(sent)
    assert not found("anthropic-messages", sent, body)


def test_on_anthropic_an_extended_item_keeps_its_blocks() -> None:
    """The caller's blocks are its own objects, cache marks included."""
    block = {"type": "text", "text": "and now?", "cache_control": {"type": "ephemeral"}}
    body: dict[str, Any] = {**talk(4, system=False), "max_tokens": 9, "model": "claude-sonnet-5"}
    body["messages"][-1] = {"role": "user", "content": [block]}
    sent, _ = send(lambda messages: [user("In short."), messages[-1]], body, anthropic_messages)
    assert sent["messages"] == [{"role": "user", "content": [{"type": "text", "text": "In short."}, block]}]
    assert sent["messages"][0]["content"][1] is block


def test_an_inserted_text_is_remembered_byte_for_byte() -> None:
    """While the history grows the sent prefix is the same; the function sees its text as a message that it may keep or drop."""
    state, whole, before, changes = session(FunctionPolicy(note)), talk(12)["messages"], list[Any](), 0
    for n in range(2, len(whole) + 1, 2):
        sent, report = leave(state, openai_chat, {"model": "m", "messages": whole[:n]})
        assert report.tokens_after == size(sent)
        if report.trigger:
            changes += 1
            assert str(sent).count("In short: much was said.") == 1
        else:
            assert sent["messages"][: len(before)] == before
        before = copy.deepcopy(sent["messages"])
    assert 2 <= changes < 7


def test_with_the_callers_counter_the_account_is_true() -> None:
    """Inserted and shortened content is counted by it too."""

    def counter(message: Message) -> int:
        return len(json.dumps(message))

    body = loop(6)
    state = session(FunctionPolicy(lambda given: [*given[:2], user("Note."), *shorten(given[6:])]), counter=counter)
    sent, report = leave(state, openai_chat, body)
    assert report.tokens_after == sum(
        counter(message) for item in sent["messages"] for message in openai_chat.read(sent).reader.neutral(item)
    )


def test_signed_thinking_behind_a_change_goes_where_it_binds() -> None:
    """A shortened result changes what thinking after it is bound to."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    messages: list[Message] = [user("q")]
    for n in "123":
        call = {"type": "tool_use", "id": n, "name": "f", "input": {}}
        result = {"type": "tool_result", "tool_use_id": n, "content": "long " * 9}
        messages += [{"role": "assistant", "content": [thought, call]}, {"role": "user", "content": [result]}]
    messages += [says("done"), user("next")]
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": messages}
    sent, _ = send(shorten, body, anthropic_messages)
    assert [str(m).count("signature") for m in sent["messages"]] == [0, 1, 0, 0, 0, 0, 0, 0, 0]


def test_a_reused_shortening_is_told_with_its_tool_where_the_function_was_not_asked() -> None:
    """In an open loop of bound thinking nothing new is decided; the report of what is reused can be read all the same."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    result = {"type": "tool_result", "tool_use_id": "1", "content": "long " * 9}
    asks = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}
    messages: list[Message] = [user("q"), asks, {"role": "user", "content": [result]}, says("done"), user("next")]
    body: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 9, "thinking": {"type": "enabled"}}
    state = session(FunctionPolicy(shorten))
    leave(state, anthropic_messages, {**body, "messages": messages})
    open_call = {"type": "tool_use", "id": "2", "name": "g", "input": {}}
    messages += [
        {"role": "assistant", "content": [thought, open_call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "2", "content": "now"}]},
    ]
    _, report = leave(state, anthropic_messages, {**body, "messages": messages})
    assert report.trigger is None
    assert [(each.kind, each.messages[0]["name"]) for each in report.replaced] == [("shortened", "f")]


# ---------------------------------------------------------------------------------------------- memory


def test_it_is_asked_on_what_is_left() -> None:
    """On every request, with what the remembered cut leaves; unchanged means reused."""
    seen: list[int] = []

    def recent(messages: list[Message]) -> list[Message]:
        seen.append(len(messages))
        return messages if len(messages) < 8 else messages[-3:]

    state, whole = session(FunctionPolicy(recent)), talk(12)["messages"]
    for n in range(2, len(whole) + 1, 2):
        leave(state, openai_chat, {"model": "m", "messages": whole[:n]})
    assert seen == [2, 4, 6, 8, 6, 8, 6, 8, 6, 8, 6, 8, 6][: len(seen)]


def test_another_function_does_not_use_its_decisions() -> None:
    """Decisions belong to the very function object: the same name is not enough, and an address may be given again."""
    store, reused = memory.InProcess(), list[bool]()
    for n in (3, 3, 5):
        newest: Any = lambda messages, n=n: messages[-n:]  # noqa: E731 - one line, several functions
        state = session(FunctionPolicy(newest), memory=store)
        reused.append(bool(leave(state, openai_chat, talk(6))[1].reused))
    assert reused == [False, False, False]

    def same(messages: list[Message]) -> list[Message]:
        return messages[-3:]

    for expected in (False, True):
        state = session(FunctionPolicy(same), memory=store)
        assert bool(leave(state, openai_chat, talk(6))[1].reused) == expected


# ---------------------------------------------------------------------------------------------- async, classes


async def asend(policy: Policy, body: dict[str, Any]) -> Any:
    """What leaves on an async client."""
    state, sent = Session(Settings(policy=policy, is_async=True, memory=memory.InProcess(), strict=True)), list[Any]()

    async def provider(leaving: Any) -> None:
        sent.append(leaving)

    async def deliver(*_: Any) -> None:
        pass

    await arun(exchange(state, openai_chat, body), state, provider, deliver)
    return sent[-1]


async def arecent(messages: list[Message]) -> list[Message]:
    """Async, and keeps three."""
    await asyncio.sleep(0)
    return messages[-3:]


def calling(function: Any, messages: list[Message]) -> Any:
    """Looks like a plain function."""
    return function(messages)


@dataclass(frozen=True)
class Recent(Policy):
    """A policy of one's own."""

    count: int = 3

    def trim(self, messages: list[Message]) -> list[Message]:
        """The last ones."""
        return messages[-self.count :]


class ARecent(Policy):
    """An async one."""

    async def atrim(self, messages: list[Message]) -> list[Message]:
        """The last ones."""
        return await arecent(messages)


@pytest.mark.parametrize("policy", [FunctionPolicy(arecent), ARecent(), Recent(), Chain(DropOldest(9999), arecent)])
async def test_on_async_clients_both_kinds_work(policy: Policy) -> None:
    """Async functions are awaited, plain ones called."""
    assert names(await asend(policy, talk(6))) == ["be", "q5", "a5", "last"]


def test_async_on_a_sync_client_is_refused_when_wrapping() -> None:
    """Also inside a chain, through `using` and through `with_policy`; on an async client it is welcome."""
    with OpenAI(api_key="x") as client:
        for policy in (arecent, ARecent(), Chain(KeepTurns(3), arecent)):
            with pytest.raises(ConfigError, match="async"):
                compacting(client, policy)
            with pytest.raises(ConfigError, match="async"):
                control(compacting(client, 9)).using(policy)
            with pytest.raises(ConfigError, match="async"):
                control(compacting(client, 9)).with_policy(policy)
        assert control(compacting(client, lambda messages: messages[-20:])).policy
    assert control(compacting(AsyncOpenAI(api_key="x"), arecent)).policy


def test_a_plain_function_that_returns_something_to_await_is_an_error_on_a_sync_client() -> None:
    """What cannot be seen when wrapping is said when it happens."""
    with pytest.raises(PolicyError, match="await"):
        send(functools.partial(calling, arecent), talk(3))


def test_a_policy_of_ones_own() -> None:
    """`trim` is mended like a function; its settings tell its decisions apart."""
    store, body = memory.InProcess(), talk(6)
    sent, report = leave(session(Recent(), memory=store), openai_chat, body)
    assert names(sent) == ["be", "q5", "a5", "last"]
    assert report.policy == "Recent"
    assert leave(session(Recent(3), memory=store), openai_chat, body)[1].reused
    assert not leave(session(Recent(2), memory=store), openai_chat, body)[1].reused


def test_a_class_with_both_methods_or_neither_is_refused() -> None:
    """The error names the class."""

    class Neither(Policy):
        pass

    class Both(Recent):
        async def atrim(self, messages: list[Message]) -> list[Message]:
            return messages

    for kind in (Neither, Both, Policy):
        with pytest.raises(ConfigError, match=kind.__name__):
            kind()
    with pytest.raises(ConfigError, match="policy"):
        compacting(OpenAI(api_key="x"), Recent)  # type: ignore[arg-type]
