"""What is known before a measurement: the policy, and what the machine has measured before.

A policy says how often to measure and when to trust the result, for each device and mode. A
history has reference kernels, null calls and the deviation of the machine itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import exp, inf, log
from statistics import median
from typing import Any

PROCESSES = {
    "test": 1,
    "verify": 1,
    "benchmark": 1,
    "profile": 1,
    "ranked": 3,
    "duel": 5,
}
BLOCK_CALLS_MIN = 3
# For a mode with several processes, if the machine was hardly ever quiet.
_EXTRA_PROCESSES = 2

_SHORT_US = 20.0
_LONG_US = 200_000.0
_SHORT_BLOCK = 100
_REFERENCE_EVERY = 6
_REFERENCES_MAX = 4
_PROBES_MAX = 8
# What slow calls may add to the wall budget of a measurement, as a multiple of it.
_WALL_FACTOR_MAX = 2.0
# Calls differ: a plan for the whole budget would exceed it.
_PLANNED_SHARE = 0.8

PASSES_MAX = 50
PASSES_MIN = 5
SHAPES_MAX = 64
_VERSION = 1
# Bounds of plausible times and deviations; they also keep the arithmetic finite.
_VALUE_MIN, _VALUE_MAX = 1e-9, 1e12

RecentValues = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Policy:
    """What the platform decides before it sees a submission.

    Units: microseconds, seconds; fractions elsewhere. `looks` counts blocks. `flag_at` is how far a
    reference kernel may deviate from the machine's median before the pass is called noisy,
    `refuse_at` before it is discarded. `sigma_run` pairs a time with the deviation of a process
    there. `hideable_us` is what a cheat can hide of the handshake, None for the spread of null
    calls. `clock_s` is the minimum and maximum time to warm up a device's clock. Where other work
    can only add to times, a block's value is its fastest `samples_share`, a process's its fastest
    `blocks_share`, and a case's the fastest `quiet_share` of its quiet calls; if it has fewer than
    `quiet_calls` of these, up to `extra_processes` more are measured. Spoilt blocks are repeated at
    most `repeats_max` times, within `repeats_s` for all blocks. `wall_s` is what the calls may take
    if all are fast; `wall_s_max` bounds them if some are not.
    """

    device: str
    processes: int
    looks: tuple[int, ...]
    block_calls: int
    target: float
    device_s: float
    wall_s: float
    wall_s_min: float
    flag_at: Mapping[str, float]
    refuse_at: Mapping[str, float]
    sigma_run: tuple[tuple[float, float], ...]
    timer_step_us: float
    hideable_us: float | None
    warm_ups: tuple[int, int] = (3, 6)
    nulls: int = 60
    repeats_max: int = 8
    repeats_s: float = inf
    pause_s: float = 0.0
    clock_s: tuple[float, float] = (0.0, 0.0)
    samples_share: float | None = None
    blocks_share: float = 1.0
    quiet_share: float | None = None
    quiet_calls: int = 0
    extra_processes: int = 0

    @property
    def wall_s_max(self) -> float:
        """How long blocks may be added after the required ones, within the stage's share.

        >>> [policy_for("cpu", "ranked", share_s).wall_s_max for share_s in (60.0, 0.3)]
        [1.0, 0.3]
        """
        return min(_WALL_FACTOR_MAX * self.wall_s, self.repeats_s)

    def calls(self, call_us: float, call_s: float) -> int:
        """Return how many calls make a block, if one takes `call_us`, and `call_s` in all.

        The usual number, but few enough that the blocks before the first look fit the budgets.

        >>> policy = policy_for("cuda", "ranked")
        >>> policy.calls(5.0, 0.0002), policy.calls(500.0, 0.001), policy.calls(300e3, 0.4)
        (100, 25, 3)
        """
        if call_us > _LONG_US:
            return BLOCK_CALLS_MIN
        usual_calls = _SHORT_BLOCK if call_us < _SHORT_US else self.block_calls
        blocks = self.looks[0]
        by_device = self.device_s * 1e6 / (blocks * call_us) if call_us > 0 else inf
        by_wall = _PLANNED_SHARE * self.wall_s / (blocks * call_s) if call_s > 0 else inf
        return max(BLOCK_CALLS_MIN, int(min(usual_calls, by_device, by_wall)))


def reference_slots(calls: int) -> tuple[int, ...]:
    """Return after which calls of a block a reference kernel runs: 4 times, fewer in short blocks.

    >>> reference_slots(25), reference_slots(3)
    ((5, 11, 17, 23), (2,))
    """
    count = max(1, min(_REFERENCES_MAX, calls // _REFERENCE_EVERY))
    return tuple(calls // count * (index + 1) - 1 for index in range(count))


def probe_slots(calls: int) -> tuple[int, ...]:
    """Return after which calls of a block the probe runs: 8 times, fewer in short blocks.

    >>> probe_slots(25), probe_slots(3)
    ((3, 6, 9, 12, 15, 18, 21, 25), (1, 2, 3))
    """
    count = min(_PROBES_MAX, calls)
    return tuple(calls * (index + 1) // count for index in range(count))


def policy_for(device: str, mode: str, wall_s: float | None = None) -> Policy:
    """Return the policy of a device in a mode; `wall_s` is the stage's time per case and process.

    Raises KeyError for an unknown device or mode.
    """
    policy = replace(_RANKED[device], device=device)
    if mode not in ("ranked", "duel"):
        policy = replace(policy, **_QUICK)
    if wall_s is not None:
        policy = replace(policy, wall_s=min(policy.wall_s, wall_s), repeats_s=wall_s)
    return replace(policy, processes=PROCESSES[mode])


_QUICK: Mapping[str, Any] = {
    "looks": (5, 8),
    "block_calls": 20,
    "target": 0.01,
    "device_s": 0.3,
    "warm_ups": (3, 3),
    "extra_processes": 0,
}

# Run-to-run deviations of the cpu device: 20 fresh runs each on a shared two-core machine, 2026-11.
# Its clock and its neighbours affect everything on it, and another machine would be no quieter. So
# a deviating reference makes a pass noisy and its interval wider, but never invalid.
_CPU = Policy(
    device="cpu",
    processes=3,
    looks=(5, 8, 12, 18, 27, 40),
    block_calls=25,
    target=0.01,
    device_s=0.7,
    wall_s=0.5,
    wall_s_min=0.1,
    flag_at={"fma": 0.02, "copy": 0.02},
    refuse_at={},
    sigma_run=((111.0, 0.095), (600.0, 0.0185), (2250.0, 0.013), (5500.0, 0.004)),
    timer_step_us=0.05,
    hideable_us=30.0,
    warm_ups=(2, 5),
    nulls=20,
    samples_share=0.25,
    blocks_share=0.5,
    quiet_share=0.1,
    quiet_calls=60,
    extra_processes=_EXTRA_PROCESSES,
)
# Predicted, not measured: docs/timing.md lists what has to pass before these can be trusted.
_CUDA = Policy(
    device="cuda",
    processes=3,
    looks=(8, 12, 18, 27, 40),
    block_calls=25,
    target=0.0025,
    device_s=2.0,
    wall_s=5.0,
    wall_s_min=0.1,
    flag_at={"fma": 0.007, "copy": 0.005},
    refuse_at={"fma": 0.007, "copy": 0.005},
    sigma_run=((5.0, 0.015), (20.0, 0.005), (100.0, 0.002), (1000.0, 0.0015)),
    timer_step_us=0.032,
    hideable_us=None,
    clock_s=(0.2, 2.0),
    pause_s=5.0,
)
_RANKED = {"cpu": _CPU, "cuda": _CUDA, "hip": _CUDA}


@dataclass(frozen=True)
class History:
    """The last good passes of one machine: one history per fingerprint of hardware and software.

    `references` are values by kernel and `nulls` the p10 of null calls by shape, newest last;
    `sigma_run` are run-to-run deviations by time, if an operator has measured them. They never come
    from submissions, because a noisy one would make everybody tied. `probes` are those of the first
    good passes and never change, because times are reported in units of that probe.
    """

    references: RecentValues = field(default_factory=dict)
    nulls: RecentValues = field(default_factory=dict)
    probes: tuple[float, ...] = ()
    sigma_run: tuple[tuple[float, float], ...] = ()

    def with_pass(
        self, references: Mapping[str, float], shape: str, null_us: float, probe_us: float = 0.0
    ) -> "History":
        """Return this history with one more good pass; a time of 0 is ignored."""
        recent = dict(self.references)
        for name, value in references.items():
            recent[name] = (*recent.get(name, ()), value)[-PASSES_MAX:]
        nulls = dict(self.nulls)
        if null_us > 0:
            # The most recently used shape goes last, so that unused ones are dropped first.
            nulls[shape] = (*nulls.pop(shape, ()), null_us)[-PASSES_MAX:]
        probes = self.probes
        if probe_us > 0 and len(probes) < PASSES_MIN:
            probes = (*probes, probe_us)
        return replace(self, references=recent, nulls=_keep_newest(nulls), probes=probes)

    @property
    def probe_us(self) -> float | None:
        """The usual time of the platform's fixed work here; None until enough is known."""
        return _median(self.probes)

    def reference_us(self, name: str) -> float | None:
        """Return the rolling median of a reference kernel; None until enough is known."""
        return _median(self.references.get(name, ()))

    def null_us(self, shape: str) -> float | None:
        """Return the rolling median of the null calls' p10; None until enough is known."""
        return _median(self.nulls.get(shape, ()))

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a file, at most about 70 kB of text."""
        return {"version": _VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, body: Any) -> "History":
        """Return the history from plain values. Raises ValueError for anything else."""
        try:
            version = body["version"]
            references, nulls = (
                {
                    key: tuple(map(_parse_positive, values[-PASSES_MAX:]))
                    for key, values in body[name].items()
                }
                for name in ("references", "nulls")
            )
            # Files of earlier versions have no probes.
            probes = tuple(map(_parse_positive, body.get("probes", ())[:PASSES_MIN]))
            pairs = [(_parse_positive(time), _parse_positive(sd)) for time, sd in body["sigma_run"]]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a history of a machine: {str(body)[:200]!r}") from error
        if version != _VERSION:
            raise ValueError(f"not a history of version {_VERSION}: its version is {version!r}")
        return cls(
            _keep_newest(references), _keep_newest(nulls), probes, tuple(sorted(pairs)[:PASSES_MAX])
        )


def interpolate_sigma(table: Iterable[tuple[float, float]], time_us: float) -> float:
    """Return the run-to-run deviation at a time, by log-linear interpolation."""
    ordered = sorted(table)
    if time_us <= ordered[0][0]:
        return ordered[0][1]
    for (low, sd_low), (high, sd_high) in pairwise(ordered):
        if time_us < high:
            fraction = log(time_us / low) / log(high / low)
            return exp((1 - fraction) * log(sd_low) + fraction * log(sd_high))
    return ordered[-1][1]


def _median(values: tuple[float, ...]) -> float | None:
    return median(values) if len(values) >= PASSES_MIN else None


def _keep_newest(recent: RecentValues) -> dict[str, tuple[float, ...]]:
    return dict(list(recent.items())[-SHAPES_MAX:])


def _parse_positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    if not _VALUE_MIN <= value <= _VALUE_MAX:
        raise ValueError(f"{value!r} is not between {_VALUE_MIN} and {_VALUE_MAX}")
    return float(value)
