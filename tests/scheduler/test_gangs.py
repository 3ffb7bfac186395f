"""A job of several GPUs: all at once on one host or not at all, and singles do not starve it."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.domain.queue import Policy
from scheduler.domain.state import Offer, World
from shared import events, subjects
from shared.events import Requires
from tests.scheduler.histories import (
    LATE,
    History,
    completed,
    failed,
    offering,
    received,
    started,
    world,
)

FAR = LATE + timedelta(days=30)


def host(name: str, count: int) -> list[Offer]:
    return [offering(f"{name}{number}", host=name) for number in range(count)]


def given_gang(count: int = 2) -> History:
    history = History()
    submission = received(requires=Requires(count=count), deadline_at=FAR)
    return history.say(subjects.submission("gang"), submission)


def orders(history: History) -> list[tuple[str, events.JobAssigned]]:
    return [
        (aggregate, fact)
        for aggregate, fact in history.of_type("JobAssigned")
        if isinstance(fact, events.JobAssigned)
    ]


def test_a_gang_gets_agents_of_one_host_at_once() -> None:
    history = given_gang(2)
    history.settle(world(*host("h", 1), *host("i", 2)))
    (leader, first), (member, second) = orders(history)
    assert first.gang == second.gang == ["i0", "i1"]
    assert (leader.split(".")[1], member.split(".")[1]) == ("i0", "i1")
    (_, leased) = history.of_type("JobLeased")[0]
    assert isinstance(leased, events.JobLeased)
    assert (leased.agent, leased.agents) == ("i0", ["i0", "i1"])
    assert subjects.run("i0", leased.run) == leader


def on_gpus(*indices: str) -> list[Offer]:
    """Agents of one host, each on the GPU of an index."""
    return [
        offering(f"h{place}", host="h", details={"gpu_index": index} if index else {})
        for place, index in enumerate(indices)
    ]


def test_every_agent_of_a_gang_is_told_all_its_gpus_the_leaders_first() -> None:
    history = given_gang(2)
    history.settle(world(*on_gpus("3", "1", "0")))
    assert [order.gpus for _, order in orders(history)] == [[3, 1], [3, 1]]


def test_two_agents_of_one_gpu_are_no_gang() -> None:
    history = given_gang(2)
    history.settle(world(*on_gpus("0", "0")))
    assert orders(history) == []
    history.settle(world(*on_gpus("0", "0", "1")))
    assert [(order.gang, order.gpus) for _, order in orders(history)] == [
        (["h0", "h2"], [0, 1])
    ] * 2


@pytest.mark.parametrize("index", ["", "first", "-1", "9999", "1.0"])
def test_an_agent_that_names_no_gpu_leaves_its_gang_the_first_ones(index: str) -> None:
    history = given_gang(2)
    history.settle(world(*on_gpus("0", index)))
    assert [order.gpus for _, order in orders(history)] == [[], []]


def test_a_single_agent_knows_its_gpu() -> None:
    history = given_gang(1)
    history.settle(world(*on_gpus("5")))
    assert [(order.gang, order.gpus) for _, order in orders(history)] == [([], [])]


def test_a_gang_is_never_spread_over_hosts() -> None:
    history = given_gang(2)
    assert "JobAssigned" not in history.settle(world(*host("h", 1), *host("i", 1), offering("x")))


def test_the_members_are_released_when_the_leader_is_done() -> None:
    history = given_gang(3)
    alive = world(*host("h", 3))
    history.settle(alive)
    (leader, _), *_ = orders(history)
    history.say(leader, started()).say(leader, completed())
    assert history.settle(alive) == ["RunReleased", "RunReleased"]
    assert all(not agent.runs for agent in history.state.agents.values())


def test_a_gang_that_loses_a_member_expires_whole() -> None:
    history = given_gang(2)
    history.settle(world(*host("h", 2)))
    appended = history.settle(world(*host("h", 1)))
    assert appended == ["JobExpired", "JobExpired", "JobRequeued"]
    assert all(not agent.runs for agent in history.state.agents.values())


def test_a_begun_gang_that_loses_a_member_is_repeated_once() -> None:
    history = given_gang(2)
    history.settle(world(*host("h", 2)))
    history.say(orders(history)[0][0], started())
    appended = history.settle(world(*host("h", 1)))
    assert appended == ["JobExpired", "JobExpired", "JobRequeued"]
    history.settle(world(*host("h", 2)))
    history.say(orders(history)[2][0], started())
    appended = history.settle(world(*host("h", 1)))
    assert appended == ["JobExpired", "JobExpired", "JobGivenUp", "SubmissionFinished"]
    end = history.facts[-1][1]
    assert isinstance(end, events.SubmissionFinished)
    assert end.code == "agents_lost"


def test_a_gang_whose_leader_dies_frees_its_members() -> None:
    history = given_gang(2)
    history.settle(world(*host("h", 2)))
    appended = history.settle(world(host("h", 2)[1]))
    assert appended == ["JobExpired", "JobRequeued", "RunReleased"]


def test_a_member_that_turns_its_order_down_breaks_the_gang() -> None:
    history = given_gang(2)
    alive = world(*host("h", 2))
    history.settle(alive)
    history.say(orders(history)[1][0], failed("quarantine"))
    assert history.settle(alive)[:2] == ["JobExpired", "JobRequeued"]


def test_a_gang_that_is_formed_anew_avoids_the_member_that_failed_it() -> None:
    history = given_gang(2)
    alive = world(*host("h", 3))
    history.settle(alive)
    history.say(orders(history)[1][0], failed("quarantine"))
    history.settle(alive)
    assert [order.gang for _, order in orders(history)[2:]] == [["h0", "h2"]] * 2
    (_, requeued) = history.of_type("JobRequeued")[0]
    assert isinstance(requeued, events.JobRequeued)
    assert requeued.avoid_agents == ["h1"]


def test_a_begun_gang_is_repeated_when_an_operator_revoked_its_member() -> None:
    history = given_gang(2)
    history.settle(world(*host("h", 2)))
    history.say(orders(history)[0][0], started())
    history.say(subjects.agent("h1"), events.AgentRevoked(reason="its key was copied"))
    appended = history.settle(world(*host("h", 3)))
    assert appended[-5:] == ["JobExpired", "JobRequeued", "JobLeased", "JobAssigned", "JobAssigned"]
    assert orders(history)[-1][1].gang == ["h0", "h2"]


def test_a_cancelled_gang_frees_every_agent() -> None:
    history = given_gang(3)
    alive = world(*host("h", 3))
    history.settle(alive)
    history.say(subjects.submission("gang"), events.SubmissionCancelRequested(reason="no"))
    assert history.settle(alive).count("RunCancelled") == 3
    assert all(not agent.runs for agent in history.state.agents.values())


def test_a_larger_gang_finds_the_host_that_a_smaller_one_left_whole() -> None:
    history = given_gang(2)
    four = received("bob", requires=Requires(count=4), deadline_at=FAR)
    history.say(subjects.submission("four"), four)
    history.settle(world(*host("h", 4), *host("i", 2)))
    assert len(orders(history)) == 6


@settings(max_examples=25)
@given(st.randoms(use_true_random=False), st.integers(2, 4), st.integers(0, 6))
def test_singles_that_never_end_coming_do_not_starve_a_gang(
    random: "st.DataObject", size: int, passed_max: int
) -> None:
    """After `gang_passed_max` leases of its pool a host is kept; then its runs need only end."""
    policy = Policy(gang_passed_max=passed_max)
    history, offers = given_gang(size), host("h", size)
    history.settle(world(*offers[:1]))
    for number in range(4 * passed_max + 8 * size):
        single = received(f"p{number}", mode="test", deadline_at=FAR)
        history.say(subjects.submission(f"s{number}"), single)
        history.settle(World(history.at, {offer.agent: offer for offer in offers}), policy)
        if any(order.gang for _, order in orders(history)):
            return
        runs = [run for run in history.state.runs.values() if run.end is None]
        run = random.choice(runs)  # type: ignore[attr-defined]
        history.say(subjects.run(run.agent, run.id), completed())
    raise AssertionError("the gang never got its host")


def test_a_gang_that_no_host_could_ever_take_keeps_none_idle() -> None:
    history = given_gang(8)
    alive = world(*host("h", 2))
    for number in range(3):
        history.say(subjects.submission(f"s{number}"), received(f"p{number}", mode="test"))
    history.settle(alive, Policy(gang_passed_max=0))
    assert len(orders(history)) == 2
