"""What is shown: a table for each conversation, and what they add up to."""

from __future__ import annotations

import sys
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from compacting_client import Report

console = Console(highlight=False, width=None if sys.stdout.isatty() else 80)

LEGEND = """
  tokens, messages   as the application wrote the request -> as it left
  dropped now        what went with this request; it stays out of the later ones
  reused             whose cut was applied again: the prompt begins as before
  cached             share of the prompt that the provider had in its cache
"""

RULE = box.Box(
    "    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True
)  # one line below the head, in any encoding


def requests(title: str, reports: list[Report]) -> None:
    """One row for each request of a conversation."""
    table = _table(title)
    for name, width in (("#", 2), ("tokens", 14), ("messages", 8)):
        table.add_column(name, justify="right", width=width)
    table.add_column("dropped now", width=23)
    table.add_column("reused", width=7)
    table.add_column("cached", justify="right", width=6)
    table.add_column("status", width=7)
    for number, report in enumerate(reports, 1):
        table.add_row(*_row(number, report))
    console.print(table)
    for number, report in enumerate(reports, 1):
        if report.replaced and cuts([report]):
            console.print(
                f"#{number}: {len(report.replaced)} kept messages left without their signed thinking, which the provider would refuse"
                " now that what stood before it is gone. What the model thinks from here on stays."
            )
    console.print()


def summary(conversations: dict[str, tuple[list[Report], int]]) -> None:
    """title -> its reports, and how many of its requests were refused."""
    table = _table("All in all")
    table.add_column("")
    for name in ("requests", "tokens", "saved", "cuts", "cached", "refused"):
        table.add_column(name, justify="right")
    for title, (reports, refused) in conversations.items():
        before, after = (sum(getattr(report, name) for report in reports) for name in ("tokens_before", "tokens_after"))
        usages = [report.usage for report in reports if report.usage]
        cached = sum(usage.cached_tokens for usage in usages) / sum(usage.input_tokens for usage in usages)
        table.add_row(
            title,
            *(f"{len(reports)}", _change(before, after), f"{1 - after / before:.0%}", f"{cuts(reports)}"),
            *(f"{cached:.0%}", f"{refused}"),
        )
    console.print(table)


def cuts(reports: list[Report]) -> int:
    """How often the cut moved."""
    return sum(any(unit.since == 0 for unit in report.dropped) for report in reports)


def _row(number: int, report: Report) -> list[str]:
    usage = report.usage
    return [
        f"{number}",
        _change(report.tokens_before, report.tokens_after),
        _change(report.messages_before, report.messages_after),
        f"[yellow]{_dropped_now(report)}[/]",
        f"[green]cut #{number - report.reused[0].age}[/]" if report.reused else "",
        f"{usage.cached_tokens / usage.input_tokens:.0%}" if usage else "",
        "[red]refused[/]" if report.error else "ok" if report.fits else "ok, over budget",
    ]


def _dropped_now(report: Report) -> str:
    now = [unit for unit in report.dropped if unit.since == 0]
    if not now:
        return ""
    if any(unit.tools for unit in now):
        return f"{len(now)} exchanges, {sum(len(unit.tools) for unit in now)} calls"
    asked, earlier = (
        sum(unit.roles.count("user") for unit in units)
        for units in (now, [unit for unit in report.dropped if unit.since])
    )
    return f"{sum(len(unit.roles) for unit in now)} messages, turns {earlier + 1}-{earlier + asked}"


def _change(before: float, after: float) -> str:
    return f"{before:,}" if before == after else f"{before:,} -> {after:,}"


def _table(title: str) -> Table:
    style: dict[str, Any] = {"box": RULE, "show_edge": False, "pad_edge": False, "padding": (0, 1, 0, 0)}
    return Table(title=f"{title}\n", title_justify="left", title_style="bold", **style)
