"""What operators and supervisors ask a process: /metrics and /healthz, and what all measure."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import prometheus_client
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from shared.event_log import Conflict, EventLog, Feed, New, Recorded
from shared.settings import Listen

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

REQUEST_S_MAX = 5.0
# From a bare round trip to the 30 s that an append may take through an outage.
APPEND_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
# A loop that turns late answers late; its pulse comes once a second.
LAG_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
HTTP_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
METHODS = frozenset({"GET", "POST", "PUT", "DELETE"})

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


def prefix(service: str) -> str:
    """What the names of a service's metrics begin with.

    >>> prefix("gpu-agent")
    'warpboard_gpu_agent'
    """
    return f"warpboard_{service.replace('-', '_')}"


class LifeMetrics:
    """How a process is: its ailing parts, and how late its loop turns."""

    def __init__(
        self, service: str, health: Health, registry: CollectorRegistry = REGISTRY
    ) -> None:
        start = prefix(service)
        self.lag = Histogram(
            f"{start}_loop_lag_seconds",
            "How late the loop turned, once a second",
            buckets=LAG_S,
            registry=registry,
        )
        ailing = Gauge(f"{start}_ailing_parts", "Parts that /healthz calls ill", registry=registry)
        ailing.set_function(lambda: len(health()))

    def turned(self, late_s: float) -> None:
        """The loop turned, so much later than it should have."""
        self.lag.observe(max(0.0, late_s))


class MeasuredLog:
    """A log whose appends are timed and counted by how they end; keeps the port EventLog."""

    def __init__(self, log: EventLog, service: str, registry: CollectorRegistry = REGISTRY) -> None:
        start = prefix(service)
        self._log = log
        self._took = Histogram(
            f"{start}_append_seconds",
            "Appends to the log, of one event or of a batch",
            buckets=APPEND_S,
            registry=registry,
        )
        self._appends = Counter(
            f"{start}_appends", "Appends by how they ended", ["outcome"], registry=registry
        )
        for outcome in ("stored", "conflict", "failed"):
            self._appends.labels(outcome)

    @contextmanager
    def _measured(self) -> Iterator[None]:
        began, outcome = time.perf_counter(), "failed"
        try:
            yield
            outcome = "stored"
        except Conflict:
            outcome = "conflict"
            raise
        finally:
            self._took.observe(time.perf_counter() - began)
            self._appends.labels(outcome).inc()

    async def append(self, event: New) -> int:
        """Store one event; see the port."""
        with self._measured():
            return await self._log.append(event)

    async def append_all(self, events: Sequence[New]) -> int:
        """Store all or none; see the port."""
        with self._measured():
            return await self._log.append_all(events)

    async def history(self, agg: str, after: int = 0) -> list[Recorded]:
        """The events of one aggregate; see the port."""
        return await self._log.history(agg, after)

    async def last(self) -> int:
        """The sequence of the newest event; see the port."""
        return await self._log.last()

    def follow(self, after: int) -> Feed:
        """Everything after a sequence; see the port."""
        return self._log.follow(after)


class Metered:
    """An ASGI application whose answers are counted by status and timed by method.

    A read may wait for news on purpose, up to half a minute: only the times of the other methods
    say how slow a service is.
    """

    def __init__(self, app: Any, service: str, registry: CollectorRegistry = REGISTRY) -> None:
        start = prefix(service)
        self._app = app
        self._answers = Counter(
            f"{start}_http", "Answers by their status", ["status"], registry=registry
        )
        self._took = Histogram(
            f"{start}_http_seconds", "Answers", ["method"], buckets=HTTP_S, registry=registry
        )
        self._answers.labels("200")
        for method in METHODS:
            self._took.labels(method)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer, and count; Source: the ASGI specification."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, began = 500, time.perf_counter()

        async def seen(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, seen)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._answers.labels(str(status)).inc()
            self._took.labels(method).observe(time.perf_counter() - began)
