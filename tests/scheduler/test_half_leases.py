"""A lease whose order is missing, for its scheduler died in between, is fixed by whoever lives."""

from datetime import timedelta

import pytest

from scheduler.domain.leases import ORDER_S_MAX
from scheduler.domain.rules import decide
from scheduler.domain.state import Decision
from shared import events, subjects
from tests.scheduler.histories import (
    CPU,
    JOB,
    LATE,
    OFFER,
    T0,
    History,
    completed,
    given_received,
    names,
    offering,
    world,
)

SOON = T0 + timedelta(seconds=ORDER_S_MAX)


def given_half() -> tuple[History, Decision]:
    """The history of a scheduler that was killed after the lease, and what it meant to say."""
    history = given_received(2).enrol("a1")
    history.say(subjects.agent("a1"), CPU)
    history.settle(world())
    (lease,) = decide(history.state, world(OFFER))
    next(history.append_stepwise(lease))
    return history, lease


def test_an_agent_with_half_a_lease_is_given_nothing_else_and_has_time_for_its_order() -> None:
    history, _ = given_half()
    assert history.settle(world(OFFER)) == []


def test_the_missing_order_is_the_same_event_whoever_says_it() -> None:
    history, (_, order) = given_half()
    ((fixed,),) = decide(history.state, world(OFFER, now=SOON))
    assert (fixed.id, fixed.aggregate, fixed.expected) == (
        order.id,
        order.aggregate,
        order.expected,
    )
    assert isinstance(order.fact, events.JobAssigned)
    assert isinstance(fixed.fact, events.JobAssigned)
    assert fixed.fact.attempt == order.fact.attempt == 1
    assert fixed.fact.session == OFFER.session
    assert fixed.fact.lease_until_at > SOON
    assert history.settle(world(OFFER, now=SOON)) == ["JobAssigned"]
    history.say(order.aggregate, completed())
    assert history.settle(world(OFFER, now=SOON)) == ["JobLeased", "JobAssigned"]


def test_leases_of_one_job_to_two_agents_are_two_events() -> None:
    history = given_received().enrol("a1", "a2")
    for agent in ("a1", "a2"):
        history.say(subjects.agent(agent), CPU)
    history.settle(world())
    agents = (offering("a1"), offering("a2"), offering("a1"))
    leases = [next(iter(decide(history.state, world(item))))[0] for item in agents]
    # A log takes an id that it knows for the same event: else who lost would go on to the order.
    assert leases[0].id == leases[2].id != leases[1].id
    assert len({lease.expected for lease in leases}) == 1


def test_who_just_started_waits_to_hear_of_the_agent() -> None:
    history, _ = given_half()
    assert names(list(decide(history.state, world(now=SOON, is_settled=False)))) == []


def test_the_job_of_an_agent_that_died_too_goes_to_another() -> None:
    history, _ = given_half()
    others = world(offering("a2"), now=SOON)
    history.settle(others)
    history.say(history.run_agg(), completed())
    appended = history.settle(others)
    assert history.of_type("JobExpired")[0][0].startswith("run.a1.")
    leases = [
        fact for aggregate, fact in history.of_type("JobLeased") if aggregate == subjects.job(JOB)
    ]
    assert [getattr(lease, "agent", "") for lease in leases] == ["a1", "a2"]
    assert appended[-1] == "JobAssigned"


def test_an_agent_that_writes_its_own_order_first_loses_the_lease() -> None:
    history, (_, order) = given_half()
    assert isinstance(order.fact, events.JobAssigned)
    history.say(order.aggregate, events.RunDiscarded(verdict="y"))
    assert history.settle(world(OFFER))[:2] == ["JobRequeued", "JobLeased"]
    assert history.of_type("JobAssigned")[0][0] != order.aggregate
    assert history.state.agents["a1"].failures == 1


@pytest.mark.parametrize("when", [T0, LATE])
def test_a_cancel_or_a_deadline_waits_for_the_order_and_ends_all(when: object) -> None:
    history, _ = given_half()
    if when == T0:
        cancel = events.SubmissionCancelRequested(reason="never mind")
        history.say(subjects.submission("s1"), cancel)
        assert history.settle(world(OFFER)) == []
        appended = history.settle(world(OFFER, now=SOON))
        assert appended[:2] == ["JobAssigned", "SubmissionFinished"]
        assert "RunCancelled" in appended
    else:
        history.settle(world(OFFER, now=LATE))
        assert len(history.of_type("SubmissionFinished")) == 2
    assert [run for run in history.state.runs.values() if run.end is None and run.job == JOB] == []
    assert order_of(history) not in history.state.agents["a1"].runs


def order_of(history: History) -> str:
    """The run that the first lease named."""
    (_, leased) = history.of_type("JobLeased")[0]
    assert isinstance(leased, events.JobLeased)
    return leased.run
