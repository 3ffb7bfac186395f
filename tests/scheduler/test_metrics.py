"""Numbers of the state: each agent in one state, and no series for what is gone."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs
from prometheus_client import REGISTRY

from scheduler.domain.state import Agent, Offer, SchedulerState, World
from scheduler.metrics import BusMetrics, SchedulerMetrics
from shared.event_log import Append
from shared.events import AgentRegistered, EvaluationFinished
from shared.nats.bus import BusStatus
from shared.nats.pull import AckFloor, ConsumerInfo
from tests.scheduler.histories import LATE, T0, world
from tests.scheduler.test_baselines import given_baselines
from tests.scheduler.test_evaluations import BATCH, Platform, alive, given, requested
from tests.support.examples import example_event

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
START = "warpboard_scheduler"


@pytest.fixture(autouse=True)
def _apart() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = set(REGISTRY._collector_to_names)
    yield
    for collector in set(REGISTRY._collector_to_names) - before:
        REGISTRY.unregister(collector)


def said(gpu: str = "H200", quarantine: str = "") -> AgentRegistered:
    fields = {"gpu": gpu, "quarantine": quarantine}
    whole = example_event(AgentRegistered)
    return AgentRegistered(
        **{name: getattr(whole, name) for name in whole.__struct_fields__} | fields
    )


def offer(name: str, *, is_free: bool = True, quarantine: str = "") -> Offer:
    return Offer(name, "s1", is_free, said(quarantine=quarantine))


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"{START}_{name}", labels)


def test_each_agent_is_in_one_state() -> None:
    state = SchedulerState(
        agents={
            "free": Agent(registration=said()),
            "busy": Agent(registration=said()),
            "ill": Agent(registration=said(), drain="so"),
            "drained": Agent(registration=said(), drain="so", cordon="so"),
            "cordoned": Agent(registration=said(), cordon="so"),
            "silent": Agent(registration=said(), quarantine="so"),
            "revoked": Agent(registration=said(), revoked="so"),
        }
    )
    offers = {
        "busy": offer("busy", is_free=False),
        "ill": offer("ill", quarantine="a process is left"),
        **{name: offer(name) for name in ("free", "drained", "cordoned", "revoked")},
    }
    SchedulerMetrics().looked(state, World(NOON, offers), 0)
    states = ("free", "busy", "cordoned", "drained", "quarantined", "silent")
    assert [value("agents", state=state) for state in states] == [1] * 6
    assert value("pool_agents", gpu="H200") == 2
    assert value("pool_slots", gpu="H200", state="free") == 1
    assert value("pool_slots", gpu="H200", state="busy") == 1


def test_a_silent_agent_has_a_series_until_it_is_revoked() -> None:
    metrics, world = SchedulerMetrics(), World(NOON, {"a1": offer("a1")})
    state = SchedulerState(agents={"a1": Agent(registration=said())})
    metrics.looked(state, world, 0)
    later = replace(world, now=NOON + timedelta(seconds=90), offers={})
    metrics.looked(state, later, 0)
    assert value("agent_last_seen_seconds", agent="a1") == 90
    state.agents["a1"].revoked = "gone"
    metrics.looked(state, replace(later, now=NOON + timedelta(seconds=92)), 0)
    assert value("agent_last_seen_seconds", agent="a1") is None
    assert value("canary_time_ratio", agent="a1") is None


def test_a_pool_without_agents_has_a_queue_all_the_same() -> None:
    state = SchedulerState(agents={"a1": Agent(registration=said("B200"))})
    SchedulerMetrics().looked(state, World(NOON), 0)
    assert value("queue_depth_jobs", gpu="B200") == 0
    assert value("pool_agents", gpu="B200") == 0


def test_a_consumer_that_is_gone_loses_its_series() -> None:
    metrics = BusMetrics()
    reader = ConsumerInfo("gpu-agent-a1", {}, AckFloor(4, 9), 1, 2, 3)
    metrics.told(BusStatus(9, 900, 3, 2, [reader]))
    assert value("consumer_pending_events", consumer="gpu-agent-a1") == 1
    assert (value("dead_letters_total"), value("open_dead_letters")) == (3, 2)
    metrics.told(BusStatus(9, 900, 4, 0, []))
    assert value("consumer_pending_events", consumer="gpu-agent-a1") is None
    assert (value("dead_letters_total"), value("open_dead_letters")) == (4, 0)


def test_baselines_that_wait_wake_nobody() -> None:
    history = given_baselines(3)
    history.settle(world())
    SchedulerMetrics().queues.look(history.state, LATE, set())
    for name in ("queue_depth_jobs", "oldest_queued_age_seconds"):
        assert REGISTRY.get_sample_value(f"{START}_{name}", {"gpu": "CPU"}) == 0


def test_the_age_of_an_evaluation_is_not_that_of_a_job() -> None:
    history = given(requested(8, 4))
    metrics = SchedulerMetrics()
    metrics.queues.look(history.state, T0 + timedelta(minutes=40), set())
    assert value("oldest_evaluation_age_seconds", gpu="CPU") == 2400
    assert value("oldest_queued_age_seconds", gpu="CPU") == 0
    assert (value("queue_depth_jobs", gpu="CPU"), value("running_jobs", gpu="CPU")) == (1, 1)

    history.begin().complete().settle(alive("a1"))
    metrics.queues.look(history.state, T0 + timedelta(minutes=41), set())
    assert value("oldest_evaluation_age_seconds", gpu="CPU") == 0, "all of it runs"


def test_the_items_and_device_time_of_an_evaluation_count_when_it_is_over() -> None:
    metrics = SchedulerMetrics()
    metrics.said((Append(BATCH, requested(8), None, "", ""),))
    finished = EvaluationFinished(
        outcome="cancelled", completed=5, failed=1, cancelled=2, device_s=12.5
    )
    assert value("evaluation_items_total", outcome="completed") == 0
    metrics.said((Append(BATCH, finished, None, "", ""),))
    counts = [
        value("evaluation_items_total", outcome=outcome)
        for outcome in ("completed", "failed", "cancelled")
    ]
    assert (counts, value("evaluation_device_seconds_total")) == ([5, 1, 2], 12.5)


def test_the_wait_of_a_chunk_is_not_that_of_a_job() -> None:
    history = Platform()
    history.say(BATCH, requested(8))
    metrics = SchedulerMetrics()
    for job in history.state.jobs.values():
        metrics.queues.leased(job)
        assert value("queue_wait_seconds_count", gpu="CPU") is None
        metrics.queues.leased(structs.replace(job, chunk=None))
    assert value("queue_wait_seconds_count", gpu="CPU") == 1
