"""Gemini contents as a conversation: spellings, pairing, media, the neutral view, and what is refused."""

import base64
import struct
from typing import Any

import pytest

from compacting_client import DropOldest
from compacting_client.core.tokens import dump
from compacting_client.core.trace import Trace
from compacting_client.formats import gemini_contents as gemini
from compacting_client.formats.base import Unreadable, Usage
from compacting_client.formats.gemini_contents.parts import media_tokens
from compacting_client.testing import EventCapture
from tests.driving import leave, session

Json = dict[str, Any]


def user(*parts: Any) -> Json:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def model(*parts: Any) -> Json:
    return {**user(*parts), "role": "model"}


def call(name: str, own: str | None = None, **args: Any) -> Json:
    return {"functionCall": {"name": name, "args": args, **({"id": own} if own else {})}}


def result(name: str, value: Any = "ok", own: str | None = None) -> Json:
    return {"functionResponse": {"name": name, "response": {"result": value}, **({"id": own} if own else {})}}


def units(*contents: Json) -> list[int]:
    return gemini.read({"contents": list(contents)}).exchanges.owner


def picture(width: int, height: int) -> str:
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02\0\0\0" + b"\xff\xfb" * 40
    return base64.b64encode(header).decode()


def inline(mime: str, data: str, **more: Any) -> Json:
    return {"inlineData": {"mimeType": mime, "data": data}, **more}


def test_the_neutral_view() -> None:
    """The system instruction comes first, calls are tool_calls, responses are tool messages with the id of their call."""
    body = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [user("a", "b"), model("wait", call("f", n=1)), user(result("f"), "and?")],
    }
    conversation = gemini.read(body)
    shown = conversation.messages()
    assert [message["role"] for message in shown] == ["system", "user", "assistant", "tool", "user"]
    assert (shown[0]["content"], shown[1]["content"], shown[2]["content"]) == ("Be brief.", "a\nb", "wait")
    asked = shown[2]["tool_calls"][0]
    assert asked["function"] == {"name": "f", "arguments": '{"n":1}'}
    assert (shown[3]["name"], shown[3]["content"]) == ("f", '{"result":"ok"}')
    assert shown[3]["tool_call_id"] == asked["id"]
    assert conversation.count() == len(shown)


def test_both_spellings_say_the_same() -> None:
    """camelCase and snake_case, an absent role and `function`: pairs, views and digests are the same."""
    one = [user("q"), model(call("f", "1", n=1)), user(result("f", "x", "1"))]
    other = [
        {"parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"function_call": {"args": {"n": 1}, "name": "f", "id": "2"}}]},
        {
            "role": "function",
            "parts": [{"function_response": {"name": "f", "response": {"result": "x"}, "id": "2"}, "thought": None}],
        },
    ]
    read = [gemini.read({"contents": contents}) for contents in (one, other)]
    assert read[0].roles == read[1].roles == ["user", "assistant", "tool"]
    assert read[0].exchanges.owner == read[1].exchanges.owner == [0, 1, 1]
    assert Trace(read[0]).said(0, 3) == Trace(read[1]).said(0, 3)
    changed = gemini.read({"contents": [user("q"), model(call("f", "1", n=2)), user(result("f", "x", "1"))]})
    assert Trace(changed).said(0, 3) != Trace(read[0]).said(0, 3)


@pytest.mark.parametrize(
    "body",
    [
        {"system_instruction": "S"},
        {"systemInstruction": {"role": "user", "parts": [{"text": "S"}]}},
        {"systemInstruction": {"text": "S"}},
        {"config": {"system_instruction": ["S"]}},
    ],
)
def test_where_the_system_instruction_may_stand(body: Json) -> None:
    """Text, a content, a part, in either spelling, or in the SDK's `config`: it is read and counted."""
    conversation = gemini.read({**body, "contents": [user("q")]})
    assert conversation.messages()[0] == {"role": "system", "content": "S"}
    counted = leave(session(DropOldest(10**6)), gemini, {**body, "contents": [user("q")]})[1]
    assert counted.tokens_overhead > 0


def test_tools_are_counted() -> None:
    """Tool definitions are part of the request's size, wherever they stand (linanwx/nagobot#84)."""
    tools = [{"function_declarations": [{"name": "f", "description": "controls a device " * 40}]}]
    for body in ({"tools": tools}, {"config": {"tools": tools}}):
        report = leave(session(DropOldest(10**6)), gemini, {**body, "contents": [user("q")]})[1]
        assert report.tokens_overhead > 150


@pytest.mark.parametrize(
    ("contents", "owner"),
    [
        ([user("q"), model(call("f"), call("g")), user(result("g"), result("f")), model("a")], [0, 1, 1, 3]),
        ([user("q"), model(call("f")), model(call("g")), user(result("f")), user(result("g"))], [0, 1, 1, 1, 1]),
        ([user("q"), model("Hel"), model("lo"), user("r")], [0, 1, 1, 3]),
        ([user("q"), model(call("f")), user(result("f")), model(call("f")), user(result("f"))], [0, 1, 1, 3, 3]),
        ([user("q"), model(call("f", "1")), user(result("renamed", own="other"))], [0, 1, 1]),
        ([user("q"), model(call("f", "1")), user(result("f", own="1")), user(result("f", own="1"))], [0, 1, 1, 1]),
        ([user(result("f")), model("a")], [0, 1]),
    ],
    ids=["parallel", "one turn in pieces", "streamed text", "same name again", "by place", "answered twice", "orphan"],
)
def test_what_belongs_together(contents: list[Json], owner: list[int]) -> None:
    """A turn of calls and its turn of responses are one unit, with or without ids; a turn of the model is never split."""
    assert units(*contents) == owner


def test_parallel_results_find_their_calls_by_order() -> None:
    """Without ids two calls of one name are answered in their order."""
    conversation = gemini.read(
        {"contents": [user("q"), model(call("f", n=1), call("f", n=2)), user(result("f", 1), result("f", 2))]}
    )
    asked = [each["id"] for each in conversation.neutral(1)[0]["tool_calls"]]
    assert [each["tool_call_id"] for each in conversation.neutral(2)] == asked
    assert len(set(asked)) == 2


def test_what_is_not_understood_is_never_cut() -> None:
    """A part of an unknown kind, or a role that nobody knows, stays where it is; a server tool stays with its turn."""
    known = [model({"toolCall": {"id": "1"}, "thoughtSignature": "c2ln"}, {"toolResponse": {"id": "1"}}), user("x")]
    assert gemini.read({"contents": [user("q"), *known]}).fixed == frozenset()
    odd = gemini.read({"contents": [user("q"), model({"hologram": {}}), {"role": "critic", "parts": [{"text": "?"}]}]})
    assert odd.fixed == {1, 2}
    assert (
        gemini.read({"contents": [user("q"), model({"thought": True, "thoughtSignature": "c2ln"})]}).fixed
        == frozenset()
    )


def test_a_single_content_and_a_text_are_read() -> None:
    """What the SDK makes a list of is one already."""
    for contents in (user("q"), "q"):
        assert gemini.read({"contents": contents}).messages() == [{"role": "user", "content": "q"}]
        assert gemini.check({"contents": contents}) == []


@pytest.mark.parametrize("contents", [None, 7, [7], [None]])
def test_what_is_no_list_of_contents(contents: Any) -> None:
    """Left as it is, with the reason in its report."""
    with pytest.raises(Unreadable):
        gemini.read({"contents": contents})
    body = {"contents": contents}
    sent, report = leave(session(DropOldest(1)), gemini, body)
    assert sent is body
    assert report.reason == "unreadable"


@pytest.mark.parametrize("name", ["cachedContent", "cached_content"])
def test_what_is_cached_on_the_server_is_left_alone(name: str) -> None:
    """The contents are only what follows the cache."""
    body = {name: "cachedContents/1", "contents": [user("q " * 500), model("a"), user("r")]}
    sent, report = leave(session(DropOldest(10)), gemini, body)
    assert sent is body
    assert report.reason == "the server holds the history"


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (inline("image/png", picture(384, 384)), 258),
        (inline("image/png", picture(385, 200)), 258),
        (inline("image/png", picture(1536, 769)), 4 * 258),
        ({"inline_data": {"mime_type": "image/png", "data": picture(1537, 768)}}, 3 * 258),
        (inline("image/png", picture(1536, 769).replace("+", "-").replace("/", "_")), 4 * 258),
        (inline("image/jpeg", "QUJD" * 2000), 4 * 258),
        (inline("application/pdf", base64.b64encode(b"/Type /Page " * 3).decode()), 3 * 258),
        (inline("audio/wav", base64.b64encode(bytes(480_000)).decode()), 1 + 320),
        (inline("video/mp4", base64.b64encode(bytes(1_250_000)).decode()), 1 + 2630),
        (inline("video/mp4", "QUJD", videoMetadata={"startOffset": "5s", "endOffset": "15s"}), 1 + 2630),
        ({"fileData": {"mimeType": "image/png", "fileUri": "gs://x"}}, 4 * 258),
        ({"file_data": {"mime_type": "application/pdf", "file_uri": "gs://x"}}, 10 * 258),
        ({"fileData": {"mimeType": "audio/mp3", "fileUri": "gs://x"}}, 1 + 60 * 32),
        ({"fileData": {"fileUri": "https://example.com/film"}}, 10 * 258),
    ],
)
def test_media_by_the_providers_formula(part: Json, tokens: int) -> None:
    """Pictures by tile, documents by page, sound and film by the second; never by the length of their base64."""
    assert media_tokens(part) == tokens
    data, extra = gemini.read({"contents": []}).reader.imprint(user("see", part), "user")
    assert extra == tokens
    assert len(data) < 200


def test_media_inside_a_response_is_counted_too() -> None:
    """A tool may answer with a picture (Gemini 3)."""
    answer = {"functionResponse": {"name": "f", "response": {}, "parts": [inline("image/png", picture(10, 10))]}}
    assert gemini.read({"contents": [user(answer)]}).contents.media == {0: 258}


def test_many_unreadable_pictures_are_no_zero() -> None:
    """Pictures whose size cannot be read have a figure of their own, so that compaction comes in time (earendil-works/pi#1441)."""
    shot = inline("image/jpeg", "QUJD" * 2000)
    contents = [each for n in range(6) for each in (user(f"Photo {n}", shot), model(f"Seen {n}."))]
    body = {"contents": [*contents, user("Which?")]}
    sent, report = leave(session(DropOldest(2500, keep_head=0, keep_tail=1)), gemini, body)
    assert report.tokens_before > 2500 >= report.tokens_after
    assert [content["role"] for content in sent["contents"]] == ["user", "model"] * (len(sent["contents"]) // 2) + [
        "user"
    ]


def test_signatures_of_kept_calls_stay() -> None:
    """Kept contents are the caller's own, with their signatures, and the history still begins with a user turn (karthink/gptel#1146)."""
    signed = model({"function_call": {"name": "skill", "args": {"n": 1}, "id": "s1"}, "thought_signature": "c2lnLTE="})
    answer = user({"function_response": {"name": "skill", "response": {"r": "a"}, "id": "s1"}})
    body = {"contents": [user("old chat " + "filler " * 60), model("ok"), user("List skills"), signed, answer]}
    sent, report = leave(session(DropOldest(90, keep_head=0, keep_tail=2)), gemini, body)
    assert report.changed
    assert sent["contents"] == [user("List skills"), signed, answer]
    assert sent["contents"][1] is signed


def test_the_history_begins_with_a_user_turn() -> None:
    """Whatever the policy drops, what would stand before the first kept question goes with it, and no plan fails its check."""
    seen = EventCapture()
    contents = [
        each for n in range(6) for each in (user(f"{n} " * 30), model(call("f")), user(result("f")), model("a " * 20))
    ]
    for tail in range(1, 8):
        body = {"contents": [*contents, user("q")]}
        for budget in range(40, 400, 20):
            state = session(DropOldest(budget, keep_head=0, keep_tail=tail, target=1.0), on_event=seen)
            sent = leave(state, gemini, body)[0]["contents"]
            assert sent[0]["role"] == "user"
            assert "text" in sent[0]["parts"][0]
    assert "compaction.applied" in seen.names
    assert "compaction.rejected" not in seen.names


WRONG: dict[str, tuple[str, str, list[Json]]] = {
    "nothing": ("ge-empty", "contents is not specified", []),
    "role": ("ge-role", "Please use a valid role: user, model", [{"role": "assistant", "parts": [{"text": "x"}]}]),
    "no parts": ("ge-parts", "at least one parts field", [user("x"), model(), user("y")]),
    "no data": ("ge-part", "required oneof field 'data'", [user({"mime": "x"})]),
    "call first": ("ge-call-place", "immediately after a user turn", [model(call("f")), user(result("f"))]),
    "orphan": ("ge-response-place", "immediately after a function call turn", [user("x"), user(result("f"))]),
    "too few": (
        "ge-count",
        "function response parts is equal",
        [user("x"), model(call("f"), call("g")), user(result("f"))],
    ),
    "unanswered": ("ge-count", "function response parts is equal", [user("x"), model(call("f")), user("y")]),
    "model last": ("ge-last", "end with a user role", [user("x"), model("y")]),
    "model first": ("ge-first", "First content should be with role 'user'", [model("x"), user("y")]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_the_provider_refuses(name: str) -> None:
    """Each rule is found, in the provider's words."""
    rule, words, contents = WRONG[name]
    broken = {each.rule: each.message for each in gemini.check({"contents": contents})}
    assert words in broken[rule]


def test_unsigned_calls_of_the_current_turn() -> None:
    """From Gemini 3 on the first call of each step after the last user message is signed; older turns and models are free."""
    contents = [
        user("a"),
        model(call("f")),
        user(result("f")),
        model("b"),
        user("c"),
        model(call("g")),
        user(result("g")),
    ]
    assert gemini.check({"model": "gemini-2.5-flash", "contents": contents}) == []
    found = gemini.check({"model": "gemini-3-pro", "contents": contents})
    assert [(each.rule, each.where) for each in found] == [("ge-signature", "contents[5]")]
    assert "missing a thought_signature" in found[0].message
    signed = model({**call("g"), "thought_signature": "c2ln"})
    assert gemini.check({"model": "gemini-3-pro", "contents": [*contents[:5], signed, contents[6]]}) == []


def test_a_cache_excludes_what_it_holds() -> None:
    """System instruction and tools are in the cache already."""
    found = gemini.check({"cachedContent": "x", "tools": [{}], "contents": [user("q")]})
    assert [each.rule for each in found] == ["ge-cached"]


def test_usage() -> None:
    """In either spelling, typed or not; thoughts are output; a chunk without usage changes nothing."""
    told = {"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}
    assert gemini.usage({"usageMetadata": told}) == Usage(9, 4, 5)
    assert gemini.usage({"usage_metadata": {"prompt_token_count": 9}}) == Usage(9, 0, 0)
    assert gemini.usage({}, Usage(1, 0, 1)) == Usage(1, 0, 1)
    assert gemini.usage({"usageMetadata": {"trafficType": "ON_DEMAND"}}) is None


@pytest.mark.parametrize("role", ["user", "model"])
def test_a_plain_text_is_the_same_in_every_spelling(role: str) -> None:
    """Empty fields and a missing role change no digest, neither one of this process nor one that is stored."""
    plain = {"role": role, "parts": [{"text": "naïve"}]}
    others: list[Any] = [
        {"role": role, "parts": [{"text": "naïve", "functionCall": None}]},
        {"role": role, "parts": "naïve"},
        *(["naïve", {"parts": [{"text": "naïve"}]}] if role == "user" else []),
    ]
    traces = [Trace(gemini.read({"contents": [each]})) for each in (plain, *others)]
    assert len({trace.hashed(0, 1) for trace in traces}) == 1
    assert {trace.said(0, 1) for trace in traces} == {dump(plain) + b","}
    assert len({dump(trace.meaning(0)) for trace in traces}) == 1
