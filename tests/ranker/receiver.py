"""A real HTTP server that webhooks lead to: what it got, and how it meets the next requests."""

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
# What the next request meets; when there is nothing more, 204.
HANG, DRIP = 0, -1


class Got(NamedTuple):
    """One request: its path, its headers in lower case, its body byte for byte."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> dict[str, Any]:
        """The body, read."""
        found: dict[str, Any] = json.loads(self.body)
        return found

    def is_signed(self, secret: str) -> bool:
        """Whether who knows the secret sent exactly this."""
        signed = self.headers["warpboard-timestamp"].encode() + b"." + self.body
        digest = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        return hmac.compare_digest(f"v1={digest}", self.headers["warpboard-signature"])


@dataclass
class Receiver:
    """What came, and what comes next for each path."""

    url: str = ""
    got: list[Got] = field(default_factory=list)
    meets: dict[str, list[int]] = field(default_factory=dict)
    released: threading.Event = field(default_factory=threading.Event)

    def at(self, path: str) -> list[Got]:
        """What came to a path, in order."""
        return [one for one in self.got if one.path == path]

    def kinds(self, path: str) -> list[str]:
        """The types of what came to a path."""
        return [one.said["type"] for one in self.at(path)]


class Handler(BaseHTTPRequestHandler):
    """One request to the receiver of its server."""

    @property
    def told(self) -> Receiver:
        """Where all that comes is kept."""
        server: Any = self.server
        found: Receiver = server.told
        return found

    def do_POST(self) -> None:
        """Keep it, and answer as the next request is to be met."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.told.got.append(Got(self.path, headers, body))
        coming = self.told.meets.get(self.path, [])
        status = coming.pop(0) if coming else 204
        if status == HANG:
            self.told.released.wait(HANG_S)
        elif status == DRIP:
            self._drip()
        else:
            self._answer(status)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", f"{self.told.url}/elsewhere")
        self.end_headers()

    def _drip(self) -> None:
        """A line of the head every moment, for ever."""
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not self.told.released.wait(0.05):
                self.wfile.write(b"X-More: 1\r\n")
        except OSError:
            return

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A server whose requests know where they are kept."""

    daemon_threads = True

    def __init__(self, told: Receiver) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.told = told


@contextmanager
def receiving(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver that answers until the end of the block, by TLS if it has what that takes."""
    told = Receiver()
    server = Server(told)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield told
    finally:
        told.released.set()
        server.shutdown()
        thread.join(10)
        server.server_close()
