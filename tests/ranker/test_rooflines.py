"""Impossible times are held; possible ones get roofline figures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ranker.domain.conclusion import Demand, conclude_submission
from ranker.domain.goals import (
    BELOW_FLOOR,
    case_floors_us,
    case_roofline,
    find_below_floor,
    roofline_share,
)
from shared.events import CaseResult, Roof
from tests.ranker.test_conclusion import PASSED, timed

WANTED = Demand("strong", ("C1",))
TIMES = st.floats(1e-3, 1e9)
NAME = timed(1.0).name
ROOFS = [
    Roof(case="n=1", bytes=4.8e6, flops=66.9e6, dtype="fp32", floors_us={"H200": 0.5}),
    Roof(case="n=2", bytes=9.6e6, flops=1.0, dtype="fp32", floors_us={"H200": 1.0}),
]


@given(time_us=TIMES, floor_us=TIMES)
def test_a_ranked_run_under_a_floor_is_held_and_no_other(time_us: float, floor_us: float) -> None:
    run = replace(PASSED, cases=[timed(time_us)], floors_us={NAME: floor_us})
    end = conclude_submission(run, WANTED)
    assert end.is_held == (time_us < floor_us) != end.is_eligible
    assert end.code == (BELOW_FLOOR if end.is_held else "ranked")
    assert end.score_us == conclude_submission(replace(run, floors_us={}), WANTED).score_us


@given(time_us=TIMES, floor_us=TIMES, mode=st.sampled_from(["test", "benchmark", "profile"]))
def test_a_run_that_is_not_ranked_is_never_held(time_us: float, floor_us: float, mode: str) -> None:
    run = replace(PASSED, mode=mode, cases=[timed(time_us)], floors_us={NAME: floor_us})
    assert (end := conclude_submission(run, WANTED)).code == "mode_not_ranked"
    assert not end.is_held


def test_one_case_under_its_floor_holds_the_run_and_is_named() -> None:
    fast = CaseResult(name="n=2", stage="time", verdict="passed", time_us=0.5)
    below = find_below_floor([timed(9.0), fast], {"n=2": 0.75})
    assert below == (fast, 0.75)
    cases = [timed(9.0), structs.replace(timed(0.5), name="n=2")]
    end = conclude_submission(replace(PASSED, cases=cases, floors_us={"n=2": 0.75}), WANTED)
    assert end.reason.startswith("n=2 took less than the 0.75 us")


def test_what_the_score_is_made_of_is_looked_at_too() -> None:
    sly = CaseResult(
        name="n=1", stage="time", verdict="passed", time_us=9.0, process_us=[0.1, 0.1, 0.1]
    )
    assert find_below_floor([sly], {"n=1": 1.0}) == (sly, 1.0)


@pytest.mark.parametrize(
    ("gpu", "floors_us"), [("H200", {"n=1": 0.5, "n=2": 1.0}), ("CPU", {}), ("H100", {})]
)
def test_a_floor_is_that_of_the_gpu_type(gpu: str, floors_us: dict[str, float]) -> None:
    assert case_floors_us(ROOFS, gpu) == floors_us


def test_an_authors_own_floor_is_for_every_gpu_type() -> None:
    roofs = [Roof(case="n=1", floors_us={"": 3.0})]
    assert case_floors_us(roofs, "CPU") == case_floors_us(roofs, "H200") == {"n=1": 3.0}


@pytest.mark.parametrize(("rule", "least_us"), [("last", 2.0), ("mean", 1.5), ("geom", 2**0.5)])
def test_the_share_of_a_score_goes_by_the_ranking_rule(rule: str, least_us: float) -> None:
    assert roofline_share(ROOFS, "H200", rule, 10.0) == pytest.approx(least_us / 10.0)


def test_no_share_is_made_up() -> None:
    assert roofline_share(ROOFS, "CPU", "geom", 10.0) is None
    assert roofline_share([], "H200", "geom", 10.0) is None
    assert roofline_share([*ROOFS, Roof(case="n=3")], "H200", "geom", 10.0) is None


@pytest.mark.feature("P24")
def test_a_time_is_shown_as_rates_and_as_a_share_of_the_slower_limit() -> None:
    case = {"name": "n=1", "stage": "time", "time_us": 2.0}
    assert case_roofline(ROOFS, "H200", case) == {
        "bandwidth_gb_s": pytest.approx(2400.0),
        "gflops": pytest.approx(33450.0),
        "dtype": "fp32",
        "share": pytest.approx(0.5),
        "bound": "memory",
    }
    on_cpu = case_roofline(ROOFS, "CPU", case)
    assert on_cpu is not None
    assert (on_cpu["share"], on_cpu["bound"]) == (None, None)
    assert case_roofline(ROOFS, "H200", {"name": "hidden", "stage": "time"}) is None
    assert case_roofline(ROOFS, "H200", case | {"stage": "check"}) is None
