"""Spans are exported as they were recorded, in the background, and sampled alike everywhere."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from shared import otlp
from shared.clock import new_id
from shared.otlp import SPANS_MAX, OtlpRecorder
from shared.request_trace import RequestTrace, request_trace
from shared.tracing import DISCARD, REQUEST, Span, assignment_key, run_key, span_id, trace_id
from tests.support.receiver import HANG
from tests.support.spans import PATH, Collector, run_collector
from tests.support.waits import until

BEGAN_NS, ENDED_NS = 1_700_000_000_000_000_000, 1_700_000_001_500_000_000


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that recorders find."""
    with run_collector() as running:
        for name, value in running.environ.items():
            monkeypatch.setenv(name, value)
        yield running


def span(trace: str, key: str = REQUEST, parent: str = "") -> Span:
    """A span of a trace."""
    return Span(trace, key, parent, f"the {key}", BEGAN_NS, ENDED_NS)


def test_a_trace_has_the_id_of_its_submission() -> None:
    submission = new_id()
    assert f"{trace_id(submission):032x}" == submission.replace("-", "")
    assert trace_id("canary-of-a1") == trace_id("canary-of-a1") != trace_id("canary-of-a2")


def test_spans_of_one_run_differ_and_those_of_another_service_are_known() -> None:
    keys = [REQUEST, assignment_key("r1"), run_key("r1"), run_key("r2")]
    assert len({span_id("t", key) for key in keys}) == 4
    assert span_id("t", REQUEST) != span_id("u", REQUEST)


def test_a_span_arrives_as_it_was_recorded(collector: Collector) -> None:
    submission = new_id()
    recorder = OtlpRecorder("scheduler")
    recorder.record(
        Span(
            *(submission, assignment_key("r1"), REQUEST, "assign", BEGAN_NS, ENDED_NS),
            kind="producer",
            attributes={"warpboard.agent": "a1", "warpboard.attempt": 2},
            error="it was lost",
        )
    )
    recorder.close()
    [arrived] = collector.spans
    assert arrived.service == "warpboard-scheduler"
    assert arrived.trace == submission.replace("-", "")
    assert arrived.parent == f"{span_id(submission, REQUEST):016x}"
    assert arrived.id == f"{span_id(submission, assignment_key('r1')):016x}"
    assert (arrived.began_ns, arrived.ended_ns) == (BEGAN_NS, ENDED_NS)
    assert (arrived.name, arrived.error) == ("assign", "it was lost")
    assert arrived.attributes == {"warpboard.agent": "a1", "warpboard.attempt": 2}


def test_an_agent_exports_only_when_it_is_told_that_nothing_is_timed(collector: Collector) -> None:
    recorder = OtlpRecorder("gpu-agent", is_waiting=True)
    for _ in range(3):
        recorder.record(span(new_id()))
    assert recorder._due.wait(0.3) is False
    assert collector.receiver.requests == []
    recorder.export_soon()
    until(lambda: len(collector.spans) == 3, 10)
    recorder.close()


@pytest.mark.parametrize(("share", "least", "most"), [("0", 0, 0), ("0.5", 120, 180)])
def test_services_sample_the_same_traces(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, share: str, least: int, most: int
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", share)
    # A UUID's own bits would let none or all of them pass. Outside the range once in 1500 runs.
    traces = [new_id() for _ in range(300)]
    for service in ("ingest", "ranker"):
        recorder = OtlpRecorder(service)
        for trace in traces:
            recorder.record(span(trace))
        recorder.close()
    sampled = [
        {item.trace for item in collector.spans if item.service == f"warpboard-{service}"}
        for service in ("ingest", "ranker")
    ]
    assert sampled[0] == sampled[1]
    assert least <= len(sampled[0]) <= most


def test_a_collector_that_hangs_keeps_nobody_waiting(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setattr(otlp, "CLOSE_S_MAX", 0.5)
    collector.receiver.planned[PATH] = [HANG] * 5
    recorder = OtlpRecorder("ingest")
    for _ in range(3 * SPANS_MAX):
        recorder.record(span(new_id()))
    assert collector.receiver.requests == [], "record waits for no request"
    assert len(recorder._spans) == SPANS_MAX
    closing = threading.Thread(target=recorder.close)
    closing.start()
    closing.join(5)
    assert not closing.is_alive()


def test_a_request_is_recorded_in_the_trace_of_each_submission() -> None:
    spans: list[Span] = []

    class Recorder:
        def record(self, item: Span) -> None:
            spans.append(item)

        def export_soon(self) -> None:
            """Nothing is exported."""

    trace = RequestTrace()
    trace.end_step("load")
    trace.end_step("commit")
    trace.record(Recorder(), "POST /v1/submissions", 400)
    assert spans == []
    trace.accept("one", 7)
    trace.accept("other", 8)
    trace.record(Recorder(), "POST /v1/submissions", 202)
    assert [(item.trace, item.name) for item in spans if not item.parent] == [
        ("one", "POST /v1/submissions"),
        ("other", "POST /v1/submissions"),
    ]
    assert [item.name for item in spans if item.trace == "one" and item.parent == REQUEST] == [
        "load",
        "commit",
    ]
    assert spans[1].ended_ns == spans[2].began_ns


def test_nothing_is_noted_while_tracing_is_off() -> None:
    request_trace().end_step("load")
    request_trace().accept("one", 7)
    request_trace().record(DISCARD, "POST /v1/submissions", 202)
    assert request_trace() is request_trace()


def test_a_service_without_the_extra_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "from scheduler.__main__ import _run, _open_spans, load, lifecycle\n"
        "sys.exit(lifecycle.run_service('scheduler', load, _run, record=_open_spans))"
    )
    environ = {
        "WARPBOARD_SCHEDULER_NATS_URL": "nats://127.0.0.1:1",
        "WARPBOARD_SCHEDULER_OPS_LISTEN": "127.0.0.1:0",
        "WARPBOARD_SCHEDULER_TRACING": "true",
    }
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2, ran.stderr
    assert "WARPBOARD_SCHEDULER_TRACING is true" in ran.stderr
    assert "pip install './shared[tracing]'" in ran.stderr
