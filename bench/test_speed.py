"""CPU time of one request inside the library, by pytest-benchmark; the ratios are printed at the end of the run (conftest)."""

import pytest

from bench import speed


@pytest.mark.parametrize("size", speed.SIZES)
@pytest.mark.parametrize("name", speed.works())
def test_speed(name: str, size: int, benchmark) -> None:
    """One work on one conversation, some rounds after a warm-up."""
    work = speed.works()[name](size)
    benchmark.pedantic(work, rounds=max(20, 100_000 // size), warmup_rounds=2)
    speed.timed[name, size] = benchmark.stats["min"]
