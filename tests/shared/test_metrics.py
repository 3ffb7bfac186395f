"""The metrics that all services have."""

import pytest
from prometheus_client import CollectorRegistry

from shared.event_log import LogCounts
from shared.metrics import HttpMetricsMiddleware, LogMetrics, ProcessMetrics


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


class Busy:
    """A log with some activity."""

    def __init__(self) -> None:
        self.counts = LogCounts(conflicts=3, gaps=1)
        self.reconnects = 2
        self.silent_s = 0.5
        for took_s in (0.0004, 0.002, 0.002, 60.0):
            self.counts.append.add(took_s)


def test_what_a_log_counts_is_shown_as_it_is(registry: CollectorRegistry) -> None:
    log = Busy()
    LogMetrics("gpu-agent", log, registry)
    start = "warpboard_gpu_agent"
    bucket = f"{start}_append_seconds_bucket"
    counts = [registry.get_sample_value(bucket, {"le": le}) for le in ("0.0005", "0.0025", "+Inf")]
    assert counts == [1, 3, 4]
    assert registry.get_sample_value(f"{start}_append_seconds_count") == 4
    assert registry.get_sample_value(f"{start}_append_conflicts_total") == 3
    assert registry.get_sample_value(f"{start}_pump_silent_seconds") == 0.5
    log.reconnects += 1
    assert registry.get_sample_value(f"{start}_reconnects_total") == 3


async def test_answers_are_counted_by_status_whatever_was_asked(
    registry: CollectorRegistry,
) -> None:
    async def application(scope: dict[str, str], _receive: object, send: object) -> None:
        if scope["path"] == "/broken":
            raise RuntimeError("broken")
        await send({"type": "http.response.start", "status": 404})  # type: ignore[operator]

    async def send(_message: dict[str, object]) -> None:
        """Discard a message."""

    metered = HttpMetricsMiddleware(application, "ingest", registry)
    for path in ("/1", "/2", "/3"):
        await metered({"type": "http", "method": f"M{path}", "path": path}, None, send)
    with pytest.raises(RuntimeError):
        await metered({"type": "http", "method": "GET", "path": "/broken"}, None, send)
    name = "warpboard_ingest_http"
    assert registry.get_sample_value(f"{name}_total", {"status": "404"}) == 3
    assert registry.get_sample_value(f"{name}_total", {"status": "500"}) == 1
    assert registry.get_sample_value(f"{name}_seconds_count", {"method": "other"}) == 3


def test_a_process_says_how_many_of_its_parts_are_ill(registry: CollectorRegistry) -> None:
    unhealthy: dict[str, str] = {}
    life = ProcessMetrics("ranker", lambda: unhealthy, registry)
    assert registry.get_sample_value("warpboard_ranker_unhealthy_parts") == 0
    unhealthy["read models"] = "no Postgres"
    assert registry.get_sample_value("warpboard_ranker_unhealthy_parts") == 1
    life.turned(-0.1)
    assert registry.get_sample_value("warpboard_ranker_loop_lag_seconds_sum") == 0
