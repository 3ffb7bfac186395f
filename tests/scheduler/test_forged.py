"""What an agent forges under its own prefix changes nothing that is not its own."""

import msgspec
import pytest

from scheduler.domain.fold import evolve
from scheduler.domain.state import Agent
from shared import events, subjects
from shared.event_log import RecordedEvent
from shared.events import Fact
from shared.wire import EventMetadata, UnknownEvent, make_envelope
from tests.scheduler.histories import (
    JOB,
    LATE,
    T0,
    History,
    completed,
    failed,
    given_received,
    given_running,
    offering,
    ranked_end,
    world,
)
from tests.support.writers import written

THIEF = "thief"
RELEASED = events.RunReleased(reason="to myself")
STAMP = EventMetadata("y", T0, "service:scheduler", "", "")


def meaning(history: History) -> bytes:
    """All that the state says but for where it stands, and for the liar's own agent."""
    state = msgspec.json.decode(msgspec.json.encode(history.state))
    del state["seq"]
    state["agents"].pop(THIEF, None)
    return msgspec.json.encode(state)


@pytest.mark.parametrize("fact", [completed(), failed(), events.RunCancelled(reason="so there")])
def test_a_run_is_moved_by_its_own_agent_alone(fact: Fact) -> None:
    history = given_running()
    before, run = meaning(history), history.run_agg().split(".")[2]
    history.say(subjects.run(THIEF, run), fact)
    assert meaning(history) == before


@pytest.mark.parametrize(
    "fact",
    [
        ranked_end(),
        events.SubmissionCancelRequested(reason="so there"),
    ],
)
def test_no_run_says_what_becomes_of_a_submission(fact: Fact) -> None:
    history = given_running()
    before = meaning(history)
    history.say(subjects.run(THIEF, "s1"), fact)
    assert meaning(history) == before


def test_no_run_says_what_becomes_of_an_agent_a_job_a_quota_or_a_pool() -> None:
    history = given_running()
    (job,) = history.state.jobs
    before = meaning(history)
    for id_, fact in (
        ("a1", events.AgentRevoked(reason="a rival")),
        ("a1", events.AgentReleased(reason="a friend")),
        ("CPU", events.PoolPaused(reason="so there")),
        (job, events.JobFinished(run="r", verdict="passed")),
        (job, events.JobCancelled(reason="so there")),
        ("ada", events.QuotaReturned(submission="s1", bucket="b", cost=1, reason="mine")),
    ):
        history.say(subjects.run(THIEF, id_), fact)
    assert meaning(history) == before


def test_a_run_goes_on_after_another_agent_wrote_under_its_name() -> None:
    history = given_running()
    aggregate = history.run_agg()
    history.say(subjects.run(THIEF, aggregate.split(".")[2]), failed())
    history.say(aggregate, completed())
    assert history.state.jobs[JOB].is_over
    history.settle(world(offering("a1")))
    assert evolve(history.state, history.events[-1]) == history.state


def test_an_order_that_an_agent_writes_itself_takes_nobody_elses_place() -> None:
    history = given_received(2)
    history.settle(world(offering("a1"), offering(THIEF)))
    orders = dict(history.of_type("JobAssigned"))
    mine = next(aggregate for aggregate in orders if aggregate.startswith(f"run.{THIEF}."))
    theirs = next(aggregate for aggregate in orders if not aggregate.startswith(f"run.{THIEF}."))
    history.say(subjects.run(THIEF, theirs.split(".")[2]), orders[mine])
    run = history.state.runs[theirs.split(".")[2]]
    assert run.agent == "a1"
    assert run.job == orders[theirs].job  # type: ignore[attr-defined]


@pytest.mark.parametrize("fact", [events.RunDiscarded(verdict="passed"), ranked_end()])
def test_a_run_expires_whatever_its_agent_wrote_there(fact: Fact) -> None:
    history = given_running()
    history.say(history.run_agg(), fact)
    appended = history.settle(world(offering("a1"), now=LATE))
    assert appended[:3] == ["JobExpired", "JobGivenUp", "SubmissionFinished"]


@pytest.mark.parametrize("fact", [events.RunDiscarded(verdict="passed"), ranked_end(), RELEASED])
def test_what_lies_where_an_order_belongs_keeps_no_job_from_others(fact: Fact) -> None:
    history = given_received()
    history.say(subjects.agent("a1"), offering("a1").registration)
    history.say(subjects.run("a1", Agent().next_run("a1", 0)), fact)
    history.settle(world(offering("a1")))
    assert history.state.agents["a1"].runs


def test_an_event_of_a_run_that_cannot_be_read_stops_nobody_and_others_do() -> None:
    history = given_running()
    aggregate, (job,) = history.run_agg(), history.state.jobs
    for broken in ({"data": msgspec.Raw(b'{"verdict":7}')}, {"v": 99}):
        where, actor = written(aggregate, completed())
        envelope = make_envelope(completed(), where, EventMetadata("x", history.at, actor, "", ""))
        history.seq += 1
        evolve(
            history.state, RecordedEvent(history.seq, msgspec.structs.replace(envelope, **broken))
        )
        assert history.state.runs[aggregate.split(".")[2]].version == history.seq
    queued = make_envelope(dict(history.facts)[subjects.job(job)], subjects.job(job), STAMP)
    with pytest.raises(UnknownEvent):
        evolve(history.state, RecordedEvent(history.seq + 1, msgspec.structs.replace(queued, v=99)))
