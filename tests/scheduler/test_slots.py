"""An agent has a run and a lease for each of its slots; a gang has all slots of its agents."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from scheduler.domain.leases import BASELINE_TURN_S, ORDER_S_MAX
from scheduler.domain.match import list_candidates
from scheduler.domain.queue import Forecast, Policy, build_forecast
from scheduler.domain.rules import decide
from scheduler.domain.state import World
from scheduler.service import Heartbeat, _parse_offer
from shared import events, subjects
from shared.events import SLOTS_MAX, Requires
from shared.subjects import BASELINE_ACCOUNT
from tests.scheduler.histories import (
    T0,
    History,
    completed,
    given_received,
    offering,
    received,
    started,
    world,
)

TWO = offering("a1", slots=2)
# A new baseline waits for its author to go first.
SOON = T0 + timedelta(minutes=1)


def orders(history: History) -> list[tuple[str, str]]:
    """Each order: the run's subject, and the submission."""
    return [
        (aggregate, fact.submission)
        for aggregate, fact in history.of_type("JobAssigned")
        if isinstance(fact, events.JobAssigned)
    ]


def agents_of(history: History) -> list[str]:
    return [aggregate.split(".")[1] for aggregate, _ in orders(history)]


def test_an_agent_gets_as_many_jobs_as_it_has_slots_and_the_next_when_one_is_over() -> None:
    history = given_received(4)
    history.settle(world(TWO))
    assert [submission for _, submission in orders(history)] == ["s1", "s2"]
    first, second = (run for run, _ in orders(history))
    assert first != second
    history.say(second, started()).say(second, completed())
    history.settle(world(TWO))
    assert [submission for _, submission in orders(history)] == ["s1", "s2", "s3"]
    # The first run goes on.
    assert history.state.runs[subjects.last_token(first)].end is None


def test_an_agent_whose_slots_are_not_in_the_log_yet_has_one() -> None:
    history = given_received(2).enrol("a1")
    decisions = list(decide(history.state, world(TWO)))
    leases = [move for move in decisions if isinstance(move[0].fact, events.JobLeased)]
    assert len(leases) == 1


def test_jobs_go_to_the_agent_with_the_fewest_runs() -> None:
    history = given_received(3)
    history.settle(world(TWO, offering("a2", slots=2)))
    assert agents_of(history) == ["a1", "a2", "a1"]
    history.say(orders(history)[1][0], completed())
    history.say(subjects.submission("s9"), received())
    history.settle(world(TWO, offering("a2", slots=2)))
    # a2 is idle, a1 has two runs.
    assert agents_of(history)[-1] == "a2"


def test_a_run_that_the_agent_still_ends_keeps_its_slot() -> None:
    history = given_received(2)
    history.settle(world(TWO))
    first = orders(history)[0][0]
    history.say(first, completed()).say(subjects.submission("s3"), received())
    ending = replace(TWO, runs=(subjects.last_token(first),))
    assert "JobAssigned" not in history.settle(world(ending))
    assert "JobAssigned" in history.settle(world(TWO))


def test_runs_that_the_heartbeat_does_not_name_yet_take_slots_too() -> None:
    history = given_received(3)
    history.settle(world(TWO))
    assert len(orders(history)) == 2
    assert "JobAssigned" not in history.settle(world(replace(TWO, runs=())))


def test_an_agent_that_is_not_free_gets_nothing_though_it_has_slots() -> None:
    history = given_received(1)
    assert "JobAssigned" not in history.settle(world(replace(TWO, is_free=False)))


def test_a_gang_has_its_agents_whole_and_waits_until_they_are_idle() -> None:
    host = [offering(name, host="h", slots=2) for name in ("a1", "a2")]
    history = given_received(1)
    history.settle(world(*host))
    single = orders(history)[0][0]
    history.say(subjects.submission("gang"), received(requires=Requires(count=2)))
    history.say(subjects.submission("later"), received())
    history.settle(world(*host))
    # The gang waits, since a1 has a run; the later job does not.
    assert [submission for _, submission in orders(history)] == ["s1", "later"]
    for run in (single, orders(history)[1][0]):
        history.say(run, completed())
    history.say(subjects.submission("beside"), received())
    history.settle(world(*host))
    gang = [run for run, submission in orders(history) if submission == "gang"]
    assert [run.split(".")[1] for run in gang] == ["a1", "a2"]
    assert "beside" not in [submission for _, submission in orders(history)]
    history.say(gang[0], completed())
    history.settle(world(*host))
    assert orders(history)[-1][1] == "beside"


def test_a_gang_that_was_passed_over_too_often_gets_the_next_idle_host() -> None:
    host = [offering(name, host="h", slots=2) for name in ("a1", "a2")]
    history = History().say(subjects.submission("gang"), received(requires=Requires(count=2)))
    for number in range(12):
        history.say(subjects.submission(f"s{number}"), received(f"p{number}"))
    policy = Policy(gang_passed_max=4)
    # The gang needs two agents, so singles take the only one first.
    history.settle(world(host[0]), policy)
    for _ in range(12):
        history.settle(world(*host), policy)
        open_runs = [run for run in history.state.runs.values() if run.end is None]
        if any(run.is_member for run in open_runs):
            break
        history.say(subjects.run(open_runs[0].agent, open_runs[0].id), completed())
    singles = [submission for _, submission in orders(history) if submission != "gang"]
    assert len(singles) == 4
    assert [submission for _, submission in orders(history)][-2:] == ["gang", "gang"]


def given_baseline(*later: events.SubmissionReceived) -> History:
    """A baseline that runs on an agent with two slots, and who comes then."""
    baseline = received(BASELINE_ACCOUNT, class_="rejudge", deadline_at=T0 + timedelta(days=1))
    history = History().say(subjects.submission("baseline"), baseline)
    history.settle(world(TWO, now=SOON))
    for number, submission in enumerate(later):
        history.say(subjects.submission(f"s{number}"), submission)
    return history


def test_what_nobody_waits_for_gives_way_to_a_job_beside_it() -> None:
    history = given_baseline(received())
    assert [submission for _, submission in orders(history)] == ["baseline"]
    appended = history.settle(world(TWO, now=SOON))
    assert appended == ["JobLeased", "JobAssigned", "RunCancelled", "JobRequeued"]
    history.say(orders(history)[-1][0], completed())
    assert history.settle(world(TWO, now=SOON + timedelta(hours=2)))[-1] == "JobAssigned"
    assert [submission for _, submission in orders(history)] == ["baseline", "s0", "baseline"]


def test_what_nobody_waits_for_begins_beside_others_after_its_turn() -> None:
    history, late = History(), T0 + timedelta(seconds=BASELINE_TURN_S)
    history.say(subjects.submission("s1"), received(deadline_at=late + timedelta(hours=1)))
    history.settle(world(TWO))
    history.say(history.run_agg(), started())
    baseline = received(BASELINE_ACCOUNT, class_="rejudge", deadline_at=T0 + timedelta(days=1))
    history.say(subjects.submission("baseline"), baseline)
    assert "JobAssigned" not in history.settle(world(TWO, now=SOON))
    assert "JobAssigned" in history.settle(world(TWO, now=late))
    assert "JobRequeued" not in history.settle(world(TWO, now=late))


def test_each_slot_has_its_own_lease_while_another_ones_order_is_missing() -> None:
    history = given_received(2).enrol("a1")
    history.say(subjects.agent("a1"), TWO.registration)
    history.settle(world())
    first, second = decide(history.state, world(TWO))
    for lease in (first, second):
        next(history.append_stepwise(lease))
    assert len(set(history.state.agents["a1"].runs)) == 2
    assert history.settle(world(TWO)) == []
    soon = T0 + timedelta(seconds=ORDER_S_MAX)
    assert history.settle(world(TWO, now=soon)) == ["JobAssigned", "JobAssigned"]
    assert {run for run, _ in orders(history)} == {first[1].aggregate, second[1].aggregate}


def test_every_run_of_an_agent_that_restarts_is_lost() -> None:
    history = given_received(2)
    history.settle(world(TWO))
    appended = history.settle(world(replace(TWO, session="another")))
    assert appended.count("JobExpired") == 2


def forecast(history: History, *offers: object) -> Forecast:
    alive: World = world(*offers)  # type: ignore[arg-type]
    candidates = list_candidates(history.state, alive)["CPU"]
    return build_forecast(history.state, "CPU", candidates, alive, Policy())


def test_the_forecast_counts_slots_and_lists_every_run() -> None:
    history = given_received(2)
    history.settle(world(TWO))
    assert forecast(history, TWO).busy == 2
    assert [run.submission for run in forecast(history, TWO).runs] == ["s1", "s2"]
    history.say(orders(history)[0][0], completed())
    now_free = forecast(history, TWO)
    assert (now_free.free, now_free.busy) == (1, 1)


def test_two_jobs_that_wait_for_two_slots_begin_at_the_same_time() -> None:
    history = given_received(4)
    history.settle(world(TWO))
    first, second = forecast(history, TWO).jobs
    assert first.eta_s == second.eta_s
    one_slot = forecast(history, offering("a1"))
    assert one_slot.jobs[0].eta_s != one_slot.jobs[1].eta_s


def test_an_agent_that_dies_fails_once_however_many_runs_it_had() -> None:
    history = given_received(2)
    for number in range(1, 3):
        alive = replace(TWO, session=f"session {number}")
        history.settle(world(alive))
        for aggregate, _ in history.of_type("JobAssigned")[-2:]:
            history.say(aggregate, started())
        history.settle(world(replace(TWO, session=f"session {number + 1}")))
        assert history.state.agents["a1"].failures == number
    assert "AgentQuarantined" not in [type(fact).__name__ for _, fact in history.facts]


@pytest.mark.parametrize("slots", [0, -1, SLOTS_MAX + 1])
def test_a_heartbeat_with_an_absurd_number_of_slots_is_refused(slots: int) -> None:
    registration = offering("a1", slots=slots).registration
    heartbeat = msgspec.json.encode(Heartbeat("s", True, registration))
    with pytest.raises(ValueError, match=f"expected 1 to {SLOTS_MAX}"):
        _parse_offer("a1", heartbeat)
