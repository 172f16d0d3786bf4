"""What generateContent refuses: roles, empty turns, the place of calls and responses, their number, signatures.

Neighbouring contents of one role are one turn to the API.  Wordings are the provider's, as quoted in public reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from compacting_client.formats.base import Violation, column
from compacting_client.formats.gemini_contents.parts import TEXT_ALONE, field, is_known, kinds_in, parts_of
from compacting_client.formats.gemini_contents.reading import FIELD, items_of

__all__ = ["check", "signatures"]

_VERSION = re.compile(r"gemini-(\d+)")
_SIGNED_SINCE = 3
_ROLES = frozenset({"user", "model", "function"})


class _Turn(NamedTuple):
    first: int
    role: str
    calls: int
    responses: int


def check(body: Mapping[str, Any]) -> list[Violation]:
    """What the provider would refuse in this body; [] where nothing is."""
    items = items_of(body)
    if not items:
        return [Violation("ge-empty", FIELD, "* GenerateContentRequest.contents: contents is not specified")]
    kinds = kinds_in(items)
    roles = [str(role or "user") for role in column(items, "role")]
    turns = _turns(roles, kinds)
    found = [*_shape(roles, items, kinds), *_exchanges(turns), *_unsigned(str(body.get("model")), roles, items, kinds)]
    if turns[-1].role == "model":  # crewAIInc/crewAI#6973
        message = "Please ensure that single turn requests end with a user role or the role field is empty."
        found.append(Violation("ge-last", f"{FIELD}[{turns[-1].first}]", message))
    if turns[0].role == "model":
        found.append(Violation("ge-first", f"{FIELD}[0]", "First content should be with role 'user', got model"))
    if field(body, "cachedContent") and any(field(body, name) for name in ("systemInstruction", "tools", "toolConfig")):
        message = (
            "Tool config, tools and system instruction should not be set in the request when using cached content."
        )
        found.append(Violation("ge-cached", "cachedContent", message))
    return found


def signatures(contents: Sequence[Any]) -> Iterator[tuple[str, str, str]]:
    """(where, signature, name of the called function or "") of each signed part."""
    for index, item in enumerate(contents):
        for number, part in enumerate(parts_of(item)):
            if signature := field(part, "thoughtSignature"):
                name = field(field(part, "functionCall"), "name")
                yield f"{FIELD}[{index}].parts[{number}]", str(signature), str(name or "")


def signs(model: str) -> bool:
    """Whether calls of this model carry a signature that has to come back: Gemini 3 and later."""
    found = _VERSION.search(model)
    return found is not None and int(found[1]) >= _SIGNED_SINCE and "image" not in model


def _turns(roles: Sequence[str], kinds: Sequence[Sequence[str]]) -> list[_Turn]:
    """Neighbours of one role joined; but a response never joins a plain user turn before it."""
    turns: list[_Turn] = []
    last, answered = None, 0
    for index, (role, each) in enumerate(zip(roles, kinds, strict=True)):
        if role == "function":
            role = "user"
        calls, responses = (
            (0, 0) if each is TEXT_ALONE else (each.count("functionCall"), each.count("functionResponse"))
        )
        if role == last and (answered or not responses):
            before = turns[-1]
            turns[-1] = _Turn(before.first, role, before.calls + calls, before.responses + responses)
            answered += responses
        else:
            turns.append(_Turn(index, role, calls, responses))
            last, answered = role, responses
    return turns


def _shape(
    roles: Sequence[str], items: Sequence[Mapping[str, Any]], kinds: Sequence[Sequence[str]]
) -> Iterator[Violation]:
    for index, (role, each) in enumerate(zip(roles, kinds, strict=True)):
        if each is TEXT_ALONE and role in _ROLES:
            continue  # what most are
        where = f"{FIELD}[{index}]"
        if role not in _ROLES:
            yield Violation("ge-role", where, "Please use a valid role: user, model.")
        if not each:  # anomalyco/opencode#17519
            message = "Unable to submit request because it must include at least one parts field, which describes the prompt input."
            yield Violation("ge-parts", where, message)
        if "" not in each:
            continue
        for number, part in enumerate(parts_of(items[index])):
            if not is_known(part):
                at = f"{where}.parts[{number}]"
                message = (
                    f"* GenerateContentRequest.{at}.data: required oneof field 'data' must have one initialized field"
                )
                yield Violation("ge-part", at, message)


def _exchanges(turns: Sequence[_Turn]) -> Iterator[Violation]:
    for number, turn in enumerate(turns):
        if not (turn.calls or turn.responses):
            continue
        where = f"{FIELD}[{turn.first}]"
        before = turns[number - 1] if number else None
        after = turns[number + 1] if number + 1 < len(turns) else None
        calls = turn.calls if turn.role == "model" else 0
        if calls and (before is None or before.role != "user"):  # google-gemini/gemini-cli#11814
            message = "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
            yield Violation("ge-call-place", where, message)
        if turn.responses and not (before is not None and before.calls):  # langchain-ai/langchain#27799
            message = "Please ensure that function response turn comes immediately after a function call turn."
            yield Violation("ge-response-place", where, message)
        uneven = turn.responses and before is not None and before.calls and before.calls != turn.responses
        if uneven or (calls and after is not None and not after.responses):  # google-gemini/gemini-cli#16415
            message = (
                "Please ensure that the number of function response parts is equal to the number of function call parts "
                "of the function call turn."
            )
            yield Violation("ge-count", where, message)


def _unsigned(
    model: str, roles: Sequence[str], items: Sequence[Mapping[str, Any]], kinds: Sequence[Sequence[str]]
) -> Iterator[Violation]:
    """Gemini 3: after the last user message the first call of each step is signed (nanbingxyz/5ire#405)."""
    if not signs(model):
        return
    start = len(items)
    while start and (roles[start - 1] == "model" or set(kinds[start - 1]) <= {"functionResponse"}):
        start -= 1
    for index in range(start, len(items)):
        joined = index > 0 and roles[index - 1] == "model" and "functionCall" in kinds[index - 1]
        if roles[index] != "model" or joined or "functionCall" not in kinds[index]:
            continue
        call = parts_of(items[index])[kinds[index].index("functionCall")]
        if not field(call, "thoughtSignature"):
            name = field(field(call, "functionCall"), "name")
            message = (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
                f"correctly. Additional data, function call `default_api:{name}` , position {index + 1}."
            )
            yield Violation("ge-signature", f"{FIELD}[{index}]", message)
