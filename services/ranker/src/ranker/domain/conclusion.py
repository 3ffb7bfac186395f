"""How a run's verdict ends its submission, and whether its repetition confirms it.

A verdict counts only if it comes from the agent that was given the run. `find_fault` is the only
check of that: ranker makes it before it decides on a submission, and an audit repeats it.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from harness.vocabulary import GRADES, LEVELS, TIERS
from ranker.domain.goals import (
    BASELINE,
    BELOW_FLOOR,
    HELD_WITH_SCORE,
    OVER_LIMIT,
    POLICY_REVIEW,
    PRACTICE,
    STOPPED,
    find_below_floor,
)
from ranker.domain.score import NOISY, Score, compute_score, shown_interval_us, tie_share
from ranker.domain.stored_log import Verify
from ranker.domain.yardsticks import convert_times, yardstick_score_us
from shared import subjects
from shared.errors import Refused
from shared.events import (
    HARNESS_CODE,
    CaseResult,
    ConfirmationJudged,
    RejudgeApplied,
    RejudgeDiscarded,
    SubmissionFinished,
    is_at_least,
)
from shared.presentation.units import time_text
from shared.wire import Envelope, forgery_reason

RUN_KEY_BYTES = 32
DIGEST_SHOWN = 12
NOT_ENROLLED = "agent_not_enrolled"

# The worker is not frozen, or the clock is in the submission's own process: only a developer on
# a loopback platform ranks these (spec/isolation.md 6.5).
DEVELOPMENT = ("C2", "G0")
GATE_NOISE_MAX = 0.02
OBJECTION_REASONS = {
    "C2": "its worker was not frozen between calls",
    "G0": "its clock was in the submission's own process",
    "G3": "its fine time was the submission's own claim",
}


class RunOrigin(NamedTuple):
    """What the log says about a run before its verdict.

    `token` is the sequence of its order. `sign_key` is the agent's enrolled key, None if the agent
    is not enrolled or was revoked. `key_commit` comes from RunStarted. `harness_code` is the digest
    in the agent's newest registration, "" if there is none.
    """

    agent: str
    run: str
    token: int
    sign_key: str | None
    key_commit: str | None
    harness_code: str


class Fault(NamedTuple):
    """Why a verdict does not count: a code for programs, a reason for people."""

    code: str
    reason: str


def find_fault(
    envelope: Envelope, key: str, environment: Mapping[str, str], origin: RunOrigin, verify: Verify
) -> Fault | None:
    """Return why a RunCompleted with this key and environment does not count, None if it does."""
    return (
        _check_writer(envelope, origin)
        or _check_signature(envelope, origin, verify)
        or _check_key(key, origin)
        or _check_harness(environment, origin)
    )


def _check_writer(envelope: Envelope, origin: RunOrigin) -> Fault | None:
    reason = forgery_reason(envelope)
    if not reason and subjects.history_of(envelope.aggregate) != subjects.run(
        origin.agent, origin.run
    ):
        reason = f"run {origin.run} was given to agent {origin.agent}, not to {envelope.aggregate}"
    return Fault("wrong_writer", f"the verdict is forged: {reason}") if reason else None


def _check_signature(envelope: Envelope, origin: RunOrigin, verify: Verify) -> Fault | None:
    agent = origin.agent
    if origin.sign_key is None:
        reason = f"agent {agent} is not enrolled or was revoked, so nobody vouches for its run"
        return Fault(NOT_ENROLLED, reason)
    if envelope.sig is None:
        return Fault("bad_signature", f"the run is not signed by agent {agent}")
    aggregate = subjects.run(agent, origin.run)
    if not verify(origin.sign_key, aggregate, origin.token, bytes(envelope.data), envelope.sig):
        return Fault("bad_signature", f"the run's signature is not that of agent {agent}")
    return None


def _check_key(key: str, origin: RunOrigin) -> Fault | None:
    """All inputs are derived from the key, so it must be the one that RunStarted committed to."""
    try:
        key_bytes = bytes.fromhex(key)
    except ValueError:
        key_bytes = b""
    if len(key_bytes) != RUN_KEY_BYTES or not any(key_bytes):
        return Fault("bad_key", f"the run's key is not {RUN_KEY_BYTES} drawn bytes in hexadecimal")
    if hashlib.sha256(key_bytes).hexdigest() != origin.key_commit:
        return Fault("bad_key", "the run's key is not the one that RunStarted committed to")
    return None


def _check_harness(environment: Mapping[str, str], origin: RunOrigin) -> Fault | None:
    """An agent is admitted with the harness code that it registered and may run no other."""
    code = environment.get(HARNESS_CODE, "")
    if code == origin.harness_code:
        return None
    ran, registered = (digest[:DIGEST_SHOWN] or "no code" for digest in (code, origin.harness_code))
    reason = f"the run was judged by harness code {ran}, but agent {origin.agent} registered"
    return Fault("unknown_harness", f"{reason} {registered}")


@dataclass(frozen=True)
class Demand:
    """The minimum isolation level and the timing tiers that are ranked."""

    level_min: str
    tiers: tuple[str, ...]


def parse_demand(level_min: str, tiers: str, *, is_loopback: bool) -> Demand:
    """Parse an operator's policy; `tiers` are separated by spaces. Raises Refused.

    >>> parse_demand("strong", "G1 C1", is_loopback=False)
    Demand(level_min='strong', tiers=('G1', 'C1'))
    """
    tier_names = tuple(tiers.split())
    if level_min not in LEVELS:
        raise _refuse("level_min", f"{level_min!r} is none of {', '.join(LEVELS)}")
    unknown = [tier for tier in tier_names if tier not in TIERS]
    if unknown or not tier_names:
        raise _refuse("tiers", f"{tiers!r} is not one or more of {' '.join(TIERS)}")
    loose = [tier for tier in tier_names if tier in DEVELOPMENT]
    if level_min in ("none", "weak"):
        loose.append(f"level {level_min}")
    if loose and not is_loopback:
        raise _refuse("tiers", f"{', '.join(loose)} may be ranked on a loopback platform alone")
    return Demand(level_min, tier_names)


def _refuse(field: str, reason: str) -> Refused:
    return Refused("bad_settings", f"WARPBOARD_RANKER_{field.upper()}: {reason}", field)


def find_objection(
    demand: Demand, level: str, tier: str, timed: Sequence[CaseResult]
) -> tuple[str, str] | None:
    """The code and reason why a run's times are not ranked here, None if they are.

    >>> find_objection(Demand("strong", ("C1",)), "weak", "C1", [])
    ('not_ranked_level', 'isolation was weak; ranked runs need strong here')
    """
    if not is_at_least(level, demand.level_min):
        reason = f"isolation was {level or 'unknown'}; ranked runs need {demand.level_min} here"
        return "not_ranked_level", reason
    if tier not in demand.tiers:
        note = f" ({OBJECTION_REASONS[tier]})" if tier in OBJECTION_REASONS else ""
        ranked = ", ".join(demand.tiers)
        return "not_ranked_tier", f"timing tier {tier or 'unknown'}{note}; ranked here: {ranked}"
    noisy = next((case for case in timed if tier == "G2" and not _is_quiet(case)), None)
    if noisy is not None:
        bound = f"{GATE_NOISE_MAX:.0%}"
        reason = f"the null calls of {noisy.name} spread over more than {bound} of its time"
        return "not_ranked_tier", f"{reason}, so timing tier G2 does not rank it"
    return None


def _is_quiet(case: CaseResult) -> bool:
    if len(case.null_us) != 3 or case.time_us is None:
        return False
    low, _, high = case.null_us
    return high - low <= GATE_NOISE_MAX * case.time_us


def is_provisional(level: str, tier: str) -> bool:
    """Whether a time counts less than the most trusted ones.

    GPU tiers do until the validation of spec/timing.md 9 has passed on a real device.
    """
    return tier != "C1" or level != "strong"


def worst_grade(grades: Iterable[str]) -> str:
    """The worst of several grades; "" if no case has one.

    >>> worst_grade(["ok", "trend", "noisy"]), worst_grade(["ok"]), worst_grade([""])
    ('noisy', 'ok', '')
    """
    known = [grade for grade in grades if grade]
    return max(known, key=lambda grade: GRADES.index(grade) if grade in GRADES else -1, default="")


@dataclass(frozen=True)
class RunVerdict:
    """A run with a verdict, and what its submission asked for.

    `sigma_run` and `tie_us` describe the machine: its run-to-run deviation as a fraction, and the
    part of a call's hand-over that a cheat could hide. `fault` says why the verdict's origin is not
    trusted, None if it is. `floors_us` are lower bounds for the times of its cases. A run of the
    problem's `baseline` is never ranked, one with `is_practice` only for practice. `doubts` say why
    it may break the shortcut policy. `fixed_us` are the fixed times of the yardstick by case,
    if there are any, and `stopped` says why the run stopped early. `over_limit` says which metrics
    are out of the problem's bounds.
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
    doubts: Sequence[str] = ()
    fixed_us: Mapping[str, float] = field(default_factory=dict)
    stopped: str = ""
    over_limit: str = ""
    is_practice: bool = False

    @property
    def timed(self) -> list[CaseResult]:
        """The cases whose times count, in units of the fixed yardstick."""
        return convert_times([case for case in self.cases if case.stage == "time"], self.fixed_us)


# An agent's text may be as long as an event; people read less.
REASON_LENGTH_MAX = 2000
WORD_LENGTH_MAX = 64
# Stage names come from the harness; of a hidden failure only the class is shown.
NOT_RANKED = {"build": "build_failed", "check": "check_failed", "time": "time_failed"}
HELD = ("suspicious", *HELD_WITH_SCORE)
POLICY = "policy"
PRACTICE_REASON = "after the deadline: ranked on the practice leaderboard"
BASELINE_REASON = "a baseline of the problem: shown beside the rows, and never ranked"


def conclude_submission(run: RunVerdict, demand: Demand) -> SubmissionFinished:
    """Decide on a submission: its outcome, its score, and whether it may be ranked."""
    if run.fault is not None and (run.mode == "ranked" or run.fault.code != NOT_ENROLLED):
        # The verdict's origin is not trusted: the platform failed, not the submission.
        return SubmissionFinished(
            outcome="infra_failed",
            is_eligible=False,
            code=run.fault.code,
            reason=f"{run.fault.reason}; please submit again"[:REASON_LENGTH_MAX],
            job=run.job,
            run=run.run,
        )
    is_passed = run.verdict == "passed"
    score = compute_score(run.ranking_by, run.timed, run.sigma_run) if is_passed else None
    code, reason = _eligibility(run, score, demand)
    end = SubmissionFinished(
        outcome=run.verdict if run.verdict in ("passed", "timed_out") else "failed",
        is_eligible=code == "ranked",
        code=code,
        reason=reason[:REASON_LENGTH_MAX],
        job=run.job,
        run=run.run,
        verdict=run.verdict[:WORD_LENGTH_MAX],
        grade=worst_grade(case.grade for case in run.timed)[:WORD_LENGTH_MAX],
        is_held=code in HELD,
    )
    if score is None:
        return end
    delta = tie_share(run.ranking_by, run.timed, score, run.tie_us, run.tier)
    return replace(
        end,
        score_us=score.score_us,
        interval_us=shown_interval_us(score, delta),
        process_us=score.process_us,
        error=score.error,
        freedom=score.freedom,
        sigma_run=run.sigma_run,
        delta=delta,
        is_provisional=end.grade == NOISY or is_provisional(run.level, run.tier),
        yardstick_us=yardstick_score_us(run.ranking_by, run.timed),
    )


def _eligibility(run: RunVerdict, score: Score | None, demand: Demand) -> tuple[str, str]:
    if run.verdict == "timed_out":
        return "timed_out", run.reason
    if run.verdict != "passed":
        return _failure(run)
    if run.mode != "ranked":
        return "mode_not_ranked", f"mode {run.mode} is not ranked; submit with mode ranked"
    refusal = find_objection(demand, run.level, run.tier, run.timed)
    if refusal is not None:
        return refusal
    if score is None:
        return BELOW_FLOOR, "a time is missing, zero or not a number: held for review"
    return _rank_code(run)


def _rank_code(run: RunVerdict) -> tuple[str, str]:
    """The code of a time that may be ranked; a baseline or a stopped run is never ranked."""
    problem = _find_impossible_time(run)
    if run.baseline:
        return ("baseline_failed", problem[1]) if problem else (BASELINE, BASELINE_REASON)
    if problem is None and run.stopped:
        return STOPPED, run.stopped
    if problem is None and run.over_limit:
        return OVER_LIMIT, run.over_limit
    if problem is None and run.doubts:
        problem = POLICY_REVIEW, f"held for review: {'; '.join(run.doubts)}"
    if run.is_practice:
        # Nobody reviews it, since it never enters the leaderboard.
        return ("practice_refused", problem[1]) if problem else (PRACTICE, PRACTICE_REASON)
    return problem or ("ranked", "passed every case")


def _find_impossible_time(run: RunVerdict) -> tuple[str, str] | None:
    below = find_below_floor(run.timed, run.floors_us)
    if below is None:
        return None
    case, least_us = below
    name = "a hidden case" if case.is_hidden else case.name
    least = f"less than the {least_us:.4g} us that its bytes or operations take"
    return BELOW_FLOOR, f"{name} took {least} on this GPU type: held for review"


def _failure(run: RunVerdict) -> tuple[str, str]:
    """The code and reason of a run that did not pass; of a hidden case only the class."""
    hidden = [case for case in run.cases if case.is_hidden and case.verdict != "passed"]
    visible = [case for case in run.cases if not case.is_hidden and case.verdict != "passed"]
    is_secret = bool(hidden) and not visible
    if run.verdict == "suspicious":
        return "suspicious", f"held for review: {'a hidden case' if is_secret else run.reason}"
    if run.verdict == POLICY:
        return POLICY, run.reason
    if is_secret:
        return "hidden_run_failed", f"a hidden case ended {hidden[0].verdict}"
    return NOT_RANKED.get(run.stage, "check_failed"), run.reason


def conclude_retime(result: SubmissionFinished) -> RejudgeApplied | RejudgeDiscarded:
    """Decide whether the result of a noisy run that was timed again replaces the noisy one.

    It does if it may be ranked and is not noisy itself.

    >>> end = SubmissionFinished(outcome="passed", is_eligible=True, code="ranked", reason="",
    ...     score_us=120.0, grade="ok")
    >>> conclude_retime(end)
    RejudgeApplied(reason='timed again: 120 µs replaces a noisy time')
    >>> conclude_retime(replace(end, grade="noisy"))
    RejudgeDiscarded(reason='timed again: noisy again, so the earlier time stays')
    """
    if result.is_eligible and result.score_us is not None and result.grade != NOISY:
        time = time_text(result.score_us)
        return RejudgeApplied(reason=f"timed again: {time} replaces a noisy time")
    if result.is_eligible:
        return RejudgeDiscarded(reason="timed again: noisy again, so the earlier time stays")
    reason = f"timed again without a result ({result.code}): {result.reason}"
    return RejudgeDiscarded(reason=reason[:REASON_LENGTH_MAX])


CONFIRMED = "confirmed"
SLOWER = "slower"
# Two machines with the same GPU type differ by up to this share.
AGENTS_DIFFER_SHARE = 0.03


class RepetitionResult(NamedTuple):
    """A repetition compared with its run; `ratio` is its score over the run's, None without one."""

    code: str
    ratio: float | None


def compare_repetition(
    score_us: float, yardstick_us: float | None, repetition: SubmissionFinished
) -> RepetitionResult | None:
    """Compare a run's score with its repetition; None if the repetition does not count.

    A repetition confirms the run unless its whole 95 % interval is slower by more than two machines
    of the same GPU type may differ. If the yardstick was fixed in between, as its own score tells,
    the run's score is converted to that unit.

    >>> end = SubmissionFinished(outcome="passed", is_eligible=True, code="ranked", reason="",
    ...     score_us=106.0, interval_us=(105.0, 107.0))
    >>> [compare_repetition(score_us, None, end).code for score_us in (100.0, 103.0, 200.0)]
    ['slower', 'confirmed', 'confirmed']
    """
    if repetition.outcome in ("failed", "timed_out") and repetition.verdict:
        return RepetitionResult(repetition.verdict, None)
    if not repetition.is_eligible or repetition.score_us is None:
        return None
    if yardstick_us and repetition.yardstick_us:
        score_us *= repetition.yardstick_us / yardstick_us
    low_us, _ = repetition.interval_us or (repetition.score_us, 0.0)
    is_slower = low_us > score_us * (1 + AGENTS_DIFFER_SHARE)
    return RepetitionResult(SLOWER if is_slower else CONFIRMED, repetition.score_us / score_us)


def confirmation_text(fact: ConfirmationJudged) -> str:
    """What a leaderboard shows of a confirmation; "" without a result.

    >>> end = SubmissionFinished(outcome="passed", is_eligible=True, code="ranked", reason="")
    >>> board = {"problem": "p", "problem_number": 1, "gpu": "CPU", "agent": "a2"}
    >>> confirmation_text(ConfirmationJudged(**board, code="slower", ratio=1.052, result=end))
    'not confirmed: 5.2 % slower on agent a2'
    >>> confirmation_text(ConfirmationJudged(**board, code="wrong_answer", result=end))
    'not confirmed: wrong_answer on agent a2'
    >>> confirmation_text(ConfirmationJudged(**board, code="confirmed", ratio=0.99, result=end))
    'confirmed on agent a2'
    """
    if fact.result is None:
        return ""
    if fact.code == CONFIRMED:
        return f"confirmed on agent {fact.agent}"
    if fact.ratio is None:
        return f"not confirmed: {fact.code} on agent {fact.agent}"
    return f"not confirmed: {100 * (fact.ratio - 1):.2g} % slower on agent {fact.agent}"
