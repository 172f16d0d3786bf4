"""A ledger's text is as long as its lines say, and weighs in its place what it weighs when it is written there."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compacting_client.core.conversation import Conversation
from compacting_client.core.edits import Edits, Inserted, weighed
from compacting_client.core.extent import Extent, Whole
from compacting_client.core.facts import Fact, Said, canonical
from compacting_client.core.ledger import Line, ledger_text, lines
from compacting_client.core.measure import Measure
from compacting_client.core.resizing import resized
from compacting_client.core.tokens import units
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from tests.strategies import chats, to_anthropic, to_chat, to_gemini

anything = st.text(st.characters(codec=None))  # lone surrogates included
results = st.one_of(
    anything,
    st.sampled_from(['{"a":\t1}', '{"a": "\\u2028"}', '["é\u2028🎉"]', "{no json", "[1,\n2]", 'x"\\' * 40, "\t🎉"]),
)
found = st.lists(
    st.one_of(
        st.builds(lambda text, given: Fact(("get", canonical(given)), text, "c", 0, failed=False), results, anything),
        st.builds(lambda text: Said(text, 0), anything),
    )
)


def listed(facts: list[Fact | Said], hidden: int) -> list[Line]:
    """Their lines, of which the first few are without their results."""
    shown = lines(facts, Counter(), {"get"}.__contains__, (20, 20))
    for line in shown[:hidden]:
        short = line.shorter()
        if short is not None:
            line.parts = (short,) if short else ()
    return shown


@given(found, st.integers(0, 3), st.integers(0, 1200))
def test_lines_say_how_long_their_text_is(facts: list[Fact | Said], hidden: int, omitted: int) -> None:
    """To the unit, whatever is in them, hidden or left out."""
    shown = listed(facts, hidden)
    assert Extent.of(shown).within(omitted) == units(ledger_text(shown, omitted))
    assert Extent.of(shown).length == sum(len(line.text) for line in shown)


@given(found)
def test_a_rate_is_that_of_the_text(facts: list[Fact | Said]) -> None:
    """What JSON escapes counts twice; what is at hand before that is counted is no more."""
    shown = listed(facts, 0)
    text = ledger_text(shown)
    whole = Whole([line.parts for line in shown], Extent.of(shown))
    assert whole.rate == 4 * len(text) / (len(text) + sum(map(text.count, '"\\\n')))
    assert whole.least <= whole.rate


def counted(conversation: Conversation, edits: Edits) -> dict[int, float]:
    """Tokens of the changed items as they are written."""
    measured, sizes = Measure(conversation), dict[int, float]()
    for index, edit in edits.by_item().items():
        step = measured.sizes_of(weighed(conversation.reader, conversation.items[index], edit))
        with pytest.raises(StopIteration) as done:
            next(step)
        sizes[index] = done.value.value
    return sizes


@settings(deadline=None)
@given(chats(), anything.filter(bool), st.sampled_from(["start", "end"]), st.booleans())
def test_an_item_with_a_text_weighs_what_it_weighs_when_it_is_written(
    history: list[dict[str, Any]], text: str, side: Any, known: bool
) -> None:
    """In each format, whether the length of the text is known or not."""
    for wire, body in (
        (openai_chat, to_chat(history)),
        (anthropic_messages, to_anthropic(history)),
        (gemini_contents, to_gemini(history)),
    ):
        conversation = wire.read(body)
        users = [index for index, role in enumerate(conversation.roles) if role == "user"]
        edits = Edits((), (Inserted(users[-1], side, text, units(text) if known else None),))
        with pytest.raises(StopIteration) as done:
            next(resized(Measure(conversation), edits))
        assert done.value.value == counted(conversation, edits)
