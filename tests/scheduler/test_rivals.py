"""Several schedulers, each with its own view of the log and of who is alive: the log decides."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.domain.fold import evolve
from scheduler.domain.rules import decide
from scheduler.domain.state import Decision, Offer, SchedulerState
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

SLOTS = {"a1": 1, "a2": 2, "a3": 2}
AGENTS = tuple(SLOTS)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["read", "catch up", "look", "look", "say", "half", "half", "run", "fail", "others"]
        ),
        st.integers(0, 7),
    ),
    min_size=40,
    max_size=100,
)


@dataclass
class Rival:
    """A scheduler that has read so far, and may still have something to say.

    What it said by `halves` it goes on with later, or never, as one that was killed.
    """

    state: SchedulerState = field(default_factory=SchedulerState)
    moves: list[Decision] = field(default_factory=list)
    halves: list[Iterator[list[str]]] = field(default_factory=list)

    def read(self, history: History, most: int) -> None:
        for event in history.events[self.state.seq : self.state.seq + most]:
            self.state = evolve(self.state, event)

    def half(self, history: History, most: int) -> None:
        for move in self.moves[:most]:
            steps = history.append_stepwise(move)
            next(steps, None)
            self.halves.append(steps)
        del self.moves[:most]

    def say(self, history: History, most: int) -> None:
        for steps in self.halves[:most]:
            for _ in steps:
                continue
        del self.halves[:most]
        for move in self.moves[:most]:
            history.append_decision(move)
        del self.moves[:most]


def given_queued() -> History:
    history = History()
    for number in range(5):
        submission = received(f"p{number}", requires=Requires(count=1 + number // 4))
        history.say(subjects.submission(f"queued{number}"), submission)
    history.settle(world())
    for offer in offers(7):
        history.say(subjects.agent(offer.agent), offer.registration)
    return history


def offers(number: int) -> list[Offer]:
    """Whom a rival hears: any of the agents, always said to be free."""
    return [
        offering(name, host="h", slots=SLOTS[name])
        for place, name in enumerate(AGENTS)
        if number >> place & 1
    ]


def leases_overlap(history: History) -> bool:
    """Whether a job ever had two runs open at once, or an agent more than it may take.

    It takes as many as it has slots, and a gang's run only alone.
    """
    open_runs: dict[str, str] = {}
    gangs: set[str] = set()
    for aggregate, fact in history.facts:
        if isinstance(fact, events.JobAssigned):
            assert aggregate not in open_runs, "an order twice"
            open_runs[aggregate] = fact.job
            gangs |= {aggregate} if fact.gang else set()
            agents = Counter(open_run.split(".")[1] for open_run in open_runs)
            leaders = Counter(
                job for open_run, job in open_runs.items() if _leads(open_run, job, history)
            )
            whole = {run.split(".")[1] for run in gangs & open_runs.keys()}
            has_too_many = any(
                count > (1 if agent in whole else SLOTS[agent]) for agent, count in agents.items()
            )
            if has_too_many or max(leaders.values(), default=0) > 1:
                return True
        elif type(fact).is_terminal:
            open_runs.pop(aggregate, None)
    return False


def _leads(aggregate: str, job: str, history: History) -> bool:
    """Whether a lease of that job names the run; another's may name it too, and is none."""
    leased = [fact for one, fact in history.of_type("JobLeased") if one == subjects.job(job)]
    return any(getattr(fact, "run", "") == aggregate.split(".")[2] for fact in leased)


@given(STEPS)
def test_no_job_and_no_agent_ever_has_two_leases_at_once(steps: list[tuple[str, int]]) -> None:
    history, rivals = given_queued(), [Rival(), Rival(), Rival()]
    for place, (happening, number) in enumerate(steps):
        if not _act(rivals[number % 3], history, happening, place, number):
            _happen(history, happening, number, f"s{place}")
    assert not leases_overlap(history)
    for _ in range(3):
        for rival in rivals:
            rival.read(history, len(history.events))
            assert rival.state == history.state
            for move in decide(rival.state, world(*offers(7))):
                history.append_decision(move)
    history.settle(world(now=LATE))
    assert not leases_overlap(history)
    assert all(job.is_over for job in history.state.jobs.values())


def _act(rival: Rival, history: History, happening: str, place: int, number: int) -> bool:
    """What a rival does, if it is one who does this."""
    match happening:
        case "read" | "catch up":
            rival.read(history, number + 1 if happening == "read" else len(history.events))
        case "look":
            rival.moves = list(decide(rival.state, world(*offers(place % 7 + 1))))
        case "say":
            rival.say(history, number + 1)
        case "half":
            rival.half(history, number + 1)
        case _:
            return False
    return True


def _happen(history: History, happening: str, number: int, name: str) -> None:
    runs = [run for run in history.state.runs.values() if run.end is None and not run.is_member]
    if happening == "others" and number % 2:
        submission = received(f"p{number}", requires=Requires(count=1 + number % 2))
        history.say(subjects.submission(name), submission)
    elif happening == "others" and number == 0 and history.state.submissions:
        id_ = min(history.state.submissions)
        history.say(subjects.submission(id_), events.SubmissionCancelRequested(reason="never mind"))
    elif happening in ("run", "fail") and runs:
        run = runs[number % len(runs)]
        aggregate = subjects.run(run.agent, run.id)
        if not run.has_begun:
            history.say(aggregate, started())
        else:
            history.say(aggregate, completed() if happening == "run" else failed())


def test_two_who_give_one_agent_different_jobs_cannot_both() -> None:
    history = History()
    for number in (1, 2):
        history.say(subjects.submission(f"s{number}"), received(f"p{number}"))
    history.enrol("a1").settle(world())
    only = world(offering("a1"))
    moves = [move for move in decide(history.state, only) if len(move) == 2]
    (first,) = moves
    other = History()
    for event in history.events:
        other.state = evolve(other.state, event)
    # The rival never heard of the first job's submission being open, so it takes the second.
    other.state.submissions.pop(first[0].corr)
    (second,) = [move for move in decide(other.state, only) if len(move) == 2]
    assert first[0].aggregate != second[0].aggregate
    assert first[1].aggregate == second[1].aggregate
    assert first[1].id != second[1].id
    assert history.append_decision(first) == ["JobLeased", "JobAssigned"]
    assert history.append_decision(second) == ["JobLeased"]
    assert history.settle(only) == ["AgentRegistered", "JobRequeued"]
    history.say(history.run_agg(), completed())
    assert history.settle(only)[-2:] == ["JobLeased", "JobAssigned"]
    order = history.of_type("JobAssigned")[-1][1]
    assert isinstance(order, events.JobAssigned)
    assert (order.submission, order.attempt) == (second[0].corr, 1)
    assert not leases_overlap(history)


@pytest.mark.parametrize("is_gang_first", [False, True])
def test_a_gang_and_a_job_of_a_rival_never_have_one_agent_at_once(is_gang_first: bool) -> None:
    history, pair = History(), offers(0b110)
    for number in range(2):
        history.say(subjects.submission(f"s{number}"), received(f"p{number}"))
    history.enrol("a2", "a3").settle(world())
    for offer in pair:
        history.say(subjects.agent(offer.agent), offer.registration)
    # One scheduler hears of one agent only, to which it gives both single jobs.
    singles = [move for move in decide(history.state, world(pair[0])) if len(move) == 2]
    assert len(singles) == 2
    history.say(subjects.submission("s2"), received("p2", requires=Requires(count=2)))
    other = History()
    for event in history.events:
        other.state = evolve(other.state, event)
    # Its rival knows the job of two GPUs alone.
    for number in range(2):
        other.state.submissions.pop(f"s{number}")
    (gang,) = [move for move in decide(other.state, world(*pair)) if len(move) > 2]
    leased, ordered = ["JobLeased"], ["JobAssigned"]
    if is_gang_first:
        assert history.append_decision(gang)
        assert [history.append_decision(single) for single in singles] == [leased, leased]
        assert history.settle(world(*pair)).count("JobRequeued") == 2
        assert [job.attempt for job in history.state.jobs.values()] == [0, 0, 1]
    else:
        # The order to the first slot is late, so only the one to the second is in the way.
        late, single = map(history.append_stepwise, singles)
        assert [next(late), *single] == [leased, leased, ordered]
        assert history.append_decision(gang) == []
        assert [*late] == [ordered]
    assert not leases_overlap(history)
    # In the end every slot takes jobs again.
    for _ in range(3):
        runs = history.state.runs.values()
        for run in [run for run in runs if run.end is None and not run.is_member]:
            history.say(subjects.run(run.agent, run.id), completed())
        history.settle(world(*pair))
        assert not leases_overlap(history)
    assert all(job.is_over for job in history.state.jobs.values())
