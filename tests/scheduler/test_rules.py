"""What the scheduler says, given a history, the agents and the clock."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scheduler.domain.moves import Offer
from scheduler.domain.rules import ATTEMPTS_MAX, OPEN_SUBMISSIONS_MAX, due
from shared import events, subjects
from tests.scheduler.histories import (
    CPU,
    JOB,
    OFFER,
    T0,
    completed,
    given_received,
    given_running,
    names,
    world,
)


def test_a_received_submission_gets_one_job() -> None:
    history = given_received()
    assert names(list(due(history.board, world()))) == ["JobQueued"]
    history.settle(world())
    assert list(due(history.board, world())) == []


def test_a_free_agent_gets_the_oldest_job() -> None:
    history = given_received(3).enrol("a1")
    history.settle(world())
    (move,) = [move for move in due(history.board, world(OFFER)) if len(move) == 2]
    assert isinstance(move[0].fact, events.JobLeased)
    assert move[0].agg == subjects.job(JOB)


def test_one_agent_gets_one_job_at_a_time() -> None:
    history = given_received(3)
    said = history.settle(world(OFFER))
    assert said.count("JobAssigned") == 1


def test_an_agent_of_another_gpu_type_gets_nothing() -> None:
    history = given_received()
    h200 = replace(
        OFFER,
        registration=events.AgentRegistered(
            gpu="H200", count=1, fingerprint="f", level="none", harness="1", details={}
        ),
    )
    assert "JobAssigned" not in history.settle(world(h200))


def _offering(**said: object) -> Offer:
    fields = {name: getattr(CPU, name) for name in CPU.__struct_fields__}
    return replace(OFFER, registration=events.AgentRegistered(**fields | said))


def test_a_ranked_job_waits_while_no_agent_offers_that_mode() -> None:
    history = given_received()
    unfit = _offering(modes=["test", "benchmark", "profile"])
    assert "JobAssigned" not in history.settle(world(unfit))
    assert "JobAssigned" in history.settle(world(OFFER))


def test_a_job_passes_by_an_agent_that_may_not_take_it() -> None:
    history = given_received()
    fit = replace(OFFER, agent="a2", session="session-2")
    history.settle(world(_offering(modes=["test"]), fit))
    assert history.run_agg().split(".")[1] == "a2"


def test_an_agent_in_quarantine_gets_nothing() -> None:
    history = given_received()
    assert "JobAssigned" not in history.settle(world(_offering(quarantine="a process is left")))


def test_what_an_agent_lacks_is_written_down_once() -> None:
    history = given_received()
    unfit = _offering(modes=["test"], quarantine="a process is left")
    assert history.settle(world(OFFER)).count("AgentRegistered") == 1
    assert history.settle(world(unfit)).count("AgentRegistered") == 1
    assert history.settle(world(unfit)) == []


def test_a_busy_agent_gets_nothing() -> None:
    history = given_received()
    assert "JobAssigned" not in history.settle(world(replace(OFFER, is_free=False)))


def test_a_verdict_finishes_the_job() -> None:
    history = given_running()
    history.say(history.run_agg(), completed())
    assert history.settle(world(OFFER)) == ["JobFinished"]


def test_a_run_lost_before_it_began_is_given_again() -> None:
    history = given_received()
    history.settle(world(OFFER))
    other = replace(OFFER, agent="a2", session="session-2")
    said = history.settle(world(other))
    assert [name for name in said if name != "AgentRegistered"] == [
        "JobExpired",
        "JobRequeued",
        "JobLeased",
        "JobAssigned",
    ]


def test_a_run_lost_after_it_began_is_never_repeated() -> None:
    history = given_running()
    said = history.settle(world())
    assert said == ["JobExpired", "JobGivenUp", "SubmissionFinished"]
    end = history.facts[-1][1]
    assert isinstance(end, events.SubmissionFinished)
    assert end.outcome == "infra_failed"
    assert "a1 fell silent" in end.reason


def test_silence_is_not_believed_before_we_listened_long_enough() -> None:
    history = given_running()
    assert history.settle(world(is_settled=False)) == []


def test_a_restarted_agent_loses_its_run() -> None:
    history = given_running()
    said = history.settle(world(replace(OFFER, session="session-2", is_free=False)))
    assert said == ["JobExpired", "JobGivenUp", "SubmissionFinished"]


def test_a_run_not_begun_in_time_expires() -> None:
    history = given_received()
    history.settle(world(OFFER))
    said = history.settle(world(OFFER, now=T0 + timedelta(seconds=31)))
    assert said[:2] == ["JobExpired", "JobRequeued"]


def test_a_failure_of_the_platform_is_repeated_three_times_at_most() -> None:
    history = given_received()
    said: list[str] = []
    for _ in range(ATTEMPTS_MAX):
        said += history.settle(world(OFFER))
        failed = events.RunFailed(stage="", code="noisy", reason="it was too loud")
        history.say(history.run_agg(), failed)
    said += history.settle(world(OFFER))
    assert said.count("JobAssigned") == ATTEMPTS_MAX
    assert said[-2:] == ["JobGivenUp", "SubmissionFinished"]


def test_a_submission_that_took_two_agents_down_is_given_up() -> None:
    history = given_received()
    for _ in range(2):
        history.settle(world(OFFER))
        failed = events.RunFailed(stage="", code="supervisor", reason="it died")
        history.say(history.run_agg(), failed)
    assert history.settle(world(OFFER)) == ["JobGivenUp", "SubmissionFinished"]
    end = history.facts[-1][1]
    assert isinstance(end, events.SubmissionFinished)
    assert end.reason.startswith("2 agents failed under it")


@pytest.mark.parametrize("code", ["noisy", "memory"])
def test_an_agent_that_failed_a_job_is_avoided_while_another_could_take_it(code: str) -> None:
    history = given_received()
    other = replace(OFFER, agent="a2", session="session-2", is_free=False)
    history.settle(world(OFFER, other))
    failed = events.RunFailed(stage="", code=code, reason="it was too loud")
    history.say(history.run_agg(), failed)
    assert history.settle(world(OFFER, other)) == ["JobRequeued"]
    history.settle(world(OFFER, replace(other, is_free=True)))
    assert history.run_agg().split(".")[1] == "a2"


def test_an_agent_that_failed_a_job_gets_it_again_if_it_is_the_only_one() -> None:
    history = given_received()
    history.settle(world(OFFER))
    failed = events.RunFailed(stage="", code="noisy", reason="it was too loud")
    history.say(history.run_agg(), failed)
    assert "JobAssigned" in history.settle(world(OFFER))


def test_the_authors_mistake_is_not_repeated() -> None:
    history = given_running()
    fault = events.RunFailed(stage="check", code="problem_fault", reason="check raised")
    history.say(history.run_agg(), fault)
    assert history.settle(world(OFFER)) == ["JobGivenUp", "SubmissionFinished"]
    end = history.facts[-1][1]
    assert isinstance(end, events.SubmissionFinished)
    assert end.code == "problem_fault"


def test_of_too_many_open_submissions_of_one_account_the_newest_are_rejected() -> None:
    history = given_received(OPEN_SUBMISSIONS_MAX + 2)
    said = history.settle(world())
    assert said.count("SubmissionRejected") == 2
    assert said.count("JobQueued") == OPEN_SUBMISSIONS_MAX
    assert f"s{OPEN_SUBMISSIONS_MAX + 1}" not in history.board.submissions


def test_a_decision_made_twice_has_one_id() -> None:
    history = given_received()
    history.settle(world())
    first, second = (list(due(history.board, world(OFFER, now=T0))) for _ in range(2))
    assert [say.id for move in first for say in move] == [s.id for move in second for s in move]


def test_what_is_over_leaves_the_board() -> None:
    history = given_running()
    history.say(history.run_agg(), completed())
    history.settle(world(OFFER))
    end = events.SubmissionFinished(outcome="passed", is_eligible=True, code="ranked", reason="")
    history.say(subjects.submission("s1"), end)
    assert (history.board.submissions, history.board.jobs, history.board.runs) == ({}, {}, {})
