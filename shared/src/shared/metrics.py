"""The ops endpoints /metrics and /healthz, and the metrics that all services have."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import prometheus_client
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from shared.event_log import BOUNDS_S, LogCounts
from shared.settings import Listen
from shared.version import VERSION

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

REQUEST_S_MAX = 5.0
# A late event loop answers late; its heartbeat is measured once a second.
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


class _SilentHandler(WSGIRequestHandler):
    timeout = REQUEST_S_MAX

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base's parameter)
        """Log nothing: there is a probe every few seconds."""


class OpsServer:
    """A running server of /metrics and /healthz; `listen` has its actual port."""

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


def _respond(path: str, health: Health) -> tuple[str, str, bytes]:
    if path == "/metrics":
        return "200 OK", prometheus_client.CONTENT_TYPE_LATEST, prometheus_client.generate_latest()
    if path != "/healthz":
        return "404 Not Found", "text/plain", b"available paths: /metrics and /healthz\n"
    unhealthy = health()
    status = {"status": "unhealthy", "parts": unhealthy} if unhealthy else {"status": "ok"}
    body = json.dumps(status | {"version": VERSION}).encode() + b"\n"
    return "503 Service Unavailable" if unhealthy else "200 OK", "application/json", body


def serve_ops(listen: Listen, health: Health) -> OpsServer:
    """Serve /metrics, and /healthz with 200, or with 503 naming the unhealthy parts and why.

    /healthz also has the version. `health` is called from another thread. Errors: OSError if the
    address is taken.
    """

    def application(environ: "WSGIEnvironment", respond: "StartResponse") -> Iterable[bytes]:
        status, kind, body = _respond(environ["PATH_INFO"], health)
        respond(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    # A creation time for each series would be a third more series, which nobody reads.
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
    server = _Server((listen.host, listen.port), _SilentHandler)
    server.set_app(application)
    return OpsServer(server)


def metric_prefix(service: str) -> str:
    """Return the prefix of a service's metric names.

    >>> metric_prefix("gpu-agent")
    'warpboard_gpu_agent'
    """
    return f"warpboard_{service.replace('-', '_')}"


class ProcessMetrics:
    """The health of a process: its unhealthy parts, and how late its event loop is."""

    def __init__(
        self, service: str, health: Health, registry: CollectorRegistry = REGISTRY
    ) -> None:
        start = metric_prefix(service)
        self.lag = Histogram(
            f"{start}_loop_lag_seconds",
            "How late the loop turned, once a second",
            buckets=LAG_S,
            registry=registry,
        )
        unhealthy = Gauge(
            f"{start}_unhealthy_parts", "Parts that /healthz calls unhealthy", registry=registry
        )
        unhealthy.set_function(lambda: len(health()))
        build = Gauge(
            f"{start}_build_info", "1, with the version as a label", ["version"], registry=registry
        )
        build.labels(VERSION).set(1)

    def turned(self, late_s: float) -> None:
        """Observe that the loop turned, so much later than it should have."""
        self.lag.observe(max(0.0, late_s))


class Log(Protocol):
    """A log that counts its operations."""

    @property
    def counts(self) -> LogCounts:
        """Its appends and feeds."""

    @property
    def reconnects(self) -> int:
        """How often its connection was re-established."""

    @property
    def silent_s(self) -> float:
        """For how long the server has sent nothing to a feed that expects messages."""


class LogMetrics(Collector):
    """The counts of a process's log, read when scraped, so that an append costs nothing more."""

    def __init__(self, service: str, log: Log, registry: CollectorRegistry = REGISTRY) -> None:
        self._start = metric_prefix(service)
        self._log = log
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the current counts."""
        counts = self._log.counts
        yield HistogramMetricFamily(
            f"{self._start}_append_seconds",
            "Appends that were stored, a batch being one",
            buckets=list(_cumulative(counts.append.buckets)),
            sum_value=counts.append.total_s,
        )
        for name, text, value in (
            ("append_conflicts", "Appends that somebody else forestalled", counts.conflicts),
            ("appends_grouped", "Appends stored together with others", counts.grouped),
            ("pump_restarts", "Feeds that started again", counts.pump_restarts),
            ("gaps", "Sequences that a feed missed", counts.gaps),
            ("reconnects", "Connections to NATS that came back", self._log.reconnects),
        ):
            yield CounterMetricFamily(f"{self._start}_{name}", text, value=value)
        yield GaugeMetricFamily(
            f"{self._start}_pump_silent_seconds",
            "How long a feed has heard nothing from the server",
            value=self._log.silent_s,
        )


def _cumulative(buckets: Sequence[int]) -> Iterator[tuple[str, float]]:
    """Return cumulative counts by upper bound.

    >>> list(_cumulative([1, 0, 2] + [0] * 11))[:3]
    [('0.0005', 1), ('0.001', 1), ('0.0025', 3)]
    """
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    return zip(bounds, accumulate(buckets), strict=True)


class HttpMetricsMiddleware:
    """An ASGI middleware that counts responses by status and times them by method.

    A GET may wait for news on purpose, up to half a minute: only the times of the other methods
    show how slow a service is.
    """

    def __init__(self, app: Any, service: str, registry: CollectorRegistry = REGISTRY) -> None:
        start = metric_prefix(service)
        self._app = app
        self._responses = Counter(
            f"{start}_http", "Answers by their status", ["status"], registry=registry
        )
        self._durations = Histogram(
            f"{start}_http_seconds", "Answers", ["method"], buckets=HTTP_S, registry=registry
        )
        self._responses.labels("200")
        for method in METHODS:
            self._durations.labels(method)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Respond, and count. Source: the ASGI specification."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, started_at = 500, time.perf_counter()

        async def send_counted(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._responses.labels(str(status)).inc()
            self._durations.labels(method).observe(time.perf_counter() - started_at)
