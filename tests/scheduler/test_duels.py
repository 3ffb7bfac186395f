"""Duels: a job of two sources, which ends no submission and costs nobody anything."""

from typing import Any

import msgspec

from harness.vocabulary import DUEL
from shared import events, subjects
from shared.events import Blob, DuelSide
from shared.subjects import job_id_of
from tests.scheduler.histories import History, completed, failed, offering, received, world

AGG = subjects.duel("d1")
MODES = ["test", "ranked", DUEL]


def side(submission: str, account: str) -> DuelSide:
    return DuelSide(
        submission=submission,
        number=1,
        account=account,
        source=Blob(digest=submission, bytes=1),
        name=f"{submission}.py",
    )


REQUESTED = events.DuelRequested(
    problem="identity",
    problem_number=1,
    problem_digest="d",
    gpu="CPU",
    first=side("s1", "ada"),
    second=side("s2", "grace"),
)


def given_duel(*agents: str, **offered: Any) -> History:
    history = History()
    alive = [offering(agent, **{"modes": MODES} | offered) for agent in agents]
    history.settle(world(*alive))
    history.say(AGG, REQUESTED)
    history.settle(world(*alive))
    return history


def orders(history: History) -> list[tuple[str, Any]]:
    return history.of_type("JobAssigned")


def test_a_duel_is_one_job_with_both_sources() -> None:
    history = given_duel("a1")
    ((aggregate, queued),) = history.of_type("JobQueued")
    assert isinstance(queued, events.JobQueued)
    assert aggregate == subjects.job(job_id_of("d1"))
    assert (queued.mode, queued.class_, queued.duel) == (DUEL, "rejudge", "d1")
    ((_, order),) = orders(history)
    assert order.source.digest == "s1"
    assert (order.rival.digest, order.rival_name) == ("s2", "s2.py")
    assert history.of_type("QuotaReturned") == []


def test_a_duel_needs_an_agent_that_offers_them() -> None:
    assert orders(given_duel("a1", modes=["test", "ranked"])) == []
    assert len(orders(given_duel("a1"))) == 1


def test_a_duel_needs_an_agent_that_somebody_answers_for() -> None:
    history = History()
    history.say(subjects.agent("a1"), events.AgentRevoked(reason="sold"))
    history.say(AGG, REQUESTED)
    history.settle(world(offering("a1", modes=MODES)))
    assert len(history.of_type("JobQueued")) == 1
    assert orders(history) == []


def test_a_duel_that_came_to_a_verdict_is_over() -> None:
    history = given_duel("a1")
    ((aggregate, _),) = orders(history)
    history.say(aggregate, completed("passed", None))
    alive = offering("a1", modes=MODES)
    history.settle(world(alive))
    assert len(history.of_type("JobFinished")) == 1
    assert history.of_type("SubmissionFinished") == []
    assert history.state.jobs == {}
    assert history.state.duels == {}


def test_a_duel_that_the_platform_fails_is_tried_once_more() -> None:
    history = given_duel("a1", "a2")
    alive = [offering(agent, modes=MODES) for agent in ("a1", "a2")]
    history.say(orders(history)[0][0], failed("noisy"))
    history.settle(world(*alive))
    assert len(orders(history)) == 2
    assert orders(history)[0][0].split(".")[1] != orders(history)[1][0].split(".")[1]
    history.say(orders(history)[1][0], failed("noisy"))
    history.settle(world(*alive))
    assert len(orders(history)) == 2
    assert len(history.of_type("JobGivenUp")) == 1
    assert history.of_type("SubmissionFinished") == []
    assert history.state.jobs == {}


def test_a_duel_leaves_an_open_submission_alone() -> None:
    history = History()
    alive = offering("a1", modes=MODES)
    history.settle(world(alive))
    history.say(subjects.submission("s1"), received())
    history.say(AGG, REQUESTED)
    history.settle(world(alive))
    assert sorted(job.mode for job in history.state.jobs.values()) == [DUEL, "ranked"]
    ((_, first),) = orders(history)
    assert first.mode == "ranked"
    history.say(orders(history)[0][0], completed("passed", 1.0))
    history.settle(world(alive))
    assert [order.mode for _, order in orders(history)] == ["ranked", DUEL]


CONFIRMATION = events.ConfirmationRequested(
    problem="identity",
    problem_number=1,
    problem_digest="d",
    gpu="CPU",
    item=events.RejudgeItem(
        submission="s1",
        account="ada",
        gpu="CPU",
        source=Blob(digest="s1", bytes=1),
        name="s1.py",
    ),
    run="r1",
    agent="a1",
    score_us=1.0,
)


def given_confirmation(*agents: str) -> History:
    history = History()
    alive = [offering(agent, modes=MODES) for agent in agents]
    history.settle(world(*alive))
    history.say(subjects.confirmation("c1"), CONFIRMATION)
    history.settle(world(*alive))
    return history


def test_a_confirmation_runs_on_another_agent() -> None:
    history = given_confirmation("a1", "a2")
    ((aggregate, queued),) = history.of_type("JobQueued")
    assert isinstance(queued, events.JobQueued)
    assert aggregate == subjects.job(job_id_of("c1"))
    assert (queued.mode, queued.class_, queued.confirmation) == ("ranked", "rejudge", "c1")
    ((run, order),) = orders(history)
    assert run.split(".")[1] == "a2"
    assert (order.mode, order.source.digest, order.rival) == ("ranked", "s1", None)
    history.say(run, completed("passed", 1.0))
    history.settle(world(*(offering(agent, modes=MODES) for agent in ("a1", "a2"))))
    assert len(history.of_type("JobFinished")) == 1
    assert history.of_type("SubmissionFinished") == history.of_type("QuotaReturned") == []
    assert (history.state.jobs, history.state.confirmations) == ({}, {})


def test_a_confirmation_waits_while_its_first_agent_is_alone() -> None:
    history = given_confirmation("a1")
    assert orders(history) == []
    history.settle(world(offering("a1", modes=MODES), offering("a2", modes=MODES)))
    ((run, _),) = orders(history)
    assert run.split(".")[1] == "a2"


def test_a_confirmation_that_fails_is_tried_once_more_but_never_by_its_first_agent() -> None:
    history = given_confirmation("a1", "a2")
    alive = [offering(agent, modes=MODES) for agent in ("a1", "a2")]
    for count in (1, 2):
        assert [run.split(".")[1] for run, _ in orders(history)] == ["a2"] * count
        history.say(orders(history)[-1][0], failed("noisy"))
        history.settle(world(*alive))
    assert len(history.of_type("JobGivenUp")) == 1
    assert history.state.jobs == {}


def test_a_forged_request_means_nothing() -> None:
    history = History()
    alive = offering("a1", modes=MODES)
    history.settle(world(alive))
    forged = msgspec.structs.replace(REQUESTED, reason="I am an agent")
    history.say(subjects.report("a1", "run"), forged)
    history.settle(world(alive))
    assert history.of_type("JobQueued") == []
