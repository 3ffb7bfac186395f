"""Who is next: classes and modes in order, participants by what they were charged, nobody never."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.domain.queue import TYPICAL_S, Policy
from scheduler.domain.state import World
from shared import events, subjects
from tests.scheduler.histories import (
    LATE,
    OFFER,
    T0,
    History,
    completed,
    offering,
    received,
    started,
    world,
)

FAR = LATE + timedelta(days=30)


def waiting(*jobs: tuple[str, str, str]) -> History:
    """Submissions of (account, class, mode), in this order, all queued."""
    history = History()
    for number, (account, class_, mode) in enumerate(jobs):
        submission = received(account, class_=class_, mode=mode, deadline_at=FAR)
        history.say(subjects.submission(f"{account}{number}"), submission)
        history.settle(world())
    return history


def give(history: History, count: int, policy: Policy = Policy(), took_s: float = 1.0) -> list[str]:  # noqa: B008
    """The submissions that one agent is given, so many, each taking its time."""
    leased: list[str] = []
    for _ in range(count):
        history.settle(World(history.at, {"a1": OFFER}), policy)
        aggregate, order = history.of_type("JobAssigned")[-1]
        assert isinstance(order, events.JobAssigned)
        leased.append(order.submission)
        history.at += timedelta(seconds=took_s)
        history.say(aggregate, completed())
        history.settle(World(history.at, {}), policy)
    return leased


@pytest.mark.feature("N20")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("contest", "ranked"), ("practice", "test")),
        (("practice", "test"), ("practice", "ranked")),
        (("practice", "ranked"), ("rejudge", "ranked")),
        (("practice", "test"), ("practice", "benchmark")),
    ],
)
def test_classes_come_in_order_and_modes_within_them(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    history = waiting(("ada", *second), ("bob", *first))
    assert give(history, 2) == ["bob1", "ada0"]


def test_of_equals_the_oldest_is_first() -> None:
    history = waiting(("ada", "practice", "test"), ("bob", "practice", "test"))
    assert give(history, 2) == ["ada0", "bob1"]


@pytest.mark.feature("N1")
def test_a_participant_with_one_job_does_not_wait_for_one_with_many() -> None:
    history = waiting(*[("ada", "practice", "test")] * 20, ("bob", "practice", "test"))
    assert "bob20" in give(history, 2)


def test_whoever_takes_longer_is_given_less() -> None:
    history = waiting(*[("ada", "practice", "test"), ("bob", "practice", "test")] * 15)
    given_to = Counter[str]()
    for _ in range(16):
        (submission,) = give(history, 1, took_s=1.0)
        given_to[submission[:3]] += 1
        if submission.startswith("ada"):
            history.at += timedelta(seconds=3)
    assert abs(given_to["bob"] - given_to["ada"]) <= 16


def test_a_low_class_is_not_held_back_when_nobody_else_wants_the_agent() -> None:
    history = History()
    for number, gpu in enumerate(["H200", "CPU"]):
        class_ = "contest" if gpu == "H200" else "rejudge"
        history.say(subjects.submission(f"s{number}"), received(gpu=gpu, class_=class_))
    history.settle(world(OFFER))
    assert history.run_agg().split(".")[1] == "a1"


def split(lane: str) -> tuple[str, str]:
    class_, _, mode = lane.partition("/")
    return class_, mode


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(["contest/test", "contest/ranked", "practice/test"]), max_size=60),
    st.sampled_from(["practice/ranked", "rejudge/ranked"]),
    st.integers(2, 8),
)
def test_no_lane_is_passed_over_more_often_than_promised(
    others: Sequence[str], lane: str, passed_max: int
) -> None:
    policy = Policy(passed_max=passed_max)
    history = waiting(("zoe", *split(lane)), *[("ada", *split(other)) for other in others])
    lanes = len({*others, lane})
    bound = passed_max + lanes - 1
    first = give(history, min(bound, len(others) + 1), policy)
    assert "zoe0" in first


@settings(max_examples=30)
@given(
    st.lists(st.floats(1, TYPICAL_S), min_size=8, max_size=16),
    st.integers(2, 4),
    st.integers(1, 3),
)
def test_participants_who_wait_all_the_time_get_the_same_gpu_seconds(
    took_s: Sequence[float], people: int, agents: int
) -> None:
    """At any moment, within (agents + 1) times the longest run."""
    names = ["ada", "bob", "cyd", "dan"][:people]
    history = waiting(*[(name, "practice", "test") for name in names for _ in took_s])
    alive = {f"a{n}": offering(f"a{n}") for n in range(agents)}
    got = dict.fromkeys(names, 0.0)
    ends_at: dict[str, tuple[float, str, str]] = {}
    clock, durations = 0.0, list(took_s)
    while durations:
        history.settle(World(T0 + timedelta(seconds=clock), alive))
        for aggregate, order in history.of_type("JobAssigned"):
            if aggregate not in ends_at and isinstance(order, events.JobAssigned) and durations:
                ends_at[aggregate] = clock + durations.pop(), order.submission[:3], str(clock)
        runs = [run for run in history.state.runs.values() if run.end is None]
        open_runs = {subjects.run(run.agent, run.id) for run in runs}
        aggregate = min(open_runs & ends_at.keys(), key=lambda aggregate: ends_at[aggregate][0])
        clock, account, since = ends_at[aggregate]
        got[account] += clock - float(since)
        history.at = T0 + timedelta(seconds=clock)
        history.say(aggregate, completed())
        assert max(got.values()) - min(got.values()) <= (agents + 1) * TYPICAL_S + 1e-3


def test_what_is_kept_of_participants_is_bounded_by_those_who_wait() -> None:
    history = History()
    for number in range(20):
        history.say(subjects.submission(f"s{number}"), received(f"p{number}", mode="test"))
        give(history, 1)
    pool = history.state.pool("CPU")
    (lane,) = pool.lanes.values()
    assert [pool.used_s, pool.leased, lane.joined_s, lane.waiting] == [{}, {}, {}, {}]


def submit(history: History, account: str, mode: str = "test") -> History:
    """One more submission of an account, named after it."""
    submission = received(account, mode=mode, deadline_at=FAR)
    return history.say(subjects.submission(f"{account}{history.seq}"), submission)


def hold(history: History, agent: str = "a1") -> str:
    """Give an agent its next job; return the subject of the run."""
    agents = {name: offering(name, is_free=name == agent) for name in ("a1", "a2")}
    history.settle(World(history.at, agents))
    aggregate = history.run_agg()
    history.say(aggregate, started())
    return aggregate


def end(history: History, aggregate: str, after_s: float) -> None:
    """End a run some seconds after it was assigned."""
    history.at += timedelta(seconds=after_s)
    history.say(aggregate, completed())


def next_account(history: History, agent: str = "a1") -> str:
    """The account whose submission an agent is given next."""
    hold(history, agent)
    _, order = history.of_type("JobAssigned")[-1]
    assert isinstance(order, events.JobAssigned)
    return order.submission[:3]


@pytest.mark.parametrize("held", ["test", "ranked"])
def test_a_participant_who_held_the_agent_long_comes_after_later_ones(held: str) -> None:
    history = submit(History(), "ada", held)
    aggregate = hold(history)
    submit(submit(history, "ada"), "bob")
    end(history, aggregate, 990)
    assert next_account(history) == "bob"


def test_a_run_counts_while_it_lasts_and_not_only_when_it_is_over() -> None:
    history = submit(History(), "ada")
    hold(history, "a1")
    history.at += timedelta(seconds=60)
    submit(history, "bob")
    end(history, hold(history, "a2"), TYPICAL_S + 30)
    submit(submit(history, "ada"), "bob")
    # By what such runs usually take, ada has used less than bob.
    assert next_account(history, "a2") == "bob"


def test_a_cancelled_run_counts_for_as_long_as_it_held_the_agent() -> None:
    history = submit(History(), "ada")
    hold(history)
    submit(history, "bob")
    history.at += timedelta(seconds=500)
    cancel = events.SubmissionCancelRequested(reason="too slow")
    history.say(subjects.submission("ada0"), cancel)
    history.settle(World(history.at, {}))
    aggregate = hold(history)
    submit(submit(history, "ada"), "bob")
    end(history, aggregate, 100)
    assert next_account(history) == "bob"


def test_an_idle_pool_forgets_how_long_participants_held_agents() -> None:
    history = submit(History(), "ada")
    end(history, hold(history), 990)
    submit(submit(history, "ada"), "bob")
    assert next_account(history) == "ada"
