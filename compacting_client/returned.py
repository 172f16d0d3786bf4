"""What a tool returns: the history has it as text, also where it was none."""

from __future__ import annotations

import json
import typing
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from types import UnionType
from typing import Any

from compacting_client.core.facts import text_of
from compacting_client.core.reuse import Key

__all__ = ["Returned"]

_NOTED = 1000
"""Calls whose kind of result is remembered, of each function."""


class Returned:
    """Makes a content of the history what a function returns.

    By its return annotation; without one, by what it returned for the same call before; else the content is given as the history has it.
    """

    def __init__(self, function: Any) -> None:
        self._read = _reader(function)
        self._is_text: OrderedDict[Key, bool] = OrderedDict()

    def noted(self, key: Key | None, value: Any) -> Any:
        """`value`, which the function returned for a call."""
        if self._read is None and key is not None:
            self._is_text[key] = isinstance(value, str)
            if len(self._is_text) > _NOTED:
                self._is_text.popitem(last=False)
        return value

    def alike(self, key: Key, content: Any) -> Any:
        """A content as the function would have returned it.  Raises ValueError where it is nothing that it returns."""
        if self._read is not None:
            return self._read(content)
        return content if self._is_text.get(key, True) or not isinstance(content, str) else json.loads(content)


def _reader(function: Any) -> Callable[[Any], Any] | None:
    """What reads contents by the return annotation of `function`; None where that says nothing."""
    try:
        hint = typing.get_type_hints(function).get("return", Any)
    except Exception:  # noqa: BLE001 - names that are not there at run time, objects without annotations
        return None
    members = set(_members(hint))
    if members & {Any, object}:
        return None
    kinds = {_kind(each) for each in members}
    models = [each.model_validate_json for each in members if hasattr(each, "model_validate_json")]

    def read(content: Any) -> Any:
        if list in kinds and not isinstance(content, str):
            return content
        return _read(_text(content), kinds, models)

    return read


def _members(hint: Any) -> Iterator[Any]:
    """The types that an annotation joins, or it alone."""
    if typing.get_origin(hint) in (typing.Union, UnionType):
        for each in typing.get_args(hint):
            yield from _members(each)
    else:
        yield hint


def _kind(hint: Any) -> Any:
    """What JSON gives for a type: a dict for a TypedDict, say; the type itself where that is nothing of JSON."""
    cls = dict if typing.is_typeddict(hint) else typing.get_origin(hint) or hint
    return dict if cls in (Mapping, MutableMapping) else list if cls in (Sequence, Iterable) else cls


def _read(text: str, kinds: Collection[Any], models: Iterable[Callable[[str], Any]]) -> Any:
    if kinds == {str}:
        return text
    for validated in models:
        with suppress(ValueError):
            return validated(text)
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        if type(value) in kinds and type(value) is not str:
            return value
        if type(value) is int and float in kinds:
            return float(value)
    if str in kinds:
        return text
    raise ValueError("nothing that the function returns")


def _text(content: Any) -> str:
    text, others = text_of(content)
    if others:
        raise ValueError("not text alone")
    return text
