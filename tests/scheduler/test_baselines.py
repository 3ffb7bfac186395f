"""Baselines: submissions of the platform's own, which wait behind everybody and still end."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from scheduler.domain.leases import BASELINE_TURN_S
from scheduler.domain.queue import Policy
from shared import events, subjects
from shared.subjects import BASELINE_ACCOUNT
from tests.scheduler.histories import (
    CPU,
    LATE,
    OFFER,
    T0,
    History,
    completed,
    given_running,
    received,
    started,
    world,
)

BUSY = replace(OFFER, is_free=False)
PAUSE = timedelta(seconds=Policy().baseline_pause_s)


def given_baselines(count: int = 1, **other: Any) -> History:
    history = History()
    for number in range(1, count + 1):
        baseline = received(BASELINE_ACCOUNT, class_="rejudge", baseline="eager", **other)
        history.say(subjects.submission(f"b{number}"), baseline)
    return history


def test_a_baseline_waits_behind_a_participants_submission() -> None:
    history = given_baselines().say(subjects.submission("s1"), received())
    history.settle(world())
    history.settle(world(OFFER, now=T0 + 2 * PAUSE))
    (_, order) = history.of_type("JobAssigned")[0]
    assert isinstance(order, events.JobAssigned)
    assert order.submission == "s1"
    assert history.state.pools["CPU"].is_waited_for


def test_whoever_publishes_may_submit_before_their_baselines_run() -> None:
    history = given_baselines()
    assert history.settle(world(OFFER, now=T0)) == ["AgentRegistered"]
    assert "JobLeased" in history.settle(world(OFFER, now=T0 + PAUSE))


def given_running_baseline() -> History:
    history = given_baselines(deadline_at=LATE + PAUSE)
    history.settle(world(OFFER, now=T0 + PAUSE))
    return history.say(history.run_agg(), started())


def test_a_baseline_that_runs_gives_way_to_a_participants_submission() -> None:
    history = given_running_baseline()
    history.say(subjects.submission("s1"), received())
    names = history.settle(world(BUSY, now=T0 + PAUSE))
    assert names == ["RunCancelled", "JobRequeued"]
    history.settle(world(OFFER, now=T0 + PAUSE))
    assert history.of_type("JobAssigned")[-1][1].submission == "s1"  # type: ignore[attr-defined]
    history.say(history.run_agg(), completed())
    history.settle(world(OFFER, now=T0 + PAUSE))
    (_, again) = history.of_type("JobAssigned")[-1]
    assert isinstance(again, events.JobAssigned)
    assert (again.submission, again.attempt) == ("b1", 1)
    assert history.state.agents["a1"].failures == 0


def test_a_baseline_gives_way_to_nobody_whom_its_agent_cannot_serve() -> None:
    history = given_running_baseline()
    history.say(subjects.submission("s1"), received(mode="profile"))
    registration = msgspec.structs.replace(CPU, modes=["test", "ranked"])
    busy = replace(BUSY, registration=registration)
    names = history.settle(world(busy, now=T0 + PAUSE))
    assert names == ["AgentRegistered"]


def test_a_free_agent_that_takes_no_jobs_keeps_nobody_waiting() -> None:
    history = given_running_baseline().enrol("a2")
    history.say(subjects.agent("a2"), events.AgentCordoned(reason="r"))
    history.say(subjects.submission("s1"), received())
    cordoned = replace(OFFER, agent="a2")
    names = history.settle(world(BUSY, cordoned, now=T0 + PAUSE))
    assert names == ["AgentRegistered", "RunCancelled", "JobRequeued"]


def test_a_baseline_that_has_its_turn_runs_to_its_end() -> None:
    history = given_running_baseline()
    history.say(subjects.submission("s1"), received(deadline_at=LATE + PAUSE))
    at = T0 + timedelta(seconds=BASELINE_TURN_S)
    assert history.settle(world(BUSY, now=at)) == []


def test_participants_give_way_to_nobody() -> None:
    history = given_running()
    history.say(subjects.submission("s2"), received("bob"))
    assert history.settle(world(BUSY)) == []


def given_baseline_among(count: int) -> History:
    """A baseline that waits with so many participants, behind one of whom each agent comes free."""
    history = given_baselines(deadline_at=LATE + PAUSE)
    for number in range(count):
        theirs = received(f"p{number}", deadline_at=LATE + PAUSE)
        history.say(subjects.submission(f"s{number}"), theirs)
    history.settle(world())
    return history


def served(history: History, count: int, now: datetime) -> list[str]:
    """Which submissions an agent is given, one after the other."""
    for _ in range(count):
        history.settle(world(OFFER, now=now))
        history.say(history.run_agg(), completed())
        history.settle(world(now=now))
    orders = [fact for _, fact in history.of_type("JobAssigned")]
    return [order.submission for order in orders if isinstance(order, events.JobAssigned)]


def test_while_anybody_waits_no_baseline_begins_for_an_hour() -> None:
    history = given_baseline_among(12)
    assert "b1" not in served(history, 11, T0 + 2 * PAUSE)


def test_a_baseline_that_waited_for_an_hour_takes_its_turns() -> None:
    history = given_baseline_among(12)
    assert "b1" in served(history, 11, T0 + timedelta(seconds=BASELINE_TURN_S))


def test_a_baseline_without_an_agent_ends_at_its_deadline() -> None:
    history = given_baselines()
    assert history.settle(world()) == []
    assert history.settle(world(now=LATE)) == ["JobGivenUp", "SubmissionFinished"]
    end = history.facts[-1][1]
    assert isinstance(end, events.SubmissionFinished)
    assert (end.outcome, end.code) == ("cancelled", "overdue_queued")
    assert history.state.submissions == {}
    assert history.state.jobs == {}


def test_a_whole_catalogue_of_baselines_is_not_too_much() -> None:
    history = given_baselines(150)
    assert history.settle(world()) == []
    assert len(history.state.jobs) == 150
