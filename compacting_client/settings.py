"""What `compacting()` was told, validated once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from compacting_client.counters import counter_of
from compacting_client.errors import ConfigError
from compacting_client.logs import checked_logger
from compacting_client.memory import InProcess, Store
from compacting_client.memory.base import Claims
from compacting_client.policies import DropOldest, FunctionPolicy, Policy
from compacting_client.validation import flag, function, is_async
from compacting_client.windows import checked as checked_windows

__all__ = ["Settings", "policy_of"]

Function = Callable[[Any], Any]

_STORED = ("recall", "remember", "reuse", "forget", "claim", "publish", "release")


@dataclass(frozen=True)
class Settings:
    """The options of `compacting()`; its docstring says what each means.  Raises ConfigError."""

    policy: Policy | None
    memory: Store
    is_async: bool
    counter: Any = None
    memory_key: Function | None = None
    pin: Function | None = None
    windows: Mapping[str, int] | None = None
    on_event: Function | None = None
    on_drop: Function | None = None
    on_reuse: Function | None = None
    on_report: Function | None = None
    logger: Any = None
    log_content: bool = False
    recover: bool = True
    on_unfit: Literal["send", "raise"] = "send"
    strict: bool = False

    @property
    def portable(self) -> bool:
        """Whether another process may read what the memory keeps; a store that does not say is taken to be shared."""
        return bool(getattr(self.memory, "shared", True))

    @property
    def blocking(self) -> bool:
        """Whether calls of the memory may wait for something; a store that does not say is taken to."""
        return bool(getattr(self.memory, "blocking", True))

    @property
    def claims(self) -> Claims | None:
        """The memory, where it keeps claims too."""
        return self.memory if isinstance(self.memory, Claims) else None

    def __post_init__(self) -> None:
        object.__setattr__(self, "counter", counter_of(self.counter))
        if callable(self.counter):
            function("counter", self.counter, async_client=self.is_async)
        for name in ("memory_key", "pin", "on_event", "on_drop", "on_reuse", "on_report"):
            function(name, getattr(self, name), async_client=self.is_async)
        if self.policy is not None and self.policy.is_async and not self.is_async:
            raise ConfigError(
                f"the policy {self.policy.name} is async, but the client is not: nobody would await it; write a plain function "
                "(trim in the place of atrim, a plain summarizer), or wrap the SDK's async client"
            )
        for name in ("log_content", "recover", "strict"):
            flag(name, getattr(self, name))
        if self.on_unfit not in ("send", "raise"):
            raise ConfigError(f'on_unfit must be "send" or "raise", not {self.on_unfit!r}')
        is_store = isinstance(self.memory, Store)  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a checker
        if not is_store or isinstance(self.memory, type):
            raise ConfigError(
                f"memory must be a store such as memory.InProcess() or memory.File('cuts.db'), or None, not {self.memory!r}"
            )
        if any(is_async(getattr(self.memory, name, None)) for name in _STORED):
            raise ConfigError(
                f"memory must have plain methods, not async ones (async clients run them in a thread): {self.memory!r}"
            )
        checked_windows(self.windows)
        checked_logger(self.logger)


def policy_of(value: Any) -> Policy | None:
    """The policy that a setting stands for; None for False (off).  Raises ConfigError."""
    if value is None:
        return DropOldest()
    if value is False:
        return None
    if isinstance(value, Policy):
        return value
    if value is True or isinstance(value, type):
        call = f": call it, {value.__name__}(...)" if isinstance(value, type) and issubclass(value, Policy) else ""
        raise ConfigError(
            f"policy must be a policy such as DropOldest(60_000), a number of tokens, a function, None, or False, not {value!r}{call}"
        )
    if isinstance(value, (int, float)):
        try:
            return DropOldest(value)
        except ConfigError as error:
            raise ConfigError(f"policy={value!r} stands for DropOldest({value!r}): {error}") from None
    if callable(value):
        return FunctionPolicy(value)
    raise ConfigError(
        f"policy must be a policy such as DropOldest(60_000), a number of tokens, a function, None, or False, not {value!r}"
    )


def memory_of(value: Any) -> Any:
    """The store that a setting stands for; None is a new InProcess()."""
    return InProcess() if value is None else value
