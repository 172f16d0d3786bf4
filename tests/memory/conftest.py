"""A Redis server of the test's own, and one of each store that other processes can share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compacting_client import memory
from tests.memory.servers import RedisServer, running


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = running(tmp_path_factory.mktemp("redis"))
    yield server
    server.close()


@pytest.fixture
def server(shared_server: RedisServer) -> RedisServer:
    """A server that runs and is empty."""
    shared_server.client.flushall()
    shared_server.client.script_flush()
    return shared_server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that the test may stop."""
    server = running(tmp_path)
    yield server
    server.close()


@pytest.fixture(params=["file", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store is: a path, or the URL of a server."""
    if request.param == "file":
        return str(tmp_path / "memory.db")
    url: str = request.getfixturevalue("server").url
    return url


@pytest.fixture
def opened(place: str) -> Callable[..., Any]:
    """`opened(ttl=10)`: a store there, as each process makes its own."""
    return lambda **options: (memory.Redis if "://" in place else memory.File)(place, **options)
