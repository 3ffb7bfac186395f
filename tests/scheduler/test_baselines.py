"""Baselines: submissions of the platform's own, which wait behind everybody and still end."""

from datetime import timedelta

from scheduler.domain.lease import BASELINE_PAUSE_S
from shared import events, subjects
from shared.ids import BASELINE_ACCOUNT
from tests.scheduler.histories import LATE, OFFER, T0, History, received, world

PAUSE = timedelta(seconds=BASELINE_PAUSE_S)


def given_baselines(count: int = 1) -> History:
    history = History()
    for number in range(1, count + 1):
        baseline = received(BASELINE_ACCOUNT, class_="rejudge", baseline="eager")
        history.say(subjects.submission(f"b{number}"), baseline)
    return history


def test_a_baseline_waits_behind_a_participants_submission() -> None:
    history = given_baselines().say(subjects.submission("s1"), received())
    history.settle(world())
    history.settle(world(OFFER, now=T0 + 2 * PAUSE))
    (_, order) = history.of_type("JobAssigned")[0]
    assert isinstance(order, events.JobAssigned)
    assert order.submission == "s1"
    assert history.board.pools["CPU"].is_waited_for


def test_whoever_publishes_may_submit_before_their_baselines_run() -> None:
    history = given_baselines()
    assert history.settle(world(OFFER, now=T0)) == ["AgentRegistered", "JobQueued"]
    assert "JobLeased" in history.settle(world(OFFER, now=T0 + PAUSE))


def test_a_baseline_without_an_agent_ends_at_its_deadline() -> None:
    history = given_baselines()
    assert history.settle(world()) == ["JobQueued"]
    assert history.settle(world(now=LATE)) == ["JobGivenUp", "SubmissionFinished"]
    end = history.facts[-1][1]
    assert isinstance(end, events.SubmissionFinished)
    assert (end.outcome, end.code) == ("cancelled", "overdue_queued")
    assert history.board.submissions == {}
    assert history.board.jobs == {}


def test_a_whole_catalogue_of_baselines_is_not_too_much() -> None:
    history = given_baselines(150)
    assert set(history.settle(world())) == {"JobQueued"}
