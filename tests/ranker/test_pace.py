"""Batches go immediately while they are few, and at a bounded pace while they are many."""

from hypothesis import given
from hypothesis import strategies as st

from ranker.service.projection import AT_ONCE, EVERY_S, Pace


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        """The current time."""
        return self.at


def test_the_events_of_a_lone_submission_never_wait() -> None:
    clock = Clock()
    pace = Pace(clock=clock)
    for _ in range(5):
        assert [pace.pause_s() for _ in range(AT_ONCE)] == [0.0] * AT_ONCE
        clock.at += AT_ONCE * EVERY_S


@given(st.lists(st.floats(0, 0.05), min_size=1, max_size=300))
def test_no_crowd_makes_more_batches_than_the_pace_allows(apart_s: list[float]) -> None:
    clock = Clock()
    pace, began = Pace(clock=clock), clock.at
    for batches, waited_s in enumerate(apart_s, 1):
        clock.at += waited_s
        pause_s = pace.pause_s()
        assert pause_s <= EVERY_S + 1e-6
        clock.at += pause_s
        assert batches <= AT_ONCE + (clock.at - began) / EVERY_S + 1e-6
