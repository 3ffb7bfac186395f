"""Milestones: what meets one, and that nobody meets one twice."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranker.domain.milestones import Candidate, Scale, on, reached
from shared.events import Milestone
from shared.problems.milestones import OPS

METRICS = ("score", "vs_baseline.eager", "roofline", "cases_passed")
SCALE = Scale({"eager": 300.0}, roof_us=30.0)
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


def wanted(metric: str, op: str, value: float, gpu: str = "") -> Milestone:
    return Milestone(id="m", title="M", metric=metric, op=op, value=value, gpu=gpu)


@given(st.lists(st.tuples(milestones, candidates), max_size=8))
def test_however_often_it_is_looked_nobody_reaches_one_twice(
    looks: Sequence[tuple[Milestone, Sequence[Candidate]]],
) -> None:
    said: list[tuple[str, str]] = []
    for one, found in [*looks, *looks]:
        known = {account for milestone, account in said if milestone == one.id}
        said += [(fact.milestone, fact.account) for fact in reached(1, one, found, SCALE, known)]
    assert len(said) == len(set(said))


@given(milestones, candidates)
def test_what_is_read_holds_whoever_meets_it(one: Milestone, found: Sequence[Candidate]) -> None:
    bounds = SCALE.bounds(one)
    met = {fact.submission for fact in reached(1, one, found, SCALE)}
    for candidate in found if bounds else ():
        assert bounds is not None
        if candidate.submission in met:
            said = [two for two in found if two.submission == candidate.submission]
            assert any(bounds.low <= two.measured <= bounds.high for two in said)


@pytest.mark.parametrize(
    ("one", "measured", "value"),
    [
        (wanted("score", "<=", 1e-4), 100.0, pytest.approx(1e-4)),
        (wanted("score", "<", 1e-4), 101.0, None),
        (wanted("vs_baseline.eager", ">=", 2.0), 150.0, 2.0),
        (wanted("vs_baseline.eager", ">", 2.0), 150.0, None),
        (wanted("vs_baseline.compile", ">=", 0.0), 150.0, None),
        (wanted("roofline", ">=", 0.5), 60.0, 0.5),
        (wanted("cases_passed", ">=", 3.0), 3.0, 3.0),
        (wanted("cases_passed", ">", 3.0), 3.0, None),
    ],
)
def test_each_metric_is_held_against_its_own(
    one: Milestone, measured: float, value: float | None
) -> None:
    found = reached(7, one, [Candidate("ada", "s1", measured)], SCALE)
    assert [fact.value for fact in found] == ([] if value is None else [value])


def test_a_milestone_of_one_gpu_type_is_reached_on_no_other() -> None:
    both, one = wanted("score", "<", 1.0), wanted("score", "<", 1.0, gpu="H200")
    assert on([both, one], "CPU") == [both]
    assert on([both, one], "H200") == [both, one]


def test_without_its_baseline_or_a_roofline_nobody_meets_it_yet() -> None:
    for metric in ("vs_baseline.eager", "roofline"):
        assert Scale().bounds(wanted(metric, ">=", 1.0)) is None
        assert reached(1, wanted(metric, ">=", 0.0), [Candidate("a", "s", 1.0)], Scale()) == []
