"""Where a ledger stands in each API, and what of each API it reads: marks of errors, mixed items, histories without a question."""

import json
from typing import Any

import pytest

from compacting_client import Chain, Ledger
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from tests.driving import Body, found, history_of, leave, session, size
from tests.policies.ledgers import asks, body_of, call, distinct, gives, hop, ledger, loop, ours, says, user
from tests.strategies import SHAPES, to_anthropic, to_gemini


def text_of(item: Any) -> str:
    """All texts of an item."""
    content = item.get("content") or item.get("parts")
    return content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_end_of_the_question_in_every_api(shape: str) -> None:
    """Of the caller's own message, whose parts are first; in no system role; what follows are the caller's own objects."""
    wire, to_body = SHAPES[shape]
    body = distinct(to_body([{"role": "system", "content": "S"}, user("Q"), *loop(8)]))
    sent, report = leave(session(Ledger()), wire, body)
    assert report.changed
    first = 1 if shape == "chat" else 0
    question = history_of(sent)[first]
    assert question["role"] == "user"
    assert text_of(question).startswith("Q\n")
    assert text_of(question).endswith("</tool_results>")
    assert history_of(sent)[first + 1 :] == history_of(body)[-2:]
    assert not found(wire.API, sent, body)


def test_marks_and_media_of_the_question_stay() -> None:
    """Blocks are the caller's own: cache marks hold, pictures are there."""
    picture = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    marked = {"type": "text", "text": "Q", "cache_control": {"type": "ephemeral"}}
    body = distinct(to_anthropic([user("Q"), *loop(8)]))
    body["messages"][0]["content"] = [picture, marked]
    sent, _ = leave(session(Ledger()), anthropic_messages, body)
    assert sent["messages"][0]["content"][:2] == [picture, marked]
    assert sent["messages"][0]["content"][1] is marked
    assert len(sent["messages"][0]["content"]) == 3


def test_the_mark_of_an_error_is_read() -> None:
    """`is_error` at Anthropic, an `error` in the response at Gemini: the line says that the call failed."""
    body = distinct(to_anthropic([user("Q"), *hop("a", "no such ship", id=1), *loop(7)]))
    body["messages"][2]["content"][0]["is_error"] = True
    sent, _ = leave(session(Ledger()), anthropic_messages, body)
    assert '"failed":"no such ship"' in text_of(sent["messages"][0])
    contents = distinct(to_gemini([user("Q"), *hop("a", "no such ship", id=1), *loop(7)]))
    contents["contents"][2]["parts"][0]["functionResponse"]["response"] = {"error": "no such ship"}
    sent, _ = leave(session(Ledger()), gemini_contents, contents)
    assert '"failed":{"error":"no such ship"}' in text_of(sent["contents"][0])


def test_results_of_gemini_are_shown_without_their_wrapper() -> None:
    """What the tool returned; an object as it is."""
    body = distinct(to_gemini([user("Q"), *loop(8)]))
    body["contents"][2]["parts"][0]["functionResponse"]["response"] = {"draught": 7, "name": "Vega " * 40}
    sent, _ = leave(session(Ledger()), gemini_contents, body)
    text = text_of(sent["contents"][0])
    assert '"result":{"draught":7,"name":"Vega' in text
    assert '"result":"r1 x' in text


def test_a_note_stands_behind_results_in_the_same_message() -> None:
    """Anthropic wants results first: a user who answers and asks in one message keeps it."""
    body = to_anthropic([user("before " * 200), says("ok " * 200), user("more"), *loop(1)])
    body["messages"][-1]["content"].append({"type": "text", "text": "And now?"})
    sent, report = leave(session(Ledger("ledger")), anthropic_messages, body)
    assert report.changed
    kinds = [block["type"] for block in sent["messages"][-1]["content"]]
    assert kinds[0] == "tool_result"
    assert "earlier_conversation" in text_of(sent["messages"][-1])
    assert not found("anthropic-messages", sent, body)


@pytest.mark.parametrize("scope", ["auto", "ledger", "scoped"])
def test_a_history_without_a_question_is_folded_too(scope: Any) -> None:
    """All of it is the run; the ledger is a user message of its own in front."""
    body = body_of([{"role": "system", "content": "S"}, *loop(8)])
    sent, report = leave(session(Ledger(scope)), openai_chat, body)
    assert not found("openai-chat", sent, body)
    if scope != "scoped":
        assert report.changed
        assert [m["role"] for m in sent["messages"]] == ["system", "user", "assistant", "tool"]
        assert len(ledger(sent)) == 7


def test_the_order_of_results_is_that_of_the_history() -> None:
    """In a batch that of its results; typed objects of the SDKs are read as dicts are."""
    batch = [asks(call("1", n=1), call("2", n=2)), gives("2", "two " * 50), gives("1", "one " * 50)]
    sent, _ = ours(Ledger("ledger"), [user("Q"), *batch, *loop(4)])
    assert [line["arguments"] for line in ledger(sent)][:2] == [{"n": 2}, {"n": 1}]


def test_left_out_lines_stay_left_out() -> None:
    """Between two steps the beginning of the prompt is the same, though a line comes with every request."""
    policy = Ledger("ledger", max_tokens=3_000)
    state, moved, before = session(policy), 0, ""
    for n in range(200, 260):
        sent, report = ours(policy, [user("Q"), *loop(n)], state)
        first = json.dumps(ledger(sent)[0])
        assert report.fits
        assert "not listed" in first
        moved += first != before
        before = first
    assert moved < 20


def test_what_another_policy_put_in_stays() -> None:
    """A text of a function before it in the chain is neither repeated nor lost."""

    def noting(messages: list[Body]) -> list[Body]:
        if any("NOTE" in str(m["content"]) for m in messages):
            return messages
        return [m for m in messages if "old" not in str(m["content"])] + [user("NOTE")]

    state = session(Chain(noting, Ledger()))
    history = [user("old " * 100), says("old " * 100), user("Q"), *loop(6)]
    for more in range(3):
        sent, _ = leave(state, openai_chat, body_of([*history, *loop(more, 50)]))
        assert str(sent).count("NOTE") == 1


def test_a_question_that_is_no_json_is_counted_as_it_leaves() -> None:
    """Where a key is no text, a message is counted by its `repr`, and so is the ledger in it."""
    question = {"role": "user", "content": "\u5217\u8eca " * 20, "meta": {(1, 2): 3}}
    steps = [each for n in range(12) for each in hop(f"c{n}", f'{n}\n"quoted" ' * 20, n=n)]
    sent, report = ours(Ledger(keep_result_chars=20), [question, *steps])
    assert report.changed
    assert report.tokens_after == size(sent)
