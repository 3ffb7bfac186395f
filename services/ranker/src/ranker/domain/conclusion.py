"""How a run's verdict ends its submission: score, eligibility and the reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ranker.domain.attestation import NOT_ENROLLED, Fault
from ranker.domain.eligibility import Demand, is_provisional, objection, worst_grade
from ranker.domain.roofs import BELOW_FLOOR, below
from ranker.domain.score import Score, scored, tie_share
from shared.events import CaseResult, SubmissionFinished


@dataclass(frozen=True)
class Verdict:
    """A run with a verdict, and what its submission asked for.

    `sigma_run` and `tie_us` are the machine's: its deviation from run to run, as a fraction, and
    what a cheat could hide of the hand-over of a call. `fault` says why nobody vouches for the
    verdict, None if its agent does. `floors_us` are the times that its cases cannot
    be under; what is the problem's `baseline` is never ranked.
    """

    mode: str
    job: str
    run: str
    verdict: str
    stage: str
    reason: str
    cases: Sequence[CaseResult]
    ranking_by: str
    level: str
    tier: str
    sigma_run: float = 0.0
    tie_us: float = 0.0
    fault: Fault | None = None
    floors_us: Mapping[str, float] = field(default_factory=dict)
    baseline: str = ""

    @property
    def timed(self) -> list[CaseResult]:
        """The cases whose times count."""
        return [case for case in self.cases if case.stage == "time"]


# As long as people read; an agent's word may be as long as an event, and this one is longer.
REASON_LENGTH_MAX = 2000
WORD_LENGTH_MAX = 64
# Stage names are the harness's; a hidden failure is told by its class alone.
NOT_RANKED = {"build": "build_failed", "check": "check_failed", "time": "time_failed"}
HELD = ("suspicious", BELOW_FLOOR)
BASELINE = "baseline"
NOT_RIVAL = "a baseline of the problem: shown beside the rows, and never ranked"


def conclude(run: Verdict, wanted: Demand) -> SubmissionFinished:
    """The one decision on a submission: how it ended, its score, and whether it may be ranked."""
    if run.fault is not None and (run.mode == "ranked" or run.fault.code != NOT_ENROLLED):
        return _platform_failure(run, run.fault)
    is_passed = run.verdict == "passed"
    score = scored(run.ranking_by, run.timed, run.sigma_run) if is_passed else None
    code, reason = _eligibility(run, score, wanted)
    end = SubmissionFinished(
        outcome="passed" if is_passed else _failed_outcome(run.verdict),
        is_eligible=code == "ranked",
        code=code,
        reason=reason[:REASON_LENGTH_MAX],
        job=run.job,
        run=run.run,
        verdict=run.verdict[:WORD_LENGTH_MAX],
        grade=worst_grade(case.grade for case in run.timed)[:WORD_LENGTH_MAX],
        is_held=code in HELD,
    )
    return end if score is None else _with_score(end, run, score)


def _platform_failure(run: Verdict, fault: Fault) -> SubmissionFinished:
    """Conclude a verdict that nobody vouches for: the platform failed, not the submission."""
    return SubmissionFinished(
        outcome="infra_failed",
        is_eligible=False,
        code=fault.code,
        reason=f"{fault.reason}; please submit again"[:REASON_LENGTH_MAX],
        job=run.job,
        run=run.run,
    )


def _with_score(end: SubmissionFinished, run: Verdict, score: Score) -> SubmissionFinished:
    return SubmissionFinished(
        **{name: getattr(end, name) for name in end.__struct_fields__}
        | {
            "score_us": score.score_us,
            "interval_us": score.interval_us,
            "process_us": score.process_us,
            "error": score.error,
            "freedom": score.freedom,
            "sigma_run": run.sigma_run,
            "delta": tie_share(run.ranking_by, run.timed, run.sigma_run, run.tie_us, run.tier),
            "is_provisional": is_provisional(run.level, run.tier),
        }
    )


def _failed_outcome(verdict: str) -> str:
    return "timed_out" if verdict == "timed_out" else "failed"


def _eligibility(run: Verdict, score: Score | None, wanted: Demand) -> tuple[str, str]:
    if run.verdict == "timed_out":
        return "timed_out", run.reason
    if run.verdict != "passed":
        return _failure(run)
    if run.mode != "ranked":
        return "mode_not_ranked", f"mode {run.mode} is not ranked; submit with mode ranked"
    against = objection(wanted, run.level, run.tier, run.timed)
    if against is not None:
        return against
    if score is None:
        return BELOW_FLOOR, "a time is missing, zero or not a number: held for review"
    return _worth(run)


def _worth(run: Verdict) -> tuple[str, str]:
    """What a time that may be ranked is: a baseline's is no rival's, however it is."""
    against = _impossible(run)
    if run.baseline:
        return ("baseline_failed", against[1]) if against else (BASELINE, NOT_RIVAL)
    return against or ("ranked", "passed every case")


def _impossible(run: Verdict) -> tuple[str, str] | None:
    """Why a time is held that no machine of this kind can have needed."""
    found = below(run.timed, run.floors_us)
    if found is None:
        return None
    case, least_us = found
    name = "a hidden case" if case.is_hidden else case.name
    least = f"less than the {least_us:.4g} us that its bytes or operations take"
    return BELOW_FLOOR, f"{name} took {least} on this GPU type: held for review"


def _failure(run: Verdict) -> tuple[str, str]:
    """The code and the reason of a run that did not pass; of a hidden case the class alone."""
    hidden = [case for case in run.cases if case.is_hidden and case.verdict != "passed"]
    shown = [case for case in run.cases if not case.is_hidden and case.verdict != "passed"]
    is_secret = bool(hidden) and not shown
    if run.verdict == "suspicious":
        return "suspicious", f"held for review: {'a hidden case' if is_secret else run.reason}"
    if is_secret:
        return "hidden_run_failed", f"a hidden case ended {hidden[0].verdict}"
    return NOT_RANKED.get(run.stage, "check_failed"), run.reason
