"""A collector of OpenTelemetry's wire format: what a real exporter sent to a real HTTP server."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.receiver import Receiver, run_receiver

PATH = "/v1/traces"


@dataclass(frozen=True)
class CollectedSpan:
    """A span as it was received; ids are hexadecimal, `parent` is "" for none."""

    service: str
    trace: str
    id: str
    parent: str
    name: str
    began_ns: int
    ended_ns: int
    error: str
    attributes: dict[str, Any] = field(hash=False)


class Collector:
    """What was exported to a receiver so far."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver

    @property
    def environ(self) -> dict[str, str]:
        """The variables of OpenTelemetry that lead here."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.receiver.url}

    @property
    def spans(self) -> list[CollectedSpan]:
        """All spans in the order in which they came."""
        return [span for request in self.receiver.at(PATH) for span in _decode(request.body)]

    def trace(self, id_: str) -> list[CollectedSpan]:
        """The spans of a trace by when they began."""
        spans = [span for span in self.spans if span.trace == id_]
        return sorted(spans, key=lambda span: (span.began_ns, -span.ended_ns))


def _decode(body: bytes) -> Iterator[CollectedSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    for resource in request.resource_spans:
        [service] = [
            item.value.string_value
            for item in resource.resource.attributes
            if item.key == "service.name"
        ]
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            attributes = {
                item.key: getattr(item.value, item.value.WhichOneof("value"))
                for item in span.attributes
            }
            yield CollectedSpan(
                *(service, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()),
                *(span.name, span.start_time_unix_nano, span.end_time_unix_nano),
                *(span.status.message, attributes),
            )


@contextmanager
def run_collector() -> Iterator[Collector]:
    """Run a collector until the end of the block."""
    with run_receiver() as receiver:
        yield Collector(receiver)
