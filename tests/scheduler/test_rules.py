"""What the scheduler says, given a history, the agents and the clock."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scheduler.domain.rules import decide
from scheduler.domain.state import ATTEMPTS_MAX, Offer
from shared import events, subjects
from shared.states import DECISION_GRACE_S
from tests.scheduler.histories import (
    CPU,
    JOB,
    OFFER,
    T0,
    History,
    completed,
    given_received,
    given_running,
    received,
    started,
    world,
)


def test_a_received_submission_waits_from_that_moment_on() -> None:
    history = given_received()
    assert list(decide(history.state, world())) == []
    assert list(history.state.jobs) == [JOB]
    (lease, _) = next(move for move in decide(history.enrol("a1").state, world(OFFER)) if move[1:])
    assert (lease.aggregate, lease.expected) == (subjects.job(JOB), 0)


def test_a_free_agent_gets_the_oldest_job() -> None:
    history = given_received(3).enrol("a1")
    history.settle(world())
    (move,) = [move for move in decide(history.state, world(OFFER)) if len(move) == 2]
    assert isinstance(move[0].fact, events.JobLeased)
    assert move[0].aggregate == subjects.job(JOB)


def test_one_agent_gets_one_job_at_a_time() -> None:
    history = given_received(3)
    appended = history.settle(world(OFFER))
    assert appended.count("JobAssigned") == 1


def test_an_agent_of_another_gpu_type_gets_nothing() -> None:
    history = given_received()
    assert "JobAssigned" not in history.settle(world(_offering(gpu="H200")))


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


def test_a_verdict_ends_the_job_and_frees_the_agent() -> None:
    history = given_running()
    history.say(subjects.submission("s2"), received("bob"))
    history.say(history.run_agg(), completed())
    assert history.state.jobs[JOB].is_over
    assert history.settle(world(OFFER)) == ["JobLeased", "JobAssigned"]


def test_an_agents_clock_does_not_put_off_the_decision_on_its_verdict() -> None:
    history = given_running()
    history.at = T0 + timedelta(days=365)
    history.say(history.run_agg(), completed())
    late = T0 + timedelta(hours=1, seconds=DECISION_GRACE_S)
    assert history.settle(world(OFFER, now=late)) == ["SubmissionFinished"]


def test_a_run_lost_before_it_began_is_given_again() -> None:
    history = given_received()
    history.settle(world(OFFER))
    other = replace(OFFER, agent="a2", session="session-2")
    appended = history.settle(world(other))
    assert [name for name in appended if name != "AgentRegistered"] == [
        "JobExpired",
        "JobRequeued",
        "JobLeased",
        "JobAssigned",
    ]


def test_a_run_lost_after_it_began_is_repeated_on_another_agent() -> None:
    history = given_running()
    other = replace(OFFER, agent="a2", session="session-2")
    appended = history.settle(world(replace(OFFER, session="session-3"), other))
    assert [name for name in appended if name != "AgentRegistered"] == [
        "JobExpired",
        "JobRequeued",
        "JobLeased",
        "JobAssigned",
    ]
    assert history.run_agg().split(".")[1] == "a2"


def test_a_lost_run_waits_for_the_only_agent_to_return() -> None:
    history = given_running()
    assert history.settle(world()) == ["JobExpired", "JobRequeued"]
    appended = history.settle(world(replace(OFFER, session="session-2")))
    assert appended == ["JobLeased", "JobAssigned"]


def lose(history: History, times: int, *, has_begun: bool = True) -> list[str]:
    """Let the agent of a submission be killed so many times, each time with a new session."""
    appended: list[str] = []
    for number in range(times):
        appended += history.settle(world(replace(OFFER, session=f"lost-{number}")))
        if has_begun:
            history.say(history.run_agg(), started())
        appended += history.settle(world())
    return appended


def test_a_submission_whose_agent_died_twice_during_the_run_ends_and_is_told_so() -> None:
    history = given_received()
    appended = lose(history, 2)
    assert appended.count("JobAssigned") == 2
    assert appended[-2:] == ["JobGivenUp", "SubmissionFinished"]
    end = history.facts[-1][1]
    assert isinstance(end, events.SubmissionFinished)
    assert (end.outcome, end.code) == ("infra_failed", "agents_lost")
    assert end.reason == (
        "its agent failed twice during the run (the last failure: agent a1 fell silent), so it is "
        "not run again; this costs no quota"
    )
    assert history.settle(world(OFFER)) == []


def test_agents_that_died_before_the_run_began_are_not_held_against_a_submission() -> None:
    history = given_received()
    appended = lose(history, 2, has_begun=False)
    assert appended[-2:] == ["JobExpired", "JobRequeued"]
    lose(history, 1, has_begun=False)
    end = history.facts[-1][1]
    assert isinstance(end, events.SubmissionFinished)
    assert (end.outcome, end.code) == ("infra_failed", "agent_silent")


def test_a_verdict_of_the_second_attempt_is_the_only_one() -> None:
    history = given_running()
    first = history.run_agg()
    history.settle(world(replace(OFFER, session="session-2")))
    history.say(first, completed())
    assert not history.state.jobs[JOB].is_over
    history.say(history.run_agg(), started()).say(history.run_agg(), completed())
    assert history.state.jobs[JOB].is_over


def test_one_submission_puts_no_agent_into_quarantine() -> None:
    history = given_received()
    lose(history, 2)
    assert history.of_type("AgentQuarantined") == []
    assert "JobAssigned" in history.say(subjects.submission("s2"), received("bob")).settle(
        world(OFFER)
    )


def test_silence_is_not_believed_before_we_listened_long_enough() -> None:
    history = given_running()
    assert history.settle(world(is_settled=False)) == []


def test_a_restarted_agent_loses_its_run() -> None:
    history = given_running()
    appended = history.settle(world(replace(OFFER, session="session-2", is_free=False)))
    assert appended == ["JobExpired", "JobRequeued"]


def test_a_run_not_begun_in_time_expires() -> None:
    history = given_received()
    history.settle(world(OFFER))
    appended = history.settle(world(OFFER, now=T0 + timedelta(seconds=31)))
    assert appended[:2] == ["JobExpired", "JobRequeued"]


def test_a_failure_of_the_platform_is_repeated_three_times_at_most() -> None:
    history = given_received()
    appended: list[str] = []
    for _ in range(ATTEMPTS_MAX):
        appended += history.settle(world(OFFER))
        failed = events.RunFailed(stage="", code="noisy", reason="it was too loud")
        history.say(history.run_agg(), failed)
    appended += history.settle(world(OFFER))
    assert appended.count("JobAssigned") == ATTEMPTS_MAX
    assert appended[-2:] == ["JobGivenUp", "SubmissionFinished"]
    end = history.facts[-1][1]
    assert isinstance(end, events.SubmissionFinished)
    assert (end.outcome, end.code) == ("infra_failed", "noisy")
    assert end.reason == (
        "it was too loud; this is not your kernel's fault and costs no quota: submit it again"
    )


def test_a_submission_that_took_two_agents_down_is_given_up() -> None:
    history = given_received()
    for _ in range(2):
        history.settle(world(OFFER))
        failed = events.RunFailed(stage="", code="supervisor", reason="it died")
        history.say(history.run_agg(), started()).say(history.run_agg(), failed)
    assert history.settle(world(OFFER)) == ["JobGivenUp", "SubmissionFinished"]
    end = history.facts[-1][1]
    assert isinstance(end, events.SubmissionFinished)
    assert (end.outcome, end.code) == ("infra_failed", "agents_lost")
    assert "(the last failure: it died)" in end.reason


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


def test_every_submission_that_was_accepted_is_queued() -> None:
    history = given_received(300)
    assert history.settle(world()) == []
    assert len(history.state.jobs) == 300


def test_a_decision_made_twice_has_one_id() -> None:
    history = given_received()
    history.settle(world())
    first, second = (list(decide(history.state, world(OFFER, now=T0))) for _ in range(2))
    assert [say.id for move in first for say in move] == [s.id for move in second for s in move]


def test_what_is_over_leaves_the_board() -> None:
    history = given_running()
    history.say(history.run_agg(), completed())
    history.settle(world(OFFER))
    end = events.SubmissionFinished(outcome="passed", is_eligible=True, code="ranked", reason="")
    history.say(subjects.submission("s1"), end)
    assert (history.state.submissions, history.state.jobs, history.state.runs) == ({}, {}, {})
