"""Comparisons of two runs: ratios with intervals, and their outcomes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranker.http.comparison import compare_cases, compare_scores

TIMES = st.floats(1e-3, 1e9)
ERRORS = st.floats(1e-6, 1.0)


def case(time_us: float | None, error: float | None = 0.01, **fields: object) -> dict[str, object]:
    plain = {"name": "size=1", "stage": "time", "verdict": "passed", "freedom": 22}
    return plain | {"time_us": time_us, "error": error} | fields


@pytest.mark.feature("N7")
def test_a_ratio_whose_interval_leaves_one_out_is_faster_or_slower() -> None:
    (faster,) = compare_cases([case(100.0)], [case(80.0)])
    (slower,) = compare_cases([case(80.0)], [case(100.0)])
    (same,) = compare_cases([case(100.0)], [case(100.5)])
    assert [item.outcome for item in (faster, slower, same)] == ["faster", "slower", "same"]
    assert faster.ratio == 0.8
    assert faster.ci95 is not None
    assert faster.ci95[0] < 0.8 < faster.ci95[1] < 1


def test_where_no_error_is_known_nobody_can_tell() -> None:
    (comparisons,) = compare_cases([case(100.0, None)], [case(50.0)])
    assert (comparisons.ratio, comparisons.ci95, comparisons.outcome) == (0.5, None, "unknown")


def test_other_verdicts_and_missing_cases_are_said_in_words() -> None:
    wrong = case(None, verdict="wrong_answer")
    assert compare_cases([case(1.0)], [wrong])[0].outcome == "passed to wrong_answer"
    assert compare_cases([], [case(1.0)])[0].outcome == "missing to passed"
    check = case(None, stage="check")
    assert compare_cases([check], [check])[0].outcome == "same"


def test_cases_of_one_name_are_compared_in_their_order() -> None:
    comparisons = compare_cases([case(1.0), case(2.0)], [case(2.0), case(4.0)])
    assert [item.ratio for item in comparisons] == [2.0, 2.0]


def test_whole_scores_are_compared_alike() -> None:
    rows = [{"score_us": us, "error": 0.001, "freedom": 10, "verdict": "passed"} for us in (4, 2)]
    assert compare_scores(*rows).outcome == "faster"


@given(TIMES, TIMES, ERRORS, ERRORS)
def test_the_other_way_round_is_the_inverse(a: float, b: float, ea: float, eb: float) -> None:
    (comparison,) = compare_cases([case(a, ea)], [case(b, eb)])
    (other,) = compare_cases([case(b, eb)], [case(a, ea)])
    assert comparison.ci95 is not None
    assert other.ci95 is not None
    assert abs(comparison.ci95[0] * other.ci95[1] - 1) < 1e-9
    swapped = {"faster": "slower", "slower": "faster", "same": "same"}
    assert other.outcome == swapped[comparison.outcome]
