"""What a cleared result and emptied arguments look like in each API, and what each API wants back as it was."""

import copy
import json

from compacting_client import ClearToolResults
from compacting_client.formats import anthropic_messages, gemini_contents, openai_chat
from tests.driving import found, leave, session, size
from tests.policies.test_clear_tool_results import QUESTION, Message, cleared_in, hop, loop, results
from tests.strategies import to_anthropic, to_gemini


def test_arguments_are_emptied_only_if_asked_for() -> None:
    """As a valid JSON object, of the calls whose results are older; ids, names and the newest calls stay (case 139)."""
    body = loop(13, arguments=json.dumps({"path": "a.md", "content": "text " * 100}))
    plain, _ = leave(session(ClearToolResults()), openai_chat, body)
    assert [m for m in plain["messages"] if m["role"] == "assistant"] == body["messages"][2::2]
    sent, report = leave(session(ClearToolResults(clear_inputs=True)), openai_chat, body)
    calls = [message["tool_calls"][0] for message in sent["messages"][2::2]]
    assert [call["function"]["arguments"] == "{}" for call in calls] == [True] * 10 + [False] * 3
    assert [(call["id"], call["function"]["name"]) for call in calls] == [(f"c{n}", "read") for n in range(13)]
    assert report.tokens_after == size(sent)
    assert {each.kind for each in report.replaced} == {"cleared"}


def test_arguments_go_even_where_the_result_is_small() -> None:
    """A file that was written is all in the arguments."""
    body = loop(13, result="Saved.", arguments=json.dumps({"content": "text " * 100}))
    sent, _ = leave(session(ClearToolResults(clear_inputs=True)), openai_chat, body)
    assert results(sent) == ["Saved."] * 13
    assert sum(m["tool_calls"][0]["function"]["arguments"] == "{}" for m in sent["messages"][2::2]) == 10


def test_calls_that_may_be_signed_and_custom_tools_keep_their_input() -> None:
    """A signature belongs to the call as it was made, and text is no JSON; the older kind of call is emptied."""
    long = json.dumps({"text": "text " * 100})
    signed, custom = loop(13, arguments=long), loop(13)
    for message in signed["messages"][2::2]:
        message["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "c2ln"}}
    for message in custom["messages"][2::2]:
        message["tool_calls"] = [
            {"id": message["tool_calls"][0]["id"], "type": "custom", "custom": {"name": "sh", "input": long}}
        ]
    for body in (signed, custom):
        sent, _ = leave(session(ClearToolResults(clear_inputs=True)), openai_chat, body)
        assert sent["messages"][2::2] == body["messages"][2::2]
        assert cleared_in(sent) == 10
    older = {"model": "m", "messages": [QUESTION, *(m for n in range(13) for m in _older_call(n, long)), QUESTION]}
    sent, _ = leave(session(ClearToolResults(clear_inputs=True)), openai_chat, older)
    assert sent["messages"][1]["function_call"] == {"name": "f0", "arguments": "{}"}


def _older_call(number: int, arguments: str) -> list[Message]:
    call = {"role": "assistant", "content": None, "function_call": {"name": f"f{number}", "arguments": arguments}}
    return [call, {"role": "function", "name": f"f{number}", "content": "word " * 200}]


def test_pictures_in_results_go_too() -> None:
    """In each API's own shape; the marker counts them."""
    picture = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    body = to_anthropic(loop(13)["messages"])
    told = [
        block
        for m in body["messages"]
        if m["role"] == "user"
        for block in m["content"]
        if block["type"] == "tool_result"
    ]
    for block in told:
        block["content"] = [{"type": "text", "text": "seen"}, picture]
    sent, report = leave(session(ClearToolResults()), anthropic_messages, body)
    assert json.dumps(sent).count("example.com") == 3
    assert "returned 4 characters and 1 attachment]" in json.dumps(sent)
    assert not found("anthropic-messages", sent, body)
    assert report.tokens_before - report.tokens_after > 10 * 1500

    body = to_gemini(loop(13, result="seen")["messages"])
    told = [part["functionResponse"] for c in body["contents"] for part in c["parts"] if "functionResponse" in part]
    for response in told:
        response["parts"] = [{"inlineData": {"mimeType": "image/png", "data": "aGVsbG8="}}]
    sent, _ = leave(session(ClearToolResults()), gemini_contents, body)
    assert json.dumps(sent).count("inlineData") == 3
    assert not found("gemini", sent, body)


def test_a_batch_in_one_message_stays_whole_while_it_is_the_newest() -> None:
    """Though one of its results is older than the newest one; later the boundary may lie inside of it."""
    calls = [hop(n)[0]["tool_calls"][0] for n in (50, 51)]
    batch = [{"role": "assistant", "content": None, "tool_calls": calls}, hop(50)[1], hop(51)[1]]
    body = to_anthropic(loop(11, *batch)["messages"])
    sent, _ = leave(session(ClearToolResults(1)), anthropic_messages, body)
    assert sent["messages"][-1] is body["messages"][-1]
    assert json.dumps(sent).count("older tool result cleared") == 11
    body = to_anthropic(loop(11, *batch, {"role": "assistant", "content": "ok"}, QUESTION)["messages"])
    sent, _ = leave(session(ClearToolResults(1)), anthropic_messages, body)
    assert ["older" in block["content"] for block in sent["messages"][-3]["content"]] == [True, False]


def test_errors_stay_errors_and_all_else_of_a_block_stays() -> None:
    """`is_error` and cache marks are as the caller set them; nothing becomes an error that was none."""
    body = to_anthropic(loop(13)["messages"])
    blocks = [
        block
        for m in body["messages"]
        if m["role"] == "user"
        for block in m["content"]
        if block["type"] == "tool_result"
    ]
    blocks[0] |= {"is_error": True, "cache_control": {"type": "ephemeral"}}
    sent, _ = leave(session(ClearToolResults(clear_inputs=True)), anthropic_messages, body)
    new = [
        block
        for m in sent["messages"]
        if m["role"] == "user"
        for block in m["content"]
        if block["type"] == "tool_result"
    ]
    assert {**new[0], "content": 0} == {**blocks[0], "content": 0}
    assert not any("is_error" in block for block in new[1:])


def test_results_that_load_tools_stay() -> None:
    """Without its references a tool that was found by a search is gone."""
    body = to_anthropic(loop(13)["messages"])
    loading = [{"type": "tool_reference", "tool_name": f"tool_{n}"} for n in range(40)]
    first = next(b for m in body["messages"] if m["role"] == "user" for b in m["content"] if b["type"] == "tool_result")
    first["content"] = loading
    body["messages"] += to_anthropic([*hop(20), *hop(21)])["messages"]
    sent, report = leave(session(ClearToolResults()), anthropic_messages, body)
    assert loading in [
        b["content"] for m in sent["messages"] if m["role"] == "user" for b in m["content"] if "content" in b
    ]
    assert report.replaced


def test_signed_contents_keep_their_arguments() -> None:
    """The signature stands on the call as it was made; unsigned calls are emptied."""
    signed = to_gemini(loop(13)["messages"])
    plain = copy.deepcopy(signed)
    for body in (signed, plain):
        body["model"] = "gemini-2.5-flash"
        for content in body["contents"]:
            for part in content["parts"]:
                if "functionCall" in part:
                    part["functionCall"]["args"] = {"text": "text " * 100}
                    if body is plain:
                        del part["thoughtSignature"]
    for body, emptied in ((signed, 0), (plain, 10)):
        sent, _ = leave(session(ClearToolResults(clear_inputs=True)), gemini_contents, body)
        assert json.dumps(sent).count('"args": {}') == emptied
        assert json.dumps(sent).count("older tool result cleared") == 10
        assert all(
            isinstance(part["functionResponse"]["response"], dict)
            for c in sent["contents"]
            for part in c["parts"]
            if "functionResponse" in part
        )
