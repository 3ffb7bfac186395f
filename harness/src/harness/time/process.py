"""What the measurement of one case in one fresh process has recorded, and its value.

A pass on a machine that was unfit for timing is discarded, not corrected.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, median
from typing import Protocol

from harness.time.estimators import (
    block_value,
    interquartile_mean,
    mean_of_fastest,
    quantile,
    skew_us,
    standard_error,
)
from harness.time.policy import History, Policy

CONTAMINATED = "contaminated"
DRY = "dry"
LATE = "late"
SPOT = "spot"
# These samples say nothing about the submission and do not count.
DROPPED = frozenset({CONTAMINATED, DRY, SPOT})

_CONTAMINATED_MAX = 0.20
_DRY_MAX = 0.10
_LATE_MAX = 0.10
_SKEW_MIN = 0.01
_SKEW_FACTOR = 3.0
# Between honest calls the probe was up to 1.4 % slower than beside the null calls, and up to 4.4 %
# with seven busy processes on the machine (2 cores, 2026-11).
_PROBE_FACTOR_MAX = 1.02

_ATTEMPTS_MAX = 2


@dataclass(frozen=True)
class Sample:
    """One timed call, in microseconds, without the time lost to other processes.

    `contaminated`: the core was taken away; `dry`: the launch was not hidden behind a spin kernel;
    `late`: enqueueing outlasted the gate, so the time includes part of it; `spot`: revealed in
    another way than the others, to check them.
    """

    time_us: float
    flags: tuple[str, ...] = ()
    lost_us: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Whether the sample counts."""
        return not self.flags or DROPPED.isdisjoint(self.flags)


class SampleSource(Protocol):
    """One case in one fresh process, one call at a time; each output is checked at once."""

    def call(self) -> Sample:
        """Make one call of the submission."""

    def null(self) -> Sample:
        """Make an empty call in one of the platform's own workers."""

    def probe(self) -> float | None:
        """Time the platform's fixed work on the submission's core; None if there is none."""

    def reference(self, name: str) -> float:
        """Time one call of the platform's kernel `fma` or `copy`, in microseconds."""


@dataclass(frozen=True)
class MeasurementPlan:
    """What the measurement of one case knows about the device, the machine and the case.

    `shape` is equal for cases whose null calls cost the same. `is_gated` is false for times taken
    in the submission's own process. `calibration` goes into the records unchanged. The clocks of
    several ranks started within `stagger_us`.
    """

    policy: Policy
    history: History
    shape: str = ""
    is_gated: bool = True
    calibration: Mapping[str, float] = field(default_factory=dict)
    stagger_us: float = 0.0


@dataclass(frozen=True)
class ReferenceSample:
    """One call of a reference kernel, after `slot` calls of the block."""

    name: str
    slot: int
    time_us: float


@dataclass(frozen=True)
class Block:
    """Consecutive samples with reference samples between them.

    `probes_us` has, for each sample, the slower of the probes before and after it; it is empty
    without probes. `is_counted` is false for a block that was repeated. If too many samples of a
    counted block are spoilt, all of them count, so that nobody gains from dropped samples.
    """

    samples: tuple[Sample, ...]
    references: tuple[ReferenceSample, ...]
    wall_s: float
    value_us: float
    is_counted: bool = True
    probes_us: tuple[float, ...] = ()

    @property
    def is_contaminated(self) -> bool:
        """Whether the core was taken away too often."""
        return flagged_share(CONTAMINATED, self.samples) > _CONTAMINATED_MAX

    @property
    def is_dry(self) -> bool:
        """Whether too many launches were not hidden."""
        return flagged_share(DRY, self.samples) > _DRY_MAX

    @property
    def is_spoilt(self) -> bool:
        """Whether the block should be repeated."""
        return _are_spoilt(self.samples)

    @cached_property
    def kept_us(self) -> list[float]:
        """The samples that count."""
        return select_times_us(self.samples)


@dataclass(frozen=True)
class InterimLook:
    """What was found after this many blocks, and the action: `more`, `stop` or `give up`."""

    blocks: int
    half_width: float
    trend_p: float
    action: str


@dataclass(frozen=True)
class Process:
    """One case in one fresh process; `grade` is one of messages.GRADES.

    `probes` are the times of the platform's fixed work between the submission's calls, in
    microseconds; `first_probes` and `last_probes` those beside the null calls before and after.
    They are empty without probes.
    """

    warm_ups: tuple[Sample, ...]
    nulls: tuple[Sample, ...]
    blocks: tuple[Block, ...]
    looks: tuple[InterimLook, ...]
    deviation: Mapping[str, float]
    grade: str
    probes: tuple[float, ...] = ()
    first_probes: tuple[float, ...] = ()
    last_probes: tuple[float, ...] = ()
    blocks_share: float = 1.0
    calibration: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def counted(self) -> list[Block]:
        """The blocks that were not repeated."""
        return [block for block in self.blocks if block.is_counted]

    @cached_property
    def samples_us(self) -> list[float]:
        """All samples that count, in order of time."""
        return [time for block in self.counted for time in block.kept_us]

    def quiet_us(self, probe_us_max: float) -> list[float]:
        """Return the clean samples between two probes that took at most this long."""
        return [
            sample.time_us
            for block in self.counted
            for sample, probe_us in zip(block.samples, block.probes_us, strict=False)
            if sample.is_clean and probe_us <= probe_us_max
        ]

    @property
    def dropped(self) -> int:
        """How many samples were taken but do not count."""
        return sum(len(block.samples) for block in self.blocks) - len(self.samples_us)

    @property
    def value_us(self) -> float:
        """The mean of the block values, or of the fastest of them."""
        values = [block.value_us for block in self.counted]
        return mean_of_fastest(values, self.blocks_share, fmean(values))

    @property
    def error(self) -> float:
        """The standard error of the value within this process, as a fraction."""
        return standard_error([block.value_us for block in self.counted])

    @property
    def null_us(self) -> float:
        """The p10 of the null calls; 0 without any."""
        times = select_times_us(self.nulls)
        return quantile(times, 0.1) if times else 0.0

    @property
    def null_spread_us(self) -> float:
        """The p90 of the null calls minus their p10; 0 without any."""
        times = select_times_us(self.nulls)
        return quantile(times, 0.9) - quantile(times, 0.1) if times else 0.0

    @property
    def probe_us(self) -> float:
        """How long the platform's fixed work took in this process; 0 without probes.

        A submission gains if the probe seems slow: what it leaves in the caches may delay the
        probes between its calls, but hardly those before its first call and long after its last.
        """
        if not (self.probes and self.first_probes and self.last_probes):
            return 0.0
        quiet_us = min(median(self.first_probes), median(self.last_probes))
        return min(median(self.probes), _PROBE_FACTOR_MAX * quiet_us)

    @property
    def fast_probe_us(self) -> float:
        """The 10th percentile of all probes, or of those beside the null calls; 0 without any.

        The smaller one: in a long measurement most probes follow calls of the submission, which
        may slow them, but hardly those before its first call and long after its last.
        """
        edges = (*self.first_probes, *self.last_probes)
        if not edges:
            return 0.0
        return min(quantile(edges, 0.1), quantile((*edges, *self.probes), 0.1))

    @property
    def references(self) -> dict[str, float]:
        """The value of each reference kernel in this process."""
        return reference_values(self.counted)

    @property
    def deviation_max(self) -> float:
        """The largest deviation of a reference kernel from the machine's median, with its sign."""
        return max(self.deviation.values(), key=abs, default=0.0)


def flagged_share(flag: str, samples: tuple[Sample, ...]) -> float:
    """Return the share of samples that carry a flag."""
    return sum(flag in sample.flags for sample in samples) / len(samples)


def select_times_us(samples: tuple[Sample, ...]) -> list[float]:
    """Return the times that count: of clean samples, or of all if too many are not clean.

    Spot checks never count, unless there is nothing else.
    """
    ranked = [sample for sample in samples if SPOT not in sample.flags] or list(samples)
    clean = [sample.time_us for sample in ranked if sample.is_clean]
    if len(clean) == len(ranked) or not _are_spoilt(samples):
        return clean
    return [sample.time_us for sample in ranked]


def _are_spoilt(samples: tuple[Sample, ...]) -> bool:
    is_contaminated = flagged_share(CONTAMINATED, samples) > _CONTAMINATED_MAX
    is_checked_alone = flagged_share(SPOT, samples) == 1
    return is_contaminated or flagged_share(DRY, samples) > _DRY_MAX or is_checked_alone


def make_block(
    samples: tuple[Sample, ...],
    references: tuple[ReferenceSample, ...],
    wall_s: float,
    policy: Policy,
) -> Block:
    """Return the block of these samples, with its value."""
    times_us = select_times_us(samples)
    if policy.samples_share is not None:
        typical_us = interquartile_mean(times_us)
        value_us = mean_of_fastest(times_us, policy.samples_share, typical_us)
    else:
        value_us = block_value(times_us, policy.timer_step_us)
    return Block(samples, references, wall_s, value_us)


def is_late(blocks: list[Block]) -> bool:
    """Return whether too many launches outlasted the gate."""
    samples = tuple(sample for block in blocks for sample in block.samples)
    return flagged_share(LATE, samples) > _LATE_MAX


def is_bimodal(blocks: list[Block], nulls: tuple[Sample, ...]) -> bool:
    """Return whether slow calls raise the mean by over 1 %, and by 3 times the machine's effect.

    What the machine does to everybody shows in the reference kernels and null calls. They are
    short, so it is rare in them: there it counts fully, while the submission is forgiven its
    slowest 2 %. Because a machine stalls now and then, most blocks must show slow calls.
    """
    times = [time for block in blocks for time in block.kept_us]
    middle_us = interquartile_mean(times)
    excess = skew_us(times)
    machine_excess_us = [_excess_us(select_times_us(nulls))] if nulls else []
    for name, reference_us in reference_values(blocks).items():
        machine_excess_us.append(
            middle_us * _excess_us(_reference_times_us(name, blocks)) / reference_us
        )
    usual_us = median(_excess_us(block.kept_us) for block in blocks)
    threshold_us = max(_SKEW_MIN * middle_us, _SKEW_FACTOR * max(machine_excess_us, default=0.0))
    return excess > threshold_us and usual_us > _SKEW_MIN * middle_us


def _excess_us(times: list[float]) -> float:
    return fmean(times) - interquartile_mean(times)


def reference_values(blocks: list[Block]) -> dict[str, float]:
    """Return the interquartile mean of each reference kernel over these blocks."""
    names = sorted({reference.name for block in blocks for reference in block.references})
    return {name: interquartile_mean(_reference_times_us(name, blocks)) for name in names}


def _reference_times_us(name: str, blocks: list[Block]) -> list[float]:
    return [
        reference.time_us
        for block in blocks
        for reference in block.references
        if reference.name == name
    ]


class NoisyMachine(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The machine was unfit twice in a row: its fault, not the submission's."""


def reference_deviations(references: Mapping[str, float], history: History) -> dict[str, float]:
    """Return by which fraction reference kernels differ from the machine's medians."""
    usual = {name: history.reference_us(name) for name in references}
    return {name: references[name] / us - 1 for name, us in usual.items() if us is not None}


def kernels_beyond(deviations: Mapping[str, float], limits: Mapping[str, float]) -> list[str]:
    """Return the kernels that deviate by more than their limit.

    Slow and fast are treated alike: twice the time and half of it both exceed a limit of 1.
    """
    return [
        name
        for name, deviation in deviations.items()
        if name in limits and max(1 + deviation, 1 / (1 + deviation)) > 1 + limits[name]
    ]


def measure_when_fit(
    attempt: Callable[[], Process],
    plan: MeasurementPlan,
    health: Callable[[], Sequence[str]],
    pause: Callable[[float], object],
) -> Process:
    """Return a pass on a fit machine: `attempt`, and again after a pause if it was unfit.

    `health` says why the device is unfit now, nothing if it is fit; it is called before and after a
    pass. Raises NoisyMachine if the second pass is no better, and whatever `attempt` raises.
    """
    reasons: list[str] = []
    for number in range(_ATTEMPTS_MAX):
        if number:
            pause(plan.policy.pause_s)
        reasons = list(health())
        if not reasons:
            process = attempt()
            reasons = [*health(), *_refusal_reasons(process, plan)]
            if not reasons:
                return process
    raise NoisyMachine("the machine is unfit for timing: " + "; ".join(reasons))


def _refusal_reasons(process: Process, plan: MeasurementPlan) -> list[str]:
    deviations = process.deviation
    return [
        f"reference {name} is {100 * deviations[name]:+.2f} % off this machine's median"
        for name in kernels_beyond(deviations, plan.policy.refuse_at)
    ]
