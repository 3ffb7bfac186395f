"""Launchers are asked for an agent for each job that no live agent takes, within their limits."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from scheduler.domain.launches import LAUNCHES_MAX, RUNNER_FAILED
from scheduler.domain.queue import Policy, build_forecast
from scheduler.domain.state import Offer
from shared import events, subjects
from shared.events import Requires
from tests.scheduler.histories import (
    JOB,
    LATE,
    OFFER,
    T0,
    History,
    completed,
    offering,
    ranked_end,
    received,
    started,
    world,
)

START_S = 60.0
SOON = T0 + timedelta(seconds=START_S - 1)
TOO_LATE = T0 + timedelta(seconds=START_S)
REGISTERED = events.LauncherRegistered(
    kind="local", prices={"CPU": 0.0}, agents=["l-1", "l-2"], daily_cost_max=10, start_s_max=START_S
)
COMES: Offer = offering("l-1")


def given_launcher(name: str = "local", **fields: Any) -> History:
    registered = msgspec.structs.replace(REGISTERED, **fields)
    return History().say(subjects.launcher(name), registered)


def given_waiting(runner: str = "", count: int = 1, **fields: Any) -> History:
    history = given_launcher(**fields)
    for number in range(1, count + 1):
        submission = received(requires=Requires(runner=runner), bucket="b", cost=1)
        history.say(subjects.submission(f"s{number}"), submission)
    return history


def request_ids(history: History) -> list[str]:
    requested = events.InstanceRequested
    return [event.envelope.id for event in history.events if isinstance(event.fact, requested)]


def end(history: History, reason: str = "", request: str | None = None) -> History:
    """Report the end of the newest request, or of another one."""
    request = request_ids(history)[-1] if request is None else request
    ended = events.InstanceEnded(agent="l-1", job=JOB, reason=reason, request=request)
    return history.say(subjects.launcher("local"), ended)


def test_a_job_that_no_agent_takes_gets_an_agent_of_its_own() -> None:
    history = given_waiting()
    assert history.settle(world()) == ["InstanceRequested"]
    [(_, requested)] = history.of_type("InstanceRequested")
    assert isinstance(requested, events.InstanceRequested)
    assert (requested.agent, requested.job, requested.gpu) == ("l-1", JOB, "CPU")
    appended = history.settle(world(COMES))
    assert [name for name in appended if name.startswith("Job")] == ["JobLeased", "JobAssigned"]
    history.say(history.run_agg(), started()).say(history.run_agg(), completed())
    end(history).say(subjects.submission("s1"), ranked_end())
    assert history.settle(world()) == []
    assert history.state.launchers["local"].failures == 0


def test_a_job_that_a_busy_agent_takes_later_starts_nothing() -> None:
    history = given_waiting()
    assert "InstanceRequested" not in history.settle(world(offering(is_free=False)))


@pytest.mark.parametrize(("offered", "count"), [(["g++"], 0), (["g++", "triton"], 1), ([], 1)])
def test_a_launcher_gets_no_job_whose_toolchain_its_agents_lack(
    offered: list[str], count: int
) -> None:
    history = given_launcher(toolchains=offered)
    history.say(subjects.submission("s1"), received(requires=Requires(toolchains=["triton"])))
    # The live agent has no triton.
    history.settle(world(OFFER))
    assert len(history.of_type("InstanceRequested")) == count


def test_who_chooses_a_runner_gets_no_other_agent() -> None:
    history = given_waiting(runner="local")
    history.settle(world(OFFER))
    assert history.of_type("JobLeased") == []
    history.settle(world(OFFER, COMES))
    [(_, leased)] = history.of_type("JobLeased")
    assert isinstance(leased, events.JobLeased)
    assert leased.agent == "l-1"


def test_the_agent_of_a_launcher_takes_no_other_job() -> None:
    history = given_launcher(prices={"H100": 1.0})
    history.say(subjects.submission("s1"), received())
    assert "JobLeased" not in history.settle(world(COMES))


def test_no_more_agents_are_requested_than_a_launcher_may_run() -> None:
    history = given_waiting(count=3)
    assert history.settle(world()) == ["InstanceRequested", "InstanceRequested"]
    assert set(history.state.launchers["local"].instances) == {"l-1", "l-2"}


def test_an_agent_that_is_still_there_is_not_requested_again() -> None:
    history = given_waiting(agents=["l-1"])
    history.settle(world())
    end(history, "it failed")
    assert history.settle(world(COMES)) == ["AgentRegistered"]
    assert history.settle(world()) == ["InstanceRequested"]


def test_nothing_is_started_once_a_day_has_cost_its_limit() -> None:
    history = given_waiting(prices={"CPU": 3600.0}, daily_cost_max=30.0)
    history.settle(world())
    history.at = T0 + timedelta(seconds=30)
    end(history, "it failed")
    launcher = history.state.launchers["local"]
    assert launcher.cost_on(history.at) == pytest.approx(30.0)
    assert history.settle(world(now=history.at)) == []
    forecast = build_forecast(history.state, "CPU", [], world(now=history.at), Policy())
    assert [(row.name, row.running, row.cost_today) for row in forecast.launchers] == [
        ("local", 0, 30.0)
    ]
    # The next day begins at midnight (UTC).
    tomorrow = datetime.combine(T0.date() + timedelta(days=1), T0.timetz())
    assert launcher.cost_on(tomorrow) == 0


def test_the_cheapest_launcher_that_serves_a_gpu_type_is_asked() -> None:
    history = given_launcher(prices={"CPU": 2.0})
    cheap = msgspec.structs.replace(REGISTERED, prices={"CPU": 1.0}, agents=["c-1"])
    history.say(subjects.launcher("cheap"), cheap)
    history.say(subjects.launcher("other"), msgspec.structs.replace(cheap, prices={"H100": 0.0}))
    history.say(subjects.submission("s1"), received())
    history.settle(world())
    [(aggregate, _)] = history.of_type("InstanceRequested")
    assert aggregate == subjects.launcher("cheap")


def test_what_never_starts_ends_as_a_failure_of_the_platform_and_is_refunded() -> None:
    history = given_waiting()
    history.settle(world())
    for _ in range(LAUNCHES_MAX - 1):
        end(history, "no machine is free")
        assert history.settle(world()) == ["InstanceRequested"]
    end(history, "no machine is free")
    assert history.settle(world()) == ["JobGivenUp", "SubmissionFinished", "QuotaReturned"]
    [(_, finished)] = history.of_type("SubmissionFinished")
    assert isinstance(finished, events.SubmissionFinished)
    assert (finished.outcome, finished.code) == ("infra_failed", RUNNER_FAILED)
    assert "no machine is free" in finished.reason


def test_an_agent_that_leaves_without_its_job_counts_as_not_started() -> None:
    history = given_waiting()
    history.settle(world())
    end(history)
    assert history.state.jobs[JOB].launches == 1


def test_an_agent_that_does_not_come_in_time_is_given_up_and_gets_nothing_later() -> None:
    history = given_waiting(agents=["l-1"])
    history.settle(world())
    assert history.settle(world(now=SOON)) == []
    assert history.settle(world(now=TOO_LATE, is_settled=False)) == []
    assert history.settle(world(now=TOO_LATE)) == ["InstanceEnded", "InstanceRequested"]
    later = TOO_LATE + timedelta(seconds=START_S)
    *_, last = history.settle(world(now=later))
    assert last == "QuotaReturned"
    assert "JobLeased" not in history.settle(world(COMES, now=later))


def test_a_late_end_leaves_a_newer_request_for_the_same_job_and_agent_open() -> None:
    history = given_waiting(agents=["l-1"])
    history.settle(world())
    assert history.settle(world(now=TOO_LATE)) == ["InstanceEnded", "InstanceRequested"]
    first, second = request_ids(history)
    end(history, "it could not be started", first)
    launcher, job = history.state.launchers["local"], history.state.jobs[JOB]
    assert (list(launcher.instances), launcher.failures, job.launches) == (["l-1"], 1, 1)
    end(history, "it could not be started", second)
    assert (list(launcher.instances), launcher.failures, job.launches) == ([], 2, 2)


def test_a_standing_agent_takes_the_job_if_it_comes_first() -> None:
    history = given_waiting()
    history.settle(world())
    appended = history.settle(world(OFFER))
    assert "JobLeased" in appended
    assert appended[-1] == "InstanceEnded"


def test_an_agent_that_dies_in_its_job_is_replaced_once() -> None:
    history = given_waiting()
    history.settle(world())
    for expected in (
        ["JobExpired", "JobRequeued", "InstanceRequested"],
        ["JobExpired", "JobGivenUp", "SubmissionFinished", "QuotaReturned"],
    ):
        history.settle(world(COMES))
        history.say(history.run_agg(), started())
        end(history, "the agent ended with code -9")
        assert history.settle(world()) == expected
    (_, finished) = history.of_type("SubmissionFinished")[-1]
    assert isinstance(finished, events.SubmissionFinished)
    assert finished.code == "agents_lost"


def test_an_agent_whose_launcher_is_silent_is_ended_after_the_deadline_of_its_job() -> None:
    history = given_waiting()
    history.settle(world())
    history.settle(world(COMES))
    history.say(history.run_agg(), started()).say(history.run_agg(), completed())
    history.say(subjects.submission("s1"), ranked_end())
    assert "InstanceEnded" not in history.settle(world(now=TOO_LATE))
    assert history.settle(world(now=LATE)) == ["InstanceEnded"]


def test_a_cancelled_submission_ends_its_request() -> None:
    history = given_waiting()
    history.settle(world())
    cancel = events.SubmissionCancelRequested(reason="a typo")
    history.say(subjects.submission("s1"), cancel)
    assert history.settle(world())[-1] == "InstanceEnded"


@pytest.mark.parametrize("paused", [True, False])
def test_a_paused_pool_starts_nothing(paused: bool) -> None:
    history = given_waiting()
    if paused:
        history.say(subjects.pool("CPU"), events.PoolPaused(reason="a repair"))
    assert ("InstanceRequested" in history.settle(world())) is not paused
