"""How a run's verdict ends its submission: score, eligibility and the reason."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.events import CaseResult, SubmissionFinished
from shared.problems.score import score_us


@dataclass(frozen=True)
class Verdict:
    """A run with a verdict, and what its submission asked for."""

    mode: str
    job: str
    run: str
    verdict: str
    stage: str
    reason: str
    cases: Sequence[CaseResult]
    ranking_by: str


# Stage names are the harness's; a hidden failure is told by its class alone.
NOT_RANKED = {"build": "build_failed", "check": "check_failed", "time": "time_failed"}


def conclude(run: Verdict) -> SubmissionFinished:
    """The one decision on a submission: how it ended, its score, and whether it may be ranked."""
    timed = [case for case in run.cases if case.stage == "time"]
    score = score_us(run.ranking_by, [case.time_us or 0.0 for case in timed])
    is_passed = run.verdict == "passed"
    interval = _interval(run.ranking_by, timed)
    if interval is None:
        score = None
    code, reason = _eligibility(run, score)
    has_score = is_passed and score is not None
    return SubmissionFinished(
        outcome="passed" if is_passed else _failed_outcome(run.verdict),
        is_eligible=code == "ranked",
        code=code,
        reason=reason,
        job=run.job,
        run=run.run,
        verdict=run.verdict,
        score_us=score if has_score else None,
        interval_us=interval if has_score else None,
    )


def _failed_outcome(verdict: str) -> str:
    return "timed_out" if verdict == "timed_out" else "failed"


def _interval(ranking_by: str, timed: Sequence[CaseResult]) -> tuple[float, float] | None:
    """The score's interval: the ranking rule over the cases' own bounds; None where one lacks."""
    bounds = [case.interval_us for case in timed if case.interval_us is not None]
    high = score_us(ranking_by, [high for _, high in bounds])
    if len(bounds) != len(timed) or high is None:
        return None
    # A lower bound may be zero, as no time may be: then so is the score's.
    return score_us(ranking_by, [low for low, _ in bounds]) or 0.0, high


def _eligibility(run: Verdict, score: float | None) -> tuple[str, str]:
    if run.verdict == "timed_out":
        return "timed_out", run.reason
    if run.verdict != "passed":
        hidden = [case for case in run.cases if case.is_hidden and case.verdict != "passed"]
        shown = [case for case in run.cases if not case.is_hidden and case.verdict != "passed"]
        if hidden and not shown:
            return "hidden_run_failed", f"a hidden case ended {hidden[0].verdict}"
        return NOT_RANKED.get(run.stage, "check_failed"), run.reason
    if run.mode != "ranked":
        return "mode_not_ranked", f"mode {run.mode} is not ranked; submit with mode ranked"
    if score is None:
        return "below_physical_floor", "a time is missing, zero or not a number: held for review"
    return "ranked", "passed every case"
