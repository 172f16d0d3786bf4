"""An entry as text, for stores outside of the process: JSON in ASCII, of a numbered form.

Nothing but an entry comes out of it, whatever a file or server holds: what is no entry of this form is None.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Literal

from compacting_client.core.claims import UNCLAIMED, Claimed
from compacting_client.core.edits import Edits, Inserted, Shortened
from compacting_client.core.prefix import Entry, Gap

__all__ = ["claimed", "decoded", "encoded", "name_of"]

_FORM = 1  # to be raised when an older version could misread an entry


def encoded(entry: Entry) -> str:
    """`entry` as text; equal entries give the same.  Raises TypeError where a content is no JSON."""
    facts = {
        "v": _FORM,
        "length": entry.length,
        "digest": entry.digest,
        "gaps": [[gap.start, gap.stop, gap.age] for gap in entry.gaps],
        "edited_at": entry.edited_at,
        "edit": entry.edit,
        "policy": entry.policy,
        "place": entry.place,
        "shortened": [[each.at, each.part, each.kind, each.content] for each in entry.edits.shortened],
        "inserted": [[each.at, each.side, each.text] for each in entry.edits.inserted],
    }
    return json.dumps(facts, separators=(",", ":"))


def decoded(text: str) -> Entry | None:
    """The entry that `text` stands for; None for one of another form, as other versions may write, and for what is none."""
    try:
        facts = json.loads(text)
        if facts["v"] != _FORM:
            return None
        return Entry(
            _whole(facts["length"]),
            _text(facts["digest"]),
            tuple(Gap(*map(_whole, gap)) for gap in facts["gaps"]),
            _whole(facts["edited_at"]),
            _text(facts["edit"]),
            _text(facts["policy"]),
            None if facts["place"] is None else _whole(facts["place"]),
            _edits(facts["shortened"], facts["inserted"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def name_of(text: str) -> str:
    """A short name for the entry that `text` stands for; two entries of a conversation never share one."""
    return sha256(text.encode()).hexdigest()[:32]


def claimed(stored: str | None) -> Claimed:
    """What a claim of another's says, whose text is stored as JSON once it is made; where that is no text, nobody is waited for."""
    if not stored:
        return Claimed()
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        found = None
    return Claimed(text=found) if isinstance(found, str) else UNCLAIMED


def _edits(shortened: Iterable[Any], inserted: Iterable[Any]) -> Edits:
    return Edits(
        tuple(Shortened(_whole(at), _whole(part), content, _kind(kind)) for at, part, kind, content in shortened),
        tuple(Inserted(_whole(at), _side(side), _text(text)) for at, side, text in inserted),
    )


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _side(value: Any) -> Literal["start", "end", "own", "system", "instruction"]:
    if value not in ("start", "end", "own", "system", "instruction"):
        raise ValueError
    side: Literal["start", "end", "own", "system", "instruction"] = value
    return side


def _kind(value: Any) -> Literal["shortened", "cleared", "emptied"]:
    if value not in ("shortened", "cleared", "emptied"):
        raise ValueError
    kind: Literal["shortened", "cleared", "emptied"] = value
    return kind
