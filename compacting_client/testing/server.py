"""The HTTP side of the loopback provider: threads, sockets, chunks.  It knows no provider."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

__all__ = ["Answer", "LoopbackServer"]


class Answer(NamedTuple):
    """An HTTP answer: one JSON value, or the events of a stream."""

    status: int
    content: dict[str, Any] | Iterator[bytes]
    headers: dict[str, str]


Respond = Callable[[str, str, dict[str, str], bytes], Answer]  # (method, path, headers, body)


class LoopbackServer(http.server.ThreadingHTTPServer):
    """Serves one `respond` function on a free port of 127.0.0.1, one daemon thread per connection."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self._open: set[Any] = set()
        self._changed = threading.Condition()
        self._loop = threading.Thread(target=self.serve_forever, args=(0.02,), name="loopback-provider", daemon=True)
        super().__init__(("127.0.0.1", 0), _Handler)
        self._loop.start()

    def server_bind(self) -> None:
        """Bind without the reverse DNS look-up of the base class, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the thread of a new connection."""
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a client that went away, which is what closing a stream early looks like from here."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def stop(self) -> None:
        """Close the port and every connection; wait a little for threads that are still answering."""
        self.shutdown()
        self._loop.join()
        with self._changed:
            for request in self._open:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._open, timeout=2)
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection, kept alive between requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Print nothing."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = cast("LoopbackServer", self.server).respond(self.command, self.path, headers, body)
        if isinstance(answer.content, dict):
            content = json.dumps(answer.content).encode()
            self._head(answer, {"content-type": "application/json", "content-length": str(len(content))})
            self.wfile.write(content)
            return
        self._head(answer, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"})
        for chunk in answer.content:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - names that http.server looks up

    def _head(self, answer: Answer, headers: dict[str, str]) -> None:
        self.send_response(answer.status)
        for name, value in {**headers, **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
