"""How often to measure and when to believe it, for each device and mode."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

PROCESSES = {
    "test": 1,
    "verify": 1,
    "benchmark": 1,
    "profile": 1,
    "ranked": 3,
    "finals": 5,
    "duel": 5,
}
BLOCK_CALLS_MIN = 3
# Of a mode with several processes, where they differ.
_EXTRA_PROCESSES = 2

_SHORT_US = 20.0
_LONG_US = 200_000.0
_SHORT_BLOCK = 100
_REFERENCE_EVERY = 6
_REFERENCES_MAX = 4
_PROBES_MAX = 8
# What slow calls may add to the wall budget of a measurement, as a multiple of it.
_WALL_FACTOR_MAX = 2.0
# Calls differ: what is planned to take the whole budget takes more.
_SHARE = 0.8


@dataclass(frozen=True)
class Policy:
    """What the platform fixes before it sees a submission.

    Units: microseconds, seconds; fractions elsewhere. `looks` counts blocks; `flag_at` is how far
    a reference kernel may be off the machine's median before the pass is called noisy, `refuse_at`
    before it is thrown away; `sigma_run` pairs a time with the run-to-run deviation there;
    `hideable_us` is what a cheat can hide of the handshake, None for the spread of null calls;
    `clock_s` is how long a device's clock is warmed up, at least and at most. Where other work only
    ever adds to times, a block is worth its fastest `samples_share`, and a process its fastest
    `blocks_share`; and while processes differ by more than `spread_max`, up to `extra_processes`
    more are measured, of which the slowest do not count. Spoilt blocks are repeated at most
    `repeats_max` times, and so that all blocks take no longer than `repeats_s`. `wall_s` is what
    the calls may take if all are fast; `wall_s_max` bounds them if some are not.
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
    extra_processes: int = 0
    spread_max: float = inf

    @property
    def wall_s_max(self) -> float:
        """How long blocks may be added after those that are owed, never past the stage's share.

        >>> [policy_for("cpu", "ranked", share_s).wall_s_max for share_s in (60.0, 0.3)]
        [1.0, 0.3]
        """
        return min(_WALL_FACTOR_MAX * self.wall_s, self.repeats_s)

    def calls(self, call_us: float, call_s: float) -> int:
        """How many calls make a block, where one takes `call_us` and `call_s` with all around it.

        The usual number, but so few that the blocks before the first look fit the budgets.

        >>> policy = policy_for("cuda", "ranked")
        >>> policy.calls(5.0, 0.0002), policy.calls(500.0, 0.001), policy.calls(300e3, 0.4)
        (100, 25, 3)
        """
        if call_us > _LONG_US:
            return BLOCK_CALLS_MIN
        usual = _SHORT_BLOCK if call_us < _SHORT_US else self.block_calls
        blocks = self.looks[0]
        by_device = self.device_s * 1e6 / (blocks * call_us) if call_us > 0 else inf
        by_wall = _SHARE * self.wall_s / (blocks * call_s) if call_s > 0 else inf
        return max(BLOCK_CALLS_MIN, int(min(usual, by_device, by_wall)))


def reference_slots(calls: int) -> tuple[int, ...]:
    """After which calls of a block a reference kernel runs: four times, fewer in short blocks.

    >>> reference_slots(25), reference_slots(3)
    ((5, 11, 17, 23), (2,))
    """
    slots = _slots(calls, max(1, min(_REFERENCES_MAX, calls // _REFERENCE_EVERY)))
    return tuple(slot - 1 for slot in slots)


def probe_slots(calls: int) -> tuple[int, ...]:
    """After which calls of a block the probe runs: 8 times, fewer in short blocks.

    >>> probe_slots(25), probe_slots(3)
    ((3, 6, 9, 12, 15, 18, 21, 24), (1, 2, 3))
    """
    return _slots(calls, min(_PROBES_MAX, calls))


def _slots(calls: int, count: int) -> tuple[int, ...]:
    step = calls // count
    return tuple(step * (index + 1) for index in range(count))


def processes_max(mode: str) -> int:
    """How many processes a case is measured in at most.

    >>> processes_max("benchmark"), processes_max("ranked")
    (1, 5)
    """
    count = PROCESSES[mode]
    return count + _EXTRA_PROCESSES if count > 1 else count


def policy_for(device: str, mode: str, wall_s: float | None = None) -> Policy:
    """The policy of a device in a mode; `wall_s` is what the stage has for a case and process.

    Errors: KeyError for a device or mode that nobody has made a policy for.
    """
    policy = replace(_RANKED[_LIKE.get(device, device)], device=device)
    if mode not in ("ranked", "finals", "duel"):
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
# Its clock and its neighbours move all that runs there, and no other machine would be quieter: so a
# reference that is off makes a pass noisy and its interval wider, but never void.
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
    sigma_run=((111.0, 0.095), (600.0, 0.0185), (5500.0, 0.004)),
    timer_step_us=0.05,
    hideable_us=30.0,
    warm_ups=(2, 5),
    nulls=20,
    samples_share=0.25,
    blocks_share=0.5,
    extra_processes=_EXTRA_PROCESSES,
    spread_max=0.02,
)
# Predicted, not measured: see docs/timing.md for what has to pass before these are believed.
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
_RANKED = {"cpu": _CPU, "cuda": _CUDA}
_LIKE = {"hip": "cuda"}
