"""What an evaluation says of a source: its speed-up over the yardstick, and its reward."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from typing import Protocol

from harness.messages import CaseReport, Composition
from harness.ranking_rules import score_us
from harness.vocabulary import GRADES, IN_PROCESS, NOISY, PASSED, POLICY

# Times of these grades earn nothing: one claims no order, and a submission could write the other.
UNREWARDED_GRADES = (NOISY, IN_PROCESS)


@dataclass(frozen=True)
class Measurement:
    """The score of a timed run, and how many times as fast as the yardstick it is.

    `interval` is the 95 % interval of `speedup`. Its lower end also allows for what a submission
    could hide of each call, so a short call is never rewarded for what the clock cannot see.
    `grade` is the worst of the timed cases. Units: microseconds.
    """

    time_us: float
    interval_us: tuple[float, float]
    speedup: float
    interval: tuple[float, float]
    grade: str


def measure_speedup(
    ranking_by: str, timed: Sequence[CaseReport], tie_us: float
) -> Measurement | None:
    """Combine the timed cases of one run by the problem's ranking rule.

    `tie_us` is the report's. None without cases, or if one has no time beside the yardstick.

    >>> case = CaseReport("a", "time", "passed", time_us=50.0, interval_us=(40.0, 60.0),
    ...     yardstick_us=120.0, grade="ok")
    >>> measurement = measure_speedup("last", [case], 20.0)
    >>> measurement.speedup, measurement.interval
    (2.4, (1.5, 3.0))
    """
    bounds = [case.interval_us or (0.0, 0.0) for case in timed]
    weights = [case.weight for case in timed]
    time_us, yardstick_us, low_us, high_us, longest_us = (
        score_us(ranking_by, times_us, weights)
        for times_us in (
            [case.time_us or 0.0 for case in timed],
            [case.yardstick_us or 0.0 for case in timed],
            [low for low, _ in bounds],
            [high for _, high in bounds],
            [high + tie_us for _, high in bounds],
        )
    )
    if not (time_us and yardstick_us and low_us and high_us and longest_us):
        return None
    return Measurement(
        time_us,
        (low_us, high_us),
        yardstick_us / time_us,
        (yardstick_us / longest_us, yardstick_us / low_us),
        max((case.grade for case in timed), key=GRADES.index),
    )


@dataclass(frozen=True)
class Evaluation:
    """How the evaluation of one source ended.

    `id` is the caller's name of the source. `verdict` is one of VERDICTS; without one,
    `failure_code` (one of FAILURE_CODES) says whose fault that is, never the submission's. `cases`
    are those of every stage. `speedup`, `interval`, `time_us`, `time_interval_us` and `grade` are
    those of a Measurement, None and "" in mode `test` and after a failure. `doubts` say why a
    moderator would review the source under the problem's policy. `level` is the isolation level of
    the run; `key` repeats it. With `is_cached`, an equal source had this verdict before.
    """

    id: str | int
    mode: str
    verdict: str
    reason: str
    failure_code: str = ""
    stage: str = ""
    cases: list[CaseReport] = field(default_factory=list)
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    time_us: float | None = None
    time_interval_us: tuple[float, float] | None = None
    grade: str = ""
    composition: Composition | None = None
    doubts: list[str] = field(default_factory=list)
    log_head: str = ""
    log_tail: str = ""
    took_s: float = 0.0
    usage: dict[str, float] = field(default_factory=dict)
    device: str = ""
    level: str = ""
    tier: str = ""
    key: str = ""
    source_digest: str = ""
    problem_digest: str = ""
    harness_code: str = ""
    is_cached: bool = False


class Evaluated(Protocol):
    """What a reward is computed from; an evaluation by the platform has the same fields."""

    @property
    def verdict(self) -> str:
        """One of VERDICTS, or "" without one."""

    @property
    def reason(self) -> str:
        """What was found, in words."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the speed-up over the yardstick."""

    @property
    def grade(self) -> str:
        """How far the time can be trusted."""

    @property
    def doubts(self) -> list[str]:
        """Why a moderator would review the source."""


@dataclass(frozen=True)
class Reward:
    """What a source earns; `violation` and `doubts` are for the caller to weigh, never in `value`.

    `is_timed` says whether `value` comes from a time. A source that passed without one earns 0,
    like a source that failed, but `has_passed` tells them apart. `violation` is the forbidden
    shortcut that ended the run, "" if none did.
    """

    value: float
    has_passed: bool
    is_timed: bool
    violation: str = ""
    doubts: tuple[str, ...] = ()


def compute_reward(evaluated: Evaluated) -> Reward:
    """Return 0 unless every check passed, else ln of the speed-up's lower bound, but at least 0.

    A slow answer that is right must never earn less than a wrong one, or a policy would learn to
    fail. So what is slower than the yardstick earns 0, and nothing earns less.
    """
    has_passed = evaluated.verdict == PASSED
    interval = evaluated.interval
    value, is_timed = 0.0, False
    if has_passed and interval is not None and evaluated.grade not in UNREWARDED_GRADES:
        value, is_timed = max(0.0, log(interval[0])), True
    violation = evaluated.reason if evaluated.verdict == POLICY else ""
    return Reward(value, has_passed, is_timed, violation, tuple(evaluated.doubts))


def known_reward(evaluated: Evaluated) -> float | None:
    """Return the reward's value, None if the machine could not judge the source, or not time it."""
    reward = compute_reward(evaluated)
    is_known = evaluated.verdict and (reward.is_timed or not reward.has_passed)
    return reward.value if is_known else None
