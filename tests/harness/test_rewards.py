"""What an evaluation earns: nothing unless it passed, and never more than its time shows."""

from dataclasses import replace
from math import exp, inf, log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Evaluation, compute_reward
from harness.evaluations import UNREWARDED_GRADES, measure_speedup
from harness.messages import CaseReport
from harness.ranking_rules import RANKING_TEXTS
from harness.vocabulary import FAILURE_CODES, GRADES, PASSED, VERDICTS

TIMES_US = st.floats(0.1, 1e7)
SPEEDUPS = st.floats(1e-6, 1e6)
REWARDED = [grade for grade in GRADES if grade not in UNREWARDED_GRADES]


@st.composite
def intervals(draw: st.DrawFn) -> tuple[float, float]:
    """An interval of a speed-up."""
    low, high = sorted((draw(SPEEDUPS), draw(SPEEDUPS)))
    return low, high


@st.composite
def timed_cases(draw: st.DrawFn) -> list[CaseReport]:
    """The timed cases of a run that passed."""
    times = draw(st.lists(st.tuples(TIMES_US, TIMES_US, TIMES_US, TIMES_US), min_size=1))
    return [
        CaseReport(
            str(number),
            "time",
            PASSED,
            time_us=middle,
            interval_us=(low, high),
            yardstick_us=yardstick_us,
            grade=draw(st.sampled_from(GRADES)),
        )
        for number, (*bounds, yardstick_us) in enumerate(times)
        for low, middle, high in [sorted(bounds)]
    ]


def passed(interval: tuple[float, float] | None, grade: str = "ok") -> Evaluation:
    """An evaluation in which every check passed."""
    return Evaluation("a", "benchmark", PASSED, "every case passed", interval=interval, grade=grade)


@given(intervals(), st.sampled_from(GRADES), st.data())
def test_nothing_is_earned_unless_every_check_passed(
    interval: tuple[float, float], grade: str, data: st.DataObject
) -> None:
    verdict = data.draw(st.sampled_from([*(v for v in VERDICTS if v != PASSED), ""]))
    code = "" if verdict else data.draw(st.sampled_from(FAILURE_CODES))
    failed = replace(passed(interval, grade), verdict=verdict, failure_code=code)
    reward = compute_reward(failed)
    assert (reward.value, reward.has_passed, reward.is_timed) == (0.0, False, False)


@given(intervals(), st.sampled_from(REWARDED))
def test_a_source_that_passed_earns_the_lower_bound_of_its_speed_up(
    interval: tuple[float, float], grade: str
) -> None:
    reward = compute_reward(passed(interval, grade))
    assert (reward.has_passed, reward.is_timed) == (True, True)
    assert exp(reward.value) == pytest.approx(max(1.0, interval[0]))
    assert 0 <= reward.value <= max(0.0, log(interval[1]))


@given(intervals(), intervals())
def test_a_greater_lower_bound_never_earns_less(
    one: tuple[float, float], other: tuple[float, float]
) -> None:
    slower, faster = sorted((one, other))
    assert compute_reward(passed(slower)).value <= compute_reward(passed(faster)).value


@given(intervals(), st.sampled_from(UNREWARDED_GRADES))
def test_a_time_that_claims_no_order_earns_nothing(
    interval: tuple[float, float], grade: str
) -> None:
    reward = compute_reward(passed(interval, grade))
    assert (reward.value, reward.has_passed, reward.is_timed) == (0.0, True, False)


def test_a_test_without_a_time_earns_nothing_and_has_passed() -> None:
    reward = compute_reward(passed(None))
    assert (reward.value, reward.has_passed, reward.is_timed) == (0.0, True, False)


@given(intervals(), st.lists(st.text()))
def test_doubts_are_told_and_change_no_value(
    interval: tuple[float, float], doubts: list[str]
) -> None:
    reward = compute_reward(replace(passed(interval), doubts=doubts))
    assert reward.doubts == tuple(doubts)
    assert reward.value == compute_reward(passed(interval)).value


def test_a_violation_of_the_policy_is_named() -> None:
    forbidden = Evaluation("a", "test", "policy", "line 3: torch.relu is forbidden")
    assert compute_reward(forbidden).violation == "line 3: torch.relu is forbidden"
    wrong = Evaluation("a", "test", "wrong_answer", "3 of 9 values are wrong")
    assert compute_reward(wrong).violation == ""


@given(timed_cases(), st.sampled_from(sorted(RANKING_TEXTS)), st.floats(0.0, 100.0))
def test_a_speed_up_lies_in_its_interval(
    cases: list[CaseReport], ranking_by: str, tie_us: float
) -> None:
    measured = measure_speedup(ranking_by, cases, tie_us)
    assert measured is not None
    low, high = measured.interval
    assert 0 < low <= measured.speedup * (1 + 1e-9)
    assert measured.speedup <= high * (1 + 1e-9) < inf
    assert measured.grade == max((case.grade for case in cases), key=GRADES.index)


@given(timed_cases(), st.sampled_from(sorted(RANKING_TEXTS)), st.floats(0.1, 100.0))
def test_what_could_be_hidden_of_a_call_lowers_the_bound(
    cases: list[CaseReport], ranking_by: str, tie_us: float
) -> None:
    sure, unsure = (measure_speedup(ranking_by, cases, hidden) for hidden in (0.0, tie_us))
    assert sure is not None
    assert unsure is not None
    assert unsure.interval[0] < sure.interval[0]
    assert (unsure.speedup, unsure.interval[1]) == (sure.speedup, sure.interval[1])


@pytest.mark.parametrize("missing", ["time_us", "interval_us", "yardstick_us"])
def test_there_is_no_speed_up_without_a_time_beside_the_yardstick(missing: str) -> None:
    case = CaseReport(
        "a", "time", PASSED, time_us=1.0, interval_us=(1.0, 1.0), yardstick_us=1.0, grade="ok"
    )
    absent: dict[str, Any] = {missing: None}
    assert measure_speedup("last", [case], 0.0) is not None
    assert measure_speedup("last", [replace(case, **absent)], 0.0) is None
    assert measure_speedup("last", [], 0.0) is None
