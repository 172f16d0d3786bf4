"""A real redis-server on a free port of the loopback interface, with a folder of its own, that can be stopped and started again."""

import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import redis

PROGRAM = shutil.which("redis-server")


class RedisServer:
    """`start()`, `stop()`; `url`, and `client` for looking at what it holds."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.client: Any = redis.Redis(port=self.port, decode_responses=True)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "RedisServer":
        """Returns once it answers, empty."""
        assert PROGRAM is not None
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""]
        self._process = subprocess.Popen([PROGRAM, *options], stdout=subprocess.DEVNULL)
        for _ in range(500):
            if self._answers():
                return self
            assert self._process.poll() is None, "redis-server did not start"
            time.sleep(0.01)
        raise AssertionError("redis-server does not answer")

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False

    def stop(self) -> None:
        """Returns once it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop it for good."""
        self.stop()
        self.client.close()


def running(folder: Path) -> RedisServer:
    """A server that runs; skips the test where there is none to be run."""
    if PROGRAM is None:
        pytest.skip("needs redis-server (Debian: apt-get install redis-server)")
    return RedisServer(folder).start()
