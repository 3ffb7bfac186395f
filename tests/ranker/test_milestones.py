"""Milestones: who reaches them, and that nobody reaches one twice."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranker.domain.goals import Candidate, MilestoneScale, find_reached, milestones_for_gpu
from shared.events import Milestone
from shared.problems.goals import OPS

METRICS = ("score", "vs_baseline.eager", "roofline", "cases_passed")
SCALE = MilestoneScale({"eager": 300.0}, roof_us=30.0)
milestones = st.builds(
    Milestone,
    id=st.sampled_from(("one", "two")),
    title=st.just("Title"),
    metric=st.sampled_from(METRICS),
    op=st.sampled_from(sorted(OPS)),
    value=st.floats(0, 20, width=32),
)
candidates = st.lists(
    st.builds(
        Candidate,
        account=st.sampled_from(("ada", "grace", "linus")),
        submission=st.text("abc", min_size=1, max_size=3),
        measured=st.floats(0.0, 1e7) | st.integers(0, 20).map(float),
    ),
    max_size=6,
)


def make_milestone(metric: str, op: str, value: float, gpu: str = "") -> Milestone:
    return Milestone(id="m", title="M", metric=metric, op=op, value=value, gpu=gpu)


@given(st.lists(st.tuples(milestones, candidates), max_size=8))
def test_however_often_it_is_looked_nobody_reaches_one_twice(
    looks: Sequence[tuple[Milestone, Sequence[Candidate]]],
) -> None:
    announced: list[tuple[str, str]] = []
    for milestone, candidates in [*looks, *looks]:
        known = {account for id_, account in announced if id_ == milestone.id}
        announced += [
            (fact.milestone, fact.account)
            for fact in find_reached(1, milestone, candidates, SCALE, known)
        ]
    assert len(announced) == len(set(announced))


@given(milestones, candidates)
def test_what_is_read_holds_whoever_meets_it(
    milestone: Milestone, reached: Sequence[Candidate]
) -> None:
    bounds = SCALE.bounds(milestone)
    met = {fact.submission for fact in find_reached(1, milestone, reached, SCALE)}
    for candidate in reached if bounds else ():
        assert bounds is not None
        if candidate.submission in met:
            reached_by = [two for two in reached if two.submission == candidate.submission]
            assert any(bounds.low <= two.measured <= bounds.high for two in reached_by)


@pytest.mark.feature("N13")
@pytest.mark.parametrize(
    ("milestone", "measured", "value"),
    [
        (make_milestone("score", "<=", 1e-4), 100.0, pytest.approx(1e-4)),
        (make_milestone("score", "<", 1e-4), 101.0, None),
        (make_milestone("vs_baseline.eager", ">=", 2.0), 150.0, 2.0),
        (make_milestone("vs_baseline.eager", ">", 2.0), 150.0, None),
        (make_milestone("vs_baseline.compile", ">=", 0.0), 150.0, None),
        (make_milestone("roofline", ">=", 0.5), 60.0, 0.5),
        (make_milestone("cases_passed", ">=", 3.0), 3.0, 3.0),
        (make_milestone("cases_passed", ">", 3.0), 3.0, None),
    ],
)
def test_each_metric_is_held_against_its_own(
    milestone: Milestone, measured: float, value: float | None
) -> None:
    reached = find_reached(7, milestone, [Candidate("ada", "s1", measured)], SCALE)
    assert [fact.value for fact in reached] == ([] if value is None else [value])


def test_a_milestone_of_one_gpu_type_is_reached_on_no_other() -> None:
    both, other = make_milestone("score", "<", 1.0), make_milestone("score", "<", 1.0, gpu="H200")
    assert milestones_for_gpu([both, other], "CPU") == [both]
    assert milestones_for_gpu([both, other], "H200") == [both, other]


def test_without_its_baseline_or_a_roofline_nobody_meets_it_yet() -> None:
    for metric in ("vs_baseline.eager", "roofline"):
        assert MilestoneScale().bounds(make_milestone(metric, ">=", 1.0)) is None
        assert (
            find_reached(
                1, make_milestone(metric, ">=", 0.0), [Candidate("a", "s", 1.0)], MilestoneScale()
            )
            == []
        )
