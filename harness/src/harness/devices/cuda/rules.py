"""The decisions of a GPU referee without any driver: tier, reveal, alarms, sizes.

Everything here is a function of plain numbers, so it can be tested without a GPU.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.gpus import gpu_specs

MIB = 1024**2

# Inputs this small are copied while the clock runs; the copy costs less than any doubt.
STRICT_BYTES_MAX = MIB
# One call in this many, at random, is revealed strictly, as a check on the blanket.
SPOT_CHECK_ODDS = 8
# A coarser timer cannot separate the stamps of short kernels.
STAMP_STEP_NS_MAX = 100
SUSPICIOUS_RATIO = 1.1
# Fewer calls of a kind are no evidence: the machine may have stalled during one of them.
SUSPICIOUS_CALLS_MIN = 3
BATCH_US_MAX = 20.0

# NVML's reasons for a lower clock that slow a machine down unevenly. The other ones are harmless:
# idle, application clocks, software power cap, sync boost, display.
_SLOWDOWNS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
_BLANKET_COMPUTE_MIN = (8, 0)
# What the driver answers in a context that a kernel has broken, not the machine.
KERNEL_FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_LAUNCH_FAILED",
}
_TIERS = ("G0", "G3", "G2", "G1")


@dataclass(frozen=True)
class Abilities:
    """What was tried on this machine and works.

    `has_memops`: a stream can wait for a word of memory; `shares_memory`: device memory crosses
    processes as a file descriptor; `runs_beside`: two contexts run at once (MPS); `is_frozen`: the
    worker can be frozen; `compute`: the device's compute capability.
    """

    has_memops: bool
    shares_memory: bool
    runs_beside: bool
    is_frozen: bool
    compute: tuple[int, int]


@dataclass(frozen=True)
class CallTiming:
    """One call as the referee's clocks measured it, in microseconds.

    `way` is how its inputs were revealed: blanket, strict, spot, or host where there is no gate. Of
    several ranks it is the slowest one's, and all ranks started within `stagger_us`.
    """

    way: str
    time_us: float
    stamps_us: float
    events_us: float
    is_armed: bool
    stagger_us: float = 0.0

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags for a record: a spot does not rank; a late launch is part of the time."""
        flags = []
        if self.way == "spot":
            flags.append("spot")
        if not self.is_armed:
            flags.append("late")
        if self.clocks_disagree:
            flags.append("clocks_disagree")
        return tuple(flags)

    @property
    def clocks_disagree(self) -> bool:
        """Whether events and stamps, which lie side by side, measured different times."""
        return abs(self.stamps_us - self.events_us) > max(10.0, 0.05 * self.stamps_us)


@dataclass(frozen=True)
class DeviceHealth:
    """What NVML reports about a device; `foreign` are compute processes that are not ours."""

    temperature_c: int
    reasons: int
    ecc_errors: int
    foreign: tuple[int, ...]


def choose_tier(able: Abilities) -> str:
    """Return the best timing tier that the machine can provide."""
    if not able.shares_memory:
        return "G0"
    if not able.has_memops:
        return "G3"
    # Before 8.0, other blocks need no part of the shared memory that the blanket takes completely,
    # so another context's block could run beside it.
    is_alone = able.runs_beside and able.compute >= _BLANKET_COMPUTE_MIN
    return "G1" if is_alone and able.is_frozen else "G2"


def lowest_tier(tiers: Iterable[str]) -> str:
    """Return the tier that several GPUs provide together.

    >>> lowest_tier(["G2", "G3"])
    'G3'
    """
    return min(tiers, key=_TIERS.index)


def choose_reveal(tier: str, input_bytes: int, draw: int) -> str:
    """Return how one call's inputs are revealed; `draw` is an unpredictable random number.

    A `spot` is strict where others are blankets: it checks the other samples and is not ranked.
    """
    if tier != "G1" or input_bytes <= STRICT_BYTES_MAX:
        return "strict"
    return "blanket" if draw % SPOT_CHECK_ODDS else "spot"


def find_suspicion(shots: Sequence[CallTiming], copy_us: float, null_spread_us: float) -> str:
    """Return why a case's calls are suspicious, "" if they are not.

    A submission that works before the reveal is slower in calls where that is impossible.
    `copy_us` is the time to reveal the inputs, `null_spread_us` p90 - p10 of empty calls.
    """
    strict = [timing.time_us for timing in shots if timing.way == "spot"]
    blanket = [timing.time_us for timing in shots if timing.way == "blanket"]
    if min(len(strict), len(blanket)) < SUSPICIOUS_CALLS_MIN:
        return ""
    strict_us = statistics.median(strict) - copy_us
    bound = SUSPICIOUS_RATIO * statistics.median(blanket) + null_spread_us
    if strict_us <= bound:
        return ""
    return (
        f"{strict_us:.1f} us in calls whose input was hidden until the start, "
        f"but at most {bound:.1f} us expected from the other calls"
    )


def flush_bytes(name: str, cache_bytes: int) -> int:
    """Return how much memory a flush sweeps: at least twice the cache.

    That of the data sheet counts too, since drivers may report a smaller level.
    """
    known_bytes = [spec.cache_bytes for spec in gpu_specs() if spec.name in name.replace(" ", "")]
    return max(2 * max(cache_bytes, *known_bytes, 0), 32 * MIB)


def architecture_name(compute: tuple[int, int]) -> str:
    """Return a compiler's name for a device's machine code, with specific instructions if any.

    >>> architecture_name((8, 0)), architecture_name((9, 0))
    ('sm_80', 'sm_90a')
    """
    major, minor = compute
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def choose_clock(step_ns: int) -> str:
    """Return which clock ranks: the device's timer if it is fine enough, else events."""
    return "stamps" if 0 < step_ns <= STAMP_STEP_NS_MAX else "events"


def find_unfitness(health: DeviceHealth, ecc_errors_before: int) -> str:
    """Return why a pass on this device must be discarded, "" if it need not."""
    for bit, name in _SLOWDOWNS.items():
        if health.reasons & bit:
            return f"the device reports {name} at {health.temperature_c} C"
    if health.ecc_errors > ecc_errors_before:
        return f"{health.ecc_errors - ecc_errors_before} uncorrected memory errors are new"
    if health.foreign:
        others = ", ".join(map(str, health.foreign))
        return f"other processes compute on the device: {others}"
    return ""


def batch_size(time_us: float, set_bytes: int, cache_bytes: int) -> int:
    """Return how many input sets a batch reveals: 400 us of work, and three times the cache."""
    by_time = -(-400.0 // time_us)
    by_cache = -(-3 * cache_bytes // max(1, set_bytes)) + 1
    return int(min(512, max(8, by_time, by_cache)))
