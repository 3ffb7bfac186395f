"""What operators and supervisors ask a process: /metrics and /healthz."""

import json
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import prometheus_client

from shared.settings import Listen

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

REQUEST_S_MAX = 5.0

Health = Callable[[], dict[str, str]]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without asking DNS for our own name, which may take long."""
        self.base_environ = {}
        super(WSGIServer, self).server_bind()
        self.setup_environ()


class _Quiet(WSGIRequestHandler):
    timeout = REQUEST_S_MAX

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base's own word)
        """Say nothing: a probe every few seconds is no news."""


class Ops:
    """A running server of /metrics and /healthz; `listen` has its real port."""

    def __init__(self, server: WSGIServer) -> None:
        self._server = server
        host, port = server.server_address[:2]
        self.listen = Listen(str(host), int(port))
        self._thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="ops", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join(REQUEST_S_MAX)
        self._server.server_close()


def _answer(path: str, health: Health) -> tuple[str, str, bytes]:
    if path == "/metrics":
        return "200 OK", prometheus_client.CONTENT_TYPE_LATEST, prometheus_client.generate_latest()
    if path != "/healthz":
        return "404 Not Found", "text/plain", b"there is /metrics and /healthz\n"
    ailing = health()
    status = {"status": "ailing", "parts": ailing} if ailing else {"status": "ok"}
    body = json.dumps(status).encode() + b"\n"
    return "503 Service Unavailable" if ailing else "200 OK", "application/json", body


def serve(listen: Listen, health: Health) -> Ops:
    """Answer /metrics, and /healthz by 200 or by 503 that names the ailing parts and why.

    `health` is asked from another thread. Errors: OSError if the address is taken.
    """

    def application(environ: "WSGIEnvironment", respond: "StartResponse") -> Iterable[bytes]:
        status, kind, body = _answer(environ["PATH_INFO"], health)
        respond(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    server = _Server((listen.host, listen.port), _Quiet)
    server.set_app(application)
    return Ops(server)
