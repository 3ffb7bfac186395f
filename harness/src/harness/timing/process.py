"""What the measurement of one case in one fresh process has seen, and what that is worth."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, median

from harness.timing.estimators import (
    block_value,
    interquartile_mean,
    mean_of_fastest,
    quantile,
    skew_us,
    standard_error,
)
from harness.timing.history import History
from harness.timing.policy import Policy
from harness.timing.source import CONTAMINATED, DRY, LATE, SPOT, Sample

_CONTAMINATED_MAX = 0.20
_DRY_MAX = 0.10
_LATE_MAX = 0.10
_SKEW_MIN = 0.01
_SKEW_FACTOR = 3.0
# Between honest calls it was up to 1.4 % slower than beside the null calls, and up to 4.4 % beside
# seven busy processes (2 cores, 2026-11).
_PROBE_FACTOR_MAX = 1.02


@dataclass(frozen=True)
class Plan:
    """What the measurement of one case knows of the device, the machine and the case.

    `shape` is equal where null calls cost the same; `is_gated` is false for times taken in the
    submission's own process; `calibration` goes into the records as it is. Within `stagger_us` the
    clocks of several ranks started.
    """

    policy: Policy
    history: History
    shape: str = ""
    is_gated: bool = True
    calibration: Mapping[str, float] = field(default_factory=dict)
    stagger_us: float = 0.0


@dataclass(frozen=True)
class Reference:
    """One call of a reference kernel, after so many calls of the block."""

    name: str
    slot: int
    time_us: float


@dataclass(frozen=True)
class Block:
    """Consecutive samples with reference samples between them.

    `is_counted` is false for one that was repeated; of a counted block that too much went wrong
    with, all samples count, so that nobody gains by having some of them dropped.
    """

    samples: tuple[Sample, ...]
    references: tuple[Reference, ...]
    wall_s: float
    value_us: float
    is_counted: bool = True

    @property
    def is_contaminated(self) -> bool:
        """Whether the core was taken away too often."""
        return share_of(CONTAMINATED, self.samples) > _CONTAMINATED_MAX

    @property
    def is_dry(self) -> bool:
        """Whether too many launches were not hidden."""
        return share_of(DRY, self.samples) > _DRY_MAX

    @property
    def is_spoilt(self) -> bool:
        """Whether the block should be repeated."""
        return _is_spoilt(self.samples)

    @cached_property
    def kept_us(self) -> list[float]:
        """The samples that count."""
        return kept_us(self.samples)


@dataclass(frozen=True)
class Look:
    """What was seen after so many blocks, and what followed: `more`, `stop` or `give up`."""

    blocks: int
    half_width: float
    trend_p: float
    action: str


@dataclass(frozen=True)
class Process:
    """One case in one fresh process; `grade` is one of messages.CLASSES.

    `probes` are the times of the platform's fixed work between the submission's calls, in
    microseconds, `first_probes` and `last_probes` those beside the null calls before and after;
    none where there is no probe.
    """

    warm_ups: tuple[Sample, ...]
    nulls: tuple[Sample, ...]
    blocks: tuple[Block, ...]
    looks: tuple[Look, ...]
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

    @property
    def dropped(self) -> int:
        """How many samples were taken and do not count."""
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
        """The p10 of the null calls; zero without any."""
        times = kept_us(self.nulls)
        return quantile(times, 0.1) if times else 0.0

    @property
    def null_spread_us(self) -> float:
        """The p90 of the null calls less their p10; zero without any."""
        times = kept_us(self.nulls)
        return quantile(times, 0.9) - quantile(times, 0.1) if times else 0.0

    @property
    def probe_us(self) -> float:
        """How long the platform's fixed work took in this process; zero without any.

        A submission gains if that seems slow: what it leaves behind may delay the probes between
        its calls, but hardly those before its first call and long after its last.
        """
        if not (self.probes and self.first_probes and self.last_probes):
            return 0.0
        quiet_us = min(median(self.first_probes), median(self.last_probes))
        return min(median(self.probes), _PROBE_FACTOR_MAX * quiet_us)

    @property
    def references(self) -> dict[str, float]:
        """The value of each reference kernel in this process."""
        return reference_values(self.counted)

    @property
    def deviation_max(self) -> float:
        """The largest deviation of a reference kernel from the machine's median, with its sign."""
        return max(self.deviation.values(), key=abs, default=0.0)


def share_of(flag: str, samples: tuple[Sample, ...]) -> float:
    """Which share of samples carries a flag."""
    return sum(flag in sample.flags for sample in samples) / len(samples)


def kept_us(samples: tuple[Sample, ...]) -> list[float]:
    """The times that count: of clean samples, unless too many are not; then of all.

    A spot check's never do, unless there is nothing else.
    """
    ranked = [sample for sample in samples if SPOT not in sample.flags] or list(samples)
    clean = [sample.time_us for sample in ranked if sample.is_clean]
    if len(clean) == len(ranked) or not _is_spoilt(samples):
        return clean
    return [sample.time_us for sample in ranked]


def _is_spoilt(samples: tuple[Sample, ...]) -> bool:
    is_contaminated = share_of(CONTAMINATED, samples) > _CONTAMINATED_MAX
    is_checked_alone = share_of(SPOT, samples) == 1
    return is_contaminated or share_of(DRY, samples) > _DRY_MAX or is_checked_alone


def block_of(
    samples: tuple[Sample, ...],
    references: tuple[Reference, ...],
    wall_s: float,
    policy: Policy,
) -> Block:
    """The block of these samples, with its value."""
    times_us = kept_us(samples)
    if policy.samples_share is not None:
        usual_us = interquartile_mean(times_us)
        value_us = mean_of_fastest(times_us, policy.samples_share, usual_us)
    else:
        value_us = block_value(times_us, policy.timer_step_us)
    return Block(samples, references, wall_s, value_us)


def is_late(blocks: list[Block]) -> bool:
    """Whether too many launches outlasted the gate."""
    samples = tuple(sample for block in blocks for sample in block.samples)
    return share_of(LATE, samples) > _LATE_MAX


def is_bimodal(blocks: list[Block], nulls: tuple[Sample, ...]) -> bool:
    """Whether ordinary slow calls lift the mean by over 1 %, and by 3 times what the machine does.

    What the machine does to everybody shows in the reference kernels and in the null calls. They
    are short, so it is rare in them: it is counted there wholly, while the submission is forgiven
    the slowest 2 %. And a machine stalls now and then: most blocks must show slow calls.
    """
    times = [time for block in blocks for time in block.kept_us]
    middle = interquartile_mean(times)
    excess = skew_us(times)
    machine = [_excess_us(kept_us(nulls))] if nulls else []
    for name, usual in reference_values(blocks).items():
        machine.append(middle * _excess_us(_of_reference(name, blocks)) / usual)
    usual_us = median(_excess_us(block.kept_us) for block in blocks)
    least = max(_SKEW_MIN * middle, _SKEW_FACTOR * max(machine, default=0.0))
    return excess > least and usual_us > _SKEW_MIN * middle


def _excess_us(times: list[float]) -> float:
    return fmean(times) - interquartile_mean(times)


def reference_values(blocks: list[Block]) -> dict[str, float]:
    """The interquartile mean of each reference kernel over these blocks."""
    names = sorted({one.name for block in blocks for one in block.references})
    return {name: interquartile_mean(_of_reference(name, blocks)) for name in names}


def _of_reference(name: str, blocks: list[Block]) -> list[float]:
    return [one.time_us for block in blocks for one in block.references if one.name == name]
