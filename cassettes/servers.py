"""The two servers that cassettes are recorded from.  This project wrote neither, so that they know nothing of what its client should send.

aimock (npm, MIT) answers by fixtures; llmock (PyPI, MIT) answers by itself, calls the tools that it is offered, and has a context window.
Both are installed into a temporary folder for one recording.  llmock is no extra of this project: it brings a web framework, another HTTP
client and a pytest plugin, which would change what the SDKs and the tests run on.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cassettes import journey

AIMOCK = "@copilotkit/aimock@1.43.0"
LLMOCK = "llmock==0.2.2"
WINDOW = 600  # tokens that llmock takes, four characters each
STARTING = 30  # seconds


class ServerError(Exception):
    """A server cannot be had; says why."""


@contextmanager
def aimock(folder: Path) -> Iterator[str]:
    """Its root, while it runs."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise ServerError(f"{tool} is not on PATH; aimock needs Node.js and npm (https://nodejs.org)")
    _run("npm", "install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(folder), AIMOCK)
    fixtures = folder / "fixtures.json"
    fixtures.write_text(json.dumps(journey.fixtures()), encoding="utf-8")
    program = folder / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
    options = ("--fixtures", str(fixtures), "--validate-on-load", "--strict", "--chunk-size", "50", "--log-level", "warn")
    with _serving("aimock", folder, lambda port: ["node", str(program), "-h", "127.0.0.1", "-p", port, *options]) as url:
        yield url


@contextmanager
def llmock(folder: Path) -> Iterator[str]:
    """Its root, while it runs."""
    _run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(folder), LLMOCK)
    options = ("--tool-mode", "auto", "--context-window", str(WINDOW), "--log-level", "warning")
    program = [sys.executable, "-m", "llmock.cli", "serve", "-h", "127.0.0.1"]
    with _serving("llmock", folder, lambda port: [*program, "-p", port, *options]) as url:
        yield url


def _run(*command: str) -> None:
    """Install something; its own words where that fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerError(f"cannot install {command[-1]}:\n{done.stderr.strip() or done.stdout.strip()}")


@contextmanager
def _serving(name: str, folder: Path, command: Callable[[str], list[str]]) -> Iterator[str]:
    """Start a server on a free port, wait until it listens, and stop it in the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / f"{name}.log"
    with log.open("w", encoding="utf-8") as output:
        running = subprocess.Popen(
            command(str(port)),
            stdout=output,
            stderr=output,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder), "PYTHONIOENCODING": "utf-8"},
        )
    try:
        deadline = time.monotonic() + STARTING
        while not _listens(port):
            if running.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"{name} did not start:\n{log.read_text(encoding='utf-8')}")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
