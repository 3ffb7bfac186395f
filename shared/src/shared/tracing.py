"""Spans: what a service did for a submission, and when. They are off by default.

The trace context is in every event already. The trace's id is the correlation id of the envelope,
which is the submission's; the id of a span is derived from what it did. So any service, also one
that was restarted in between, knows the parents of its spans, and no event carries anything more
(docs/adr/tracing.md).
"""

import hashlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

Kind = Literal["internal", "server", "producer", "consumer"]
Attributes = Mapping[str, str | int | float | bool]

# The number of the submission or evaluation.
NUMBER_ATTRIBUTE = "warpboard.number"
# The span of the HTTP request that a trace begins with.
REQUEST = "request"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NO_ATTRIBUTES: Attributes = MappingProxyType({})


class Span(NamedTuple):
    """Something that is over: `key` is its name in its trace, `parent` the key of another span.

    `trace` is a correlation id. Times are nanoseconds since 1970; `error` is why it failed.
    """

    trace: str
    key: str
    parent: str
    name: str
    began_ns: int
    ended_ns: int
    kind: Kind = "internal"
    attributes: Attributes = _NO_ATTRIBUTES
    error: str = ""


def trace_id(corr: str) -> int:
    """Return the id of a trace: the 128 bits of a UUID, or those of any other text's hash.

    >>> f"{trace_id('018f3f64-5717-7abc-8def-0123456789ab'):032x}"
    '018f3f6457177abc8def0123456789ab'
    """
    if _UUID.fullmatch(corr):
        return int(corr.replace("-", ""), 16)
    return int.from_bytes(hashlib.sha256(corr.encode()).digest()[:16])


def span_id(corr: str, key: str) -> int:
    """Return the id of a span, 64 bits, of its trace and its key."""
    return int.from_bytes(hashlib.sha256(f"{corr}/{key}".encode()).digest()[:8])


def assignment_key(run: str) -> str:
    """Return the key of the span in which a run was given to an agent."""
    return f"{run}/assign"


def run_key(run: str) -> str:
    """Return the key of the span of a run on its agent."""
    return f"{run}/run"


class SpanRecorder(Protocol):
    """Takes spans that are over."""

    def record(self, span: Span) -> None:
        """Keep a span until it is exported; it never waits."""

    def export_soon(self) -> None:
        """Export what is kept: nothing is timed on this machine now."""


class DiscardingRecorder:
    """Takes spans while tracing is off."""

    def record(self, span: Span) -> None:
        """Discard it."""

    def export_soon(self) -> None:
        """Do nothing."""


DISCARD: SpanRecorder = DiscardingRecorder()
