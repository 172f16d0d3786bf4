"""What generateContent refuses: roles, empty turns, the place of calls and responses, their number, signatures.

Neighbouring contents of one role are one turn to the API.  Wordings are the provider's, as quoted in public reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from compacting_client.formats.base import Violation
from compacting_client.formats.gemini_contents.parts import field, is_known, kind_of, parts_of
from compacting_client.formats.gemini_contents.reading import FIELD, items_of

__all__ = ["check", "signatures"]

_VERSION = re.compile(r"gemini-(\d+)")
_SIGNED_SINCE = 3


class _Turn(NamedTuple):
    first: int
    role: str
    parts: list[dict[str, Any]]

    def number(self, what: str) -> int:
        return sum(kind_of(part) == what for part in self.parts)

    @property
    def calls(self) -> int:
        return self.number("functionCall")

    @property
    def responses(self) -> int:
        return self.number("functionResponse")


def check(body: Mapping[str, Any]) -> list[Violation]:
    """What the provider would refuse in this body; [] where nothing is."""
    items = items_of(body)
    if not items:
        return [Violation("ge-empty", FIELD, "* GenerateContentRequest.contents: contents is not specified")]
    contents = [parts_of(item) for item in items]
    roles = [str(item.get("role") or "user") for item in items]
    turns = _turns(roles, contents)
    found = [*_shape(roles, contents), *_exchanges(turns), *_unsigned(str(body.get("model")), roles, contents)]
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


def _turns(roles: Sequence[str], contents: Sequence[list[dict[str, Any]]]) -> list[_Turn]:
    """Neighbours of one role joined; but a response never joins a plain user turn before it."""
    turns: list[_Turn] = []
    for index, (role, parts) in enumerate(zip(roles, contents, strict=True)):
        turn = _Turn(index, "user" if role == "function" else role, list(parts))
        if turns and turns[-1].role == turn.role and (turns[-1].responses or not turn.responses):
            turns[-1].parts.extend(parts)
        else:
            turns.append(turn)
    return turns


def _shape(roles: Sequence[str], contents: Sequence[Sequence[Mapping[str, Any]]]) -> Iterator[Violation]:
    for index, (role, parts) in enumerate(zip(roles, contents, strict=True)):
        where = f"{FIELD}[{index}]"
        if role not in ("user", "model", "function"):
            yield Violation("ge-role", where, "Please use a valid role: user, model.")
        if not parts:  # anomalyco/opencode#17519
            message = "Unable to submit request because it must include at least one parts field, which describes the prompt input."
            yield Violation("ge-parts", where, message)
        for number, part in enumerate(parts):
            if not is_known(part):
                at = f"{where}.parts[{number}]"
                message = (
                    f"* GenerateContentRequest.{at}.data: required oneof field 'data' must have one initialized field"
                )
                yield Violation("ge-part", at, message)


def _exchanges(turns: Sequence[_Turn]) -> Iterator[Violation]:
    for number, turn in enumerate(turns):
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


def _unsigned(model: str, roles: Sequence[str], contents: Sequence[Sequence[Mapping[str, Any]]]) -> Iterator[Violation]:
    """Gemini 3: after the last user message the first call of each step is signed (nanbingxyz/5ire#405)."""
    if not signs(model):
        return
    calls = [[part for part in parts if kind_of(part) == "functionCall"] for parts in contents]
    asked = [
        index
        for index, parts in enumerate(contents)
        if roles[index] != "model" and any(kind_of(part) != "functionResponse" for part in parts)
    ]
    for index in range(asked[-1] + 1 if asked else 0, len(contents)):
        joined = index > 0 and roles[index - 1] == "model" and calls[index - 1]
        if roles[index] == "model" and calls[index] and not joined and not field(calls[index][0], "thoughtSignature"):
            name = field(field(calls[index][0], "functionCall"), "name")
            message = (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
                f"correctly. Additional data, function call `default_api:{name}` , position {index + 1}."
            )
            yield Violation("ge-signature", f"{FIELD}[{index}]", message)
