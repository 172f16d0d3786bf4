"""Prints the figures of `make bench`: ratios within one run, since seconds say more of a machine than of a library."""

from typing import Any

from bench import loops, speed, stability


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The tables."""
    write = terminalreporter.write_line
    write("")
    write(f"{f'CPU time / that of {speed.UNIT}; messages:':<46}" + "".join(f"{size:>8,}" for size in speed.SIZES))
    for name in speed.works():
        ratios = [speed.timed[name, size] / speed.timed[speed.unit_of(name), size] for size in speed.SIZES]
        write(f"    {name:<42}" + "".join(f"{ratio:>8.2f}" for ratio in ratios))
    for line in [*stability.lines(), *loops.lines()]:
        write(line)
