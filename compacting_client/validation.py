"""Settings are checked once, at construction; the error names the field, the value and what is allowed."""

from __future__ import annotations

import inspect
from typing import Any, cast

from compacting_client.errors import ConfigError

__all__ = ["flag", "function", "is_async", "names", "share", "whole_number"]


def whole_number(field: str, value: Any, *, at_least: int) -> int:
    """`value` if it is an int of at least `at_least`.  Raises ConfigError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise ConfigError(f"{field} must be a whole number of at least {at_least}, not {value!r}")
    return value


def share(field: str, value: Any) -> float:
    """`value` if it is a number in (0, 1].  Raises ConfigError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:  # NaN is in no range
        raise ConfigError(f"{field} must be a number above 0 and at most 1, not {value!r}")
    return float(value)


def flag(field: str, value: Any) -> bool:
    """`value` if it is True or False.  Raises ConfigError."""
    if not isinstance(value, bool):
        raise ConfigError(f"{field} must be True or False, not {value!r}")
    return value


def names(field: str, value: Any) -> tuple[str, ...]:
    """`value` as a tuple if it is a list of tool names.  Raises ConfigError."""
    listed = isinstance(value, (list, tuple)) and all(
        isinstance(name, str) and name for name in cast("list[Any]", value)
    )
    if not listed:
        raise ConfigError(f"{field} must be a list of tool names, as in ('read_*',), not {value!r}")
    return tuple(cast("list[str]", value))


def is_async(function: Any) -> bool:
    """Whether calling `function` gives something to await."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def function(field: str, value: Any, *, async_client: bool) -> None:
    """Checks a function of one argument given as a setting; None is allowed.  Raises ConfigError, also for an async one on a sync client."""
    if value is None:
        return
    if not callable(value):
        raise ConfigError(f"{field} must be a function or None, not {value!r}")
    takes_one(field, value)
    if is_async(value) and not async_client:
        raise ConfigError(
            f"{field} is async, but the client is not: nobody would await it; pass a plain function, or wrap the SDK's async client"
        )


def takes_one(field: str, value: Any) -> None:
    """Checks that a callable can be called with one argument, and is no class of such callables.  Raises ConfigError."""
    if isinstance(value, type) and "__call__" in vars(value):
        raise ConfigError(f"{field} is the class {value.__name__}; pass an object of it: {value.__name__}()")
    try:
        inspect.signature(value).bind(None)
    except TypeError:
        raise ConfigError(f"{field} is called with one argument, which {value!r} does not take") from None
    except ValueError:  # some built-in functions do not say
        return
