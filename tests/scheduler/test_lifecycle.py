"""Whatever is overdue ends, with a reason that names the state and whose matter it was."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from scheduler.domain.state import World
from shared import events, subjects
from shared.states import DECISION_GRACE_S, STATES, state_deadline
from tests.scheduler.histories import (
    JOB,
    LATE,
    OFFER,
    T0,
    History,
    completed,
    given_received,
    given_running,
    received,
    world,
)
from tests.support.examples import example_event

GRACE = timedelta(seconds=DECISION_GRACE_S)


def given_assigned() -> History:
    history = given_received()
    history.settle(world(OFFER))
    return history


def end_of(history: History) -> events.SubmissionFinished:
    end = history.facts[-1][1]
    assert isinstance(end, events.SubmissionFinished)
    return end


def test_an_order_repeats_every_option_of_its_submission() -> None:
    example, history = example_event(events.SubmissionReceived), History()
    options = {name: getattr(example, name) for name in events.RunOptions.__struct_fields__}
    submission = structs.replace(received(), **options)
    history.say(subjects.submission("s1"), submission).settle(world(OFFER))
    [(_, order)] = history.of_type("JobAssigned")
    assert {name: getattr(order, name) for name in options} == options


@pytest.mark.feature("N25")
@pytest.mark.parametrize(
    ("history", "now", "code"),
    [
        (given_received(), LATE, "overdue_queued"),
        (given_assigned(), LATE, "overdue_assigned"),
        (given_running(), LATE, "overdue_running"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_past_its_deadline_ends_by_the_name_of_its_state(
    history: History, now: object, code: str
) -> None:
    busy = replace(OFFER, is_free=False)
    history.settle(World(now, {"a1": busy}))  # type: ignore[arg-type]
    end = end_of(history)
    assert (end.outcome, end.code) == ("infra_failed", code)
    assert history.state.submissions == {}


@pytest.mark.parametrize("history", [given_assigned(), given_running()], ids=["given", "begun"])
def test_no_lease_is_over_before_reports_that_wait_for_a_scheduler_could_come(
    history: History,
) -> None:
    busy = replace(OFFER, is_free=False)
    late = T0 + timedelta(hours=1, seconds=1)
    assert history.settle(World(late, {"a1": busy}, has_listened=False)) == []
    history.say(history.run_agg(), completed())
    assert history.settle(World(late, {"a1": busy})) == []
    assert history.state.jobs[JOB].is_over


def test_an_order_that_was_not_started_goes_to_another_agent_in_time() -> None:
    history = given_assigned()
    other = replace(OFFER, agent="a2", session="session-2")
    appended = history.settle(world(OFFER, other, now=T0 + timedelta(seconds=31)))
    assert appended[-4:] == ["JobExpired", "JobRequeued", "JobLeased", "JobAssigned"]
    assert history.run_agg().split(".")[1] == "a2"


def test_a_verdict_that_nobody_decides_on_ends_the_submission_after_the_grace() -> None:
    history = given_running()
    history.say(history.run_agg(), completed())
    history.settle(world(OFFER))
    deadline_at = received().deadline_at
    just_before = deadline_at + GRACE - timedelta(seconds=1)
    assert history.settle(world(OFFER, now=just_before)) == []
    assert history.settle(world(OFFER, now=deadline_at + GRACE)) == ["SubmissionFinished"]
    assert end_of(history).code == "overdue_ranking"


def test_ranker_has_its_grace_after_an_outage_of_everybody_too() -> None:
    history = given_running()
    history.say(history.run_agg(), completed())
    history.settle(world(OFFER))
    assert history.settle(world(OFFER, now=LATE, is_settled=False)) == []


def test_a_decision_in_time_leaves_nothing_to_end() -> None:
    history = given_running()
    history.say(history.run_agg(), completed())
    history.settle(world(OFFER))
    end = events.SubmissionFinished(outcome="passed", is_eligible=True, code="ranked", reason="")
    history.say(subjects.submission("s1"), end)
    assert history.settle(world(OFFER, now=LATE + GRACE)) == []


@pytest.mark.feature("N23")
def test_every_state_has_an_owner_and_a_deadline_within_the_one_of_acceptance() -> None:
    deadline_at = received().deadline_at
    for name, state in STATES.items():
        until = state_deadline(name, deadline_at, T0, T0 + timedelta(seconds=30))
        assert state.owner in ("scheduler", "gpu-agent", "ranker")
        assert until <= deadline_at + GRACE
        assert name == "ranking" or until <= deadline_at
