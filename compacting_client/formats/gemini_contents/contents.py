"""What a look into Gemini contents shows: their imprints, calls, responses and media."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from compacting_client.core.conversation import OTHER, Contents
from compacting_client.core.imprints import Imprint, Plain
from compacting_client.core.tokens import dump
from compacting_client.formats.base import as_dict, column
from compacting_client.formats.gemini_contents.pairs import Pairs
from compacting_client.formats.gemini_contents.parts import (
    TEXT_ALONE,
    answers_alone,
    camel,
    field,
    is_known,
    kind_of,
    kinds_in,
    media_tokens,
    parts_of,
)

__all__ = ["MODEL", "PLAIN", "ROLES", "imprint", "look", "may_hold_media", "roles_of"]

MODEL = "model"
ROLES = {MODEL: "assistant", "user": "user", "function": "user"}

_WRITTEN = {"assistant": MODEL, "user": "user"}


def _content(role: str, text: str) -> dict[str, Any]:
    return {"role": _WRITTEN[role], "parts": [{"text": text}]}


PLAIN = Plain({role: len(dump(_content(role, ""))) - len('""') for role in _WRITTEN}, _content)
_MEDIA = ("inlineData", "fileData")


def roles_of(items: Sequence[Mapping[str, Any]], kinds: Sequence[Sequence[str]]) -> list[str]:
    """The neutral role of each content; `kinds`: of its parts."""
    roles = [*map(ROLES.get, [role or "user" for role in column(items, "role")], repeat(OTHER))]
    for index, each in enumerate(kinds):
        if each is not TEXT_ALONE and roles[index] == "user" and set(each) == {"functionResponse"}:
            roles[index] = "tool"
    return roles


def imprint(item: Any, role: str) -> tuple[Imprint, int]:
    """The imprint of a content of this neutral role, and the tokens of its media."""
    if role in _WRITTEN and len(item) == 2 and item.get("role") == _WRITTEN[role] and kinds_in([item])[0] is TEXT_ALONE:
        return item["parts"][0]["text"], 0
    light, tokens = _without_media(parts_of(item))
    return dump({**item, "parts": light} if tokens else item), tokens


def may_hold_media(items: Sequence[Mapping[str, Any]], kinds: Sequence[Sequence[str]]) -> bool:
    """Whether a part, or a response, may hold some."""
    rich = [index for index, each in enumerate(kinds) if each is not TEXT_ALONE]
    if any("inlineData" in kinds[index] or "fileData" in kinds[index] for index in rich):
        return True
    return not all(answers_alone(items[index]) for index in rich if "functionResponse" in kinds[index])


def look(
    items: Sequence[dict[str, Any]], kinds: Sequence[Sequence[str]], roles: Sequence[str], pairs: Pairs
) -> Contents:
    """One pass over all that is more than text of a user or the model."""
    imprints: list[Any] = [
        item["parts"][0]["text"]
        if each is TEXT_ALONE and len(item) == 2 and item.get("role") == _WRITTEN.get(role)
        else None
        for item, each, role in zip(items, kinds, roles, strict=True)
    ]
    rich = [index for index, text in enumerate(imprints) if text is None]
    costs, counts, fixed = dict[int, int](), [1] * len(items), set[int]()
    for index in rich:
        item, each = items[index], kinds[index]
        responses = each.count("functionResponse")
        if responses:
            counts[index] = responses + (responses < len(each))
        if roles[index] == OTHER or ("" in each and not all(map(is_known, parts_of(item)))):
            fixed.add(index)
        if "inlineData" in each or "fileData" in each or (responses and not answers_alone(item)):
            imprints[index], tokens = imprint(item, OTHER)
            if tokens:
                costs[index] = tokens
        else:
            imprints[index] = dump(item)
    # one turn of the model may be spread over several contents, as a chat keeps what was streamed
    links = [(n - 1, n) for n in range(1, len(roles)) if roles[n - 1] == roles[n] == "assistant"]
    return Contents(imprints, costs, pairs.calls, pairs.answers, rich, links, fixed, counts=counts)


def _without_media(parts: Sequence[dict[str, Any]]) -> tuple[list[Any], int]:
    """The parts without the data of their media, those inside of responses too, and the tokens that it costs."""
    light: list[Any] = []
    tokens = 0
    for part in parts:
        what = kind_of(part)
        if what in _MEDIA:
            tokens += media_tokens(part)
            light.append({name: None if camel(name) == what else value for name, value in part.items()})
        elif what == "functionResponse" and (inside := parts_of(field(part, what))):
            inner, cost = _without_media(inside)
            tokens += cost
            response = {**(as_dict(field(part, what)) or {}), "parts": inner}
            light.append({name: response if camel(name) == what else value for name, value in part.items()})
        else:
            light.append(part)
    return light, tokens
