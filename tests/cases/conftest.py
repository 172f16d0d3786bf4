"""The bench of the cases: one loopback provider for all of them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compacting_client.testing import Provider
from tests.cases import bench


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """The provider that every case is sent to."""
    yield from bench.running()


@pytest.fixture
def line(provider: Provider) -> Callable[..., bench.Line]:
    """`line(api, policy, mode="sync", **options)`: a wrapped client on the bench."""

    def make(api: str, policy: Any, mode: str = "sync", **options: Any) -> bench.Line:
        return bench.Line(provider, api, policy, mode, options)

    return make


@pytest.fixture(params=[pytest.param(4, id="coarse"), pytest.param(70, id="fine", marks=pytest.mark.full)])
def sweep(request: pytest.FixtureRequest) -> Callable[[int], range]:
    """`sweep(size)`: budgets from next to nothing up to a size; many of them only in the full run."""
    return lambda size: range(9, size, max(1, (size - 9) // request.param))
