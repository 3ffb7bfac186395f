"""What a GPU referee decides, apart from any driver: tier, way to reveal, alarms, sizes.

Everything here is a function of plain numbers, so that it is tested without a GPU.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MIB = 1024**2

# Inputs so small are copied inside the window: the copy costs less than the doubt.
STRICT_BYTES_MAX = MIB
# One call in so many is revealed strictly, at random, as a check on the blanket.
SPOT_CHECK_ODDS = 8
# A coarser timer cannot tell the stamps of short kernels apart.
STAMP_STEP_NS_MAX = 100
SUSPICIOUS_RATIO = 1.1
# Fewer calls of a kind are no evidence: one of them may have met a stall of the machine.
SUSPICIOUS_CALLS_MIN = 3
BATCH_US_MAX = 20.0

# NVML's reasons for a clock below its maximum that are no sign of ill health: idle, application
# clocks, software power cap, sync boost, display. The others slow a machine down unevenly.
_SLOWDOWNS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
# The last-level cache by a piece of the device's name; what a driver reports can leave a level out.
_FLUSH_MIB = {"GB200": 256, "B200": 256, "H200": 128, "H100": 128, "MI300X": 512}
_BLANKET_COMPUTE_MIN = (8, 0)
_TIERS = ("G0", "G3", "G2", "G1")


@dataclass(frozen=True)
class Abilities:
    """What was tried on this machine and found to work.

    `has_memops`: a stream can wait for a word of memory; `shares_memory`: device memory crosses
    processes as a file descriptor; `runs_beside`: two contexts run at once (MPS); `is_frozen`: the
    worker can be stopped; `compute`: the device's compute capability.
    """

    has_memops: bool
    shares_memory: bool
    runs_beside: bool
    is_frozen: bool
    compute: tuple[int, int]


@dataclass(frozen=True)
class Shot:
    """One call as the referee's clocks saw it. Units: microseconds.

    `way` is how its inputs were revealed: blanket, strict, or host where there is no gate; of
    several ranks it is the slowest one's, and all of them started within `stagger_us`.
    """

    way: str
    time_us: float
    stamps_us: float
    events_us: float
    is_armed: bool
    stagger_us: float = 0.0

    @property
    def flags(self) -> tuple[str, ...]:
        """What a record says: a spot does not rank, and of a late one the launch is in the time."""
        said = []
        if self.way == "spot":
            said.append("spot")
        if not self.is_armed:
            said.append("late")
        if self.clocks_disagree:
            said.append("clocks_disagree")
        return tuple(said)

    @property
    def clocks_disagree(self) -> bool:
        """An alarm: the events saw another time than the stamps, which lie beside them."""
        return abs(self.stamps_us - self.events_us) > max(10.0, 0.05 * self.stamps_us)


@dataclass(frozen=True)
class Vitals:
    """What NVML says of a device now; `foreign` are the compute processes that are not ours."""

    sm_mhz: int
    memory_mhz: int
    temperature_c: int
    power_w: float
    reasons: int
    ecc_errors: int
    used_bytes: int
    foreign: tuple[int, ...]


def tier_of(able: Abilities) -> str:
    """The best timing tier that the machine can keep.

    >>> tier_of(Abilities(True, True, True, True, (9, 0)))
    'G1'
    >>> tier_of(Abilities(True, True, False, True, (9, 0)))
    'G2'
    """
    if not able.shares_memory:
        return "G0"
    if not able.has_memops:
        return "G3"
    # Before 8.0 a block does not pay for a share of the memory that the blanket takes whole, so
    # another's block could live beside it.
    is_alone = able.runs_beside and able.compute >= _BLANKET_COMPUTE_MIN
    return "G1" if is_alone and able.is_frozen else "G2"


def lowest(tiers: Iterable[str]) -> str:
    """What several GPUs keep together.

    >>> lowest(["G2", "G3"])
    'G3'
    """
    return min(tiers, key=_TIERS.index)


def way_of(tier: str, input_bytes: int, draw: int) -> str:
    """How one call's inputs are revealed; `draw` is a random number that nobody foresees.

    A `spot` is strict where others are blankets: its sample checks theirs and is not ranked.

    >>> way_of("G1", 64 * MIB, 1), way_of("G1", 64 * MIB, 8), way_of("G1", 4096, 1)
    ('blanket', 'spot', 'strict')
    >>> way_of("G2", 64 * MIB, 1)
    'strict'
    """
    if tier != "G1" or input_bytes <= STRICT_BYTES_MAX:
        return "strict"
    return "blanket" if draw % SPOT_CHECK_ODDS else "spot"


def suspicion(shots: Sequence[Shot], copy_us: float, null_spread_us: float) -> str:
    """Why a case's calls are to be looked at, or nothing.

    Whoever works before the reveal is slower in the calls where that is impossible. `copy_us` is
    what revealing the inputs takes by itself, `null_spread_us` p90 - p10 of calls with no work.
    """
    strict = [shot.time_us for shot in shots if shot.way == "spot"]
    blanket = [shot.time_us for shot in shots if shot.way == "blanket"]
    if min(len(strict), len(blanket)) < SUSPICIOUS_CALLS_MIN:
        return ""
    slow = statistics.median(strict) - copy_us
    bound = SUSPICIOUS_RATIO * statistics.median(blanket) + null_spread_us
    if slow <= bound:
        return ""
    return (
        f"{slow:.1f} us where nothing can be seen beforehand, "
        f"at most {bound:.1f} us expected from the other calls"
    )


def flush_bytes(name: str, cache_bytes: int) -> int:
    """How much memory a flush sweeps, twice the cache at least.

    >>> flush_bytes("NVIDIA H200", 60 * MIB) // MIB, flush_bytes("NVIDIA A100", 40 * MIB) // MIB
    (128, 80)
    """
    known = next((size for part, size in _FLUSH_MIB.items() if part in name), 0)
    return max(2 * cache_bytes, known * MIB, 32 * MIB)


def architecture(compute: tuple[int, int]) -> str:
    """What a compiler calls a device's machine code, with its own instructions where it has some.

    >>> architecture((8, 0)), architecture((9, 0))
    ('sm_80', 'sm_90a')
    """
    major, minor = compute
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def clock_of(step_ns: int) -> str:
    """Which clock ranks: stamps of the device's timer where it is fine enough, else events.

    >>> clock_of(32), clock_of(1000)
    ('stamps', 'events')
    """
    return "stamps" if 0 < step_ns <= STAMP_STEP_NS_MAX else "events"


def bounded(claim_us: float, wall_us: float, null_us: tuple[float, float]) -> float:
    """A worker's own time where the trusted clock bears it out, else what that clock allows.

    `null_us` are median and p99 of calls with no work, by the wall clock.

    >>> bounded(90.0, 100.0, (12.0, 20.0)), bounded(10.0, 100.0, (12.0, 20.0))
    (90.0, 88.0)
    """
    median_us, late_us = null_us
    if wall_us - late_us <= claim_us <= wall_us:
        return claim_us
    return wall_us - median_us


def unfit(vitals: Vitals, ecc_errors_before: int) -> str:
    """Why a pass on this device is to be thrown away, or nothing."""
    for bit, name in _SLOWDOWNS.items():
        if vitals.reasons & bit:
            return f"the device reports {name} at {vitals.temperature_c} C"
    if vitals.ecc_errors > ecc_errors_before:
        return f"{vitals.ecc_errors - ecc_errors_before} uncorrected memory errors are new"
    if vitals.foreign:
        others = ", ".join(map(str, vitals.foreign))
        return f"other processes compute on the device: {others}"
    return ""


def batch_size(time_us: float, set_bytes: int, cache_bytes: int) -> int:
    """How many input sets a batch reveals together: 400 us of work, and three times the cache.

    >>> batch_size(5.0, 4 * MIB, 60 * MIB), batch_size(5.0, MIB // 64, 60 * MIB)
    (80, 512)
    """
    by_time = -(-400.0 // time_us)
    by_cache = -(-3 * cache_bytes // max(1, set_bytes)) + 1
    return int(min(512, max(8, by_time, by_cache)))
