"""The provider says "too long": the window is learned, the oldest goes, the request is sent once more, once."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from compacting_client import Chain, CompactionRecovered, CompactionRejected, DropOldest, KeepTurns, control
from compacting_client.testing import Failure, Thinking
from tests.recovery.answers import CHAT, CLAUDE, LOOK_ALIKES, TOO_LONG, Answer, named
from tests.recovery.line import APIS, ERRORS, MODES, History, Line, talk

MakeLine = Callable[..., Line]
WINDOW = 3_000
TOKENIZERS: dict[str, Callable[[str], int]] = {
    "denser": lambda text: -(-len(text) // 2),
    "thinner": lambda text: -(-len(text) // 7),
    "words": lambda text: 4 + text.count(" ") + text.count('"') // 4,
}
POLICIES = {
    "none": None,
    "a number": 1_000_000,
    "turns": KeepTurns(10_000),
    "function": lambda messages: messages,
    "chain": Chain(KeepTurns(10_000), DropOldest()),
    "share": DropOldest(0.9),
}
each_api = pytest.mark.parametrize("api", APIS)
each_mode = pytest.mark.parametrize("mode", MODES)


def in_turn(answers: list[Answer]) -> list[Any]:
    """Each answer in one of the modes, one after the other; in all of them in the full run."""
    return [
        pytest.param(answer, mode, id=f"{answer.name} {mode}", marks=() if (n + m) % 4 == 0 else pytest.mark.full)
        for n, answer in enumerate(answers)
        for m, mode in enumerate(MODES)
    ]


def notes_of(error: Exception) -> list[str]:
    """What was noted on an error."""
    return list(getattr(error, "__notes__", []))


def is_tail_of(sent: list[Any], history: History) -> bool:
    """Whether what was sent is some of the history's messages, in order, the last one among them."""
    rest = iter(text for _, text in history)
    texts = [message["parts"][0]["text"] if "parts" in message else message["content"] for message in sent]
    return texts[-1] == history[-1][1] and all(text in rest for text in texts)


async def grow(line: Line, turns: int, words: int = 40, **more: Any) -> None:
    """A conversation of so many turns, each sent with the whole history."""
    history = talk(0)
    for n in range(turns):
        history[-1] = ("user", f"question {n}: " + "word " * words)
        await line.ask(history, **more)
        history += [("assistant", f"answer {n}: " + "word " * words), ("user", "")]


@each_api
@each_mode
async def test_a_conversation_that_outgrows_the_window_never_fails(line: MakeLine, api: str, mode: str) -> None:
    """With `compacting(client)` alone one request is refused; it teaches the window, and no later one exceeds it."""
    talked = line(api, mode, window=WINDOW)
    await grow(talked, 50)
    assert talked.statuses.count(400) == 1
    assert len(talked.statuses) == 51
    refused = talked.statuses.index(400)
    assert len(talked.sent(refused + 1)) < len(talked.sent(refused))
    (recovered,) = talked.events.of(CompactionRecovered)
    assert (recovered.cause, recovered.window) == ("too long", WINDOW)


@pytest.mark.parametrize("policy", POLICIES)
@each_api
async def test_it_holds_under_every_policy(line: MakeLine, api: str, policy: str) -> None:
    """Whatever the policy goes by, and for a provider that makes twice as many tokens of a text."""
    talked = line(api, policy=POLICIES[policy], window=WINDOW, tokenizer=TOKENIZERS["denser"])
    await grow(talked, 50)
    assert (talked.statuses.count(400), talked.statuses.count(200)) == (1, 50)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@each_api
async def test_it_holds_for_every_tokenizer(line: MakeLine, api: str, tokenizer: str) -> None:
    """However many tokens the provider makes of a text: its own figures say how many."""
    talked = line(api, window=WINDOW, tokenizer=TOKENIZERS[tokenizer])
    await grow(talked, 60, words=90)
    assert (talked.statuses.count(400), talked.statuses.count(200)) == (1, 60)


@pytest.mark.parametrize(("answer", "mode"), in_turn(TOO_LONG))
async def test_every_overflow_answer_is_retried_once(line: MakeLine, answer: Answer, mode: str) -> None:
    """Each of the providers' answers: the second request holds less, the call returns its response, and the account says so."""
    talked = line(answer.api, mode)
    talked.provider.reply(Failure(answer.status, body=answer.body))
    history = talk(60)
    response = await talked.ask(history)
    assert talked.statuses == [answer.status, 200]
    assert is_tail_of(talked.sent(), history)
    assert len(talked.sent()) < len(talked.sent(0)) == len(history)
    report = talked.report(response)
    assert (report.changed, report.trigger, report.messages_after) == (True, "overflow", len(talked.sent()))
    assert {unit.reason for unit in report.dropped} == {"too long for the provider"}
    (recovered,) = talked.events.of(CompactionRecovered)
    assert (recovered.cause, recovered.window) == ("too long", answer.figures[0])
    dropped = talked.events.named("content.dropped")
    assert len(dropped) == len(report.dropped) > 0
    assert talked.events.names.index("compaction.recovered") < talked.events.names.index("compaction.applied")


@pytest.mark.parametrize("answer", named(LOOK_ALIKES))
async def test_a_look_alike_is_the_callers(line: MakeLine, answer: Answer) -> None:
    """Rates, schemas, pictures, single strings: one request, the SDK's own error, nothing learned."""
    talked = line(answer.api)
    talked.provider.reply(Failure(answer.status, body=answer.body))
    with pytest.raises(ERRORS) as error:
        await talked.ask(talk(60))
    assert talked.statuses == [answer.status]
    assert notes_of(error.value) == []
    assert talked.events.of(CompactionRecovered) == []
    await talked.ask(talk(60))
    assert len(talked.sent()) == 121


@each_api
@each_mode
async def test_a_second_refusal_is_the_providers_own_error(line: MakeLine, api: str, mode: str) -> None:
    """Two requests, never a third; the second error reaches the caller as the SDK made it, the report is a note on it."""
    talked = line(api, mode)
    answer = next(answer for answer in TOO_LONG if answer.api == api)
    again = json.loads(json.dumps(answer.body).replace(str(answer.figures[1]), "2220022"))
    for body in (answer.body, again):
        talked.provider.reply(Failure(400, body=body))
    with pytest.raises(ERRORS) as error:
        await talked.ask(talk(60))
    assert talked.statuses == [400, 400]
    assert "2220022" in str(error.value)
    (note,) = notes_of(error.value)
    assert "dropped now" in note
    assert "word word" not in note
    assert talked.events.named("content.dropped") == []
    (rejected,) = talked.events.of(CompactionRejected)
    assert (rejected.rules, rejected.instead) == (("too long",), "the provider's own error")


@each_api
async def test_where_nothing_is_older_the_first_error_stands(line: MakeLine, api: str) -> None:
    """One huge question: nothing can go, one request is sent."""
    talked = line(api, window=WINDOW)
    with pytest.raises(ERRORS) as error:
        await talked.ask([("user", "word " * 10_000)])
    assert talked.statuses == [400]
    assert "nothing older" in notes_of(error.value)[0]
    report = control(talked.client).last_report
    assert report is not None
    assert (report.changed, report.reason, report.error) == (False, "nothing older", type(error.value).__name__)


@each_api
async def test_recover_off_tries_nothing(line: MakeLine, api: str) -> None:
    """`recover=False`: the provider's error, without a note, each time anew."""
    talked = line(api, window=WINDOW, recover=False)
    for _ in range(2):
        with pytest.raises(ERRORS) as error:
            await talked.ask(talk(60))
        assert notes_of(error.value) == []
    assert talked.statuses == [400, 400]
    assert len(talked.sent()) == 121


async def test_the_policy_off_tries_nothing(line: MakeLine) -> None:
    """`policy=False` reports and leaves alone, refusals too."""
    talked = line(CHAT, policy=False, window=WINDOW)
    with pytest.raises(ERRORS):
        await talked.ask(talk(60))
    assert talked.statuses == [400]


async def test_what_goes_comes_on_top_of_the_policy(line: MakeLine) -> None:
    """KeepTurns drops the older turns, the provider refuses what is left, and more goes; each unit is told once, with its own reason."""
    talked = line(CHAT, policy=KeepTurns(50), window=WINDOW)
    history = talk(60)
    report = talked.report(await talked.ask(history))
    assert talked.statuses == [400, 200]
    assert len(talked.sent(0)) == 99
    told = talked.events.named("content.dropped")
    assert [(each.first, each.reason) for each in report.dropped] == sorted((each.first, each.reason) for each in told)
    reasons = [each.reason for each in report.dropped]
    assert reasons.count("older than the kept turns") == 121 - 99
    assert reasons.count("too long for the provider") == 99 - len(talked.sent())


async def test_a_recovered_cut_is_remembered(line: MakeLine) -> None:
    """The next request begins with the same messages, and reports the cut as reused."""
    talked = line(CHAT, policy=KeepTurns(50), window=WINDOW)
    history = talk(40)
    await talked.ask(history)
    response = await talked.ask([*history, ("assistant", "Now this."), ("user", "And then?")])
    assert talked.statuses == [400, 200, 200]
    assert talked.sent(2)[: len(talked.sent(1))] == talked.sent(1)
    report = talked.report(response)
    assert len(report.reused) == 1
    assert report.trigger is None


async def test_pins_stay_in_a_recovery(line: MakeLine) -> None:
    """What `pin` selects is sent again; without it, it would be the first to go."""
    talked = line(CHAT, window=WINDOW, pin=lambda message: "user 3:" in message["content"])
    await talked.ask(talk(60))
    assert talked.statuses == [400, 200]
    assert any("user 3:" in message["content"] for message in talked.sent())
    assert not any("user 4:" in message["content"] for message in talked.sent())


async def test_what_was_learned_belongs_to_its_model_and_holds_for_derived_clients(line: MakeLine) -> None:
    """Another model is asked with everything; another conversation, and a client with other options, know the window."""
    talked = line(CHAT, window=WINDOW)
    await talked.ask(talk(60))
    talked.client = talked.client.with_options(timeout=60)
    await talked.ask([("user", "Something else."), *talk(60)[1:]])
    assert talked.statuses == [400, 200, 200]
    await talked.ask([("user", "A third."), *talk(60)[1:]], model="another")
    assert talked.statuses == [400, 200, 200, 400, 200]


async def test_an_answer_without_figures_teaches_that_so_much_is_too_much(line: MakeLine) -> None:
    """A history of the same size is not tried again; a shorter one is."""
    talked = line(CHAT)
    talked.provider.reply(Failure(400, body={"error": {"code": "context_length_exceeded"}}))
    await talked.ask(talk(60))
    other = [("user", "Something else."), *talk(60)[1:]]
    await talked.ask(other)
    assert len(talked.sent()) < len(other)
    await talked.ask([("user", "A third."), *talk(40)[1:]])
    assert len(talked.sent()) == 81


async def test_an_answer_about_bytes_teaches_no_window(line: MakeLine) -> None:
    """A body above 32 MB, most of it pictures: it is sent shorter, and the next one as it is."""
    talked = line(CLAUDE)
    (answer,) = (answer for answer in TOO_LONG if answer.teaches == "never")
    talked.provider.reply(Failure(413, body=answer.body))
    await talked.ask(talk(60))
    await talked.ask([("user", "Something else."), *talk(60)[1:]])
    assert len(talked.sent()) == 121


async def test_a_refusal_without_a_word_teaches_only_once_less_was_accepted(line: MakeLine) -> None:
    """An empty 400 may have any cause: if the shorter request is refused too, nothing is known of the window."""
    talked = line(CHAT)
    for _ in range(2):
        talked.provider.reply(Failure(400, body=""))
    with pytest.raises(ERRORS):
        await talked.ask(talk(60))
    await talked.ask(talk(60))
    assert len(talked.sent()) == 121
    talked.provider.reply(Failure(400, body=""))
    await talked.ask(talk(60))
    await talked.ask([("user", "Something else."), *talk(60)[1:]])
    assert len(talked.sent()) < 121


async def test_an_answer_that_alone_fills_the_window_is_no_matter_of_the_history(line: MakeLine) -> None:
    """`max_tokens` above the window: nothing that could be dropped would help, and nothing is."""
    talked = line(CHAT, window=WINDOW)
    with pytest.raises(ERRORS):
        await talked.ask(talk(5), answer=4_000)
    assert talked.statuses == [400]
    await talked.ask(talk(5), answer=100)
    assert len(talked.sent()) == 11


async def test_signed_thinking_from_before_the_cut_goes_with_it(line: MakeLine) -> None:
    """On a model that binds thinking, what is sent once more is accepted: the provider compares every block with what stood before it."""
    talked = line(CLAUDE, policy=DropOldest(keep_head=0))
    messages: list[Any] = []
    for n in range(12):
        talked.provider.reply(Thinking(f"Thought {n}: " + "hm " * 60), f"Answer {n}: " + "word " * 60)
        messages.append({"role": "user", "content": f"question {n}"})
        response = talked.client.messages.create(model="claude-opus-5-5", max_tokens=100, messages=messages)
        messages.append({"role": "assistant", "content": response.content})
    talked.provider.reply(Failure(400, "prompt is too long: 1000 tokens > 900 maximum"))
    messages.append({"role": "user", "content": "And now?"})
    response = talked.client.messages.create(model="claude-opus-5-5", max_tokens=100, messages=messages)
    assert talked.statuses == [200] * 12 + [400, 200]
    blocks = [
        block["type"] for message in talked.sent() if message["role"] == "assistant" for block in message["content"]
    ]
    assert blocks
    assert set(blocks) == {"text"}
    assert {each.kind for each in talked.report(response).replaced} == {"stripped"}


@pytest.mark.parametrize("known", [False, True], ids=["window unknown", "window known"])
async def test_a_function_that_fails_where_more_has_to_go_costs_no_more_than_the_refusal(
    line: MakeLine, known: bool
) -> None:
    """A pin that raises when it is asked for a recovery: the request leaves as it came, and the provider's own error reaches the caller."""
    fails = not known

    def pin(_: Any) -> bool:
        if fails:
            raise KeyError("pin")
        return False

    talked = line(CHAT, policy=KeepTurns(10_000), window=WINDOW, pin=pin, strict=False)
    if known:
        await talked.ask(talk(60))
        fails = True
    history = [("user", "another opening"), *talk(60)[1:]]
    with pytest.raises(ERRORS):
        await talked.ask(history)
    report = control(talked.client).last_report
    assert report is not None
    assert report.reason == "pin failed: KeyError"
    assert talked.statuses[-1] == 400
    assert len(talked.sent()) == len(history)
    assert any(event.rules == ("error", "pin", "KeyError") for event in talked.events.of(CompactionRejected))
