"""Forecasts: when each waiting job may begin, or why it cannot, within bounds."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from scheduler.domain.match import list_candidates
from scheduler.domain.queue import TYPICAL_S, Forecast, Policy, build_forecast
from scheduler.domain.state import Offer, World
from scheduler.service import FORECAST_BYTES_MAX, encode_forecast
from shared import events, subjects
from shared.events import Requires
from tests.scheduler.histories import (
    OFFER,
    T0,
    History,
    completed,
    given_received,
    offering,
    received,
    world,
)


def forecast_now(history: History, *offers: Offer, gpu: str = "CPU") -> Forecast:
    now_world = World(history.at, {offer.agent: offer for offer in offers})
    history.enrol(*now_world.offers)
    alive = list_candidates(history.state, now_world).get(gpu, [])
    return build_forecast(history.state, gpu, alive, now_world, Policy())


def given_waiting(count: int, **requirements: Any) -> History:
    history = History()
    for number in range(count):
        history.say(subjects.submission(f"s{number}"), received(f"p{number}", **requirements))
    history.settle(world())
    return history


@pytest.mark.feature("N1")
def test_each_waits_for_those_before_it() -> None:
    rows = forecast_now(given_waiting(3), offering("a1"), offering("a2")).jobs
    assert [(row.submission, row.position, row.eta_s) for row in rows] == [
        ("s0", 1, 0.0),
        ("s1", 2, 0.0),
        ("s2", 3, TYPICAL_S),
    ]


def test_the_time_comes_from_how_long_such_runs_took_lately() -> None:
    history = given_waiting(4)
    history.settle(world(OFFER))
    history.at += timedelta(seconds=4)
    history.say(history.run_agg(), completed())
    history.settle(World(history.at, {}))
    forecast = forecast_now(history, OFFER)
    assert [row.eta_s for row in forecast.jobs] == [0.0, 4.0, 8.0]
    assert forecast.run_s == {"p50": 4.0, "p90": 4.0}


def test_a_run_under_way_is_waited_for_as_long_as_it_has_left() -> None:
    history = given_waiting(2)
    history.settle(world(OFFER))
    history.at += timedelta(seconds=10)
    forecast = forecast_now(history, OFFER)
    (row,), (run,) = forecast.jobs, forecast.runs
    assert (run.agent, run.kind, run.submission) == ("a1", "submission", "s0")
    assert history.at - run.assigned_at == timedelta(seconds=10)
    assert row.eta_s == TYPICAL_S - 10
    assert row.eta_p90_s is not None
    assert row.eta_p90_s >= row.eta_s


@pytest.mark.parametrize(
    ("asked", "offer", "why"),
    [
        ({}, None, "no agent of CPU is alive"),
        ({}, offering(gpu="H200"), "no agent of CPU is alive"),
        ({}, offering(modes=["test"]), "no agent of CPU takes mode ranked"),
        (
            {"requires": Requires(toolchains=["nvcc"])},
            offering(),
            "no agent of CPU has toolchain nvcc",
        ),
        *(
            (
                {"requires": Requires(release="0.3.0")},
                offering(release=release),
                (
                    "the problem has options that need agents of release 0.3.0 or later, "
                    "and those of CPU are older: upgrade them"
                ),
            )
            for release in ("", "0.2.9")
        ),
        (
            {"requires": Requires(memory_mib=9000)},
            offering(memory_mib=8000),
            "needs 8.8 GiB of memory, the agents of CPU offer 7.8 GiB at most",
        ),
        (
            {"requires": Requires(sandbox_memory_mib=6144)},
            offering(sandbox_memory_mib=4096),
            "needs 6 GiB of memory for the submission, the agents of CPU offer 4 GiB at most",
        ),
        (
            {"requires": Requires(level="strong")},
            offering(level="weak"),
            "no agent of CPU isolates at level strong",
        ),
        (
            {"requires": Requires(count=2)},
            offering(host="h"),
            "no host has 2 agents of CPU that fit",
        ),
        (
            {},
            offering(quarantine="a process is left"),
            "no agent of CPU is in service: a1 is in quarantine: a process is left",
        ),
    ],
)
def test_who_cannot_run_is_told_why(asked: dict[str, Any], offer: Offer | None, why: str) -> None:
    history = given_waiting(1, **asked)
    (row,) = forecast_now(history, *([offer] if offer else [])).jobs
    assert (row.position, row.eta_s, row.why) == (1, None, why)


def test_an_agent_of_a_later_release_can_run_it() -> None:
    history = given_waiting(1, requires=Requires(release="0.3.0"))
    (row,) = forecast_now(history, offering(release="0.10.0")).jobs
    assert row.why == ""


def test_a_drained_pool_says_who_is_drained() -> None:
    history = given_waiting(1)
    history.settle(world(offering(is_free=False)))
    history.say(subjects.agent("a1"), events.AgentDrained(reason="a new driver"))
    (row,) = forecast_now(history, OFFER).jobs
    assert row.why == "no agent of CPU is in service: a1 is drained: a new driver"


def test_a_paused_pool_says_so() -> None:
    history = given_waiting(1).say(subjects.pool("CPU"), events.PoolPaused(reason="a new fan"))
    forecast = forecast_now(history, OFFER)
    assert forecast.paused == "a new fan"
    assert forecast.jobs[0].why == "the pool is paused: a new fan"


def test_agents_are_counted_free_and_busy() -> None:
    history = given_received()
    history.settle(world(OFFER))
    forecast = forecast_now(
        history, offering(is_free=False), offering("a2"), offering("a3", quarantine="x")
    )
    assert (forecast.free, forecast.busy, forecast.depth) == (1, 1, 0)


def test_a_long_queue_is_told_in_part_and_within_bounds() -> None:
    history = History()
    for number in range(450):
        id_ = f"0193a1b2-0000-7000-8000-{number:012d}"
        submission = received(f"p{number}", requires=Requires(toolchains=[f"a-tool-{'x' * 150}"]))
        history.say(subjects.submission(id_), submission)
    history.settle(world())
    forecast = forecast_now(history, offering())
    assert (forecast.depth, len(forecast.jobs)) == (450, 300)
    data = encode_forecast(forecast)
    assert len(data) <= FORECAST_BYTES_MAX
    cut = msgspec.json.decode(data)
    assert (cut["gpu"], cut["depth"]) == ("CPU", 450)
    assert 200 < len(cut["jobs"]) < 300


def test_a_rejudge_has_a_place_but_no_row() -> None:
    history = History()
    queued = events.JobQueued(
        submission="s9",
        account="ada",
        problem="identity",
        problem_digest="d",
        gpu="CPU",
        mode="ranked",
        deadline_at=T0 + timedelta(days=1),
        attempts_max=1,
        class_="rejudge",
        rejudge="r1",
        source=received().source,
    )
    history.say(subjects.job("j9"), queued)
    forecast = forecast_now(history, OFFER)
    assert (forecast.depth, forecast.jobs) == (1, [])
