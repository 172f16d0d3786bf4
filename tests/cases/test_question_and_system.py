"""What must never go: the current question, the system messages, a beginning and an end that the provider takes."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from compacting_client import BudgetError, DropOldest, control
from compacting_client.testing import Provider
from tests.cases.bench import APIS, CHAT, CLAUDE, OLDER, TARGETS, Body, Line, case, covers, drop_oldest, method
from tests.cases.neighbours import SINCE_SYSTEMS, body_of, earlier, later, to_claude, turn
from tests.cases.sound import assert_fits_if_it_can, assert_sound, calls_of, question_of, whole

MakeLine = Callable[..., Line]
Sweep = Callable[[int], range]
each_api = pytest.mark.parametrize("api", APIS)
each_target = pytest.mark.parametrize("target", TARGETS)


def loop(length: int, api: str, words: int = 40) -> Body:
    """One question and a tool loop of so many steps that still runs."""
    messages: list[Body] = [{"role": "system", "content": "You review."}, {"role": "user", "content": "Review it."}]
    for step in range(length):
        function = {"name": "get", "arguments": json.dumps({"n": step})}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"q{step}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"q{step}", "content": "diff line " * words},
        ]
    body = {"model": "gpt-4o-mini", "messages": messages}
    return body if api == CHAT else to_claude(body)


@covers("010", "116")
@each_target
@each_api
@pytest.mark.parametrize("id_", ["010", "116"])
def test_a_long_loop_loses_its_oldest_steps_and_never_its_question(
    id_: str, api: str, target: float, line: MakeLine, sweep: Sweep
) -> None:
    """The question stays verbatim, the newest call with its result too; between them the oldest pairs go first."""
    policy = {**case(id_)["policy"], "keep_head": 0}
    for body in (body_of(id_, api), earlier(body_of(id_, api))):
        for budget in (policy["max_tokens"], *sweep(int(line(api, 1).size(body)))):
            trip = line(api, drop_oldest({**policy, "max_tokens": budget}, target)).send(body)
            assert_sound(trip)
            assert trip.report.dropped
            question = question_of(body)
            assert question in trip.kept
            loops = [index for index in range(len(body["messages"])) if index > (question or 0)]
            there = [index for index in trip.kept if index > (question or 0)]
            assert there
            assert there == loops[-len(there) :], "not the oldest went first"
            assert whole(body["messages"], set(there)) == set(there)


@covers("116", "010")
@each_api
@pytest.mark.parametrize("length", [1, 2, 3, 12, 40])
def test_a_loop_of_any_length_is_trimmed(length: int, api: str, line: MakeLine) -> None:
    """One prompt and only tool exchanges after it: there is always a valid cut, down to the newest pair."""
    body = loop(length, api)
    size = line(api, 1).size(body)
    for share in (0.1, 0.5, 0.9):
        trip = line(api, DropOldest(max(1, int(size * share)))).send(body)
        assert_sound(trip)
        assert_fits_if_it_can(trip)
        assert trip.report.changed == (length > 1)
        assert {question_of(body), len(body["messages"]) - 1} <= set(trip.kept)


@covers("010", "011")
@each_target
@each_api
def test_the_newest_exchange_stays_behind_an_answer_that_was_begun(api: str, target: float, line: MakeLine) -> None:
    """Where the application lets the model go on with its own text, the exchange before it is still the newest."""
    body = loop(4, api)
    body = {**body, "messages": [*body["messages"], {"role": "assistant", "content": "So far:"}]}
    for budget in (500, 300, 1):
        trip = line(api, DropOldest(budget, keep_head=0, keep_tail=0, target=target)).send(body)
        assert_sound(trip)
        assert trip.kept[-3:] == [len(body["messages"]) - n for n in (3, 2, 1)]


@covers("011")
@each_target
@each_api
def test_the_newest_user_message_is_never_handed_over(api: str, target: float, line: MakeLine) -> None:
    """The last message sent is the last one passed in, and what the callbacks archive never holds it."""
    body = body_of("011", api)
    for messages in (body["messages"], later(body)["messages"], earlier(body)["messages"]):
        for budget in (20, 5, 1):
            trip = line(api, DropOldest(budget, keep_head=0, keep_tail=0, target=target)).send(
                {**body, "messages": messages}
            )
            assert_sound(trip)
            assert trip.messages[-1] == messages[-1]
            gone = [each for event in trip.events.named("content.dropped") for each in event.messages]
            assert messages[-1]["content"] not in [each["content"] for each in gone]


@covers("010", "011")
@each_api
@pytest.mark.parametrize(
    "question",
    [
        [{"role": "user", "content": ""}, {"role": "user", "content": "Really."}],
        [{"role": "user", "content": "First part."}, {"role": "user", "content": "Second part."}],
        [{"role": "user", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]}],
        [{"role": "user", "content": "Go.", "name": "ines"}],
    ],
    ids=["after an empty one", "in two messages", "in two parts", "with a name"],
)
def test_the_last_real_user_message_stays_in_any_form(question: list[Body], api: str, line: MakeLine) -> None:
    """However it is written, and whatever tool results come after it."""
    ends = loop(3, CHAT)["messages"][2:]
    chat: Body = {"model": "gpt-4o-mini", "messages": [*turn("Old. " * 40, "Older?")[::-1], *question, *ends]}
    if api == CLAUDE:
        chat["messages"] = [m for m in chat["messages"] if m["content"] != ""]
    body = chat if api == CHAT else to_claude(chat)
    for budget in (300, 100, 1):
        trip = line(api, DropOldest(budget, keep_head=0, keep_tail=0)).send(body)
        assert_sound(trip)
        assert question_of(body) in trip.kept


GIANTS: dict[str, Body] = {
    "result": {"messages": [*loop(1, CHAT, 3000)["messages"]]},
    "older result": {"messages": [*loop(1, CHAT, 3000)["messages"], *loop(1, CHAT)["messages"][2:]]},
    "question": {"messages": [{"role": "user", "content": "paragraph " * 4000}]},
    "system": {"messages": [{"role": "system", "content": "rule " * 4000}, *turn("Ok.", "Go on.")[::-1]]},
    "tools": {
        "messages": [{"role": "user", "content": "Go."}],
        "tools": [
            {
                "type": "function",
                "function": {"name": f"t{n}", "parameters": {"type": "object", "description": "x" * 900}},
            }
            for n in range(20)
        ],
    },
}


@covers("005", "006", "125")
@each_target
@each_api
@pytest.mark.parametrize("giant", GIANTS)
def test_a_budget_out_of_reach_costs_one_request_and_is_said(
    giant: str, api: str, target: float, line: MakeLine
) -> None:
    """One request a call, however often it is made; the report says what fits; never an empty list of messages."""
    chat: Body = {"model": "gpt-4o-mini", **copy.deepcopy(GIANTS[giant])}
    body = chat if api == CHAT else to_claude(chat)
    reachable = giant == "older result"
    wrapped = line(api, DropOldest(400, target=target, keep_tail=1))
    sent = []
    for _ in range(3):
        trip = wrapped.send(body)
        assert_sound(trip)
        assert trip.report.fits == reachable
        sent.append(trip.messages)
    assert sent[0]
    assert sent[0] == sent[1] == sent[2]
    trip = wrapped.send({**body, "messages": [*body["messages"], *turn("I see.", "And now?")]})
    assert_sound(trip)


@covers("005", "006", "125")
@each_api
@pytest.mark.parametrize("giant", ["result", "question", "system", "tools"])
def test_the_configured_error_comes_before_any_request(
    giant: str, api: str, line: MakeLine, provider: Provider
) -> None:
    """`on_unfit="raise"`: nothing is sent, and the error carries the report."""
    chat: Body = {"model": "gpt-4o-mini", **copy.deepcopy(GIANTS[giant])}
    body = chat if api == CHAT else to_claude(chat)
    wrapped, known = line(api, 400, on_unfit="raise"), len(provider.requests)
    with pytest.raises(BudgetError) as caught:
        method(wrapped.client(), api)(**body)
    assert len(provider.requests) == known
    assert caught.value.report is control(wrapped.client()).last_report
    assert caught.value.report.tokens_after > 400


@covers("014", "035")
@each_target
@each_api
@pytest.mark.parametrize("id_", ["014", "035"])
def test_a_body_that_begins_and_ends_with_the_user_still_does(
    id_: str, api: str, target: float, line: MakeLine, sweep: Sweep
) -> None:
    """At Anthropic whatever the cut leaves; at the default target everywhere."""
    body = body_of(id_, api)
    size = int(line(api, 1).size(body))
    for placed in (body, later(body), earlier(body)):
        for budget in sweep(size):
            for tail in (0, 1, 2, 4):
                trip = line(api, DropOldest(budget, keep_head=0, keep_tail=tail, target=target)).send(placed)
                assert_sound(trip)
                roles = [message["role"] for message in trip.messages]
                assert roles[-1] == "user"
                assert roles[0] == "user" or (api == CHAT and target == 1.0)


@covers("014")
@each_target
def test_the_answer_goes_with_its_question_where_the_case_says_so(target: float, line: MakeLine) -> None:
    """Case 014 leaves [2, 3, 4] or [4]."""
    trip = line(CLAUDE, drop_oldest(case("014")["policy"], target)).send(body_of("014", CLAUDE))
    assert_sound(trip)
    assert trip.kept in ([2, 3, 4], [4])


@covers("035", "042")
@each_api
def test_what_does_not_help_is_not_dropped(api: str, line: MakeLine) -> None:
    """The head holds a question, so its large answer can only go alone: then the small turn after it need not go."""
    texts = ("a", "word " * 200, "b", "c", "d")
    messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    trip = line(api, DropOldest(100)).send({"model": OLDER, "max_tokens": 9, "messages": messages})
    assert_sound(trip)
    assert trip.kept == [0, 2, 3, 4]


SYSTEMS: dict[str, list[Body]] = {
    "developer": [{"role": "developer", "content": "Answer in Welsh only."}],
    "two": [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Answer in Welsh."}],
    "parts": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Welsh."}]}
    ],
}


@covers("066")
@each_target
@pytest.mark.parametrize("systems", SYSTEMS)
def test_system_and_developer_messages_stay_first_and_unchanged(systems: str, target: float, line: MakeLine) -> None:
    """One, two or in parts; whatever `keep_head` says; then at least the last question."""
    rest = body_of("066", CHAT)["messages"][1:]
    body: Body = {"model": "gpt-4o-mini", "messages": [*SYSTEMS[systems], *rest]}
    for head in (0, 1, 3):
        for budget in (1, 20, 40):
            trip = line(CHAT, DropOldest(budget, keep_head=head, keep_tail=1, target=target)).send(body)
            assert_sound(trip)
            assert trip.messages[: len(SYSTEMS[systems])] == SYSTEMS[systems]
            assert budget != 1 or head or trip.messages == [*SYSTEMS[systems], rest[-1]]


@covers("066")
@each_target
@pytest.mark.parametrize(
    "system", ["Answer in Welsh.", [{"type": "text", "text": "Welsh.", "cache_control": {"type": "ephemeral"}}]]
)
def test_the_system_field_is_counted_and_left_alone(system: Any, target: float, line: MakeLine) -> None:
    """Anthropic's prompt stands outside the messages: it leaves as it is, and the budget counts it."""
    body = {**body_of("066", CLAUDE), "system": system}
    trip = line(CLAUDE, DropOldest(1, target=target, keep_tail=1)).send(body)
    assert_sound(trip)
    assert trip.left["system"] == system
    assert trip.report.tokens_overhead > 0
    assert len(trip.messages) == 1


@covers("136")
@each_api
def test_no_exchange_stays_without_the_question_it_answers(api: str, line: MakeLine, sweep: Sweep) -> None:
    """At the default target turns are cut as turns: an answer or a call is there only if its question is."""
    for body in (body_of("136", api), later(body_of("136", api)), earlier(body_of("136", api))):
        messages = body["messages"]
        size = int(line(api, 1).size(body))
        questions = [
            i for i, m in enumerate(messages) if m["role"] == "user" and not str(m["content"]).count("tool_result")
        ]
        for budget in sweep(size):
            for head, tail in ((1, 0), (1, 1), (1, 4), (3, 1), (5, 1)):
                trip = line(api, DropOldest(budget, keep_head=head, keep_tail=tail)).send(body)
                assert_sound(trip)
                assert_fits_if_it_can(trip)
                for index in trip.kept:
                    asked = max((each for each in questions if each <= index), default=None)
                    assert asked is None or asked in trip.kept or messages[index]["role"] == "system"


@covers("148")
@each_target
@each_api
def test_a_system_message_in_the_middle_keeps_its_place(api: str, target: float, line: MakeLine) -> None:
    """It is no head and no obstacle: what stands before it goes, and it stays where it was in time."""
    body = body_of("148", api)
    assert api == CHAT or body["model"] == SINCE_SYSTEMS
    for placed in (body, later(body), earlier(body), later(later(body))):
        for budget in (200, 80, 30, 1):
            trip = line(api, DropOldest(budget, keep_head=0, keep_tail=1, target=target)).send(placed)
            assert_sound(trip)
            assert trip.report.changed
            assert sum(message["role"] == "system" for message in trip.messages) == 1
            assert budget != 1 or 0 not in trip.kept


@covers("161")
@each_target
@each_api
@pytest.mark.parametrize("many", [5, 9])
def test_kept_messages_keep_their_order(many: int, api: str, target: float, line: MakeLine) -> None:
    """Also where the first message goes, where all are alike, and where one object stands in the list twice."""
    same = {"role": "user", "content": "continue"}
    for texts in ([str(n) for n in range(many)], ["continue"] * many):
        messages: list[Body] = [{"role": "user", "content": text} for text in texts]
        for listed in (messages, [same, *messages[1:-1], same]):
            body: Body = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": listed}
            for budget in range(8, 8 * many, 8):
                trip = line(api, DropOldest(budget, keep_head=0, keep_tail=1, target=target)).send(body)
                assert_sound(trip)
                assert trip.kept == sorted(trip.kept)
                assert trip.messages[-1] == listed[-1]
                assert trip.kept == list(range(many - len(trip.kept), many))


@covers("161")
@each_target
def test_the_five_messages_of_the_case_end_in_their_order(target: float, line: MakeLine) -> None:
    """Case 161: from the front, the newest last."""
    trip = line(CHAT, drop_oldest(case("161")["policy"], target)).send(body_of("161", CHAT))
    assert_sound(trip)
    assert [message["content"] for message in trip.messages] == [*"01234"][-len(trip.messages) :]
    assert not any(map(calls_of, trip.messages))
