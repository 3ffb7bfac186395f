"""Cordon, drain, quarantine, release, revoke and paused pools: kept in the log, told by it."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.domain.match import explain_no_match, job_need, list_candidates
from scheduler.domain.queue import Policy
from scheduler.domain.rules import decide
from scheduler.domain.state import World
from shared import events, subjects
from tests.scheduler.histories import (
    ENROLLED,
    JOB,
    OFFER,
    T0,
    History,
    completed,
    failed,
    given_received,
    given_running,
    offering,
    received,
    started,
    world,
)

AGENT = subjects.agent("a1")
ORDERS: list[Any] = [
    events.AgentCordoned(reason="a look at its fan"),
    events.AgentDrained(reason="a new driver"),
    events.AgentQuarantined(reason="it drifts", failures=0),
    events.AgentRevoked(reason="sold"),
]


def given_known() -> History:
    history = History()
    history.settle(world(OFFER))
    return history


@pytest.mark.parametrize("order", ORDERS)
def test_an_agent_out_of_service_gets_no_job(order: events.Fact) -> None:
    history = given_known().say(AGENT, order)
    history.say(subjects.submission("s1"), received())
    assert "JobAssigned" not in history.settle(world(OFFER))


@pytest.mark.parametrize("order", ORDERS[:3])
def test_a_released_agent_gets_jobs_again(order: events.Fact) -> None:
    history = given_known().say(AGENT, order)
    history.say(subjects.submission("s1"), received())
    history.settle(world(OFFER))
    history.say(AGENT, events.AgentReleased(reason="looked at"))
    assert "JobAssigned" in history.settle(world(OFFER))


def test_a_revoked_agent_stays_revoked() -> None:
    history = given_known().say(AGENT, ORDERS[3])
    history.say(AGENT, events.AgentReleased(reason="a mistake"))
    history.say(subjects.submission("s1"), received())
    assert "JobAssigned" not in history.settle(world(OFFER))


@pytest.mark.parametrize("order", ORDERS[:3])
def test_the_run_in_hand_of_an_agent_out_of_service_may_end(order: events.Fact) -> None:
    history = given_running().say(AGENT, order)
    assert history.settle(world(OFFER)) == []
    history.say(history.run_agg(), completed())
    assert history.state.jobs[JOB].is_over
    assert history.settle(world(OFFER)) == []


def test_the_run_of_a_revoked_agent_goes_to_another_even_when_begun() -> None:
    history = given_running().say(AGENT, ORDERS[3])
    appended = history.settle(world(OFFER, offering("a2")))
    assert appended == ["AgentRegistered", "JobExpired", "JobRequeued", "JobLeased", "JobAssigned"]


def fail(
    history: History, times: int, code: str = "platform", *, has_passed_self_test: bool = False
) -> list[str]:
    """Let `a1` fail so many different submissions in a row."""
    appended: list[str] = []
    for _ in range(times):
        history.say(subjects.submission(f"s{history.seq}"), received(f"p{history.seq}"))
        appended += history.settle(world(OFFER))
        fact = failed(code, has_passed_self_test=has_passed_self_test)
        history.say(history.run_agg(), fact)
        appended += history.settle(world())
    return appended


def test_an_agent_that_fails_three_times_in_a_row_is_in_quarantine() -> None:
    history = given_known()
    assert "AgentQuarantined" not in fail(history, 2)
    assert fail(history, 1).count("AgentQuarantined") == 1
    history.say(subjects.submission("s"), received())
    assert "JobAssigned" not in history.settle(world(OFFER))


def test_a_verdict_in_between_begins_the_count_anew() -> None:
    history = given_known()
    fail(history, 2)
    history.settle(world(OFFER))
    history.say(history.run_agg(), started()).say(history.run_agg(), completed())
    assert "AgentQuarantined" not in fail(history, 2)


def test_a_release_begins_the_count_anew() -> None:
    history = given_known()
    fail(history, 3)
    history.say(AGENT, events.AgentReleased(reason="fixed"))
    assert "AgentQuarantined" not in fail(history, 2)


@pytest.mark.parametrize("code", ["problem_fault", "memory", "noisy"])
def test_what_no_agent_could_change_is_not_counted_against_it(code: str) -> None:
    assert "AgentQuarantined" not in fail(given_known(), 5, code)


def test_failures_after_which_a_known_kernel_passed_are_not_counted() -> None:
    history = given_known()
    assert "AgentQuarantined" not in fail(history, 5, has_passed_self_test=True)
    assert "AgentQuarantined" in fail(history, 3)


def test_an_agent_that_misbehaves_is_in_quarantine_until_an_operator_releases_it() -> None:
    history = given_known()
    why = "too many of its requests were refused"
    misbehaving = replace(world(OFFER), misconduct={"a1": why})
    assert history.settle(misbehaving) == ["AgentQuarantined"]
    assert history.of_type("AgentQuarantined")[-1] == (
        AGENT,
        events.AgentQuarantined(reason=why, failures=0),
    )
    history.say(subjects.submission("s1"), received())
    assert "JobAssigned" not in history.settle(world(OFFER))
    history.say(AGENT, events.AgentReleased(reason="another program had its password"))
    assert "JobAssigned" in history.settle(world(OFFER))


def test_an_agent_that_never_registered_is_quarantined_too() -> None:
    history = History()
    assert history.settle(World(T0, misconduct={"a9": "it floods"})) == ["AgentQuarantined"]
    assert history.state.agents["a9"].quarantine == "it floods"


def test_how_many_failures_are_too_many_is_the_operators_matter() -> None:
    history = given_received()
    history.settle(world(OFFER))
    history.say(history.run_agg(), failed())
    appended = history.settle(world(), Policy(quarantine_after=1))
    assert "AgentQuarantined" in appended


def test_a_paused_pool_gives_out_nothing_until_it_is_resumed() -> None:
    history = given_received()
    history.say(subjects.pool("CPU"), events.PoolPaused(reason="a new driver"))
    assert "JobAssigned" not in history.settle(world(OFFER))
    history.say(subjects.pool("CPU"), events.PoolResumed(reason="it is in"))
    assert "JobAssigned" in history.settle(world(OFFER))


def test_a_run_goes_on_in_a_paused_pool() -> None:
    history = given_running()
    history.say(subjects.pool("CPU"), events.PoolPaused(reason="a new driver"))
    assert history.settle(world(OFFER)) == []


def test_a_paused_intake_holds_no_queued_job_back() -> None:
    history = given_received()
    history.say(subjects.audit("platform"), events.IntakePaused(reason="a new release"))
    assert "JobAssigned" in history.settle(world(OFFER))


def test_a_run_that_no_lease_names_is_nobodys() -> None:
    history = given_running()
    (_, order) = history.of_type("JobAssigned")[0]
    assert isinstance(order, events.JobAssigned)
    history.say(subjects.run("a9", "forged"), order)
    history.say(subjects.run("a9", "forged"), completed())
    assert history.settle(world(OFFER)) == []


@pytest.mark.parametrize(
    "fact",
    [started(), completed(), events.RunDiscarded(verdict=""), events.PoolPaused(reason="so there")],
)
def test_an_agent_that_spoils_its_own_orders_holds_no_job_back_and_is_found_out(
    fact: events.Fact,
) -> None:
    history = given_known()
    for _ in range(3):
        next_run = history.state.agents["a1"].next_run("a1", 0)
        history.say(subjects.run("a1", next_run), fact)
    history.say(subjects.submission("s1"), received())
    appended = history.settle(world(OFFER))
    assert "AgentQuarantined" in appended
    assert history.settle(world(OFFER, offering("a2")))[-1] == "JobAssigned"


def test_what_counts_goes_to_an_agent_that_somebody_answers_for_alone() -> None:
    history = given_received()
    history.settle(world())
    assert not [move for move in decide(history.state, world(OFFER)) if len(move) == 2]
    (waiting,) = list_candidates(history.state, world(OFFER))["CPU"]
    why = explain_no_match(job_need(next(iter(history.state.jobs.values()))), [waiting])
    assert why == (
        "no agent of CPU is enrolled, as ranked runs and evaluations need: warpboard agent enroll"
    )
    history.say(subjects.agent("a1"), ENROLLED)
    assert history.settle(world(OFFER))[-2:] == ["JobLeased", "JobAssigned"]


def test_an_agent_without_an_owner_takes_what_counts_for_nothing() -> None:
    history = History()
    history.say(subjects.submission("s1"), received(mode="test"))
    history.settle(world())
    assert 2 in [len(move) for move in decide(history.state, world(OFFER))]


def test_an_agent_that_is_enrolled_again_is_not_revoked_any_more() -> None:
    history = given_received().enrol("a1")
    history.say(subjects.agent("a1"), events.AgentRevoked(reason="lost"))
    assert "JobLeased" not in history.settle(world(OFFER))
    history.say(subjects.agent("a1"), ENROLLED)
    assert history.settle(world(OFFER)) == ["JobLeased", "JobAssigned"]
