"""Exports spans by OTLP over HTTP, with the SDK of OpenTelemetry, which is an extra.

The SDK reads its own environment variables: the address and the headers of the collector, the
sampler, and further attributes of the service. Import this module only where tracing is on.
"""

import logging
import threading
from collections import deque

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from shared.tracing import Span, span_id, trace_id
from shared.version import VERSION

# What is kept while it cannot be exported; the oldest is dropped.
SPANS_MAX = 4096
BATCH_MAX = 512
# Spans that come within this time are exported together.
GATHER_S = 1.0
CLOSE_S_MAX = 5.0
SCOPE = InstrumentationScope("warpboard", VERSION)

_log = logging.getLogger(__name__)


class OtlpRecorder:
    """Keeps spans and exports them in a thread of its own; implements SpanRecorder.

    With `is_waiting` it exports nothing until `export_soon` is called. Sampling decides by the
    trace's id, so that every service decides alike.
    """

    def __init__(self, service: str, *, is_waiting: bool = False) -> None:
        self._resource = Resource.create(
            {"service.name": f"warpboard-{service}", "service.version": VERSION}
        )
        self._sampler = TracerProvider(resource=self._resource).sampler
        self._exporter = OTLPSpanExporter()
        self._spans: deque[Span] = deque(maxlen=SPANS_MAX)
        self._gather_s = 0.0 if is_waiting else GATHER_S
        self._is_waiting = is_waiting
        self._due, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def record(self, span: Span) -> None:
        """Keep a span until it is exported; it never waits."""
        if len(self._spans) == SPANS_MAX:
            _log.debug("a span was dropped: %s are kept already", SPANS_MAX)
        self._spans.append(span)
        if not self._is_waiting:
            self._due.set()

    def export_soon(self) -> None:
        """Export what is kept."""
        self._due.set()

    def close(self) -> None:
        """Export what is kept, for at most 5 s."""
        self._closing.set()
        self._due.set()
        self._thread.join(CLOSE_S_MAX)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _run(self) -> None:
        while not self._closing.is_set():
            self._due.wait()
            # More spans of the same submission follow at once.
            self._closing.wait(self._gather_s)
            self._due.clear()
            while self._spans:
                # The exporter tries again for ten seconds, and logs why it failed.
                self._exporter.export(self._take_batch())

    def _take_batch(self) -> list[ReadableSpan]:
        count = min(len(self._spans), BATCH_MAX)
        spans = [self._spans.popleft() for _ in range(count)]
        return [_convert(span, self._resource) for span in spans if self._is_sampled(span)]

    def _is_sampled(self, span: Span) -> bool:
        # Some bits of a UUID are fixed, and samplers expect random ones.
        randomness = trace_id(f"sampled by {span.trace}")
        result = self._sampler.should_sample(None, randomness, span.name)
        return result.decision is not Decision.DROP


def _convert(span: Span, resource: Resource) -> ReadableSpan:
    code = StatusCode.ERROR if span.error else StatusCode.UNSET
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace, span.key),
        parent=_context(span.trace, span.parent) if span.parent else None,
        resource=resource,
        attributes=span.attributes,
        kind=SpanKind[span.kind.upper()],
        status=Status(code, span.error or None),
        start_time=span.began_ns,
        end_time=span.ended_ns,
        instrumentation_scope=SCOPE,
    )


def _context(trace: str, key: str) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED)
    ids = trace_id(trace), span_id(trace, key)
    return SpanContext(*ids, is_remote=False, trace_flags=flags)
