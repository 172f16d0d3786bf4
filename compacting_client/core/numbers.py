"""JSON by its exact value: two numbers that a parser would round to the same one stay two (an account number of 30 digits, say)."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, cast

import orjson

__all__ = ["exact", "whole"]

_SUSPECT = re.compile(r"[0-9](?:[0-9.]{15}|[eE][-+]?[0-9]{3})")  # of 15 digits no two are the same double
_NOT_ROUNDED = frozenset({str, int, bool, type(None)})
_64_BITS = range(-(2**63), 2**64)  # what orjson reads and writes as integers


def exact(text: str) -> Any:
    """The value of a JSON text, as `orjson.loads` has it, but numbers that it would round as fragments of the text.  ValueError for no JSON."""
    value: Any = orjson.loads(text)
    if _is_sure(value) or _SUSPECT.search(text) is None:
        return value
    try:
        value = json.loads(text, parse_int=_integer, parse_float=_float)
        orjson.dumps(value)
    except (TypeError, RecursionError) as error:  # nested too deep for one of them
        raise ValueError("nested too deep") from error
    return value


def _is_sure(value: Any) -> bool:
    """Whether it is an object of plain fields, as most arguments are, and none is a float: whole numbers over 64 bits are read as floats."""
    return isinstance(value, dict) and _NOT_ROUNDED.issuperset(map(type, cast("dict[str, Any]", value).values()))


def whole(value: Any) -> Any:
    """The same with floats that are whole as integers: 1 and 1.0 are one number in JSON."""
    if isinstance(value, dict):
        return {name: whole(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [whole(each) for each in cast("list[Any]", value)]
    return _integer(f"{value:.0f}") if isinstance(value, float) and value.is_integer() else value


def _integer(text: str) -> Any:
    return int(text) if len(text) <= 20 and int(text) in _64_BITS else orjson.Fragment(text)


def _float(text: str) -> Any:
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else orjson.Fragment(text)
