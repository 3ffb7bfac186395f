"""A server where the platform would be: it says what it is told and keeps what it heard."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Heard(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Say = Callable[[Heard], tuple[int, Any]]


@dataclass
class StandIn:
    """Answers each request by a function of it."""

    say: Say
    url: str = ""
    heard: list[Heard] = field(default_factory=list)

    def answer(self, heard: Heard) -> tuple[int, bytes]:
        self.heard.append(heard)
        status, body = self.say(heard)
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()


@contextmanager
def standing(say: Say) -> Iterator[StandIn]:
    """A stand-in on a free port, for as long as the context lasts."""
    standin = StandIn(say)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._take()

        def do_POST(self) -> None:
            self._take()

        def do_PUT(self) -> None:
            self._take()

        def do_DELETE(self) -> None:
            self._take()

        def _take(self) -> None:
            length = int(self.headers.get("content-length", "0"))
            headers = {name.lower(): value for name, value in self.headers.items()}
            heard = Heard(self.command, self.path, headers, self.rfile.read(length))
            status, body = standin.answer(heard)
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    standin.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield standin
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def in_turn(*answers: tuple[int, Any]) -> Say:
    """One answer after the other; the last one for ever."""
    left = list(answers)
    return lambda heard: left.pop(0) if len(left) > 1 else left[0]  # noqa: ARG005
