"""Wrong settings are refused when they are given, by an error that names the field, the value and what is allowed."""

import math
from typing import Any

import openai
import pytest

from compacting_client import ConfigError, DropOldest, compacting, control, memory
from tests.bindings.support import POLICY

NAN = math.nan

WRONG_BUDGETS = [0, -1, True, NAN, math.inf, -0.5, 1.5, 60_000.0, "60000", b"1", [1], {}, object()]


@pytest.mark.parametrize("value", WRONG_BUDGETS)
def test_a_budget_is_a_whole_number(chat: openai.OpenAI, value: Any) -> None:
    """As a policy's field, and as the number alone: int of at least 1, no bool, no float, no text."""
    with pytest.raises(ConfigError, match="max_tokens must be a whole number of at least 1, not") as error:
        DropOldest(value)
    assert repr(value) in str(error.value)
    with pytest.raises(ConfigError) as error:
        compacting(chat, value)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("value", [None, 0.7, 1.0])
def test_a_budget_may_come_from_the_window(chat: openai.OpenAI, value: Any) -> None:
    """None and a share of the window, as a policy's field and alone; no policy at all is None."""
    assert control(compacting(chat, value)).policy == DropOldest(value)
    assert control(compacting(chat)).policy == DropOldest()
    assert DropOldest(value).budget is None


FIELDS = [
    *[("keep_head", value, "a whole number of at least 0") for value in (-1, True, 1.0, NAN, "1", None)],
    *[("keep_tail", value, "a whole number of at least 0") for value in (-1, False, 2.5, "4", None)],
    *[("target", value, "a number above 0 and at most 1") for value in (0, -0.5, 1.1, 2, True, NAN, "0.5", None)],
]


@pytest.mark.parametrize(("name", "value", "allowed"), FIELDS)
def test_fields_of_drop_oldest(name: str, value: Any, allowed: str) -> None:
    """Every other field of the policy is checked too."""
    fields: Any = {name: value}
    with pytest.raises(ConfigError) as error:
        DropOldest(1000, **fields)
    assert str(error.value) == f"{name} must be {allowed}, not {value!r}"


def test_the_edges_are_allowed() -> None:
    """The smallest and the largest values of each field make a policy, which is frozen and compares by value."""
    assert DropOldest(1, keep_head=0, keep_tail=0, target=1) == DropOldest(1, keep_head=0, keep_tail=0, target=1.0)
    with pytest.raises(AttributeError):
        DropOldest(1).max_tokens = 2  # type: ignore[misc]


def a_function(messages: list[Any]) -> list[Any]:
    return messages[-20:]


@pytest.mark.parametrize("value", [a_function, lambda messages: messages, len, print])
def test_any_function_is_a_policy(chat: openai.OpenAI, value: Any) -> None:
    """It is known by its name."""
    policy = control(compacting(chat, value)).policy
    assert policy is not None
    assert policy.name == value.__name__


@pytest.mark.parametrize("value", [True, DropOldest, "DropOldest", [POLICY], (400,), object()])
def test_what_is_no_policy(chat: openai.OpenAI, value: Any) -> None:
    """True, a class, a name, a list of policies: the message names the value and what is allowed."""
    with pytest.raises(ConfigError, match="policy must be a policy such as DropOldest") as error:
        compacting(chat, value)
    assert repr(value) in str(error.value)
    assert ("call it, DropOldest(...)" in str(error.value)) == (value is DropOldest)


FLAGS = [(name, value) for name in ("log_content", "recover", "strict") for value in (0, 1, None, "yes")]
FUNCTIONS = [
    (name, value)
    for name in ("counter", "memory_key", "pin", "on_event", "on_drop", "on_reuse", "on_report")
    for value in (7, "print", [print], True)
]
OTHERS: list[tuple[str, Any, str]] = [
    *[(name, value, "must be True or False, not") for name, value in FLAGS],
    *[(name, value, "must be a function or None, not") for name, value in FUNCTIONS],
    *[("on_unfit", value, 'must be "send" or "raise", not') for value in (None, "Send", "drop", True, ["send"])],
    *[
        ("memory", value, "must be a store such as memory.InProcess() or memory.File('cuts.db'), or None, not")
        for value in (7, "sqlite", {}, object(), memory.InProcess, memory)
    ],
    *[("windows", value, "must be a mapping such as") for value in (7, "gpt-5", [("gpt-5", 1)])],
    *[("windows", {name: 1}, "must have names of models for keys") for name in ("", 5, None)],
]


@pytest.mark.parametrize(("name", "value", "says"), OTHERS)
def test_options_of_compacting(chat: openai.OpenAI, name: str, value: Any, says: str) -> None:
    """Each option of `compacting` by name, with a value of the wrong kind."""
    options: Any = {name: value}
    with pytest.raises(ConfigError) as error:
        compacting(chat, POLICY, **options)
    assert str(error.value).startswith(name)
    assert repr(value) in str(error.value)
    assert says in str(error.value)


@pytest.mark.parametrize("tokens", [0, -1, True, 1.5, NAN, "128000", None])
def test_a_window_is_a_whole_number(chat: openai.OpenAI, tokens: Any) -> None:
    """The error names the model."""
    with pytest.raises(ConfigError) as error:
        compacting(chat, windows={"gpt-*": 1, "gpt-5": tokens})
    assert str(error.value) == f"windows['gpt-5'] must be a whole number of at least 1, not {tokens!r}"


def test_an_unknown_option_is_pythons_error(chat: openai.OpenAI) -> None:
    """A misspelt name is no option that is silently ignored; options are given by name only."""
    options: Any = {"on_droped": print}
    with pytest.raises(TypeError, match="on_droped"):
        compacting(chat, POLICY, **options)
    positional: Any = (POLICY, len)
    with pytest.raises(TypeError, match="positional"):
        compacting(chat, *positional)


def test_all_options_at_once(achat: openai.AsyncOpenAI) -> None:
    """What is right is accepted: every option, async functions on an async client included."""

    async def function(_: Any) -> Any:
        return 1

    compacting(
        achat,
        DropOldest(1000, keep_head=2, keep_tail=6, target=1.0),
        counter=function,
        memory=memory.InProcess(max_conversations=1),
        memory_key=function,
        pin=function,
        windows={"gpt-5": 400_000, "gpt-*": 128_000},
        on_event=print,
        on_drop=function,
        on_reuse=function,
        on_report=function,
        log_content=True,
        recover=False,
        on_unfit="raise",
        strict=True,
    )


def nothing() -> None:
    """A function that takes nothing."""


class Heard:
    """What a user's own callback object may look like."""

    def __call__(self, event: Any) -> None:
        """Hear."""


CALLED = ("counter", "memory_key", "pin", "on_event", "on_drop", "on_reuse", "on_report")


@pytest.mark.parametrize("name", CALLED)
def test_functions_are_tried_for_their_argument(chat: openai.OpenAI, name: str) -> None:
    """One that takes nothing, two arguments, or is a class of callables is refused when wrapping, not at the first request."""
    for wrong in (nothing, lambda one, other: None):
        with pytest.raises(ConfigError, match=f"{name} is called with one argument"):
            compacting(chat, POLICY, **{name: wrong})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=rf"{name} is the class Heard; pass an object of it: Heard\(\)"):
        compacting(chat, POLICY, **{name: Heard})  # type: ignore[arg-type]
    for right in (Heard(), print, len, lambda one, other=None: None):
        compacting(chat, POLICY, **{name: right})  # type: ignore[arg-type]


def test_a_policy_function_takes_the_messages(chat: openai.OpenAI) -> None:
    """The same for a function as a policy."""
    with pytest.raises(ConfigError, match="policy is called with one argument"):
        compacting(chat, nothing)  # type: ignore[arg-type]
