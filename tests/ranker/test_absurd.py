"""Whatever an agent sends, the decision is valid and readable."""

from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ranker.domain.conclusion import Demand, RunVerdict, conclude_submission
from ranker.domain.places import ScoredEntry, assign_places
from ranker.domain.score import pool_results
from shared.events import CaseResult, RejudgeJudged, SubmissionFinished
from shared.wire import EventMetadata, encode_envelope, make_envelope
from tests.support.lives import T0

LOOSE = Demand("none", ("C2",))
INT4_MAX = 2**31 - 1
STAMP = EventMetadata("i" * 36, T0, "service:ranker", "c" * 36, "c" * 36)
numbers = st.floats(allow_nan=False, allow_infinity=False)
times = st.one_of(st.none(), numbers, st.floats(0.01, 1000.0))
cases = st.builds(
    CaseResult,
    name=st.just("c"),
    stage=st.just("time"),
    verdict=st.just("passed"),
    time_us=times,
    interval_us=st.one_of(st.none(), st.tuples(numbers, numbers), st.just((1.0, 2.0))),
    process_us=st.lists(st.one_of(numbers, st.floats(0.01, 1000.0)), max_size=4),
    error=st.one_of(st.none(), numbers, st.floats(0, 1)),
    freedom=st.one_of(st.integers(), st.integers(-2, 40)),
    null_us=st.lists(numbers, max_size=4),
    grade=st.text(max_size=3),
)


def verdict(**other: object) -> RunVerdict:
    verdict_ = RunVerdict(
        mode="ranked",
        job="j",
        run="r",
        verdict="passed",
        stage="time",
        reason="",
        cases=(),
        ranking_by="geom",
        level="none",
        tier="C2",
    )
    return replace(verdict_, **other)  # type: ignore[arg-type]


def read_back(end: SubmissionFinished) -> SubmissionFinished:
    """The decision as other services decode it."""
    for fact in (end, RejudgeJudged(submission="s", result=end)):
        encode_envelope(make_envelope(fact, "submission.s", STAMP))
    return msgspec.json.decode(msgspec.json.encode(end), type=SubmissionFinished)


@given(
    st.lists(cases, min_size=1, max_size=3),
    st.sampled_from(["last", "mean", "geom"]),
    st.one_of(numbers, st.floats(0, 0.1)),
    st.one_of(numbers, st.floats(0, 10)),
)
def test_every_verdict_has_a_decision_that_can_be_ranked_beside_others(
    timed: list[CaseResult], ranking_by: str, sigma_run: float, tie_us: float
) -> None:
    run = verdict(cases=timed, ranking_by=ranking_by, sigma_run=sigma_run, tie_us=tie_us)
    end = conclude_submission(run, LOOSE)
    assert read_back(end) == end
    assert abs(end.freedom) <= INT4_MAX
    if not end.is_eligible:
        return
    assert end.score_us is not None
    assert end.score_us > 0
    two = pool_results([end, end])
    for pool in (two, pool_results([end])):
        other = ScoredEntry(2, 100.0, 0.01, 22, 0.003)
        mine = ScoredEntry(1, pool.score_us, pool.error, pool.freedom, pool.delta)
        assert len(assign_places([mine, other])) == 2


def test_a_decision_is_never_longer_than_an_event_may_be() -> None:
    many = CaseResult(
        name="c", stage="time", verdict="passed", time_us=1.0, process_us=[1.0] * 60_000, freedom=1
    )
    for run in (
        verdict(verdict="wrong", stage="check", reason="x" * 254_000),
        verdict(cases=[many, msgspec.structs.replace(many, process_us=[3.0] * 60_000)]),
    ):
        read_back(conclude_submission(run, LOOSE))
