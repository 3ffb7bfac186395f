"""A score is computed per process, so that shared effects count once."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ranker.domain.score import compute_score, t_quantile, tie_share
from shared.events import CaseResult

TIMES = st.lists(st.floats(0.1, 1e7), min_size=3, max_size=3)


def case(process_us: list[float], freedom: int = 22) -> CaseResult:
    middle = math.exp(sum(map(math.log, process_us)) / len(process_us)) if process_us else 50.0
    return CaseResult(
        name="size=1",
        stage="time",
        verdict="passed",
        time_us=middle,
        interval_us=(middle * 0.9, middle * 1.1),
        process_us=process_us,
        error=0.01,
        freedom=freedom,
    )


@pytest.mark.feature("C9")
@given(st.lists(TIMES, min_size=1, max_size=4))
def test_the_score_is_the_mean_logarithm_of_the_processes_scores(rows: list[list[float]]) -> None:
    score = compute_score("geom", [case(row) for row in rows], sigma_run=0.001)
    assert score is not None
    logs = [sum(math.log(row[p]) for row in rows) / len(rows) for p in range(3)]
    assert math.log(score.score_us) == pytest.approx(sum(logs) / 3, abs=1e-9)
    assert score.interval_us[0] <= score.score_us <= score.interval_us[1]


@pytest.mark.feature("C9", "N13")
@given(TIMES, TIMES, st.floats(0.1, 9.0))
def test_weights_count_in_each_process(
    first: list[float], second: list[float], weight: float
) -> None:
    timed = [case(first), replace(case(second), weight=weight)]
    score = compute_score("geom", timed, sigma_run=0.001)
    assert score is not None
    expected = [
        math.exp((math.log(one) + weight * math.log(other)) / (1 + weight))
        for one, other in zip(first, second, strict=True)
    ]
    assert score.process_us == pytest.approx(expected)


def test_weights_reach_the_tie_share_and_a_single_process() -> None:
    timed = [case([100.0]), replace(case([400.0]), weight=3.0)]
    score = compute_score("mean", timed, 0.0)
    assert score is not None
    assert score.process_us == pytest.approx([325.0])
    assert score.interval_us == pytest.approx((292.5, 357.5))
    share = tie_share("mean", timed, score, 13.0, "C1")
    assert share == pytest.approx(math.log(338.0 / 325.0))


def test_what_slows_all_cases_of_a_process_alike_counts_once() -> None:
    common = [case([100.0, 110.0, 120.0]), case([200.0, 220.0, 240.0])]
    single = [case([100.0, 110.0, 120.0])]
    common_score, single_score = (
        compute_score("geom", common, 0.0),
        compute_score("geom", single, 0.0),
    )
    assert common_score is not None
    assert single_score is not None
    assert common_score.error == pytest.approx(single_score.error)


def test_the_machines_own_deviation_is_a_floor_of_the_error() -> None:
    score = compute_score("last", [case([100.0, 100.0, 100.0])], sigma_run=0.003)
    assert score is not None
    assert score.error == pytest.approx(0.003 / math.sqrt(3))
    assert math.log(score.interval_us[1] / 100.0) == pytest.approx(
        t_quantile(22) * 0.003 / math.sqrt(3)
    )


def test_without_a_history_the_freedom_is_that_of_the_processes() -> None:
    score = compute_score("last", [case([100.0, 101.0, 99.0], freedom=0)], 0.0)
    assert score is not None
    assert score.freedom == 2


def test_a_run_of_one_process_keeps_its_cases_intervals() -> None:
    score = compute_score("geom", [case([100.0]), case([400.0])], 0.0)
    assert score is not None
    assert score.interval_us == pytest.approx((180.0, 220.0))
    assert score.process_us == pytest.approx([200.0])
    assert score.error == 0.01


@pytest.mark.parametrize("odd", [[1.0, 2.0], [], [1.0, 0.0, 2.0], [1.0, math.nan, 2.0]])
def test_processes_that_cannot_be_paired_or_true_make_no_score(odd: list[float]) -> None:
    case_ = CaseResult(
        name="b",
        stage="time",
        verdict="passed",
        time_us=5.0,
        interval_us=(4.0, 6.0),
        process_us=odd,
    )
    assert compute_score("geom", [case([1.0, 2.0, 3.0]), case_], 0.0) is None


def share(ranking_by: str, timed: list[CaseResult], tie_us: float, tier: str = "C1") -> float:
    score = compute_score(ranking_by, timed, 0.0)
    assert score is not None
    return tie_share(ranking_by, timed, score, tie_us, tier)


def test_the_tie_share_is_the_greatest_of_what_hides_a_difference() -> None:
    timed = [case([100.0, 100.0, 100.0])]
    assert share("last", timed, 0.0) == 0.003
    assert share("last", timed, 30.0) == pytest.approx(math.log(1.3))
    assert share("last", timed, 0.0, "G1") == 0.02


def test_a_noisy_score_is_tied_within_the_spread_of_its_processes() -> None:
    noisy = replace(case([80.0, 100.0, 125.0]), grade="noisy")
    assert share("last", [noisy], 0.0) == pytest.approx(2 * math.log(1.25), rel=0.01)
    assert share("last", [replace(noisy, grade="ok")], 0.0) == 0.003


def test_what_can_be_hidden_counts_in_each_case_of_a_geometric_mean() -> None:
    timed = [case([100.0, 100.0, 100.0]), case([10_000.0] * 3)]
    expected = (math.log(1.3) + math.log(1.003)) / 2
    assert share("geom", timed, 30.0) == pytest.approx(expected)
