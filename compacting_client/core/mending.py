"""What a function made of the messages, turned into a decision: matched, checked and mended (DESIGN 2).

The function sees copies.  Each message that it returns is matched by identity, then by `tool_call_id`, then with the first unused equal
message that keeps the order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from compacting_client.core.conversation import ItemEdit, Message
from compacting_client.core.edits import Inserted, Shortened, placed
from compacting_client.core.quoting import plain
from compacting_client.core.tokens import dump, estimate
from compacting_client.core.view import Choice, View
from compacting_client.errors import PolicyError

__all__ = ["Shown", "asked", "decided"]


@dataclass(frozen=True, slots=True)
class Shown:
    """One neutral message and what it stands for: part `part` of item `at`, or an inserted text; ``at=None``: kept outside the history."""

    message: Message
    at: int | None = None
    part: int = 0
    inserted: Inserted | None = None


def asked(view: View) -> tuple[list[Shown], list[Message]]:
    """The messages that are there, and copies of them, which a function may change."""
    conversation, edits = view.conversation, view.edits.by_item()
    texts: dict[tuple[int, str], list[Shown]] = defaultdict(list)
    for each in view.edits.inserted:
        side = "end" if each.side == "end" else "start"
        role = "system" if each.side in ("system", "instruction") else "user"
        texts[each.at, side].append(Shown({"role": role, "content": each.text}, each.at, inserted=each))
    shown = [Shown(plain(message)) for message in conversation.head]
    for index in range(len(conversation)):
        if index in view.gone:
            continue
        shown += texts.get((index, "start"), ())
        edit = edits.get(index)
        for part, message in enumerate(conversation.neutral(index)):
            shown.append(Shown(plain(message if edit is None else _now(message, part, edit)), index, part))
        shown += texts.get((index, "end"), ())
    return shown, [plain(each.message) for each in shown]


def _now(message: Message, part: int, edit: ItemEdit) -> Message:
    """A message as it is sent by now."""
    if part in edit.parts:
        return {**message, "content": edit.parts[part]}
    if not (edit.emptied and message.get("tool_calls")):
        return message
    calls = [
        {**call, "function": {**call["function"], "arguments": "{}"}} if number in edit.emptied else call
        for number, call in enumerate(message["tool_calls"])
    ]
    return {**message, "tool_calls": calls}


def decided(view: View, shown: Sequence[Shown], copies: Sequence[Message], returned: Any) -> Choice | None:
    """The choice that `returned` stands for; None where it changes nothing.  Raises PolicyError for what cannot be sent."""
    if not isinstance(returned, list):
        raise PolicyError(f"the policy must return a list of messages, not {type(returned).__name__}")
    messages = cast("list[Any]", returned)
    for message in messages:
        if not isinstance(message, dict):
            raise PolicyError(f"the policy returned a list with a {type(message).__name__}; messages are dicts")
    places = _matched(shown, copies, messages)
    if not _in_order(places):
        raise PolicyError("the policy returned the messages in another order")
    _refuse_edited(shown, messages, places)
    kept, whole = _parts([shown[place] for place in places if place is not None]), _parts(shown)
    unit = view.conversation.exchanges.unit
    half = {first for first in view.units() if any(kept.get(index, 0) < whole[index] for index in unit(first))}
    shortened = _shortened(shown, messages, places)
    texts = _texts(len(view.conversation), shown, messages, places)
    if _grown(shown, messages, places):
        raise PolicyError("the policy returned more than it was given")
    dropped = half - view.pinned
    inserted = placed(view.conversation, view.gone | _items(view, dropped), texts)
    if not any(each.side == "own" for each in inserted):
        dropped = view.mended(dropped)
        inserted = placed(view.conversation, view.gone | _items(view, dropped), texts)
    gone = _items(view, dropped)
    found = Choice(
        frozenset(dropped),
        "policy",
        shortened=tuple(each for each in shortened if each.at not in gone),
        inserted=inserted if inserted != view.edits.inserted else None,
    )
    return found or None


def _refuse_edited(shown: Sequence[Shown], messages: Sequence[Message], places: Sequence[int | None]) -> None:
    """Raises PolicyError where texts of user and assistant are not dropped and replaced by others, but changed one by one.

    New ones that stand in the place of as many absent ones, role by role, are those with other words: sent as inserted text they would all
    be the user's, and stand elsewhere.  One alone may be a note in the place of what went, unless it reads like that.
    """
    known = [
        (-1, -1),
        *((n, place) for n, place in enumerate(places) if place is not None),
        (len(messages), len(shown)),
    ]
    changed: list[tuple[int, Message, Message]] = []
    for (start, above), (stop, below) in pairwise(known):
        new = messages[start + 1 : stop]
        absent = [each.message for each in shown[above + 1 : below] if each.inserted is None]
        if [message.get("role") for message in new] == [message.get("role") for message in absent]:
            changed += zip(range(above + 1, below), absent, new, strict=False)
    if len(changed) > 1 or any(_alike(old.get("content"), new.get("content")) for _, old, new in changed):
        place, old, _ = changed[0]
        raise PolicyError(
            f"the policy changed message {place} ({old.get('role')}): only tool results can be changed; drop a message, or replace several by "
            "one text"
        )


_SHORT = 4  # characters, of which nothing can be told


def _alike(old: Any, new: Any) -> bool:
    """Whether one text is made of the other: a part of it, or with what they begin or end with in common."""
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    one, other = old.strip(), new.strip()
    shorter = min(len(one), len(other))
    if shorter < _SHORT:
        return one == other
    shared = _in_common(one, other) + _in_common(one[::-1], other[::-1])
    return 2 * shared >= shorter or one in other or other in one


def _in_common(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _items(view: View, units: set[int]) -> set[int]:
    return {index for first in units for index in view.conversation.exchanges.unit(first)}


def _parts(shown: Sequence[Shown]) -> dict[int, int]:
    """Item -> how many of its messages are here."""
    found: dict[int, int] = {}
    for each in shown:
        if each.at is not None and each.inserted is None:
            found[each.at] = found.get(each.at, 0) + 1
    return found


def _matched(shown: Sequence[Shown], copies: Sequence[Message], messages: Sequence[Message]) -> list[int | None]:
    """For each returned message, which of the shown ones it is; None: a new one."""
    number = {id(each): place for place, each in enumerate(copies)}
    places: list[int | None] = [None] * len(messages)
    used: set[int] = set()
    for index, message in enumerate(messages):
        place = number.get(id(message))
        if place is not None and place not in used and _is(shown[place].message, message):
            places[index] = place
            used.add(place)
    if None in places:
        tries = [_with_copies(shown, messages, places, used, anchor_results=first) for first in (True, False)]
        places = next((found for found in tries if _in_order(found)), tries[0])
    return places


def _in_order(places: Sequence[int | None]) -> bool:
    known = [place for place in places if place is not None]
    return known == sorted(known)


def _with_copies(
    shown: Sequence[Shown],
    messages: Sequence[Message],
    matched: Sequence[int | None],
    taken: set[int],
    *,
    anchor_results: bool,
) -> list[int | None]:
    """`matched` with the places of copies: first where there is only one; then the first that keeps the order, calls beside their results.

    Where call ids are used again, a shortened result may read like another one: then results are not to be held for the only one of their kind.
    """
    places, used = list(matched), set(taken)
    equal: dict[Any, list[int]] = defaultdict(list)
    by_call: dict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(shown):
        if place not in used:
            equal[dump(each.message)].append(place)
            by_call[_call(each.message)].append(place)
    keys = {index: dump(message) for index, message in enumerate(messages) if places[index] is None}
    several = Counter(keys.values())
    for index, key in keys.items():
        alone = several[key] == len(equal.get(key, ())) == 1
        if alone and (anchor_results or not _call(messages[index])):
            places[index] = equal[key][0]
            used.add(equal[key][0])
    bounds, bound = list[int](), len(shown)
    for found in reversed(places):
        bounds.append(bound)
        bound = bound if found is None else found
    bounds.reverse()
    last = -1
    for index, message in enumerate(messages):
        if (match := places[index]) is None:
            exact = [each for each in equal.get(keys[index], ()) if each not in used]
            same_call = [each for each in by_call.get(_call(message), ()) if _call(message) and each not in used]
            if not (exact or same_call):
                continue
            match = places[index] = _best(shown, message, exact, same_call, range(last + 1, bounds[index]))
            used.add(match)
        last = match
    return places


def _best(
    shown: Sequence[Shown], message: Message, exact: Sequence[int], same_call: Sequence[int], window: range
) -> int:
    """The first of several places inside the window that keeps the order, equal ones before others; for a call the one before its results.

    Where call ids are used again, a result is not taken for a shorter form of one that is shorter still.
    """
    inside = [place for place in (*exact, *same_call) if place in window]
    if inside and message.get("tool_calls") and window[-1] in inside:
        return window[-1]
    fitting = (place for place in inside if not _larger(message, shown[place].message))
    return next(fitting, (*inside, *exact, *same_call)[0])


def _is(message: Message, returned: Message) -> bool:
    """Whether a copy is still the message that it was made of, or a tool result that was shortened in its place."""
    return message == returned or bool(_call(message) and _call(message) == _call(returned))


def _larger(message: Message, than: Message) -> bool:
    return estimate(message.get("content")) > estimate(than.get("content"))


def _call(message: Message) -> str:
    """The call that a tool result answers; "" for other messages."""
    return str(message.get("tool_call_id")) if message.get("role") == "tool" else ""


def _shortened(shown: Sequence[Shown], messages: Sequence[Message], places: Sequence[int | None]) -> list[Shortened]:
    found: list[Shortened] = []
    for message, place in zip(messages, places, strict=True):
        content = message.get("content")
        if place is None or content == shown[place].message.get("content"):
            continue
        at, part = shown[place].at, shown[place].part
        if not isinstance(content, (str, list)):
            raise PolicyError(
                f"the policy gave a tool result a content of type {type(content).__name__}; text was expected"
            )
        if at is None or _larger(message, shown[place].message):
            raise PolicyError("the policy made a tool result larger")
        found.append(Shortened(at, part, plain(content)))
    return found


def _grown(shown: Sequence[Shown], messages: Sequence[Message], places: Sequence[int | None]) -> bool:
    """Whether there is more new text than there was in what is not returned, or is shorter now."""
    new = [message for message, place in zip(messages, places, strict=True) if place is None]
    if not new:
        return False
    kept = [message for message, place in zip(messages, places, strict=True) if place is not None]
    return sum(map(estimate, new)) + sum(map(estimate, kept)) > sum(estimate(each.message) for each in shown)


def _texts(
    end: int, shown: Sequence[Shown], messages: Sequence[Message], places: Sequence[int | None]
) -> list[Inserted]:
    """The inserted texts, old and new, in their order; those in the system prompt stay.

    Raises PolicyError for new messages that are no text of user or assistant.
    """
    found: list[Inserted] = []
    at = end
    for message, place in zip(reversed(messages), reversed(places), strict=True):
        if place is None:
            found.append(Inserted(at, "unplaced", _new_text(message)))
            continue
        each = shown[place]
        if each.inserted is not None:
            found.append(each.inserted)
            at = each.inserted.at + (each.inserted.side == "end")
        else:
            at = 0 if each.at is None else each.at
    returned = {*places}
    stays = [each.inserted for place, each in enumerate(shown) if each.inserted is not None and place not in returned]
    return [*(each for each in stays if each.side in ("system", "instruction")), *found[::-1]]


def _new_text(message: Message) -> str:
    """The text of a new message."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant") or message.get("tool_calls") or message.get("tool_call_id"):
        raise PolicyError(
            f"the policy returned a new or changed message of role {role!r}; "
            "only plain texts of user or assistant can be inserted, and only tool results shortened"
        )
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        blocks = [cast("dict[str, Any]", part) for part in parts if isinstance(part, dict)]
        texts = [block.get("text") for block in blocks if block.get("type") == "text"]
        content = "\n".join(map(str, texts)) if len(texts) == len(parts) else None
    if not isinstance(content, str) or not content.strip():
        raise PolicyError(f"the policy inserted a {role} message without text")
    return content
