"""How a run's verdict ends its submission."""

import math
from dataclasses import replace

import pytest

from ranker.domain import conclusion
from ranker.domain.conclusion import Demand, RunVerdict
from shared.events import CaseResult, SubmissionFinished

STRICT = Demand("strong", ("G1", "G2", "C1"))


def conclude(run: RunVerdict, demand: Demand = STRICT) -> SubmissionFinished:
    return conclusion.conclude_submission(run, demand)


def timed(time_us: float | None) -> CaseResult:
    interval = None if time_us is None else (time_us * 0.9, time_us * 1.1)
    return CaseResult(
        name="size=1", stage="time", verdict="passed", time_us=time_us, interval_us=interval
    )


PASSED = RunVerdict(
    mode="ranked",
    job="j",
    run="r",
    verdict="passed",
    stage="time",
    reason="",
    cases=[timed(100.0), timed(400.0)],
    ranking_by="geom",
    level="strong",
    tier="C1",
)


@pytest.mark.feature("N24")
def test_a_passed_ranked_run_is_eligible_with_its_score() -> None:
    end = conclude(PASSED)
    assert (end.outcome, end.is_eligible, end.code) == ("passed", True, "ranked")
    assert end.score_us == pytest.approx(200.0)
    assert end.interval_us == pytest.approx((180.0, 220.0))


@pytest.mark.feature("N13")
def test_a_metric_out_of_bounds_keeps_its_score_and_is_not_ranked() -> None:
    reason = "peak_memory_mib is 600, and this problem ranks at most 512"
    end = conclude(replace(PASSED, over_limit=reason))
    assert (end.outcome, end.is_eligible, end.code) == ("passed", False, "over_limit")
    assert end.reason == reason
    assert end.score_us == pytest.approx(200.0)


@pytest.mark.feature("N24")
def test_practice_is_never_eligible_and_what_needs_a_review_is_not_ranked_there() -> None:
    practice = replace(PASSED, is_practice=True)
    end = conclude(practice)
    assert (end.is_eligible, end.code, end.score_us) == (
        False,
        "practice",
        conclude(PASSED).score_us,
    )
    for doubtful in (
        replace(practice, doubts=("it calls torch.mm",)),
        replace(practice, floors_us={timed(1.0).name: 1e6}),
    ):
        end = conclude(doubtful)
        assert (end.is_eligible, end.code, end.is_held) == (False, "practice_refused", False)
    assert conclude(replace(practice, mode="test")).code == "mode_not_ranked"


@pytest.mark.parametrize("mode", ["test", "benchmark", "profile"])
def test_only_ranked_mode_is_ranked(mode: str) -> None:
    end = conclude(replace(PASSED, mode=mode))
    assert (end.outcome, end.is_eligible, end.code) == ("passed", False, "mode_not_ranked")


@pytest.mark.parametrize("time_us", [None, 0.0, -1.0, math.nan, math.inf])
def test_a_time_that_cannot_be_is_held(time_us: float | None) -> None:
    end = conclude(replace(PASSED, cases=[timed(100.0), timed(time_us)]))
    assert (end.is_eligible, end.code, end.score_us) == (False, "below_physical_floor", None)


def test_a_ranked_run_without_any_time_is_held() -> None:
    assert conclude(replace(PASSED, cases=[])).code == "below_physical_floor"


@pytest.mark.parametrize(
    ("stage", "code"),
    [("build", "build_failed"), ("check", "check_failed"), ("time", "time_failed")],
)
def test_a_failure_says_its_stage(stage: str, code: str) -> None:
    wrong = CaseResult(name="size=1", stage=stage, verdict="wrong_answer", message="3 differ")
    run = replace(PASSED, verdict="wrong_answer", stage=stage, reason="3 differ", cases=[wrong])
    end = conclude(run)
    assert (end.outcome, end.is_eligible, end.code) == ("failed", False, code)
    assert end.reason == "3 differ"
    assert end.score_us is None


def test_a_hidden_failure_is_told_by_its_class_alone() -> None:
    hidden = CaseResult(
        name="size=1", stage="check", verdict="wrong_answer", message="seed 77", is_hidden=True
    )
    run = replace(PASSED, verdict="wrong_answer", stage="check", reason="seed 77", cases=[hidden])
    end = conclude(run)
    assert end.code == "hidden_run_failed"
    assert "77" not in end.reason


def test_out_of_time_is_an_outcome_of_its_own() -> None:
    end = conclude(replace(PASSED, verdict="timed_out", reason="one call took over 5 s"))
    assert (end.outcome, end.code, end.is_eligible) == ("timed_out", "timed_out", False)


def test_a_lower_bound_of_zero_is_a_bound_and_no_reason_to_hold() -> None:
    unsure = CaseResult(
        name="size=1", stage="time", verdict="passed", time_us=50.0, interval_us=(0.0, 900.0)
    )
    end = conclude(replace(PASSED, cases=[unsure], ranking_by="last"))
    assert (end.is_eligible, end.score_us, end.interval_us) == (True, 50.0, (0.0, 900.0))


@pytest.mark.parametrize("time_us", [None, 0.0, 50.0])
@pytest.mark.parametrize("high", [None, 0.0, math.inf, 60.0])
def test_whatever_is_eligible_has_a_score_and_an_interval(
    time_us: float | None, high: float | None
) -> None:
    interval = None if high is None else (0.0, high)
    case = CaseResult(
        name="size=1", stage="time", verdict="passed", time_us=time_us, interval_us=interval
    )
    end = conclude(replace(PASSED, cases=[case]))
    assert end.is_eligible == (end.score_us is not None) == (end.interval_us is not None)


def test_what_is_suspicious_is_held_and_never_ranked() -> None:
    late = CaseResult(name="size=1", stage="time", verdict="suspicious", time_us=0.1)
    run = replace(PASSED, verdict="suspicious", reason="faster than it can be", cases=[late])
    end = conclude(run)
    assert (end.is_held, end.is_eligible, end.code, end.score_us) == (
        True,
        False,
        "suspicious",
        None,
    )
    assert end.reason == "held for review: faster than it can be"


def test_a_doubted_run_is_held_with_its_score_and_the_doubts() -> None:
    doubts = ["line 3: getattr can hide what is called", "aten::mm ran 1 times in a call"]
    end = conclude(replace(PASSED, doubts=doubts))
    assert (end.is_held, end.is_eligible, end.code) == (True, False, "policy_review")
    assert end.score_us == pytest.approx(200.0)
    assert end.reason == f"held for review: {doubts[0]}; {doubts[1]}"
    unranked = conclude(replace(PASSED, doubts=doubts, mode="test"))
    assert (unranked.is_held, unranked.code) == (False, "mode_not_ranked")


def test_what_the_policy_forbids_ends_with_the_lines() -> None:
    reason = "build failed (policy): line 6: torch.matmul is not allowed"
    end = conclude(replace(PASSED, verdict="policy", stage="build", reason=reason, cases=[]))
    assert (end.outcome, end.is_held, end.code, end.reason) == ("failed", False, "policy", reason)


@pytest.mark.parametrize(("tier", "ranks"), [("G1", True), ("C1", True), ("G3", False)])
def test_a_timing_tier_below_the_demand_is_not_ranked(tier: str, ranks: bool) -> None:
    end = conclude(replace(PASSED, tier=tier))
    assert end.is_eligible == ranks
    assert ranks or (end.code == "not_ranked_tier" and tier in end.reason)


@pytest.mark.parametrize("level", ["medium", "weak", "none", ""])
def test_a_level_below_the_demand_is_not_ranked_and_says_what_was_needed(level: str) -> None:
    end = conclude(replace(PASSED, level=level))
    assert (end.is_eligible, end.code) == (False, "not_ranked_level")
    assert "strong" in end.reason
    assert end.score_us == pytest.approx(200.0)


def test_what_an_operator_opts_in_to_is_ranked_and_marked_provisional() -> None:
    demand = Demand("medium", ("C1", "G3"))
    loose = conclude(replace(PASSED, level="medium", tier="G3"), demand)
    assert (loose.is_eligible, loose.is_provisional, loose.delta) == (True, True, 0.02)
    firm = conclude(PASSED, demand)
    assert (firm.is_eligible, firm.is_provisional, firm.delta) == (True, False, 0.003)


@pytest.mark.parametrize(("null_us", "ranks"), [([10, 10.5, 11], True), ([10, 12, 16], False)])
def test_a_time_sliced_gate_ranks_only_what_its_noise_cannot_move(
    null_us: list[float], ranks: bool
) -> None:
    case = CaseResult(
        name="size=1",
        stage="time",
        verdict="passed",
        time_us=100.0,
        interval_us=(99.0, 101.0),
        null_us=null_us,
    )
    end = conclude(replace(PASSED, tier="G2", cases=[case], ranking_by="last"))
    assert (end.is_eligible, end.code == "not_ranked_tier") == (ranks, not ranks)


def test_a_submission_has_the_gravest_grade_of_its_cases() -> None:
    graded = [
        CaseResult(
            name=grade, stage="time", verdict="passed", time_us=5.0, interval_us=(4, 6), grade=grade
        )
        for grade in ("ok", "noisy", "handshake_bound")
    ]
    assert conclude(replace(PASSED, cases=graded)).grade == "noisy"
