"""Whatever happens, in whatever order."""

from collections import Counter
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduler.domain.state import Offer
from shared import events, subjects
from shared.events import Fact
from shared.states import DECISION_GRACE_S
from tests.scheduler.histories import (
    CPU,
    LATE,
    History,
    completed,
    given_received,
    world,
)

WORLDS = st.lists(
    st.tuples(
        st.sampled_from(["a1", "a2"]),
        st.sampled_from(["p1", "p2"]),
        st.booleans(),
    ),
    max_size=2,
    unique_by=lambda one: one[0],
)
HAPPENINGS = st.lists(
    st.one_of(
        st.tuples(st.just("world"), WORLDS),
        st.tuples(st.just("start"), st.just([])),
        st.tuples(st.just("complete"), st.just([])),
        st.tuples(st.just("fail"), st.just([])),
    ),
    max_size=25,
)


@given(HAPPENINGS)
def test_whatever_happens_no_job_has_two_open_runs_and_each_submission_one_end(
    happenings: list[tuple[str, list[tuple[str, str, bool]]]],
) -> None:
    history = given_received(3)
    for happening, offers in happenings:
        _happen(history, happening, offers)
        running = [run.job for run in history.state.runs.values() if run.end is None]
        assert len(running) == len(set(running))
    history.settle(world(now=LATE))
    history.settle(world(now=LATE + timedelta(seconds=DECISION_GRACE_S)))
    ends = Counter(
        aggregate
        for aggregate, fact in history.facts
        if type(fact).is_terminal and fact.aggregate == "submission"
    )
    assert set(ends) == {aggregate for aggregate, _ in history.of_type("SubmissionReceived")}
    assert set(ends.values()) == {1}
    assert history.state.submissions == {}


def _happen(history: History, happening: str, offers: list[tuple[str, str, bool]]) -> None:
    """One thing that the world or an agent may do."""
    if happening == "world":
        alive = [Offer(name, session, free, CPU) for name, session, free in offers]
        history.settle(world(*alive))
        return
    run = next((run for run in history.state.runs.values() if run.end is None), None)
    if run is None:
        return
    facts: dict[str, Fact] = {
        "start": events.RunStarted(
            fingerprint="f", harness="1", level="none", tier="C2", key_commit="k"
        ),
        "complete": completed(),
        "fail": events.RunFailed(stage="", code="supervisor", reason="it died"),
    }
    history.say(subjects.run(run.agent, run.id), facts[happening])
