"""Structured logs that are silent until the application wants them.

``logger=None``: structlog if the application has configured it, else the stdlib logger "compacting_client", which has no handler of its own.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from types import ModuleType
from typing import Any

import structlog

from compacting_client.errors import ConfigError
from compacting_client.events import Level

__all__ = ["Log", "checked_logger"]

_NAME = "compacting_client"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
logging.getLogger(_NAME).addHandler(logging.NullHandler())  # or the stdlib would print warnings by itself


def checked_logger(logger: Any) -> Any:
    """`logger` if it can log.  Raises ConfigError."""
    able = all(callable(getattr(logger, level, None)) for level in _LEVELS)
    if logger is not None and (
        not able or isinstance(logger, (type, ModuleType))
    ):  # `logging` itself has these names too
        raise ConfigError(f"logger must be a stdlib or structlog logger or None, not {logger!r}")
    return logger


class Log:
    """Writes events to the logger of the settings, whichever kind it is."""

    __slots__ = ("_given",)

    def __init__(self, logger: Any = None) -> None:
        self._given = logger

    def _logger(self) -> Any:
        if self._given is not None:
            return self._given
        return structlog.get_logger(_NAME) if structlog.is_configured() else logging.getLogger(_NAME)

    def hears(self, level: Level) -> bool:
        """Whether a record of this level could go anywhere; True where the logger does not tell."""
        logger = self._logger()
        for name in ("isEnabledFor", "is_enabled_for"):
            enabled = getattr(logger, name, None)
            if callable(enabled):
                with suppress(Exception):
                    return bool(enabled(_LEVELS[level]))
        return True

    def write(self, level: Level, name: str, fields: dict[str, Any], *, exc_info: Any = None) -> None:
        """One record: structlog gets the fields as keys, the stdlib as ``key=value`` text and as `record.fields`.

        A sink that raises never breaks a request, and there is no other to tell.
        """
        with suppress(Exception):
            self._write(level, name, fields, exc_info)

    def _write(self, level: Level, name: str, fields: dict[str, Any], exc_info: Any) -> None:
        logger = self._logger()
        if isinstance(logger, (logging.Logger, logging.LoggerAdapter)):
            if logger.isEnabledFor(_LEVELS[level]):
                text = " ".join(f"{key}={value!r}" for key, value in fields.items())
                logger.log(_LEVELS[level], "%s %s", name, text, extra={"fields": fields}, exc_info=exc_info)
            return
        kept = {**fields, "exc_info": exc_info} if exc_info else fields
        getattr(logger, level)(name, **kept)
