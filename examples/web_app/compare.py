"""Talks one long conversation through both versions of the application, against a provider that has a context window.

    python examples/web_app/compare.py

The provider is the one on this machine, whether a key is set or not.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from compacting_client.testing import Provider, Recorded, ToolCall

HERE = Path(__file__).parent
WINDOW = 64_000  # tokens
QUESTIONS = [
    f"Which train should I take from {station}?"
    for station in (
        *("Lisbon", "Porto", "Madrid", "Sevilla", "Barcelona", "Lyon", "Geneva", "Zurich", "Milan", "Venice"),
        *("Trieste", "Ljubljana", "Zagreb", "Budapest", "Vienna", "Prague", "Dresden", "Berlin", "Hamburg", "Kiel"),
    )
]


def model(request: Recorded) -> str | ToolCall:
    """What the provider answers: it looks a question up, then says something."""
    last = request.body["messages"][-1]
    if last["role"] == "user":
        return ToolCall("departures", {"station": last["content"].rstrip("?").rpartition(" ")[2]})
    return f"Take the first train from {json.loads(last['content'])['station']}, at 05:00."


class Server:
    """The running application, as a browser sees it; and its log."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self.log = log

    def begin(self) -> str:
        """A new chat."""
        chat: str = json.loads(b"".join(self._lines("/chats", {})))["chat"]
        return chat

    def say(self, chat: str, text: str) -> list[dict[str, Any]]:
        """The events that come back."""
        lines = self._lines(f"/chats/{chat}", {"text": text})
        return [json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: ")]

    def messages(self, chat: str) -> list[Any]:
        """What the application remembers."""
        found: list[Any] = json.loads(b"".join(self._lines(f"/chats/{chat}")))
        return found

    def logged(self, word: str) -> list[str]:
        """The lines of its log with this word."""
        return [line for line in self.log.read_text(encoding="utf-8").splitlines() if word in line]

    def _lines(self, path: str, body: Any = None) -> Iterator[bytes]:
        data = None if body is None else json.dumps(body).encode()
        directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with directly.open(urllib.request.Request(self.url + path, data), timeout=60) as response:
            yield from response


@contextlib.contextmanager
def serving(version: str, provider: Provider) -> Generator[Server, None, None]:
    """`before` or `after` in a process of its own, on a free port, with this provider."""
    command = [sys.executable, "-m", "uvicorn", f"{version}:app", "--app-dir", str(HERE), "--port", "0"]
    command += ["--log-config", str(HERE / "logging.json")]
    address = {"OPENAI_BASE_URL": provider.openai_url, "OPENAI_API_KEY": "loopback"}
    address |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1")  # it is behind no proxy
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as sink:
            process = subprocess.Popen(command, env={**os.environ, **address}, stdout=sink, stderr=sink)
        try:
            yield Server(_url(process, log), log)
        finally:
            process.terminate()
            process.wait()


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    """Its address, once it has told it."""
    while process.poll() is None:
        if found := re.search(r"running on (http://\S+)", log.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.02)
    raise RuntimeError(log.read_text(encoding="utf-8"))


def main() -> None:
    for version in ("before", "after"):
        with Provider(WINDOW, default=model) as provider, serving(version, provider) as server:
            chat = server.begin()
            ends = [server.say(chat, question)[-1] for question in QUESTIONS]
            refused = [end["error"] for end in ends if "error" in end]
            print(f"{version}.py: {len(ends) - len(refused)} of {len(ends)} questions answered")
            for error in refused[:1]:
                print(f"  question {ends.index({'error': error}) + 1}, and all that follow: {error}")
            dropped = server.logged("content.dropped")
            for line in [line for line in server.logged("compaction.applied") if "trigger='tokens'" in line]:
                print(f"  {without_ids(line)}")
            for line in dropped[:2]:
                print(f"  {without_ids(line)}")
            if dropped:
                print(f"  ... and {len(dropped) - 2} more units")


def without_ids(line: str) -> str:
    """A line of the log without what differs from run to run."""
    return re.sub(r" (?:request_id|digest|duration_ms)=\S+", "", line)


if __name__ == "__main__":
    main()
