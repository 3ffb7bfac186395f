"""A real HTTP server for webhooks: records requests and answers as the test demands."""

import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

HANG_S = 20.0
# Behaviours for the next request; the default is status 204.
HANG, DRIP = 0, -1


class ReceivedRequest(NamedTuple):
    """One request: its path, its headers in lower case, its raw body."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The decoded body."""
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded

    def is_signed(self, secret: str) -> bool:
        """Whether the holder of the secret signed exactly this request."""
        signed = self.headers["warpboard-timestamp"].encode() + b"." + self.body
        digest = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        return hmac.compare_digest(f"v1={digest}", self.headers["warpboard-signature"])


@dataclass
class Receiver:
    """The requests so far, and the planned answers for each path."""

    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)
    planned: dict[str, list[int]] = field(default_factory=dict)
    released: threading.Event = field(default_factory=threading.Event)

    def at(self, path: str) -> list[ReceivedRequest]:
        """The requests to a path, in order."""
        return [item for item in self.requests if item.path == path]

    def kinds(self, path: str) -> list[str]:
        """The types of the requests to a path."""
        return [item.json["type"] for item in self.at(path)]


class Handler(BaseHTTPRequestHandler):
    """Handles one request for the receiver of its server."""

    @property
    def receiver(self) -> Receiver:
        """The receiver that records the request."""
        server: Any = self.server
        decoded: Receiver = server.receiver
        return decoded

    def do_POST(self) -> None:
        """Record the request and answer as planned."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.receiver.requests.append(ReceivedRequest(self.path, headers, body))
        coming = self.receiver.planned.get(self.path, [])
        status = coming.pop(0) if coming else 204
        if status == HANG:
            self.receiver.released.wait(HANG_S)
        elif status == DRIP:
            self._drip()
        else:
            self._answer(status)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", f"{self.receiver.url}/elsewhere")
        self.end_headers()

    def _drip(self) -> None:
        """Send one header line after another without end."""
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not self.receiver.released.wait(0.05):
                self.wfile.write(b"X-More: 1\r\n")
        except OSError:
            return

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A server whose handlers know their receiver."""

    daemon_threads = True

    def __init__(self, receiver: Receiver) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.receiver = receiver


@contextmanager
def run_receiver(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Run a receiver until the end of the block, with TLS if a context is given."""
    receiver = Receiver()
    server = Server(receiver)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield receiver
    finally:
        receiver.released.set()
        server.shutdown()
        thread.join(10)
        server.server_close()
