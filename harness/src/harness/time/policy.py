"""How often to measure, for each device and mode: decided before a submission is seen."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import hypot, sqrt
from typing import Any

from harness.vocabulary import MODES

_BLOCK_CALLS_MIN = 4
# A noisy machine does not become precise by as much more time as it has had.
_FUTILE_FACTOR = 3.0


@dataclass(frozen=True)
class Policy:
    """How a case is measured. Units: microseconds, seconds; fractions elsewhere.

    A case is measured in `processes` fresh processes, and up to `processes_max` if these are not
    precise. In each, pairs of blocks are measured until one of the `looks` (numbers of pairs)
    finds the interval within the `precision`, or until `wall_s`. A block takes about `block_us`,
    with at most `calls_max` calls. Fresh processes differ by `sigma` at least, as the standard
    deviation of ln(ratio), and their calls by `sigma_us` microseconds. `hideable_us` is what a
    cheat can hide of the handshake, None for the spread of null calls. `clock_s` is the minimum and
    maximum time to warm up a device's clock.
    """

    device: str
    processes: int
    processes_max: int
    looks: tuple[int, ...]
    precision: float
    wall_s: float
    block_us: float
    calls_max: int
    sigma: float
    sigma_us: float
    timer_step_us: float
    hideable_us: float | None
    nulls: int
    warm_ups: tuple[int, int] = (2, 4)
    clock_s: tuple[float, float] = (0.0, 0.0)
    pause_s: float = 0.0

    def calls(self, call_us: float) -> int:
        """Return how many calls make a block, if one takes `call_us`; the first does not count.

        The blocks of one side before the first look fit half of the time.

        >>> policy = policy_for("cpu", "ranked")
        >>> [policy.calls(call_us) for call_us in (10.0, 1000.0, 10e3, 60e3)]
        [25, 8, 4, 2]
        """
        if call_us <= 0:
            return self.calls_max
        usual = max(_BLOCK_CALLS_MIN, int(self.block_us / call_us))
        fitting = int(0.5e6 * self.wall_s / (self.looks[0] * call_us))
        return max(1, min(self.calls_max, usual, fitting))

    def is_futile(self, half_width: float) -> bool:
        """Return whether more of the same cannot reach the precision.

        >>> policy_for("cpu", "ranked").is_futile(0.04), policy_for("cpu", "ranked").is_futile(0.02)
        (True, False)
        """
        return half_width > _FUTILE_FACTOR * self.precision

    def sigma_at(self, time_us: float) -> float:
        """Return how much fresh processes differ at least, for the shorter of two times.

        >>> round(policy_for("cpu", "ranked").sigma_at(200.0), 4)
        0.0108
        """
        return hypot(self.sigma, self.sigma_us / time_us)

    @property
    def target(self) -> float:
        """The half width to reach within each process.

        The mean of several processes is more precise than each of them. A part is left for how
        processes differ.
        """
        return 0.8 * self.precision * sqrt(self.processes)


def policy_for(device: str, mode: str, precision: float = 0.0) -> Policy:
    """Return the policy of a device in a mode; `precision` replaces the mode's own unless it is 0.

    Raises KeyError for an unknown device or mode.
    """
    policy = replace(_RANKED[device], device=device, processes=MODES[mode].processes)
    if mode == "duel":
        policy = replace(policy, processes_max=policy.processes, looks=_DUEL_LOOKS)
    elif mode != "ranked":
        policy = replace(policy, **_QUICK)
    if precision:
        policy = replace(policy, precision=precision)
    return policy


_LOOKS = (6, 9, 14, 21, 32)
# The n-th pairs of all cases make a pair of scores, so all cases have equally many.
_DUEL_LOOKS = (8,)
_QUICK: Mapping[str, Any] = {
    "processes_max": 1,
    "looks": (5, *_LOOKS[1:]),
    "precision": 0.05,
    "wall_s": 0.8,
    "warm_ups": (2, 2),
}
_CPU = Policy(
    device="cpu",
    processes=3,
    processes_max=5,
    looks=_LOOKS,
    precision=0.01,
    wall_s=2.0,
    block_us=8_000.0,
    calls_max=25,
    sigma=0.004,
    sigma_us=2.0,
    timer_step_us=0.05,
    # A call of no work takes 4 us longer than one that compiled code answers by itself: measured by
    # the cheat native_answers (2 cores, 2026-11).
    hideable_us=10.0,
    nulls=20,
)
# Predicted, not measured: docs/timing.md lists what has to pass before these can be trusted.
_CUDA = Policy(
    device="cuda",
    processes=3,
    processes_max=5,
    looks=_LOOKS,
    precision=0.0025,
    wall_s=5.0,
    block_us=10_000.0,
    calls_max=100,
    sigma=0.0015,
    sigma_us=3.5,
    timer_step_us=0.032,
    hideable_us=None,
    nulls=60,
    clock_s=(0.2, 2.0),
    pause_s=5.0,
)
_RANKED = {"cpu": _CPU, "cuda": _CUDA, "hip": _CUDA}
