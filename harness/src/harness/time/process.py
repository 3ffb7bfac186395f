"""What the measurement of one case in one fresh process has recorded.

A is the submission. B is the yardstick, a fixed kernel of the same problem in a box of the
platform's own, or in a duel the rival.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, log, sqrt
from statistics import fmean, stdev
from typing import Protocol

from harness.time.estimators import (
    block_value,
    interquartile_mean,
    mean_without_top,
    quantile,
    trend_p,
    trimmed_mean,
)
from harness.time.policy import Policy

WAITED = "waited"
COLD = "cold"
REPEATED = "repeated"
DRY = "dry"
LATE = "late"
SPOT = "spot"
# These samples say nothing about the submission and do not count.
DROPPED = frozenset({WAITED, COLD, REPEATED, DRY, SPOT})
_NEVER = frozenset({COLD, REPEATED, SPOT})

WAITED_MAX = 0.20
_DRY_MAX = 0.10
_LATE_MAX = 0.10
_SKEW_MIN = 0.01
_SKEW_ERRORS = 2.5
_PAIRS_MIN = 2
# By so much slow calls of any length raise the mean on a quiet machine (2 cores, 2026-11).
_JITTER_US = 5.0
# A machine stalls now and then, in few of the blocks.
_SLOW_BLOCKS_MIN = 0.25
CROWDED_MAX = 0.5
_TREND_P = 0.01
# Less than this share of a time cannot be told from an empty call, and might be negative.
_WORK_SHARE_MIN = 0.05


@dataclass(frozen=True)
class Sample:
    """One timed call, in microseconds, without the time lost to other processes.

    `waited`: the process with the clock had to wait for its core; `repeated`: another call replaces
    it for that reason; `cold`: the first call of a block, after other code has used the caches;
    `dry`: the launch was not hidden
    behind a spin kernel; `late`: enqueueing outlasted the gate, so the time includes part of it;
    `spot`: revealed in another way than the others, to check them.
    """

    time_us: float
    flags: tuple[str, ...] = ()
    lost_us: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Whether the sample counts."""
        return not self.flags or DROPPED.isdisjoint(self.flags)


@dataclass(frozen=True)
class Block:
    """Consecutive calls of one side.

    If too many samples are spoilt, all of them count, so that nobody gains from dropped samples.
    """

    samples: tuple[Sample, ...]

    @cached_property
    def kept_us(self) -> list[float]:
        """The samples that count."""
        return select_times_us(self.samples)

    def value_us(self, timer_step_us: float, *, is_plain: bool = False) -> float:
        """The mean of the middle half, or with `is_plain` of nearly all samples."""
        if is_plain:
            return mean_without_top(all_times_us(self.samples))
        return block_value(self.kept_us, timer_step_us)


class PairSource(Protocol):
    """One case in one fresh process of each side; each output of a submission is checked."""

    def measure(self, order: str, calls: Mapping[str, int]) -> dict[str, tuple[Sample, ...]]:
        """Time a block of each side in this order, such as `AB`, on the same inputs."""

    def time_fma(self) -> float:
        """Time one call of the platform's own kernel, in microseconds, to warm up a clock."""

    def is_crowded(self) -> bool:
        """Return whether more threads want to run on this machine than it has cores."""


@dataclass(frozen=True)
class MeasurementPlan:
    """What the measurement of a case knows about the device, the machine and the case.

    `nulls` are the null calls of the run, and `handshake_us` is what an empty call takes.
    `inputs_max` is how many inputs may be drawn ahead. `unit_us` is the frozen time of the
    yardstick, None if there is none. `is_gated` is false for times taken in the submission's own
    process. `calibration` goes into the records unchanged. The clocks of several ranks started
    within `stagger_us`.
    """

    policy: Policy
    nulls: tuple[Sample, ...] = ()
    inputs_max: int = 100
    unit_us: float | None = None
    is_gated: bool = True
    calibration: Mapping[str, float] = field(default_factory=dict)
    stagger_us: float = 0.0

    @cached_property
    def handshake_us(self) -> float:
        """The 10th percentile of the null calls: a machine slow for a moment does not raise it."""
        times = select_times_us(self.nulls)
        return quantile(times, 0.1) if times and self.is_gated else 0.0

    @cached_property
    def null_us(self) -> list[float]:
        """The 10th percentile, median and 90th percentile of the null calls."""
        times = select_times_us(self.nulls)
        return [quantile(times, share) for share in (0.1, 0.5, 0.9)] if times else []

    def work_us(self, block: Block, *, is_plain: bool = False) -> float:
        """Return the value of a block without the handshake, but at least a share of it."""
        step_us = self.policy.timer_step_us
        value_us = block.value_us(step_us, is_plain=is_plain)
        return max(step_us, _WORK_SHARE_MIN * value_us, value_us - self.handshake_us)


@dataclass(frozen=True)
class BlockPair:
    """A block of each side on the same inputs, and whether the machine was crowded then."""

    order: str
    a: Block
    b: Block
    is_crowded: bool = False

    def values_us(self, plan: MeasurementPlan, *, is_plain: bool = False) -> tuple[float, float]:
        """Return the times of A and B without the handshake."""
        return plan.work_us(self.a, is_plain=is_plain), plan.work_us(self.b, is_plain=is_plain)

    def difference(self, plan: MeasurementPlan, *, is_plain: bool = False) -> float:
        """Return ln(A / B)."""
        value_a, value_b = self.values_us(plan, is_plain=is_plain)
        return log(value_a / value_b)


@dataclass(frozen=True)
class InterimLook:
    """What was found after this many pairs, and the action: `more`, `stop` or `give up`."""

    pairs: int
    half_width: float
    action: str


@dataclass(frozen=True)
class Process:
    """One case in one fresh process of each side; `grade` is one of vocabulary.GRADES.

    `first` and `last` are blocks of B before the first call of A and after its last one.
    """

    warm_ups: tuple[Sample, ...]
    pairs: tuple[BlockPair, ...]
    looks: tuple[InterimLook, ...]
    grade: str
    first: Block
    last: Block | None = None

    @property
    def samples(self) -> list[Sample]:
        """The samples of A, in order of time."""
        return [sample for pair in self.pairs for sample in pair.a.samples]

    @property
    def samples_us(self) -> list[float]:
        """The samples of A that count, in order of time."""
        return [time for pair in self.pairs for time in pair.a.kept_us]

    @property
    def crowded_share(self) -> float:
        """In which share of the pairs the machine was crowded."""
        return fmean(pair.is_crowded for pair in self.pairs)

    @property
    def waited_share(self) -> float:
        """In which share of the calls of A the process with the clock waited, besides repeated."""
        samples = [sample for sample in self.samples if REPEATED not in sample.flags]
        return flagged_share(WAITED, samples)


def flagged_share(flag: str, samples: Sequence[Sample]) -> float:
    """Return the share of samples that carry a flag; 0 without samples."""
    return sum(flag in sample.flags for sample in samples) / max(1, len(samples))


def all_times_us(samples: Sequence[Sample]) -> list[float]:
    """Return the times of all calls but first ones and spot checks, if there are others."""
    warm = [sample.time_us for sample in samples if not {COLD, SPOT} & set(sample.flags)]
    return warm or [sample.time_us for sample in samples]


def select_times_us(samples: Sequence[Sample]) -> list[float]:
    """Return the times that count: of clean samples, or of all if too many are not clean.

    First and repeated calls and spot checks never count, unless there is nothing else.
    """
    ranked = [sample for sample in samples if _NEVER.isdisjoint(sample.flags)] or list(samples)
    clean = [sample.time_us for sample in ranked if sample.is_clean]
    if len(clean) == len(ranked):
        return clean
    is_spoilt = (
        flagged_share(WAITED, ranked) > WAITED_MAX
        or flagged_share(DRY, ranked) > _DRY_MAX
        or not clean
    )
    return [sample.time_us for sample in ranked] if is_spoilt else clean


def find_grade(pairs: Sequence[BlockPair], plan: MeasurementPlan) -> str:
    """Return the most serious grade of a process.

    On a machine that was crowded for most of it, slow calls prove nothing. One crowded moment does
    not excuse them, or a submission would wait for one.
    """
    samples = [sample for pair in pairs for sample in pair.a.samples]
    is_crowded = fmean(pair.is_crowded for pair in pairs) > CROWDED_MAX
    differences = [pair.difference(plan) for pair in pairs]
    grades = {
        "in_process": not plan.is_gated,
        "host_sync": flagged_share(DRY, samples) > _DRY_MAX,
        "launch_bound": flagged_share(LATE, samples) > _LATE_MAX,
        "bimodal": not is_crowded and is_bimodal(pairs),
        "trend": not is_crowded and trend_p(differences) <= _TREND_P,
    }
    return next((grade for grade, applies in grades.items() if applies), "ok")


def is_bimodal(pairs: Sequence[BlockPair]) -> bool:
    """Return whether slow calls of A raise its mean by over 1 % more than the machine explains.

    What the machine does to everybody shows in B, so the difference must be clear: 2.5 times its
    standard error over the pairs. Many blocks must show slow calls. Samples that do not count are
    included: a submission must not gain by having its slow calls dropped.
    """
    if len(pairs) < _PAIRS_MIN:
        return False
    excesses = [_excess(pair) for pair in pairs]
    error = stdev(excesses) / sqrt(len(excesses))
    slow_blocks = fmean(excess > _SKEW_MIN for excess in excesses)
    is_clear = fmean(excesses) > max(_SKEW_MIN, _SKEW_ERRORS * error)
    return is_clear and slow_blocks > _SLOW_BLOCKS_MIN


def has_slow_blocks(process: Process, plan: MeasurementPlan) -> bool:
    """Return whether whole blocks of A are slow, which rank as little as interrupted ones.

    All calls of A must then take over 1 % longer than the ranked value, besides what B shows.
    """

    def excess(blocks: Sequence[Block], jitter_us: float) -> float:
        ranked_us = exp(trimmed_mean([log(plan.work_us(block)) for block in blocks])[0])
        plain_us = fmean(plan.work_us(block, is_plain=True) for block in blocks)
        return (plain_us - jitter_us) / ranked_us - 1

    excess_b = max(0.0, excess([pair.b for pair in process.pairs], 0.0))
    excess_a = excess([pair.a for pair in process.pairs], _JITTER_US)
    return process.crowded_share <= CROWDED_MAX and excess_a - excess_b > _SKEW_MIN


def _excess(pair: BlockPair) -> float:
    """Return by which fraction slow calls raise the mean of A, besides what B shows.

    A machine delays long calls by a share of their time, and short ones by some microseconds.
    """
    (middle_us, excess_us), (middle_b_us, excess_b_us) = map(_measure_excess, (pair.a, pair.b))
    machine_us = max(excess_b_us * middle_us / middle_b_us, _JITTER_US)
    return (excess_us - machine_us) / middle_us


def _measure_excess(block: Block) -> tuple[float, float]:
    """Return the mean of the middle half, and by how much slow calls raise the whole mean."""
    times = all_times_us(block.samples)
    middle_us = interquartile_mean(times)
    return middle_us, fmean(times) - middle_us
