"""Budgets from the model's window: where it is known from, what is kept for the answer, and what is remembered when it is learned."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compacting_client import Chain, DropOldest, KeepTurns, compacting, control
from compacting_client.core.window import Window
from compacting_client.formats.base import TooLong
from compacting_client.testing import Failure
from compacting_client.windows import Learned, Windows, counted
from tests.recovery.answers import CHAT, CLAUDE
from tests.recovery.line import APIS, MODELS, Line, talk

MakeLine = Callable[..., Line]
ROOT = Path(__file__).resolve().parents[2]
each_api = pytest.mark.parametrize("api", APIS)


def tokens_of(line: Line, turns: int) -> float:
    """What a history counts as; nothing is sent."""
    wrapped = compacting(line.plain, 10**9)
    messages = [{"role": role, "content": text} for role, text in talk(turns)]
    return control(wrapped).preview(wrapped.chat.completions.create, model="m", messages=messages).tokens_before


@each_api
async def test_a_given_window_is_the_budget_without_the_answers_part(line: MakeLine, api: str) -> None:
    """One token more in the answer, and a request that just fitted is cut; the default policy, no refusal needed."""
    probe = line(api, policy=10**9)
    total = int(probe.report(await probe.ask(talk(20), answer=None if api != CLAUDE else 1)).tokens_before)
    talked = line(api, windows={MODELS[api]: total + 500})
    await talked.ask(talk(20), answer=500)
    assert len(talked.sent()) == 41
    report = talked.report(await talked.ask(talk(20), answer=501))
    assert len(talked.sent()) < 41
    assert (report.trigger, report.fits, talked.statuses) == ("tokens", True, [200, 200])
    assert report.tokens_after <= total / 2


async def test_without_a_reservation_the_window_is_the_budget(line: MakeLine) -> None:
    """A request that does not say how long its answer may be."""
    probe = line(CHAT)
    total = int(tokens_of(probe, 20))
    talked = line(CHAT, windows={"my-model": total})
    await talked.ask(talk(20), answer=None)
    await talked.ask([("user", "One more word."), *talk(20)], answer=None)
    assert [len(talked.sent(n)) < 41 for n in (0, 1)] == [False, True]


@pytest.mark.parametrize(
    ("share", "reserved", "budget"),
    [(1.0, 0, 1000), (1.0, 300, 700), (0.7, 0, 700), (0.7, 200, 700), (0.7, 400, 600), (0.5, 999, 1), (0.5, 1000, 500)],
)
def test_a_share_leaves_room_for_the_answer(share: float, reserved: int, budget: float) -> None:
    """The share of the window, or what the reservation leaves of it, if that is less; a reservation that leaves nothing is none of ours."""
    assert Window(1000, reserved).budget(share) == budget


async def test_a_number_stays_a_number(line: MakeLine) -> None:
    """A budget in tokens is the input as counted: neither the window nor the answer's part makes it smaller."""
    probe = line(CHAT)
    total = int(tokens_of(probe, 20))
    talked = line(CHAT, policy=DropOldest(total), windows={"my-model": 10})
    await talked.ask(talk(20), answer=5_000)
    assert len(talked.sent()) == 41


async def test_an_unknown_model_is_never_cut_in_advance(line: MakeLine) -> None:
    """The report says that its window is not known; so does that of a chain with such a policy."""
    for policy in (None, DropOldest(0.5), Chain(KeepTurns(1_000), DropOldest())):
        talked = line(CHAT, policy=policy)
        report = talked.report(await talked.ask(talk(400)))
        assert len(talked.sent()) == 801
        assert (report.reason, report.fits, report.changed) == ("window unknown", True, False)


def test_a_name_goes_before_a_pattern_and_the_longest_pattern_first() -> None:
    """`*` stands for anything, other signs for themselves."""
    windows = Windows({"my-*": 1, "my-model-*": 2, "my-model-x": 3, "*": 4, "a[b]?*": 5})
    names = {"my-model-x": 3, "my-model-y": 2, "my-own": 1, "other": 4, "a[b]?c": 5, "abc": 4, "my-model": 1}
    for name, size in names.items():
        assert windows.of(CHAT, name) == Window(size)


def test_what_is_known_from_where() -> None:
    """Given, then learned, then listed; but a provider's smaller figure is never forgotten."""
    windows = Windows({"given": 1_000})
    assert windows.of(CHAT, "given", 100) == Window(1_000, 100)
    assert windows.of(CHAT, "nobody-knows") is None
    windows.learn(CHAT, "given", Learned(10_000))
    assert windows.of(CHAT, "given") == Window(1_000)
    windows.learn(CHAT, "given", Learned(500))
    assert windows.of(CHAT, "given") == Learned(500).window()
    windows.learn(CHAT, "learned", Learned(500, 0.5))
    assert windows.of(CHAT, "learned", 100) == Learned(500, 0.5).window(100)
    assert windows.of(CLAUDE, "learned") is None


def test_a_price_list_knows_windows() -> None:
    """`genai-prices`, where installed: the model by its name; what the provider said goes before it."""
    pytest.importorskip("genai_prices")
    windows = Windows()
    known = windows.of(CHAT, "gpt-4o-mini", 2_000)
    assert known == Window(128_000, 2_000)
    assert windows.of(CHAT, "GPT-nobody-knows") is None
    windows.learn(CHAT, "gpt-4o-mini", Learned(200_000))
    assert windows.of(CHAT, "gpt-4o-mini") == Learned(200_000).window()
    windows.learn(CHAT, "gpt-4o-mini", Learned(150_000, named=False))
    assert windows.of(CHAT, "gpt-4o-mini") == Window(128_000)


ASKED = """
import socket, sys
def no(*_): raise AssertionError("the network was asked")
socket.socket.connect = no
from compacting_client import DropOldest, KeepTurns
from compacting_client.windows import Windows
known = lambda: Windows().of("openai-chat", "gpt-4o-mini")
for policy in (KeepTurns(3), DropOldest(9)): assert policy.sized(known) is policy
assert "genai_prices" not in sys.modules
sized = DropOldest().sized(known)
print(sized.budget, "genai_prices" in sys.modules)
"""


def test_the_price_list_is_read_only_for_a_policy_that_asks() -> None:
    """No import for a budget in tokens, no network for any."""
    pytest.importorskip("genai_prices")
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.stdout.split(), done.stderr) == (["128000", "True"], "")


def test_without_the_price_list_nothing_is_known() -> None:
    """The extra is not installed: an unknown model, no error."""
    program = "import sys; sys.modules['genai_prices'] = None\n" + ASKED.partition("sized =")[0] + "print(known())"
    program = program.replace('assert "genai_prices" not in sys.modules\n', "")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.stdout.split(), done.stderr) == (["None"], "")


FIGURES = [
    (TooLong(200_000, 250_000), 100_000, 0, Learned(200_000, 0.4)),  # 0.4 counted tokens are one of the provider's
    (TooLong(200_000), 250_000, 0, Learned(200_000)),
    (TooLong(200_000, 250_000, shared=False), 100_000, 0, Learned(200_000, 0.4, shared=False)),
    (TooLong(200_000), 150_000, 0, Learned(150_000, shared=False, named=False)),  # it refused what would have fitted
    (TooLong(200_000, 199_000), 150_000, 0, Learned(200_000, 150 / 199)),
    (TooLong(200_000, 150_000), 150_000, 0, Learned(150_000, shared=False, named=False)),
    (TooLong(200_000, 150_000), 150_000, 60_000, Learned(200_000)),  # the answer's part did not fit
    (TooLong(4_000, 300), 300, 5_000, Learned(4_000)),  # it alone did not
    (TooLong(), 1_000, 0, Learned(1_000, shared=False, named=False)),
    (TooLong(excess=200), 1_000, 0, Learned(800, shared=False, named=False)),
    (TooLong(excess=1_119_046), 1_000, 0, Learned(500, shared=False, named=False)),
]


@pytest.mark.parametrize(("said", "tokens", "reserved", "learned"), FIGURES)
def test_what_an_answer_teaches(said: TooLong, tokens: float, reserved: int, learned: Learned) -> None:
    """Its figures in counted tokens; whatever it says, what was refused is too long."""
    found = counted(said, tokens, reserved)
    assert (found.limit, found.shared, found.named) == (learned.limit, learned.shared, learned.named)
    assert found.ratio == pytest.approx(learned.ratio)
    if reserved < found.limit:
        assert found.window(reserved).budget() < tokens


def test_of_one_limit_the_most_careful_reading_is_kept() -> None:
    """Two requests of other content: the one whose text makes more tokens counts; a new limit takes the old one's place."""
    windows = Windows()
    for ratio, expected in ((0.8, 0.8), (0.6, 0.6), (0.9, 0.6)):
        windows.learn(CHAT, "m", Learned(1_000, ratio))
        assert windows.of(CHAT, "m") == Learned(1_000, expected).window()
    windows.learn(CHAT, "m", Learned(2_000, 0.9))
    assert windows.of(CHAT, "m") == Learned(2_000, 0.9).window()


@pytest.mark.parametrize("policy", [DropOldest(), DropOldest(0.7), Chain(KeepTurns(9), DropOldest())])
def test_learning_a_window_keeps_what_is_remembered(policy: Any) -> None:
    """The policy of a request has the fingerprint, the name and the equality of the one that was given."""
    for window in (None, Window(1_000), Window(2_000, 100)):
        sized = policy.sized(lambda known=window: known)
        assert (sized.fingerprint, sized.name, sized) == (policy.fingerprint, policy.name, policy)
        assert (sized.budget is None) is (window is None)
    assert policy.budget is None


async def test_a_cut_made_before_the_window_was_known_is_used_again(line: MakeLine) -> None:
    """An answer without a limit, then one with it: the second cut stands on the first."""
    talked = line(CHAT)
    talked.provider.reply(Failure(400, body={"error": {"code": "context_length_exceeded"}}))
    history = talk(40)
    await talked.ask(history)
    said = "This model's maximum context length is 1100 tokens. However, your messages resulted in 1200 tokens."
    talked.provider.reply(Failure(400, said))
    history += [("assistant", "Now this."), ("user", "And then?")]
    report = talked.report(await talked.ask(history))
    assert talked.statuses == [400, 200, 400, 200]
    assert len(report.reused) == 1
    assert {unit.since for unit in report.dropped} == {0, 1}


@each_api
async def test_a_silent_truncation_is_reported(line: MakeLine, api: str) -> None:
    """The provider read a third of what was sent and says nothing (Ollama's `num_ctx`): the report and a warning do."""
    for tokenizer, truncated in ((lambda text: len(text) // 14, True), (lambda text: len(text) // 6, False)):
        talked = line(api, "sync" if api == CHAT else "async stream", tokenizer=tokenizer)
        response = await talked.ask(talk(80))
        report = talked.report(response)
        found = [event for event in talked.events.named("compaction.rejected") if event.rules == ("truncated",)]
        assert report.usage is not None
        assert (report.truncated, len(found)) == (truncated, int(truncated))
        assert report.as_dict()["truncated"] is truncated
        if truncated:
            assert str(report.usage.input_tokens) in found[0].instead
            assert found[0].level == "warning"


async def test_neither_small_requests_nor_a_counter_of_the_callers_are_taken_for_truncated(line: MakeLine) -> None:
    """A few words may be half as many tokens; a counter may count in letters."""
    few = line(CHAT, tokenizer=lambda text: 1)
    assert not few.report(await few.ask(talk(5))).truncated
    own = line(CHAT, tokenizer=lambda text: 1, counter=lambda message: len(str(message)))
    assert not own.report(await own.ask(talk(80))).truncated
