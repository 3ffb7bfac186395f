"""Canaries and rejudges: jobs beside the submissions', that end none."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from scheduler.domain.state import World
from shared import events, subjects
from shared.events import Blob, RejudgeItem, Requires
from tests.scheduler.histories import (
    LATE,
    OFFER,
    T0,
    History,
    completed,
    failed,
    offering,
    received,
    started,
    world,
)

POOL, REJUDGE = subjects.pool("CPU"), subjects.rejudge("r1")
CHOSEN = events.CanaryChosen(
    submission="s1",
    account="ada",
    problem="identity",
    problem_number=1,
    problem_digest="d",
    source=Blob(digest="c", bytes=1),
    name="canary.py",
    every_s=60.0,
    ratio_max=1.2,
)


def given_canary(agents: int = 1) -> History:
    history = History()
    history.settle(world(*[offering(f"a{number}") for number in range(1, agents + 1)]))
    return history.say(POOL, CHOSEN)


def run_canaries(history: History, *times_us: float, minute: int = 0) -> list[str]:
    """One canary on each of so many agents, each with its time (0: it fails)."""
    alive = [offering(f"a{number + 1}") for number in range(len(times_us))]
    now = T0 + timedelta(minutes=minute)
    appended = history.settle(World(now, {item.agent: item for item in alive}))
    for aggregate, _ in history.of_type("JobAssigned")[-len(times_us) :]:
        time_us = times_us[int(aggregate.split(".")[1][1:]) - 1]
        verdict = "passed" if time_us else "wrong_answer"
        history.say(aggregate, completed(verdict, time_us or None))
    return appended + history.settle(World(now, {item.agent: item for item in alive}))


def test_every_agent_runs_the_canary_now_and_then() -> None:
    history = given_canary(2)
    assert run_canaries(history, 10.0, 10.0).count("CanaryJudged") == 2
    assert history.settle(world(offering("a1"), offering("a2"))) == []
    assert run_canaries(history, 10.0, 10.0, minute=1).count("CanaryJudged") == 2
    queued = [fact for _, fact in history.of_type("JobQueued")]
    assert {getattr(fact, "agent", "") for fact in queued} == {"a1", "a2"}


def test_a_canary_is_for_its_own_agent_alone() -> None:
    history = given_canary()
    history.settle(world(OFFER))
    (aggregate, order) = history.of_type("JobAssigned")[0]
    assert isinstance(order, events.JobAssigned)
    assert (aggregate.split(".")[1], order.class_, order.source.digest) == ("a1", "canary", "c")
    history.settle(world(offering("a2")))
    assert all(
        aggregate.split(".")[1] == "a1" for aggregate, _ in history.of_type("JobAssigned")[:1]
    )


@pytest.mark.feature("A8")
def test_a_slow_canary_puts_its_agent_in_quarantine() -> None:
    history = given_canary(3)
    run_canaries(history, 10.0, 11.0, 10.0)
    appended = run_canaries(history, 10.0, 10.0, 20.0, minute=1)
    assert appended.count("AgentQuarantined") == 1
    assert history.state.agents["a3"].quarantine == "its canary took 2 times as long as usual"
    judged = [fact for _, fact in history.of_type("CanaryJudged")]
    assert [getattr(fact, "is_good", None) for fact in judged].count(False) == 1


def test_a_failing_canary_puts_its_agent_in_quarantine_once_it_ran_elsewhere() -> None:
    history = given_canary(3)
    assert "AgentQuarantined" not in run_canaries(history, 0.0, 0.0, 0.0)
    run_canaries(history, 10.0, 10.0, 10.0, minute=1)
    assert "AgentQuarantined" in run_canaries(history, 10.0, 10.0, 0.0, minute=2)


def test_the_first_canaries_say_what_is_usual() -> None:
    history = given_canary(1)
    for minute, time_us in enumerate((10.0, 30.0, 10.0)):
        assert "AgentQuarantined" not in run_canaries(history, time_us, minute=minute)
    canary = history.state.pool("CPU").canary
    assert canary is not None
    assert canary.times_us == pytest.approx([10.0, 30.0, 10.0])


def test_a_cordoned_agent_runs_canaries_alone() -> None:
    history = given_canary()
    history.say(subjects.agent("a1"), events.AgentCordoned(reason="a look"))
    history.say(subjects.submission("s2"), received())
    run_canaries(history, 10.0)
    assert [getattr(fact, "class_", "") for _, fact in history.of_type("JobAssigned")] == ["canary"]


def test_a_canary_that_the_platform_fails_ends_nothing_else() -> None:
    history = given_canary()
    history.settle(world(OFFER))
    history.say(history.run_agg(), failed())
    assert history.settle(world(OFFER)) == ["JobGivenUp"]
    assert history.state.jobs == {}


def test_a_removed_canary_leaves_nothing_waiting() -> None:
    history = given_canary()
    history.settle(world(offering(is_free=False)))
    history.say(POOL, events.CanaryRemoved(reason="no more"))
    assert history.settle(world(OFFER)) == ["JobCancelled"]


def given_rejudge(count: int = 3, *, is_retime: bool = False, **problem: Any) -> History:
    history = History()
    history.settle(world(OFFER))
    published = events.ProblemPublished(
        number=2,
        digest="new",
        title="",
        manifest=Blob(digest="m", bytes=1),
        files={},
        gpus=["CPU"],
        cases_count={},
        ranking_by="mean",
        budgets_s={},
        source_bytes_max=1,
        lang="py",
        **problem,
    )
    history.say(subjects.problem("identity"), published)
    items = [
        RejudgeItem(
            submission=f"s{number}",
            account="ada",
            gpu="CPU",
            source=Blob(digest=f"x{number}", bytes=1),
            name="kernel.py",
        )
        for number in range(count)
    ]
    requested = events.RejudgeRequested(
        problem="identity",
        from_number=2 if is_retime else 1,
        to_number=2,
        to_digest="new",
        select="best",
        reason="a case was wrong",
        items=items,
    )
    return history.say(REJUDGE, requested)


def test_a_rejudge_queues_each_of_its_submissions_once() -> None:
    history = given_rejudge(250)
    appended = history.settle(world())
    assert appended == ["JobQueued"] * 250
    assert history.state.rejudges == {}
    (_, queued) = history.of_type("JobQueued")[7]
    assert isinstance(queued, events.JobQueued)
    fields = (queued.class_, queued.rejudge, queued.problem_digest, queued.mode, queued.submission)
    assert fields == ("rejudge", "r1", "new", "ranked", "s7")
    assert queued.source == Blob(digest="x7", bytes=1)


def test_a_rejudge_needs_what_the_new_version_needs() -> None:
    history = given_rejudge(1, requires=Requires(toolchains=["nvcc"]))
    history.settle(world(OFFER))
    assert history.of_type("JobAssigned") == []
    history.settle(world(offering(toolchains={"nvcc": "13"})))
    assert len(history.of_type("JobAssigned")) == 1


def test_the_verdict_of_a_rejudged_job_ends_the_job_alone() -> None:
    history = given_rejudge(1)
    history.settle(world(OFFER))
    history.say(history.run_agg(), completed())
    assert history.settle(world(OFFER)) == ["JobFinished"]
    assert (history.state.jobs, history.state.runs) == ({}, {})


def test_a_rejudged_job_that_the_platform_fails_is_given_up_and_no_more() -> None:
    history = given_rejudge(1)
    history.settle(world())
    assert history.settle(world(now=LATE + timedelta(days=2))) == ["JobGivenUp"]
    assert history.state.jobs == {}


def test_a_discarded_rejudge_cancels_what_waits_and_lets_the_rest_end() -> None:
    history = given_rejudge(3)
    history.settle(world(OFFER))
    history.say(REJUDGE, events.RejudgeDiscarded(reason="it changes nothing"))
    assert history.settle(world(OFFER)) == ["JobCancelled", "JobCancelled"]
    history.say(history.run_agg(), completed())
    assert history.settle(world(OFFER)) == ["JobFinished"]


def test_a_rejudge_discarded_before_it_was_queued_queues_nothing() -> None:
    history = given_rejudge(3).say(REJUDGE, events.RejudgeDiscarded(reason="a mistake"))
    assert history.settle(world(OFFER)) == []


def test_a_noisy_run_that_is_timed_again_gives_way_to_a_participant() -> None:
    history = given_rejudge(1, is_retime=True)
    history.settle(world(OFFER))
    history.say(history.run_agg(), started())
    history.say(subjects.submission("s9"), received())
    assert history.settle(world(replace(OFFER, is_free=False))) == ["RunCancelled", "JobRequeued"]
    history.settle(world(OFFER))
    (_, order) = history.of_type("JobAssigned")[-1]
    assert isinstance(order, events.JobAssigned)
    assert order.submission == "s9"


def test_a_noisy_run_that_finds_no_quiet_machine_again_is_given_up_after_two_tries() -> None:
    history = given_rejudge(1, is_retime=True)
    for _ in range(2):
        history.settle(world(OFFER))
        history.say(history.run_agg(), failed("noisy"))
    assert history.settle(world(OFFER)) == ["JobGivenUp"]
    assert history.state.jobs == {}


def test_a_rejudged_submission_that_is_open_is_not_touched() -> None:
    history = given_rejudge(1)
    history.say(subjects.submission("s0"), received(deadline_at=LATE + timedelta(days=3)))
    history.settle(world(OFFER))
    assert set(history.state.submissions) == {"s0"}
    (own,) = [job for job in history.state.jobs.values() if not job.rejudge]
    assert history.state.submissions["s0"].job == own.id
    assert msgspec.structs.asdict(own)["class_"] == "practice"
