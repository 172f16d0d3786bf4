"""What a tool returns: the history has it as text, also where it was none."""

from __future__ import annotations

import typing
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import orjson

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
        return content if self._is_text.get(key, True) or not isinstance(content, str) else orjson.loads(content)


def _reader(function: Any) -> Callable[[Any], Any] | None:
    """What reads contents by the return annotation of `function`; None where that says nothing."""
    try:
        hint = typing.get_type_hints(function).get("return", Any)
    except Exception:  # noqa: BLE001 - names that are not there at run time, objects without annotations
        return None
    if hint in (Any, object):
        return None
    if hint is str:
        return _text
    try:
        from pydantic import TypeAdapter  # every SDK brings it
    except ImportError:
        return None
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(dict[str, Any] if typing.is_typeddict(hint) else hint)
    except Exception:  # noqa: BLE001 - a class of which it knows nothing
        return _nothing

    def read(content: Any) -> Any:
        if not isinstance(content, str):
            try:
                return adapter.validate_python(content)
            except ValueError:
                content = _text(content)
        try:
            return adapter.validate_json(content)
        except ValueError:
            return adapter.validate_python(content)

    return read


def _text(content: Any) -> str:
    text, others = text_of(content)
    if others:
        raise ValueError("not text alone")
    return text


def _nothing(content: Any) -> Any:
    raise ValueError(f"no such class is made from {type(content).__name__}")
