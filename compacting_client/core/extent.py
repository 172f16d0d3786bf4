"""How long the text of a ledger is, without putting it together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from compacting_client.core.ledger import Line, ledger_text
from compacting_client.core.tokens import dump_all, surplus, units

__all__ = ["Extent", "Whole"]

_AT_ONCE = 256  # texts that are written together: a few at a time stay at hand


class Extent(NamedTuple):
    """Of some lines: how many are listed, their characters, and their UTF-16 units as parts of a JSON string."""

    listed: int
    length: int
    units: int

    @classmethod
    def of(cls, shown: Sequence[Line]) -> Extent:
        """Of these."""
        parts = [part for line in shown for part in line.parts]
        return cls(sum([line.parts != () for line in shown]), sum(map(len, parts)), _in_json(parts))

    def within(self, omitted: int) -> int:
        """UTF-16 units of the JSON of `ledger_text` with these lines: what stands between two of them is escaped."""
        breaks = max(0, self.listed - (0 if omitted else 1))
        return units(ledger_text((), omitted)) + self.units + breaks * len("\\n")


def _in_json(parts: Sequence[str]) -> int:
    """UTF-16 units of some texts, each a part of a JSON string."""
    starts, added = range(0, len(parts), _AT_ONCE), len('"",')
    found = sum([len(dump_all(parts[start : start + _AT_ONCE])) + len(",") for start in starts]) - added * len(parts)
    return found + sum([surplus(part) for part in parts if not part.isascii()])


class Whole:
    """A ledger with all its lines: characters to a token by the default estimate, for which what JSON escapes counts twice."""

    def __init__(self, lines: Sequence[tuple[str, ...]], there: Extent) -> None:
        frame, breaks = ledger_text(()), max(0, there.listed - 1)
        self._lines, self._length = lines, len(frame) + breaks + there.length
        self._escaped = sum(map(frame.count, ('"', "\\", "\n"))) + breaks + there.units - there.length

    @property
    def least(self) -> float:
        """Not more than `rate`, and at hand."""
        return 4 * self._length / (self._length + self._escaped)

    @cached_property
    def rate(self) -> float:
        """What is longer in JSON for another reason is taken off: tabs, and characters of two units."""
        parts = [part for line in self._lines for part in line]
        wide = sum([len(part.encode("utf-16-le")) // 2 - len(part) for part in parts if not part.isascii()])
        tabs = sum([part.count("\t") for part in parts])
        return 4 * self._length / (self._length + self._escaped - wide - tabs)
