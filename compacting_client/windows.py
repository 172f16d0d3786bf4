"""The windows of models: as the caller gave them, as a provider's "too long" taught them, as `genai-prices` lists them where it is installed."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from compacting_client.core.window import Window
from compacting_client.errors import ConfigError
from compacting_client.formats.base import TooLong
from compacting_client.validation import whole_number

__all__ = ["Learned", "Windows", "checked", "counted"]

_MARGIN = 0.95
"""Of a limit that is known from one request: the next one is of other content, which the estimate may be less right about."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What a provider's refusal taught: the limit in its tokens, so many counted tokens each, and whether the answer has to fit in too.

    ``named``: whether the provider named the limit; else it is only known that so much was too much.
    """

    limit: float
    ratio: float = 1.0
    shared: bool = True
    named: bool = True

    def window(self, reserved: int = 0) -> Window:
        """For a request that reserves so much for its answer."""
        scale = self.ratio * _MARGIN
        return Window(self.limit * scale, reserved * scale if self.shared else 0)


def counted(said: TooLong, tokens: float, reserved: int = 0) -> Learned:
    """What an answer teaches, that refused a request of so many counted tokens.

    Where it says what was requested, that gives the provider's tokens for one counted here; a limit alone is taken as it is.  Whatever it says, what
    was refused is too long: without figures that is all that is known.
    """
    if said.limit is None:
        over = said.excess or 0
        return Learned(tokens - over if over < tokens else tokens / 2, shared=False, named=False)
    ratio = tokens / said.requested if said.requested else 1.0
    learned = Learned(said.limit, ratio, said.shared)
    if said.shared and reserved >= said.limit:  # the answer alone is too long
        return learned
    return learned if learned.window(reserved).budget() < tokens else Learned(tokens, shared=False, named=False)


class Windows:
    """What is known of the windows of the models that one wrapped client, and those derived from it, speaks to."""

    def __init__(self, given: Mapping[str, int] | None = None) -> None:
        self._given = dict(given or {})
        self._patterns = [(name, _pattern(name)) for name in sorted(self._given, key=len, reverse=True) if "*" in name]
        self._learned: dict[tuple[str, str], Learned] = {}
        self._lock = threading.Lock()

    def of(self, api: str, model: str, reserved: int = 0) -> Window | None:
        """The window for a request that reserves so much for its answer: as given, as learned, as listed.  None where it is unknown.

        What a provider has refused is never sent again because of a larger figure from elsewhere.
        """
        learned = self._learned.get((api, model))
        told = self._told(model) or (None if learned is not None and learned.named else _listed(model))
        windows = [Window(told, reserved)] if told is not None else []
        if learned is not None:
            windows.append(learned.window(reserved))
        return min(windows, key=Window.budget, default=None)

    def learned(self, api: str, model: str, reserved: int = 0) -> Window | None:
        """The window as the provider itself taught it."""
        found = self._learned.get((api, model))
        return found.window(reserved) if found is not None else None

    def learn(self, api: str, model: str, new: Learned) -> None:
        """Take over what a refusal taught: the provider's newest figure, and of one figure the most careful reading."""
        with self._lock:
            old = self._learned.get((api, model))
            if old is not None and (old.limit, old.shared) == (new.limit, new.shared):
                new = Learned(new.limit, min(old.ratio, new.ratio), new.shared)
            self._learned[api, model] = new

    def _told(self, model: str) -> int | None:
        """The caller's figure: by the exact name, else by the longest pattern."""
        exact = self._given.get(model)
        return exact or next((self._given[name] for name, pattern in self._patterns if pattern.fullmatch(model)), None)


def checked(windows: Any) -> None:
    """Checks the setting: names of models, or patterns with ``*``, and whole numbers of tokens.  Raises ConfigError."""
    if windows is None:
        return
    if not isinstance(windows, Mapping):
        raise ConfigError(f'windows must be a mapping such as {{"my-model-*": 32_000}}, or None, not {windows!r}')
    for name, tokens in windows.items():  # pyright: ignore[reportUnknownVariableType] - whatever a caller put there
        if not isinstance(name, str) or not name:
            raise ConfigError(f"windows must have names of models for keys, not {name!r}: {windows!r}")
        whole_number(f"windows[{name!r}]", tokens, at_least=1)


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL)


@lru_cache(maxsize=256)
def _listed(model: str) -> int | None:
    """What `genai-prices` says of a model, by the list that it brings along: nothing is asked over the network."""
    try:
        from genai_prices.data_snapshot import get_snapshot

        _, found = get_snapshot().find_provider_model(model, None, None, None)
    except Exception:  # noqa: BLE001 - not installed, another version, an unknown model: then nothing is known
        return None
    return found.context_window or None
