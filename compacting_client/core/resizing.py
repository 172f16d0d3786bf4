"""What items weigh once they are edited."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

from compacting_client.core.conversation import OTHER, ItemEdit
from compacting_client.core.edits import Edits, Inserted, weighed
from compacting_client.core.effects import Effect
from compacting_client.core.measure import Measure
from compacting_client.core.tokens import of_length, units, utf16_length

__all__ = ["in_system", "resized"]

_SHORT = "."  # stands for a text whose length is known


def resized(measured: Measure, edits: Edits) -> Generator[Effect, Any, dict[int, float]]:
    """Tokens of each item that `edits` change, with those of an own item before it.  Raises PolicyError as `measure` does."""
    if measured.resized is not None and measured.resized[0] == edits:
        return measured.resized[1]
    found: dict[int, float] = {}
    reader, items = measured.conversation.reader, measured.conversation.items
    for index, edit in edits.by_item().items():
        texts = [each for each in edits.inserted if each.at == index] if edit.start or edit.end else []
        size = _extended(measured, items[index], edit, texts)
        if size is None:
            size = yield from measured.sizes_of(weighed(reader, items[index], edit))
        found[index] = size
    measured.resized = edits, found
    return found


def in_system(measured: Measure, edits: Edits) -> Generator[Effect, Any, dict[int, float]]:
    """The part of `resized` that stands at the end of the system prompt, for the items that it is counted with."""
    texts = {index: edit.system for index, edit in edits.by_item().items() if edit.system}
    found: dict[int, float] = {}
    for index, each in texts.items():
        found[index] = yield from measured.sizes_of([measured.conversation.reader.own(each)])
    return found


def _extended(measured: Measure, item: Any, edit: ItemEdit, texts: Sequence[Inserted]) -> float | None:
    """Tokens of an item with texts at its start and end, which are not put together for that; None where it is counted otherwise.

    All formats write a text as a JSON string, whatever stands around it, and in JSON every character has a length of its own.
    """
    if not texts or edit.own or edit.system or not measured.by_estimate:
        return None
    short = replace(edit, start=[_SHORT] * len(edit.start), end=[_SHORT] * len(edit.end))
    imprint, media = measured.conversation.reader.imprint(measured.conversation.reader.edited(item, short), OTHER)
    if type(imprint) is not bytes or not imprint.startswith(b'{"'):  # a `repr`, of what is no JSON
        return None
    longer = sum([(units(each.text) if each.units is None else each.units) - units(_SHORT) for each in texts])
    return measured.scaled(of_length(utf16_length(imprint) + longer), media)
