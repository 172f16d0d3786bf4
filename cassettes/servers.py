"""The two servers that cassettes are recorded from.  This project wrote neither, so that they know nothing of what its client should send.

aimock (npm, MIT) answers by fixtures; llmock (PyPI, MIT) answers by itself, calls the tools that it is offered, and has a context window.
Both are installed into a temporary folder for one recording.  llmock is no extra of this project: it brings a web framework, another HTTP
client and a pytest plugin, which would change what the SDKs and the tests run on.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from cassettes import journey

AIMOCK = "@copilotkit/aimock@1.43.0"
LLMOCK = "llmock==0.2.2"
CHUNK = 50  # characters that aimock streams at a time
WINDOW = 600  # tokens that llmock takes, four characters each
STARTING = 30  # seconds


class ServerError(Exception):
    """A server cannot be had; says why."""


@contextmanager
def aimock(folder: Path) -> Generator[str]:
    """Its root, while it runs in this folder."""
    npm, node = _program("npm"), _program("node")
    _install(folder, AIMOCK, npm, "install", "--prefix", ".", "--no-package-lock", "--no-audit", "--no-fund")
    (folder / "fixtures.json").write_text(json.dumps(journey.fixtures()), encoding="utf-8")
    options = f"--fixtures fixtures.json --validate-on-load --strict --chunk-size {CHUNK} --log-level warn".split()
    with _serving(folder, node, "node_modules/@copilotkit/aimock/dist/cli.js", *options) as url:
        yield url


@contextmanager
def llmock(folder: Path) -> Generator[str]:
    """Its root, while it runs in this folder, which is where Python looks first."""
    _install(folder, LLMOCK, sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--target", ".")
    options = f"--tool-mode auto --context-window {WINDOW} --log-level warning".split()
    with _serving(folder, sys.executable, "-m", "llmock.cli", "serve", *options) as url:
        yield url


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ServerError(f"{name} is not on PATH: {AIMOCK} needs Node.js and npm (https://nodejs.org)")
    return found


def _install(folder: Path, package: str, *command: str) -> None:
    done = subprocess.run([*command, package], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerError(f"cannot install {package}:\n{done.stderr.strip() or done.stdout.strip()}")


@contextmanager
def _serving(folder: Path, *command: str) -> Generator[str]:
    """Start a server on a free port, wait until it listens, and stop it in the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "server.log"
    with log.open("w", encoding="utf-8") as output:
        running = subprocess.Popen(
            [*command, "-h", "127.0.0.1", "-p", str(port)], cwd=folder, stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + STARTING
        while not _listens(port):
            if running.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"a server did not start:\n{log.read_text(encoding='utf-8', errors='replace')}")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
