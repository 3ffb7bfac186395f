"""The fold: the same from every snapshot, the same twice, and as small as what is open."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.domain.fold import evolve
from scheduler.domain.match import list_candidates
from scheduler.domain.queue import Policy, build_forecast
from scheduler.domain.rules import decide
from scheduler.domain.state import Lane, SchedulerState
from shared import events, subjects
from shared.event_log import RecordedEvent
from tests.scheduler.histories import (
    OFFER,
    History,
    completed,
    offering,
    ranked_end,
    received,
    started,
    world,
)
from tests.scheduler.test_cancel import CANCEL
from tests.scheduler.test_sides import given_canary, given_rejudge


def folded(events_: list[RecordedEvent], state: SchedulerState | None = None) -> SchedulerState:
    state = SchedulerState() if state is None else state
    for event in events_:
        state = evolve(state, event)
    return state


def stored(state: SchedulerState) -> bytes:
    """A state as a snapshot has it."""
    return msgspec.msgpack.encode(state)


def eventful(steps: list[int]) -> History:
    """A history in which much of what can happen happens, in an order drawn."""
    history = given_rejudge(2)
    history.say(subjects.pool("CPU"), given_canary().facts[-1][1])
    for place, step in enumerate(steps):
        running = [run for run in history.state.runs.values() if run.end is None]
        aggregate = subjects.run(running[0].agent, running[0].id) if running else ""
        taken = events.QuotaTaken(
            submission=f"s{place}", bucket="b", cost=1, window_until_at=received().deadline_at
        )
        match step:
            case 0 | 1:
                history.say(subjects.quota("ada"), taken)
                submission = received(bucket="b", cost=1, class_="contest" if step else "practice")
                history.say(subjects.submission(f"s{place}"), submission)
            case 2 if running:
                history.say(aggregate, started())
            case 3 if running:
                history.say(aggregate, completed(time_us=3.0))
            case 4 if running:
                history.say(aggregate, events.RunFailed(stage="", code="noisy", reason="loud"))
            case 5 if history.state.submissions:
                history.say(subjects.submission(next(iter(history.state.submissions))), CANCEL)
            case 6:
                history.settle(world(OFFER))
            case _:
                history.settle(world(OFFER, offering("a2")))
    return history


@given(st.lists(st.integers(0, 7), max_size=30))
def test_from_a_snapshot_at_any_event_the_board_is_that_of_the_whole_log(steps: list[int]) -> None:
    history = eventful(steps)
    state = SchedulerState()
    for place, event in enumerate(history.events, 1):
        state = evolve(state, event)
        snapshot = msgspec.msgpack.decode(stored(state), type=SchedulerState)
        assert snapshot == state
        assert folded(history.events[place:], snapshot) == history.state


@given(st.lists(st.integers(0, 7), max_size=30))
def test_what_may_need_a_decision_is_known_without_a_look_at_every_job(steps: list[int]) -> None:
    state = SchedulerState()
    for event in eventful(steps).events:
        state = evolve(state, event)
        for pool in state.pools.values():
            waiting = [state.jobs[id_] for lane in pool.lanes.values() for id_ in ids(lane)]
            assert pool.deadlines == sorted((job.deadline_at, job.id) for job in waiting)
        assert state.active.keys() == {
            job.id
            for job in state.jobs.values()
            if not job.is_over
            and (job.run or job.cancel or not (job.is_side or job.submission in state.submissions))
        }
        assert state.closing.keys() == {
            submission.id
            for submission in state.submissions.values()
            if submission.cancel is not None or state.jobs[submission.job].is_over
        }


def ids(lane: Lane) -> list[str]:
    """The jobs that wait in a lane."""
    return [id_ for queue in lane.waiting.values() for _, id_ in queue]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 7), max_size=30))
def test_folding_twice_gives_the_same_board(steps: list[int]) -> None:
    history = eventful(steps)
    twice = [event for event in history.events for _ in range(2)]
    assert folded(twice) == folded(history.events) == history.state
    assert folded(history.events, folded(history.events)) == history.state


def test_the_board_does_not_grow_with_what_is_over() -> None:
    history = History()
    sizes = []
    for number in range(60):
        aggregate = subjects.submission(f"s{number}")
        history.say(aggregate, received(f"p{number}"))
        history.settle(world(OFFER))
        history.say(history.run_agg(), completed(time_us=1.0))
        history.settle(world(OFFER))
        history.say(aggregate, ranked_end())
        history.settle(world(OFFER))
        sizes.append(len(stored(history.state)))
    # All that grows is how long the newest runs took, up to a limit.
    assert sizes[-1] - sizes[40] < 50
    assert not history.state.jobs
    assert not history.state.runs
    assert not history.state.open_count


def test_looking_changes_nothing() -> None:
    state = eventful([0, 1, 6, 2, 0, 7]).state
    before = stored(state)
    now_world = world(OFFER, offering("a2", gpu="H200"))
    list(decide(state, now_world))
    for gpu in ("CPU", "H200", "B200"):
        build_forecast(
            state, gpu, list_candidates(state, now_world).get(gpu, []), now_world, Policy()
        )
    assert stored(state) == before
