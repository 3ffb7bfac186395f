"""What every service measures in the same way."""

import pytest
from prometheus_client import CollectorRegistry

from shared import subjects
from shared.clock import new_id, now
from shared.event_log import Conflict, New
from shared.events import JobFinished
from shared.memory import MemoryLog
from shared.metrics import LifeMetrics, MeasuredLog, Metered
from shared.wire import Stamp, seal


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def new(expected: int) -> New:
    stamp = Stamp(new_id(), now(), "service:test", "s1", "test")
    return New(seal(JobFinished(run="r1", verdict="passed"), subjects.job("j1"), stamp), expected)


async def test_appends_are_timed_and_counted_by_how_they_end(registry: CollectorRegistry) -> None:
    log = MeasuredLog(MemoryLog(), "gpu-agent", registry)
    assert await log.append(new(0)) == 1
    with pytest.raises(Conflict):
        await log.append(new(0))
    name = "warpboard_gpu_agent_append"
    assert registry.get_sample_value(f"{name}s_total", {"outcome": "stored"}) == 1
    assert registry.get_sample_value(f"{name}s_total", {"outcome": "conflict"}) == 1
    assert registry.get_sample_value(f"{name}s_total", {"outcome": "failed"}) == 0
    assert registry.get_sample_value(f"{name}_seconds_count") == 2
    assert [event.seq for event in await log.history("job.j1")] == [1]


async def test_answers_are_counted_by_status_whatever_was_asked(
    registry: CollectorRegistry,
) -> None:
    async def application(scope: dict[str, str], _receive: object, send: object) -> None:
        if scope["path"] == "/broken":
            raise RuntimeError("broken")
        await send({"type": "http.response.start", "status": 404})  # type: ignore[operator]

    async def send(_message: dict[str, object]) -> None:
        """Nobody listens."""

    metered = Metered(application, "ingest", registry)
    for path in ("/1", "/2", "/3"):
        await metered({"type": "http", "method": f"M{path}", "path": path}, None, send)
    with pytest.raises(RuntimeError):
        await metered({"type": "http", "method": "GET", "path": "/broken"}, None, send)
    name = "warpboard_ingest_http"
    assert registry.get_sample_value(f"{name}_total", {"status": "404"}) == 3
    assert registry.get_sample_value(f"{name}_total", {"status": "500"}) == 1
    assert registry.get_sample_value(f"{name}_seconds_count", {"method": "other"}) == 3


def test_a_process_says_how_many_of_its_parts_are_ill(registry: CollectorRegistry) -> None:
    ailing: dict[str, str] = {}
    life = LifeMetrics("ranker", lambda: ailing, registry)
    assert registry.get_sample_value("warpboard_ranker_ailing_parts") == 0
    ailing["read models"] = "no Postgres"
    assert registry.get_sample_value("warpboard_ranker_ailing_parts") == 1
    life.turned(-0.1)
    assert registry.get_sample_value("warpboard_ranker_loop_lag_seconds_sum") == 0
