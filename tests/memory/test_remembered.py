"""The remembered cut (DESIGN 4): what a conversation is recognised by, and what it is not."""

import copy
from typing import Any

import pytest

from compacting_client import ConfigError, DropOldest, memory
from compacting_client.core.prefix import Entry, Gap
from compacting_client.formats import anthropic_messages, openai_chat
from tests.driving import leave, session
from tests.policies.test_drop_oldest import loop, talk

BUDGET = 400


def remembered(change: Any, body: dict | None = None, wire: Any = openai_chat, **settings: Any) -> bool:
    """Whether a cut made for a chat still holds after `change(body)`, with one more turn appended."""
    body = body or talk(12)
    state = session(DropOldest(BUDGET), **settings)
    _, first = leave(state, wire, body)
    assert first.trigger == "tokens"
    later = copy.deepcopy(body)
    later["messages"] += [{"role": "assistant", "content": "fine"}, {"role": "user", "content": "more"}]
    _, report = leave(state, wire, change(later) or later)
    return bool(report.reused)


def tool_talk() -> dict[str, Any]:
    """A chat whose oldest turn has a tool call."""
    body = talk(10)
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1, "b": 2}'}}
    body["messages"][2:2] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
    ]
    return body


def edit(index: int, **fields: Any) -> Any:
    """A change of one message's fields."""
    return lambda body: body["messages"][index].update(fields)


@pytest.mark.parametrize(
    "change",
    {
        "nothing": lambda body: None,
        "a clock in the system prompt": edit(0, content="it is 12:01"),
        "no system prompt": lambda body: body["messages"].pop(0) and None,
        "another system message": lambda body: body["messages"].insert(0, {"role": "developer", "content": "now"}),
        "tools": lambda body: body.update(tools=[{"type": "function", "function": {"name": "g"}}]),
        "null and empty fields": edit(1, name=None, tool_calls=[]),
        "an item id and a status": edit(2, id="msg_1", status="completed"),
        "text as a block with a cache mark": lambda body: body["messages"][1].update(
            content=[{"type": "text", "text": body["messages"][1]["content"], "cache_control": {"type": "ephemeral"}}]
        ),
        "key order": lambda body: {**body, "messages": [dict(reversed(m.items())) for m in body["messages"]]},
    }.items(),
    ids=lambda item: item[0],
)
def test_recognised_by_meaning(change: tuple[str, Any]) -> None:
    """What says the same is the same conversation."""
    assert remembered(change[1])


@pytest.mark.parametrize(
    "change",
    {
        "an edited question": edit(1, content="other"),
        "an edited answer": edit(2, content="other"),
        "another role": edit(2, role="user"),
        "a fork": lambda body: body["messages"].pop(3) and None,
    }.items(),
    ids=lambda item: item[0],
)
def test_an_edit_of_the_old_part_is_another_conversation(change: tuple[str, Any]) -> None:
    """An edit or a fork before the cut decides anew."""
    assert not remembered(change[1])


def _rename_call(body: dict) -> None:
    body["messages"][2]["tool_calls"][0]["id"] = body["messages"][3]["tool_call_id"] = "call_other"


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (_rename_call, True),
        (lambda body: body["messages"][2]["tool_calls"][0]["function"].update(arguments='{"b":2,"a":1}'), True),
        (lambda body: body["messages"][3].update(name="f"), True),
        (lambda body: body["messages"][2]["tool_calls"][0]["function"].update(arguments='{"a": 1}'), False),
        (lambda body: body["messages"][2]["tool_calls"][0]["function"].update(name="g"), False),
        (lambda body: body["messages"][3].update(content="other"), False),
    ],
    ids=["call ids", "argument order", "tool name on the result", "arguments", "tool", "result"],
)
def test_tool_calls_by_what_they_say(change: Any, same: bool) -> None:
    """Ids count only as pairing, arguments as JSON, results by their text."""
    assert remembered(change, tool_talk()) == same


def test_edits_behind_the_cut_change_nothing() -> None:
    """The kept part may be edited or regenerated; the cut before it holds."""
    assert remembered(edit(-3, content="said otherwise"))


def test_a_moving_cache_mark_on_anthropic() -> None:
    """An application that moves its cache mark along turns strings into blocks and back; the cut holds."""

    def mark(body: dict) -> None:
        message = body["messages"][1]
        message["content"] = [{"type": "text", "text": message["content"], "cache_control": {"type": "ephemeral"}}]

    assert remembered(mark, {**talk(12, system=False), "max_tokens": 9, "system": "s"}, anthropic_messages)


def test_memory_key_recognises_what_changes() -> None:
    """With `memory_key`, text that changes on every request does not hide a conversation, and its own changes do."""
    stamp = edit(1, content="q0 at 12:02 " + "w " * 30)
    assert not remembered(stamp)
    assert remembered(stamp, memory_key=lambda message: str(message["content"])[:2])
    assert not remembered(edit(1, content="other"), memory_key=lambda message: str(message["content"])[:2])


def test_a_pin_on_what_was_dropped_decides_anew() -> None:
    """The pinned message is back in the request."""
    wanted: list[str] = []
    state = session(DropOldest(BUDGET), pin=lambda message: any(word in str(message["content"]) for word in wanted))
    body = talk(12)
    assert "q1 " not in str(leave(state, openai_chat, body)[0])
    wanted.append("q1 ")
    sent, report = leave(state, openai_chat, body)
    assert "q1 " in str(sent)
    assert not report.reused


def test_another_policy_does_not_use_it() -> None:
    """A decision belongs to the policy and settings that made it."""
    store = memory.InProcess()
    leave(session(DropOldest(BUDGET), memory=store), openai_chat, talk(12))
    _, report = leave(session(DropOldest(BUDGET, keep_head=2), memory=store), openai_chat, talk(12))
    assert not report.reused


def test_what_is_gone_says_since_when() -> None:
    """`since` counts requests: 0 when it goes, then 1, 2, …; a later cut adds its own with 0."""
    state = session(DropOldest(BUDGET))
    body = talk(12)
    for expected in range(3):
        _, report = leave(state, openai_chat, body)
        assert {unit.since for unit in report.dropped} == {expected}
    body["messages"] += talk(10)["messages"][1:]
    _, report = leave(state, openai_chat, body)
    assert report.trigger == "tokens"
    assert {unit.since for unit in report.dropped} == {0, 3}
    assert [event.age for event in report.reused] == [3]


def test_a_late_result_of_a_dropped_call_ends_the_entry() -> None:
    """A result that arrives for a call that is gone is never sent alone."""
    body = loop(12)
    body["messages"].insert(
        3,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "late", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
    )
    body["messages"].insert(2, body["messages"].pop(3))
    state = session(DropOldest(200))
    leave(state, openai_chat, body)
    body["messages"].append({"role": "tool", "tool_call_id": "late", "content": "here"})
    sent, _ = leave(state, openai_chat, body)
    asked = [call["id"] for m in sent["messages"] for call in m.get("tool_calls") or ()]
    assert ("late" in asked) == any(m.get("tool_call_id") == "late" for m in sent["messages"])


def test_a_refused_request_stores_nothing() -> None:
    """Only what the provider accepted is remembered."""

    def refuse(_: Any) -> None:
        raise RuntimeError("500")

    store = memory.InProcess()
    state = session(DropOldest(BUDGET), memory=store)
    with pytest.raises(RuntimeError):
        leave(state, openai_chat, talk(12), refuse)
    assert len(store) == 0


def entry(number: int) -> Entry:
    """Some entry."""
    return Entry(number, str(number), (Gap(0, number),), number, "", "p")


def test_the_entries_used_last_are_kept() -> None:
    """256 entries for one opening, the one used last first; the conversation used least recently goes."""
    store = memory.InProcess(max_conversations=2)
    for number in range(264):
        store.remember("a", entry(number))
    assert [found.length for found, _ in store.recall("a")] == list(range(263, 7, -1))
    store.reuse("a", entry(8))
    assert store.recall("a")[0] == (entry(8), 1)
    store.remember("a", entry(500), entry(8))
    assert [found.length for found, _ in store.recall("a")][:2] == [500, 263]
    assert len(store.recall("a")) == 256
    store.remember("b", entry(1))
    store.recall("a")
    store.remember("c", entry(1))
    assert store.recall("b") == []
    assert store.recall("a")
    store.forget("a")
    assert store.recall("a") == []
    store.forget()
    assert len(store) == 0


def test_all_entries_together_are_bounded() -> None:
    """Ten for each conversation on average, whichever openings they have; of all of them the one used longest ago goes."""
    store = memory.InProcess(max_conversations=50)
    store.remember("old", entry(0))
    store.remember("old", entry(1))
    for number in range(249):
        for key in "ab":
            store.remember(key, entry(number))
    store.reuse("old", entry(0))
    store.remember("c", entry(0))
    assert store.recall("old") == [(entry(0), 1)]
    for number in range(200):
        store.remember("c", entry(number))
        assert sum(len(store.recall(key)) for key in ("old", *"abc")) == 500
    lengths = {key: [found.length for found, _ in store.recall(key)] for key in ("old", *"abc")}
    assert lengths == {"old": [0], "a": [*range(248, 99, -1)], "b": [*range(248, 98, -1)], "c": [*range(199, -1, -1)]}
    for number in range(300):
        store.remember(f"d{number}", entry(number))
    assert len(store) == 50
    assert store.recall("old") == []


def test_what_is_forgotten_or_replaced_takes_no_place() -> None:
    """Entries that went count no more: those that stay are not pushed out by them."""
    store = memory.InProcess(max_conversations=30)
    store.remember("a", entry(0))
    for number in range(1, 400):
        store.remember("b", entry(number), entry(number - 1))
    for number in range(400):
        store.remember("c", entry(number % 200))
        if number == 199:
            store.forget("c")
    assert store.recall("a") == [(entry(0), 0)]
    assert len(store.recall("c")) == 200
    store.forget()
    for number in range(256):
        store.remember("a", entry(number))
    assert len(store.recall("a")) == 256


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "9", None])
def test_a_wrong_limit_is_refused(value: Any) -> None:
    """The error names the field."""
    with pytest.raises(ConfigError, match="max_conversations"):
        memory.InProcess(value)


class Down:
    """A store that cannot be reached."""

    blocking = False

    def recall(self, *asked: Any) -> Any:
        """Fails."""
        raise ConnectionError(asked)

    remember = reuse = forget = recall


@pytest.mark.parametrize("half", [False, True])
def test_a_store_that_is_down_costs_an_event(half: bool) -> None:
    """Whether it fails at reading or only at writing: the request goes out compacted, and `compaction.rejected` says what failed."""
    store: Any = Down()
    if half:
        store.recall = lambda key: []
    events: list[Any] = []
    _, report = leave(session(DropOldest(BUDGET), memory=store, on_event=events.append), openai_chat, talk(12))
    assert report.changed
    failed = [event for event in events if event.name == "compaction.rejected"]
    expected = ["nothing remembered"] if half else ["decided without memory", "nothing remembered"]
    assert [event.instead for event in failed] == expected
    assert all(event.rules == ("memory", "ConnectionError") for event in failed)


def test_conversations_with_one_opening_do_not_push_each_other_out() -> None:
    """Twenty chats that all begin with "Hi" and the same greeting keep their own cuts, each of which moves seldom."""
    state, cuts, requests = session(DropOldest(BUDGET)), 0, 0
    for turn in range(2, 14):
        for number in range(20):
            body = talk(turn, system=False)
            body["messages"][:2] = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]
            body["messages"][2]["content"] += f" of chat {number}"
            _, report = leave(state, openai_chat, body)
            cuts += report.trigger is not None
            requests += 1
    assert cuts < requests / 4


def test_a_branch_keeps_its_own_cut() -> None:
    """Another branch of the same old part, cut further, does not move this one's cut."""
    state = session(DropOldest(1000))

    def branch(words: str, size: int) -> dict[str, Any]:
        body = talk(12, words=110)
        body["messages"][-1:] = [
            {"role": "user", "content": words + " w" * size},
            {"role": "assistant", "content": "ok"},
        ]
        return {**body, "messages": [*body["messages"], {"role": "user", "content": "and?"}]}

    first, _ = leave(state, openai_chat, branch("one", 20))
    leave(state, openai_chat, branch("two", 900))
    longer = branch("one", 20)
    longer["messages"] += [{"role": "assistant", "content": "so"}, {"role": "user", "content": "more"}]
    sent, report = leave(state, openai_chat, longer)
    assert sent["messages"][: len(first["messages"])] == first["messages"]
    assert [event.age for event in report.reused] == [1]


def test_a_pin_tells_again_only_what_is_new() -> None:
    """When a pin brings something back, the other units that stay out are no news."""
    wanted: list[str] = []
    events: list[Any] = []
    pin = lambda message: any(word in str(message["content"]) for word in wanted)  # noqa: E731
    state = session(DropOldest(BUDGET), pin=pin, on_drop=events.append)
    leave(state, openai_chat, talk(12))
    told = len(events)
    wanted.append("q1 ")
    _, report = leave(state, openai_chat, talk(12))
    assert len(events) - told < 3
    assert {unit.since for unit in report.dropped} == {1} | ({0} if len(events) > told else set())
